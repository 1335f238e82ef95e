"""Curves of sweeps, fronts of searches, timelines of traces: what they show is what their JSON says."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest

from roofline.errors import UsageError
from roofline.report.load import load
from roofline.report.plot.curves import axis_of, curves, curves_of
from roofline.report.plot.front import front
from roofline.report.plot.svg import Drawing
from roofline.report.plot.timeline import timeline
from roofline.report.search import Ranked, SearchReport
from roofline.report.shape import decode
from roofline.report.sweep import SweepReport
from roofline.report.trace import TraceReport
from tests.plot.conftest import INGEST, SEARCH, SWEEP, Made

SVG = "{http://www.w3.org/2000/svg}"
WIDTHS = (400.0, 640.0, 1100.0)


def sound(page: Drawing) -> ET.Element:
    """The figure as XML, its texts apart and on the page."""
    for a, b in combinations(page.boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a[4], b[4])
    for box in page.boxes:
        assert box[0] >= 0, box
        assert box[2] <= page.width + 0.1, box
        assert box[3] <= page.height, box
    text = page.svg()
    assert "nan" not in text
    return ET.fromstring(text)


def points(d: str) -> list[tuple[float, float]]:
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", d)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


@pytest.fixture
def sweep(made: Made) -> SweepReport:
    found = load(str(made(*SWEEP)))
    assert isinstance(found, SweepReport)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sweep_is_a_curve_for_each_value_of_its_other_axes(sweep: SweepReport, width: float) -> None:
    assert axis_of(sweep) == "batch"
    assert [(said, len(line)) for said, line in curves_of(sweep)] == [("d = 1024", 7), ("d = 4096", 7)]
    root = sound(curves(sweep, width=width))
    drawn = [e for e in root.iter(f"{SVG}path") if "curve" in e.get("class", "").split()]
    assert [len(points(e.get("d", ""))) for e in drawn] == [7] * 4, "a bound and an estimate each"
    for line in drawn:
        xs = [x for x, _ in points(line.get("d", ""))]
        steps = [b - a for a, b in pairwise(xs)]
        assert steps == pytest.approx([steps[0]] * 6, abs=0.11), "powers of two lie equally far apart"
    bounds, estimates = ([y for _, y in points(e.get("d", ""))] for e in drawn[:2])
    assert all(b >= e for b, e in zip(bounds, estimates, strict=True)), "a bound is below its estimate, so further down the page"


def test_a_crossing_stands_at_its_value(sweep: SweepReport) -> None:
    """Half way between 2 and 32 in powers is 8."""
    crossing: Any = {"axis": "batch", "what": "limiter", "before": "hbm", "after": "tensor", "at": 8, "low": 4, "high": 8, "params": {}}
    marked = decode(SweepReport, {**json.loads(json.dumps(_plain(sweep))), "crossings": [crossing]})
    page = curves(marked)
    root = sound(page)
    (ridge,) = [float(e.get("x1", 0)) for e in root.iter(f"{SVG}line") if e.get("class") == "ridge"]
    line = next(points(e.get("d", "")) for e in root.iter(f"{SVG}path") if "curve" in e.get("class", ""))
    assert ridge == pytest.approx(line[3][0], abs=0.11)
    assert any(b[4] == "8 whole: tensor" for b in page.boxes)


def _plain(value: Any) -> Any:
    from roofline.report.shape import encode

    return encode(value)


def test_a_sweep_without_an_axis_of_numbers_has_no_curve(sweep: SweepReport) -> None:
    with pytest.raises(UsageError, match="no axis"):
        curves(replace(sweep, axes={"dtype": ("bf16", "fp8")}))


def plan(name: str, step_s: float, memory: float) -> Ranked:
    return Ranked(plan=name, devices=8, step_s=step_s, tokens_per_s=1, mfu=None, device_s=8 * step_s, memory_bytes=memory, parts_s={})


@pytest.fixture
def search(made: Made) -> SearchReport:
    found = load(str(made(*SEARCH)))
    assert isinstance(found, SearchReport)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_the_front_falls_in_steps_through_its_plans(search: SearchReport, width: float) -> None:
    """Three plans, each faster with more memory: two steps, so five corners, and nothing below them."""
    found = replace(search, pareto=tuple(plan(f"tp={i}", 1.0 / i, i * 1e9) for i in (1, 2, 4)), best=(plan("slow", 2.0, 4e9),))
    root = sound(front(found, width=width))
    (line,) = [points(e.get("d", "")) for e in root.iter(f"{SVG}path") if "curve" in e.get("class", "")]
    assert len(line) == 5
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(line))
    assert [x for x, _ in line] == sorted(x for x, _ in line)
    assert [y for _, y in line] == sorted(y for _, y in line), "down the page: less time"
    marks = [e for e in root.iter(f"{SVG}path") if e.find(f"{SVG}title") is not None]
    assert sum("k-measured" in e.get("class", "") for e in marks) == 3
    assert sum("k-bound" in e.get("class", "") for e in marks) == 1


def test_a_real_search(search: SearchReport) -> None:
    page = front(search)
    sound(page)
    assert any(search.best[0].plan == b[4] for b in page.boxes)
    with pytest.raises(UsageError, match="no plan"):
        front(replace(search, pareto=(), best=()))


@pytest.fixture
def trace(made: Made) -> TraceReport:
    found = load(str(made(*INGEST)))
    assert isinstance(found, TraceReport)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_the_window_of_a_trace_is_busy_and_idle_time(trace: TraceReport, width: float) -> None:
    root = sound(timeline(trace, width=width))
    bars = [e for e in root.iter(f"{SVG}rect") if "bar" in e.get("class", "").split()]
    window = [e for e in bars if e.get("y") == bars[0].get("y")]
    wide = [float(e.get("width", 0)) for e in window]
    assert wide[0] / sum(wide) == pytest.approx(trace.busy_s / trace.window_s, abs=0.01)
    assert trace.busy_s + sum(trace.idle.by_cause_s.values()) == pytest.approx(trace.window_s, rel=1e-3)
    gaps = [e for e in bars if e.get("y") == bars[-1].get("y")]
    assert len(gaps) == len(trace.idle.longest)
    first = trace.idle.longest[0]
    assert float(gaps[0].get("width", 0)) / sum(wide) == pytest.approx(first.time_s / trace.window_s, abs=0.005)


def test_a_trace_without_events_has_no_timeline(trace: TraceReport) -> None:
    with pytest.raises(UsageError, match="no GPU event"):
        timeline(replace(trace, window_s=0.0))
