"""Hardware profiles: YAML text to `Hardware`.

A profile may extend another; maps are merged key by key and a figure replaces a figure whole, before anything is
evaluated, so that derived figures follow the extending profile's own numbers.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofline.dtypes import DTYPES
from roofline.errors import InputError, did_you_mean
from roofline.hardware.profile import KINDS, LEVELS, Absent, Figure, Hardware, Level, Link, Value
from roofline.records import dataclass
from roofline.spec.ceilings import MEASURED
from roofline.spec.find import find_hardware, hardware_names, holds_cluster, is_path
from roofline.spec.fitted import FittedType, PriorName, Stated, sets_of, take_sets
from roofline.spec.kind import require
from roofline.spec.reader import INVALID, Reader, expression_value
from roofline.spec.schema import (
    Choice,
    Integer,
    Key,
    ListOf,
    MapOf,
    Real,
    Record,
    Text,
    in_range,
)
from roofline.spec.source import MapNode, Node, Scalar, parse, read_source
from roofline.units import Dimension, QuantityError, parse_quantity

SCHEMA = 1
MOST_EXTENDED = 16
"""Longest chain of profiles of which each extends the next."""
PER_CLOCK_TOLERANCE = 0.01
"""How far per_clock x processors x clocks.peak may lie from the stated peak: vendors round both."""
MATRIX_DTYPES = tuple(dict.fromkeys(d.matrix for d in DTYPES.values()))


@dataclass(frozen=True, slots=True)
class FigureType:
    """A figure: value, kind and source; or formula and source; or absent with the reason."""

    dimension: Dimension | None
    per_clock: bool = False

    def read(self, node: Node, reader: Reader) -> Any:
        """The figure in SI units, or `Absent`."""
        forms = [k for k in ("value", "formula", "absent") if isinstance(node, MapNode) and k in node.entries]
        if len(forms) != 1:
            example = self.dimension.example if self.dimension else "132"
            return reader.fail(
                node,
                f"expected a figure: {{value: {example}, kind: datasheet, source: KEY}}, "
                "{formula: EXPRESSION, kind: derived, source: KEY} or {absent: REASON}",
            )
        values = self._record(forms[0]).read(node, reader)
        if forms[0] == "absent":
            return Absent(values["absent"]) if "absent" in values else INVALID
        return self._figure(values, forms[0], node, reader)

    def _record(self, form: str) -> Record:
        if form == "absent":
            return Record("a figure", (Key("absent", Text(), "why it is not known", required=True),))
        kinds = ("derived",) if form == "formula" else tuple(k for k in KINDS if k != "derived")
        own = _Formula() if form == "formula" else _FigureValue(self.dimension)
        keys = [
            Key(form, own, "the number with its unit" if form == "value" else "an expression in SI units", required=True),
            Key("kind", Choice(kinds), "where the number comes from", required=True),
            Key("source", Text(), "a key of sources", required=True),
            Key("note", Text(), "what a reader should know"),
        ]
        if self.per_clock:
            keys.append(Key("per_clock", Real(0, above=True), "FLOP or operations per clock per processor"))
        return Record("a figure", tuple(keys))

    def _figure(self, values: dict[str, Any], form: str, node: Node, reader: Reader) -> Any:
        if not {form, "kind", "source"} <= values.keys():
            return INVALID
        written = node.entries["formula"].value if form == "formula" and isinstance(node, MapNode) else None
        formula = written.text if isinstance(written, Scalar) else None
        unit = self.dimension.si if self.dimension else ""
        if self.dimension is None and values[form] != int(values[form]):
            return reader.fail(node, f"a count is a whole number, but this is {values[form]:g}")
        if in_range(values[form], node, reader) is INVALID:
            return INVALID
        figure = Figure(values[form], unit, values["kind"], values["source"], formula, values.get("note"), values.get("per_clock"))
        return figure if _per_clock_holds(figure, node, reader) else INVALID

    def json_schema(self) -> dict[str, Any]:
        """One of the three forms."""
        forms = [self._record(form).json_schema() for form in ("value", "formula", "absent")]
        return {"oneOf": forms}


def _per_clock_holds(figure: Figure, node: Node, reader: Reader) -> bool:
    """Peak and per-clock rate must agree where both are stated and the clock is known."""
    clock, count = reader.names.get("clock_peak"), reader.names.get("processors")
    if figure.per_clock is None or not clock or not count:
        return True
    expected = figure.per_clock * clock * count
    if abs(expected / figure.value - 1) <= PER_CLOCK_TOLERANCE:
        return True
    reader.fail(
        node,
        f"per_clock {figure.per_clock:g} x {count:g} processors x {clock / 1e9:g} GHz = {expected:.4g}, "
        f"but the peak is {figure.value:.4g}: {abs(expected / figure.value - 1):.1%} apart",
    )
    return False


@dataclass(frozen=True, slots=True)
class _FigureValue:
    """A number with its unit, or a whole number where the figure is a count."""

    dimension: Dimension | None

    def read(self, node: Node, reader: Reader) -> Any:
        if self.dimension is None:
            return Integer(1).read(node, reader)
        if not isinstance(node, Scalar):
            return reader.fail(node, f"expected a quantity in {self.dimension.si}")
        try:
            return parse_quantity(node.text, self.dimension)
        except QuantityError as err:
            return reader.fail(node, str(err))

    def json_schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 1} if self.dimension is None else {"type": "string"}


@dataclass(frozen=True, slots=True)
class _Formula:
    """An expression in SI units over processors, clocks and the profile's constants; must come out above 0."""

    def read(self, node: Node, reader: Reader) -> Any:
        value = expression_value(node, reader)
        if value is not INVALID and not value > 0:
            return reader.fail(node, f"the formula gives {value:g}; a figure is above 0")
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": ["string", "number"]}


# --------------------------------------------------------------------------- the shape of a profile
def _optional(name: str, type_: Any, doc: str) -> Key:
    return Key(name, type_, doc)


COUNT, BYTES, RATE = FigureType(None), FigureType(Dimension.BYTES), FigureType(Dimension.FLOP_PER_S, per_clock=True)
BANDWIDTH, TIME, HERTZ = FigureType(Dimension.BYTES_PER_S), FigureType(Dimension.SECONDS), FigureType(Dimension.HERTZ)

LEVEL = Record(
    "a memory level",
    (
        Key("label", Text(), "what the level is called on this device"),
        Key("scope", Choice(("processor", "device")), "what one size belongs to", required=True),
        Key("size", BYTES, "capacity of one unit of scope", required=True),
        Key("bandwidth", BANDWIDTH, "over the whole device, reads and writes together", required=True),
        Key("latency", TIME, "of a dependent load"),
    ),
)
LINK = Record(
    "a link",
    (
        Key("bandwidth", BANDWIDTH, "one way, all ports of the device together", required=True),
        Key("both_ways_bandwidth", BANDWIDTH, "the sum of both directions, as marketed"),
        Key("ports", COUNT, "links of the device"),
        Key("latency", TIME, "of one hop"),
        Key("topology", Choice(("switch", "mesh", "ring", "torus", "host")), "how devices are joined", required=True),
    ),
)
PROCESSORS = Record(
    "processors",
    (
        Key("label", Text(), "SM, CU, core ...", required=True),
        Key("count", COUNT, "how many the device has", required=True),
    ),
)
CLOCKS = Record(
    "clocks",
    (
        Key("peak", HERTZ, "clock at which the stated peaks hold", required=True),
        Key("boost", HERTZ, "highest clock"),
        Key("base", HERTZ, "guaranteed clock"),
    ),
)
ENGINES = Record(
    "engines",
    (
        Key("tensor", MapOf(RATE, MATRIX_DTYPES), "dense matrix peaks by dtype", required=True),
        Key("tensor_sparse", MapOf(RATE, MATRIX_DTYPES), "peaks with structured sparsity, never used unless asked for"),
        Key("vector", MapOf(RATE, MATRIX_DTYPES), "peaks of the plain lanes by dtype, FMA counted 2", required=True),
        Key("sfu", FigureType(Dimension.OPS_PER_S), "exponentials, reciprocal roots ... per second", required=True),
    ),
)
LIMIT_DIMENSIONS = {
    "registers_per_processor": COUNT,
    "registers_per_thread": COUNT,
    "threads_per_processor": COUNT,
    "threads_per_block": COUNT,
    "blocks_per_processor": COUNT,
    "smem_per_block": BYTES,
    "mma_rows": COUNT,
}
PROFILE = Record(
    "a hardware profile",
    (
        Key("schema", Integer(SCHEMA, SCHEMA), "version of this format", required=True),
        Key("name", Text(), "as the file is called", required=True),
        Key("extends", Text(), "profile from which everything not stated here is taken"),
        Key("vendor", Text(), "who makes it", required=True),
        Key("product", Text(), "its full name", required=True),
        Key("architecture", Text(), "generation", required=True),
        Key("match", ListOf(Text()), "regular expressions that match the whole name the driver reports", required=True),
        Key("notes", Text(), "what a reader should know"),
        Key("sources", MapOf(Text()), "where figures come from, by key", required=True),
        Key("constants", MapOf(Real()), "numbers that formulas may use by name"),
        Key("processors", PROCESSORS, "the replicated unit", required=True),
        Key("clocks", CLOCKS, "clock rates", required=True),
        Key("engines", ENGINES, "what computes", required=True),
        Key("levels", Record("levels", tuple(Key(n, LEVEL, f"the {n} level", required=True) for n in LEVELS)), "memory", required=True),
        Key("links", MapOf(LINK), "ways out of the device"),
        Key(
            "limits",
            Record("limits", tuple(_optional(n, t, n.replace("_", " ")) for n, t in LIMIT_DIMENSIONS.items())),
            "per block and processor",
        ),
        Key("power", Record("power", (_optional("tdp", FigureType(Dimension.WATTS), "board power limit"),)), "power"),
        Key("price", Record("price", (_optional("hour", FigureType(Dimension.USD_PER_HOUR), "rent"),)), "cost"),
        Key("measured", MEASURED, "what this device was measured to reach, beside the published figures"),
        Key("fitted", FittedType(), "parameters of the models of kernels, fitted to measurements, by model.variant.library.dtype"),
        Key("priors", ListOf(PriorName()), "profiles whose fitted sets serve where this one has none of that name"),
    ),
)


# --------------------------------------------------------------------------- loading
def load_hardware(name: str) -> Hardware:
    """The profile of that name, or in that file; of a cluster its device, with the tiers among its links.

    Raises:
        InputError: problems in the file, all of them.
        UsageError: no profile of that name; the message names the nearest.
    """
    path = find_hardware(name)
    if holds_cluster(path):
        from roofline.spec.cluster import load_cluster

        return load_cluster(str(path)).hardware()
    node, sets = _merged(path, (path,))
    reader = Reader()
    _read_names(node, reader)
    values = PROFILE.read(node, reader)
    if values is not INVALID:
        _check(values, node, reader)
    reader.finish()
    return _build(values, str(path), sets)


def _merged(path: Path, chain: tuple[Path, ...]) -> tuple[MapNode, dict[str, Stated]]:
    """The profile over what it extends, and its fitted sets, each replaced whole and still that of its own file."""
    node, sets = take_sets(read_source(path))
    if "extends" not in node.entries:
        return node, sets
    base = _base(node.entries["extends"].value, chain)
    below, inherited = _merged(base, (*chain, base))
    return overlay(below, node), {**inherited, **sets}


def extended_name(path: str) -> str | None:
    """The profile that the one in this file extends, None where it stands alone.

    Raises:
        InputError: the file cannot be read.
    """
    node = require(parse(read_source(path)), "a hardware profile")
    parent = node.entries["extends"].value if "extends" in node.entries else None
    return parent.text if isinstance(parent, Scalar) else None


def _base(parent: Node, chain: tuple[Path, ...]) -> Path:
    """The file of an ``extends``: a name and never a path, so that a profile cannot reach out of the profile folders."""
    name = parent.text if isinstance(parent, Scalar) else ""
    if name not in hardware_names():
        hint = "it takes a profile's name, not a path" if is_path(name) else did_you_mean(name, hardware_names())
        raise InputError([parent.problem(f"extends: unknown profile '{name}'; {hint}")])
    base = find_hardware(name)
    if base.resolve() in [p.resolve() for p in chain]:
        circle = " -> ".join(p.stem for p in (*chain, base))
        raise InputError([parent.problem(f"profiles extend each other in a circle: {circle}")])
    if len(chain) > MOST_EXTENDED:
        raise InputError([parent.problem(f"more than {MOST_EXTENDED} profiles extend each other; write the figures out")])
    return base


def overlay(base: MapNode, over: MapNode) -> MapNode:
    """Maps merged key by key; figures, lists and scalars replaced whole."""
    entries = dict(base.entries)
    for name, entry in over.entries.items():
        below = entries.get(name)
        whole = not isinstance(entry.value, MapNode) or {"value", "formula", "absent"} & entry.value.entries.keys()
        if below is not None and isinstance(below.value, MapNode) and isinstance(entry.value, MapNode) and not whole:
            entry = replace(entry, value=overlay(below.value, entry.value))
        entries[name] = entry
    return replace(over, entries=entries)


def _read_names(node: MapNode, reader: Reader) -> None:
    """What formulas may use, read before anything else; problems are reported by the full reading."""
    names: dict[str, Any] = {}
    quiet = Reader(names)
    constants = node.entries.get("constants")
    if constants is not None:
        found = MapOf(Real()).read(constants.value, quiet)
        names.update(found if isinstance(found, dict) else {})
        reader.unknown.update(constants.value.entries.keys() - names.keys() if isinstance(constants.value, MapNode) else ())
    for section, key, type_, name in (
        ("processors", "count", COUNT, "processors"),
        ("clocks", "peak", HERTZ, "clock_peak"),
        ("clocks", "boost", HERTZ, "clock_boost"),
        ("clocks", "base", HERTZ, "clock_base"),
    ):
        part = node.entries.get(section)
        if part is not None and isinstance(part.value, MapNode) and key in part.value.entries:
            figure = type_.read(part.value.entries[key].value, quiet)
            if isinstance(figure, Figure):
                names[name] = figure.value
            elif figure is INVALID:
                reader.unknown.add(name)
    reader.names = names


def _check(values: dict[str, Any], node: MapNode, reader: Reader) -> None:
    if "name" in values and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", values["name"]):
        reader.fail(node.entries["name"].value, "a profile name has lower-case letters, digits, '-' and '.' only")
    for pattern in values.get("match", ()):
        try:
            with warnings.catch_warnings():  # a future change of the syntax is no mistake yet
                warnings.simplefilter("ignore")
                re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as err:
            reader.fail(node.entries["match"].value, f"'{pattern}' is not a regular expression: {err}")
    check_sources(node, set(values.get("sources", {})), reader)


def check_sources(node: Node, known: set[str], reader: Reader) -> None:
    """Every ``source`` of a figure is a key of ``sources``."""
    if not isinstance(node, MapNode):
        return
    if "kind" in node.entries and "source" in node.entries:
        source = node.entries["source"].value
        if isinstance(source, Scalar) and source.text not in known:
            reader.fail(source, f"source '{source.text}' is not a key of sources; {did_you_mean(source.text, sorted(known))}")
    for name, entry in node.entries.items():
        if name != "sources":
            check_sources(entry.value, known, reader)


def _build(values: dict[str, Any], path: str, sets: dict[str, Stated]) -> Hardware:
    engines, processors = values["engines"], values["processors"]
    fitted, priors = sets_of(sets, values.get("priors", ()), values["sources"])
    return Hardware(
        **{k: values[k] for k in ("name", "vendor", "product", "architecture", "match", "sources", "clocks")},
        processor_label=processors["label"],
        processors=processors["count"],
        tensor=engines["tensor"],
        tensor_sparse=engines.get("tensor_sparse", {}),
        vector=engines["vector"],
        sfu=engines["sfu"],
        levels={name: _level(name, level) for name, level in values["levels"].items()},
        links={name: Link(name=name, **link) for name, link in values.get("links", {}).items()},
        limits=values.get("limits", {}),
        power=values.get("power", {}),
        price=values.get("price", {}),
        measured=values.get("measured", {}),
        fitted=fitted,
        priors=priors,
        notes=values.get("notes"),
        path=path,
    )


def _level(name: str, values: dict[str, Any]) -> Level:
    found: dict[str, Value | str] = {"label": name.upper() if name != "register" else "registers", **values}
    return Level(name=name, **found)  # type: ignore[arg-type]
