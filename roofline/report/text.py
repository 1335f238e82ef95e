"""Reports for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from roofline.errors import visible
from roofline.predict.bound import kind_of
from roofline.report.columns import Column, columns, fitting
from roofline.report.model import Report
from roofline.report.sentences import closing, explain

COLOURS = {"memory": "cyan", "compute": "green", "link": "magenta"}


def print_report(report: Report, console: Console, *, explained: bool = False) -> None:
    """The table, what it means, and on request the conventions and the arithmetic."""
    ascii_ = not can_encode(console)
    console.print(styled(title(report), "bold"))
    print_columns(columns(report, ascii_), console, last_is_total=len(report.rows) > 1)
    console.print()
    for sentence in closing(report):
        console.print(styled(sentence, "bold red" if "DOES NOT FIT" in sentence else ""))
    if explained:
        console.print()
        for line in explain(report):
            console.print(styled(line))


def title(report: Report) -> str:
    """The workload and the device in one line."""
    device = f" on {report.hardware['name']}" if report.hardware else ""
    return f"{report.workload}{device} ({report.conventions['execution'].split(';')[0]})"


def can_encode(console: Console) -> bool:
    """Whether the terminal can show a micro sign."""
    try:
        "µ".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def styled(text: str, style: str = "") -> Text:
    """The text with its control characters made visible, for a console to print in that style."""
    return Text(visible(text), style=style)


def print_columns(found: Sequence[Column], console: Console, *, last_is_total: bool = False) -> None:
    """A table without borders whose numbers are never cut: columns that do not fit are left out by name."""
    kept, dropped = fitting(found, console.width)
    widths = [max(cell_len(c.heading), *(cell_len(visible(cell)) for cell in c.cells)) if c.cells else cell_len(c.heading) for c in kept]
    count = len(kept[0].cells) if kept else 0
    _print_row([(c.heading, c.right, "bold") for c in kept], widths, console)
    for i in range(count):
        bold = "bold " if last_is_total and i == count - 1 else ""
        _print_row([(visible(c.cells[i]), c.right, bold + _colour(c, i)) for c in kept], widths, console)
    if dropped:
        console.print(styled(f"(columns left out at {console.width} columns: {', '.join(dropped)})", "dim"))


def _print_row(cells: Sequence[tuple[str, bool, str]], widths: Sequence[int], console: Console) -> None:
    row = Text()
    for (text, right, style), width in zip(cells, widths, strict=True):
        gap = " " * (width - cell_len(text))
        row.append((gap if right else "") + text, style=style.strip()).append(("" if right else gap) + "  ")
    row.rstrip()
    console.print(row, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def _colour(column: Column, i: int) -> str:
    if column.heading != "binds":
        return ""
    return COLOURS.get(kind_of(column.cells[i].split("=")[0]), "") if column.cells[i] not in ("-", "nothing") else ""
