"""The marks of a roofline: each step at its intensity and at the rate that its bound, its estimate or its measurement means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from roofline.report.model import Report, Row, arithmetic

LEVELS_WITHIN = ("l2", "smem", "register")
TRUSTED = ("ok", "throttled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One mark. ``row`` is the row's number, ``intensity`` FLOP per byte of HBM, ``flop_per_s`` its FLOP over ``time_s``.

    ``limiter`` is that of the bound. Where it is a memory level above HBM, ``at_limit`` is the intensity at that level, at which a
    mark stands on or under that level's roof. ``share`` is of the bound's time of the whole, null without a bound.
    """

    row: int
    id: str
    kind: str
    intensity: float
    flop_per_s: float
    time_s: float
    limiter: str | None
    share: float | None
    at_limit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """All marks of a report by row, bound before estimate before measured; ``left_out`` says by row why others have no place."""

    marks: tuple[Mark, ...]
    left_out: Mapping[str, str]


def marks_of(report: Report) -> Marks:
    """Where the rows of a report stand. What has no FLOP, no bytes or no time has no place on logarithmic axes, and is named."""
    found: list[Mark] = []
    left_out = {}
    for i, row in enumerate(report.rows):
        why = _without_place(row)
        marks = [] if why else list(_of(i, row))
        if marks:
            found += marks
        else:
            left_out[row.id] = why or "no time"
    return Marks(marks=tuple(found), left_out=left_out)


def _without_place(row: Row) -> str | None:
    if not arithmetic(row.flop):
        return "no FLOP"
    return None if row.bytes.get("hbm") else "no bytes of HBM"


def _of(i: int, row: Row) -> Iterator[Mark]:
    flop = arithmetic(row.flop)
    limiter = row.bound.limiter if row.bound else None
    inner = row.bytes.get(limiter) if limiter in LEVELS_WITHIN else None
    for kind, time in times(row).items():
        yield Mark(
            row=i,
            id=row.id,
            kind=kind,
            intensity=flop / row.bytes["hbm"],
            flop_per_s=flop / time,
            time_s=time,
            limiter=limiter,
            share=row.share,
            at_limit=flop / inner if inner else None,
        )


def times(row: Row) -> dict[str, float]:
    """Seconds of one execution by kind, those that are above 0; a measurement that is not to be trusted is none."""
    found = {
        "bound": row.bound.time_s if row.bound else 0.0,
        "estimate": row.estimate.time_s if row.estimate else 0.0,
        "measured": row.measured.time_s if row.measured and row.measured.status in TRUSTED else 0.0,
    }
    return {kind: time for kind, time in found.items() if time > 0}
