"""``roofline budget``: the ``expect`` blocks of workload files, checked; for commits and pull requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, reported, settings

if TYPE_CHECKING:
    from roofline.report.expect import Outcome

FORMATS = ("text", "json", "junit")


@reported
def command(
    workloads: Annotated[
        list[str], typer.Argument(help="Workload files or names; those without 'expect' are passed over.", show_default=False)
    ],
    hardware: Annotated[
        str | None, typer.Option("-H", "--hardware", help="Profile name or file; else the one that each workload names.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="Change a param, a setting or step.field: key=value.")] = None,
    format_: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Hold the assertions in 'expect' of workload files against their predictions; exit 1 if one fails.

    A budget is a line such as 'total.bound.time_s: <= 20 ms' or 'attention.bound.limiter: tensor'.

    Example: roofline budget workloads/*.yaml
    """
    from roofline.errors import GateFailedError, of_each

    chosen = chosen_format(format_, output, FORMATS)
    found = of_each(workloads, lambda name: _outcomes(name, hardware, overrides or []))
    deliver(_text(found, chosen), output)
    failed = sum(not o.held for outcomes in found.values() for o in outcomes)
    if failed:
        raise GateFailedError(f"{failed} of {sum(map(len, found.values()))} assertions failed")


def _outcomes(name: str, hardware: str | None, overrides: list[str]) -> tuple[Outcome, ...]:
    from roofline.report.build import analyze
    from roofline.report.expect import check
    from roofline.spec.hardware import load_hardware
    from roofline.spec.workload import load_workload

    workload = load_workload(name, overrides)
    device = hardware or workload.hardware or settings.hardware
    return check(analyze(workload, load_hardware(device) if device else None, []), workload.expect) if workload.expect else ()


def _text(found: dict[str, tuple[Outcome, ...]], chosen: str) -> str:
    if chosen == "junit":
        from roofline.report.formats.junit import Case, document

        return document(
            [(name, [Case(_rule(o), "passed" if o.held else "failure", o.message) for o in outcomes]) for name, outcomes in found.items()]
        )
    if chosen == "json":
        from roofline.report.store import to_json

        return to_json([
            {"workload": name, "rule": _rule(o), "line": o.expectation.line, "held": o.held, "message": o.message}
            for name, outcomes in found.items()
            for o in outcomes
        ])  # fmt: skip
    lines = [
        f"{name}:{o.expectation.line}: {'ok' if o.held else 'FAILED'}: {o.message}"
        for name, outcomes in found.items()
        for o in outcomes
        if not (o.held and settings.quiet)
    ]
    held, total = (sum(o.held or every for outcomes in found.values() for o in outcomes) for every in (False, True))
    none = sum(not outcomes for outcomes in found.values())
    without = f"; {none} of {len(found)} files without 'expect'" if none else ""
    return "\n".join([f"{held} of {total} assertions hold{without}", *lines]) + "\n"


def _rule(outcome: Outcome) -> str:
    e = outcome.expectation
    return f"{e.path} {e.comparison} {e.value}"
