"""Predictions beside measured tables: numbers worked by hand, groups, and the rows that are listed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roofline.fit.accuracy import Predicted, accuracy, errors, predict
from roofline.fit.batches import batches
from roofline.fit.tables import read_table
from roofline.predict.estimate.catalog import MODELS
from tests.fit.fakes import HBM, FakeModel, seconds, set_text, softmaxes, toy, transposes, write_table

SET = set_text("fake.transpose.torch.bf16")


def test_errors_by_hand() -> None:
    """Predicted 2, 1, 0.5 and 4 of a measured 1, and one without a prediction."""
    found = errors(np.array([2.0, 1.0, 0.5, 4.0, np.nan]), np.ones(5), np.array([1, 1, 0, 0, 1]) > 0, [None] * 4 + ["unknown"])
    assert (found["count"], found["mape"], found["median_ape"]) == (4, (1 + 0 + 0.5 + 3) / 4, 0.75)
    assert found["bias"] == pytest.approx(4**0.25)
    assert found["p90_ape"] == pytest.approx(1 + 0.7 * 2)
    assert found["in_band"] == 0.5
    assert found["reason"] == "1 of 5 rows: unknown"


def test_nothing_predicted_is_null_with_the_reason() -> None:
    found = errors(np.array([np.nan, 0.0]), np.ones(2), None, ["no rate", None])
    assert found.pop("count") == 0
    assert found.pop("reason") == "2 of 2 rows: no rate"
    assert set(found.values()) == {None}


@pytest.mark.usefixtures("fake")
def test_bound_and_estimate_of_rows(tmp_path: Path) -> None:
    """The fake model: 5 us and bytes at half the bandwidth; the bound is bytes at all of it."""
    rows = read_table(transposes(tmp_path)).rows
    found = predict(rows, toy(tmp_path, SET))
    for i, row in enumerate(rows):
        size = 4 * row.fields["rows"] * row.fields["cols"]
        assert found.bound_s[i] == pytest.approx(size / HBM)
        assert found.estimate_s[i] == pytest.approx(5e-6 + 2 * size / HBM)
        assert found.regime[i] == ("launch" if size / HBM < 5e-6 else "memory")
        launch = found.estimate_s[i] <= 2 * 5e-6
        assert found.low_s[i] == pytest.approx(found.estimate_s[i] * (0.5 if launch else 0.9))
        assert found.high_s[i] == pytest.approx(found.estimate_s[i] * (2 if launch else 1.1))


@pytest.mark.usefixtures("fake")
def test_a_table_of_arrays_says_what_single_rows_say(tmp_path: Path) -> None:
    hardware = toy(tmp_path, SET, set_text("fake.softmax.torch.bf16", fixed="2e-6", share="0.9"))
    rows = [*read_table(transposes(tmp_path)).rows, *read_table(softmaxes(tmp_path)).rows]
    assert len(list(batches(rows))) == 2
    together = predict(rows, hardware)
    for i, row in enumerate(rows):
        alone: Predicted = predict([row], hardware)
        assert (alone.estimate_s[0], alone.bound_s[0], alone.regime[0]) == (together.estimate_s[i], together.bound_s[i], together.regime[i])


@pytest.mark.usefixtures("fake")
def test_rows_that_ask_for_other_sets_are_batched_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may choose its set by the size of a kernel."""

    class Sized(FakeModel):
        def sets(self, kernel: object, library: str) -> tuple[str, ...]:
            return ("fake.wide",) if kernel.cols > 1000 else ("fake.narrow",)  # type: ignore[attr-defined]

    monkeypatch.setitem(MODELS, "Stream", Sized())
    rows = read_table(write_table(tmp_path, "transpose.csv", ["8,512,bf16,1", "8,2048,bf16,1", "8,4096,bf16,1"])).rows
    assert [b.at for b in batches(rows)] == [(0,), (1, 2)]


@pytest.mark.usefixtures("fake")
def test_groups_and_worst_rows(tmp_path: Path) -> None:
    one, two = transposes(tmp_path), transposes(tmp_path, name="transpose_far.csv", factor=3)
    found = accuracy([read_table(one), read_table(two)], toy(tmp_path, SET))
    assert [(g.file, g.operator, g.regime) for g in found.groups] == [
        (file, "transpose", regime) for file in (one, two) for regime in (None, "launch", "memory")
    ]
    for whole, *parts in (found.groups[:3], found.groups[3:]):
        assert whole.rows == sum(p.rows for p in parts) == whole.estimate.count == whole.bound.count == 63
        assert whole.estimate.mape == pytest.approx(sum(p.estimate.mape * p.rows for p in parts) / 63)  # type: ignore[operator]
        assert whole.bound.in_band is None
    off = [abs(np.log(r.ratio)) for r in found.worst]
    assert len(off) == 10
    assert off == sorted(off, reverse=True)
    worst = found.worst[0]
    assert worst.file == two
    assert worst.ratio == pytest.approx(worst.estimated_s / worst.measured_s)  # type: ignore[operator]
    assert worst.terms["fixed"] == 5e-6
    assert worst.terms["memory"] == pytest.approx(worst.estimated_s - 5e-6)  # type: ignore[operator]
    assert [(u.name, u.device, u.prior) for u in worst.parameters] == [("fake.transpose.torch.bf16", "toy", False)]


@pytest.mark.usefixtures("fake")
def test_a_row_of_two_kernels_adds_their_terms(tmp_path: Path) -> None:
    hardware = toy(tmp_path, SET, set_text("fake.softmax.torch.bf16", fixed="2e-6", share="0.25"))
    found = accuracy([read_table(write_table(tmp_path, "softmax.csv", ["1024,1024,bf16,1"]))], hardware)
    size = 4 * 1024 * 1024
    (row,) = found.worst
    assert row.terms == pytest.approx({"fixed": 7e-6, "memory": size / HBM * (2 + 4), "compute": 0})
    assert row.estimated_s == pytest.approx(7e-6 + size / HBM * 6)


@pytest.mark.usefixtures("fake")
def test_rows_faster_than_the_bound_are_counted_and_listed(tmp_path: Path) -> None:
    path = write_table(tmp_path, "transpose.csv", ["1024,1024,bf16,2.2", "1024,1024,bf16,2.0"])
    found = accuracy([read_table(path)], toy(tmp_path, SET))
    assert pytest.approx(2.097e-6, rel=1e-3) == 4 * 1024 * 1024 / HBM
    assert found.groups[0].bound.faster_than_bound == 1
    assert [(r.line, r.regime) for r in found.faster_than_bound] == [(4, "launch")]


@pytest.mark.usefixtures("fake")
def test_without_parameters_the_bound_is_still_compared(tmp_path: Path) -> None:
    found = accuracy([read_table(transposes(tmp_path))], toy(tmp_path))
    assert found.groups[0].estimate.count == 0
    assert "carries no fitted parameters for fake.transpose.torch.bf16" in str(found.groups[0].estimate.reason)
    assert found.groups[0].bound.count == 63
    assert found.worst == ()


def test_a_dtype_that_the_device_lacks_is_a_reason(tmp_path: Path) -> None:
    path = write_table(tmp_path, "gemm.csv", ["8,8,8,fp8,1"], "m,n,k,dtype,time_us")
    found = accuracy([read_table(path)], toy(tmp_path))
    assert "no matrix rate for fp8" in str(found.groups[0].bound.reason)
    assert (found.groups[0].bound.count, found.groups[0].bound.faster_than_bound) == (0, 0)


@pytest.mark.usefixtures("fake")
def test_parts_are_of_the_same_rows_as_a_fit(tmp_path: Path) -> None:
    tables = [read_table(transposes(tmp_path))]
    hardware = toy(tmp_path, SET)
    fit, held = (accuracy(tables, hardware, part).groups[0].rows for part in ("fit", "held-out"))
    assert fit + held == 63
    assert fit > held > 0


@pytest.mark.usefixtures("fake")
def test_eager_rows_hold_the_cost_of_launching(tmp_path: Path) -> None:
    """The host of the profile issues a kernel in 50 us, so that small ones take that long."""
    numbers = ", ".join(f"{p.name}: {'1.0e-6' if p.name in ('gap_s', 'chain_s') else '5.0e-5'}" for p in MODELS["Host"].parameters)
    host = set_text("host.torch").split("    parameters")[0] + f"    parameters: {{{numbers}}}\n"
    path = write_table(tmp_path, "transpose.csv", ["64,64,bf16,50", "4096,8192,bf16,200"])
    found = predict(read_table(path, execution="eager").rows, toy(tmp_path, SET, host))
    assert list(found.estimate_s) == pytest.approx([5e-5, seconds(4096, 8192, 5e-6, 0.5) + 1e-6])
