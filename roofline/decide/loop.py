"""The loop: begin with a workload, predict a change, measure it, compare, go on from there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from roofline.decide.advise.advise import Asked, basis_of
from roofline.decide.advise.combine import Wanted, judged
from roofline.decide.advise.effects import Outcome, State, evaluated, state_of
from roofline.decide.advise.measured import Measured, whole_s
from roofline.decide.advise.registry import changes
from roofline.decide.advise.report_source import measured_of_report
from roofline.decide.advise.situation import EXACT, Change, Situation
from roofline.decide.advise.workload_source import BATCH, of_workload
from roofline.decide.loop_log import Written, read_log, refused
from roofline.errors import MissingCapabilityError, UsageError, did_you_mean
from roofline.report.diff import compare
from roofline.report.loop import (
    AS_PREDICTED,
    LESS,
    LOOP_SCHEMA,
    MORE,
    NO_GAIN,
    NOT_COMPARED,
    SAME,
    TOLERANCE,
    WORSE,
    File,
    Log,
    MeasuredTurn,
    Predicted,
    Turn,
)
from roofline.report.model import Report
from roofline.report.store import load_report, to_json
from roofline.spec.hardware import load_hardware
from roofline.spec.source import read_source
from roofline.spec.workload import load_workload

MOST_REPORT_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class Drafted:
    """A log as it is to be written, and the report of its newest prediction, to be written beside it."""

    log: Log
    report_path: str
    report: str


def begin(path: str, workload: str, hardware: str | None, overrides: Sequence[str], *, otherwise: str | None = None) -> Drafted:
    """A log whose turn 0 is the workload as it is, on ``hardware``, else the device that it names, else ``otherwise``.

    Raises:
        UsageError: no device, or a workload from standard input, which cannot be read again.
    """
    if workload == "-":
        raise UsageError("a loop reads its workload again at every turn; give a file or a shipped name, not standard input")
    read = load_workload(workload, overrides)
    device = hardware or read.hardware or otherwise
    if device is None:
        raise UsageError(f"'{workload}' names no device: add -H NAME (roofline hardware list shows them)")
    profile = load_hardware(device)
    now, _ = of_workload(workload, overrides, read, profile)
    state = state_of(now)
    kind, _ = basis_of(state, "auto")
    text, name = to_json(state.report), _beside(path, 0)
    turn = Turn(
        number=0,
        change="",
        settings=(),
        hypothesis="the workload as it is",
        work=1.0,
        predicted=Predicted(kind=kind, time_s=_time(state, kind), speedup=1.0, report=File(path=name, sha256=_hash(text))),
        measured=None,
    )
    log = Log(
        schema=LOOP_SCHEMA,
        kind="loop",
        workload=File(path=workload, sha256=read.sha256),
        overrides=tuple(overrides),
        hardware=File(path=device, sha256=_hash(read_source(profile.path).text)),
        turns=(turn,),
    )
    return Drafted(log, name, text)


def following(path: str, change: str | None, settings: Sequence[str], hypothesis: str | None, asked: Asked) -> Drafted:
    """The log with one turn more: the best change that is advised now, the one named, or overrides given by hand.

    Raises:
        InputError: the log is wrong, or what it names is no longer what it was.
        UsageError: no such change, or nothing is advised any more.
    """
    asked.check()
    if change and settings:
        raise UsageError("--change names a change of 'roofline advise' and --set makes one by hand; give one of them")
    written = read_log(path)
    log = written.log
    state = replayed(written)
    kind = log.turns[0].predicted.kind
    found = _by_hand(log, state, settings, kind) if settings else _advised(state, change, kind, asked)
    after = found.after
    text, name = to_json(after.report), _beside(path, len(log.turns))
    said = hypothesis or f"{found.change.title}: {found.gain.speedup:.3g}x by {kind}"
    turn = Turn(
        number=len(log.turns),
        change="" if settings else found.change.key,
        settings=tuple(settings),
        hypothesis=said,
        work=after.now.work,
        predicted=Predicted(kind=kind, time_s=_time(after, kind), speedup=found.gain.speedup, report=File(path=name, sha256=_hash(text))),
        measured=None,
    )
    return Drafted(replace(log, turns=(*log.turns, turn)), name, text)


def with_measurement(
    path: str, report: str | None, time_s: float | None, source: str | None, number: int | None, tolerance: float = TOLERANCE
) -> Log:
    """The log with a turn's measured time, from a report of ``roofline measure`` or given as a number, and the verdict.

    Without ``number`` it is the first turn that has none.

    Raises:
        UsageError: no such turn, neither or both of report and time, or a report without a measured whole.
    """
    log = read_log(path).log
    open_ = [t.number for t in log.turns if t.measured is None]
    if (report is None) == (time_s is None):
        raise UsageError("give the report of a measurement, or a time with --time")
    if number is None and not open_:
        raise UsageError(f"every turn is measured; begin the next one with 'roofline loop next {path}', or name one with --turn")
    chosen = open_[0] if number is None else number
    if not 0 <= chosen < len(log.turns):
        raise UsageError(f"--turn {chosen}: there are turns 0 to {len(log.turns) - 1}")
    if report is not None:
        _require_same(report, log.turns[chosen].predicted.report.path)
        found, said, file = _whole_of(report), source or report, File(path=report, sha256=_file_hash(report))
        time_s = found
    else:
        said, file = source or "given by hand", None
    assert time_s is not None
    turns = list(log.turns)
    turns[chosen] = replace(
        turns[chosen], measured=MeasuredTurn(time_s=time_s, source=said, report=file, speedup=None, verdict=NOT_COMPARED)
    )
    return replace(log, turns=tuple(_judged(turns, i, tolerance) for i in range(len(turns))))


# --------------------------------------------------------------------------- from the log to the present state
def replayed(written: Written) -> State:
    """The state after all turns, with the measured times of the last one where a report has them.

    Raises:
        InputError: the workload or the profile has changed, or a change no longer applies.
    """
    log = written.log
    workload = load_workload(log.workload.path, log.overrides)
    if workload.sha256 != log.workload.sha256:
        raise refused(
            written.at("workload", "sha256"), f"'{log.workload.path}' has changed since; begin a new loop with 'roofline loop init'"
        )
    profile = load_hardware(log.hardware.path)
    if _hash(read_source(profile.path).text) != log.hardware.sha256:
        raise refused(written.at("hardware", "sha256"), f"profile '{log.hardware.path}' has changed since; begin a new loop")
    now, _ = of_workload(log.workload.path, log.overrides, workload, profile)
    for turn in log.turns[1:]:
        if turn.settings:
            now = _overridden(log, now, turn.settings)
            continue
        found = next((c for c in changes(now) if c.key == turn.change and c.result is not None), None)
        if found is None or found.result is None:
            raise refused(
                written.at("turns", turn.number, "change"), f"change '{turn.change}' does not apply to what turn {turn.number} starts from"
            )
        now = found.result
    return state_of(now, _measured_steps(log, now))


def _measured_steps(log: Log, now: Situation) -> Measured | None:
    """The measured times of the last turn's steps, where its report is of these steps."""
    last = log.turns[-1].measured
    if last is None or last.report is None or not Path(last.report.path).exists():
        return None
    found = measured_of_report(load_report(last.report.path))
    return found if found and set(found.steps_s) == {s.id for s in now.workload.steps} else None


def _by_hand(log: Log, state: State, settings: Sequence[str], kind: str) -> Outcome:
    result = _overridden(log, state.now, settings)
    made = Change(key="by-hand", rule="by hand", title=" ".join(settings), exactness=EXACT, result=result)
    return _evaluated(made, state, kind)


def _overridden(log: Log, now: Situation, settings: Sequence[str]) -> Situation:
    """The workload with further overrides, on top of those that express the turns so far."""
    if now.settings is None:
        raise UsageError("--set changes the workload's file, and a turn before cannot be written as overrides; use --change")
    words = (*now.settings, *settings)
    workload = load_workload(log.workload.path, words)
    result, _ = of_workload(log.workload.path, words, workload, now.hardware)
    old, new = now.workload.params.get(BATCH), workload.params.get(BATCH)
    grown = new / old if isinstance(old, int) and isinstance(new, int) else 1.0
    return replace(result, work=now.work * grown)


def _advised(state: State, key: str | None, kind: str, asked: Asked) -> Outcome:
    if key is None:
        ranked, _ = judged(state, Wanted(basis=kind, least=asked.least, allow=asked.allow))
        best = next((o for o in ranked if o.basis == kind and o.change.combines), None)
        if best is None:
            raise UsageError(
                f"nothing is advised that gains {asked.least:g}x or more; see 'roofline advise -v', or make a change with --set"
            )
        return best
    known = {c.key: c for c in changes(state.now) if c.result is not None}
    if key not in known:
        raise UsageError(f"no change '{key}' applies now; {did_you_mean(key, list(known))}")
    return _evaluated(known[key], state, kind)


def _evaluated(change: Change, state: State, kind: str) -> Outcome:
    found = evaluated(change, state, kind)
    if not isinstance(found, Outcome):
        raise UsageError(f"{change.key}: {found.reason}")
    if found.basis != kind:
        raise UsageError(f"{change.key} has no {kind}, which this loop predicts by: {found.missing.get(kind, '')}")
    return found


def _time(state: State, kind: str) -> float:
    found = whole_s(state.report, kind)
    if not found:
        raise UsageError(f"the workload has no {kind} above 0, so that no gain can be told")
    return found


# --------------------------------------------------------------------------- judging
def _judged(turns: Sequence[Turn], i: int, tolerance: float) -> Turn:
    """The turn with its gain over the one before and the verdict, which follow from both measurements."""
    turn = turns[i]
    if turn.measured is None:
        return turn
    before = turns[i - 1].measured if i else None
    if before is None:
        return replace(turn, measured=replace(turn.measured, speedup=None, verdict=NOT_COMPARED, rows={}))
    gain = turn.work / turns[i - 1].work * before.time_s / turn.measured.time_s
    verdict = verdict_of(turn.predicted.speedup, gain, tolerance)
    return replace(turn, measured=replace(turn.measured, speedup=gain, verdict=verdict, rows=_row_verdicts(before, turn.measured)))


def verdict_of(predicted: float, achieved: float, tolerance: float = TOLERANCE) -> str:
    """What became of a predicted gain.

    >>> verdict_of(2.0, 1.9), verdict_of(2.0, 1.5), verdict_of(1.2, 0.9)
    ('as predicted', 'less than predicted', 'worse')
    """
    if achieved < 1 - SAME and predicted >= 1 - SAME:
        return WORSE
    if abs(achieved / predicted - 1) <= tolerance:
        return AS_PREDICTED
    if abs(achieved - 1) <= SAME:
        return NO_GAIN
    return LESS if achieved < predicted else MORE


def _row_verdicts(before: MeasuredTurn, after: MeasuredTurn) -> dict[str, int]:
    """Verdicts of ``diff`` on the steps that both reports have."""
    if before.report is None or after.report is None:
        return {}
    try:
        base, head = (load_report(f.path) for f in (before.report, after.report))
        found = compare(base, head, before.report.path, after.report.path, allow_context_change=True)
    except (FileNotFoundError, MissingCapabilityError):
        return {}
    return dict(found.measured.verdicts) if found.measured else {}


def _require_same(measured: str, predicted: str) -> None:
    """Refuse a measurement of something else than the turn predicted: another device, or other steps.

    Raises:
        UsageError: what differs.
    """
    if not Path(measured).is_file() or not Path(predicted).is_file():
        return  # the one is refused by its reader; without the other there is nothing to compare with
    ran, wanted = load_report(measured), load_report(predicted)
    devices = [str((r.hardware or {}).get("name")) for r in (ran, wanted)]
    if ran.hardware and devices[0] != devices[1]:
        raise UsageError(f"{measured} is of {devices[0]}, and the turn of {devices[1]}")
    steps = [{(row.id, row.op, str(sorted(row.fields.items()))) for row in r.rows} for r in (ran, wanted)]
    if differing := sorted({name for name, _, _ in steps[0] ^ steps[1]}):
        raise UsageError(f"{measured} is of other work than the turn: {', '.join(differing[:5])} differ")


def _whole_of(path: str) -> float:
    try:
        report: Report = load_report(path)
    except FileNotFoundError:
        raise UsageError(f"no such report: '{path}'") from None
    found = measured_of_report(report)
    if found is None:
        raise UsageError(f"{path}: the whole was not measured ({report.totals.unavailable.get('measured', 'no usable measurement')})")
    return found.whole_s


def _beside(path: str, number: int) -> str:
    return f"{path.rsplit('.', 1)[0]}.turn{number}.json"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _file_hash(path: str) -> str:
    return _hash(read_source(path, max_bytes=MOST_REPORT_BYTES).text)


__all__ = ["Drafted", "begin", "following", "replayed", "verdict_of", "with_measurement"]
