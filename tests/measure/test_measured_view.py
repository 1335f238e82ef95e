"""Measured results for people: the table, the waterfall, and what closing the gap is worth."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from roofline.ops.elementwise import Elementwise
from roofline.ops.gemm import Gemm
from roofline.report.build import analyze
from roofline.report.measured_view import closing, measured_columns, notes, print_measured, to_markdown, waterfall
from roofline.report.model import CheckResult, MeasuredResult, Measurements, Report
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step, Workload

H100 = replace(load_hardware("h100-sxm"), fitted={}, priors={})
"""Without parameters: what stands beside an estimate is tested with those of `tests.estimates`, which no fit changes."""
PRODUCT = Gemm(m=8192, n=8192, k=8192, dtype="bf16")
STREAM = Elementwise(function="gelu", elements=2**28, dtype="bf16")
SMALL = Elementwise(function="gelu", elements=2**20, dtype="bf16")
CONDITIONS = {"kernel": "gemm", "cache": "cold", "launch": "graph", "mode": "burst"}


def timed(time_s: float, **changes: Any) -> MeasuredResult:
    given: dict[str, Any] = {
        "source": "measured on X",
        "samples_s": (time_s,) * 30,
        "interval_s": (time_s * 0.99, time_s * 1.01),
        "conditions": CONDITIONS,
        "clocks": {"sm_mhz_median": 1755.4, "power_w_max": 690.2},
        "check": CheckResult(passed=True, error=3.2e-3, tolerance=2.5e-2, against="float64 reference"),
    }
    return MeasuredResult(time_s=time_s, **{**given, **changes})


def untimed(status: str, note: str = "why") -> MeasuredResult:
    return MeasuredResult(time_s=0.0, source="no time", status=status, notes=(note,), conditions={"kernel": "gemm"})


def report(product: MeasuredResult | None, stream: MeasuredResult | None = None, whole: MeasuredResult | None = None) -> Report:
    steps = {"product": product, "stream": stream}
    workload = Workload(name="pair", steps=(Step(id="product", op=PRODUCT, repeat=2), Step(id="stream", op=STREAM)))
    found = {name: m for name, m in steps.items() if m}
    return analyze(workload, H100, measured=Measurements(steps=found, whole=whole, environment={"device": "Device X"}))


BOTH = report(timed(1.6e-3), timed(400e-6))


def cells(found: Report, heading: str) -> tuple[str, ...]:
    return next(c.cells for c in measured_columns(found) if c.heading == heading)


def drawn(found: Report, **options: Any) -> str:
    stream = io.StringIO()
    print_measured(found, Console(file=stream, width=200, markup=False, highlight=False, **options))
    return stream.getvalue()


class TestTable:
    def test_a_line_says_bound_time_interval_and_share_of_the_roof_that_binds(self) -> None:
        line = {c.heading: c.cells[0] for c in measured_columns(BOTH)}
        assert line == {
            "step": "product", "kernel": "gemm", "binds": "tensor", "bound": "1.111 ms", "measured": "1.600 ms", "95 %": "+-1.00 %",
            "n": "30", "achieved": "687.2 TFLOP/s", "of roof": "69.5 %", "SM MHz": "1755", "W": "690", "error": "3.2e-03", "status": "ok",
        }  # fmt: skip

    def test_memory_is_achieved_in_bytes(self) -> None:
        assert cells(BOTH, "achieved")[1] == "2.684 TB/s"

    def test_what_has_no_time_says_why_in_its_place(self) -> None:
        found = report(untimed("oom"), None)
        assert cells(found, "measured") == ("oom", "-")
        assert cells(found, "status") == ("oom", "not run")
        assert cells(found, "of roof") == cells(found, "n") == cells(found, "95 %") == ("-", "-")

    def test_too_few_samples_have_no_interval(self) -> None:
        few, enough = (report(timed(1.6e-3, samples_s=(1.6e-3,) * n)) for n in (3, 4))
        assert (cells(few, "95 %")[0], cells(enough, "95 %")[0]) == ("-", "+-1.00 %")
        assert cells(few, "n")[0] == "3"

    def test_without_a_profile_there_is_time_and_nothing_of_a_roof(self) -> None:
        found = analyze(Workload(name="w", steps=(Step(id="a", op=PRODUCT),)), None, measured=Measurements(steps={"a": timed(1e-3)}))
        assert cells(found, "measured") == ("1.000 ms",)
        assert cells(found, "bound") == cells(found, "of roof") == cells(found, "binds") == ("-",)
        assert closing(found) == []

    def test_plain_terminals_get_plain_letters(self) -> None:
        small = report(timed(1.6e-3), timed(410e-6))
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        print_measured(small, Console(file=stream, width=200))
        stream.flush()
        assert "410.0 us" in stream.buffer.getvalue().decode()  # type: ignore[attr-defined]

    def test_notes_are_shown_with_their_step(self) -> None:
        found = report(timed(1.6e-3, notes=("hot",)), untimed("failed", "no graph"))
        assert list(notes(found)) == ["product: hot", "stream: no graph"]
        assert "\nproduct: hot\n" in drawn(found)


class TestWaterfall:
    def test_bound_and_unexplained_make_up_what_was_measured(self) -> None:
        assert waterfall(BOTH.rows[0]) == "product: bound 1.111 ms (tensor) + unexplained 488.7 us = measured 1.600 ms: 1.44x the bound"

    def test_less_than_the_bound_is_no_sum(self) -> None:
        impossible = waterfall(report(timed(1e-3)).rows[0])
        clock = waterfall(report(timed(1.09e-3)).rows[0])
        assert impossible == "product: measured 1.000 ms, less than its bound 1.111 ms (tensor): not to be believed"
        assert clock
        assert clock.endswith("the published peaks hold at a lower clock, or the roof was measured in a slower moment")

    def test_a_warm_run_may_find_its_data_in_the_cache(self) -> None:
        result = timed(1e-6, conditions={**CONDITIONS, "cache": "warm"})
        found = analyze(Workload(name="w", steps=(Step(id="a", op=SMALL),)), H100, measured=Measurements(steps={"a": result}))
        assert (waterfall(found.rows[0]) or "").endswith("(hbm): its data may stay in the cache")

    @pytest.mark.parametrize("result", [None, untimed("oom")])
    def test_there_is_none_without_a_time(self, result: MeasuredResult | None) -> None:
        assert waterfall(report(result).rows[0]) is None


class TestClosing:
    def test_the_largest_step_and_what_its_bound_is_worth(self) -> None:
        total, left = 2 * 1.6e-3 + 400e-6, 400e-6 + 2 * BOTH.rows[0].bound.time_s  # type: ignore[union-attr]
        assert closing(BOTH)[-1] == (
            f"product takes 88.9 % of the measured time; at its bound (tensor) the whole would be {total / left:.2f}x as fast; "
            "next: stream, 11.1 %."
        )

    def test_a_step_at_its_bound_promises_nothing(self) -> None:
        assert closing(report(timed(1.09e-3), timed(400e-6)))[-1] == "product takes 84.5 % of the measured time; next: stream, 15.5 %."

    def test_the_whole_stands_beside_the_sum_of_its_steps(self) -> None:
        whole = timed(3.4e-3, source="a run of the whole sequence")
        assert "the whole sequence as one run: 3.400 ms; the sum of its steps: 3.600 ms" in closing(
            report(timed(1.6e-3), timed(400e-6), whole)
        )
        hot = replace(whole, status="throttled", notes=("hot",))
        lines = closing(report(timed(1.6e-3), timed(400e-6), hot))
        assert "the whole sequence as one run: 3.400 ms (throttled); the sum of its steps: 3.600 ms" in lines
        assert "the whole sequence: hot" in lines

    def test_a_whole_without_a_time_says_why_and_a_part_has_no_sum(self) -> None:
        whole = replace(untimed("oom", "full"), source="a run of the whole sequence")
        assert closing(report(timed(1.6e-3), timed(4e-4), whole))[2:4] == ["the whole sequence as one run: oom", "the whole sequence: full"]
        partly = closing(report(timed(1.6e-3), untimed("oom"), timed(3e-3, source="a run of the whole sequence")))
        assert "the whole sequence as one run: 3.000 ms" in partly

    def test_totals_are_no_sum_where_a_step_has_no_time(self) -> None:
        assert report(timed(1.6e-3), untimed("oom")).totals.measured is None
        both = BOTH.totals.measured
        assert both
        assert both.time_s == pytest.approx(3.6e-3)


class TestMarkdown:
    def test_table_and_sentences_with_names_as_code(self) -> None:
        lines = to_markdown(BOTH).splitlines()
        assert lines[0] == "### `pair measured on Device X`"
        assert lines[2].startswith("| step | kernel |")
        assert lines[4].startswith("| `product` | `gemm` | tensor |")
        assert lines[-1].startswith("- `product` takes 88.9 %")

    def test_words_of_a_kernel_stay_words(self) -> None:
        text = to_markdown(report(untimed("failed", "ValueError: @all <img src=x> [a](http://b) `x`")))
        (line,) = [line for line in text.splitlines() if "ValueError" in line]
        assert line == "- `product`: `` ValueError: @all <img src=x> [a](http://b) `x` ``"

    def test_so_does_a_kernels_name(self) -> None:
        found = report(timed(1.6e-3, conditions={**CONDITIONS, "kernel": "a|b:<c>"}))
        assert "| `product` | `a\\|b:<c>` | tensor |" in to_markdown(found)


def test_control_characters_reach_no_terminal() -> None:
    assert "\x1b" not in drawn(report(untimed("failed", "\x1b[31mred")))
