"""What the ceilings share: a bench to time candidates on, the sizes to use, and the figure that comes out.

A ceiling is measured with several candidate kernels that do the same work; the fastest is the ceiling and its name goes
into the note. A candidate that cannot run here (no compiler, no Triton, no memory) is left out and named; when none
runs, the ceiling is `Unmeasured` with the reasons.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from roofline.measure.base import Device, Procedure, Runner, Timing
from roofline.measure.timing import measure
from roofline.measure.watch import ThreadWatch, Watch

Call = Callable[[], Any]
Shape = tuple[int, int, int]
MOST_REASON = 160
"""Longest reason kept: compilers write pages."""

_PATH = re.compile(r"(?<![\w/])(?:[A-Za-z]:\\|/)[\w.+\\/-]+")


class Unmeasured(Exception):
    """A ceiling that cannot be measured here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large the work is and how long it is timed.

    ``array_bytes`` is one array of the main-memory tests, ``cache_bytes`` the working sets of the cache test,
    ``shapes`` the (m, n, k) of the products, ``transfer_bytes`` one copy over PCIe, ``steps`` the length of the
    register, shared-memory and special-function loops, ``launches`` the kernels of one launch sample.
    """

    array_bytes: int
    cache_bytes: tuple[int, ...]
    shapes: tuple[Shape, ...]
    transfer_bytes: int
    steps: int
    launches: int
    burst: Procedure
    sustained: Procedure


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A ceiling as measured, in SI units: the median, its interval, the best sample; ``clock_hz`` and power meanwhile.

    ``label`` names the candidate that it is of, ``note`` says what a reader should know besides.
    """

    label: str
    value: float
    low: float
    high: float
    best: float
    clock_hz: float | None = None
    power_w: float | None = None
    kind: str = "measured"
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to do the work: ``build`` makes the inputs and gives the call, ``check`` raises when its result is wrong."""

    label: str
    build: Callable[[], Call]
    check: Callable[[], None] | None = None
    work: float | None = None


@dataclass
class Bench:
    """A device with the sizes for it. ``found`` and ``failed`` (with the reason) hold what came before, for ceilings that follow."""

    device: Device
    sizes: Sizes
    found: dict[str, Measured] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    watch: Callable[[Device], Watch] = ThreadWatch

    @property
    def cuda(self) -> bool:
        """Whether the device is a CUDA GPU."""
        return self.device.info.kind == "cuda"

    @property
    def place(self) -> str:
        """The device as torch names it."""
        return "cuda" if self.cuda else "cpu"

    @property
    def processors(self) -> int:
        """How many processors the device has."""
        count = self.device.info.processors
        if not count:
            raise Unmeasured("the device does not tell how many processors it has")
        return count

    def time(self, call: Call, procedure: Procedure | None = None, launch: str | None = None) -> Timing:
        """Time one call; inputs are far larger than the caches or meant to stay in them, so one set is enough."""
        how = launch or ("graph" if self.cuda else "eager")

        def prepare(repeats: int) -> Runner:
            return self.device.prepare([call], repeats, how)

        timing = measure(self.device, prepare, procedure or self.sizes.burst, watch=self.watch)
        if timing.status == "interrupted":  # Ctrl-C ended this measurement; it is meant for the whole run
            raise KeyboardInterrupt
        if timing.status == "invalid":
            raise Unmeasured("; ".join(timing.notes) or "the measurement is invalid")
        return timing

    def fastest(self, work: float, candidates: list[Candidate], procedure: Procedure | None = None) -> Measured:
        """The rate of the candidate with the fastest median, ``work`` in bytes, FLOP or operations a call.

        Its best sample is the best of all candidates: nothing was seen to be faster.

        Raises:
            Unmeasured: no candidate could run.
        """
        rates: dict[str, Measured] = {}
        reasons: dict[str, str] = {}
        for candidate in candidates:
            try:
                rates[candidate.label] = self.rate(candidate.work or work, candidate, procedure)
            except Exception as err:  # whatever a kernel or its compiler raises ends this candidate only
                reasons[candidate.label] = reason(err)
            self.device.empty_cache()
        if not rates:
            raise Unmeasured("; ".join(f"{label}: {why}" for label, why in reasons.items()))
        chosen = max(rates.values(), key=lambda m: m.value)
        fastest = replace(chosen, best=max(m.best for m in rates.values()))
        return with_note(fastest, *(f"{label} failed ({why})" for label, why in reasons.items()))

    def rate(self, work: float, candidate: Candidate, procedure: Procedure | None = None) -> Measured:
        """Build, run once, check, time."""
        call = candidate.build()
        call()
        self.device.synchronize()
        if candidate.check:
            candidate.check()
        return rate_of(self.time(call, procedure), work, candidate.label)


def rate_of(timing: Timing, work: float, label: str) -> Measured:
    """Work per second from seconds a call."""
    notes = timing.notes if timing.status == "ok" else (timing.status, *timing.notes)
    shortest, longest = min(timing.samples_s), max(timing.samples_s)
    if not shortest > 0:
        raise Unmeasured("the timer read zero")
    return Measured(
        label=label,
        value=work / timing.median_s,
        low=work / min(timing.high_s, longest),  # a bootstrap over few blocks may reach beyond all samples, to zero even
        high=work / max(timing.low_s, shortest),
        best=work / shortest,
        clock_hz=clock_of(timing),
        power_w=_median([r.power_w for r in timing.readings]),
        note="; ".join(notes),
    )


def seconds_of(samples: list[float], label: str, clock_hz: float | None = None) -> Measured:
    """A duration from repeated readings of it: the median, the middle half as its interval, the shortest."""
    ordered = sorted(samples)
    quarter = len(ordered) // 4
    middle = median(ordered)
    return Measured(
        label=label,
        value=middle,
        low=min(middle, ordered[quarter]),
        high=max(middle, ordered[-1 - quarter]),
        best=ordered[0],
        clock_hz=clock_hz,
    )


def clock_of(timing: Timing) -> float | None:
    """The median clock of the processors while the samples ran."""
    mhz = _median([r.sm_mhz for r in timing.readings])
    return None if mhz is None else mhz * 1e6


def _median(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None


def with_note(found: Measured, *notes: str) -> Measured:
    """The same with more to say."""
    return replace(found, note="; ".join([n for n in (found.note, *notes) if n]))


def reason(err: BaseException) -> str:
    """What went wrong, in one short line without paths of this machine.

    >>> reason(OSError("/opt/x/libnvrtc.so: cannot open"))
    '...: cannot open'
    """
    lines = (line.strip() for line in str(err).splitlines())
    text = _PATH.sub("...", next(filter(None, lines), ""))
    return (text or type(err).__name__)[:MOST_REASON]


def close(found: float, expected: float, tolerance: float, what: str) -> None:
    """Refuse a kernel whose result shows that it did not do its work.

    Raises:
        Unmeasured: the result differs.
    """
    if not math.isfinite(found) or abs(found - expected) > tolerance * abs(expected):
        raise Unmeasured(f"wrong result of {what}: {found:.6g}, expected {expected:.6g}")
