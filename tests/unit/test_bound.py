"""Seconds per resource, what binds, what binds next."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import UsageError
from roofline.ops import OPERATORS
from roofline.ops.base import work_of
from roofline.predict.bound import bound, bound_of_times, kind_of, machine_of, resource_work
from roofline.predict.crossover import crossover
from roofline.spec.hardware import load_hardware

H100 = load_hardware("h100-sxm")


def work(name: str, **fields: object):  # type: ignore[no-untyped-def]
    return work_of(OPERATORS[name](**{"dtype": "bf16", **fields}), machine_of(H100))


def test_a_copy_without_flop_takes_its_bytes_over_the_bandwidth() -> None:
    found = bound(work("copy", elements=10**9, dtype="fp32"), H100)
    assert found.time_s == pytest.approx(8e9 / 3.352e12)
    assert (found.limiter, found.next, kind_of(found.limiter)) == ("hbm", None, "memory")


def test_arithmetic_without_bytes_is_compute_bound() -> None:
    found = bound(work("custom", tensor_flop=10**12), H100)
    assert found.limiter == "tensor"
    assert found.time_s == pytest.approx(1e12 / 989.4e12)


def test_nothing_at_all_takes_no_time_and_has_no_limiter() -> None:
    found = bound(work("custom"), H100)
    assert (found.time_s, found.limiter, found.next) == (0, None, None)


def test_the_next_resource_and_its_distance_are_told() -> None:
    found = bound_of_times({"tensor": 3.0, "hbm": 2.0, "sfu": 0.0})
    assert (found.limiter, found.next, found.tied, found.no_overlap_s) == ("tensor", "hbm", False, 5.0)
    assert found.without("tensor") == 2.0


def test_resources_within_five_percent_tie() -> None:
    assert bound_of_times({"tensor": 1.0, "sfu": 0.96}).tied
    assert not bound_of_times({"tensor": 1.0, "sfu": 0.94}).tied


def test_exp_and_products_tie_at_head_dim_64() -> None:
    found = bound(work("attention", batch=16, heads=16, q_len=4096, kv_len=4096, head_dim=64), H100)
    assert found.tied
    assert {found.limiter, found.next} == {"tensor", "sfu"}


def test_fp32_products_run_on_the_vector_lanes() -> None:
    placed = resource_work(work("gemm", m=512, n=512, k=512, dtype="fp32"), H100)
    assert placed["tensor"][0] == 0
    assert placed["vector"][0] == 2 * 512**3


def test_a_dtype_the_device_cannot_multiply_is_refused_by_name() -> None:
    v100 = load_hardware("v100-sxm")
    with pytest.raises(UsageError, match="v100-sxm has no matrix rate for bf16"):
        bound(work("gemm", m=8, n=8, k=8), v100)


def test_a_link_the_device_lacks_is_refused_by_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'nvlink'"):
        bound(work("copy", read=1024, write=1024, over="nvlnk"), H100)


def test_decode_products_become_compute_bound_at_310_rows() -> None:
    """R / (1 - R (1/N + 1/K)) with R = 295.2 gives 309.6."""
    op = OPERATORS["gemm"](m=1, n=28672, k=8192, dtype="bf16")
    assert crossover(op, "m", H100) == 310
    assert crossover(OPERATORS["gemm"](m=1, n=8, k=8, dtype="bf16"), "m", H100) is None


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=6))
def test_the_bound_lies_between_the_largest_and_the_sum(times: list[float]) -> None:
    found = bound_of_times({str(i): t for i, t in enumerate(times)})
    assert found.time_s == max(times)
    assert found.time_s <= found.no_overlap_s + 1e-9


def test_arrays_give_the_bits_and_labels_of_scalars() -> None:
    rows = [1.0, 64.0, 300.0, 4096.0, 100_000.0]
    many = bound(work("gemm", m=np.array(rows), n=8192.0, k=8192.0), H100)
    for i, m in enumerate(rows):
        one = bound(work("gemm", m=int(m), n=8192, k=8192), H100)
        assert many.time_s[i] == one.time_s
        assert many.limiter[i] == one.limiter
        assert many.next[i] == one.next
