"""``roofline fmt``: workloads, profiles and other YAML files in their canonical layout."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.outcome import deliver, reported, settings


@reported
def command(
    files: Annotated[list[str], typer.Argument(help="YAML files; '-' is standard input, laid out to standard output.", show_default=False)],
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if a file would change.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; show what would change.")] = False,
) -> None:
    """Lay out YAML files: spaces, blank lines, '80GB' as '80 GB'. Comments, order, indentation and values stay.

    Example: roofline fmt --check workloads/*.yaml
    """
    from roofline.errors import GateFailedError, UsageError, of_each
    from roofline.spec.layout import formatted
    from roofline.spec.source import read_source

    if "-" in files and len(files) > 1:
        raise UsageError("standard input is laid out alone")

    def texts_of(name: str) -> tuple[str, str]:
        source = read_source(name)
        return source.text, formatted(source)

    found = of_each(files, texts_of)
    if "-" in found and not check and not diff:
        deliver(found["-"][1], None)
        return
    changed = {name: texts for name, texts in found.items() if texts[1] != _as_stored(name, texts[0])}
    if diff:
        deliver("".join(_diff(name, *texts) for name, texts in changed.items()), None)
    elif not check:
        _write(changed)
    if not diff and not settings.quiet:
        deliver(_said(list(changed), len(files), "would change" if check else "laid out"), None)
    if changed and (check or diff):
        raise GateFailedError(f"{len(changed)} of {len(files)} files are not laid out; 'roofline fmt' does it")


def _as_stored(name: str, text: str) -> str:
    """The text with the line ends and the mark that reading drops, since they are part of the layout."""
    if name == "-":
        return text
    from pathlib import Path

    data = Path(name).read_bytes()
    return text if b"\r\n" not in data and not data.startswith(b"\xef\xbb\xbf") else ""


def _write(changed: dict[str, tuple[str, str]]) -> None:
    from roofline.report.store import write_text

    for name, (_, text) in changed.items():
        write_text(name, text)


def _diff(name: str, before: str, after: str) -> str:
    from difflib import unified_diff

    lines = unified_diff(before.splitlines(), after.splitlines(), name, f"{name} (laid out)", lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _said(changed: list[str], files: int, what: str) -> str:
    return "".join(f"{what}: {name}\n" for name in changed) + f"{len(changed)} of {files} files {what}\n"
