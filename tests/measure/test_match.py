"""A device's profile by its name, or an error that names candidates; never a default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roofline.errors import MissingCapabilityError
from roofline.measure.base import DeviceInfo
from roofline.measure.match import profile_for
from roofline.spec import find
from roofline.spec.find import hardware_names
from roofline.spec.hardware import load_hardware


def device(name: str, processors: int | None = None, kind: str = "cuda", **facts: str) -> DeviceInfo:
    return DeviceInfo(kind=kind, name=name, uuid=None, memory_bytes=None, l2_bytes=None, processors=processors, facts=facts)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with profiles of its own."""
    monkeypatch.chdir(tmp_path)
    find._listing.cache_clear()
    (tmp_path / "hardware_specs").mkdir()
    yield tmp_path / "hardware_specs"  # type: ignore[misc]
    find._listing.cache_clear()


def calibrated(name: str, pattern: str) -> str:
    text = (find.shipped("hardware_specs") / "nvidia/h200-sxm.yaml").read_text()
    return text.replace("name: h200-sxm", f"name: {name}").replace('match: ["NVIDIA H200"]', f'match: ["{pattern}"]')


@pytest.mark.parametrize(
    ("name", "processors", "profile"),
    [
        ("NVIDIA H200", 132, "h200-sxm"),
        ("NVIDIA H100 80GB HBM3", 132, "h100-sxm"),
        ("NVIDIA H100 PCIe", 114, "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", 108, "a100-sxm"),
        ("A100-SXM4-40GB", 108, "a100-sxm-40gb"),
        ("NVIDIA GH200 480GB", 132, "gh200"),
        ("Tesla T4", 40, "t4"),
    ],
)
def test_the_names_that_drivers_report_find_their_profile(name: str, processors: int, profile: str) -> None:
    assert profile_for(device(name, processors)).name == profile


def test_no_name_fits_two_shipped_profiles() -> None:
    patterns = [(name, pattern) for name in hardware_names() for pattern in load_hardware(name).match]
    assert len(patterns) > 20
    for name, pattern in patterns:
        example = re.sub(r"\(([^|)]*)[^)]*\)\??", r"\1", pattern)  # the first of each alternative
        assert {other for other, p in patterns if re.fullmatch(p, example)} == {name}


@pytest.mark.parametrize("name", ["NVIDIA H20", "NVIDIA H2000", "xNVIDIA H200", "NVIDIA H200 NVL", "nvidia h200"])
def test_a_name_that_is_only_like_it_is_no_match_and_the_nearest_is_offered(name: str) -> None:
    with pytest.raises(MissingCapabilityError, match=r"no profile matches .*h200-sxm.*choose one with -H") as caught:
        profile_for(device(name))
    assert caught.value.exit_code == 3


def test_a_name_like_none_says_where_to_look() -> None:
    with pytest.raises(MissingCapabilityError, match="roofline hardware list"):
        profile_for(device("Zzyzx 1"))


def test_a_slice_has_no_data_sheet() -> None:
    for info in (device("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16), device("NVIDIA Hx", mig="slice")):
        with pytest.raises(MissingCapabilityError, match=r"slice of a GPU.*calibrate"):
            profile_for(info)


def test_the_right_name_with_other_processors_is_refused() -> None:
    with pytest.raises(MissingCapabilityError, match="has 60 processors, but profile h200-sxm describes 132"):
        profile_for(device("NVIDIA H200", 60))


def test_a_cpu_needs_a_profile_that_was_named_or_measured() -> None:
    with pytest.raises(MissingCapabilityError, match=r"roofline calibrate --device cpu -o FILE.*-H"):
        profile_for(device("Some CPU", 8, kind="cpu"))


def test_a_profile_of_the_users_own_comes_before_the_shipped_one(own: Path) -> None:
    (own / "mine.yaml").write_text(calibrated("mine", "NVIDIA H200"))
    assert profile_for(device("NVIDIA H200", 132)).name == "mine"


def test_two_of_the_users_own_are_a_question(own: Path) -> None:
    for name in ("one", "two"):
        (own / f"{name}.yaml").write_text(calibrated(name, "NVIDIA H200"))
    with pytest.raises(MissingCapabilityError, match="several profiles match 'NVIDIA H200': one, two; choose one with -H"):
        profile_for(device("NVIDIA H200", 132))


def test_a_calibrated_cpu_is_found_by_its_name(own: Path) -> None:
    (own / "cpu.yaml").write_text(calibrated("cpu", "Some CPU"))
    assert profile_for(device("Some CPU", 8, kind="cpu")).name == "cpu"


def test_a_broken_file_hides_no_other_profile_and_is_named_when_none_matches(own: Path) -> None:
    (own / "broken.yaml").write_text("name: [")
    assert profile_for(device("NVIDIA H200", 132)).name == "h200-sxm"
    with pytest.raises(MissingCapabilityError, match="not considered: broken"):
        profile_for(device("Zzyzx 1"))
