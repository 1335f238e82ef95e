"""The same dataflow written in Python, and expressions that take arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.dataflow.account import account, device_of
from roofline.dataflow.check import complaints
from roofline.dataflow.form import Access, Dataflow, Kernel, Loop, Product, Tensor, Tile, Work
from roofline.spec.dataflow import load_dataflow
from roofline.spec.expression import ExpressionError, evaluate
from roofline.spec.formula import Formula, formula
from roofline.spec.hardware import load_hardware

PRODUCT = Dataflow(
    name="python:product",
    dtype="bf16",
    params={"m": 4096, "n": 4096, "k": 4096},
    tiles=(Tile("tile_m", 128), Tile("tile_n", 256), Tile("tile_k", 64), Tile("stages", 4), Tile("warpgroups", 2)),
    tensors=(
        Tensor("a", (formula("m"), formula("k"))),
        Tensor("b", (formula("k"), formula("n")), role="weight"),
        Tensor("c", (formula("m"), formula("n")), role="out"),
    ),
    kernels=(
        Kernel(
            name="product",
            loops=(
                Loop("i", lambda names: names["m"], lambda names: names["tile_m"], parallel=True),
                Loop("j", formula("n"), formula("tile_n"), parallel=True, inside="i"),
                Loop("c", formula("k"), formula("tile_k"), inside="j"),
            ),
            accesses=(
                Access("a", (("i",), ("c",)), "c", buffers=formula("stages")),
                Access("b", (("c",), ("j",)), "c", buffers=formula("stages")),
                Access("c", (("i",), ("j",)), "j", "write", "register"),
            ),
            products=(Product("c", "i", "j", "c"),),
            works=(Work("j", register=formula("4 * tile_m * tile_n")),),
            accumulators={"c": formula("tile_m * tile_n")},
            workers=formula("128 * warpgroups"),
            producers=128,
            stages=formula("stages"),
            order="grouped",
        ),
    ),
)


def test_python_and_yaml_give_the_same_account() -> None:
    device = device_of(load_hardware("h100-sxm"), "bf16")
    assert complaints(PRODUCT, device.names) == []
    ours, shipped = account(PRODUCT, device), account(load_dataflow("gemm:pipelined", machine=device.names), device)
    assert ours.kernels[0].work == shipped.kernels[0].work
    assert ours.kernels[0].room == shipped.kernels[0].room
    assert ours.scheduled_s == shipped.scheduled_s


def test_a_dataflow_in_python_is_checked_too() -> None:
    device = device_of(load_hardware("h100-sxm"), "bf16")
    small = Dataflow(
        **{f: getattr(PRODUCT, f) for f in PRODUCT.__dataclass_fields__ if f != "params"}, params={"m": 64, "n": 4096, "k": 4096}
    )
    (found,) = complaints(small, device.names)
    assert found.path == ("kernels", 0, "loops", "i", "tile")
    assert "a tile of 128 is larger than the 64 elements" in found.message


TEXTS = ["a + b * 2", "a / b", "a // b", "a % b", "-a", "ceil_div(a, b)", "min(a, b, 7)", "max(a, b)", "sqrt(a)", "log2(a)", "ceil(a / b)",
         "floor(a / b)", "round(a / b)", "a ** 2 - (b + 1)", "2.5 * a"]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@given(a=st.integers(1, 10**6), b=st.integers(1, 10**4))
def test_a_formula_gives_what_the_expression_gives_for_numbers_and_arrays(text: str, a: int, b: int) -> None:
    expected = evaluate(text, {"a": a, "b": b})
    found = Formula(text)({"a": a, "b": b})
    assert found == expected
    assert type(found) is type(expected)
    many = Formula(text)({"a": np.array([a, a], dtype=float), "b": np.array([b, b], dtype=float)})
    assert many[0] == pytest.approx(float(expected), rel=1e-15)


def test_a_formula_in_python_can_be_checked_at_once() -> None:
    with pytest.raises(ExpressionError, match="unknown name 'c'"):
        formula("a + c", {"a": 1})
