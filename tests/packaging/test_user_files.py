"""Where a user's own profiles and workloads are found: by path, in the project, in the configuration folder."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.errors import UsageError
from roofline.spec.find import find_hardware, find_workload, hardware_names, shipped

PROFILE = """schema: 1
name: NAME
extends: h100-sxm
product: a card of ours
sources: {ours: measured on our own card with a copy kernel}
levels: {hbm: {bandwidth: {value: 1 TB/s, kind: measured, source: ours}}}
"""
WORKLOAD = "schema: 1\nname: ours\ndtype: bf16\nsteps:\n  - {op: gemm, m: 1, n: 8, k: 8}\n"


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """A working directory and a home without files."""
    for name in ("ROOFLINE_CONFIG_DIR", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, variable in (("work", None), ("home", "HOME")):
        (tmp_path / name).mkdir()
        if variable:
            monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.chdir(tmp_path / "work")


def put(folder, name="our-card"):
    """A profile of ours in a folder of profiles."""
    folder.mkdir(parents=True)
    (folder / f"{name}.yaml").write_text(PROFILE.replace("NAME", name), encoding="utf-8")


def bandwidth(name):
    """HBM bandwidth as `hardware show` gives it."""
    result = CliRunner().invoke(app, ["hardware", "show", name, "--format", "json"])
    assert result.exit_code == 0, result.output
    return '"value": 1000000000000,' in result.output


PLACES = {
    "the working directory": ("work/hardware_specs", {}),
    "a vendor's folder in it": ("work/hardware_specs/ours", {}),
    "the configured folder": ("settings/hardware_specs", {"ROOFLINE_CONFIG_DIR": "settings"}),
    "XDG_CONFIG_HOME": ("xdg/roofline/hardware_specs", {"XDG_CONFIG_HOME": "xdg"}),
    "the home directory": ("home/.config/roofline/hardware_specs", {}),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_profile_is_found_by_name(place, tmp_path, monkeypatch):
    """And stands in the list beside the shipped ones."""
    folder, environment = PLACES[place]
    with pytest.raises(UsageError, match="unknown hardware profile 'our-card'"):
        find_hardware("our-card")
    monkeypatch.chdir(tmp_path)  # names are looked up anew from another folder
    for key, value in environment.items():
        monkeypatch.setenv(key, str(tmp_path / value))
    put(tmp_path / folder)
    if folder.startswith("work"):
        monkeypatch.chdir(tmp_path / "work")
        find_hardware_cache_clear()
    assert bandwidth("our-card")
    assert {"our-card", "h100-sxm"} <= set(hardware_names())


def find_hardware_cache_clear():
    """A process looks at its folders once; these tests change them meanwhile."""
    from roofline.spec import find

    find._listing.cache_clear()


def test_a_profile_is_found_by_path(tmp_path):
    """Relative or absolute."""
    put(tmp_path / "work" / "cards")
    assert bandwidth("cards/our-card.yaml")
    assert bandwidth(str(tmp_path / "work" / "cards" / "our-card.yaml"))


def test_the_nearest_place_wins(tmp_path):
    """A project may replace a shipped profile by one of that name."""
    put(tmp_path / "work" / "hardware_specs", "h200-sxm")
    find_hardware_cache_clear()
    assert bandwidth("h200-sxm")


def test_a_workload_is_found_by_name(tmp_path):
    """In the working directory before the shipped ones."""
    assert find_workload("decode_gemv").is_relative_to(shipped("workloads"))
    folder = tmp_path / "work" / "workloads"
    folder.mkdir()
    (folder / "decode_gemv.yaml").write_text(WORKLOAD, encoding="utf-8")
    find_hardware_cache_clear()
    assert find_workload("decode_gemv") == folder / "decode_gemv.yaml"
    assert "ours" in CliRunner().invoke(app, ["analyze", "decode_gemv"]).output
