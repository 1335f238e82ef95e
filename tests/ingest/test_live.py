"""A step under ``roofline.profile``: the report of the trace that torch itself wrote, here of a CPU, which has no kernels."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import MissingCapabilityError, UsageError
from roofline.report.store import to_json
from roofline.report.trace import TraceReport

torch = pytest.importorskip("torch")

from roofline.ingest.live_fixture import roofline_profile  # noqa: E402, F401


def step() -> Any:
    return torch.ones(32, 16) @ torch.ones(16, 8)


def test_the_report_is_that_of_the_trace(roofline_profile: Any, tmp_path: Path) -> None:  # noqa: F811
    from roofline.ingest.trace_report import ingest_trace

    with roofline_profile(hardware="h100-sxm", trace=tmp_path / "t.json.gz") as p:
        with p.step():
            step()
        with p.step():
            step()
    assert isinstance(p.report, TraceReport)
    again = ingest_trace(str(tmp_path / "t.json.gz"))
    assert (p.report.events, p.report.kernels) == (again.events, again.kernels)
    assert p.report.hardware == "h100-sxm"
    assert [i.path for i in p.report.inputs] == ["(live)", "h100-sxm"]
    assert str(tmp_path) not in to_json(p.report)
    text = gzip.decompress((tmp_path / "t.json.gz").read_bytes()).decode()
    events = {e.get("name"): e.get("args", {}) for e in json.loads(text)["traceEvents"]}
    assert {"ProfilerStep#0", "ProfilerStep#1"} <= set(events)
    assert events["aten::mm"]["Input Dims"][:2] == [[32, 16], [16, 8]]


def test_an_error_of_the_block_goes_on_and_leaves_no_report() -> None:
    p = roofline.profile()
    with pytest.raises(ZeroDivisionError), p:
        _ = 1 / int(step()[0, 0] - 16)
    with pytest.raises(UsageError, match="no report yet"):
        _ = p.report


def test_what_cannot_be_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="h100-sxm"):
        roofline.profile("h100-sxn")
    with pytest.raises(UsageError, match="nvlink"):
        roofline.profile("h100-sxm", link="nvlnk")
    with pytest.raises(UsageError, match="within the block"), roofline.profile().step():
        pass
    with pytest.raises(AttributeError, match="profil"):
        _ = roofline.profil  # type: ignore[attr-defined]


def test_a_trace_that_cannot_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write the trace to .*nowhere"), roofline.profile(trace=tmp_path / "nowhere" / "t.json"):
        step()


def test_importing_roofline_imports_neither_torch_nor_the_reader() -> None:
    code = "import sys, roofline; print(sorted(m for m in sys.modules if m == 'torch' or m.startswith('roofline.')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_without_torch_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingCapabilityError, match="torch is not installed"), roofline.profile():
        pass
