"""Workload files: YAML or JSON text to `Workload`.

The keys of a step are the fields of its operator, so an operator added under `roofline.ops` needs nothing here.
Dimensions may be expressions over ``params``; overrides from the command line replace nodes before anything is read,
so that their mistakes are reported like those of a file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import MISSING, field, fields
from typing import Any

from roofline.errors import UsageError, did_you_mean
from roofline.numeric import total
from roofline.ops import OPERATORS
from roofline.ops.base import Op
from roofline.records import dataclass
from roofline.spec.expectations import read_expectations
from roofline.spec.expression import ExpressionError, evaluate
from roofline.spec.find import cluster_names, find_workload, hardware_names, is_path
from roofline.spec.kind import require
from roofline.spec.model_keys import MODEL_KEYS, WorkloadRecord
from roofline.spec.overrides import id_of, overridden
from roofline.spec.reader import ALL, INVALID, Reader, expression_value, scalar
from roofline.spec.schema import (
    Bool,
    Choice,
    Dim,
    DtypeName,
    Integer,
    Key,
    ListOf,
    Quantity,
    Real,
    RealExpression,
    Record,
    Text,
    Type,
)
from roofline.spec.source import Entry, ListNode, MapNode, Mark, Node, Scalar, Source, parse, read_source
from roofline.units import Dimension, QuantityError, parse_quantity
from roofline.workload.workload import DIRECTIONS, EXECUTIONS, TRAFFIC, Step, Workload

SCHEMA = 1
MOST_STEPS = 10_000
STEP_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_/-]*")


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
            return reader.follow() if reader.follows(node.text) else reader.fail(node, str(err))
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
    if cls not in _RECORDS:
        own = tuple(
            Key(f.name, field_type(f.metadata), f.metadata["doc"], f.default is MISSING and f.name != "dtype")
            for f in fields(cls)  # type: ignore[arg-type]
        )
        _RECORDS[cls] = Record(f"a {cls.name} step", (*STEP_KEYS, *own))
    return _RECORDS[cls]


_RECORDS: dict[type[Op], Record] = {}
"""Records already built: a workload has many steps of few operators."""


@dataclass(frozen=True, slots=True)
class ProfileName:
    """The name of a hardware profile or a cluster, never a path: a workload from elsewhere must not make the tool open other files."""

    def read(self, node: Node, reader: Reader) -> Any:
        """The name."""
        name = Text("a profile name").read(node, reader)
        known = [*hardware_names(), *cluster_names()]
        if name is INVALID or name in known:
            return name
        hint = "give a file with -H" if is_path(name) else did_you_mean(name, known)
        return reader.fail(node, f"unknown hardware profile '{name}'; {hint}")

    def json_schema(self) -> dict[str, Any]:
        """Text."""
        return {"type": "string"}


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


class _Steps(Anything):
    """The list of steps. Its schema names every operator, so that it is built only when it is asked for."""

    def json_schema(self) -> dict[str, Any]:
        """A list of steps, each of one operator."""
        variants = []
        for cls in OPERATORS.values():
            schema = operator_record(cls).json_schema()
            schema["properties"]["op"] = {"const": cls.name, "description": cls.title}
            variants.append(schema)
        return {"type": "array", "items": {"oneOf": variants}, "minItems": 1}


_ANY_SCALAR = {"type": ["string", "number", "boolean"]}


def workload_record() -> Record:
    """The top-level keys of a workload file."""
    return WorkloadRecord(
        "a workload",
        (
            Key("schema", Integer(SCHEMA, SCHEMA), "version of this format", required=True),
            Key("name", Text(), "what it is"),
            Key("hardware", ProfileName(), "profile used when the command line names none"),
            Key("dtype", DtypeName(), "number format of steps that give none"),
            Key("execution", Choice(EXECUTIONS), "which kernels are launched; eager when not given"),
            Key("traffic", Choice(TRAFFIC), "which count of bytes the time is taken from; compulsory when not given"),
            Key("params", Anything({"type": "object", "additionalProperties": _ANY_SCALAR}), "names for expressions"),
            Key("steps", _Steps(), "what is computed, in order", required=True),
            *MODEL_KEYS,
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
        UsageError: no such workload, or an override that is not ``key=value``.
    """
    path = str(find_workload(name))
    source = read_source(path)
    return read_workload(source, overrides)


def read_workload(source: Source, overrides: Sequence[str] = ()) -> Workload:
    """`load_workload` from text already read."""
    root = require(parse(source), "a workload")
    return _read(overridden(root, overrides), source)


def one_step(op: str, settings: Sequence[str]) -> Workload:
    """The workload of a single step given as ``key=value`` words, as on a command line; ``execution`` is the workload's.

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
        **({"execution": entries.pop("execution")} if "execution" in entries else {}),
        "steps": _entry(words, "steps", ListNode(words, Mark(1, 1), (MapNode(words, Mark(1, 1), entries),))),
    }
    return _read(MapNode(words, Mark(1, 1), top), words)


def _entry(source: Source, key: str, value: Node) -> Entry:
    return Entry(Scalar(source, Mark(1, 1), key, False), value)


def _read(root: MapNode, source: Source) -> Workload:
    reader = Reader()
    top = workload_record().read(root, reader)
    reader.dtype_refused = "dtype" in root.entries and "dtype" not in top
    reader.names = _params(top.get("params"), reader)
    steps = _steps(top.get("steps"), top.get("dtype"), reader)
    expect = read_expectations(top.get("expect"), [s.id for s in steps] if not reader.problems else None, reader)
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
    reader.names = names
    if node is None:
        return names
    if not isinstance(node, MapNode):
        reader.fail(node, "expected params as a map of names to numbers or expressions")
        reader.unknown.add(ALL)
        return names
    for name, entry in node.entries.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            reader.fail(entry.key, f"'{name}' cannot be used in expressions: letters, digits and '_' only, no digit first")
            continue
        value = expression_value(entry.value, reader)
        if value is INVALID:
            reader.unknown.add(name)
        else:
            names[name] = value
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
    before = reader.failures
    values = operator_record(cls).read(node, reader)
    if values.setdefault("dtype", dtype or _own_dtype(cls)) is None and "dtype" not in node.entries:
        wanted = "a step needs a dtype: give 'dtype' here or for the whole workload"
        _ = reader.follow() if reader.dtype_refused else reader.fail(node, wanted)
    if reader.failures > before:
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


def _own_dtype(cls: type[Op]) -> str | None:
    """The format of an operator whose work hardly depends on it, such as a collective's."""
    default = next(f.default for f in fields(cls) if f.name == "dtype")  # type: ignore[arg-type]
    return default if isinstance(default, str) else None


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
        if step is None:  # refused already; what waits for it is not wrong
            seen.setdefault(id_of(node) or "", node)
            continue
        named = _value(node, "id")
        if not STEP_ID.fullmatch(step.id):
            reader.fail(named, f"step id '{step.id}': letters, digits, '_', '-' and '/' only")
        if step.id == "total":
            reader.fail(named, "step id 'total' is taken by the totals of the report")
        if step.id in seen:
            reader.fail(named, f"two steps are called '{step.id}' (the other on line {seen[step.id].mark.line}); give each an id")
        for key, names in (("after", step.after or ()), ("tied_to", (step.tied_to,) if step.tied_to else ())):
            for waited in names:
                if waited not in seen:
                    said = f"step '{step.id}' names '{waited}', which no step before it is called"
                    reader.fail(_value(node, key), f"{said}; {did_you_mean(waited, list(seen))}")
        seen.setdefault(step.id, named)
    _check_ties(found, reader)


def _check_ties(found: list[tuple[Node, Step | None]], reader: Reader) -> None:
    """Weights can be shared only with a step that has as many: others would vanish from memory and parameters."""
    weights = {step.id: total(t.elements for t in step.op.tensors() if t.role == "weight") for _, step in found if step}
    for node, step in found:
        if step and step.tied_to in weights and weights[step.tied_to] != weights[step.id]:
            said = f"step '{step.id}' has {weights[step.id]} weights and cannot share the {weights[step.tied_to]} of '{step.tied_to}'"
            reader.fail(_value(node, "tied_to"), said)


def _value(node: Node, key: str) -> Node:
    """Where the value of a key stands; the map itself where it has none."""
    return node.entries[key].value if isinstance(node, MapNode) and key in node.entries else node
