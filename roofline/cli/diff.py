"""``roofline diff``: two reports, what changed and why, with gates for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported
from roofline.report.formats.exchange import DIFF_FORMATS

if TYPE_CHECKING:
    from roofline.report.diff import Diff
    from roofline.report.model import Report

FORMATS = ("table", "json", "markdown", *DIFF_FORMATS)


@reported
def command(
    base: Annotated[str, typer.Argument(help="Report to compare with (from analyze --format json).")],
    head: Annotated[str, typer.Argument(help="Report to judge.")],
    fail_on: Annotated[list[str] | None, typer.Option("--fail-on", help="Rule that fails the diff (exit 1); repeat.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on measured times that are worse, and on unclear ones.")] = False,
    tolerance: Annotated[str, typer.Option("--tolerance", help="Change of a measured time that does not matter.")] = "3%",
    allow_context_change: Annotated[
        bool, typer.Option("--allow-context-change", help="Compare all the same what is not comparable.")
    ] = False,
    allow_missing_baseline: Annotated[bool, typer.Option("--allow-missing-baseline", help="Exit 0 when there is no baseline yet.")] = False,
    format_: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Compare two reports row by row and explain every change.

    Measured times are better, worse, same, unclear (too few samples for a verdict), clock (slower only in seconds, not in
    cycles) or not comparable. Only worse fails, always; --strict fails what is not decided as well.

    Rules: 'regression', 'unclear', 'total.bound.time_s>+2%', 'row.bytes.hbm>+0%', 'attention.limiter-changed', 'missing',
    'added', 'changed', '5%'.

    Exit codes: 0 no gate failed, 1 a gate failed, 2 bad input or reports that are not comparable (another device, dtype or
    profile), 3 no baseline or nothing to compare.

    Example: roofline diff base.json head.json --fail-on regression --fail-on missing
    """
    from dataclasses import replace

    from roofline.errors import GateFailedError, UsageError
    from roofline.report.diff import compare
    from roofline.report.gates import STRICT, judge

    chosen = chosen_format(format_, output, FORMATS)
    allowed = _share(tolerance)
    if base == head == "-":
        raise UsageError("standard input can be given once")
    reports = _load(base, head, allow_missing_baseline)
    if reports is None:
        return
    found = compare(*reports, base, head, allow_context_change=allow_context_change, tolerance=allowed)
    worse = any(r.measured and r.measured.verdict == "worse" for r in found.rows)
    rules = dict.fromkeys([*(fail_on or []), *(STRICT if strict else ["regression"] if worse else ())])
    found = replace(found, gates=judge(list(rules), found, *reports))
    _deliver(found, chosen, output)
    failed = [g for g in found.gates if not g.held]
    if failed:
        raise GateFailedError("; ".join(f"{g.rule}: {', '.join(g.found)}" for g in failed))


def _share(text: str) -> float:
    """A tolerance as a share: ``3%`` or ``0.03``; a bare 3 would be 300 % and is refused."""
    from roofline.errors import UsageError
    from roofline.spec.limits import limit

    value = limit("tolerance", text)
    if value is None or not 0 <= value < 1:
        raise UsageError(f"--tolerance '{text}' is not a share from 0 to below 100%; write it as 3%")
    return value


def _load(base: str, head: str, allow_missing: bool) -> tuple[Report, Report] | None:
    from roofline.errors import InputError, MissingCapabilityError, Problem
    from roofline.report.store import load_report

    try:
        judged = load_report(head)
    except FileNotFoundError:
        raise InputError([Problem(head, 0, 0, "no such file")]) from None
    try:
        return load_report(base), judged
    except FileNotFoundError:
        if allow_missing:
            note(f"no baseline: {base} does not exist; nothing was compared (--allow-missing-baseline)")
            return None
        raise MissingCapabilityError(
            f"no baseline: {base} does not exist, so nothing was compared; write one with 'roofline analyze ... -o {base}', "
            "or pass --allow-missing-baseline for a first run"
        ) from None


def _deliver(found: Diff, chosen: str, output: str | None) -> None:
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
    elif chosen == "markdown":
        from roofline.report.formats.comment import to_markdown

        deliver(to_markdown(found), output)
    elif chosen in DIFF_FORMATS:
        from roofline.report.formats.exchange import diff_as

        deliver(diff_as(found, chosen), output)
    else:
        from rich.console import Console

        from roofline.report.diff_view import changed_columns, head_lines, measured_columns, total_lines, why_lines
        from roofline.report.text import print_columns, styled

        def draw(console: Console) -> None:
            for i, line in enumerate(head_lines(found)):
                console.print(styled(line, "bold" if i == 0 else ""))
            for columns in (changed_columns(found), measured_columns(found)):
                if columns[0].cells:
                    console.print()
                    print_columns(columns, console)
            for line in [*why_lines(found), *total_lines(found)]:
                console.print(styled(line))

        render(draw, output)
