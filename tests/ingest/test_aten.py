"""Operators of torch as operators of ours: positions held against torch's own schemas, counts by hand, shapes against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.dtypes import DTYPES
from roofline.ingest.aten import FORMATS, HANDLERS, Call, Mapped, Tensor, Unrecognised, handler_of, known, number_format, recognise
from roofline.ingest.aten_attention import FORMS
from roofline.ingest.aten_conv import POSITIONS
from roofline.ingest.aten_elementwise import FORWARD, result_of
from roofline.ingest.aten_views import VIEWS

torch = pytest.importorskip("torch")
handler_of("mm")  # registers all families

FOREIGN = {"flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_backward", "FlashAttnFunc", "flash_attn_3::fwd"}
ELSEWHERE = {
    "cudnn_convolution",
    "miopen_convolution",
    "cudnn_batch_norm",
    "miopen_batch_norm",
    "miopen_batch_norm_backward",
    "cudnn_batch_norm_backward",
}


def T(*shape: int, dtype: str = "bf16", parameter: bool | None = None) -> Tensor:  # noqa: N802 - short, since the tables below are read
    return Tensor(shape, dtype, parameter)


def work(*args: Any, name: str, out: tuple[Tensor, ...] = ()) -> tuple[str, dict[str, Any], str]:
    (found,) = recognise(Call(name, args, out))
    return found.op, dict(found.fields), found.direction


# --------------------------------------------------------------------------- names and positions against torch itself
@pytest.mark.parametrize("name", sorted({*HANDLERS, *VIEWS} - FOREIGN))
def test_every_name_is_an_operator_of_torch(name: str) -> None:
    if "::" in name or name in ELSEWHERE:
        return
    spellings = (name, f"{name}_")
    assert any(hasattr(torch.ops.aten, s) for s in spellings) or name in {
        "expand_as",
        "numpy_T",
        "mT",
        "contiguous",
        "view_as",
        "_fused_dropout",
    }


def _argument(name: str, position: int) -> str:
    overload = getattr(torch.ops.aten, name)
    return str(overload.default._schema.arguments[position].name)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_positions_of_attention_are_those_of_the_schema(name: str) -> None:
    form = FORMS[name]
    names = [_argument(name, form.query + i) for i in range(3)]
    assert [n.rstrip("_")[:1] for n in names] == ["q", "k", "v"]
    assert _argument(name, form.dropout) == "dropout_p"
    assert _argument(name, form.causal) == "is_causal"
    assert form.direction == ("backward" if name.endswith("backward") else "forward")


@pytest.mark.parametrize("name", sorted(set(POSITIONS) - {"conv1d", "conv2d", "conv3d"}))
def test_positions_of_convolutions_are_those_of_the_schema(name: str) -> None:
    stride, padding, dilation, groups, transposed = POSITIONS[name]
    found = [_argument(name, at) for at in (stride, padding, dilation, groups)]
    assert found == ["stride", "padding", "dilation", "groups"]
    assert transposed is None or _argument(name, transposed) == "transposed"


def test_positions_of_backward_passes_are_those_of_the_schema() -> None:
    assert [_argument("native_layer_norm_backward", i) for i in (1, 2, 5, 6)] == ["input", "normalized_shape", "weight", "bias"]
    assert [_argument("convolution_backward", i) for i in (0, 1, 2, 10)] == ["grad_output", "input", "weight", "output_mask"]
    assert [_argument("embedding_dense_backward", i) for i in (0, 1, 2)] == ["grad_output", "indices", "num_weights"]
    assert [_argument("_scaled_mm", i) for i in (4, 6)] == ["bias", "out_dtype"]
    assert [_argument("nll_loss_backward", i) for i in (1, 2)] == ["self", "target"]
    assert [_argument("_softmax_backward_data", i) for i in (1, 2)] == ["output", "dim"]


@pytest.mark.parametrize("word", sorted(w for w in FORMATS if hasattr(torch, w)))
def test_formats_have_the_size_that_torch_says(word: str) -> None:
    if word.endswith("_x2"):  # two numbers of four bits in a byte
        return
    found = getattr(torch, word)
    if isinstance(found, torch.dtype):
        assert DTYPES[number_format(str(found))].bytes == found.itemsize


# --------------------------------------------------------------------------- by hand
BY_HAND = [
    ("aten::mm", (T(4, 5), T(5, 3)), ("gemm", {"m": 4, "n": 3, "k": 5, "dtype": "bf16"})),
    ("aten::mm", (T(4, 5), T(5, 3, parameter=False)), ("batched_gemm", {"batch": 1, "m": 4, "n": 3, "k": 5, "dtype": "bf16"})),
    ("aten::addmm", (T(3), T(4, 5), T(5, 3), 1, 1), ("gemm", {"m": 4, "n": 3, "k": 5, "dtype": "bf16", "bias": True})),
    ("aten::addmm_", (T(4, 3), T(4, 5), T(5, 3)), ("gemm", {"m": 4, "n": 3, "k": 5, "dtype": "bf16", "accumulate": True})),
    ("aten::linear", (T(2, 7, 5), T(3, 5), None), ("gemm", {"m": 14, "n": 3, "k": 5, "dtype": "bf16"})),
    ("aten::matmul", (T(2, 1, 7, 5), T(3, 5, 4)), ("batched_gemm", {"batch": 6, "m": 7, "n": 4, "k": 5, "dtype": "bf16"})),
    ("aten::bmm", (T(6, 7, 5), T(6, 5, 4)), ("batched_gemm", {"batch": 6, "m": 7, "n": 4, "k": 5, "dtype": "bf16"})),
    ("aten::_grouped_mm", (T(40, 8), T(4, 8, 6)),
     ("grouped_gemm", {"tokens": 40, "experts": 4, "active": 1, "n": 6, "k": 8, "dtype": "bf16"})),
    ("aten::mul.Tensor", (T(4, 5), 2.0), ("elementwise", {"function": "scale", "elements": 20, "dtype": "bf16"})),
    # a result that is given is written and not read: 400 bf16 and one number
    ("aten::mul", (T(4, 5), T(dtype="fp64"), T(4, 5)), ("elementwise", {"function": "mul", "elements": 20, "dtype": "bf16", "inputs": 1})),
    ("aten::exp", (T(4, 5), T(4, 5)), ("elementwise", {"function": "exp", "elements": 20, "dtype": "bf16"})),
    ("aten::add_", (T(400, 5), T(5)), ("elementwise", {"function": "add", "elements": 2000, "dtype": "bf16", "inputs": 1})),
    ("aten::gelu", (T(4, 5), "tanh"), ("elementwise", {"function": "gelu_tanh", "elements": 20, "dtype": "bf16"})),
    ("aten::pow", (T(4, 5), 2), ("elementwise", {"function": "square", "elements": 20, "dtype": "bf16"})),
    ("aten::where", (T(4, 5, dtype="bool"), T(4, 5), T(4, 5)), ("elementwise", {"function": "where", "elements": 20, "dtype": "bf16"})),
    # 20 bf16 read, 5 fp32 read, 20 fp32 written; a comparison an element, and none of whole numbers
    ("aten::mul", (T(4, 5), T(5, dtype="fp32")), ("custom", {"dtype": "fp32", "vector_flop": 20, "read": 60, "write": 80})),
    ("aten::lt", (T(4, 5), 0), ("custom", {"dtype": "bf16", "vector_flop": 20, "read": 40, "write": 20})),
    ("aten::eq", (T(4, 5, dtype="int64"), 0), ("custom", {"dtype": "int64", "read": 160, "write": 20})),
    ("aten::copy_", (T(4, 5, dtype="fp32"), T(4, 5)),
     ("elementwise", {"function": "cast", "elements": 20, "dtype": "bf16", "out_dtype": "fp32"})),
    ("aten::cat", ((T(4, 5), T(0), T(2, 5)), 0), ("copy", {"elements": 30, "dtype": "bf16"})),
    ("aten::embedding", (T(100, 8), T(2, 3, dtype="int64")), ("embedding", {"tokens": 6, "vocab": 100, "hidden": 8, "dtype": "bf16"})),
    ("aten::index_select", (T(100, 8), 0, T(5, dtype="int64")), ("custom", {"dtype": "bf16", "read": 5 * 8 + 80, "write": 80})),
    ("aten::sum", (T(4, 6), (-1,)), ("reduction", {"rows": 4, "cols": 6, "dtype": "bf16", "function": "sum"})),
    ("aten::mean", (T(4, 6), None), ("reduction", {"rows": 1, "cols": 24, "dtype": "bf16", "function": "mean"})),
    ("aten::_softmax", (T(2, 3, 8), -1, False), ("softmax", {"rows": 6, "cols": 8, "dtype": "bf16"})),
    ("aten::native_layer_norm", (T(2, 3, 8), (8,), T(8), None), ("layernorm", {"rows": 6, "cols": 8, "dtype": "bf16", "bias": False})),
    ("aten::native_dropout", (T(4, 5), 0.2, True), ("dropout", {"elements": 20, "dtype": "bf16", "p": 0.2})),
    ("aten::_fused_adamw_", ((T(4, 5), T(6)), (T(4, 5), T(6)), (T(4, 5, dtype="fp32"), T(6, dtype="fp32"))),
     ("adamw", {"parameters": 26, "dtype": "bf16", "state_dtype": "fp32"})),
    ("aten::_foreach_add_", ((T(4, 5), T(6)), (T(4, 5), T(6))), ("elementwise", {"function": "add", "elements": 26, "dtype": "bf16"})),
    ("aten::convolution", (T(2, 3, 8, 8), T(4, 3, 3, 3), None, (2, 2), (1, 1), (1, 1), False, (0, 0), 1),
     ("conv2d", {"batch": 2, "in_channels": 3, "height": 8, "width": 8, "out_channels": 4,
                 "kernel": 3, "dtype": "bf16", "stride": 2, "padding": 1})),
    ("aten::cross_entropy_loss", (T(6, 100), T(6, dtype="int64"), None, 1),
     ("cross_entropy", {"tokens": 6, "vocab": 100, "dtype": "bf16", "scratch_dtype": "bf16", "mean": True})),
    ("aten::nll_loss_backward", (T(dtype="fp32"), T(6, 100, dtype="fp32"), T(6, dtype="int64"), None, 1, -100, T(dtype="fp32")),
     ("custom", {"dtype": "fp32", "read": 48, "write": 2400})),
    # zeros for 40 numbers of the view's source, 10 read
    ("aten::slice_backward", (T(2, 5), (8, 5), 0, 0, 2, 1), ("custom", {"dtype": "bf16", "read": 20, "write": 80})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "expected"), BY_HAND, ids=[name for name, _, _ in BY_HAND])
def test_by_hand(name: str, args: tuple[Any, ...], expected: tuple[str, dict[str, Any]]) -> None:
    assert work(*args, name=name) == (*expected, "forward")


@pytest.mark.parametrize(
    ("name", "args", "op"),
    [
        ("gelu_backward", (T(4, 5), T(4, 5), "none"), "elementwise"),
        ("_softmax_backward_data", (T(4, 5), T(4, 5), -1), "softmax"),
        ("native_layer_norm_backward", (T(4, 5), T(4, 5), (5,), T(4), T(4), T(5), T(5)), "layernorm"),
        ("embedding_dense_backward", (T(2, 3, 8), T(2, 3, dtype="int64"), 100), "embedding"),
        ("native_dropout_backward", (T(4, 5), T(4, 5, dtype="bool"), 1.25), "dropout"),
    ],
)
def test_gradients_are_the_operator_backward(name: str, args: tuple[Any, ...], op: str) -> None:
    found, _, direction = work(*args, name=name)
    assert (found, direction) == (op, "backward")


# --------------------------------------------------------------------------- attention
Q, K, V = T(2, 8, 16, 64), T(2, 2, 32, 64), T(2, 2, 32, 48)


def test_attention_by_all_of_its_names_is_the_same() -> None:
    base = {"batch": 2, "heads": 8, "kv_heads": 2, "q_len": 16, "kv_len": 32, "head_dim": 64, "v_head_dim": 48, "dtype": "bf16"}
    for name, form in FORMS.items():
        args: list[Any] = [None] * 16
        swapped = [Tensor((t.shape[0], t.shape[2], t.shape[1], t.shape[3]), t.dtype) for t in (Q, K, V)] if form.rows_first else [Q, K, V]
        args[form.query : form.query + 3] = swapped
        args[form.dropout], args[form.causal] = 0.0, False
        op, fields, direction = work(*args, name=f"aten::{name}")
        fields.pop("implementation", None)
        assert (op, fields, direction) == ("attention", base, form.direction)


def test_causal_attention_of_torch_counts_from_the_first_key() -> None:
    """16 queries over 32 keys see 1, 2, ... 16 of them: 136 pairs, and not the 392 of a mask that ends at the last key."""
    _, fields, _ = work(Q, K, V, None, 0.0, True, name="aten::scaled_dot_product_attention")
    (found,) = recognise(Call("aten::scaled_dot_product_attention", (Q, K, V, None, 0.0, True)))
    op: Any = found.build()
    pairs = int(np.tril(np.ones((16, 32))).sum())
    assert (fields["kv_len"], fields["causal"], pairs) == (16, True, 136)
    assert op.counts().tensor == pytest.approx(2 * 2 * 8 * pairs * (64 + 48), rel=1 / 16)  # the operator leaves out half the diagonal


def test_what_a_record_does_not_hold_is_not_guessed() -> None:
    for name, args in [
        ("aten::mm", ()),
        ("aten::scaled_dot_product_attention", (Q, K, V, None, 0.0, "")),
        ("aten::softmax", (T(4, 5), None)),
        ("aten::index", (T(4, 5), (T(4, 5, dtype="bool"),))),
        ("aten::native_layer_norm", (T(4, 5), "", T(5), T(5))),
        ("aten::_flash_attention_forward", (Q, K, V, T(3, dtype="int32"), T(3, dtype="int32"), 16, 32, 0.0, True)),
        ("aten::mm", (Tensor((2, 2), "c10::complex<float>"), Tensor((2, 2), "c10::complex<float>"))),
        ("aten::to", (T(4, 5), "")),
        ("mylib::custom", (T(4, 5),)),
    ]:
        with pytest.raises(Unrecognised):
            recognise(Call(name, args))
    assert not known("mylib::custom")
    assert known("aten::mm")


def test_views_and_empty_tensors_are_no_work() -> None:
    for name in ("aten::view", "aten::t", "aten::transpose_", "aten::empty", "aten.slice.Tensor"):
        assert recognise(Call(name, (T(4, 5),))) == ()
    assert recognise(Call("aten::mm", (T(0, 5), T(5, 3)))) == ()
    assert recognise(Call("aten::relu", (T(0, 5),))) == ()
    assert recognise(Call("aten::dropout", (T(4, 5), 0.1, False))) == ()


# --------------------------------------------------------------------------- properties
SIZES = st.integers(1, 6)


@given(st.lists(SIZES, max_size=3), st.lists(SIZES, min_size=2, max_size=2), SIZES, st.lists(st.booleans(), min_size=3, max_size=3))
def test_products_are_those_of_numpy(lead: list[int], sides: list[int], k: int, ones: list[bool]) -> None:
    m, n = sides
    other = [1 if one else size for size, one in zip(lead, ones, strict=False)]
    a, b = (*lead, m, k), (*other, k, n)
    shape = np.matmul(np.zeros(a), np.zeros(b)).shape
    (found,) = recognise(Call("aten::matmul", (T(*a), T(*b))))
    assert found.build().counts().tensor == 2 * k * int(np.prod(shape))


@given(st.lists(SIZES, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3), st.integers(0, 2))
def test_shapes_are_broadcast_as_by_numpy(shape: list[int], ones: list[bool], cut: int) -> None:
    other = [1 if one else size for size, one in zip(shape, ones, strict=False)][cut:]
    found = result_of(Call("aten::add", ()), (T(*shape), T(*other)))
    assert found.shape == np.broadcast_shapes(tuple(shape), tuple(other))


@given(st.sampled_from(sorted(FORWARD)), st.lists(SIZES, min_size=1, max_size=3))
def test_functions_of_each_element_move_each_of_their_tensors_once(name: str, shape: list[int]) -> None:
    operands = (T(*shape, dtype="bool"), T(*shape), T(*shape)) if name == "where" else (T(*shape),)
    (found,) = recognise(Call(f"aten::{name}", operands))
    traffic = found.build().compulsory(None)
    n = int(np.prod(shape))
    written = 1 if FORWARD[name].to == "bool" else 2
    assert traffic.hbm == n * (sum(DTYPES[t.dtype].bytes for t in operands) + written)


def test_a_handler_cannot_be_registered_twice() -> None:
    from roofline.ingest.aten import handles

    with pytest.raises(ValueError, match="two handlers for mm"):
        handles("mm")(lambda call: (Mapped("copy", {}),))
