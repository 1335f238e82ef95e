"""Kernels as launched under each execution: how many, of which sort, over which bytes; held against what torch calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofline.ops.base import Op
from roofline.ops.launched import EXECUTIONS, Launched, Stream, Transfer, alignment, fuses, library_of
from roofline.ops.registry import OPERATORS
from tests.contracts.examples import EXAMPLES


def made(name: str, **given: Any) -> Op:
    """The operator, in bf16 unless given."""
    return OPERATORS[name](**{"dtype": "bf16", **given})  # type: ignore[call-arg]


def kinds(kernels: tuple[Launched, ...]) -> list[str]:
    """The sort of each kernel, as often as it is called."""
    return [k.kind for k in kernels if isinstance(k, Stream | Transfer) for _ in range(k.calls)]


ROTARY = {"tokens": 64, "heads": 8, "kv_heads": 2, "head_dim": 32, "positions": 16}
SEVEN = ["broadcast"] * 4 + ["elementwise"] * 2 + ["concatenate"]
CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    ("elementwise", {"function": "gelu", "elements": 100}, ["elementwise"], ["fused"]),
    ("elementwise", {"function": "fill", "elements": 100}, ["fill"], ["fused"]),
    ("elementwise", {"function": "copy", "elements": 100}, ["copy"], ["fused"]),
    ("elementwise", {"function": "copy", "elements": 100, "out_dtype": "fp32"}, ["elementwise"], ["fused"]),
    ("swiglu", {"rows": 4, "cols": 64}, ["elementwise", "elementwise"], ["fused"]),
    ("swiglu", {"rows": 4, "cols": 64, "packed": True}, ["broadcast", "broadcast"], ["fused"]),
    ("dropout", {"elements": 100}, ["dropout"], ["fused"]),
    ("rotary", ROTARY, SEVEN * 2, ["rotary"]),
    ("rmsnorm", {"rows": 4, "cols": 64}, ["rmsnorm"], ["fused_rows"]),
    ("layernorm", {"rows": 4, "cols": 64, "residual": True}, ["elementwise", "layernorm"], ["fused_rows"]),
    ("softmax", {"rows": 4, "cols": 64}, ["softmax"], ["fused_rows"]),
    ("reduction", {"rows": 4, "cols": 64}, ["reduction"], ["fused_rows"]),
    ("cross_entropy", {"tokens": 4, "vocab": 64}, ["elementwise", "log_softmax", "nll"], ["cross_entropy"]),
    ("cross_entropy", {"tokens": 4, "vocab": 64, "scratch_dtype": "bf16"}, ["log_softmax", "nll"], ["cross_entropy"]),
    ("cross_entropy", {"tokens": 4, "vocab": 64, "mean": True}, ["elementwise", "log_softmax", "nll_mean"], ["cross_entropy"]),
    ("cross_entropy", {"tokens": 4, "vocab": 64, "fused": True}, ["cross_entropy"], ["cross_entropy"]),
    ("embedding", {"tokens": 4, "vocab": 64, "hidden": 8}, ["embedding"], ["embedding"]),
    ("adamw", {"parameters": 100, "dtype": "fp32"}, ["adamw"], ["adamw"]),
    ("adamw", {"parameters": 100, "master": True}, ["elementwise", "adamw", "elementwise"], ["elementwise", "adamw", "elementwise"]),
    ("transpose", {"rows": 4, "cols": 64}, ["transpose"], ["transpose_staged"]),
    ("copy", {"elements": 100}, ["copy"], ["copy"]),
    ("copy", {"elements": 100, "over": "pcie"}, ["copy"], ["copy"]),
    ("all_reduce", {"size": 1024, "ranks": 8, "over": "nvlink"}, ["all_reduce"], ["all_reduce"]),
    ("custom", {"read": 100, "write": 50}, ["custom"], ["custom"]),
]


@pytest.mark.parametrize(("name", "given", "eager", "compiled"), CASES)
def test_sorts_of_kernels(name: str, given: dict[str, Any], eager: list[str], compiled: list[str]) -> None:
    """A graph replays what eager launches; an engine's kernels are fused as a compiler's are."""
    op = made(name, **given)
    assert kinds(op.launched("eager")) == kinds(op.launched("graph")) == eager
    assert kinds(op.launched("compiled")) == kinds(op.launched("engine")) == compiled


BACKWARD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("elementwise", {"function": "gelu", "elements": 100}, ["elementwise"]),
    ("elementwise", {"function": "mul", "elements": 100}, ["elementwise"] * 2),
    ("swiglu", {"rows": 4, "cols": 64}, ["elementwise"] * 3),
    ("dropout", {"elements": 100}, ["elementwise"]),
    ("softmax", {"rows": 4, "cols": 64}, ["elementwise", "softmax_backward"]),
    ("layernorm", {"rows": 4, "cols": 64}, ["norm_backward", "norm_weights_backward"]),
    ("rmsnorm", {"rows": 4, "cols": 64, "residual": True}, ["norm_backward", "norm_weights_backward", "elementwise"]),
    ("embedding", {"tokens": 4, "vocab": 64, "hidden": 8}, ["fill", "embedding_backward"]),
    ("cross_entropy", {"tokens": 4, "vocab": 64}, ["fill", "nll_backward", "log_softmax_backward", "elementwise"]),
]


@pytest.mark.parametrize(("name", "given", "eager"), BACKWARD)
def test_sorts_of_backward_kernels(name: str, given: dict[str, Any], eager: list[str]) -> None:
    """Of eager torch; a compiler's are one for each operator of the pass."""
    backward = made(name, **given).backward()
    assert [kind for op in backward for kind in kinds(op.launched("eager"))] == eager
    assert {kind for op in backward for kind in kinds(op.launched("compiled"))} == {"fused"}


class TestBytes:
    def test_swiglu_by_hand(self) -> None:
        """4 x 64 of 2 B are 512 B: silu moves 2 of them, the product 3, of which one was just written."""
        silu, times = made("swiglu", rows=4, cols=64).launched("eager")
        assert isinstance(silu, Stream)
        assert isinstance(times, Stream)
        assert (silu.read_bytes, silu.write_bytes, silu.fresh_bytes) == (512, 512, 0)
        assert (times.read_bytes, times.write_bytes, times.fresh_bytes) == (1024, 512, 512)

    def test_rotary_by_hand(self) -> None:
        """Halves of q: 64 x 8 x 16 of 2 B are 16384 B, of the table 16 x 16 of 2 B 512 B; k has a quarter of the heads."""
        products, sums, joined, *keys = made("rotary", **ROTARY).launched("eager")
        assert isinstance(products, Stream)
        assert isinstance(sums, Stream)
        assert isinstance(joined, Stream)
        assert (products.calls, products.read_bytes, products.write_bytes) == (4, 16384 + 512, 16384)
        assert (sums.calls, sums.read_bytes, sums.write_bytes) == (2, 32768, 16384)
        assert (joined.calls, joined.read_bytes, joined.write_bytes) == (1, 32768, 32768)
        assert [k.write_bytes for k in keys if isinstance(k, Stream)] == [4096, 4096, 8192]

    def test_cross_entropy_by_hand(self) -> None:
        """4 x 64 logits: 512 B in bf16, 1024 B in fp32; the pick reads 4 of them and 4 targets of 8 B."""
        cast, soft, pick = made("cross_entropy", tokens=4, vocab=64).launched("eager")
        moved = [(k.read_bytes, k.write_bytes) for k in (cast, soft, pick) if isinstance(k, Stream)]
        assert moved == [(512, 1024), (1024, 1024), (16 + 32, 16)]

    def test_adamw_with_master_weights_by_hand(self) -> None:
        """100 gradients of 2 B to fp32; p, m, v and g in fp32 read, three written; the copy of 2 B after it."""
        moved = [
            (k.read_bytes, k.write_bytes) for k in made("adamw", parameters=100, master=True).launched("eager") if isinstance(k, Stream)
        ]
        assert moved == [(200, 400), (1600, 1200), (400, 200)]

    @pytest.mark.parametrize("name", sorted(EXAMPLES))
    def test_fusing_moves_no_more(self, name: str) -> None:
        """An intermediate costs bytes; what is fused is what the operator counts, at least."""
        for given in EXAMPLES[name]:
            op = made(name, **given)
            eager, fused = (
                sum((k.read_bytes + k.write_bytes) * k.calls for k in op.launched(e) if isinstance(k, Stream))
                for e in ("eager", "compiled")
            )
            assert fused <= eager

    def test_collectives_send_over_their_link(self) -> None:
        """1024 B among 8: 2 x 7/8 of them."""
        assert made("all_reduce", size=1024, ranks=8, over="nvlink").launched("eager") == (
            Transfer(link="nvlink", bytes=1792, kind="all_reduce", ranks=8),
        )


class TestAnyOperator:
    @pytest.mark.parametrize("name", sorted(EXAMPLES))
    @pytest.mark.parametrize("execution", EXECUTIONS)
    def test_launches_named_kernels(self, name: str, execution: str) -> None:
        for given in EXAMPLES[name]:
            op = made(name, **given)
            for one in (op, *op.backward()):
                kernels = one.launched(execution)
                assert kernels
                assert all(getattr(k, "kind", "attention") for k in kernels)

    def test_arrays_launch_the_same_kernels(self) -> None:
        """Dimensions of a sweep."""
        one = made("rotary", **ROTARY).launched("eager")
        many = made("rotary", **{**ROTARY, "tokens": np.array([16.0, 64.0])}).launched("eager")
        assert kinds(one) == kinds(many)
        assert [k.write_bytes[1] for k in many if isinstance(k, Stream)] == [k.write_bytes for k in one if isinstance(k, Stream)]  # type: ignore[index]


def test_executions_have_a_library_and_fuse_or_not() -> None:
    assert [library_of(e) for e in EXECUTIONS] == ["torch", "torch", "torch", "engine"]
    assert [fuses(e) for e in EXECUTIONS] == [False, True, False, True]
    assert [alignment(b) for b in (32, 24, 20, 18)] == [1.0, 0.5, 0.25, 0.125]


VIEWS = {
    "slice",
    "view",
    "_unsafe_view",
    "expand",
    "unsqueeze",
    "as_strided",
    "split",
    "unbind",
    "alias",
    "detach",
    "select",
    "t",
    "transpose",
}
MEASURED = [
    ("elementwise", "elementwise_of", "elementwise", {"function": "silu", "elements": 64}),
    ("elementwise", "elementwise_of", "elementwise", {"function": "fma", "elements": 64}),
    ("elementwise", "swiglu_of", "swiglu", {"rows": 4, "cols": 64}),
    ("elementwise", "rotary_of", "rotary", ROTARY),
    ("rows", "cross_entropy_of", "cross_entropy", {"tokens": 4, "vocab": 64}),
    ("rows", "layernorm_of", "layernorm", {"rows": 4, "cols": 64, "residual": True}),
    ("memory", "reduction_of", "reduction", {"rows": 4, "cols": 64}),
    ("memory", "embedding_of", "embedding", {"tokens": 4, "vocab": 64, "hidden": 8}),
]


@pytest.mark.parametrize(("module", "function", "name", "given"), MEASURED)
def test_as_many_kernels_as_torch_calls(module: str, function: str, name: str, given: dict[str, Any]) -> None:
    """Calls of the measured kernels that compute something, counted by a dispatch mode."""
    pytest.importorskip("torch")
    from importlib import import_module

    from torch.utils._python_dispatch import TorchDispatchMode

    from roofline.measure.allocate import allocate

    called: list[str] = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            called.append(str(func).split(".")[1])
            return func(*args, **(kwargs or {}))

    op = made(name, **given)
    tensors = allocate(op, "cpu")
    with Counting():
        getattr(import_module(f"roofline.measure.kernels.{module}"), function)(op, tensors)
    assert len([c for c in called if c not in VIEWS]) == len(kinds(op.launched("eager"))), called
