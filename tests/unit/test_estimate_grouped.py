"""Grouped products: a time worked by hand, tiles against counted ones, and what never gets faster."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.grouped import GroupedGemm
from roofline.ops.launched import GroupedProduct, Product
from roofline.predict.estimate import grouped
from roofline.predict.estimate.base import Device
from roofline.predict.estimate.estimator import Estimator
from roofline.predict.estimate.grouped import GroupedModel
from roofline.spec.hardware import load_hardware

MODEL = GroupedModel()
BELIEVED = {p.name: p.start for p in MODEL.parameters}
DEVICE = Device(
    name="d",
    architecture="hopper",
    processors=10.0,
    clock_hz=1e9,
    smem_bytes=2e5,
    l2_bytes=5e7,
    hbm_bytes_per_s=1e12,
    matrix_flop_per_s={"bf16": 1e14, "fp8": 2e14},
    vector_flop_per_s={"fp32": 1e13},
    sfu_per_s=1e12,
    link_bytes_per_s={},
)


def kernel(experts: float, chosen: Any, rows: Any, fullest: Any, n: Any, k: Any, **more: Any) -> GroupedProduct:
    weights = 2 * chosen * n * k
    sizes = {"experts": experts, "chosen": chosen, "rows": rows, "fullest": fullest, "n": n, "k": k, "weight_bytes": weights}
    return GroupedProduct(**{**sizes, "read_bytes": weights + 2 * rows * k, "write_bytes": 2 * rows * n, "dtype": "bf16", **more})


def seconds(one: GroupedProduct) -> Any:
    return MODEL.terms(one, DEVICE, BELIEVED).time_s


def test_worked_by_hand() -> None:
    """4 experts of 64 rows: 8 tiles of 64 x 64 on 10 processors take 64 x 64 x 1000 of 0.4 ps and 1 us; memory 1.6 MB at half a TB/s."""
    known = {"fixed_s": 1e-5, "expert_s": 1e-9, "read_share": 0.5, "row_share": 0.5, "matrix_share": 0.5, "balanced_edge": 0.0}
    known |= {"step_clocks": 0.0, "tile_clocks": 1000.0, "wave_share": 0.5, "exposed_share": 0.5, "odd_share": 0.1}
    one = kernel(4, 4, 256, 64, 128, 1000)
    terms = MODEL.terms(one, DEVICE, known)
    tiles, memory = 64 * 64 * 1000 * 4e-13 + 1e-6, (1_024_000 + 512_000 + 65_536) / 0.5e12
    assert terms.parts == {"fixed": pytest.approx(1.0004e-5), "memory": pytest.approx(memory), "compute": pytest.approx(tiles)}
    assert terms.time_s == pytest.approx(1.0004e-5 + memory + tiles / 2)
    odd = MODEL.terms(replace(one, aligned=False), DEVICE, known)
    assert odd.parts["compute"] == pytest.approx(10 * tiles)


@pytest.mark.parametrize(("tokens", "experts", "active"), [(64, 8, 2), (500, 64, 4), (4096, 128, 8), (16, 256, 8)])
def test_tiles_are_those_of_random_choices(tokens: int, experts: int, active: int) -> None:
    """An independent count: tokens that choose at random, rows padded expert by expert."""
    rng = random.Random(1)
    op = GroupedGemm(tokens=tokens, experts=experts, active=active, n=256, k=256, dtype="bf16")
    (launched,) = op.launched("engine")
    assert isinstance(launched, GroupedProduct)
    for height in (16, 64, 128):
        counted = []
        for _ in range(60):
            loads = [0] * experts
            for _ in range(tokens):
                for e in rng.sample(range(experts), active):
                    loads[e] += 1
            counted.append(sum(-(-load // height) for load in loads))
        points = grouped._rows_by_expert(launched)
        told = launched.chosen * sum(math.ceil(rows / height) for rows in points) / len(points)
        assert told == pytest.approx(sum(counted) / len(counted), rel=0.12)


def test_loads_between_even_and_one() -> None:
    """The mean of the points is that of all rows; even loads are all alike."""
    even = grouped._rows_by_expert(kernel(8, 8, 800, 100, 64, 64))
    assert even == [100] * grouped.POINTS
    skewed = grouped._rows_by_expert(kernel(8, 8, 800, 400, 64, 64))
    assert sum(skewed) / len(skewed) == pytest.approx(100, rel=0.05)
    assert max(skewed) > 5 * min(skewed)


@given(st.integers(1, 64), st.integers(1, 2000), st.floats(1, 8), st.integers(1, 8192), st.integers(1, 8192), st.integers(1, 4000))
def test_more_of_anything_is_never_faster(experts: int, each: int, skew: float, n: int, k: int, more: int) -> None:
    rows, fullest = experts * each, min(each * skew, experts * each)
    one = kernel(experts, experts, rows, fullest, n, k)
    time = seconds(one)
    assert math.isfinite(time)
    assert time > BELIEVED["fixed_s"]
    for changes in ((n + more, k), (n, k + more)):
        assert seconds(kernel(experts, experts, rows, fullest, *changes)) >= time * (1 - 1e-9)
    assert seconds(kernel(experts, experts, rows + experts * more, fullest + more, n, k)) >= time * (1 - 1e-9)
    assert seconds(replace(one, aligned=False)) >= time


@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(1, 500), st.integers(1, 9), st.integers(1, 4096), st.integers(1, 4096)), min_size=1)
)
def test_a_number_and_an_array_give_the_same_bits(shapes: list[tuple[int, ...]]) -> None:
    def one(experts: Any, each: Any, skew: Any, n: Any, k: Any) -> GroupedProduct:
        return kernel(experts, experts, experts * each, each + (experts - 1) * each * (skew - 1) / 8, n, k, aligned=k % 16 == 0)

    times = seconds(one(*np.array(shapes, dtype=np.float64).T))
    assert [seconds(one(*shape)) for shape in shapes] == list(times)


def test_a_product_by_head_stays_a_batch() -> None:
    """Every token passes every matrix: nothing is sorted, and the library's batched product runs."""
    (launched,) = GroupedGemm(tokens=7, experts=16, active=16, n=512, k=128, dtype="bf16").launched("engine")
    assert isinstance(launched, Product)
    assert (launched.kind, launched.batch, launched.m) == ("batched_gemm", 16, 7)


@pytest.mark.parametrize("device", ["h100-sxm", "h200-sxm"])
def test_experts_of_mixtral_are_read_at_most_of_the_bandwidth(device: str) -> None:
    """Decoding 8 tokens reads 7.2 of 8 experts: the estimate is 1.1 to 1.4 times that."""
    hardware = load_hardware(device)
    op = GroupedGemm(tokens=8, experts=8, active=2, n=28672, k=4096, dtype="bf16")
    (estimate,) = Estimator(hardware, "engine").op(op).kernels
    rate = Estimator(hardware, "engine").device.hbm_bytes_per_s
    read_s = 8 * (1 - 0.75**8) * 28672 * 4096 * 2 / rate
    assert 1.1 < float(estimate.time_s) / read_s < 1.4
    assert estimate.regime == "memory"
