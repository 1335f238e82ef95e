"""From a situation to advice: every change evaluated, ranked, and combined into a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from roofline import __version__
from roofline.decide.advise.combine import Wanted, judged, path
from roofline.decide.advise.effects import State, advice_of, binds, state_of
from roofline.decide.advise.measured import Measured, whole_s
from roofline.decide.advise.memory import needed_bytes, unknown_fit
from roofline.decide.advise.situation import APPROXIMATE, EXACTNESS, Situation
from roofline.errors import UsageError, did_you_mean
from roofline.report.advice import ADVICE_SCHEMA, KINDS, AdviceReport
from roofline.report.model import Input, Notice

LEAST = 1.02
TOP = 10
BY = ("auto", *KINDS)
SMALL_COVERAGE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How to advise: rank ``by`` estimate or bound, ``least`` gain, at most ``top`` changes, what results may suffer (``allow``)."""

    by: str = "auto"
    least: float = LEAST
    top: int = TOP
    allow: str = APPROXIMATE

    def check(self) -> None:
        """The words are known and the numbers are in range.

        Raises:
            UsageError: they are not.
        """
        for option, value, known in (("--by", self.by, BY), ("--allow", self.allow, EXACTNESS)):
            if value not in known:
                raise UsageError(f"{option} '{value}'; {did_you_mean(value, known)}")
        if not 1 <= self.least <= 1000:
            raise UsageError(f"--least {self.least:g} is out of range: a gain from 1 to 1000, such as 1.02")


def advise(
    now: Situation, asked: Asked = Asked(), *, measured: Measured | None = None, source: str = "workload", inputs: Sequence[Input] = ()
) -> AdviceReport:
    """What would help, by how much, and in which order.

    ``measured`` are measured times of the workload, to which predicted ratios are applied; ``source`` says what the workload came
    from (workload, report, trace).

    Raises:
        UsageError: ``--by estimate`` where there is no estimate, or a device that cannot run the workload.
    """
    asked.check()
    state = state_of(now, measured)
    basis, reason = basis_of(state, asked.by)
    wanted = Wanted(basis=basis, least=asked.least, allow=asked.allow)
    good, tried = judged(state, wanted)
    steps = path(state, wanted, good)
    return AdviceReport(
        schema=ADVICE_SCHEMA,
        kind="advice",
        tool=f"roofline {__version__}",
        workload=now.workload.name,
        source=source,
        hardware=now.hardware.name,
        execution=now.workload.execution,
        inputs=tuple(inputs),
        basis=basis,
        basis_reason=reason,
        least=asked.least,
        time_s={**{kind: whole_s(state.report, kind) for kind in KINDS}, "measured": measured.whole_s if measured else None},
        memory_bytes=needed_bytes(state.report),
        fits=state.report.totals.memory.fits,
        coverage=measured.covered if measured and measured.steps_s else None,
        binds=binds(state, basis),
        advice=tuple(advice_of(o) for o in good[: asked.top]),
        left_out=max(0, len(good) - asked.top),
        path=tuple(steps),
        path_speedup=steps[-1].total_speedup if steps else 1.0,
        tried=tuple(tried),
        warnings=tuple(_warnings(state)),
        unavailable=_unavailable(state),
    )


def basis_of(state: State, by: str) -> tuple[str, str]:
    """What changes are ranked by, and why.

    Raises:
        UsageError: estimates were asked for and there are none.
    """
    if by == "bound":
        return "bound", "asked for"
    missing = state.report.totals.unavailable.get("estimate")
    if state.report.totals.estimate is not None:
        return "estimate", "every step has an estimate"
    if by == "estimate":
        raise UsageError(f"--by estimate: {missing or 'there is no estimate'}")
    return "bound", f"there is no estimate: {missing}"


def _warnings(state: State) -> Iterator[Notice]:
    yield from (w for w in state.report.warnings if w.code in ("W002", "W003", "W005", "W006"))
    measured = state.measured
    if measured and measured.steps_s and measured.covered < SMALL_COVERAGE:
        yield Notice(
            code="W030",
            message=f"{100 * measured.covered:.3g} % of the measured time lies in steps whose work is known; the rest gets no advice",
        )


def _unavailable(state: State) -> dict[str, str]:
    found = {f"time_s.{kind}": state.report.totals.unavailable.get(kind, "") for kind in KINDS if whole_s(state.report, kind) is None}
    found |= unknown_fit(state.report)
    if state.measured is None:
        found |= {"time_s.measured": "nothing was measured", "coverage": "nothing was measured"}
    elif not state.measured.steps_s:
        found["coverage"] = "no step was measured apart"
    return found
