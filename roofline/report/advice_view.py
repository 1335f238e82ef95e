"""Advice for a person: the answer, the ranking, the path, how to check, and on request what was tried in vain."""

from __future__ import annotations

import re
from collections.abc import Sequence

from roofline.errors import visible
from roofline.report.advice import Advice, AdviceReport, Binds, Gain, PathStep
from roofline.report.columns import Column, seconds
from roofline.report.markdown import code, table
from roofline.report.sentences import percent, resource
from roofline.units import Dimension, format_quantity

REST = "work that is not recognised, and waiting, take"
KINDS = {"estimate": "an estimated", "bound": "at least", "measured": "a measured"}


def answer(found: AdviceReport, name: str | None = None) -> str:
    """The first line: the present time, and what the path gives; ``name`` in place of the workload's as it is."""
    kind = "measured" if found.time_s.get("measured") else found.basis
    head = f"{name or found.workload} on {found.hardware} takes {KINDS[kind]} {seconds(found.time_s[kind])}"
    if not found.path:
        nothing = "nothing that can be quantified" if not found.advice else "no step of a path"
        return f"{head}: {nothing} gains {found.least:g}x or more."
    first, last = found.path[0], found.path[-1]
    one = f"{first.title} {factor(first.speedup)}"
    if first is last:
        return f"{head}: {one}, then {_then(last.binds_after)}."
    return f"{head}: {one} first; {len(found.path)} changes {factor(found.path_speedup)} together, then {_then(last.binds_after)}."


def factor(value: float | None) -> str:
    """A gain with three digits; a dash where there is none."""
    return "-" if value is None else f"{value:.3g}x" if value < 1000 else f"{value:.0f}x"


def _then(found: Binds) -> str:
    """What binds, in words."""
    if found.step is None:
        return "nothing binds" if found.share is None else f"{REST} {percent(found.share)} of the time"
    share = f" ({percent(found.share)} of the time)" if found.share is not None else ""
    return f"{found.step} binds{share}"


def limits(found: AdviceReport) -> str:
    """What decides the present time."""
    if found.binds.step is None and found.binds.share is not None:
        return f"Now {REST} {percent(found.binds.share)} of it."
    limiter = {"host": "the host", "fixed": "fixed costs of kernels", "memory": "memory", "compute": "arithmetic"}
    name = limiter.get(str(found.binds.limiter)) if found.basis == "estimate" else resource(found.binds.limiter)
    largest = f"; the largest step is {found.binds.step}, {percent(found.binds.share or 0)} of the time" if found.binds.step else ""
    return f"Now {name or 'nothing'} decides most of it{largest}."


def columns(found: AdviceReport, rows: Sequence[Advice]) -> list[Column]:
    """One row a change, best first; kinds of time apart."""

    def gains(kind: str) -> tuple[str, ...]:
        return tuple(factor(g.speedup if (g := _gain(a, kind)) else None) for a in rows)

    measured = [Column("measured", gains("measured"))] if found.time_s.get("measured") else []
    estimate = [Column("estimate", gains("estimate"))] if any(a.estimate for a in rows) else []
    return [
        Column("change", tuple(a.key for a in rows), right=False),
        *measured,
        *estimate,
        Column("bound", gains("bound")),
        Column("local", tuple(factor(_used(a).local_speedup) for a in rows), priority=2),
        Column("limit", tuple(factor(_used(a).limit_speedup) for a in rows), priority=3),
        Column("memory", tuple(_memory(a.memory_delta_bytes) for a in rows), priority=4),
        Column("results", tuple(a.exactness for a in rows), right=False, priority=5),
        Column("then binds", tuple(_shown(a.binds_after) for a in rows), right=False, priority=6),
        Column("what", tuple(a.title for a in rows), right=False, priority=9),
    ]


def _gain(one: Advice, kind: str) -> Gain | None:
    found: Gain | None = getattr(one, kind)
    return found


def _used(one: Advice) -> Gain:
    """The gain that it is ranked by."""
    found = one.measured or _gain(one, one.basis)
    assert found is not None, "advice has a gain of its basis"
    return found


def _shown(found: Binds) -> str:
    if found.step is None:
        return "-" if found.share is None else f"not recognised {percent(found.share)}"
    return f"{found.step} {percent(found.share)}" if found.share is not None else found.step


def _memory(delta: float) -> str:
    if not delta:
        return "0"
    return f"{'+' if delta > 0 else '-'}{format_quantity(abs(delta), Dimension.BYTES)}"


def path_lines(found: AdviceReport) -> list[str]:
    """The path, a line a step."""
    return [_path_line(p) for p in found.path]


def _path_line(p: PathStep) -> str:
    total = f", {factor(p.total_speedup)} in all" if p.number > 1 else ""
    exact = "" if p.exactness == "exact" else f" [{p.exactness}]"
    return f"step {p.number}: {p.title}{exact}: {factor(p.speedup)}{total}, {seconds(p.time_s)}; then {_then(p.binds_after)}"


def check_lines(found: AdviceReport, rows: Sequence[Advice]) -> list[str]:
    """A command for each change that would show its effect."""
    return [f"check {a.key}: {a.check[0]}" for a in rows if a.check]


def closing_lines(found: AdviceReport) -> list[str]:
    """What the ranking is by, what does not fit, what was left out."""
    by = f"Ranked by {found.basis} ({found.basis_reason}); bounds and estimates are never mixed."
    if found.time_s.get("measured"):
        by = f"Measured gains are predicted ratios ({found.basis}) applied to measured times. {by}"
    lines = [by]
    if found.coverage is not None and found.source == "trace":
        lines.append(
            f"{percent(found.coverage)} of the critical path lies in steps whose work is known; the rest is taken to stay as it is."
        )
    if any(a.basis != found.basis for a in found.advice):
        others = ", ".join(a.key for a in found.advice if a.basis != found.basis)
        lines.append(f"By bound only, and no part of the path: {others}.")
    if found.fits is False:
        lines.append(f"As it is, it DOES NOT FIT the device: {format_quantity(found.memory_bytes, Dimension.BYTES)} needed.")
    elif "fits" in found.unavailable:
        lines.append(f"Whether it fits is not known: {found.unavailable['fits']}.")
    if found.left_out:
        lines.append(f"{found.left_out} more; --top shows them.")
    return lines


def verbose_lines(found: AdviceReport, rows: Sequence[Advice]) -> list[str]:
    """Conditions and all commands of each change, then what was tried in vain."""
    lines = []
    for a in rows:
        lines.append(f"{a.key}: {a.title}")
        lines += [f"  if {c}" for c in a.conditions]
        lines += [f"  check: {c}" for c in a.check]
        lines += [f"  no {kind} gain: {why}" for kind, why in a.unavailable.items() if kind != "fits"]
    if found.tried:
        lines.append("tried:")
        lines += [f"  {t.key}: {_one_line(t.reason)}" for t in found.tried]
    return lines


def _command(text: str) -> str:
    """A command as code, whole, whatever it quotes."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.endswith("`") else ""
    return f"{fence}{pad}{visible(text)}{pad}{fence}"


def _one_line(text: str) -> str:
    """The first line of what may be an error with its place."""
    return text.partition("\n")[0]


def to_markdown(found: AdviceReport, *, verbose: bool = False) -> str:
    """The same for a page or a comment."""
    parts = [f"### {code(f'{found.workload} on {found.hardware}')}", answer(found, code(found.workload)), limits(found)]
    if found.advice:
        parts.append(table(columns(found, found.advice)).rstrip("\n"))
    if found.path:
        parts.append("\n".join(f"{p.number}. {_path_line(p).partition(': ')[2]}" for p in found.path))
    said = [*(f"check {code(a.key)}: {_command(a.check[0])}" for a in found.advice if a.check), *closing_lines(found)]
    parts.append("\n".join(f"- {line}" for line in said))
    if verbose and found.tried:
        parts.append("\n".join(f"- tried {code(t.key)}: {_one_line(t.reason)}" for t in found.tried))
    return "\n\n".join(parts) + "\n"
