"""Elementwise functions, swiglu, dropout and rotary."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import work_of
from roofline.ops.elementwise import FUNCTIONS, Dropout, Elementwise, Rotary, Swiglu

SIZES = st.integers(1, 10**8)


def elementwise(function, **fields):
    """One of the table, with a target for a cast."""
    target = {"out_dtype": "fp32"} if function == "cast" else {}
    return Elementwise(**{"function": function, "elements": 1000, "dtype": "bf16", **target, **fields})


@pytest.mark.parametrize(
    ("function", "vector", "sfu", "hbm"),
    [
        ("add", 1000, 0, 6000),
        ("relu", 1000, 0, 4000),
        ("fma", 2000, 0, 8000),
        ("silu", 4000, 1000, 4000),
        ("gelu", 8000, 1000, 4000),
        ("exp", 0, 1000, 4000),
        ("cast", 0, 0, 6000),
        ("fill", 0, 0, 2000),
        ("masked_fill", 1000, 0, 5000),
    ],
)
def test_hand_worked(function, vector, sfu, hbm):
    """1000 elements of 2 bytes; a mask is a byte, the cast writes 4."""
    work = work_of(elementwise(function), None)
    assert (work.counts.vector, work.counts.sfu, work.compulsory.hbm) == (vector, sfu, hbm)


def test_bytes_agree_with_counters_of_an_h200(h200):
    """Nsight Compute, 2^28 elements of bf16: add reads 1074 MB and writes 543 MB, gelu 537 and 539."""
    assert elementwise("add", elements=2**28).cached(h200).hbm == pytest.approx(1074e6 + 543e6, rel=0.01)
    assert elementwise("gelu", elements=2**28).cached(h200).hbm == pytest.approx(537e6 + 539e6, rel=0.01)


def test_gelu_executes_one_special_function_an_element_on_an_h200():
    """Nsight Compute: 8,388,608 warp instructions of the XU pipe for 2^28 elements."""
    assert elementwise("gelu", elements=2**28).counts().sfu == 8_388_608 * 32


def test_bytes_are_those_of_numpy_arrays():
    """An independent count: the arrays of a + b, fp32."""
    a, b = np.zeros(1000, np.float32), np.ones(1000, np.float32)
    assert elementwise("add", dtype="fp32").compulsory(None).hbm == a.nbytes + b.nbytes + (a + b).nbytes


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f != "fill"])
def test_a_function_reads_as_many_inputs_as_it_is_told(function):
    """One input more is one tensor more."""
    inputs = FUNCTIONS[function].inputs
    extra = elementwise(function, inputs=inputs + 1).compulsory(None).hbm - elementwise(function).compulsory(None).hbm
    assert extra == 2000
    assert elementwise(function, inputs=inputs).compulsory(None) == elementwise(function).compulsory(None)


@given(function=st.sampled_from(list(FUNCTIONS)), elements=SIZES)
def test_twice_the_elements_is_twice_the_work_both_ways(function, elements):
    """Forward and backward are linear."""
    op = elementwise(function, elements=elements)
    for one, two in zip((op, *op.backward()), (twice := replace(op, elements=2 * elements), *twice.backward()), strict=True):
        assert two.counts() == one.counts() + one.counts()
        assert two.compulsory(None) == one.compulsory(None) + one.compulsory(None)


@pytest.mark.parametrize(
    ("function", "hbm"), [("relu", 3), ("gelu", 3), ("scale", 2), ("mul", 5), ("sub", 2), ("masked_fill", 2.5), ("cast", 3)]
)
def test_backward_reads_what_it_keeps_and_writes_each_gradient(function, hbm):
    """In units of e: k kept inputs, dy, and a gradient for each."""
    (backward,) = elementwise(function).backward()
    assert backward.compulsory(None).hbm == hbm * 2000


@pytest.mark.parametrize("function", ["add", "copy", "fill"])
def test_no_kernel_runs_where_dy_is_the_gradient(function):
    """And nothing is kept for it."""
    assert elementwise(function).backward() == ()
    assert elementwise(function).saved() == ()


@pytest.mark.parametrize("function", [f for f, c in FUNCTIONS.items() if c.keeps])
def test_backward_needs_no_more_than_autograd_keeps(function):
    """Torch's own formulas keep the result for exp, sqrt, tanh, sigmoid, relu and the inputs for the rest."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    renamed = {
        "square": lambda x: x.pow(2),
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "silu": functional.silu,
        "fma": lambda a, b, c: torch.addcmul(c, a, b),
    }
    call = renamed[function] if function in renamed else getattr(torch, function)
    inputs = [torch.rand(8, requires_grad=True) for _ in range(FUNCTIONS[function].inputs)]
    result = call(*inputs)
    node = result.grad_fn
    keeps = "y" if hasattr(node, "_saved_result") else "x"
    assert keeps == FUNCTIONS[function].keeps


def test_contradictions_are_refused():
    """A cast to nothing; a constant with inputs."""
    assert "out_dtype" in Elementwise(function="cast", elements=1, dtype="bf16").check()
    assert "no inputs" in elementwise("fill", inputs=2).check()
    assert all(elementwise(f).check() is None for f in FUNCTIONS)


@pytest.mark.parametrize("function", list(FUNCTIONS))
def test_arrays_give_the_same_bits(same_in_arrays, function):
    """A sweep is the same formula."""
    same_in_arrays(elementwise(function))


def test_swiglu_hand_worked():
    """4 x 8 in bf16: 64 B a matrix; 5 FLOP and an exp an element; three matrices forward, five backward."""
    op = Swiglu(rows=4, cols=8, dtype="bf16")
    assert (op.counts().vector, op.counts().sfu, op.compulsory(None).hbm) == (160, 32, 3 * 64)
    assert op.backward()[0].compulsory(None).hbm == 5 * 64


@given(rows=SIZES, cols=SIZES)
def test_swiglu_costs_a_silu_and_a_product(rows, cols):
    """The fused operator saves one matrix written and read, and no arithmetic."""
    op = Swiglu(rows=rows, cols=cols, dtype="bf16")
    parts = [elementwise(f, elements=rows * cols) for f in ("silu", "mul")]
    assert op.counts() == parts[0].counts() + parts[1].counts()
    assert sum(p.compulsory(None).hbm for p in parts) - op.compulsory(None).hbm == 2 * 2 * rows * cols


def test_swiglu_gradient_formula_is_right():
    """dgate = dy up s (1 + gate (1 - s)), dup = dy gate s, against autograd."""
    torch = pytest.importorskip("torch")
    gate, up, dy = torch.randn(9, requires_grad=True), torch.randn(9, requires_grad=True), torch.randn(9)
    (torch.nn.functional.silu(gate) * up).backward(dy)
    s = torch.sigmoid(gate)
    assert torch.allclose(gate.grad, dy * up * s * (1 + gate * (1 - s)), atol=1e-6)
    assert torch.allclose(up.grad, dy * gate * s, atol=1e-6)


@pytest.mark.parametrize(("seeded", "hbm"), [(False, 5000), (True, 4000)])
def test_dropout_writes_a_byte_an_element_unless_seeded(seeded, hbm):
    """1000 elements of 2 bytes: 2 e and the mask, forward and backward."""
    op = Dropout(elements=1000, dtype="bf16", p=0.1, seeded=seeded)
    assert op.compulsory(None).hbm == op.backward()[0].compulsory(None).hbm == hbm
    assert op.counts().vector == 2000
    assert sum(t.bytes for t in op.saved()) == (0 if seeded else 1000)


def test_rotary_hand_worked():
    """2 tokens, 4 query and 1 key heads of 8: 40 pairs, 6 FLOP each; q 128 B, k 32 B, table 2 x 8 x 2 B."""
    op = Rotary(tokens=2, heads=4, kv_heads=1, head_dim=8, dtype="bf16")
    assert op.counts().vector == 240
    assert op.compulsory(None).hbm == 2 * (128 + 32) + 32
    assert replace(op, kv_heads=0).counts().vector == 2 * 4 * 8 * 2 // 2 * 6
    assert replace(op, positions=1).compulsory(None).hbm == 2 * (128 + 32) + 16


def test_rotary_in_place_moves_as_much_and_allocates_nothing():
    """q and k are read and written either way."""
    op = Rotary(tokens=2, heads=4, head_dim=8, dtype="bf16")
    inside = replace(op, in_place=True)
    assert inside.compulsory(None) == op.compulsory(None)
    assert [t.role for t in inside.tensors()] == ["inout", "inout", "in"]
    assert inside.backward() == (inside,)


@given(tokens=SIZES, heads=st.integers(1, 128), pairs=st.integers(1, 128))
def test_rotary_is_linear_in_tokens(tokens, heads, pairs):
    """With as many positions as tokens."""
    op = Rotary(tokens=tokens, heads=heads, head_dim=2 * pairs, dtype="bf16")
    one, two = work_of(op, None), work_of(replace(op, tokens=2 * tokens), None)
    assert two.counts == one.counts + one.counts
    assert two.compulsory == one.compulsory + one.compulsory


def test_rotary_needs_pairs():
    """An odd head has an element left over."""
    assert "even" in Rotary(tokens=1, heads=1, head_dim=7, dtype="bf16").check()
    assert "even" in Rotary(tokens=1, heads=1, head_dim=np.array([8.0, 7.0]), dtype="bf16").check()


@pytest.mark.parametrize(
    "op",
    [
        Swiglu(rows=30, cols=50, dtype="bf16"),
        Dropout(elements=100, dtype="bf16"),
        Rotary(tokens=20, heads=4, kv_heads=2, head_dim=8, dtype="bf16", in_place=True),
        Rotary(tokens=20, heads=4, head_dim=8, dtype="bf16", positions=10),
    ],
    ids=lambda op: op.name,
)
def test_arrays_give_the_same_bits_in_the_others(same_in_arrays, op):
    """A sweep is the same formula."""
    same_in_arrays(op)
