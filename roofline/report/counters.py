"""What hardware counters say of kernels, as data: measured bytes and FLOP, and what a workload counts beside them.

Everything measured comes from counters and everything counted from operators; the two meet only in quotients, which say which is over
which. A value that was not collected is null and ``unavailable`` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.report.model import Input, Notice

SCHEMA = 1
LEVELS = ("hbm", "l2", "l1", "smem")
"""Levels that counters tell apart; the registers have none."""

CONVENTIONS = {
    "hbm": "bytes between L2 and device memory (dram__bytes)",
    "l2": "all bytes that L2 handles, those between its halves and to memory included (lts__t_bytes): up to 1.5 times what kernels ask for",
    "l1": "bytes that pass the tag stage of L1 (l1tex__t_bytes); bulk copies to shared memory are not among them",
    "smem": "wavefronts of shared memory times 128 B, the most that one moves, without operands that tensor cores fetch themselves",
    "flop": "multiply-add is 2; tensor FLOP by the cores' own count, padding of tiles included; vector FLOP of fp32 and fp64 instructions",
    "sfu": "operations of the pipe for special functions, conversions included",
    "amplification": "measured over counted",
    "time": "of the profiled run, at its clock and with its handling of caches",
}
"""How the measured figures are to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A kernel on the roofline of one level.

    ``intensity_flop_per_byte`` is measured FLOP over measured bytes, ``roof_flop_per_s`` the lesser of the engine's peak and intensity
    times the level's bandwidth, both of the profile; ``share_of_roof`` is measured FLOP/s over that, ``share_of_bandwidth`` measured B/s
    over the bandwidth. The last three are null without a profile.
    """

    bytes: float
    bytes_per_s: float | None
    intensity_flop_per_byte: float | None
    flop_per_s: float | None
    roof_flop_per_s: float | None
    share_of_roof: float | None
    share_of_bandwidth: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedWork:
    """What the step's operators count for the same executions: each operand once, and with the re-reads of their tiling."""

    step: str
    op: str
    executions: int
    hbm_read_bytes: float
    hbm_write_bytes: float
    hbm_bytes: float
    cached_hbm_bytes: float | None
    l2_bytes: float
    tiled_l2_bytes: float | None
    flop: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A likely cause of bytes or FLOP beyond the counted ones, or short of them, and the counters that show it."""

    name: str
    amount: float
    unit: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRow:
    """All launches of one NVTX range or of one kernel, added up. Keys of ``bytes``, ``flop`` and ``points`` are always there.

    ``limiter`` is the ``busiest`` unit where that is busy enough to limit, ``latency`` where all units are known and none is.
    """

    id: str
    kernels: tuple[str, ...]
    launches: int
    time_s: float | None
    share: float | None
    bytes: Mapping[str, float | None]
    flop: Mapping[str, float | None]
    tensor_flop_by_dtype: Mapping[str, float]
    points: Mapping[str, Point | None]
    utilisation: Mapping[str, float]
    limiter: str | None
    busiest: str | None
    busiest_share: float | None
    limiter_source: str | None
    counted: CountedWork | None
    amplification: Mapping[str, float | None]
    causes: tuple[Cause, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReport:
    """Everything that a file of counters says. ``candidates`` are profiles that fit the device, none of which is taken unasked."""

    schema: int
    kind: str
    tool: str
    inputs: tuple[Input, ...]
    form: str
    by: str
    hardware: str | None
    candidates: tuple[str, ...]
    launches: int
    time_s: float | None
    conventions: Mapping[str, str]
    rows: tuple[CounterRow, ...]
    warnings: tuple[Notice, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)
