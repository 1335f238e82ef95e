"""The verdict on a pull request as text, as its comment, and as JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.report.formats.comment import MARKER, MOST_CHARACTERS, escape, to_markdown
from roofline.report.formats.junit import Case, document
from roofline.report.gate import Gated, GateReport
from roofline.report.sentences import plural

MOST_NAMES = 20
ROOM_FOR_LISTS = 8_000
SHOWN = ("failed", "changed")
"""States whose comparison is shown in full."""


def verdict_line(found: GateReport) -> str:
    """The verdict and what it is about: ``FAILED: 1 of 3 workloads against main; 1 failed, 2 same``."""
    counts: dict[str, int] = {}
    for workload in found.workloads:
        counts[workload.state] = counts.get(workload.state, 0) + 1
    word = found.verdict.upper() if found.verdict != "passed" else "passed"
    said = ", ".join(f"{n} {state}" for state, n in counts.items()) or "none"
    return f"{word}: {plural(len(found.workloads), 'workload')} against {found.base}; {said}"


def lines(found: GateReport) -> list[str]:
    """Verdict first, then a line a workload that is not as it was."""
    return [verdict_line(found), *(_line(w) for w in found.workloads if w.state != "same" or w.renamed_from)]


def _line(workload: Gated) -> str:
    from roofline.report.diff_view import verdict

    was = f" (renamed from {workload.renamed_from})" if workload.renamed_from else ""
    said = workload.reason or (verdict(workload.diff) if workload.diff else "")
    return f"{workload.name}{was}: {workload.state}{': ' if said else ''}{said}"


def comment(found: GateReport, most: int = MOST_CHARACTERS) -> str:
    """The sticky comment: verdict, a line a workload, then the comparisons of those that changed, within the size of a comment."""
    parts = [MARKER, f"**{escape(verdict_line(found))}**", ""]
    told = [w for w in found.workloads if w.state != "same" or w.renamed_from]
    parts += [f"- {escape(_line(w))}" for w in told[:MOST_NAMES]]
    if len(told) > MOST_NAMES:
        parts.append(f"- and {len(told) - MOST_NAMES} more")
    parts += [f"- {escape(f'{w.name}: budget {b.message}')}" for w in told for b in w.budgets if not b.held][:MOST_NAMES]
    text = "\n".join(parts)[:ROOM_FOR_LISTS] + "\n"
    shown = [w for w in found.workloads if w.state in SHOWN and w.diff]
    for i, workload in enumerate(shown):
        room = (most - len(text)) // (len(shown) - i)
        if room < 1_000 or workload.diff is None:
            left = f"\n(the comparisons of {plural(len(shown) - i, 'more workload')} are in the reports: a comment has its limit)\n"
            return text + left
        text += "\n" + to_markdown(workload.diff, marker=False, most=room - 1, heading=workload.name)
    return text


def to_junit(found: GateReport) -> str:
    """A suite for each workload: its gates, its budgets, and whether it could be compared."""
    return document([(w.name, _cases(w)) for w in found.workloads])


def _cases(workload: Gated) -> Sequence[Case]:
    cases = [Case(g.rule, "passed" if g.held else "failure", "\n".join(g.found)) for g in (workload.diff.gates if workload.diff else ())]
    cases += [Case(f"expect {b.rule}", "passed" if b.held else "failure", b.message) for b in workload.budgets]
    if workload.state == "not comparable":
        cases.append(Case("comparable with the base", "error", workload.reason))
    elif workload.diff is None:
        cases.append(Case("comparable with the base", "skipped", workload.reason))
    else:
        cases.append(Case("comparable with the base"))
    return cases
