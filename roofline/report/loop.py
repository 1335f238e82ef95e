"""An optimisation effort as data: turns, each a hypothesis with a change, a prediction, a measurement and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOOP_SCHEMA = 1
"""Version of the log's format."""
WORSE, NO_GAIN, LESS, AS_PREDICTED, MORE, NOT_COMPARED = (
    "worse", "no gain", "less than predicted", "as predicted", "more than predicted", "not compared",
)  # fmt: skip
VERDICTS = (WORSE, NO_GAIN, LESS, AS_PREDICTED, MORE, NOT_COMPARED)
"""What became of a prediction; the last where the turn before was not measured."""
SAME = 0.03
"""Change of a measured time that is none, as in `roofline diff`."""
TOLERANCE = 0.10
"""How far an achieved gain may lie from the predicted one to be as predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the log names, and the hash of its text then."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What was expected of a turn: seconds of that kind (estimate or bound) for one run, and the gain over the turn before.

    ``speedup`` is of throughput: where a run does more work (``Turn.work``) that counts. Where steps of the turn before were
    measured, it is the predicted ratio applied to those times.
    """

    kind: str
    time_s: float
    speedup: float
    report: File


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTurn:
    """What a run took, where that comes from, the gain over the turn before (null where that was not measured) and the verdict.

    ``rows`` are the verdicts of `roofline diff` on single steps, where both turns have reports of measured steps.
    """

    time_s: float
    source: str
    report: File | None
    speedup: float | None
    verdict: str
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn. ``change`` is a key of `roofline advise`, or empty where ``settings`` are overrides given by hand.

    ``work`` is the work of a run over that of turn 0, which is the workload as it was.
    """

    number: int
    change: str
    settings: tuple[str, ...]
    hypothesis: str
    work: float
    predicted: Predicted
    measured: MeasuredTurn | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A whole effort, which its file can be made from again: same inputs, same predictions."""

    schema: int
    kind: str
    workload: File
    overrides: tuple[str, ...]
    hardware: File
    turns: tuple[Turn, ...]

    @property
    def measured_turns(self) -> tuple[Turn, ...]:
        """Those that were measured."""
        return tuple(t for t in self.turns if t.measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStatus:
    """The log with its totals: predicted and achieved gain from turn 0 to the last turn that was measured.

    ``predicted_all`` is the predicted gain of all turns. Null where too little was measured.
    """

    log: Log
    predicted_all: float
    predicted: float | None
    achieved: float | None
    until: int | None


def status_of(log: Log) -> LoopStatus:
    """The totals of a log. Gains multiply along the turns."""
    found = [t for t in log.measured_turns if t.number > 0]
    first = log.turns[0].measured
    last = found[-1] if found else None
    achieved = last.work * first.time_s / last.measured.time_s if first and last and last.measured else None
    return LoopStatus(
        log=log,
        predicted_all=_product(log, len(log.turns)),
        predicted=_product(log, last.number + 1) if last and achieved is not None else None,
        achieved=achieved,
        until=last.number if last and achieved is not None else None,
    )


def _product(log: Log, end: int) -> float:
    total = 1.0
    for turn in log.turns[1:end]:
        total *= turn.predicted.speedup
    return total
