"""Kernels side by side by the name of their family, each with what its dataflow says."""

from __future__ import annotations

import json

import pytest

from roofline.errors import UsageError
from roofline.measure.catalog_triton import FAMILIES
from roofline.measure.families import PARAMS, binding, family_of, plan_of_family
from roofline.measure.registry import KERNELS
from roofline.ops.gemm import Gemm
from roofline.ops.registry import OPERATORS
from roofline.spec.hardware import load_hardware
from tests.measure.conftest import fake_device


@pytest.fixture(scope="module")
def profile():
    return load_hardware("h200-sxm")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f"{f.op}-{f.name}")
def test_the_kernels_of_a_family_exist_run_its_operator_and_accept_its_shapes(family):
    for name in family.kernels:
        spec = KERNELS[name]
        assert spec.op == family.op
        for shape in (family.example, family.small):
            op = OPERATORS[spec.op](**{**shape, **spec.fields})
            assert op.check() is None
            assert spec.fits(op)


def test_the_ladder_goes_from_the_naive_kernel_to_the_library():
    kernels = family_of("gemm", "ladder").kernels
    assert (kernels[0], kernels[-1], len(kernels)) == ("gemm_naive", "gemm", 8)
    assert family_of("gemm_tiled", "ladder").kernels == kernels


@pytest.mark.parametrize(("kernel", "name", "word"), [("gemm", "lader", "ladder"), ("adamw", "ladder", "families are of")])
def test_a_family_that_is_not_there_is_an_error_that_names_what_is(kernel, name, word):
    with pytest.raises(UsageError, match=word):
        family_of(kernel, name)


def test_what_cannot_run_here_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    plan, left_out = plan_of_family(["gemm"], "ladder", ["m=32"], None, fake_device(info={"kind": "cpu"}))
    assert [case.id for case in plan.cases] == ["gemm"]
    assert plan.cases[0].op.m == 32
    assert len(left_out) == 7
    assert all("Triton" in line for line in left_out)


def test_one_kernel_names_the_operator(on_cpu):
    found = on_cpu("--kernel", "gemm", "--kernel", "softmax", "--implementation", "ladder")
    assert found.exit_code == 2
    assert "give one --kernel" in found.output


def test_a_workload_has_no_family(on_cpu):
    found = on_cpu("w.yaml", "--implementation", "ladder")
    assert found.exit_code == 2
    assert "--kernel" in found.output


# --------------------------------------------------------------------------- what should bind
@pytest.mark.parametrize("name", [spec.name for spec in KERNELS.values() if spec.dataflow])
def test_the_dataflow_of_a_kernel_takes_the_sizes_of_its_example(name, profile):
    spec = KERNELS[name]
    assert spec.op in PARAMS
    said = binding(spec.dataflow, OPERATORS[spec.op](**{**spec.example, **spec.fields}), profile)
    assert said["dataflow_binds"] in ("tensor", "vector", "sfu", "smem", "l2", "hbm")
    assert said["dataflow_s"] > 0


def test_a_dataflow_is_reckoned_at_the_sizes_of_the_operator(profile):
    small, large = (binding("gemm:pipelined", Gemm(m=n, n=n, k=n, dtype="bf16"), profile)["dataflow_s"] for n in (4096, 8192))
    assert large / small == pytest.approx(8, rel=0.1)


def test_the_order_of_a_convolution_chooses_its_dataflow(profile):
    spec = KERNELS["fft_conv_triton"]
    names = [binding(spec.dataflow, OPERATORS["fft_conv"](**{**spec.example, **spec.fields, "seq": n}), profile) for n in (4096, 16384)]
    assert [said["dataflow"] for said in names] == ["fft_conv:pairs2", "fft_conv:pairs3"]


@pytest.mark.parametrize(("rows", "n", "least"), [(16384, 4096, 112e-6), (8192, 16384, 225e-6)])
def test_our_monarch_kernel_is_one_kernel_a_factor(profile, rows, n, least):
    """Twice the bytes of a kernel that keeps whole rows, and at 16384 one that has room."""
    spec = KERNELS["monarch_triton"]
    said = binding(spec.dataflow, OPERATORS["monarch"](**{**spec.example, **spec.fields, "rows": rows, "n": n}), profile)
    assert said["dataflow"] == "monarch:factors"
    assert said["dataflow_binds"] == "hbm"
    assert least < said["dataflow_s"] < 2.1 * least


def test_measured_results_say_what_the_dataflow_says(on_cpu, place):
    path = place / "found.json"
    found = on_cpu("--kernel", "monarch", "-H", "h200-sxm", "--set", "rows=4096", "--set", "n=4096", "-o", str(path))
    assert found.exit_code == 0, found.output
    row = json.loads(path.read_text())["rows"][0]
    assert row["measured"]["conditions"]["dataflow"] == "monarch:unfused"
    shown = on_cpu("--kernel", "monarch", "-H", "h200-sxm", "--set", "rows=4096", "--set", "n=4096", "--format", "csv")
    assert shown.exit_code == 0
    table = on_cpu("--kernel", "monarch", "-H", "h200-sxm", "--set", "rows=4096", "--set", "n=4096")
    assert "dataflow binds" in table.output
