"""Steps of optimizers: bytes a parameter by format."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.optimizer import AdamW, Sgd


@pytest.mark.parametrize(
    ("fields", "bytes_a_parameter"),
    [
        ({"dtype": "fp32"}, 28),
        ({"dtype": "fp32", "master": True}, 30),
        ({"dtype": "bf16", "master": True, "grad_dtype": "fp32"}, 30),
        ({"dtype": "bf16", "master": True}, 28),
        ({"dtype": "bf16"}, 14),
        ({"dtype": "bf16", "state_dtype": "fp32"}, 2 * 2 + 4 * 4 + 2),
    ],
)
def test_bytes_a_parameter(fields, bytes_a_parameter):
    """p, m, v read and written, g read, the copy written."""
    assert AdamW(parameters=10, **fields).compulsory(None).hbm == 10 * bytes_a_parameter


@pytest.mark.parametrize(
    ("fields", "bytes_a_parameter"),
    [
        ({"dtype": "fp32"}, 4 + 4 + 4),
        ({"dtype": "fp32", "momentum": True}, 4 + 4 + 4 + 4 + 4),
        ({"dtype": "bf16", "master": True}, 4 + 4 + 2 + 2),
        ({"dtype": "bf16", "master": True, "momentum": True}, 8 + 8 + 2 + 2),
        ({"dtype": "bf16", "master": True, "momentum": True, "grad_dtype": "fp32"}, 8 + 8 + 4 + 2),
    ],
)
def test_bytes_a_parameter_of_descent(fields, bytes_a_parameter):
    """p and m read and written, g read, the copy written; two FLOP for each of p and m."""
    op = Sgd(parameters=10, **fields)
    assert op.compulsory(None).hbm == 10 * bytes_a_parameter
    assert op.counts().vector == 10 * (4 if op.momentum else 2)


def test_descent_launches_what_converts_beside_it():
    """As torch has it: the gradient into the format of p, one fused kernel, the copy for the model."""
    kinds = [k.kind for k in Sgd(parameters=10, dtype="bf16", master=True).launched("eager")]
    assert kinds == ["elementwise", "sgd", "elementwise"]
    assert [k.kind for k in Sgd(parameters=10, dtype="fp32").launched("eager")] == ["sgd"]


def test_seven_billion_parameters_take_63_ms_of_an_h100():
    """30 B a parameter at 3.35 TB/s."""
    time_s = AdamW(parameters=7 * 10**9, dtype="fp32", master=True).compulsory(None).hbm / 3.35e12
    assert time_s == pytest.approx(62.7e-3, rel=1e-3)


@given(parameters=st.integers(1, 10**12), master=st.booleans())
def test_twice_the_parameters_is_twice_the_work(parameters, master):
    """Everything is linear."""
    op = AdamW(parameters=parameters, dtype="fp32", master=master)
    twice = replace(op, parameters=2 * parameters)
    assert op.counts().vector == 12 * op.counts().sfu == 12 * parameters
    assert twice.counts() == op.counts() + op.counts()
    assert twice.compulsory(None) == op.compulsory(None) + op.compulsory(None)


def test_state_is_what_torch_keeps():
    """An independent count: the optimizer's own tensors after a step."""
    torch = pytest.importorskip("torch")
    p = torch.nn.Parameter(torch.ones(10))
    optimizer = torch.optim.AdamW([p])
    p.grad = torch.ones(10)
    optimizer.step()
    state = [t for t in optimizer.state[p].values() if t.numel() == 10]
    kept = [t for t in AdamW(parameters=10, dtype="fp32").tensors() if t.name in ("m", "v")]
    assert [t.bytes for t in kept] == [t.nbytes for t in state]


def test_formula_with_folded_corrections_is_that_of_torch():
    """The twelve FLOP counted compute the step that torch takes."""
    torch = pytest.importorskip("torch")
    p, g = torch.nn.Parameter(torch.randn(9, dtype=torch.float64)), torch.randn(9, dtype=torch.float64)
    before = p.detach().clone()
    optimizer = torch.optim.AdamW([p], lr=0.1, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.5)
    p.grad = g.clone()
    optimizer.step()
    m, v = 0.1 * g, 0.01 * g * g
    root = 0.01**0.5  # the correction of sqrt(v) after one step
    step, eps = 0.1 / 0.1 * root, 1e-3 * root
    assert torch.allclose(p.detach(), before * (1 - 0.1 * 0.5) - step * (m / (torch.sqrt(v) + eps)))


def test_arrays_give_the_same_bits(same_in_arrays):
    """A sweep is the same formula."""
    same_in_arrays(AdamW(parameters=1000, dtype="bf16", master=True))
