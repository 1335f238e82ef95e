"""``roofline validate``: check files, or hold predictions against measured tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported, settings
from roofline.report.formats.exchange import PROBLEM_FORMATS

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.report.accuracy import Accuracy

FORMATS = ("table", "json", "csv", "markdown")
FILE_FORMATS = ("table", *PROBLEM_FORMATS)


@reported
def command(
    files: Annotated[list[str], typer.Argument(help="Workloads, profiles, settings (.toml); or measured tables (.csv).")],
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Tables: the device that they were measured on.")] = None,
    execution: Annotated[
        str | None, typer.Option("--execution", help="Tables: eager, compiled, graph or engine; as each says, else graph.")
    ] = None,
    part: Annotated[
        str | None, typer.Option("--part", help="Tables: only the rows that 'fit' would fit (fit), or the others (held-out).")
    ] = None,
    max_mape: Annotated[
        float | None, typer.Option("--max-mape", help="Tables: exit 1 where an estimate is off by more than this mean percentage.")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help=f"Tables: {', '.join(FORMATS)}. Files: {', '.join(FILE_FORMATS)}.")
    ] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Check workloads and profiles for problems; or hold bound and estimate against measured tables.

    A table has the fields of an operator and time_us or time_s; a column 'op' or the file's name says which operator. Errors
    are given by file, operator and size, with the rows that are farthest off and those that are faster than their bound.

    Problems of files are told on stderr; --format sarif, github, gitlab or junit also gives them to tools that show them
    beside the line.

    Examples:

      roofline validate workloads/*.yaml

      roofline validate gemm.csv -H h100-sxm --max-mape 10
    """
    from roofline.errors import UsageError

    tables = [name for name in files if name.lower().endswith(".csv")]
    others = [name for name in files if name not in tables]
    if tables and others:
        raise UsageError(f"'{others[0]}' is no table and '{tables[0]}' is one; validate files and tables apart")
    if not tables:
        given = {"-H": hardware, "--execution": execution, "--part": part, "--max-mape": max_mape}
        used = next((name for name, value in given.items() if value is not None), None)
        if used:
            raise UsageError(f"{used} is for measured tables (.csv), and '{files[0]}' is none")
        _check(files, chosen_format(format_, output, FILE_FORMATS), output)
        return
    _compare(tables, hardware, execution, part, max_mape, chosen_format(format_, output, FORMATS), output)


def _check(files: list[str], chosen: str, output: str | None) -> None:
    """Every problem of workloads, profiles, clusters, dataflows and settings."""
    from roofline.errors import InputError, tried
    from roofline.spec.load import load_any
    from roofline.spec.settings import check_file

    def check(name: str) -> None:
        if name.endswith(".toml"):
            check_file(name)
        else:
            load_any(name)

    _, problems = tried(files, check)
    if chosen != "table":
        from roofline.report.formats.exchange import problems_as

        deliver(problems_as(problems, files, chosen), output)
    if problems:
        raise InputError(problems)
    if chosen == "table" and not settings.quiet:
        deliver(f"{len(files)} {'file' if len(files) == 1 else 'files'}: no problems\n", output)


# --------------------------------------------------------------------------- tables
def _compare(
    files: list[str],
    hardware: str | None,
    execution: str | None,
    part: str | None,
    max_mape: float | None,
    chosen: str,
    output: str | None,
) -> None:
    from roofline.errors import GateFailedError, UsageError, did_you_mean
    from roofline.fit.accuracy import accuracy
    from roofline.fit.split import PARTS
    from roofline.fit.tables import read_tables
    from roofline.ops.launched import EXECUTIONS
    from roofline.spec.hardware import load_hardware

    if hardware is None:
        raise UsageError(f"'{files[0]}' is a table: say with -H which device it was measured on")
    if execution is not None and execution not in EXECUTIONS:
        raise UsageError(f"unknown execution '{execution}'; {did_you_mean(execution, EXECUTIONS)}")
    if part not in (None, *PARTS):
        raise UsageError(f"unknown part '{part}'; known: {', '.join(PARTS)}")
    if max_mape is not None and not max_mape > 0:
        raise UsageError(f"--max-mape {max_mape:g}: give a percentage above 0")
    device = load_hardware(hardware)
    found = accuracy(read_tables(files, execution=execution), device, part)
    _deliver(found, chosen, output)
    refused = _gate(found, max_mape) if max_mape is not None else []
    if refused:
        raise GateFailedError("; ".join(refused))


def _gate(found: Accuracy, most: float) -> list[str]:
    """What is said of each table whose estimate is off by more than so many percent, or lacks for some rows."""
    said = []
    for group in (g for g in found.groups if g.regime is None):
        mape = group.estimate.mape
        if group.estimate.reason:
            said.append(f"{group.file}: {group.operator} has rows without an estimate for --max-mape {most:g}: {group.estimate.reason}")
        if mape is not None and mape * 100 > most:
            said.append(f"{group.file}: the estimate of {group.operator} is off by {mape * 100:.1f} % on average, more than {most:g} %")
    return said


def _deliver(found: Accuracy, chosen: str, output: str | None) -> None:
    from roofline.report import accuracy_view as view

    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
    elif chosen == "table":
        _draw(found, output)
    else:
        deliver(view.to_csv(found) if chosen == "csv" else view.to_markdown(found), output)
        if chosen == "csv" and not settings.quiet:
            for line in view.sentences(found)[:-1]:
                note(f"note: {line}")


def _draw(found: Accuracy, output: str | None) -> None:
    from roofline.report import accuracy_view as view
    from roofline.report.text import print_columns, styled

    def draw(screen: Console) -> None:
        screen.print(styled(f"measured tables beside {found.hardware} (errors of predicted over measured time)", "bold"))
        print_columns(view.group_columns(found), screen)
        for heading, rows in (("rows farthest off", found.worst), ("rows faster than their bound", found.faster_than_bound)):
            if rows:
                screen.print()
                screen.print(styled(heading, "bold"))
                print_columns(view.row_columns(rows), screen)
        screen.print()
        for line in view.sentences(found):
            screen.print(styled(line))

    render(draw, output)
