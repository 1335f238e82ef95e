"""Fits: known parameters are found again, few rows leave beliefs standing, single rows far off pull little."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.errors import MissingCapabilityError
from roofline.fit.band import bands
from roofline.fit.fitting import Fitting, fit
from roofline.fit.solve import FITTED_TIGHTNESS, Objective, components, items_of, space_of
from roofline.fit.split import SHARES, divided, part_of, part_of_text
from roofline.fit.tables import Row, read_table
from roofline.predict.estimate.base import device_of
from tests.fit.fakes import OTHER, SHAPES, TRUTH, FakeModel, seconds, set_text, softmaxes, toy, transposes, write_table

TRANSPOSE, SOFTMAX, GENERAL = "fake.transpose.torch.bf16", "fake.softmax.torch.bf16", "fake.any.torch.bf16"
pytestmark = pytest.mark.usefixtures("fake")


def rows_of(*paths: str) -> list[Row]:
    return [row for path in paths for row in read_table(path).rows]


def by_name(found: Fitting) -> dict[str, Any]:
    return {s.name: s for s in found.sets}


def test_parameters_are_found_again(tmp_path: Path) -> None:
    """From a fixed cost of 5 us and half the bandwidth to the 8 us and 0.8 that made the times."""
    found = by_name(fit(rows_of(transposes(tmp_path)), toy(tmp_path)))[TRANSPOSE]
    assert found.name == TRANSPOSE
    assert (found.values["fixed_s"], found.values["share"]) == pytest.approx(TRUTH, rel=2e-3)
    assert found.rows + found.held == len(SHAPES)
    assert found.error < 1e-3
    assert found.held_error is not None
    assert found.held_error < 1e-3


def test_sets_that_occur_together_are_fitted_together(tmp_path: Path) -> None:
    """A softmax is a transposition and another kernel; both tables tell of the one set."""
    found = by_name(fit(rows_of(transposes(tmp_path), softmaxes(tmp_path)), toy(tmp_path)))
    assert found.keys() == {TRANSPOSE, SOFTMAX, GENERAL}
    transpose, softmax = (found[f"fake.{kind}.torch.bf16"].values for kind in ("transpose", "softmax"))
    assert (transpose["fixed_s"], transpose["share"]) == pytest.approx(TRUTH, rel=5e-3)
    assert (softmax["fixed_s"], softmax["share"]) == pytest.approx(OTHER, rel=1e-2)
    assert found["fake.transpose.torch.bf16"].rows > found["fake.softmax.torch.bf16"].rows


def test_sets_that_share_no_row_are_components_of_their_own(tmp_path: Path) -> None:
    items = items_of(rows_of(transposes(tmp_path), softmaxes(tmp_path), transposes(tmp_path, name="transpose_vllm.csv")))
    names = sorted(sorted({n for i in c for n in i.names}) for c in components(items))
    assert names == [["fake.softmax.torch.bf16", "fake.transpose.torch.bf16"], ["fake.transpose.engine.bf16"]]


def test_few_rows_leave_the_belief_standing(tmp_path: Path) -> None:
    """What rows do not tell stays where it was thought to be: launches alone say nothing of the bandwidth."""
    small = [(2, c) for c in range(2, 40, 2)]
    found = by_name(fit(rows_of(transposes(tmp_path, small)), toy(tmp_path)))[TRANSPOSE]
    assert found.values["fixed_s"] == pytest.approx(TRUTH[0], rel=0.01)
    assert found.values["share"] == pytest.approx(0.5, rel=1e-3)
    assert found.values["late_s"] == pytest.approx(0, abs=1e-9)


def test_a_parameter_that_may_be_nothing_is_fitted_too(tmp_path: Path) -> None:
    shapes = [*SHAPES, *((r, 10000) for r in range(8, 168, 4))]
    late = [f"{r},{c},bf16,{(seconds(r, c, *TRUTH) + (3e-5 if c > 9000 else 0)) * 1e6}" for r, c in shapes]
    found = by_name(fit(rows_of(write_table(tmp_path, "transpose.csv", late)), toy(tmp_path)))[TRANSPOSE]
    assert found.values["late_s"] == pytest.approx(3e-5, rel=0.02)


def test_a_row_far_off_pulls_little(tmp_path: Path) -> None:
    rows = rows_of(transposes(tmp_path))
    far = [(64, 8191), (65, 8191), (66, 8191)]
    rows += rows_of(transposes(tmp_path, far, name="transpose_far.csv", factor=20))
    found = by_name(fit(rows, toy(tmp_path)))[TRANSPOSE]
    assert (found.values["fixed_s"], found.values["share"]) == pytest.approx(TRUTH, rel=0.05)


def test_too_few_rows_of_a_sort_fit_a_general_set_and_fewer_none(tmp_path: Path) -> None:
    """A row of a softmax asks for two sets; what all the rows of a sort cannot tell, all sorts together may."""
    rows = divided(rows_of(softmaxes(tmp_path)))[0]
    found = fit(rows[:1], toy(tmp_path))
    assert found.sets == []
    assert found.skipped == {
        SOFTMAX: f"1 of the rows to fit, fewer than 8: {GENERAL} serves",
        TRANSPOSE: f"1 of the rows to fit, fewer than 8: {GENERAL} serves",
        GENERAL: "1 of the rows to fit, fewer than 2: a relative or a prior serves",
    }
    assert [(s.name, s.rows) for s in fit(rows[:2], toy(tmp_path)).sets] == [(GENERAL, 2)]
    (general,) = fit(rows[:7], toy(tmp_path)).sets
    assert (general.name, general.rows) == (GENERAL, 7)


def test_rows_that_are_too_few_for_their_sort_still_tell_a_general_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of one sort, for which no set is fitted, is among those of the set for all sorts."""
    monkeypatch.setattr(
        FakeModel, "sets", lambda self, k, library: (f"fake.{k.kind}.torch.b", f"fake.{k.kind}.torch.any", "fake.any.torch.any")
    )
    many, few = rows_of(transposes(tmp_path)), divided(rows_of(softmaxes(tmp_path)))[0][:1]
    found = by_name(fit([*many, *few], toy(tmp_path)))
    assert found.keys() == {"fake.transpose.torch.b", "fake.transpose.torch.any", "fake.any.torch.any"}
    assert found["fake.any.torch.any"].rows == found["fake.transpose.torch.b"].rows + 1


def test_a_set_of_all_formats_is_fitted_from_its_belief_however_few_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sort whose formats share a set keeps its few rows, which a set for all sorts would drown; one format's gives them up."""
    rows = [r for r in divided(rows_of(transposes(tmp_path)))[0] if r.fields["rows"] == 64][:4]
    of_a_sort, of_all = "fake.transpose.torch.any", "fake.any.torch.any"
    monkeypatch.setattr(FakeModel, "sets", lambda self, kernel, library: (of_a_sort, of_all))
    found = fit(rows, toy(tmp_path))
    (kept,) = found.sets
    assert (kept.name, kept.rows, found.skipped) == (of_a_sort, 4, {})
    assert kept.values["fixed_s"] == pytest.approx(TRUTH[0], rel=0.1)
    assert kept.values["share"] == pytest.approx(0.5, rel=0.1)
    monkeypatch.setattr(FakeModel, "sets", lambda self, kernel, library: ("fake.transpose.torch.bf16", of_all))
    assert [s.name for s in fit(rows, toy(tmp_path)).sets] == [of_all]


def test_without_a_general_set_few_rows_are_fitted_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeModel, "sets", lambda self, kernel, library: (f"fake.{kernel.kind}", "fake.other"))
    rows = divided(rows_of(softmaxes(tmp_path)))[0]
    assert [s.rows for s in fit(rows[:2], toy(tmp_path)).sets] == [2, 2]
    found = fit(rows[:1], toy(tmp_path))
    assert found.sets == []
    assert found.skipped == dict.fromkeys(
        ("fake.softmax", "fake.transpose"), "1 of the rows to fit, fewer than 2: a relative or a prior serves"
    )


def test_a_general_set_serves_what_no_table_tells(tmp_path: Path) -> None:
    """Fitted to all rows that it may serve, beside the sets of single sorts, and so less exact than they are."""
    found = by_name(fit(rows_of(transposes(tmp_path), softmaxes(tmp_path)), toy(tmp_path)))
    assert found[GENERAL].rows == found[TRANSPOSE].rows
    assert found[GENERAL].error > 10 * found[TRANSPOSE].error
    assert found[GENERAL].band["memory"][1] > found[TRANSPOSE].band["memory"][1]


def test_the_general_set_of_another_library_is_not_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FakeModel, "sets", lambda self, kernel, library: (f"fake.{kernel.kind}.{library}", "fake.any.torch", "fake.any.engine")
    )
    found = fit(rows_of(transposes(tmp_path, name="transpose_vllm.csv")), toy(tmp_path))
    assert by_name(found).keys() == {"fake.transpose.engine", "fake.any.engine"}


def test_a_set_of_which_no_row_is_fitted_is_named(tmp_path: Path) -> None:
    held = divided(rows_of(transposes(tmp_path)))[1]
    skipped = fit(held, toy(tmp_path)).skipped
    assert "0 of the rows to fit" in skipped[TRANSPOSE]
    assert "none of the rows to fit" in skipped[GENERAL]


def test_eager_rows_are_not_fitted(tmp_path: Path) -> None:
    found = fit(list(read_table(transposes(tmp_path), execution="eager").rows), toy(tmp_path))
    assert found.skipped == {"eager rows": "63 rows hold the cost of launching from Python"}


def test_the_prior_is_that_of_the_profile_when_asked_for(tmp_path: Path) -> None:
    small = rows_of(transposes(tmp_path, [(2, c) for c in range(2, 40, 2)]))
    hardware = toy(tmp_path, set_text("fake.any.torch.bf16", share="0.7"))
    plain, prior = (by_name(fit(small, hardware, from_prior=asked))[TRANSPOSE] for asked in (False, True))
    assert (plain.belief, prior.belief) == ("the model", f"{GENERAL} of toy")
    assert plain.values["share"] == pytest.approx(0.5, rel=1e-3)
    assert prior.values["share"] == pytest.approx(0.7, rel=1e-3)


def test_what_was_fitted_before_is_held_tighter_than_a_guess(tmp_path: Path) -> None:
    """The same rows pull a set less far from the profile's own numbers than from the model's, by the share of its spread."""
    free, held = (space_of(TRANSPOSE, FakeModel(), {}, tightness) for tightness in (1.0, FITTED_TIGHTNESS))
    assert held.spread == pytest.approx(FITTED_TIGHTNESS * free.spread)
    one = rows_of(transposes(tmp_path, [(2, c) for c in range(2, 40, 2)]))
    hardware = toy(tmp_path, set_text(TRANSPOSE, share="0.9"))
    kept = by_name(fit(one, hardware, from_prior=True))[TRANSPOSE].values["share"]
    assert by_name(fit(one, hardware))[TRANSPOSE].values["share"] < kept <= 0.9


def test_the_derivatives_are_those_of_the_residuals(tmp_path: Path) -> None:
    """Held against differences of the residuals themselves, with two sets in a row."""
    rows = rows_of(transposes(tmp_path), softmaxes(tmp_path))
    measured = np.array([r.time_s for r in rows])
    spaces = [space_of(f"fake.{k}.torch.bf16", FakeModel(), {}) for k in ("softmax", "transpose")]
    objective = Objective(items_of(rows), measured, spaces, device_of(toy(tmp_path)))
    x = objective.start + 0.1 * objective.spread
    found = objective.jacobian(x)
    for j in range(len(x)):
        moved = x.copy()
        moved[j] += 1e-6
        expected = (objective.residuals(moved) - objective.residuals(x)) / 1e-6
        assert found[:, j] == pytest.approx(expected, rel=1e-3, abs=1e-2)


def test_without_scipy_the_fix_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingCapabilityError, match=r"pip install 'roofline\[fit\]'"):
        fit(rows_of(transposes(tmp_path)), toy(tmp_path))


# --------------------------------------------------------------------------- split and band
def test_the_split_has_its_shares_and_knows_neither_order_nor_file(tmp_path: Path) -> None:
    texts = [f"gemm forward dtype=bf16 k={k} m={m} n=64" for k in range(100) for m in range(30)]
    parts = [part_of_text(t) for t in texts]
    for part, share in SHARES.items():
        assert parts.count(part) / len(parts) == pytest.approx(share, abs=0.03)
    one, two = (
        rows_of(transposes(tmp_path, shapes, name=name)) for shapes, name in ((SHAPES, "transpose.csv"), (SHAPES[::-1], "transpose_b.csv"))
    )
    assert [part_of(r) for r in one] == [part_of(r) for r in two][::-1]
    assert [part_of_text(t) for t in texts[:8]] == ["fit", "fit", "fit", "fit", "fit", "select", "select", "fit"]


def test_a_band_holds_nine_of_ten_new_rows() -> None:
    """Expected coverage of a new row is 90 % even for few; on average over many tables."""
    random = np.random.default_rng(7)
    for count in (20, 200):
        inside = []
        for _ in range(300):
            low, high = bands(random.normal(0.02, 0.08, count), np.full(count, "memory"))["memory"]
            new = np.exp(random.normal(0.02, 0.08, 50))
            inside.append(((low <= new) & (new <= high)).mean())
        assert np.mean(inside) == pytest.approx(0.9, abs=0.012)


def test_few_rows_have_a_wide_band_and_none_has_no_band() -> None:
    assert bands(np.array([0.1, -0.1]), np.array(["memory"] * 2)) == {}
    found = bands(np.array([0.1, -0.1, 0.0]), np.array(["memory"] * 3))
    assert found["memory"] == found["launch"]
    assert np.log(found["memory"][1]) == pytest.approx(2.91999 * 0.1 * (4 / 3) ** 0.5, rel=1e-4)
    assert bands(np.zeros(40), np.array(["memory"] * 40))["memory"] == pytest.approx((np.exp(-0.02), np.exp(0.02)))


def test_a_regime_with_rows_enough_has_a_band_of_its_own() -> None:
    logs = np.concatenate([np.linspace(-0.1, 0.1, 40), np.linspace(-0.5, 0.5, 40), [0.0]])
    found = bands(logs, np.array(["memory"] * 40 + ["compute"] * 40 + ["launch"]))
    assert found["memory"][1] < found["launch"][1] < found["compute"][1]
