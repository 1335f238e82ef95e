"""The page of two reports: the verdict first, what changed and why, then the later report with the earlier one's marks."""

from __future__ import annotations

from roofline.report.diff import compare
from roofline.report.diff_view import changed_columns, head_lines, measured_columns, total_lines, why_lines
from roofline.report.html.page import document, folded, lines, section
from roofline.report.html.report_page import data, environment, sections
from roofline.report.html.table import table
from roofline.report.model import Report
from roofline.report.text import title


def diff_page(base: Report, head: Report, base_name: str, head_name: str, *, allow_context_change: bool = False) -> str:
    """The file.

    Raises:
        UsageError: the reports are not comparable.
        MissingCapabilityError: no row of one has the id of a row of the other.
    """
    found = compare(base, head, base_name, head_name, allow_context_change=allow_context_change)
    first, *rest = head_lines(found)
    changed, measured = changed_columns(found), measured_columns(found)
    tables = [
        table(name, caption, shown, sortable=False)
        for name, caption, shown in (("changed", "Steps that changed", changed), ("judged", "Measured on both sides", measured))
        if shown[0].cells
    ]
    body = "".join([lines(rest), *tables, lines(why_lines(found)), lines(total_lines(found))])
    parts = [section("changes", f"From {base_name} to {head_name}", body or "<p>nothing changed</p>"), *sections(head, base)]
    parts.append(folded("base-environment", f"Environment and inputs of {base_name}", environment(base)))
    return document(f"{title(head)}: what changed", first, parts, data(head))
