"""How a command ends: errors on stderr with their exit code, results on stdout or in a file, nothing else anywhere."""

from __future__ import annotations

import codecs
import contextlib
import functools
import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from roofline.errors import GateFailedError, RooflineError, UsageError, visible

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.report.model import Notice


@dataclass
class Settings:
    """What the global flags say, and the settings that are no flag: ``format``, ``hardware`` and ``cluster`` where nothing else says one.

    ``warned`` are the codes of the warnings of this run, said or kept quiet, but for those that are ignored.
    """

    quiet: bool = False
    debug: bool = False
    color: str = "auto"
    strict: bool = False
    ignore: frozenset[str] = frozenset()
    format: str | None = None
    hardware: str | None = None
    cluster: str | None = None
    warned: list[str] = field(default_factory=list)


settings = Settings()
SUFFIX_FORMATS = {".json": "json", ".csv": "csv", ".md": "markdown"}

_Command = TypeVar("_Command", bound=Callable[..., Any])


def reported(command: _Command) -> _Command:
    """Turn the errors of a command into a message on stderr and an exit code."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            _refuse_not_finite(kwargs)
            found = command(*args, **kwargs)
            _refuse_warnings()
            return found
        except RooflineError as err:
            if settings.debug:
                raise
            note(f"error: {err}" if type(err).__name__ != "InputError" else str(err))
            raise typer.Exit(err.exit_code) from None

    return wrapper  # type: ignore[return-value]


def _refuse_not_finite(options: Mapping[str, Any]) -> None:
    """Python reads ``nan`` and ``inf`` as numbers, and a comparison with NaN lets everything through."""
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(
                f"--{name.rstrip('_').replace('_', '-')} {value} is out of range: not a number that anything can be worked out with"
            )


def _refuse_warnings() -> None:
    """With --strict a warning fails the run, when its result is out."""
    if settings.strict and settings.warned:
        raise GateFailedError(f"--strict: {', '.join(dict.fromkeys(settings.warned))} (--ignore CODE takes one out)")


def note(text: str) -> None:
    """A message for a person, on stderr."""
    if sys.stderr is None:  # closed: print() would fall back to stdout, where only results belong
        return
    encoding = sys.stderr.encoding or "ascii"
    safe = "\n".join(visible(line) for line in text.split("\n"))
    print(safe.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def warn(warnings: Iterable[Notice]) -> None:
    """Coded warnings on stderr, unless --quiet or --ignore; the report keeps them all."""
    for warning in warnings:
        if warning.code not in settings.ignore:
            settings.warned.append(warning.code)
            if not settings.quiet:
                note(f"warning {warning.code}: {warning.message}")


def chosen_format(given: str | None, output: str | None, known: tuple[str, ...]) -> str:
    """The format asked for, else that of the file's ending, else that of the settings, else the first known.

    Raises:
        UsageError: a format that is not known.
    """
    if given is None and output is not None:
        given = SUFFIX_FORMATS.get(Path(output).suffix.lower())
    if given is None:
        return settings.format if settings.format in known else known[0]
    if given == "md":
        given = "markdown"
    if given not in known:
        raise UsageError(f"unknown format '{given}'; known: {', '.join(known)}")
    return given


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What a stream cannot encode, as JSON writes it, so that JSON stays JSON: by 16-bit units, never ``\\x``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)), error.end


ESCAPED = "roofline.escaped"
codecs.register_error(ESCAPED, _escaped)


def deliver(text: str, output: str | None) -> None:
    """The result: to stdout, or whole or not at all to a file."""
    if output in (None, "-"):
        with _to_stdout():
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, ESCAPED).decode(encoding))
            sys.stdout.flush()
        return
    from roofline.report.store import write_text

    write_text(str(output), text)


def deliver_bytes(data: bytes, output: str | None) -> None:
    """A result that is no text: to stdout, or whole or not at all to a file."""
    if output in (None, "-"):
        with _to_stdout():
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        return
    from roofline.report.store import write_bytes

    write_bytes(str(output), data)


@contextlib.contextmanager
def _to_stdout() -> Iterator[None]:
    """Writing to stdout, where a full disk or a closed stream is the user's to repair. A reader that left is not an error."""
    if sys.stdout is None:
        raise UsageError("standard output is closed; give -o FILE")
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as err:
        abandon_stdout()
        raise RooflineError(f"cannot write to standard output: {err.strerror or err}") from None


def abandon_stdout() -> None:
    """Leave nothing for the interpreter to flush into a stream that takes no more."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream without a descriptor has nothing to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(width: int | None = None) -> Console:
    """A rich console for stdout: colour only where a person sees it, or where asked for."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):  # rich writes names of users as they are, whatever stdout can encode
        sys.stdout.reconfigure(errors=ESCAPED)
    forced = settings.color == "always" or (settings.color == "auto" and bool(os.environ.get("FORCE_COLOR")))
    plain = settings.color == "never" or (
        settings.color == "auto" and (bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb")
    )
    return Console(
        force_terminal=True if forced and not plain else None,
        no_color=plain or (False if forced else None),
        color_system=None if plain else "standard" if forced else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        width=width,
    )


def render(draw: Callable[[Console], None], output: str | None) -> None:
    """Draw on stdout, or as plain text into a file."""
    if output in (None, "-"):
        with _to_stdout():
            screen = console()
            if not screen.is_terminal and "COLUMNS" not in os.environ:
                screen.width = 200  # a pipe has no width; nothing is cut for one
            draw(screen)
            sys.stdout.flush()
        return
    from rich.console import Console

    stream = io.StringIO()
    draw(Console(file=stream, width=200, no_color=True, highlight=False, markup=False, emoji=False))
    deliver(stream.getvalue(), output)
