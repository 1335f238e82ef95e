"""Hardware profiles to `Hardware`: figures with their kind and source, formulas, `extends`, and what is refused where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.errors import InputError, UsageError
from roofline.hardware.profile import Absent, Figure, Hardware
from roofline.report.published import schema_of
from roofline.spec import find
from roofline.spec.find import hardware_names, shipped
from roofline.spec.hardware import load_hardware

TEXT = """\
schema: 1
name: toy
vendor: acme
product: Acme Toy
architecture: first
match: ["Acme Toy"]
sources: {sheet: the data sheet}
constants: {lanes: 64}
processors: {label: SM, count: {value: 100, kind: datasheet, source: sheet}}
clocks: {peak: {value: 1 GHz, kind: datasheet, source: sheet}}
engines:
  tensor: {bf16: {value: 100 TFLOP/s, per_clock: 1000, kind: datasheet, source: sheet}}
  vector: {fp32: {formula: 2 * lanes * processors * clock_peak, kind: derived, source: sheet}}
  sfu: {absent: not published}
levels:
  register: {scope: processor, size: {value: 256 KiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  smem: {scope: processor, size: {value: 128 KiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  l2: {scope: device, size: {value: 32 MiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  hbm: {scope: device, size: {value: 64 GB, kind: datasheet, source: sheet}, bandwidth: {value: 2 TB/s, kind: measured, source: sheet}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project whose ``hardware_specs`` is looked at first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "hardware_specs").mkdir()
    find._listing.cache_clear()
    return tmp_path


def load(home: Path, text: str, name: str = "h.yaml") -> Hardware:
    (home / name).write_text(text, encoding="utf-8")
    find._listing.cache_clear()
    return load_hardware(f"./{name}")


def refused(home: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(home, text)
    return [f"{p.line}:{p.column} {p.message}" for p in caught.value.problems]


def test_a_profile_is_read_in_si_units_with_kind_and_source(home: Path) -> None:
    found = load(home, TEXT)
    assert (found.name, found.vendor, found.processor_label) == ("toy", "acme", "SM")
    assert found.tensor["bf16"] == Figure(1e14, "FLOP/s", "datasheet", "sheet", None, None, 1000)
    assert found.vector["fp32"].value == 2 * 64 * 100 * 1e9  # type: ignore[union-attr]
    assert found.vector["fp32"].formula == "2 * lanes * processors * clock_peak"  # type: ignore[union-attr]
    assert found.sfu == Absent("not published")
    assert found.levels["hbm"].bandwidth == Figure(2e12, "B/s", "measured", "sheet")
    assert found.levels["smem"].size.value == 128 * 1024  # type: ignore[union-attr]


def test_a_derived_figure_follows_the_numbers_of_the_profile_that_extends(home: Path) -> None:
    (home / "hardware_specs" / "toy.yaml").write_text(TEXT, encoding="utf-8")
    child = "schema: 1\nname: child\nextends: toy\nprocessors: {count: {value: 50, kind: datasheet, source: sheet}}\n"
    child += "engines: {tensor: {bf16: {value: 50 TFLOP/s, per_clock: 1000, kind: datasheet, source: sheet}}}\n"
    found = load(home, child)
    assert found.vector["fp32"].value == 2 * 64 * 50 * 1e9  # type: ignore[union-attr]
    assert found.product == "Acme Toy"
    assert found.tensor["bf16"].value == 5e13  # type: ignore[union-attr]


def test_a_figure_replaces_a_figure_whole(home: Path) -> None:
    """Else an inherited kind or source would vouch for a number that it never gave."""
    (home / "hardware_specs" / "toy.yaml").write_text(TEXT, encoding="utf-8")
    child = "schema: 1\nname: child\nextends: toy\nlevels: {hbm: {bandwidth: {value: 3 TB/s}}}\n"
    assert refused(home, child) == ["4:27 a figure lacks 'kind', 'source'"]


def test_an_error_in_the_parent_is_shown_in_the_parent(home: Path) -> None:
    (home / "hardware_specs" / "toy.yaml").write_text(TEXT.replace("2 TB/s", "2 TB"), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(home, "schema: 1\nname: child\nextends: toy\n")
    (problem,) = caught.value.problems
    assert Path(problem.path).name == "toy.yaml"
    assert problem.line == 19


BANDWIDTH = "value: 2 TB/s"
REFUSED = [
    (BANDWIDTH, "value: 0 TB/s", "19:97 '0 TB/s' must be more than 0"),
    (BANDWIDTH, "value: -1 TB/s", "19:97 '-1 TB/s' must be more than 0"),
    (BANDWIDTH, "value: nan TB/s", "19:97 'nan TB/s' is not finite"),
    (BANDWIDTH, "value: 2e12", "19:97 '2e12' has no unit"),
    (BANDWIDTH, "value: 1e200 B/s", "19:89 1e+200 in SI units is out of range"),
    (BANDWIDTH, "formula: 2 * 10 ** 12", "19:119 unknown value 'measured'; known: derived"),
    ("kind: measured", "kind: derived", "19:111 unknown value 'derived'; known: datasheet, fitted, measured"),
    (
        "kind: measured, source: sheet",
        "kind: measured, source: sheat",
        "19:129 source 'sheat' is not a key of sources; did you mean 'sheet'",
    ),
    ("kind: measured, source: sheet", "kind: measured", "19:89 a figure lacks 'source'"),
    ("per_clock: 1000", "per_clock: 2000", "12:18 per_clock 2000 x 100 processors x 1 GHz = 2e+14, but the peak is 1e+14"),
    ("per_clock: 1000", "per_clock: 0", "12:50 0 is out of range: above 0"),
    ("lanes: 64", "lanes: x", "8:20 'x' is not a number"),
    ("value: 100,", "value: 0,", "9:40 0 is out of range: at least 1"),
    ("value: 100,", "value: 99.5,", "9:40 '99.5' is not a whole number"),
    ("{value: 100, kind: datasheet", "{formula: 7 / 2, kind: derived", "9:32 a count is a whole number, but this is 3.5"),
    ("2 * lanes", "0 * lanes", "13:28 the formula gives 0; a figure is above 0"),
    ("2 * lanes", "lanse", "13:28 unknown name 'lanse'; did you mean 'lanes'"),
    ("{absent: not published}", "{}", "14:8 expected a figure: {value: "),
    ("{absent: not published}", "{absent: a, value: 1 Gop/s}", "14:8 expected a figure: {value: "),
    ("  smem:", "  shared:", "16:3 levels lacks 'smem'"),
    ("tensor: {bf16", "tensor: {bf61", "12:12 unknown key 'bf61'; did you mean 'bf16'"),
    ("name: toy", "name: Toy", "2:7 a profile name has lower-case letters"),
    ('["Acme Toy"]', '["Acme ["]', "6:8 'Acme [' is not a regular expression"),
    ('["Acme Toy"]', '["' + "(" * 3000 + '"]', "6:8 '(((("),
    ("schema: 1", "schema: 2", "1:9 2 is not known here; write 1"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED, ids=lambda t: t[:30])
def test_a_bad_figure_is_refused_once_and_at_its_place(home: Path, old: str, new: str, said: str) -> None:
    """Once: a bad constant, count or clock is not repeated by the formulas that use it."""
    assert old in TEXT
    found = refused(home, TEXT.replace(old, new, 1))
    assert any(f.startswith(said) for f in found), found
    assert len(found) == (2 if "shared" in new else 1), found


@pytest.mark.parametrize("name", ["h100-smx", "../toy", "toy.yaml", "./toy", "/etc/passwd", "", "~/toy"])
def test_extends_takes_the_name_of_a_profile(home: Path, name: str) -> None:
    (found,) = refused(home, TEXT.replace("vendor: acme", f'extends: "{name}"\nvendor: acme'))
    assert found.startswith(f"3:10 extends: unknown profile '{name}'; ")


def test_a_misspelt_name_gives_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'h100-sxm'"):
        load_hardware("h100-smx")


def test_a_profile_of_the_project_comes_before_a_shipped_one(home: Path) -> None:
    (home / "hardware_specs" / "h100-sxm.yaml").write_text(TEXT.replace("name: toy", "name: h100-sxm"), encoding="utf-8")
    find._listing.cache_clear()
    assert load_hardware("h100-sxm").vendor == "acme"


@given(x=st.floats())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bandwidth_is_finite_and_above_zero(home: Path, x: float) -> None:
    (home / "h.yaml").write_text(TEXT.replace("2 TB/s", f"{x!r} B/s"), encoding="utf-8")
    if 1e-30 <= x <= 1e30:
        assert load_hardware("./h.yaml").levels["hbm"].bandwidth.value == x  # type: ignore[union-attr]
    else:
        with pytest.raises(InputError):
            load_hardware("./h.yaml")


FITS = jsonschema.Draft202012Validator(schema_of("hardware"))
SHIPPED = sorted(p for p in shipped("hardware_specs").rglob("*.yaml") if p.parent.name != "clusters")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_a_shipped_profile_is_read_under_its_name(path: Any) -> None:
    found = load_hardware(str(path))
    assert found.name == path.stem
    assert path.stem in hardware_names()


@pytest.mark.parametrize("path", [p for p in SHIPPED if "extends:" not in p.read_text(encoding="utf-8")], ids=lambda p: p.stem)
def test_a_shipped_profile_fits_the_json_schema(path: Any) -> None:
    FITS.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_profiles_are_shipped() -> None:
    assert len(SHIPPED) >= 30
