"""The command line: one module per command, imported light; what a command needs is imported when it runs."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Annotated

import typer

from roofline import __version__
from roofline.cli import (
    amdahl,
    analyze,
    calibrate,
    dataflow,
    diff,
    doctor,
    fit,
    hardware,
    kernels,
    measure,
    op,
    operators,
    report,
    schema,
    validate,
)
from roofline.cli.narrow import narrowed
from roofline.cli.outcome import abandon_stdout, settings

EXIT_CODES = """
Exit codes: 0 fine, 1 a gate or assertion failed, 2 usage or bad input, 3 something is missing (torch, a GPU, a
baseline), 4 the measurement is invalid, 130 interrupted, 141 the reader of a pipe left.
"""

app = typer.Typer(
    name="roofline",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    help="What bounds a workload, what would help end to end, and did it?\n\n"
    "Examples:\n\n"
    "  roofline analyze workload.yaml -H h100-sxm\n\n"
    "  roofline amdahl --fraction 0.2 --speedup 2\n\n"
    "  roofline diff base.json head.json --fail-on 'total.bound.time_s>+2%'\n\n"
    "Units: 1 GB = 1e9 B, 1 GiB = 2**30 B; B is byte, b is bit; a multiply-add is 2 FLOP.\n" + EXIT_CODES,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"roofline {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result: no warnings on stderr (also after the command).")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (also after the command).")] = False,
    color: Annotated[str, typer.Option("--color", help="auto, always or never (also after the command).")] = "auto",
) -> None:
    """Settings of every command; `run` moves them here from wherever they stand."""
    if color not in ("auto", "always", "never"):
        raise typer.BadParameter(f"'{color}' is not one of auto, always, never", param_hint="--color")
    settings.quiet, settings.debug, settings.color = quiet, debug, color


app.command("analyze")(analyze.command)
app.command("amdahl")(amdahl.command)
app.command("measure")(measure.command)
app.command("calibrate")(calibrate.command)
app.command("kernels")(kernels.command)
app.command("doctor")(doctor.command)
app.command("report")(report.command)
app.command("diff")(diff.command)
app.command("op")(op.command)
app.command("fit")(fit.command)
app.command("validate")(validate.command)
app.command("schema")(schema.command)
app.add_typer(dataflow.app, name="dataflow")
app.add_typer(hardware.app, name="hardware")
app.add_typer(operators.app, name="operators")

BROKEN_PIPE, INTERRUPTED = 141, 130
_FLAGS = {"-q", "--quiet", "--debug"}


def hoisted(arguments: list[str]) -> list[str]:
    """Global flags moved before the command, so that they may stand anywhere before ``--``.

    >>> hoisted(["amdahl", "--fraction", "0.2", "-q"])
    ['-q', 'amdahl', '--fraction', '0.2']
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    first: list[str] = []
    rest: list[str] = []
    i = 0
    while i < end:
        if arguments[i] in _FLAGS or arguments[i].startswith("--color="):
            first.append(arguments[i])
        elif arguments[i] == "--color" and i + 1 < end:
            first += arguments[i : i + 2]
            i += 1
        else:
            rest.append(arguments[i])
        i += 1
    return first + rest + arguments[end:]


def run() -> None:
    """The entry point of the console script."""
    # All that is alive at the end goes with the process; looking through it for cycles first is a tenth of a short run.
    atexit.register(gc.freeze)
    try:
        arguments = hoisted(sys.argv[1:])
        narrowed(app, arguments)(args=arguments, prog_name="roofline")
    except SystemExit as end:
        # typer and rich both end with 1 when the reader went away, as `head` does; 1 is a gate that failed.
        if isinstance(end.__context__, BrokenPipeError):
            abandon_stdout()
            sys.exit(BROKEN_PIPE)
        raise
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
