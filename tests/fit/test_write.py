"""Fitted sets as a profile: a new one that extends, or the old one with nothing else changed; both read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from roofline.errors import RooflineError, UsageError
from roofline.fit.fitting import FittedSet
from roofline.fit.tables import Table
from roofline.fit.write import fitted_profile
from roofline.hardware.profile import Hardware
from roofline.spec.fitted import complete
from roofline.spec.hardware import load_hardware
from tests.fit.fakes import PROFILE, FakeModel, set_text, toy

pytestmark = pytest.mark.usefixtures("fake")

TABLE = Table(file="some/gemm_vllm.csv", rows=(), skipped=0, provenance=("note: x", "source: somebody's tables"))
VALUES = {"fixed_s": 1.23456789e-6, "share": 1 / 3, "late_s": 0.0}
NAME = "fake.transpose.torch.bf16"


def fitted(name: str = NAME, **changes: object) -> FittedSet:
    found = {"values": VALUES, "rows": 60, "held": 40, "error": 0.05, "held_error": 0.06, "band": {"memory": (0.9, 1.125)}, "belief": "x"}
    return FittedSet(name=name, **{**found, **changes})  # type: ignore[arg-type]


def written(folder: Path, hardware: Hardware, name: str, *sets: FittedSet, date: str = "2026-11-29") -> Hardware:
    path = folder / f"{name}.yaml"
    path.write_text(fitted_profile(hardware, sets or (fitted(),), [TABLE], str(path), date), encoding="utf-8")
    found = load_hardware(str(path))
    complete(found.fitted)
    return found


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hardware:
    """The toy, found by its name."""
    (tmp_path / "hardware_specs").mkdir()
    monkeypatch.chdir(tmp_path)
    toy(tmp_path / "hardware_specs", set_text("fake.any.torch.bf16"))
    return load_hardware("toy")


def test_a_new_profile_extends_the_old_one(known: Hardware, tmp_path: Path) -> None:
    found = written(tmp_path, known, "mine")
    assert (found.name, found.product) == ("mine", "Acme Toy")
    new, old = found.fitted[NAME], found.fitted["fake.any.torch.bf16"]
    assert (new.device, old.device) == ("mine", "toy")
    assert dict(new.values) == pytest.approx(VALUES, rel=1e-5)
    assert (new.rows, new.date, new.kind, dict(new.band)) == (60, "2026-11-29", "fitted", {"memory": (0.9, 1.125)})
    assert new.note == "40 rows held out, off by 6.0% on average"
    assert "gemm_vllm.csv (0 rows; source: somebody's tables)" in found.sources[new.source]


def test_the_old_profile_keeps_all_else(tmp_path: Path) -> None:
    hardware = toy(tmp_path, "  # said beside a set\n", set_text("fake.any.torch.bf16"), set_text(NAME))
    found = written(tmp_path, hardware, "toy")
    text = (tmp_path / "toy.yaml").read_text()
    assert "# a comment that stays" in text
    assert [line for line in PROFILE.splitlines() if line not in text.splitlines()] == []
    assert set_text("fake.any.torch.bf16") in text
    assert (found.fitted[NAME].rows, found.fitted["fake.any.torch.bf16"].rows) == (60, 7)
    assert text.count(f"{NAME}:") == text.count("fitted:\n") == 1


def test_a_source_lasts_as_long_as_its_sets(tmp_path: Path) -> None:
    hardware = written(tmp_path, toy(tmp_path), "toy", fitted(), fitted("fake.softmax.torch.bf16"))
    again = written(tmp_path, hardware, "toy", fitted())
    assert {again.fitted[NAME].source, again.fitted["fake.softmax.torch.bf16"].source} == {"fit-2026-11-29-2", "fit-2026-11-29"}
    last = written(tmp_path, again, "toy", fitted("fake.softmax.torch.bf16"), date="2026-12-01")
    assert set(last.sources) == {"sheet", "fit-2026-11-29-2", "fit-2026-12-01"}


def test_rounding_never_leaves_the_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third is above 0.333333, which six digits make of it."""
    fixed, share, late = FakeModel.parameters
    monkeypatch.setattr(FakeModel, "parameters", (fixed, replace(share, low=1 / 3), late))
    assert written(tmp_path, toy(tmp_path), "toy", fitted()).fitted[NAME].values["share"] == 1 / 3


def test_numbers_are_numbers_to_every_reader_of_yaml(tmp_path: Path) -> None:
    written(tmp_path, toy(tmp_path), "toy", fitted(values={**VALUES, "fixed_s": 3e-6}))
    found = yaml.safe_load((tmp_path / "toy.yaml").read_text())["fitted"][NAME]["parameters"]
    assert found == pytest.approx({**VALUES, "fixed_s": 3e-6}, rel=1e-5)


def test_a_profile_without_a_name_to_find_cannot_be_extended(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only a profile that is found by its name can be extended"):
        written(tmp_path, toy(tmp_path), "mine")


def test_sets_in_braces_are_not_rewritten(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(PROFILE + "fitted: {x-mine: {}, fake.any: {kind: fitted}}\n")
    with pytest.raises(RooflineError, match="not in lines of their own"):
        fitted_profile(load_hardware(str(tmp_path / "toy.yaml")), [fitted()], [TABLE], "toy.yaml", "2026-11-29")
