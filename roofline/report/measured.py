"""Two measurements of a row side by side: may they be compared, and what do the samples say?

First the conditions. A row measured on another device, in another dtype, by another kernel, with other fields or in
another mode has no ratio, because the number would be read as an effect of the change. Then the verdict, of which only
*worse* is a failure:

* worse, better: the whole interval of the ratio of medians lies beyond the tolerance, and the rank test over all
  measured rows together (Holm) agrees. Where the samples were too few for it to reach ``LEVEL`` at all, every block of
  one side has to lie beyond every block of the other.
* clock: so it is in seconds, but not in clock cycles, where those decide: a compute-bound row, or a throttled side.
* same: the whole interval lies within the tolerance.
* unclear: anything else, with the number of blocks that would settle it.

The tolerance of a row is the one asked for, or the noise between blocks of the same code where that is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from roofline.predict.bound import COMPUTE
from roofline.report.model import Row
from roofline.report.sentences import percent, plural

if TYPE_CHECKING:
    from roofline.report.statistics import Effect

TOLERANCE = 0.03
LEVEL = 0.01
"""Below this p, corrected for the number of rows, a difference is not chance."""
VARIANTS = ("implementation", "scale_pass", "fused", "in_place")
"""Fields that are another way to the same result; a mask, a bias or a residual is other work."""
CONDITIONS = ("device", "kernel", "cache", "launch", "mode", "threads")
CLOCK = "sm_mhz_median"
USABLE = ("ok", "throttled", "interrupted")
VERDICTS = ("worse", "clock", "unclear", "not comparable", "better", "same")
DECIDED = ("worse", "better", "same")
Pair = tuple[Row, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredChange:
    """Measured times side by side: ``ratio`` is head over base, with its 95 % interval and ``p`` corrected for all rows.

    ``verdict`` is one of VERDICTS; without a ratio the two cannot be compared. ``detectable`` is the least true change
    that samples like these would have shown, ``needed_blocks`` how many blocks a side would settle an unclear row.
    """

    base_s: float
    head_s: float
    ratio: float | None
    verdict: str
    reason: str
    low: float | None = None
    high: float | None = None
    p: float | None = None
    tolerance: float | None = None
    detectable: float | None = None
    blocks: int | None = None
    needed_blocks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSummary:
    """All measured rows: how many got which verdict, and the geometric mean of those that have an interval."""

    verdicts: Mapping[str, int]
    rows: int
    ratio: float | None
    low: float | None
    high: float | None


def judge_measured(
    pairs: Sequence[Pair], tolerance: float = TOLERANCE, *, any_context: bool = False
) -> tuple[dict[str, MeasuredChange], MeasuredSummary | None]:
    """The verdict of every row that was measured on both sides, by id, and all of them together."""
    both = [(b, h) for b, h in pairs if b.measured and h.measured]
    refused = {b.id: why for b, h in both if (why := _unusable(b, h) or (not any_context and _bars(b, h)))}
    effects = {b.id: _effect(b, h) for b, h in both if b.id not in refused and _lacking(b, h) is None}
    corrected = _corrected(effects)
    found = {}
    for base, head in both:
        if base.id in refused:
            found[base.id] = _without_ratio(base, head, str(refused[base.id]))
        elif base.id not in effects:
            found[base.id] = _without_samples(base, head)
        else:
            found[base.id] = _judged(
                base, head, effects[base.id], corrected[base.id], max(tolerance, effects[base.id].noise_floor), len(effects)
            )
    return found, _summary(found, list(effects.values())) if found else None


def _corrected(effects: Mapping[str, Effect]) -> dict[str, float]:
    if not effects:
        return {}
    from roofline.report.statistics import holm

    return dict(zip(effects, holm([e.p for e in effects.values()]), strict=True))


def _summary(found: Mapping[str, MeasuredChange], effects: Sequence[Effect]) -> MeasuredSummary:
    counts = {v: n for v in VERDICTS if (n := sum(c.verdict == v for c in found.values()))}
    if not effects:
        return MeasuredSummary(verdicts=counts, rows=0, ratio=None, low=None, high=None)
    from roofline.report.statistics import geomean

    ratio, low, high = geomean(effects)
    return MeasuredSummary(verdicts=counts, rows=len(effects), ratio=ratio, low=low, high=high)


# --------------------------------------------------------------------------- comparable
def devices(pairs: Sequence[Pair]) -> Iterator[str]:
    """What is another device, or another dtype everywhere, among rows measured on both sides."""
    both = [(b, h) for b, h in pairs if b.measured and h.measured]
    yield from dict.fromkeys(
        f"measured on {old} -> {new}" for b, h in both for old, new in [_condition(b, h, "device")] if old and new and old != new
    )
    if both and all(b.dtype != h.dtype for b, h in both):
        yield from dict.fromkeys(f"measured in {b.dtype} -> {h.dtype}" for b, h in both)


def _condition(base: Row, head: Row, key: str) -> tuple[object, object]:
    return (base.measured.conditions.get(key) if base.measured else None), (head.measured.conditions.get(key) if head.measured else None)


def _bars(base: Row, head: Row) -> str:
    """Differences that make it another measurement: of the work, or of how it was run.

    Another implementation or kernel of the same work is none: that is what a change is compared for.
    """
    return _said_differences(base, head, {*VARIANTS, "kernel"})


def _differences(base: Row, head: Row) -> str:
    """All that was not the same on both sides, in words; empty where nothing is known to differ."""
    return _said_differences(base, head, set())


def _said_differences(base: Row, head: Row, but: set[str]) -> str:
    pairs = {key: (getattr(base, key), getattr(head, key)) for key in ("op", "direction", "dtype")}
    pairs |= {key: (base.fields.get(key), head.fields.get(key)) for key in dict.fromkeys([*base.fields, *head.fields]) if key != "dtype"}
    pairs |= {key: _condition(base, head, key) for key in CONDITIONS}
    return ", ".join(f"{key} {_said(old)} -> {_said(new)}" for key, (old, new) in pairs.items() if old != new and key not in but)


def _said(value: object) -> str:
    return "not stated" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _unusable(base: Row, head: Row) -> str:
    """Sides that have no time to be believed."""
    sides = [("base", base.measured), ("head", head.measured)]
    bad = [f"{name} is {m.status}" for name, m in sides if m and m.status not in USABLE]
    bad += [f"{name} has no time above 0" for name, m in sides if m and m.status in USABLE and not m.time_s > 0]
    return ", ".join(bad)


def _lacking(base: Row, head: Row) -> str | None:
    """Why the samples allow no verdict."""
    from roofline.report.statistics import FEWEST_SAMPLES

    for name, m in (("base", base.measured), ("head", head.measured)):
        count = len(m.samples_s) if m and m.samples_s else 0
        if m is None or not m.samples_s:
            return f"no samples in the {name}: without them a difference cannot be told from noise"
        if count < FEWEST_SAMPLES:
            return f"{plural(count, 'sample')} in the {name}: at least {FEWEST_SAMPLES} are needed to tell a difference from noise"
        if min(m.samples_s) <= 0:
            return f"a sample of the {name} is not above 0"
        if m.blocks is not None and len(m.blocks) != count:
            return f"the {name} has {plural(count, 'sample')} and {plural(len(m.blocks), 'block label')}"
    return None


def _without_ratio(base: Row, head: Row, why: str) -> MeasuredChange:
    return MeasuredChange(base_s=_time(base), head_s=_time(head), ratio=None, verdict="not comparable", reason=why)


def _without_samples(base: Row, head: Row) -> MeasuredChange:
    ratio = _time(head) / _time(base)
    return MeasuredChange(base_s=_time(base), head_s=_time(head), ratio=ratio, verdict="unclear", reason=_lacking(base, head) or "")


def _time(row: Row) -> float:
    return row.measured.time_s if row.measured else 0.0


# --------------------------------------------------------------------------- verdict
def _effect(base: Row, head: Row) -> Effect:
    """The statistics of one row; its draws do not depend on which other rows there are."""
    from roofline.report.statistics import SEED, effect, paired_effect, split

    sides = [split(m.samples_s or (), m.blocks) for m in (base.measured, head.measured) if m]
    compare = paired_effect if _in_turns(base, head) and len(sides[0]) == len(sides[1]) else effect
    return compare(sides[0], sides[1], seed=(SEED, crc32(base.id.encode())))


def _in_turns(base: Row, head: Row) -> bool:
    """Whether both were measured in turns in one session, so that equal blocks stood beside each other."""
    old, new = _condition(base, head, "session")
    return old is not None and old == new


def _judged(base: Row, head: Row, found: Effect, p: float, tolerance: float, rows: int) -> MeasuredChange:
    from roofline.report.statistics import blocks_to_settle, detectable

    verdict, reason, needed = _verdict(found, p, tolerance, rows)
    if verdict in ("worse", "better"):
        verdict, reason = _in_cycles(base, head, found, tolerance, verdict, reason)
    elif verdict == "unclear" and needed is None:
        needed = blocks_to_settle(found, tolerance)
        reason += (
            f"; about {needed} blocks a side would settle it, {found.blocks} were run" if needed else "; the ratio lies on the tolerance"
        )
    throttled = [name for name, m in (("base", base.measured), ("head", head.measured)) if m and m.status == "throttled"]
    notes = [f"{' and '.join(throttled)} throttled"] if throttled else []
    notes += [w for w in [_differences(base, head)] if w]
    return MeasuredChange(
        base_s=_time(base),
        head_s=_time(head),
        ratio=found.ratio,
        verdict=verdict,
        reason="; ".join([reason, *notes]),
        low=found.low,
        high=found.high,
        p=p,
        tolerance=tolerance,
        detectable=detectable(found, tolerance),
        blocks=found.blocks,
        needed_blocks=needed,
    )


def _beyond(found: Effect, tolerance: float, factor: float = 1.0) -> str | None:
    """The side of the tolerance on which the whole interval lies, times ``factor``."""
    if found.low * factor > 1 + tolerance:
        return "worse"
    return "better" if found.high * factor < 1 / (1 + tolerance) else None


def _verdict(found: Effect, p: float, tolerance: float, rows: int) -> tuple[str, str, int | None]:
    """The verdict in seconds, why, and the blocks needed where that is known already."""
    from roofline.report.statistics import blocks_to_reach

    allowed = f"the tolerance of {percent(tolerance)}" + ("" if tolerance > found.noise_floor else ", the noise between blocks")
    side = _beyond(found, tolerance)
    if side is None:
        if found.low >= 1 / (1 + tolerance) and found.high <= 1 + tolerance:
            return "same", f"within {allowed}", None
        return "unclear", f"the interval reaches across {allowed}", None
    if p < LEVEL:
        return side, f"beyond {allowed}, p = {p:.2g}", None
    if found.smallest_p * rows >= LEVEL and found.p <= found.smallest_p * (1 + 1e-9):
        return side, f"beyond {allowed}, and every block beyond every block of the other side", None
    needed = max(found.blocks + 1, blocks_to_reach(LEVEL / rows))
    return "unclear", f"beyond {allowed}, but with p = {p:.2g} it may be chance; {needed} blocks a side would settle it", needed


def _in_cycles(base: Row, head: Row, found: Effect, tolerance: float, verdict: str, reason: str) -> tuple[str, str]:
    """Whether the gap is one in cycles too, where the clock could have made it."""
    throttled = any(m and m.status == "throttled" for m in (base.measured, head.measured))
    compute = any(r.bound and r.bound.limiter in COMPUTE for r in (base, head))
    if not (throttled or compute):
        return verdict, reason
    old, new = (m.clocks.get(CLOCK) if m else None for m in (base.measured, head.measured))
    if not old or not new:
        return ("clock", f"{reason}; no clocks were recorded to tell it from the throttling") if throttled else (verdict, reason)
    if _beyond(found, tolerance, new / old) == verdict:
        return verdict, f"{reason}; in cycles too"
    return "clock", f"{reason}, but not in cycles: the clock went from {old:.0f} to {new:.0f} MHz"
