"""Workload files: YAML or JSON text to `Workload`.

The keys of a step are the fields of its operator, so an operator added under `roofline.ops` needs nothing here.
Dimensions may be expressions over ``params``; overrides from the command line replace nodes before anything is read,
so that their mistakes are reported like those of a file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from roofline.errors import UsageError, did_you_mean
from roofline.ops import OPERATORS
from roofline.ops.base import Op
from roofline.predict.bound import TRAFFIC
from roofline.spec.expression import ExpressionError, evaluate
from roofline.spec.find import find_workload
from roofline.spec.kind import require
from roofline.spec.schema import (
    INVALID,
    Bool,
    Choice,
    Dim,
    DtypeName,
    Integer,
    Key,
    ListOf,
    Quantity,
    Reader,
    Real,
    RealExpression,
    Record,
    Text,
    Type,
    scalar,
)
from roofline.spec.source import Entry, ListNode, MapNode, Mark, Node, Scalar, Source, parse, read_source
from roofline.units import Dimension, QuantityError, parse_quantity
from roofline.workload.workload import DIRECTIONS, EXECUTIONS, Expectation, Step, Workload

SCHEMA = 1
MOST_STEPS = 10_000
STEP_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_/-]*")
SETTINGS = ("name", "hardware", "dtype", "execution", "traffic")
"""Top-level keys that ``--set`` may give."""


# --------------------------------------------------------------------------- types of an operator's fields
@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity with its unit, whose number may be an expression: ``2 * tokens * hidden B``."""

    dimension: Dimension

    def read(self, node: Node, reader: Reader) -> Any:
        """The value in SI units."""
        found = scalar(node, reader, f"a quantity in {self.dimension.si}")
        if found is None:
            return INVALID
        try:
            return parse_quantity(found.text, self.dimension, allow_zero=True)
        except QuantityError as refused:
            return self._expression(found, refused, reader)

    def _expression(self, node: Scalar, refused: QuantityError, reader: Reader) -> Any:
        number, _, unit = node.text.rpartition(" ")
        try:
            scale = parse_quantity(f"1 {unit}", self.dimension)
        except QuantityError:
            return reader.fail(node, str(refused))
        try:
            value = evaluate(number, reader.names) * scale
        except ExpressionError as err:
            return reader.fail(node, str(err))
        return value if value >= 0 else reader.fail(node, f"{value:g} is out of range: at least 0")

    def json_schema(self) -> dict[str, Any]:
        """Text with a unit."""
        return {"type": "string", "description": f"a quantity such as '{self.dimension.example}'; its number may be an expression"}


AMOUNTS = {"B": Dimension.BYTES, "FLOP": Dimension.FLOP}


def field_type(metadata: Any) -> Type:
    """How a field of an operator is read."""
    kind = metadata["kind"]
    if kind == "dim":
        return Dim(metadata["minimum"])
    if kind == "choice":
        return Choice(metadata["options"])
    if kind == "amount":
        return Amount(AMOUNTS[metadata["unit"]])
    simple: dict[str, Type] = {
        "flag": Bool(), "dtype": DtypeName(), "probability": RealExpression(Real(0, 1)), "word": Text("a name"),
    }  # fmt: skip
    return simple[kind]


STEP_KEYS = (
    Key("id", Text("an id"), "name of the step in reports; the operator's when not given"),
    Key("op", Text("an operator"), "what is computed", required=True),
    Key("repeat", Dim(), "how often it runs, each time with weights of its own"),
    Key("pass", Choice(DIRECTIONS), "which direction; forward when not given"),
    Key("after", ListOf(Text("an id"), lone=True), "steps it waits for; the step before it when not given"),
    Key("tied_to", Text("an id"), "step whose weights it shares, so that they are stored once"),
    Key("measured", Quantity(Dimension.SECONDS), "time one execution took, to be set beside the prediction"),
    Key("note", Text(), "free text"),
)


def operator_record(cls: type[Op]) -> Record:
    """The keys of a step with this operator: those of every step and the operator's fields."""
    own = tuple(
        Key(f.name, field_type(f.metadata), f.metadata["doc"], f.default is MISSING and f.name != "dtype")
        for f in fields(cls)  # type: ignore[arg-type]
    )
    return Record(f"a {cls.name} step", (*STEP_KEYS, *own))


@dataclass(frozen=True, slots=True)
class Anything:
    """A node kept as it is, to be read later with more context."""

    schema: dict[str, Any] = field(default_factory=dict)

    def read(self, node: Node, reader: Reader) -> Node:
        """The node itself."""
        return node

    def json_schema(self) -> dict[str, Any]:
        """What was given."""
        return self.schema


def _step_schema() -> dict[str, Any]:
    variants = []
    for cls in OPERATORS.values():
        schema = operator_record(cls).json_schema()
        schema["properties"]["op"] = {"const": cls.name, "description": cls.title}
        variants.append(schema)
    return {"type": "array", "items": {"oneOf": variants}, "minItems": 1}


_ANY_SCALAR = {"type": ["string", "number", "boolean"]}


def workload_record() -> Record:
    """The top-level keys of a workload file."""
    return Record(
        "a workload",
        (
            Key("schema", Integer(SCHEMA, SCHEMA), "version of this format", required=True),
            Key("name", Text(), "what it is"),
            Key("hardware", Text("a profile name"), "profile used when the command line names none"),
            Key("dtype", DtypeName(), "number format of steps that give none"),
            Key("execution", Choice(EXECUTIONS), "which kernels are launched; eager when not given"),
            Key("traffic", Choice(TRAFFIC), "which count of bytes the time is taken from; compulsory when not given"),
            Key("params", Anything({"type": "object", "additionalProperties": _ANY_SCALAR}), "names for expressions"),
            Key("steps", Anything(_step_schema()), "what is computed, in order", required=True),
            Key("expect", Anything({"type": "object", "additionalProperties": _ANY_SCALAR}), "assertions for --check"),
            Key("note", Text(), "free text"),
        ),
    )


# --------------------------------------------------------------------------- loading
def load_workload(name: str, overrides: Sequence[str] = ()) -> Workload:
    """The workload in that file (``-`` is standard input) or shipped under that name.

    ``overrides`` are ``key=value``: a param, a top-level setting, or ``step.field``.

    Raises:
        InputError: problems in the file, all of them.
        UsageError: no such workload, or an override that names nothing.
    """
    path = str(find_workload(name))
    source = read_source(path)
    return read_workload(source, overrides)


def read_workload(source: Source, overrides: Sequence[str] = ()) -> Workload:
    """`load_workload` from text already read."""
    root = require(parse(source), "a workload")
    return _read(_overridden(root, overrides), source)


def one_step(op: str, settings: Sequence[str]) -> Workload:
    """The workload of a single step given as ``key=value`` words, as on a command line.

    Raises:
        InputError: a word that is not a key of the step, or a value that does not fit it.
        UsageError: a word that is not ``key=value``.
    """
    words = Source("arguments", " ".join((f"op={op}", *settings)))
    entries: dict[str, Entry] = {}
    at = 1
    for word in (f"op={op}", *settings):
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"'{word}' is not key=value, such as m=4096")
        if key in entries:
            raise UsageError(f"'{key}' is given twice")
        place = Mark(1, at)
        entries[key] = Entry(Scalar(words, place, key, False), Scalar(words, Mark(1, at + len(key) + 1), value, False))
        at += len(word) + 1
    top = {
        "schema": _entry(words, "schema", Scalar(words, Mark(1, 1), str(SCHEMA), False)),
        "name": _entry(words, "name", Scalar(words, Mark(1, 1), op, False)),
        "steps": _entry(words, "steps", ListNode(words, Mark(1, 1), (MapNode(words, Mark(1, 1), entries),))),
    }
    return _read(MapNode(words, Mark(1, 1), top), words)


def _entry(source: Source, key: str, value: Node) -> Entry:
    return Entry(Scalar(source, Mark(1, 1), key, False), value)


def _read(root: MapNode, source: Source) -> Workload:
    reader = Reader()
    top = workload_record().read(root, reader)
    reader.names = _params(top.get("params"), reader)
    steps = _steps(top.get("steps"), top.get("dtype"), reader)
    expect = _expectations(top.get("expect"), reader)
    reader.finish()
    return Workload(
        name=top.get("name", "workload"),
        steps=steps,
        params=reader.names,
        dtype=top.get("dtype"),
        execution=top.get("execution", "eager"),
        traffic=top.get("traffic", "compulsory"),
        hardware=top.get("hardware"),
        expect=expect,
        path=source.path,
        sha256=hashlib.sha256(source.text.encode()).hexdigest(),
    )


def _params(node: Node | None, reader: Reader) -> dict[str, Any]:
    """Each param may use those before it; text stays text unless it is an expression."""
    names: dict[str, Any] = {}
    if node is None:
        return names
    if not isinstance(node, MapNode):
        reader.fail(node, "expected params as a map of names to numbers or expressions")
        return names
    for name, entry in node.entries.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            reader.fail(entry.key, f"'{name}' cannot be used in expressions: letters, digits and '_' only, no digit first")
            continue
        found = scalar(entry.value, reader, "a number or an expression")
        if found is None:
            continue
        try:
            names[name] = evaluate(found.text, names)
        except ExpressionError as err:
            reader.fail(found, str(err))
    return names


def _steps(node: Node | None, dtype: str | None, reader: Reader) -> tuple[Step, ...]:
    if node is None:
        return ()
    if not isinstance(node, ListNode) or not node.items:
        reader.fail(node, "expected steps as a list with at least one step")
        return ()
    if len(node.items) > MOST_STEPS:
        reader.fail(node, f"{len(node.items)} steps; at most {MOST_STEPS} are read")
        return ()
    found = [(item, _step(item, dtype, reader)) for item in node.items]
    _check_ids(found, reader)
    return tuple(step for _, step in found if step is not None)


def _step(node: Node, dtype: str | None, reader: Reader) -> Step | None:
    cls = _operator(node, reader)
    if cls is None:
        return None
    assert isinstance(node, MapNode)
    before = len(reader.problems)
    values = operator_record(cls).read(node, reader)
    if values.setdefault("dtype", dtype) is None and "dtype" not in node.entries:
        reader.fail(node, "a step needs a dtype: give 'dtype' here or for the whole workload")
    if len(reader.problems) > before:
        return None
    op = cls(**{f.name: values[f.name] for f in fields(cls) if f.name in values})  # type: ignore[arg-type]
    direction = values.get("pass", "forward")
    contradiction = op.check() or (f"{cls.name} has no backward pass" if direction != "forward" and not op.backward() else None)
    if contradiction:
        reader.fail(node, contradiction)
        return None
    return Step(
        id=values.get("id", cls.name),
        op=op,
        repeat=values.get("repeat", 1),
        direction=direction,
        after=values.get("after"),
        tied_to=values.get("tied_to"),
        measured_s=values.get("measured"),
    )


def _operator(node: Node, reader: Reader) -> type[Op] | None:
    if not isinstance(node, MapNode):
        reader.fail(node, "expected a step as a map with the key op")
        return None
    if "op" not in node.entries:
        reader.fail(node, f"a step lacks 'op'; known: {', '.join(OPERATORS)}")
        return None
    name = scalar(node.entries["op"].value, reader, "an operator")
    if name is None:
        return None
    if name.text not in OPERATORS:
        reader.fail(name, f"unknown operator '{name.text}'; {did_you_mean(name.text, list(OPERATORS))}")
        return None
    return OPERATORS[name.text]


def _check_ids(found: list[tuple[Node, Step | None]], reader: Reader) -> None:
    """Ids are unique and plain; ``after`` and ``tied_to`` name steps that stand before."""
    seen: dict[str, Node] = {}
    for node, step in found:
        if step is None:
            continue
        if not STEP_ID.fullmatch(step.id):
            reader.fail(node, f"step id '{step.id}': letters, digits, '_', '-' and '/' only")
        if step.id == "total":
            reader.fail(node, "step id 'total' is taken by the totals of the report")
        if step.id in seen:
            reader.fail(node, f"two steps are called '{step.id}' (the other on line {seen[step.id].mark.line}); give each an id")
        for waited in (*(step.after or ()), *((step.tied_to,) if step.tied_to else ())):
            if waited not in seen:
                reader.fail(
                    node, f"step '{step.id}' names '{waited}', which no step before it is called; {did_you_mean(waited, list(seen))}"
                )
        seen.setdefault(step.id, node)


_EXPECTATION = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(.+?)\s*")


def _expectations(node: Node | None, reader: Reader) -> tuple[Expectation, ...]:
    if node is None:
        return ()
    if not isinstance(node, MapNode):
        reader.fail(node, "expected assertions as a map, such as 'attention.bound.limiter: tensor'")
        return ()
    found = []
    for path, entry in node.entries.items():
        text = scalar(entry.value, reader, "a value, or a comparison such as '<= 5 ms'")
        if text is None:
            continue
        match = _EXPECTATION.fullmatch(text.text)
        comparison, value = match.groups() if match else ("==", text.text)
        found.append(Expectation(path=path, comparison=comparison, value=value, line=entry.key.mark.line))
    return tuple(found)
