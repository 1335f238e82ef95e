"""The page of one report: summary, roofline, steps, waterfall, what a speedup would do, and all that the figures rest on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.report.columns import columns
from roofline.report.html.page import document, folded, lines, pairs, section
from roofline.report.html.table import order, table
from roofline.report.html.whatif import Shares, shares_of
from roofline.report.model import Report, Row, arithmetic
from roofline.report.plot.marks import marks_of, times
from roofline.report.plot.roofline import roofline
from roofline.report.plot.roofs import roofs_of
from roofline.report.plot.stages import Stages, stages_of, stages_of_row
from roofline.report.plot.svg import clean
from roofline.report.plot.theme import limit_class
from roofline.report.plot.waterfall import waterfall
from roofline.report.sentences import LIMITERS, closing, headline
from roofline.report.text import title

WIDTH = 760.0


def report_page(report: Report) -> str:
    """The file.

    Raises:
        UsageError: a report without a device, or one with nothing to draw.
    """
    return document(title(report), summary(report), sections(report), data(report))


def summary(report: Report) -> str:
    """The sentence that answers: what binds, else what memory it needs."""
    found = report.totals.headline
    return (headline(found) if found else closing(report))[0]


def sections(report: Report, base: Report | None = None) -> list[str]:
    """Everything below the summary; with ``base`` the roofline also shows where steps stood."""
    figure = roofline(report, base, width=WIDTH, interactive=True).inline("plot-")
    left_out = marks_of(report).left_out
    notes = [f"not drawn: {name} ({why})" for name, why in left_out.items()]
    body = f'<div id="controls" hidden></div>\n<div id="plot">{figure}</div>\n<p id="detail" role="status"></p>\n{lines(notes)}'
    steps = table("steps", "Steps; a heading sorts by it", columns(report), total=len(report.rows) > 1)
    warnings = [f"{w.code}: {w.message}" for w in report.warnings]
    return [
        section("roofline", "Roofline", body),
        section("rows", "Steps", steps),
        *([section("waterfall", "Where the time goes", _waterfall(report))] if report.totals.bound else []),
        *([section("whatif", "What if a step were faster", _whatif(shares_of(report)))] if report.totals.bound else []),
        section("sentences", "In words", lines(closing(report))),
        *([section("warnings", "Warnings", lines(warnings))] if warnings else []),
        folded("conventions", "Conventions", pairs(report.conventions)),
        folded("environment", "Environment and inputs", environment(report)),
    ]


def _waterfall(report: Report) -> str:
    found = stages_of(report)
    why = f'<p class="why">no estimate: {clean(found.why)}</p>' if found.why else ""
    return f'<div id="fall-choice" hidden></div>\n<div id="fall">{waterfall(found, width=WIDTH).inline("fall-")}</div>{why}'


def _whatif(found: Shares) -> str:
    said = [f"{kind} cannot be used: {why}" for kind, why in found.why.items()]
    return f'<div id="slider" hidden></div>\n<p id="answer" role="status"></p>\n{lines(said)}'


def environment(report: Report) -> str:
    """Tool, inputs with their hashes, parameters, device, and where it was measured."""
    device = report.hardware or {}
    known = {"tool": report.tool, "device": device.get("product") or device.get("name") or "none"}
    inputs = {f"{i.role} {i.path}": f"sha256 {i.sha256}" for i in report.inputs}
    params = {f"param {name}": value for name, value in report.params.items()}
    return pairs({**known, **inputs, **params, **report.environment})


# --------------------------------------------------------------------------- data of the script
def data(report: Report) -> dict[str, Any]:
    """What the script needs: rows, orders of the table, shares and stages."""
    found, roofs = shares_of(report), roofs_of(report)
    return {
        "rows": [_row(row) for row in report.rows],
        "roofs": {r.name: r.label for r in (*roofs.memory, *roofs.compute)},
        "orders": {"steps": [order(_keys(report, c.heading, c.cells)) for c in columns(report)]},
        "whatif": {
            kind: {"whole_s": whole, "shares": [short(share) for share in found.shares[kind]]} for kind, whole in found.whole_s.items()
        },
        "fall": _falls(report) if report.totals.bound else None,
    }


def _falls(report: Report) -> dict[str, Any]:
    """The stages of the whole and of each row; their names once, and in each place their numbers."""
    names: list[str] = []

    def told(found: Stages | None) -> dict[str, Any] | None:
        if found is None or not found.stages[0].time_s > 0:
            return None
        names.extend(s.name for s in found.stages if s.name not in names)
        steps = [[names.index(s.name), short(s.time_s)] for s in found.stages]
        return {"stages": steps, "estimate": short(found.estimate_s), "measured": short(found.measured_s)}

    return {"whole": told(stages_of(report)), "rows": [told(stages_of_row(row)) for row in report.rows], "names": names}


def short(value: float | None) -> float | None:
    """Six digits of a number: enough for a page that shows three."""
    return None if value is None else float(f"{value:.6g}")


def _row(row: Row) -> dict[str, Any]:
    limiter = row.bound.limiter if row.bound else None
    return {
        "id": row.id,
        "limiter": limiter,
        "class": limit_class(limiter),
        "share": short(row.share),
        "flop": short(arithmetic(row.flop)),
        "hbm": short(row.bytes["hbm"]),
        "times": {kind: short(time) for kind, time in times(row).items()},
        "limits": LIMITERS.get(row.estimate.limiter or "") if row.estimate else None,
    }


def _keys(report: Report, heading: str, cells: tuple[str, ...]) -> list[Any]:
    """What a column is sorted by: the number behind its cells, or the text itself."""
    numbers: dict[str, Callable[[Row], Any]] = {
        "x": lambda r: r.repeat,
        "kernels": lambda r: r.kernels * r.repeat,
        "FLOP": lambda r: arithmetic(r.flop),
        "HBM": lambda r: r.bytes["hbm"],
        "FLOP/B": lambda r: r.intensity_flop_per_byte["hbm"],
        "ridge": lambda r: r.ridge_flop_per_byte["hbm"],
        "bound": lambda r: r.bound.time_s * r.repeat if r.bound else None,
        "estimate": lambda r: r.estimate.time_s * r.repeat if r.estimate else None,
        "band": lambda r: r.estimate.high_s / r.estimate.time_s if r.estimate and r.estimate.time_s else None,
        "share": lambda r: r.share,
        "measured": lambda r: times(r).get("measured"),
        "of roof": lambda r: r.measured.share_of_peak.get(r.bound.limiter) if r.measured and r.bound and r.bound.limiter else None,
    }
    of = numbers.get(heading)
    return [of(row) for row in report.rows] if of else list(cells[: len(report.rows)])
