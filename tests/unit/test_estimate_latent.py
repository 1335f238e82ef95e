"""Attention over a latent: a time worked by hand, which set serves, and what never gets faster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.attention import Attention
from roofline.ops.latent import LatentAttention
from roofline.ops.launched import FusedAttention
from roofline.predict.estimate.attention import AttentionModel
from roofline.predict.estimate.attention_latent import PARAMETERS, latent
from roofline.predict.estimate.estimator import Estimator
from roofline.spec.hardware import load_hardware
from tests.unit.test_estimate_grouped import DEVICE

MODEL = AttentionModel()
BELIEVED = {p.name: p.start for p in PARAMETERS}
DIMS = ("batch", "heads", "q_len", "kv_len")


def kernel(batch: Any, heads: Any, q_len: Any, kv_len: Any, kv_dtype: str = "bf16") -> FusedAttention:
    op = LatentAttention(batch=batch, heads=heads, q_len=q_len, kv_len=kv_len, rank=512, rope=64, dtype="bf16", kv_dtype=kv_dtype)
    (found,) = op.launched("engine")
    assert isinstance(found, FusedAttention)
    return found


def seconds(one: FusedAttention) -> Any:
    return MODEL.terms(one, DEVICE, BELIEVED).time_s


def test_worked_by_hand() -> None:
    """65 heads fill two tiles of 64 rows, 100 keys two of 64; 576 numbers a key are read once, whatever the heads."""
    p = {"fixed_s": 1e-5, "row_s": 1e-9, "read_share": 0.5, "matrix_share": 0.5, "exposed": 0.25}
    terms = latent(kernel(2, 65, 1, 100), DEVICE, p)
    compute = 2 * 2 * 128 * 128 * (576 + 512) / 0.5e14
    memory = (2 * 65 * (576 + 512) * 2 + 2 * 100 * 576 * 2) / 0.5e12
    assert terms.parts == {"fixed": pytest.approx(1e-5 + 130e-9), "memory": pytest.approx(memory), "compute": pytest.approx(compute)}
    assert terms.time_s == pytest.approx(1e-5 + 130e-9 + max(memory, compute) + min(memory, compute) / 4)


def test_a_quantised_cache_is_read_by_another_kernel_with_half_the_bytes() -> None:
    plain, half = kernel(64, 16, 1, 65536), kernel(64, 16, 1, 65536, "fp8")
    assert MODEL.sets(plain, "engine") == ("attention.latent.engine.bf16",)
    assert MODEL.sets(half, "engine") == ("attention.latent_quantised.engine.bf16", "attention.latent.engine.bf16")
    assert MODEL.sets(plain, "torch")[-1] == "attention.latent.engine.bf16"
    rows = 64 * 65536 * 576
    queries = 64 * 16 * (576 + 512) * 2
    known = [latent(one, DEVICE, BELIEVED).parts["memory"] for one in (plain, half)]
    assert known[0] / known[1] == pytest.approx((2 * rows + queries) / (rows + queries))


def test_keys_wider_than_values_have_tiles_of_their_own() -> None:
    """Latent attention where it is expanded; equal widths ask for what they asked for before."""
    op = Attention(batch=1, heads=16, q_len=64, kv_len=64, head_dim=192, v_head_dim=128, causal=True, dtype="bf16", implementation="flash")
    names = [MODEL.sets(k, "engine") for k in op.launched("engine") if isinstance(k, FusedAttention)]
    assert [n[0] for n in names] == ["attention.prefill_unequal.engine.bf16"]
    equal = [k for k in replace(op, v_head_dim=192).launched("engine") if isinstance(k, FusedAttention)]
    assert MODEL.sets(equal[0], "engine")[0] == "attention.prefill.engine.bf16"


@given(st.tuples(*(st.integers(1, limit) for limit in (512, 128, 4, 50_000))), st.sampled_from(range(4)), st.integers(1, 1000))
def test_more_of_anything_is_never_faster(shape: tuple[int, ...], which: int, more: int) -> None:
    larger = [size + more * (at == which) for at, size in enumerate(shape)]
    assert seconds(kernel(*larger)) >= seconds(kernel(*shape)) > BELIEVED["fixed_s"]


@given(st.lists(st.tuples(*(st.integers(1, limit) for limit in (512, 128, 4, 50_000))), min_size=1))
def test_a_number_and_an_array_give_the_same_bits(shapes: list[tuple[int, ...]]) -> None:
    times = seconds(kernel(*np.array(shapes, dtype=np.float64).T))
    assert [seconds(kernel(*shape)) for shape in shapes] == list(times)


@pytest.mark.parametrize(("device", "execution"), [("h100-sxm", "engine"), ("h200-sxm", "engine"), ("h200-sxm", "eager")])
def test_many_sequences_take_longer_than_their_latent_rows(device: str, execution: str) -> None:
    """64 sequences of 32k keys under 16 heads: 2.4 GB, read at 80 to 95 % of the bandwidth."""
    estimator = Estimator(load_hardware(device), execution)
    op = LatentAttention(batch=64, heads=16, q_len=1, kv_len=32768, rank=512, rope=64, dtype="bf16")
    (found,) = estimator.op(op).kernels
    read_s = 64 * 32768 * 576 * 2 / estimator.device.hbm_bytes_per_s
    assert 1 / 0.95 < float(found.time_s) / read_s < 1 / 0.75
