"""Workloads of a pull request against those of its base: one verdict from comparisons, budgets and what has no partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofline.errors import MissingCapabilityError, UsageError
from roofline.report.diff import Diff, compare
from roofline.report.expect import Outcome
from roofline.report.gates import judge
from roofline.report.model import Report

STATES = ("failed", "not comparable", "changed", "same", "no baseline", "removed")
"""What may become of a workload, those that need a look first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """An assertion of the workload's ``expect``, and whether it holds."""

    rule: str
    held: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """One workload: its name, what became of it and why, the name that it had, and the comparison where there is one."""

    name: str
    state: str
    reason: str = ""
    renamed_from: str | None = None
    diff: Diff | None = None
    budgets: tuple[Budget, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """All of them. ``verdict`` is passed, failed, not comparable or no baseline; ``base`` names what was compared with."""

    schema: int
    base: str
    verdict: str
    workloads: tuple[Gated, ...]

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 2 not comparable, 3 no baseline for any workload."""
        return {"passed": 0, "failed": 1, "not comparable": 2, "no baseline": 3}[self.verdict]


def budgets_of(outcomes: Sequence[Outcome]) -> tuple[Budget, ...]:
    """Checked assertions as budgets."""
    return tuple(
        Budget(rule=f"{o.expectation.path} {o.expectation.comparison} {o.expectation.value}", held=o.held, message=o.message)
        for o in outcomes
    )


def gated(
    name: str,
    base: Report | str,
    head: Report | None,
    rules: Sequence[str],
    budgets: Sequence[Budget] = (),
    *,
    renamed_from: str | None = None,
    allow_context_change: bool = False,
) -> Gated:
    """One workload judged; ``base`` is its report, or the reason that there is none. Without a head it was removed.

    A workload without a baseline fails only by its budgets: whoever adds one has nothing to compare it with.

    Raises:
        UsageError: a rule that is not one.
    """
    found = Gated(name=name, state="same", renamed_from=renamed_from, budgets=tuple(budgets))
    broken = "; ".join(b.message for b in budgets if not b.held)
    if head is None:
        return replace(found, state="removed", reason="it is gone")
    if isinstance(base, str):
        return replace(found, state="failed" if broken else "no baseline", reason=broken or base)
    try:
        diff = compare(base, head, f"base {renamed_from or name}", f"head {name}", allow_context_change=allow_context_change)
    except (UsageError, MissingCapabilityError) as err:
        return replace(found, state="not comparable", reason="; ".join(filter(None, (str(err), broken))))
    diff = replace(diff, gates=judge(list(rules), diff, base, head))
    failed = [f"{g.rule}: {', '.join(g.found)}" for g in diff.gates if not g.held]
    reason = "; ".join([*failed, *([broken] if broken else [])])
    state = "failed" if reason else "changed" if _changed(diff) else "same"
    return replace(found, state=state, reason=reason, diff=diff)


def _changed(diff: Diff) -> bool:
    return bool(diff.added or diff.removed or any(r.status == "changed" for r in diff.rows))


def gate_report(base: str, workloads: Sequence[Gated]) -> GateReport:
    """The whole verdict: the worst of its parts; no baseline only where no workload has one."""
    states = {w.state for w in workloads}
    if "failed" in states:
        verdict = "failed"
    elif "not comparable" in states:
        verdict = "not comparable"
    else:
        verdict = "no baseline" if not states & {"same", "changed"} else "passed"
    ordered = sorted(workloads, key=lambda w: (STATES.index(w.state), w.name))
    return GateReport(schema=1, base=base, verdict=verdict, workloads=tuple(ordered))
