"""The ``measured`` map of a hardware profile: ceilings by name, each with its interval, clock and source.

Written by ``roofline calibrate`` and read back here. The names are fixed, so that a ceiling can be looked up and a
misspelt one is refused with the nearest.
"""

from __future__ import annotations

from typing import Any

from roofline.dtypes import DTYPES
from roofline.hardware.profile import Absent, Ceiling
from roofline.records import dataclass
from roofline.spec.reader import INVALID, Reader
from roofline.spec.schema import Choice, Key, Quantity, Record, Text
from roofline.spec.source import MapNode, Node
from roofline.units import Dimension

MODES = ("burst", "sustained")
_MATRIX = tuple(dict.fromkeys(d.matrix for d in DTYPES.values()))

LINKS = ("nvlink", "infinity_fabric", "pcie", "infiniband", "roce", "link")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
REGIMES = (1, 2, 3)
"""Ranges of sizes, by the bytes that each rank sends, in which a collective has one latency and one bandwidth."""

CEILINGS: dict[str, Dimension] = {
    **{f"hbm.{pattern}": Dimension.BYTES_PER_S for pattern in ("read", "write", "copy", "triad")},
    **{f"{level}.read": Dimension.BYTES_PER_S for level in ("l2", "smem", "register")},
    **{f"vector.{name}": Dimension.FLOP_PER_S for name in ("fp64", "fp32", "fp16", "bf16")},
    "sfu": Dimension.OPS_PER_S,
    **{f"tensor.{name}.{mode}": Dimension.FLOP_PER_S for name in _MATRIX for mode in MODES},
    **{f"launch.{what}": Dimension.SECONDS for what in ("host", "gap", "graph_node")},
    **{f"pcie.{way}": Dimension.BYTES_PER_S for way in ("h2d", "d2h")},
    "host.memcpy": Dimension.BYTES_PER_S,
    **{
        f"{link}.{kind}.{number}.{what}": dimension
        for link in LINKS
        for kind in COLLECTIVES
        for number in REGIMES
        for what, dimension in (("alpha", Dimension.SECONDS), ("bandwidth", Dimension.BYTES_PER_S))
    },
}
"""Every ceiling, and what it measures."""


@dataclass(frozen=True, slots=True)
class CeilingType:
    """A ceiling: value with interval, clock, kind and source; or absent with the reason."""

    dimension: Dimension

    def read(self, node: Node, reader: Reader) -> Any:
        """The ceiling in SI units, or `Absent`."""
        absent = isinstance(node, MapNode) and "absent" in node.entries
        found = (_ABSENT if absent else self._record()).read(node, reader)
        if found is INVALID:
            return INVALID
        if absent:
            return Absent(found["absent"]) if "absent" in found else INVALID
        if not {"value", "kind", "source"} <= found.keys():
            return INVALID
        if not found.get("low", found["value"]) <= found["value"] <= found.get("high", found["value"]):
            return reader.fail(node, "the value of a ceiling lies from its low to its high")
        clock = found.pop("clock", None)
        return Ceiling(**found, unit=self.dimension.si, clock_hz=clock)

    def _record(self) -> Record:
        quantity = Quantity(self.dimension)
        return Record(
            "a measured ceiling",
            (
                Key("value", quantity, "median over the samples", required=True),
                Key("low", quantity, "lower end of the 95 % interval of the median"),
                Key("high", quantity, "upper end of it"),
                Key("best", quantity, "the fastest sample"),
                Key("clock", Quantity(Dimension.HERTZ), "median clock of the processors meanwhile"),
                Key("kind", Choice(("measured", "derived")), "derived: worked out from a measured clock", required=True),
                Key("source", Text(), "a key of sources", required=True),
                Key("note", Text(), "how it was measured"),
            ),
        )

    def json_schema(self) -> dict[str, Any]:
        """One of the two forms."""
        return {"oneOf": [self._record().json_schema(), _ABSENT.json_schema()]}


_ABSENT = Record("a measured ceiling", (Key("absent", Text(), "why it could not be measured", required=True),))


@dataclass(frozen=True, slots=True)
class MeasuredType:
    """The map of ceilings by name."""

    record: Record

    def read(self, node: Node, reader: Reader) -> Any:
        """The ceilings by name."""
        return self.record.read(node, reader)

    def json_schema(self) -> dict[str, Any]:
        """Ceilings by name; those of collectives, a hundred of two sorts, as patterns."""
        single = Record("measured", tuple(k for k in self.record.keys if k.name not in _OF_LINKS))
        found = single.json_schema()
        before = rf"^({'|'.join(LINKS)})\.({'|'.join(COLLECTIVES)})\.[{REGIMES[0]}-{REGIMES[-1]}]\."
        return {
            **found,
            "patternProperties": {**found["patternProperties"], **{f"{before}{what}$": t.json_schema() for what, t in _LINES.items()}},
        }


_LINES = {"alpha": CeilingType(Dimension.SECONDS), "bandwidth": CeilingType(Dimension.BYTES_PER_S)}
_OF_LINKS = {f"{link}.{kind}.{number}.{what}" for link in LINKS for kind in COLLECTIVES for number in REGIMES for what in _LINES}
MEASURED = MeasuredType(Record("measured", tuple(Key(name, CeilingType(d), f"{name} in {d.si}") for name, d in CEILINGS.items())))
