"""Costs of three kinds: a bound is that of single operators, stated shares divide it, estimates have bands; none passes for another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.decide.costs import KINDS, EstimateCoster, RateCoster, coster_of, matrix_rate, read_efficiency
from roofline.errors import InputError, UsageError
from roofline.ops.base import Op, work_of
from roofline.ops.collective import Collective
from roofline.ops.gemm import Gemm
from roofline.plan.network import bound_s, collective, time_s
from roofline.plan.placement import Group
from roofline.predict.bound import bound, machine_of
from roofline.predict.estimate.estimator import Estimator, NoParameters
from roofline.spec.cluster import load_cluster
from roofline.spec.hardware import load_hardware
from tests.contracts.examples import examples

H100 = load_cluster("dgx-h100")
GEMM = Gemm(m=8192, n=8192, k=8192, dtype="bf16")
THIN = Gemm(m=1, n=8192, k=8192, dtype="bf16")


def test_shares_divide_published_rates_by_hand() -> None:
    """2 x 8192^3 over 0.5 of 989.4 TFLOP/s; 8192^2 and two rows of 2 bytes over 0.8 of 3.352 TB/s."""
    coster = RateCoster(load_hardware("h100-sxm"), {"matrix": 0.5, "memory": 0.8, "link": 1.0})
    rate = matrix_rate(H100.device, "bf16")
    assert rate is not None
    assert coster.op(GEMM).time_s == pytest.approx(2 * 8192**3 / (0.5 * rate.value))
    hbm = H100.device.levels["hbm"].bandwidth.value  # type: ignore[union-attr]
    assert coster.op(THIN).time_s == pytest.approx((8192**2 + 2 * 8192) * 2 / (0.8 * hbm))
    assert list(coster.op(GEMM).by) == ["tensor"]
    assert list(coster.op(THIN).by) == ["hbm"]


COMPUTING = [(name, op) for name, op in examples() if not isinstance(op, Collective)]


@pytest.mark.parametrize("op", [pytest.param(op, id=name) for name, op in COMPUTING])
def test_the_bound_is_that_of_the_operator_alone(op: Op) -> None:
    """The independent count: `predict.bound` of its work, with what decides it."""
    hardware = load_hardware("h100-sxm")
    whole = bound(work_of(op, machine_of(hardware)), hardware)
    cost = RateCoster(hardware).op(op)
    assert cost.time_s == whole.time_s
    assert list(cost.by) == ([whole.limiter] if whole.limiter else [])


shares = st.floats(0.05, 1.0)


@given(matrix=shares, memory=shares, m=st.integers(1, 5000))
def test_no_stated_efficiency_beats_the_bound(matrix: float, memory: float, m: int) -> None:
    hardware = load_hardware("h100-sxm")
    op = Gemm(m=m, n=4096, k=4096, dtype="bf16")
    stated = RateCoster(hardware, {"matrix": matrix, "memory": memory, "link": 1.0}).op(op).time_s
    assert stated >= RateCoster(hardware).op(op).time_s
    assert stated <= RateCoster(hardware).op(op).time_s / min(matrix, memory) * (1 + 1e-12)


def test_arrays_give_the_same_bits() -> None:
    rows = [1, 17, 4096]
    many = Gemm(m=np.array(rows, dtype=np.float64), n=4096, k=4096, dtype="bf16")
    for coster in (coster_of("bound", H100), coster_of("efficiency", H100, shares={"matrix": 0.6, "memory": 0.8, "link": 0.7})):
        found: Any = coster.op(many)
        assert found.by == {}
        for at, m in enumerate(rows):
            one = coster.op(Gemm(m=m, n=4096, k=4096, dtype="bf16"))
            assert found.time_s[at] == one.time_s
            assert (found.matrix_s[at], found.memory_s[at]) == (one.matrix_s, one.memory_s)


def test_exchanges_overlap_in_a_bound_and_follow_each_other_at_stated_shares() -> None:
    legs = collective("all_reduce", 1e9, Group(size=64, stride=1), H100)
    assert len(legs) == 3
    assert coster_of("bound", H100).legs(legs).time_s == bound_s(legs)
    stated = coster_of("efficiency", H100, shares={"matrix": 1.0, "memory": 1.0, "link": 0.5})
    assert stated.legs(legs).time_s == time_s(legs, share=0.5) > 2 * bound_s(legs)  # type: ignore[operator]


def test_an_estimate_is_that_of_the_estimator_with_its_band() -> None:
    coster, estimator = (kind(load_hardware("h200-sxm"), "engine") for kind in (EstimateCoster, Estimator))
    (kernel,) = estimator.op(GEMM).kernels
    (found,) = coster.ops((GEMM,))
    assert found.gap_s == estimator.host(kernel.kernel).chain_s > 0
    assert found.time_s == kernel.time_s + found.gap_s
    assert found.widths == {kernel.parameters.name: (kernel.time_s - kernel.low_s, kernel.high_s - kernel.time_s)}
    assert found.issued == ()  # an engine's kernels are replayed from a graph
    assert coster.prior is kernel.prior


def test_without_parameters_there_is_no_estimate() -> None:
    legs = collective("reduce_scatter", 1e9, Group(size=16, stride=8), H100)
    with pytest.raises(NoParameters, match=r"transfer\.reduce_scatter"):
        EstimateCoster(H100.hardware(), "eager").legs(legs)


def test_each_kind_says_what_it_is() -> None:
    stated = {"matrix": 0.6, "memory": 0.8, "link": 0.7}
    costers = [coster_of(kind, H100, shares=stated if kind == "efficiency" else None) for kind in KINDS]
    assert [c.kind for c in costers] == list(KINDS)
    assert [c.label.split(":")[0] for c in costers] == ["bound", "stated efficiency", "estimate"]
    with pytest.raises(UsageError, match="did you mean 'bound'"):
        coster_of("bond", H100)
    with pytest.raises(UsageError, match="nobody's default"):
        coster_of("efficiency", H100)


def test_a_resource_without_a_rate_takes_no_part_and_is_named() -> None:
    hardware = load_hardware("tpu-v5e")
    coster = RateCoster(hardware)
    coster.op(Gemm(m=8, n=8, k=8, dtype="bf16", activation="gelu"))
    assert coster.missing


def test_shares_as_text() -> None:
    assert read_efficiency("matrix=0.6, memory=0.85,link=1") == {"matrix": 0.6, "memory": 0.85, "link": 1.0}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("matrix=0.6,memory=0.8", "link not stated"),
        ("matrx=0.6,memory=0.8,link=1", "did you mean 'matrix'"),
        ("matrix=1.6,memory=0.8,link=1", "not above 0 and at most 1"),
        ("matrix=0,memory=0.8,link=1", "not above 0 and at most 1"),
        ("matrix=nan,memory=0.8,link=1", "not above 0 and at most 1"),
        ("matrix=x,memory=0.8,link=1", "no number"),
        ("matrix=.5,matrix=.6,memory=0.8,link=1", "twice"),
        ("", "unknown share"),
    ],
)
def test_what_is_no_efficiency(text: str, part: str) -> None:
    with pytest.raises(InputError, match=part) as found:
        read_efficiency(text)
    assert len(found.value.problems) == 1 or not text


def test_all_shares_that_are_wrong_are_named_at_once_where_they_stand() -> None:
    with pytest.raises(InputError) as found:
        read_efficiency("matrix=2, memory=x,link=0")
    assert [(p.path, p.column) for p in found.value.problems] == [("--efficiency", 8), ("--efficiency", 18), ("--efficiency", 25)]
    with pytest.raises(InputError) as found:
        read_efficiency("matrix=0.6,memroy=0.8,link=1")
    assert [p.column for p in found.value.problems] == [12]
    with pytest.raises(InputError, match="memory, link not stated"):
        read_efficiency("matrix=0.5", "efficiency")
