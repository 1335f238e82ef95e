"""Fitted parameter sets of a profile: found when it is loaded, read when an estimate asks for them.

A profile may carry thirty sets of thirty numbers, of which a run needs three. So the block under ``fitted`` is cut out of the
text by its lines and each set is parsed on its own, with its place in the file; a block that is not written that way (JSON,
braces, anchors) is parsed with the rest and read as late. `complete` reads all and reports every problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import did_you_mean
from roofline.hardware.profile import ParameterSet
from roofline.records import dataclass
from roofline.spec.find import find_hardware, hardware_names
from roofline.spec.kind import require
from roofline.spec.reader import INVALID, Reader, kind
from roofline.spec.schema import Choice, Integer, Key, Real, Record, Text
from roofline.spec.source import Entry, ListNode, MapNode, Node, Scalar, Source, parse, read_source

if TYPE_CHECKING:
    from roofline.predict.estimate.base import Parameter

BLOCK = "fitted"
MOST_PARTS = 16
"""Longest chain of profiles of which each extends the next."""
_HEAD = re.compile(rf"^{BLOCK}:[ ]*(?:#.*)?$", re.MULTILINE)
_SET = re.compile(r"  ([A-Za-z0-9_][\w.-]*):(?:[ ].*)?")
_DEVICE = re.compile(r"^(product|architecture):[ ]+([^#\n]*[^#\s])[ ]*(?:#.*)?$", re.MULTILINE)
_WORD = re.compile(r"^(name|extends):[ ]+([a-z0-9][a-z0-9.-]*)[ ]*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stated:
    """A set as a file states it: its lines, or its nodes where the file was parsed as a whole. ``profile`` is that file's."""

    name: str
    profile: str
    source: Source
    first: int = 0
    last: int = 0
    entry: Entry | None = None

    def parsed(self) -> Entry:
        """The set's name and value as nodes at their places.

        Raises:
            InputError: it is no YAML.
        """
        if self.entry is not None:
            return self.entry
        lines = [self.source.line(n) for n in range(self.first, self.last + 1)]
        node = parse(Source(self.source.path, "\n" * (self.first - 1) + "\n".join(lines)))
        assert isinstance(node, MapNode)
        return next(iter(node.entries.values()))


# --------------------------------------------------------------------------- finding
def take_sets(source: Source) -> tuple[MapNode, dict[str, Stated]]:
    """A profile without its fitted sets, and these.

    Raises:
        InputError: no profile.
    """
    cut = _cut(source)
    node = require(parse(cut[0] if cut else source), "a hardware profile")
    if cut and BLOCK in node.entries:  # once more, in quotes
        cut, node = None, require(parse(source), "a hardware profile")
    named = node.entries["name"].value if "name" in node.entries else None
    profile = named.text if isinstance(named, Scalar) else Path(source.path).stem
    if cut:
        return node, {s.name: replace(s, profile=profile) for s in cut[1]}
    entry = node.entries.get(BLOCK)
    if entry is None or not isinstance(entry.value, MapNode):  # what is no map is refused with the rest of the file
        return node, {}
    sets = {n: Stated(n, profile, source, entry=e) for n, e in entry.value.entries.items() if not n.startswith("x-")}
    return replace(node, entries={n: e for n, e in node.entries.items() if n != BLOCK}), sets


def _cut(source: Source) -> tuple[Source, list[Stated]] | None:
    """The text with empty lines in place of the block, and its sets by their lines; None where it is not plain enough."""
    heads = [match.start() for match in _HEAD.finditer(source.text)]
    if len(heads) != 1:
        return None
    start = source.mark(heads[0]).line
    lines = source.text.split("\n")
    found: dict[str, tuple[int, int]] = {}
    name, end = "", len(lines)
    for at in range(start, len(lines)):  # lines count from 1, the list from 0: this is the line below the head
        line = lines[at]
        match = _SET.fullmatch(line)
        if line[:1] not in ("", " ", "#"):
            end = at
            break
        if match and match[1] not in found:
            name = match[1]
            found[name] = (at + 1, at + 1)
        elif match or (line.strip() and not line.lstrip().startswith("#") and not (name and line.startswith("   "))):
            return None
        elif name and line.startswith("   "):
            found[name] = (found[name][0], at + 1)
    block = "\n".join(lines[start - 1 : end])
    if not found or any(sign in block for sign in "&*\t"):
        return None
    lines[start - 1 : end] = [""] * (end - start + 1)
    return Source(source.path, "\n".join(lines)), [Stated(n, "", source, *place) for n, place in found.items()]


def prior_sets(profiles: tuple[str, ...]) -> dict[str, Stated]:
    """The sets that these profiles state, or what they extend; of a name the first.

    Raises:
        InputError: one of them cannot be read.
    """
    found: dict[str, Stated] = {}
    for profile in profiles:
        for name, stated in _stated_by(profile, MOST_PARTS).items():
            found.setdefault(name, stated)
    return found


def _stated_by(profile: str, most: int) -> dict[str, Stated]:
    """The sets of a profile, those of what it extends below its own; the rest of the files is not read if they are plain."""
    source = read_source(find_hardware(profile))
    words = dict(_WORD.findall(source.text))
    cut = _cut(source)
    if cut and "name" in words:
        own = {s.name: replace(s, profile=words["name"]) for s in cut[1]}
    elif cut or BLOCK in source.text:
        own = take_sets(source)[1]
    else:
        own = {}
    below = words.get("extends")
    if below is None or below not in hardware_names() or most == 0:
        return own
    return {**_stated_by(below, most - 1), **own}


# --------------------------------------------------------------------------- reading
class FittedSets(Mapping[str, ParameterSet]):
    """Sets by name, each read when it is first asked for. ``sources`` are the keys that may be named; None is not checked.

    Looking up a set raises InputError where it is wrong.
    """

    def __init__(self, find: Callable[[], Mapping[str, Stated]], sources: frozenset[str] | None) -> None:
        self._find, self._sources = find, sources
        self._stated: Mapping[str, Stated] | None = None
        self._read: dict[str, ParameterSet] = {}

    @property
    def stated(self) -> Mapping[str, Stated]:
        """The sets as they stand in their files."""
        if self._stated is None:
            self._stated = self._find()
        return self._stated

    def __getitem__(self, name: str) -> ParameterSet:
        if name not in self._read:
            stated = self.stated[name]
            reader = Reader()
            self._take(stated, reader)
            reader.finish()
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self.stated

    def __iter__(self) -> Iterator[str]:
        return iter(self.stated)

    def __len__(self) -> int:
        return len(self.stated)

    def _take(self, stated: Stated, reader: Reader) -> None:
        found = _read(stated, reader, self._sources)
        if found is not INVALID:
            self._read[stated.name] = found

    def complete(self, reader: Reader) -> None:
        """Read every set and report every problem."""
        from roofline.errors import InputError

        for name, stated in self.stated.items():
            if name not in self._read:
                try:
                    self._take(stated, reader)
                except InputError as err:
                    reader.problems += err.problems


def sets_of(
    stated: Mapping[str, Stated], priors: tuple[str, ...], sources: Mapping[str, str]
) -> tuple[Mapping[str, ParameterSet], Mapping[str, ParameterSet]]:
    """A profile's own sets, and those that it takes from ``priors`` for want of its own."""
    own = FittedSets(lambda: stated, frozenset(sources)) if stated else {}
    return own, FittedSets(partial(_others, priors, stated), None) if priors else {}


def _others(priors: tuple[str, ...], own: Mapping[str, Stated]) -> dict[str, Stated]:
    return {name: found for name, found in prior_sets(priors).items() if name not in own}


def complete(*sets: Mapping[str, ParameterSet]) -> None:
    """Read all sets now.

    Raises:
        InputError: the problems of all.
    """
    reader = Reader()
    for found in sets:
        if isinstance(found, FittedSets):
            found.complete(reader)
    reader.finish()


def _read(stated: Stated, reader: Reader, sources: frozenset[str] | None) -> Any:
    """The set, or INVALID after reporting what is wrong."""
    from roofline.predict.estimate.catalog import MODELS, declared, model_named

    entry = stated.parsed()
    failures = reader.failures
    model = model_named(stated.name.partition(".")[0])
    values = SET.read(entry.value, reader)
    if model is None:
        names = sorted(m.name for m in MODELS.values())
        reader.fail(entry.key, f"'{stated.name}' is of no model; {did_you_mean(stated.name.partition('.')[0], names)}")
    if values is INVALID or not isinstance(entry.value, MapNode):
        return INVALID
    source = values.get("source")
    if sources is not None and source is not None and source not in sources:
        where = entry.value.entries["source"].value
        reader.fail(where, f"source '{source}' is not a key of sources; {did_you_mean(source, sorted(sources))}")
    if model is not None and "parameters" in values:
        values["values"] = _parameters(values["parameters"], stated.name, declared(model, stated.name), reader)
    if reader.failures > failures:
        return INVALID
    values.pop("parameters")
    return ParameterSet(**{"name": stated.name, "device": stated.profile, **_device(stated.source), **values})


@lru_cache(maxsize=8)
def _device(source: Source) -> Mapping[str, str]:
    """What a file says of the device that its sets were fitted on; one that is not plain YAML is parsed for it."""
    found = {name: word.strip("'\"") for name, word in _DEVICE.findall(source.text)}
    if not found and isinstance(node := parse(source), MapNode):
        stated = {name: node.entries[name].value for name in ("product", "architecture") if name in node.entries}
        found = {name: value.text for name, value in stated.items() if isinstance(value, Scalar)}
    return found


def _parameters(node: Node, name: str, wanted: Iterable[Parameter], reader: Reader) -> Any:
    """The numbers by name: all that the model declares for the set, each within its range."""
    keys = [Key(p.name, Real(p.low, p.high), p.doc, required=True) for p in wanted]
    return Record(f"the map of parameters of '{name}'", tuple(keys)).read(node, reader)


# --------------------------------------------------------------------------- types
@dataclass(frozen=True, slots=True)
class _Nodes:
    """A map of numbers, read later with the model at hand."""

    def read(self, node: Node, reader: Reader) -> Any:
        return node if isinstance(node, MapNode) else reader.fail(node, f"expected parameters as a map, found {kind(node)}")

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "number"}}


@dataclass(frozen=True, slots=True)
class _Ends:
    """Two numbers above 0, the lower first."""

    def read(self, node: Node, reader: Reader) -> Any:
        if not isinstance(node, ListNode) or len(node.items) != 2:
            return reader.fail(node, "expected the two ends of a band, such as [0.9, 1.1]")
        low, high = (Real(0, above=True).read(item, reader) for item in node.items)
        if low is INVALID or high is INVALID:
            return INVALID
        return (low, high) if low <= high else reader.fail(node, f"the lower end {low:g} is above the upper one {high:g}")

    def json_schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "minItems": 2, "maxItems": 2}


@dataclass(frozen=True, slots=True)
class _Date:
    """A day as YYYY-MM-DD."""

    def read(self, node: Node, reader: Reader) -> Any:
        text = Text("a date").read(node, reader)
        if text is INVALID or re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return text
        return reader.fail(node, f"'{text}' is no date; write it as 2026-11-29")

    def json_schema(self) -> dict[str, Any]:
        return {"pattern": r"^\d{4}-\d\d-\d\d$"}  # to some readers of YAML a date is no text


@dataclass(frozen=True, slots=True)
class PriorName:
    """The name of a profile, never a path."""

    def read(self, node: Node, reader: Reader) -> Any:
        """The name."""
        name = Text("a profile name").read(node, reader)
        if name is INVALID or name in hardware_names():
            return name
        return reader.fail(node, f"unknown hardware profile '{name}'; {did_you_mean(name, hardware_names())}")

    def json_schema(self) -> dict[str, Any]:
        """Text."""
        return {"type": "string"}


BAND = Record("a band", tuple(Key(regime, _Ends(), f"in the {regime} regime") for regime in ("launch", "memory", "compute")))
SET = Record(
    "a parameter set",
    (
        Key("kind", Choice(("fitted",)), "where the numbers come from", required=True),
        Key("source", Text(), "a key of sources", required=True),
        Key("date", _Date(), "day of the fit", required=True),
        Key("device", Text(), "profile of the device that was measured; the one that states the set when not given"),
        Key("rows", Integer(1), "measurements that were fitted", required=True),
        Key("band", BAND, "5th and 95th percentile of measured over estimated time, of rows that were not fitted"),
        Key("parameters", _Nodes(), "every number that the model declares", required=True),
        Key("note", Text(), "what a reader should know"),
    ),
)


@dataclass(frozen=True, slots=True)
class FittedType:
    """What stands under ``fitted``. The sets of a map are taken out before (`take_sets`), so that only what is none comes here."""

    def read(self, node: Node, reader: Reader) -> Any:
        """Nothing, after reporting."""
        return reader.fail(node, f"expected parameter sets by name, found {kind(node)}")

    def json_schema(self) -> dict[str, Any]:
        """Sets by name."""
        return {"type": "object", "patternProperties": {"^x-": {}}, "additionalProperties": SET.json_schema()}
