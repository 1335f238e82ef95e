"""``roofline analyze``: what binds a workload on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported, settings, warn
from roofline.cli.report import FORMATS, show

if TYPE_CHECKING:
    from roofline.hardware.profile import Hardware
    from roofline.report.largest import Largest
    from roofline.report.model import Report
    from roofline.workload.workload import Workload


@reported
def command(
    workloads: Annotated[list[str], typer.Argument(help="Workload files, names of shipped workloads, or - for stdin.", show_default=False)],
    hardware: Annotated[list[str] | None, typer.Option("-H", "--hardware", help="Profile name or file; repeat to compare.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="Change a param, a setting or step.field: key=value.")] = None,
    format_: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file; its ending picks the format.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="State every convention and show the arithmetic.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the workload's 'expect' block; exit 1 if one fails.")] = False,
    largest: Annotated[str | None, typer.Option("--largest", help="Param to raise as far as memory allows, such as batch.")] = None,
    memory_fraction: Annotated[float, typer.Option("--memory-fraction", help="Share of the memory that --largest may fill.")] = 1.0,
) -> None:
    """Count FLOP and bytes per step, bound the time, and say what matters.

    Examples:

      roofline analyze gpt2_medium -H h100-sxm

      roofline analyze w.yaml -H h100-sxm -H h200-sxm --set batch=16

      roofline analyze w.yaml --format json -o report.json

      roofline analyze llama3_70b_decode_tp8 --largest batch --memory-fraction 0.9
    """
    chosen = chosen_format(format_, output, FORMATS)
    _refuse_stdin_twice(workloads)
    answers: list[Largest] = []

    def raised(name: str, profile: Hardware | None) -> list[str]:
        """The overrides of a workload on a device, with the param of --largest at its answer."""
        if largest is None:
            return overrides or []
        answers.append(_largest(name, profile, overrides or [], largest, memory_fraction))
        return [*(overrides or []), answers[-1].override]

    reports = _reports(workloads, hardware or [], overrides or [], raised)
    for _, report in reports:
        warn(report.warnings)
    _deliver([r for _, r in reports], chosen, output, explain)
    for answer in answers:
        _answer(answer.sentence(), on_stdout=chosen == "table" and output is None)
    if check:
        _check(reports)


def _refuse_stdin_twice(names: list[str]) -> None:
    from roofline.errors import UsageError

    if names.count("-") > 1:
        raise UsageError("standard input can be given once")


def _reports(
    names: list[str], devices: list[str], overrides: list[str], raised: Callable[[str, Hardware | None], list[str]]
) -> list[tuple[Workload, Report]]:
    from roofline.spec.workload import load_workload

    found = []
    for name in names:
        read = None if devices else load_workload(name, overrides)
        chosen: list[str | None] = [*devices] if read is None else [read.hardware or settings.hardware]
        found += [_report(name, device, overrides, raised, read) for device in chosen]
    return found


def _report(
    name: str, device: str | None, overrides: list[str], raised: Callable[[str, Hardware | None], list[str]], read: Workload | None
) -> tuple[Workload, Report]:
    """``read`` is the workload as the overrides leave it, where it had to be read to find its device."""
    from roofline.report.build import analyze
    from roofline.report.model import Input
    from roofline.report.of_model import noticed
    from roofline.spec.find import find_workload
    from roofline.spec.hardware import load_hardware
    from roofline.spec.source import read_source
    from roofline.spec.workload import load_workload

    profile = load_hardware(device) if device else None
    wanted = raised(name, profile)
    workload = read if read is not None and wanted == overrides else load_workload(name, wanted)
    inputs = [Input(role="workload", path=name, sha256=workload.sha256)]
    if device and profile:
        inputs.append(Input.of_hardware(device))
    return workload, noticed(analyze(workload, profile, inputs), read_source(str(find_workload(name))), wanted, profile)


def _largest(name: str, profile: Hardware | None, overrides: list[str], param: str, fraction: float) -> Largest:
    from roofline.errors import UsageError
    from roofline.report.largest import largest
    from roofline.spec.find import find_workload
    from roofline.spec.source import read_source

    if profile is None:
        raise UsageError("--largest needs a device whose memory to fill: add -H NAME")
    return largest(read_source(str(find_workload(name))), overrides, profile, param, fraction)


def _answer(sentence: str, *, on_stdout: bool) -> None:
    """In other formats the report carries the answer as its param, and the sentence must not break them."""
    if on_stdout:
        deliver(sentence + "\n", None)
    else:
        note(sentence)


def _deliver(reports: list[Report], chosen: str, output: str | None, explain: bool) -> None:
    if len(reports) == 1:
        show(reports[0], chosen, output, explain=explain)
    elif chosen == "json":
        from roofline.report.store import comparison_json

        deliver(comparison_json(reports), output)
    elif chosen == "csv":
        from roofline.report.csv_view import to_csv

        deliver(to_csv(*reports), output)
    elif chosen == "markdown":
        from roofline.report.markdown import to_markdown

        deliver("\n".join(to_markdown(r) for r in reports), output)
    else:
        from roofline.report.comparison import print_comparison

        render(lambda console: print_comparison(reports, console), output)


def _check(reports: list[tuple[Workload, Report]]) -> None:
    from roofline.errors import GateFailedError, UsageError
    from roofline.report.expect import check

    outcomes = [o for workload, report in reports for o in check(report, workload.expect)]
    if not outcomes:
        raise UsageError("--check: the workload has no 'expect' block, so nothing was checked")
    failed = [o for o in outcomes if not o.held]
    for outcome in outcomes if not settings.quiet else failed:
        note(f"{'ok' if outcome.held else 'FAILED'}: {outcome.message}")
    if failed:
        raise GateFailedError(f"{len(failed)} of {len(outcomes)} assertions failed")
