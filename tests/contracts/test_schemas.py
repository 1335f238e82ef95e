"""The published JSON Schemas: current, true for every shipped file, and strict where the reader is."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from roofline.errors import InputError
from roofline.report.published import SCHEMAS, schema_of
from roofline.report.store import to_json
from roofline.spec.find import shipped
from roofline.spec.hardware import load_hardware

DOCS = shipped("docs") / "schema"
PROFILES = sorted(p for p in shipped("hardware_specs").rglob("*.yaml") if p.parent.name != "clusters")
CLUSTERS = sorted((shipped("hardware_specs") / "clusters").glob("*.yaml"))
WORKLOADS = sorted(shipped("workloads").glob("*.yaml"))
HARDWARE = Draft202012Validator(schema_of("hardware"))
CLUSTER = Draft202012Validator(schema_of("cluster"))
WORKLOAD = Draft202012Validator(schema_of("workload"))


def content(path: Path) -> Any:
    """What an editor's YAML reader sees."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def refusals(validator: Draft202012Validator, value: Any) -> list[str]:
    """What is wrong, empty when nothing is."""
    return [e.message for e in validator.iter_errors(value)]


@pytest.mark.parametrize("what", SCHEMAS)
def test_the_committed_schema_is_current(what):
    """Write it again with `roofline schema WHAT -o docs/schema/WHAT.json`."""
    assert (DOCS / f"{what}.json").read_text(encoding="utf-8") == to_json(schema_of(what))


@pytest.mark.parametrize("what", SCHEMAS)
def test_the_schema_is_a_schema(what):
    """It says so itself, and nothing in it is misspelt."""
    Draft202012Validator.check_schema(schema_of(what))


@pytest.mark.parametrize("path", PROFILES, ids=lambda p: p.stem)
def test_shipped_profiles_are_valid(path):
    """Those that extend another leave out what they take from it."""
    assert refusals(HARDWARE, content(path)) == []


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda p: p.stem)
def test_shipped_clusters_are_valid(path):
    """Tiers, figures and what a cluster takes from another one."""
    assert refusals(CLUSTER, content(path)) == []


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda p: p.stem)
def test_shipped_workloads_are_valid(path):
    """Every step is one of one operator."""
    assert refusals(WORKLOAD, content(path)) == []


def test_workloads_are_shipped():
    """The folder is found."""
    assert WORKLOADS
    assert CLUSTERS


def changed(path: Path, keys: tuple[Any, ...], value: Any) -> Any:
    """The file with one value replaced, or with one key gone."""
    found = copy.deepcopy(content(path))
    inner = found
    for key in keys[:-1]:
        inner = inner[key]
    if value is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    return found


def profile(name: str) -> Path:
    """The file of a shipped profile."""
    return next(p for p in PROFILES if p.stem == name)


WRONG_PROFILES = {
    "unknown key": ("h100-sxm", ("colour",), "green"),
    "misspelt key": ("h100-sxm", ("levels", "hbm", "bandwith"), {"absent": "unknown to me"}),
    "misspelt level": ("h100-sxm", ("levels", "hmb"), {}),
    "misspelt dtype": ("h100-sxm", ("engines", "tensor", "bf61"), {"absent": "unknown to me"}),
    "figure without source": ("h100-sxm", ("levels", "hbm", "bandwidth"), {"value": "3.35 TB/s", "kind": "datasheet"}),
    "figure as a plain number": ("h100-sxm", ("levels", "hbm", "bandwidth"), "3.35 TB/s"),
    "kind that does not exist": ("h100-sxm", ("processors", "count", "kind"), "guessed"),
    "level without bandwidth": ("h100-sxm", ("levels", "hbm", "bandwidth"), None),
    "no clocks": ("h100-sxm", ("clocks",), None),
    "link without topology": ("h100-sxm", ("links", "nvlink", "topology"), None),
    "extending, misspelt key": ("h200-sxm", ("levels", "hbm", "bandwith"), {"absent": "unknown to me"}),
    "extending, figure without source": ("h200-sxm", ("levels", "hbm", "bandwidth"), {"value": "4.8 TB/s", "kind": "datasheet"}),
}


@pytest.mark.parametrize("case", WRONG_PROFILES)
def test_a_wrong_profile_is_refused_by_schema_and_reader_alike(case, tmp_path):
    """An editor that follows the schema warns of what the tool refuses."""
    name, keys, value = WRONG_PROFILES[case]
    found = changed(profile(name), keys, value)
    assert refusals(HARDWARE, found)
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(found), encoding="utf-8")
    with pytest.raises(InputError):
        load_hardware(str(file))


def workload(**step: Any) -> dict[str, Any]:
    """A workload of one step."""
    return {"schema": 1, "dtype": "bf16", "params": {"n": 4096}, "steps": [{"op": "gemm", "m": "n", "n": 8, "k": 8, **step}]}


def test_free_keys_begin_with_x():
    """So that people may keep what they need beside a step."""
    assert refusals(WORKLOAD, workload(**{"x-owner": "me"})) == []


@pytest.mark.parametrize(
    "step",
    [
        {"colour": "green"},
        {"bais": True},
        {"op": "gem"},
        {"activation": "gleu"},
        {"m": 0},
        {"m": [1]},
        {"dtype": "bf61"},
        {"bias": "maybe"},
    ],
)
def test_a_wrong_step_is_refused(step):
    """Unknown and misspelt keys, operators and words, and values out of range."""
    assert refusals(WORKLOAD, workload()) == []
    assert refusals(WORKLOAD, workload(**step))


@pytest.mark.parametrize("extra", [{"colour": "green"}, {"stepps": []}, {"traffic": "all"}, {"schema": 2}, {"steps": []}])
def test_a_wrong_workload_is_refused(extra):
    """The same at the top."""
    assert refusals(WORKLOAD, {**workload(), **extra})


def test_the_schema_is_small_enough_for_an_editor():
    """It is read on each keystroke."""
    assert all(len(json.dumps(schema_of(what))) < 300_000 for what in SCHEMAS)
