"""``roofline loop``: an optimisation effort in one file: hypothesis, change, prediction, measurement, verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported, settings

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.report.loop import Log

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Keep an optimisation effort in one file: init, next, measured, status."
)

File = Annotated[str, typer.Argument(help="The log, a .yaml file.")]
SUFFIXES = (".yaml", ".yml")


@app.callback()
def loop() -> None:
    """Keep an optimisation effort in one file."""


@app.command("init")
@reported
def init(
    path: File,
    workload: Annotated[str, typer.Option("--workload", "-w", help="Workload file or shipped name.")],
    hardware: Annotated[
        str | None, typer.Option("-H", "--hardware", help="Profile name or file; else the one that the workload names.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="Of the workload, from the beginning: key=value.")] = None,
) -> None:
    """Begin a log: turn 0 is the workload as it is, its report is written beside the log.

    Example: roofline loop init llama.loop.yaml --workload llama.yaml -H h200-sxm
    """
    from roofline.decide.loop import begin
    from roofline.errors import UsageError

    if not path.endswith(SUFFIXES):
        raise UsageError(f"'{path}': a log is a YAML file; end its name in .yaml")
    if Path(path).exists():
        raise UsageError(f"'{path}' exists; a log is never begun anew over another one")
    drafted = begin(path, workload, hardware, overrides or [], otherwise=settings.hardware)
    _write(path, drafted.log, drafted.report_path, drafted.report)


@app.command("next")
@reported
def next_(
    path: File,
    change: Annotated[str | None, typer.Option("--change", help="Key of 'roofline advise'; else the best that is advised.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A change by hand: param, setting or step.field: key=value.")] = None,
    hypothesis: Annotated[str | None, typer.Option("--hypothesis", help="Why it should help, in your words.")] = None,
    least: Annotated[float, typer.Option("--least", help="Smallest gain that is advised.")] = 1.02,
    allow: Annotated[str, typer.Option("--allow", help="The most that results may suffer, as in 'roofline advise'.")] = "approximate",
) -> None:
    """Add a turn: a change, its hypothesis, and the predicted gain; its report is written beside the log.

    Example: roofline loop next llama.loop.yaml --change flash
    """
    from roofline.decide.advise.advise import Asked
    from roofline.decide.loop import following

    drafted = following(path, change, changes or [], hypothesis, Asked(least=least, allow=allow))
    _write(path, drafted.log, drafted.report_path, drafted.report)


@app.command("measured")
@reported
def measured(
    path: File,
    report: Annotated[str | None, typer.Argument(help="A report of 'roofline measure'.", show_default=False)] = None,
    time: Annotated[str | None, typer.Option("--time", help="What one run took, in place of a report: '266.6 ms'.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Where that comes from, for the log.")] = None,
    turn: Annotated[int | None, typer.Option("--turn", help="Which turn; else the first that is not measured.")] = None,
) -> None:
    """Record what a turn took, and what became of its prediction.

    A gain within 10 % of the predicted one is as predicted; steps of two reports are judged as in 'roofline diff'.

    Examples:

      roofline loop measured llama.loop.yaml after.json

      roofline loop measured llama.loop.yaml --time '266.6 ms' --source 'own benchmark'
    """
    from roofline.decide.loop import with_measurement
    from roofline.errors import UsageError
    from roofline.units import Dimension, QuantityError, parse_quantity

    time_s = None
    if time is not None:
        try:
            time_s = float(parse_quantity(time, Dimension.SECONDS))
        except QuantityError as err:
            raise UsageError(f"--time: {err}") from None
    before = {t.number for t in _log(path).turns if t.measured}
    log = with_measurement(path, report, time_s, source, turn)
    changed = [t.number for t in log.turns if t.measured and t.number not in before]
    _write(path, log, number=changed[0] if changed else turn)


@app.command("status")
@reported
def status(
    path: File,
    format_: Annotated[str | None, typer.Option("--format", help="table, json or markdown.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file; its ending picks the format.")] = None,
) -> None:
    """Predicted against achieved gain, a turn a line and in total.

    Example: roofline loop status llama.loop.yaml
    """
    from roofline.report.loop import status_of

    chosen = chosen_format(format_, output, ("table", "json", "markdown"))
    found = status_of(_log(path))
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
        return
    from roofline.report import loop_view as view

    if chosen == "markdown":
        deliver(view.to_markdown(found), output)
        return
    from roofline.report.text import print_columns, styled

    def draw(console: Console) -> None:
        console.print(styled(view.answer(found), "bold"))
        console.print()
        print_columns(view.columns(found.log), console)

    render(draw, output)


def _log(path: str) -> Log:
    from roofline.decide.loop_log import read_log

    return read_log(path).log


def _write(path: str, log: Log, report_path: str | None = None, report: str | None = None, number: int | None = None) -> None:
    """The report first: a log never names a report that is not there."""
    from roofline.decide.loop_log import log_text, readable
    from roofline.report.loop_view import turn_line
    from roofline.report.store import write_text

    if report_path is not None and report is not None:
        write_text(report_path, report)
        note(f"written: {report_path}")
    text = log_text(log)
    readable(text, path)
    write_text(path, text)
    deliver(turn_line(log.turns[-1 if number is None else number]) + "\n", None)
