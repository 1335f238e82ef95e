"""What holds for every shipped profile: sourced figures of a believable size, and a match for one device alone."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofline.fit.band import FEWEST
from roofline.hardware.profile import KINDS, Absent, Figure, Hardware, si
from roofline.report.hardware_view import figures
from roofline.spec.find import shipped
from roofline.spec.fitted import complete
from roofline.spec.hardware import load_hardware

FILES = sorted(p for p in shipped("hardware_specs").rglob("*.yaml") if p.parent.name != "clusters")
every_file = pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)

DRIVER_NAMES = {
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA GH200 144G HBM3e": "gh200-144gb",
    "NVIDIA B200": "b200-sxm",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300-sxm",
    "NVIDIA A100-SXM4-80GB": "a100-sxm",
    "A100-SXM4-80GB": "a100-sxm",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "Tesla V100-SXM2-16GB": "v100-sxm-16gb",
    "Tesla V100-SXM2-32GB": "v100-sxm",
    "Tesla T4": "t4",
    "NVIDIA A10": "a10",
    "NVIDIA L4": "l4",
    "NVIDIA L40S": "l40s",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA RTX A6000": "rtx-a6000",
    "AMD Instinct MI250X": "mi250x-gcd",
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI300X OAM": "mi300x",
    "AMD Instinct MI325X": "mi325x",
    "AMD Instinct MI355X": "mi355x",
    "TPU v4": "tpu-v4",
    "TPU v5 lite": "tpu-v5e",
    "TPU v5": "tpu-v5p",
    "TPU v6 lite": "tpu-v6e",
    # Close to a shipped device and not it: another memory, bandwidth or clock.
    "NVIDIA H100 80GB HBM2e": None,
    "NVIDIA H100 NVL MIG 1g.12gb": None,
    "NVIDIA H200 NVL": None,
    "NVIDIA A100X": None,
    "NVIDIA A10G": None,
    "NVIDIA L40": None,
    "NVIDIA GeForce RTX 4090 D": None,
    "NVIDIA GeForce RTX 4090 Laptop GPU": None,
    "NVIDIA RTX 6000 Ada Generation": None,
    "Tesla V100-PCIE-16GB": None,
    "NVIDIA A30": None,
    "AMD Instinct MI300A": None,
}
"""What drivers report, and whose it is. An approximate match would be a wrong roofline, so that it must be none."""


@cache
def load(name: str) -> Hardware:
    """The profile, read once."""
    return load_hardware(name)


def raw(path: Path) -> dict[str, Any]:
    """The file as PyYAML reads it, with what it extends below it."""
    own = yaml.safe_load(path.read_text(encoding="utf-8"))
    base = raw(next(f for f in FILES if f.stem == own["extends"])) if "extends" in own else {}
    return {**base, **own}


def known(hardware: Hardware) -> dict[str, Figure]:
    """Figures that have a number, by key."""
    return {key: value for key, value in figures(hardware) if isinstance(value, Figure)}


def test_profiles_are_shipped():
    """All that the documentation promises."""
    promised = """v100-sxm t4 a10 a100-sxm a100-pcie a100-sxm-40gb a100-pcie-40gb l4 l40s rtx-4090 rtx-5090 rtx-a6000 h100-sxm
    h100-pcie h100-nvl h200-sxm gh200 b200-sxm gb200 b300-sxm mi250x mi300x mi325x mi355x tpu-v4 tpu-v5e tpu-v5p tpu-v6e gaudi3
    trainium2 x86-server"""
    assert set(promised.split()) <= {f.stem for f in FILES}


@every_file
def test_the_name_is_that_of_the_file(path):
    """So that `-H NAME` finds it."""
    assert load(path.stem).name == path.stem == raw(path)["name"]
    assert load(path.stem).vendor == path.parent.name


@every_file
def test_editors_find_the_schema(path):
    """The first line names the schema, relative to the file."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert match
    assert (path.parent / match[1]).resolve() == (shipped("docs") / "schema" / "hardware.json").resolve()


@every_file
def test_every_figure_has_a_source_and_a_kind(path):
    """A number without its origin is not kept; one that nobody publishes says why it is absent."""
    hardware = load(path.stem)
    for key, value in figures(hardware):
        if isinstance(value, Absent):
            assert len(value.reason) > 10, key
        else:
            assert value.kind in KINDS, key
            assert len(hardware.sources[value.source]) > 10, key
            assert (value.kind == "derived") == (value.formula is not None), key
            assert value.value > 0, key


@every_file
def test_no_source_is_stated_for_nothing(path):
    """A source of the file is used by a figure of it."""
    hardware = load(path.stem)
    used = {v.source for v in known(hardware).values()} | {s.source for s in hardware.fitted.values()}
    assert set(yaml.safe_load(path.read_text(encoding="utf-8")).get("sources", {})) <= used


@every_file
def test_every_parameter_set_has_a_source_a_kind_and_a_date(path):
    """All that its model declares, in range; whose it is, from how many rows, and how far it may be believed."""
    hardware = load(path.stem)
    complete(hardware.fitted, hardware.priors)
    for name, found in hardware.fitted.items():
        assert found.kind == "fitted", name
        assert len(hardware.sources[found.source]) > 10, name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.date), name
        assert found.rows > 0, name
        held = re.match(r"(\d+) rows? held out", found.note or "")
        assert bool(found.band) == (held is None or int(held[1]) >= FEWEST), name
        assert found.device in {f.stem for f in FILES}, name
    for name, found in hardware.priors.items():
        assert found.device != hardware.name, name


@every_file
def test_derived_figures_follow_from_their_formula(path):
    """Read again by Python itself, over the numbers of the profile."""
    hardware = load(path.stem)
    names = {**raw(path).get("constants", {}), "processors": si(hardware.processors)}
    names |= {f"clock_{name}": si(value) for name, value in hardware.clocks.items()}
    for key, figure in known(hardware).items():
        if figure.formula is not None:
            assert figure.value == pytest.approx(eval(figure.formula, {"__builtins__": {}}, names), rel=1e-12), key


@every_file
def test_the_ridge_point_is_believable(path):
    """From 1 to 5,000 FLOP/B in 16 bits over main memory."""
    h = load(path.stem)
    peak = si(h.tensor.get("bf16")) or si(h.tensor.get("fp16"))
    assert peak is not None
    assert 1 < peak / h.levels["hbm"].bandwidth.value < 5000
    assert 0.05e12 <= h.levels["hbm"].bandwidth.value <= 30e12


@every_file
def test_inner_levels_are_faster_and_smaller(path):
    """Registers, shared memory, L2, main memory: each known bandwidth above the next; main memory the largest."""
    h = load(path.stem)
    speeds = [(n, v) for n in ("register", "smem", "l2", "hbm") if (v := si(h.levels[n].bandwidth))]
    assert all(inner[1] > outer[1] for inner, outer in pairwise(speeds)), speeds
    count = si(h.processors) or 1
    sizes = {n: size * (count if level.scope == "processor" else 1) for n, level in h.levels.items() if (size := si(level.size))}
    assert max(sizes, key=lambda n: sizes[n]) == "hbm"


@every_file
def test_narrower_formats_are_not_slower(path):
    """fp4 >= fp8 >= bf16 >= tf32 >= fp32 on vector lanes, unless a note says why."""
    h = load(path.stem)
    ladder = [
        h.tensor.get("fp4"),
        h.tensor.get("fp8"),
        h.tensor.get("bf16") or h.tensor.get("fp16"),
        h.tensor.get("tf32"),
        h.vector.get("fp32"),
    ]
    for narrow, wide in pairwise(v for v in ladder if isinstance(v, Figure)):
        assert narrow.value >= wide.value or narrow.note or wide.note


@every_file
def test_sparse_peaks_are_not_below_dense_ones(path):
    """A sparse figure printed as a dense one is the commonest mistake of a profile."""
    h = load(path.stem)
    for dtype, figure in h.tensor_sparse.items():
        assert si(figure) == pytest.approx(2 * si(h.tensor[dtype]), rel=0.01) or figure.note


@every_file
def test_one_way_is_at_most_both_ways(path):
    """Links are per direction; the marketed sum of both has a key of its own."""
    for link in load(path.stem).links.values():
        both = si(link.both_ways_bandwidth)
        assert both is None or si(link.bandwidth) <= both


def matching(name: str) -> list[str]:
    """Profiles of which a pattern matches the whole name."""
    return [f.stem for f in FILES if any(re.fullmatch(p, name) for p in load(f.stem).match)]


@pytest.mark.parametrize("name", DRIVER_NAMES)
def test_a_driver_name_belongs_to_one_profile_or_none(name):
    """No two profiles claim a device, and a device that is merely similar is claimed by none."""
    assert matching(name) == ([DRIVER_NAMES[name]] if DRIVER_NAMES[name] else [])


def test_every_pattern_is_tried():
    """A pattern that matches no name of the list is not tested: add the name the driver reports."""
    tried = {p for f in FILES for p in load(f.stem).match if any(re.fullmatch(p, n) for n in DRIVER_NAMES)}
    assert {p for f in FILES for p in load(f.stem).match} - tried <= {"GAUDI3", "TPU v5e", "TPU v5p", "TPU v6e"}
