"""Estimates in every view: table, sentences, Markdown, CSV, comparison, a single operator, measurements, diff and assertions."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from roofline.errors import UsageError
from roofline.hardware.profile import Hardware
from roofline.ops.base import Op
from roofline.ops.elementwise import Elementwise
from roofline.ops.gemm import Gemm
from roofline.ops.launched import Transfer
from roofline.report import markdown, measured_view
from roofline.report.build import analyze
from roofline.report.columns import band, columns, fitting
from roofline.report.comparison import against_first, summary
from roofline.report.csv_view import to_csv
from roofline.report.diff import Diff, compare
from roofline.report.diff_view import changed_columns, head_lines, verdict
from roofline.report.expect import check
from roofline.report.gates import judge
from roofline.report.model import MeasuredResult, Measurements, Report
from roofline.report.sentences import closing, explain
from roofline.report.single import lines
from roofline.report.store import load_report, to_json
from roofline.report.text import print_report
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Expectation, Step, Workload
from tests.estimates import estimating, host, parameters

PROFILE = load_hardware("h100-sxm")
BIG = Elementwise(function="relu", elements=10**8, dtype="bf16")
SMALL = Elementwise(function="relu", elements=64, dtype="bf16")
MADE = Callable[..., Report]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Hardware:
    """An H100 with plain parameters: 100 M elements take 149.2 us there, and 2 us fixed."""
    return estimating(PROFILE, monkeypatch)


def workload(*ops: Op, execution: str = "graph", repeat: int = 1) -> Workload:
    names = ("big", "small", "third")
    made = tuple(Step(id=name, op=op, repeat=repeat) for name, op in zip(names, ops, strict=False))
    return Workload(name="w", execution=execution, steps=made)


def drawn(report: Report, width: int = 80, **options: bool) -> str:
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=width, markup=False, highlight=False), **options)
    return stream.getvalue()


def cells(report: Report, heading: str) -> tuple[str, ...]:
    return next(c.cells for c in columns(report) if c.heading == heading)


class TestTable:
    def test_the_estimate_stands_beside_the_bound_with_its_band_and_what_limits_it(self, device: Hardware) -> None:
        """400 MB at 3.352 TB/s are 119.3 us; at 0.8 of that 149.2 us, and 2 us fixed; three times each."""
        report = analyze(workload(BIG, SMALL, repeat=3), device)
        assert cells(report, "bound")[0] == "358.0 µs"
        assert cells(report, "estimate") == ("453.5 µs", "6.000 µs", "459.5 µs")
        assert cells(report, "band") == ("-10/+20 %", "-20/+25 %", "-10/+20 %")
        assert cells(report, "limits") == ("memory", "fixed", "memory")
        headings = [c.heading for c in columns(report)]
        assert headings.index("estimate") == headings.index("bound") + 1

    @pytest.mark.parametrize("width", [80, 60, 50])
    def test_a_narrow_table_keeps_time_and_drops_the_band(self, device: Hardware, width: int) -> None:
        report = analyze(workload(BIG, SMALL, repeat=3), device)
        kept = [c.heading for c in fitting(columns(report), width)[0]]
        assert {"bound", "estimate"} <= set(kept)
        table = drawn(report, width).split("\n\n")[0]
        assert all(len(line) <= width for line in table.splitlines() if not line.startswith("("))

    def test_nothing_is_said_where_nothing_is_estimated(self, device: Hardware) -> None:
        report = analyze(workload(BIG), replace(device, fitted={}))
        assert "estimate" not in [c.heading for c in columns(report)]
        assert "Estimated" not in drawn(report)
        assert "No estimate of big: h100-sxm carries no fitted parameters" in drawn(report, 300, explained=True)

    def test_a_row_without_an_estimate_has_a_dash(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Gemm, "launched", lambda self, execution: (Transfer(link="nvlink", bytes=8),))
        report = analyze(workload(BIG, Gemm(m=8, n=8, k=8, dtype="bf16")), device)
        assert cells(report, "estimate") == ("151.2 µs", "-", "-")
        assert cells(report, "band")[1:] == cells(report, "limits")[1:] == ("-", "-")
        assert "small has no estimate: no model estimates" in report.totals.unavailable["estimate"]
        assert band(None) == "-"


class TestSentences:
    def test_the_whole_in_one_sentence(self, device: Hardware) -> None:
        """Half-widths of one set add up: 0.1 of 453.5 us and 0.2 of 6 us below, 0.2 and 0.25 of them above."""
        sentence = closing(analyze(workload(BIG, SMALL, repeat=3), device))[1]
        assert sentence == (
            "Estimated 459.5 us (412.9 us to 551.7 us in 90 % of runs), 1.28x its bound of 358.0 us; 6 kernels launched (graph); "
            "memory 98.7 %, fixed costs of kernels 1.3 % of the time."
        )

    def test_launch_bound(self, device: Hardware) -> None:
        """1,000 kernels at 8 us of host; the device needs 2 us, 1 us of gap and next to nothing for 256 bytes."""
        found = closing(analyze(workload(SMALL, execution="eager", repeat=1000), device))
        assert found[2] == (
            "Launch-bound: the host needs 8.000 ms to issue 1000 kernels, and the device idles 62.5 % of the time; "
            "without the host it would take 3.000 ms."
        )
        assert not any("Launch-bound" in s for s in closing(analyze(workload(BIG, execution="eager"), device)))

    def test_priors_are_said(self, device: Hardware) -> None:
        elsewhere = replace(device, fitted={}, priors={"stream.torch": parameters("stream.torch", "a100-sxm")})
        assert any("parameters fitted on a100-sxm" in s for s in closing(analyze(workload(BIG), elsewhere)))
        assert not any("priors" in s for s in closing(analyze(workload(BIG), device)))

    def test_explained_term_by_term(self, device: Hardware) -> None:
        said = explain(analyze(workload(BIG, execution="eager"), device))
        assert "Estimate of big, one execution (eager):" in said
        assert "  stream.torch x1: 151.2 us (fixed 2.000 us, memory 149.2 us); fitted on h100-sxm: a test" in said
        assert "  host.torch x1: 8.000 us (fixed 8.000 us); fitted on h100-sxm: a test" in said
        assert "  the slower of device 152.2 us (gaps between launches included) and host 8.000 us" in said
        assert said[-1].startswith("  estimate = 152.2 us, ")
        assert any("kernels as launched" in line for line in said)

    def test_the_whole_is_explained_by_parameter_set(self, device: Hardware) -> None:
        said = explain(analyze(workload(BIG, SMALL, repeat=3), device))
        at = said.index("Estimate of the whole, all repetitions (graph):")
        assert said[at + 1] == "  stream.torch x6: 459.5 us (fixed 12.00 us, memory 447.5 us); fitted on h100-sxm: a test"
        assert not any("of the whole" in line for line in explain(analyze(workload(BIG), device)))

    def test_a_prior_is_marked_where_it_is_explained(self, device: Hardware) -> None:
        elsewhere = replace(device, fitted={}, priors={"stream.torch": parameters("stream.torch", "a100-sxm")})
        said = "\n".join(explain(analyze(workload(BIG), elsewhere)))
        assert "fitted on a100-sxm (a prior here): a test" in said

    def test_one_operator(self, device: Hardware) -> None:
        said = lines(analyze(workload(BIG), device))
        assert any(line.startswith("Estimated 151.2 us (") for line in said)
        assert "  stream.torch x1: 151.2 us (fixed 2.000 us, memory 149.2 us); fitted on h100-sxm: a test" in said
        other = replace(device, fitted={"product.torch": device.fitted["product.torch"]})
        assert any(line.startswith("No estimate: h100-sxm carries no") for line in lines(analyze(workload(BIG), other)))
        assert not any("estimate" in line for line in lines(analyze(workload(BIG), replace(device, fitted={}))))

    def test_markdown_has_every_column(self, device: Hardware) -> None:
        text = markdown.to_markdown(analyze(workload(BIG, SMALL), device))
        assert "| estimate | band | limits |" in text
        assert "- Estimated " in text


class TestFiles:
    def test_csv(self, device: Hardware) -> None:
        report = analyze(workload(BIG, SMALL, execution="eager"), device)
        big, small = csv.DictReader(io.StringIO(to_csv(report)))
        assert float(big["estimate_time_s"]) == pytest.approx(152.2e-6, rel=1e-3)
        assert float(big["estimate_low_s"]) < float(big["estimate_time_s"]) < float(big["estimate_high_s"])
        assert (big["estimate_limiter"], small["estimate_limiter"], small["launched_kernels"]) == ("memory", "host", "1")

    def test_a_stored_report_is_the_same(self, device: Hardware, tmp_path: Path) -> None:
        report = analyze(workload(BIG, SMALL, execution="eager"), device)
        (tmp_path / "r.json").write_text(to_json(report), encoding="utf-8")
        assert to_json(load_report(str(tmp_path / "r.json"))) == to_json(report)

    def test_an_estimate_of_four_keys_is_read(self, device: Hardware, tmp_path: Path) -> None:
        """The keys that a report had before any estimate was made."""
        import json

        plain = json.loads(to_json(analyze(workload(BIG), device)))
        kept = ("time_s", "low_s", "high_s", "terms")
        plain["totals"]["estimate"] = {k: plain["totals"]["estimate"][k] for k in kept}
        (tmp_path / "r.json").write_text(json.dumps(plain), encoding="utf-8")
        found = load_report(str(tmp_path / "r.json")).totals.estimate
        assert found is not None
        assert (found.kernels, found.limiter) == (0, None)


def test_comparison_of_devices(device: Hardware) -> None:
    slower = replace(device, name="other", fitted={"stream.torch": parameters("stream.torch", "other", efficiency=0.4)})
    reports = [analyze(workload(BIG), d) for d in (device, slower)]
    table = {c.heading: c.cells for c in summary(reports)}
    assert table["estimate"] == ("151.2 µs", "300.3 µs")
    assert table["est. speed"] == ("1.00x", "0.50x")
    assert "estimate 0.50x as fast" in against_first(reports)[0]
    assert "est. speed" not in [c.heading for c in summary([analyze(workload(BIG), replace(d, fitted={})) for d in (device, slower)])]


class TestMeasured:
    def report(self, device: Hardware, time_s: float) -> Report:
        """Expected: 151.2 us, between 136.0 and 181.4."""
        run = MeasuredResult(time_s=time_s, source="a run", conditions={"launch": "graph"})
        found = Measurements(steps={"big": run}, whole=run, environment={"device": "X"})
        return analyze(workload(BIG, execution="eager"), device, measured=found)

    @pytest.mark.parametrize(("time_s", "place"), [(150e-6, "yes"), (130e-6, "below"), (190e-6, "above")])
    def test_predicted_stands_beside_measured(self, device: Hardware, time_s: float, place: str) -> None:
        table = {c.heading: c.cells[0] for c in measured_view.measured_columns(self.report(device, time_s))}
        assert (table["bound"], table["estimate"], table["in band"]) == ("119.3 µs", "151.2 µs", place)

    def test_the_waterfall_goes_through_the_estimate(self, device: Hardware) -> None:
        first, *rest = measured_view.closing(self.report(device, 160e-6))
        assert first == (
            "big: bound 119.3 us (hbm) + expected 31.83 us (memory) + unexplained 8.835 us = measured 160.0 us: 1.34x the bound, "
            "1.06x the estimate (in its band, 136.0 us to 181.4 us)"
        )
        assert any("estimated 151.2 us (136.0 us to 181.4 us, in its band)" in line for line in rest)

    def test_what_was_faster_than_expected_leaves_nothing_unexplained(self, device: Hardware) -> None:
        first = measured_view.closing(self.report(device, 130e-6))[0]
        assert "+ expected 10.67 us (memory) + unexplained 0 s = measured 130.0 us" in first
        assert "below its band" in first
        assert "outside its band" in measured_view.closing(self.report(device, 130e-6))[1]

    def test_without_an_estimate_the_rest_is_unexplained(self, device: Hardware) -> None:
        bare = replace(device, fitted={})
        assert "estimate" not in [c.heading for c in measured_view.measured_columns(self.report(bare, 150e-6))]
        assert measured_view.closing(self.report(bare, 160e-6))[0].endswith("unexplained 40.67 us = measured 160.0 us: 1.34x the bound")


class TestDiff:
    def diff(self, base: Hardware, head: Hardware, **changes: str) -> tuple[Diff, Report, Report]:
        old, new = analyze(workload(BIG, SMALL), base), analyze(workload(BIG, SMALL, **changes), head)
        return compare(old, new, "base", "head"), old, new

    def refit(self, device: Hardware, **values: float) -> Hardware:
        return replace(device, fitted={**device.fitted, "stream.torch": parameters("stream.torch", **values)})

    def test_nothing_changed(self, device: Hardware) -> None:
        found, *_ = self.diff(device, device)
        assert [r.status for r in found.rows] == ["same", "same"]
        assert (found.total_estimate_ratio, found.context) == (1, ())

    def test_other_parameters_are_an_exact_change_of_the_estimate_alone(self, device: Hardware) -> None:
        """0.4 instead of 0.8 of the bandwidth: 149.2 us become 298.3, the bound stands."""
        found, *_ = self.diff(device, self.refit(device, efficiency=0.4))
        big = found.rows[0]
        assert big.status == "changed"
        assert (big.time_ratio, big.estimate_ratio) == (1, pytest.approx(300.3 / 151.2, rel=1e-3))
        assert big.explanation == "only the estimate changed, by its parameters or model; still bound by hbm (memory); estimate +98.7 %"
        assert found.context == ("parameters stream.torch: values.efficiency 0.8 -> 0.4",)
        assert verdict(found).startswith("total time unchanged, estimated +97.4 %; compared 2 (2 changed)")
        assert {c.heading: c.cells[0] for c in changed_columns(found)}["estimate"] == "+98.7 %"
        assert {q.name for q in found.totals} == {"estimate.time_s"}

    def test_many_changed_values_of_a_set_are_one_line(self, device: Hardware) -> None:
        head = self.refit(device, efficiency=0.4, fixed_s=3e-6)
        head = replace(head, fitted={**head.fitted, "stream.torch": replace(head.fitted["stream.torch"], rows=7)})
        found, *_ = self.diff(device, head)
        assert found.context == ("parameters stream.torch: rows 100 -> 7, values.efficiency 0.8 -> 0.4 and 1 more",)

    def test_an_estimate_on_one_side_is_said_and_is_no_change(self, device: Hardware) -> None:
        found, *_ = self.diff(replace(device, fitted={}), device)
        assert [r.status for r in found.rows] == ["same", "same"]
        assert "estimated in the head only: big, small" in head_lines(found)
        assert found.total_estimate_ratio is None
        back, *_ = self.diff(device, replace(device, fitted={}))
        assert "estimated in the base only: big, small" in head_lines(back)

    @pytest.mark.parametrize(
        ("rule", "held"),
        [
            ("total.estimate.time_s>+90%", False),
            ("total.estimate.time_s>+98%", True),
            ("row.estimate.time_s>+98.5%", False),
            ("total.estimate.time_s>+100 us", False),
            ("total.bound.time_s>+0%", True),
            ("changed", False),
            ("profile-changed", False),
            ("5%", True),
        ],
    )
    def test_gates(self, device: Hardware, rule: str, held: bool) -> None:
        found, old, new = self.diff(device, self.refit(device, efficiency=0.4))
        assert judge([rule], found, old, new)[0].held is held

    def test_a_gate_on_what_is_not_estimated_does_not_pass(self, device: Hardware) -> None:
        found, old, new = self.diff(device, replace(device, fitted={}))
        assert not judge(["total.estimate.time_s>+5%"], found, old, new)[0].held

    def test_an_execution_changes_the_estimate(self, device: Hardware) -> None:
        found, *_ = self.diff(device, device, execution="eager")
        small = found.rows[1]
        assert small.estimate_ratio == pytest.approx(4, rel=1e-3)
        assert any(line.startswith("execution convention: 'graph") for line in found.context)

    def test_a_band_that_widened_is_a_change(self, device: Hardware) -> None:
        wider = replace(device, fitted={**device.fitted, "stream.torch": parameters("stream.torch", band={"memory": (0.5, 1.5)})})
        names = {q.name for q in self.diff(device, wider)[0].rows[0].quantities}
        assert names == {"estimate.low_s", "estimate.high_s"}


class TestExpect:
    def outcome(self, report: Report, path: str, comparison: str, value: str) -> tuple[bool, str]:
        (found,) = check(report, (Expectation(path=path, comparison=comparison, value=value),))
        return found.held, found.message

    def test_paths_of_estimates(self, device: Hardware) -> None:
        report = analyze(workload(BIG, SMALL, execution="eager", repeat=3), device)
        assert self.outcome(report, "total.estimate.time_s", "<", "500 us")[0]
        assert not self.outcome(report, "total.estimate.time_s", "<", "450 us")[0]
        assert self.outcome(report, "small.estimate.limiter", "==", "host")[0]
        assert self.outcome(report, "big.estimate.kernels", "==", "1")[0]
        assert self.outcome(report, "total.estimate.parameters", "!=", "null")[0]
        with pytest.raises(UsageError, match="time_s"):
            self.outcome(report, "total.estimate.times", "<", "1 s")

    def test_what_is_not_estimated_fails_with_the_reason(self, device: Hardware) -> None:
        held, message = self.outcome(analyze(workload(BIG), replace(device, fitted={})), "big.estimate.time_s", "<", "1 s")
        assert not held
        assert "h100-sxm carries no fitted parameters for stream.torch" in message


def test_the_host_may_be_another_ones(device: Hardware) -> None:
    elsewhere = replace(device, fitted={**device.fitted, "host.torch": host("h200-sxm")})
    assert any("h200-sxm" in s for s in closing(analyze(workload(SMALL, execution="eager"), elsewhere)))
