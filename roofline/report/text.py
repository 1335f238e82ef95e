"""Reports for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
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
    console.print(_line(title(report), "bold"))
    print_columns(columns(report, ascii_), console, last_is_total=len(report.rows) > 1)
    console.print()
    for sentence in closing(report):
        console.print(_line(sentence, "bold red" if "DOES NOT FIT" in sentence else ""))
    if explained:
        console.print()
        for line in explain(report):
            console.print(_line(line))


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


def _line(text: str, style: str = "") -> Text:
    return Text(visible(text), style=style)


def print_columns(found: Sequence[Column], console: Console, *, last_is_total: bool = False) -> None:
    """A table without borders whose numbers are never cut: columns that do not fit are left out by name."""
    kept, dropped = fitting(found, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
    for column in kept:
        table.add_column(Text(column.heading), justify="right" if column.right else "left", no_wrap=True, overflow="ignore")
    count = len(kept[0].cells) if kept else 0
    for i in range(count):
        style = "bold" if last_is_total and i == count - 1 else ""
        table.add_row(*(Text(visible(c.cells[i]), style=_colour(c, i) or "") for c in kept), style=style)
    console.print(table, soft_wrap=True)
    if dropped:
        console.print(_line(f"(columns left out at {console.width} columns: {', '.join(dropped)})", "dim"))


def _colour(column: Column, i: int) -> str | None:
    return COLOURS.get(kind_of(column.cells[i].split("=")[0])) if column.heading == "binds" and column.cells[i] != "-" else None
