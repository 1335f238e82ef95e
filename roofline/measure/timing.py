"""How a kernel is timed: warm until it is stable, sample in rounds until the median is known, watch the clocks meanwhile.

Knows a device and a runner, neither torch nor NVML. The order of a measurement:

1. size: how many calls make a sample long enough for the timer (`sized`);
2. warm up for ``warmup_s`` and until three block medians agree within 1 %, at most ten times as long;
3. rounds of samples, with a rest and a short warm-up before each in burst mode, back to back in sustained mode, until
   there are enough samples, long enough, with a narrow enough interval, or the time is up;
4. a round in which the device was slowed by heat or supply does not count and is repeated, ``retries`` times; after
   that all samples are kept and the status says throttled. Sustained measurements repeat none: their heat is their point.

The result is never empty: the first sample is always taken. Ctrl-C keeps the complete samples; a second one ends at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from roofline.measure.base import Device, Procedure, Runner, Timing
from roofline.measure.interval import bootstrap_interval, relative_width
from roofline.measure.rotation import Rotation, input_sets, rotation_verified
from roofline.measure.verdict import Span, clock_note, ecc_growth, power_cap_note, slowdown_note, slowed, timer_note, within
from roofline.measure.watch import InlineWatch, ThreadWatch, Watch

__all__ = ["InlineWatch", "Rotation", "ThreadWatch", "input_sets", "measure", "rotation_verified", "sized"]

STABLE = 0.01
WARM_BLOCKS = 3
WARM_PARTS = 4
"""A warm-up block lasts a quarter of ``warmup_s``: 50 ms of the usual 200."""
WARM_LIMIT = 10
REWARM_PART = 10
"""Before each burst round a tenth of ``warmup_s``: the rest has let clocks and caches go."""
REST_S = 0.05
COOL_S = 0.5
"""Pause before a throttled round is repeated; doubles each time."""
MARGIN = 1.1
"""Calls beyond the estimate, since the device speeds up as it warms."""
MOST_CALLS = 20_000
"""Calls a sample may hold: each is a node of a captured graph, which takes memory and time to make."""
SIZINGS = 4
MOST_RUNS = 10_000
"""Runs of a warm-up block or a round, whatever the clock says: a timer that stands still must not hold it up."""
MOST_SAMPLES = 100_000

Prepare = Callable[[int], Runner]
Progress = Callable[[float], None]


def measure(
    device: Device,
    prepare: Prepare,
    procedure: Procedure,
    *,
    progress: Progress | None = None,
    watch: Callable[[Device], Watch] = ThreadWatch,
) -> Timing:
    """Time a kernel.

    ``prepare(repeats)`` gives a runner that goes ``repeats`` times through the input sets; it may be called several
    times, and each runner is closed before the next is asked for. ``progress`` receives the share that is done.

    Raises:
        OutOfDeviceMemory, MeasurementInvalidError: from ``prepare``, for the caller to contain.
        KeyboardInterrupt: interrupted before the first complete sample.
    """
    runner = sized(device, prepare, procedure)
    session = _Session(device, runner, procedure, watch(device), progress or (lambda share: None))
    try:
        session.watch.start()
        session.warm_up()
        session.sample()
    except KeyboardInterrupt:
        if not session.samples:
            raise
        session.interrupt()
    finally:
        session.watch.look()  # the last word on memory errors
        session.watch.stop()
        runner.close()
    return _finished(session)


def sized(device: Device, prepare: Prepare, procedure: Procedure) -> Runner:
    """A runner whose one `Runner.time` lasts at least ``shortest_sample_s``, or holds as many calls as it may."""
    repeats = 1
    runner = prepare(repeats)
    try:
        for _ in range(SIZINGS):
            needed = _needed(repeats, _typical(device, runner, procedure), procedure.shortest_sample_s)
            needed = min(needed, max(1, MOST_CALLS * repeats // runner.calls))
            if needed <= repeats:
                break
            runner.close()
            repeats = needed
            runner = prepare(repeats)
    except BaseException:
        runner.close()
        raise
    return runner


def _needed(repeats: int, seconds: float, shortest_s: float) -> int:
    """Repeats for a sample of that length, given what a sample takes now; tenfold where the timer saw nothing."""
    if seconds >= shortest_s:
        return repeats
    return math.ceil(repeats * MARGIN * shortest_s / seconds) if seconds > 0 else repeats * 10


def _typical(device: Device, runner: Runner, procedure: Procedure) -> float:
    """Seconds of one run once started: the shorter half of runs over one warm-up block, their median."""
    found = sorted(_runs(device, runner, procedure.warmup_s / WARM_PARTS))
    return median(found[: max(1, len(found) // 2)])


def _runs(device: Device, runner: Runner, seconds: float) -> list[float]:
    """What each run took, repeated for that long by the host's clock, at least once."""
    until = device.now() + seconds
    found = [runner.time()]
    while device.now() < until and len(found) < MOST_RUNS:
        found.append(runner.time())
    return found


@dataclass
class _Session:
    """A measurement under way."""

    device: Device
    runner: Runner
    procedure: Procedure
    watch: Watch
    progress: Progress
    samples: list[tuple[int, float]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    slow: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    began: float = 0.0
    shown: float = 0.0
    interrupted: bool = False
    timed_out: bool = False

    def warm_up(self) -> None:
        """Run until stable; what stays unstable within the bound is noted."""
        p, medians = self.procedure, list[float]()
        limit = min(WARM_LIMIT * p.warmup_s, p.longest_s / 2)
        began = self.device.now()
        while True:
            runs = _runs(self.device, self.runner, p.warmup_s / WARM_PARTS)
            medians.append(median(runs))
            elapsed = self.device.now() - began
            spread = _spread(medians[-WARM_BLOCKS:])
            if elapsed >= p.warmup_s and len(medians) >= WARM_BLOCKS and spread <= STABLE:
                return
            if elapsed >= limit or len(runs) >= MOST_RUNS:
                if len(medians) >= WARM_BLOCKS:
                    self.notes.append(f"not stable after {elapsed:.2g} s of warm-up: block medians differ by {spread:.1%}")
                return

    def sample(self) -> None:
        """Rounds until there is enough or the time is up."""
        self.began = self.device.now()
        number = 0
        while not (self.samples and (self._over() or self._enough(number))):
            self._settle(number)
            self._round(number)
            number += 1
        self.timed_out = not self._enough(number)
        self.progress(1.0)

    def _settle(self, number: int) -> None:
        """Rest so that clocks recover, longer after a slowdown, then warm up shortly. Sustained: neither."""
        if number == 0 or self.procedure.mode == "sustained":
            return
        slow_before = number - 1 in self.slow and len(self.slow) <= self.procedure.retries
        self.device.pause(COOL_S * 2 ** (len(self.slow) - 1) if slow_before else REST_S)
        _runs(self.device, self.runner, self.procedure.warmup_s / REWARM_PART)

    def _round(self, number: int) -> None:
        """One round of samples, and whether the device was slowed in it."""
        p = self.procedure
        taken, total = 0, 0.0
        share_over = self.began + p.longest_s * (number + 1) / p.blocks  # slow calls must not spend all time in one round
        self.spans.append((self.device.now(), math.inf))
        while taken < math.ceil(p.fewest_samples / p.blocks) or total < p.shortest_s / p.blocks:
            seconds = self.runner.time()
            self.samples.append((number, seconds))
            taken, total = taken + 1, total + seconds
            self.watch.tick()
            self._show(number)
            if self._over() or taken >= MOST_RUNS or self.device.now() >= share_over:
                break
        if p.mode != "sustained":  # where a gap would let the device rest, the readings between samples must do
            self.watch.look()
        self._close_round(number)

    def _close_round(self, number: int) -> None:
        self.spans[-1] = (self.spans[-1][0], self.device.now())
        bits = slowed(self.watch.readings, self.spans[-1])
        if bits:
            self.slow[number] = bits

    def interrupt(self) -> None:
        """End where it stands: the last round is judged by what was read in it."""
        self.interrupted = True
        self._close_round(len(self.spans) - 1)

    def _over(self) -> bool:
        return self.device.now() - self.began >= self.procedure.longest_s or len(self.samples) >= MOST_SAMPLES

    def _enough(self, rounds: int) -> bool:
        p, seconds = self.procedure, [s for _, s in self.believed()]
        counted = rounds if self.gave_up else rounds - len(self.slow)
        if counted < p.blocks or len(seconds) < p.fewest_samples or sum(seconds) < p.shortest_s:
            return False
        return relative_width(seconds) < p.width

    @property
    def gave_up(self) -> bool:
        """Slowed more often than may be repeated."""
        return len(self.slow) > (self.procedure.retries if self.procedure.mode == "burst" else 0)

    def believed(self) -> list[tuple[int, float]]:
        """The samples that count: those of undisturbed rounds while rounds may be repeated, else all."""
        return self.samples if self.gave_up else self._undisturbed()

    def _undisturbed(self) -> list[tuple[int, float]]:
        return [s for s in self.samples if s[0] not in self.slow]

    def throttled(self) -> bool:
        """Whether the result stands on slowed samples, since too few others could be had."""
        return bool(self.slow) and (self.gave_up or len(self._undisturbed()) < self.procedure.fewest_samples)

    def _show(self, number: int) -> None:
        """Report progress: of what is required, up to 95 %, or of the time; never backwards."""
        p = self.procedure
        parts = (len(self.samples) / max(1, p.fewest_samples), (number + 1) / p.blocks)
        by_time = (self.device.now() - self.began) / p.longest_s if p.longest_s > 0 else 1.0
        self.shown = min(1.0, max(self.shown, by_time, 0.95 * min(1.0, *parts)))
        self.progress(self.shown)


def _spread(medians: list[float]) -> float:
    middle = median(medians)
    return (max(medians) - min(medians)) / middle if middle > 0 else 0.0


def _finished(session: _Session) -> Timing:
    """The result with its interval, status and notes."""
    kept = session.samples if session.throttled() else session._undisturbed() or session.samples
    numbers = {number: i for i, number in enumerate(dict.fromkeys(n for n, _ in kept))}
    seconds, blocks = [s for _, s in kept], [numbers[n] for n, _ in kept]
    calls = session.runner.calls
    per_call = [s / calls for s in seconds]
    low, high = bootstrap_interval(per_call, blocks)
    middle = median(per_call)
    return Timing(
        samples_s=tuple(per_call),
        blocks=tuple(blocks),
        median_s=middle,
        low_s=low,
        high_s=high,
        calls_per_sample=calls,
        input_sets=session.runner.input_sets,
        readings=within(session.watch.readings, session.spans),
        status=_status(session, middle),
        notes=tuple(_notes(session, seconds, (high - low) / middle if middle else 0.0)),
    )


def _status(session: _Session, middle: float) -> str:
    """The gravest thing that can be said."""
    if ecc_growth(session.watch.readings) or middle <= 0:
        return "invalid"
    if session.interrupted:
        return "interrupted"
    return "throttled" if session.throttled() else "ok"


def _notes(session: _Session, seconds: list[float], width: float) -> list[str]:
    p, bits, readings = session.procedure, 0, within(session.watch.readings, session.spans)
    for each in session.slow.values():
        bits |= each
    errors = ecc_growth(session.watch.readings)
    notes = [
        *session.notes,
        f"{errors} uncorrected memory errors came up during the run" if errors else None,
        "the timer read zero: samples must be longer" if median(seconds) <= 0 else None,
        slowdown_note(bits, len(session.slow), session.throttled()),
        power_cap_note(readings),
        clock_note(readings),
        timer_note(seconds, session.device.info),
        f"only {len(seconds)} samples of {p.fewest_samples} were taken" if len(seconds) < p.fewest_samples else None,
        f"the interval is {width:.1%} wide, {p.width:.1%} was asked" if width > (p.width if session.timed_out else 2 * p.width) else None,
        _hidden_note(session.runner, median(seconds)),
    ]
    return [n for n in notes if n]


def _hidden_note(runner: Runner, seconds: float) -> str | None:
    """Time that the host waited and the device's events do not cover: work on another stream escapes them."""
    hidden = getattr(runner, "unaccounted_s", None)
    if not isinstance(hidden, float) or hidden < max(1e-3, 0.5 * seconds):
        return None
    return f"the host waited {hidden:.3g} s longer a sample than the device's events cover: work on another stream may be missed"
