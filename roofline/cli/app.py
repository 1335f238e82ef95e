"""The command line: one module per command, imported light; what a command needs is imported when it runs."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated

import typer

from roofline import __version__
from roofline.cli.narrow import OWN_FLAGS, VALUED, first_word
from roofline.cli.outcome import abandon_stdout, note, settings

EXIT_CODES = """
Exit codes: 0 fine, 1 a gate or assertion failed, 2 usage or bad input, 3 something is missing (torch, a GPU, a
baseline), 4 the measurement is invalid, 130 interrupted, 141 the reader of a pipe left.
"""

COMMANDS = (
    "analyze",
    "advise",
    "amdahl",
    "measure",
    "calibrate",
    "kernels",
    "doctor",
    "report",
    "plot",
    "diff",
    "op",
    "memory",
    "sweep",
    "plan",
    "search",
    "fit",
    "validate",
    "fmt",
    "budget",
    "gate",
    "schema",
)
"""Commands in the order of the help; the function ``command`` of the module of that name."""
GROUPS = {
    "dataflow": "dataflow",
    "hardware": "hardware",
    "cluster": "cluster",
    "links": "links",
    "operators": "operators",
    "model": "model",
    "import": "model_import",
    "ingest": "ingest",
    "cost": "cost",
    "loop": "loop",
    "config": "config",
}
"""Groups of commands by name, and the module whose ``app`` each is."""


def _version(value: bool) -> None:
    if value:
        typer.echo(f"roofline {__version__}")
        raise typer.Exit


def main_options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result: no warnings on stderr (also after the command).")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (also after the command).")] = False,
    color: Annotated[str, typer.Option("--color", help="auto, always or never (also after the command).")] = "auto",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say on stderr which settings are in force (also after it).")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 where a warning is said (also after the command).")] = False,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Warning such as W006 that is not said; repeat.")] = None,
) -> None:
    """Settings of every command; `run` moves them here from wherever they stand."""
    if color not in ("auto", "always", "never"):
        raise typer.BadParameter(f"'{color}' is not one of auto, always, never", param_hint="--color")
    settings.quiet, settings.debug, settings.color = quiet, debug, color
    settings.strict, settings.ignore, settings.warned = strict, frozenset(_codes(ignore or [])), []
    if verbose and not quiet:
        _say_settings()


def _codes(words: list[str]) -> list[str]:
    import re

    for word in words:
        if not re.fullmatch(r"W\d{3}", word):
            raise typer.BadParameter(f"'{word}' is not the code of a warning such as W006", param_hint="--ignore")
    return words


def _say_settings() -> None:
    """Which settings something else than a flag gave, and where."""
    from roofline.spec.settings import given

    found = given().values()
    for setting in found:
        note(f"setting {setting.name} = {setting.value!r} from {setting.origin}")
    if not found:
        note("no settings but the built-in ones; see 'roofline config show'")


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line with the command of these arguments alone; with all where they name none, as for help."""
    wanted = first_word(arguments)
    return _built((wanted,)) if wanted in COMMANDS or wanted in GROUPS else _built((*COMMANDS, *GROUPS))


@cache
def _built(names: tuple[str, ...]) -> typer.Typer:
    """A command's module takes milliseconds to import and its signature one to turn into options: only those are built."""
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
    app.callback()(main_options)
    for name in names:
        module = import_module(f"roofline.cli.{GROUPS.get(name, name)}")
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
    return app


def __getattr__(name: str) -> typer.Typer:
    """``app``: the whole command line, built when it is asked for."""
    if name == "app":
        return app_for(())
    raise AttributeError(name)


BROKEN_PIPE, INTERRUPTED = 141, 130
COMPLETING = "_ROOFLINE_COMPLETE"
"""Set by the completion scripts of shells."""
_FLAGS = {"-q", "--quiet", "--debug", "-v", "--verbose", "--strict"}


def hoisted(arguments: list[str]) -> list[str]:
    """Global flags moved before the command, so that they may stand anywhere before ``--``.

    >>> hoisted(["amdahl", "--fraction", "0.2", "-q"])
    ['-q', 'amdahl', '--fraction', '0.2']
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags = _FLAGS - OWN_FLAGS.get(first_word(arguments) or "", frozenset())
    first: list[str] = []
    rest: list[str] = []
    i = 0
    while i < end:
        if arguments[i] in flags or arguments[i].startswith(tuple(f"{option}=" for option in VALUED)):
            first.append(arguments[i])
        elif arguments[i] in VALUED and i + 1 < end:
            first += arguments[i : i + 2]
            i += 1
        else:
            rest.append(arguments[i])
        i += 1
    return first + rest + arguments[end:]


def _start(arguments: list[str]) -> None:
    """The command with the settings of environment, project and user as its defaults; or what a shell asks to complete."""
    from roofline.cli.configured import read_defaults
    from roofline.errors import InputError

    if COMPLETING in os.environ:
        from roofline.cli.complete import completing

        completing()(args=arguments, prog_name="roofline")
        return
    try:
        defaults = read_defaults(first_word(arguments) if not {"-h", "--help", "--version"} & {*arguments} else "--help")
    except InputError as err:
        if "--debug" in arguments:
            raise
        note(str(err))
        sys.exit(err.exit_code)
    app_for(arguments)(args=arguments, prog_name="roofline", default_map=defaults)


def run() -> None:
    """The entry point of the console script."""
    # All that is alive at the end goes with the process; looking through it for cycles first is a tenth of a short run, and looking
    # through the classes that each import adds, none of which will ever go, is another.
    atexit.register(gc.freeze)
    gc.set_threshold(100_000)
    try:
        arguments = hoisted(sys.argv[1:])
        _start(arguments)
    except SystemExit as end:
        # typer and rich both end with 1 when the reader went away, as `head` does; 1 is a gate that failed.
        if isinstance(end.__context__, BrokenPipeError):
            abandon_stdout()
            sys.exit(BROKEN_PIPE)
        raise
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
