"""What a file may contain, as types that both read located nodes and print themselves as JSON Schema.

A type reads a node into a value and reports every problem it meets to the `Reader` at its place, so that one run
shows all errors of a file. The same objects give the JSON Schema for editors: the two cannot differ. Keys that begin
with ``x-`` are free for users everywhere.
"""

from __future__ import annotations

from typing import Any, Protocol

from roofline.dtypes import DTYPES
from roofline.errors import did_you_mean
from roofline.records import dataclass
from roofline.spec.reader import INVALID, Reader, came_to, expression_value, kind, scalar
from roofline.spec.scalars import as_bool, as_float, as_int, as_text
from roofline.spec.source import ListNode, MapNode, Node, Scalar
from roofline.units import Dimension, parse_quantity


class Type(Protocol):
    """Anything that reads a node and describes itself."""

    def read(self, node: Node, reader: Reader) -> Any:
        """The value, or INVALID after reporting why not."""

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of what `read` accepts."""


# --------------------------------------------------------------------------- scalars
@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    wanted: str = "text"

    def read(self, node: Node, reader: Reader) -> Any:
        """The text as written."""
        return _converted(node, reader, self.wanted, as_text)

    def json_schema(self) -> dict[str, Any]:
        """Text, or a number that is read as text."""
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]

    def read(self, node: Node, reader: Reader) -> Any:
        """The word."""
        found = scalar(node, reader, " or ".join(self.options))
        if found is None:
            return INVALID
        if found.text in self.options:
            return found.text
        close = did_you_mean(found.text, self.options)
        known = "" if close.startswith("known:") else f" (known: {', '.join(self.options)})"
        return reader.fail(node, f"unknown value '{found.text}'; {close}{known}")

    def json_schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class DtypeName:
    """The name of a number format, of those that may stand there."""

    names: tuple[str, ...] = tuple(DTYPES)

    def read(self, node: Node, reader: Reader) -> Any:
        """The name."""
        found = scalar(node, reader, "a dtype")
        if found is None:
            return INVALID
        if found.text in self.names:
            return found.text
        if found.text in DTYPES:
            return reader.fail(node, f"{found.text} has no place here: a format is one of {', '.join(self.names)}")
        return reader.fail(node, f"unknown dtype '{found.text}'; {did_you_mean(found.text, self.names)}")

    def json_schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"enum": list(self.names)}


def _converted(node: Node, reader: Reader, wanted: str, convert: Any) -> Any:
    found = scalar(node, reader, wanted)
    if found is None:
        return INVALID
    try:
        return convert(found)
    except ValueError as err:
        return reader.fail(node, str(err))


@dataclass(frozen=True, slots=True)
class Bool:
    """True or false."""

    def read(self, node: Node, reader: Reader) -> Any:
        """The truth value."""
        return _converted(node, reader, "true or false", as_bool)

    def json_schema(self) -> dict[str, Any]:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within limits."""

    minimum: int = 0
    maximum: int | None = None

    def read(self, node: Node, reader: Reader) -> Any:
        """The number."""
        value = _converted(node, reader, "a whole number", as_int)
        if value is INVALID:
            return value
        if value < self.minimum or (self.maximum is not None and value > self.maximum):
            if self.minimum == self.maximum:
                return reader.fail(node, f"{value} is not known here; write {self.minimum}")
            top = "" if self.maximum is None else f" and at most {self.maximum}"
            return reader.fail(node, f"{value} is out of range: at least {self.minimum}{top}")
        return value

    def json_schema(self) -> dict[str, Any]:
        """An integer with its limits."""
        top = {} if self.maximum is None else {"maximum": self.maximum}
        return {"type": "integer", "minimum": self.minimum, **top}


@dataclass(frozen=True, slots=True)
class Real:
    """A finite number from ``minimum`` to ``maximum``; ``above`` excludes the minimum itself."""

    minimum: float | None = None
    maximum: float | None = None
    above: bool = False

    def read(self, node: Node, reader: Reader) -> Any:
        """The number."""
        value = _converted(node, reader, "a number", as_float)
        return value if value is INVALID else self._ranged(value, node, reader)

    def _ranged(self, value: float, node: Node, reader: Reader) -> Any:
        low = self.minimum is not None and (value < self.minimum or (self.above and value == self.minimum))
        high = self.maximum is not None and value > self.maximum
        return reader.fail(node, f"{value:g} is out of range: {self.describe()}") if low or high else value

    def describe(self) -> str:
        """The range in words."""
        parts = []
        if self.minimum is not None:
            parts.append(f"{'above' if self.above else 'at least'} {self.minimum:g}")
        if self.maximum is not None:
            parts.append(f"at most {self.maximum:g}")
        return " and ".join(parts) or "any finite number"

    def json_schema(self) -> dict[str, Any]:
        """A number with its limits."""
        schema: dict[str, Any] = {"type": "number"}
        if self.minimum is not None:
            schema["exclusiveMinimum" if self.above else "minimum"] = self.minimum
        if self.maximum is not None:
            schema["maximum"] = self.maximum
        return schema


SMALLEST, LARGEST = 1e-30, 1e30
"""Quantities outside, in SI units, are mistakes, and arithmetic on them would overflow."""


def in_range(value: float, node: Node, reader: Reader) -> Any:
    """A quantity in SI units, or INVALID after reporting that it is none of this world."""
    if SMALLEST <= value <= LARGEST:
        return value
    return reader.fail(node, f"{value:g} in SI units is out of range: from {SMALLEST:g} to {LARGEST:g}")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, read into SI units."""

    dimension: Dimension
    allow_zero: bool = False

    def read(self, node: Node, reader: Reader) -> Any:
        """The value in SI units."""
        wanted = f"a quantity in {self.dimension.si}"
        value = _converted(node, reader, wanted, lambda s: parse_quantity(s.text, self.dimension, allow_zero=self.allow_zero))
        return value if value is INVALID or value == 0 else in_range(value, node, reader)

    def json_schema(self) -> dict[str, Any]:
        """Text with a unit."""
        return {"type": "string", "description": f"a quantity in {self.dimension.si}, such as '{self.dimension.example}'"}


@dataclass(frozen=True, slots=True)
class Dim:
    """A whole number, or an expression over the workload's params that gives one."""

    minimum: int = 1

    def read(self, node: Node, reader: Reader) -> Any:
        """The number."""
        value = expression_value(node, reader)
        if value is INVALID:
            return value
        if isinstance(value, float):
            if not value.is_integer():
                return reader.fail(node, f"expected a whole number, but the expression gives {value:g}")
            value = int(value)
        if value < self.minimum:
            return reader.fail(node, f"{came_to(node, value, reader)} is out of range: at least {self.minimum}")
        return value if value < 2**63 else reader.fail(node, f"{came_to(node, value, reader)} is too large for a count (2**63 or more)")

    def json_schema(self) -> dict[str, Any]:
        """An integer or an expression."""
        return {"anyOf": [{"type": "integer", "minimum": self.minimum}, {"type": "string"}]}


@dataclass(frozen=True, slots=True)
class RealExpression:
    """A number in a range, or an expression over the params that gives one."""

    range: Real = Real()

    def read(self, node: Node, reader: Reader) -> Any:
        """The number."""
        value = expression_value(node, reader)
        return value if value is INVALID else self.range._ranged(float(value), node, reader)

    def json_schema(self) -> dict[str, Any]:
        """A number or an expression."""
        return {"anyOf": [self.range.json_schema(), {"type": "string"}]}


# --------------------------------------------------------------------------- collections
@dataclass(frozen=True, slots=True)
class ListOf:
    """A list whose items are all of one type; a single item may stand alone where ``lone`` is set."""

    item: Type
    lone: bool = False

    def read(self, node: Node, reader: Reader) -> Any:
        """The items as a tuple; bad ones are reported and left out."""
        if not isinstance(node, ListNode):
            if self.lone and isinstance(node, Scalar):
                value = self.item.read(node, reader)
                return () if value is INVALID else (value,)
            return reader.fail(node, f"expected a list, found {kind(node)}")
        values = (self.item.read(item, reader) for item in node.items)
        return tuple(v for v in values if v is not INVALID)

    def json_schema(self) -> dict[str, Any]:
        """An array."""
        many = {"type": "array", "items": self.item.json_schema()}
        return {"anyOf": [many, self.item.json_schema()]} if self.lone else many


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from names to values of one type; ``keys`` limits the names."""

    value: Type
    keys: tuple[str, ...] | None = None

    def read(self, node: Node, reader: Reader) -> Any:
        """The values by name, in order."""
        if not isinstance(node, MapNode):
            return reader.fail(node, f"expected a map, found {kind(node)}")
        values = {}
        for name, entry in node.entries.items():
            if name.startswith("x-"):
                continue
            if self.keys is not None and name not in self.keys:
                reader.fail(entry.key, f"unknown key '{name}'; {did_you_mean(name, self.keys)}")
                continue
            value = self.value.read(entry.value, reader)
            if value is not INVALID:
                values[name] = value
        return values

    def json_schema(self) -> dict[str, Any]:
        """An object."""
        inner = self.value.json_schema()
        if self.keys is None:
            return {"type": "object", "additionalProperties": inner}
        return {
            "type": "object",
            "properties": dict.fromkeys(self.keys, inner),
            "patternProperties": {"^x-": {}},
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a record."""

    name: str
    type: Type
    doc: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A map with known keys; unknown ones are refused with the nearest name, missing ones are named."""

    title: str
    keys: tuple[Key, ...]

    def read(self, node: Node, reader: Reader) -> Any:
        """The values by key; missing and invalid ones are absent."""
        if not isinstance(node, MapNode):
            return reader.fail(node, f"expected {self.title} as a map, found {kind(node)}")
        by_name = {k.name: k for k in self.keys}
        values = {}
        for name, entry in node.entries.items():
            if name.startswith("x-"):
                continue
            if name not in by_name:
                reader.fail(entry.key, f"unknown key '{name}' in {self.title}; {did_you_mean(name, list(by_name))}")
                continue
            value = by_name[name].type.read(entry.value, reader)
            if value is not INVALID:
                values[name] = value
        missing = [k.name for k in self.keys if k.required and k.name not in node.entries]
        if missing:
            reader.fail(node, f"{self.title} lacks {', '.join(repr(m) for m in missing)}")
        return values

    def json_schema(self) -> dict[str, Any]:
        """An object with its properties."""
        return {
            "type": "object",
            "properties": {k.name: {**k.type.json_schema(), "description": k.doc} for k in self.keys},
            "required": [k.name for k in self.keys if k.required],
            "patternProperties": {"^x-": {}},
            "additionalProperties": False,
        }
