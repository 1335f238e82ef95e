"""What the operators compute, as plain mathematics in float64: what every kernel's output is held against.

Written apart from the kernels and without torch's own composite functions where a formula will do, so that an error of one
does not hide in the other. Inputs are the kernel's own, after their rounding. Results come in the order of the operator's
outputs; those of a backward pass are the gradients of its inputs and weights in order, by autograd through the same formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from roofline.errors import MissingCapabilityError
from roofline.measure import reference_mixers
from roofline.measure.allocate import differentiable, is_real, results
from roofline.measure.constants import ADAM_EPSILON, ADAM_STEP, BETAS, CONSTANT, EPSILON, LEARNING_RATE, MOMENTUM, WEIGHT_DECAY
from roofline.measure.loads import loads
from roofline.ops.base import Op
from roofline.ops.functions import FUNCTIONS as COSTS

Values = Mapping[str, torch.Tensor]
Results = tuple[torch.Tensor, ...]


def reference(op: Op, tensors: Values, direction: str = "forward") -> Results:
    """The results in float64, or the gradients for a backward pass. An operator of another package may have ``reference``.

    Raises:
        MissingCapabilityError: nobody wrote down what this operator computes.
    """
    compute: Callable[[Any, Values], Results] | None = FORWARD.get(op.name) or getattr(type(op), "reference", None)
    if compute is None:
        raise MissingCapabilityError(f"operator '{op.name}' has no float64 reference; give its class a method reference(tensors)")
    exact = {name: t.double() if t.is_floating_point() else t for name, t in tensors.items()}
    if direction == "forward":
        return compute(op, exact)
    leaves = {t.name: exact[t.name].detach().requires_grad_() for t in differentiable(op)}
    outputs = compute(op, {**exact, **leaves})
    real = [(out, exact[f"d{t.name}"]) for out, t in zip(outputs, results(op), strict=True) if is_real(t)]
    return torch.autograd.grad([out for out, _ in real], list(leaves.values()), [dy for _, dy in real])


# --------------------------------------------------------------------------- products
def _activated(name: str, c: torch.Tensor) -> torch.Tensor:
    return c if name == "none" else FUNCTIONS[name](c)


def _gemm(op: Any, t: Values) -> Results:
    c = t["a"].double() @ t["w"].double()
    c = c + t["bias"] if op.bias else c
    return (_activated(op.activation, c + t["c"] if op.accumulate else c),)


def _batched_gemm(op: Any, t: Values) -> Results:
    return (t["a"] @ t["b"],)


def _grouped_gemm(op: Any, t: Values) -> Results:
    """Each row times the matrix that it belongs to, looked up row by row."""
    owners = [at for at, count in enumerate(loads(op)) for _ in range(count)]
    return (torch.stack([t["a"][row] @ t["w"][at] for row, at in enumerate(owners)]),)


def _conv2d(op: Any, t: Values) -> Results:
    stride = (int(op.stride), int(op.stride_w or op.stride))
    padding = (int(op.padding), int(op.padding if op.padding_w < 0 else op.padding_w))
    dilation = (int(op.dilation), int(op.dilation_w or op.dilation))
    return (torch.nn.functional.conv2d(t["x"], t["w"], t.get("bias"), stride, padding, dilation, int(op.groups)),)


# --------------------------------------------------------------------------- attention
def seen(op: Any, device: torch.device) -> torch.Tensor:
    """[q, k]: key j is seen by query i if it is not ahead of it, counted from the last, nor further back than the window."""
    ahead = torch.arange(op.kv_len, device=device)[None] - torch.arange(op.q_len, device=device)[:, None] - (op.kv_len - op.q_len)
    everything = torch.ones_like(ahead, dtype=torch.bool)
    causal = ahead <= 0 if op.causal else everything
    return causal & (ahead > -op.window) if op.window else causal


def _one_head(op: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """O[group, q, d] of the query heads that share one key head."""
    s = (q @ k.mT) * op.head_dim**-0.5
    s = s.masked_fill(~mask, -torch.inf)
    p = (s - s.amax(-1, keepdim=True)).exp()
    out: torch.Tensor = (p / p.sum(-1, keepdim=True)) @ v
    return out


def _attention(op: Any, t: Values) -> Results:
    """One key head at a time, so that the scores of all of them never exist together."""
    mask = seen(op, t["q"].device)
    batch, kv_heads = t["k"].shape[:2]
    groups = t["q"].reshape(batch * kv_heads, -1, *t["q"].shape[2:])
    heads = zip(groups, t["k"].flatten(0, 1), t["v"].flatten(0, 1), strict=True)
    out = torch.stack([_one_head(op, q, k, v, mask) for q, k, v in heads])
    return (out.reshape(batch, -1, *out.shape[2:]),)


# --------------------------------------------------------------------------- rows
def _softmax(op: Any, t: Values) -> Results:
    e = (t["x"] - t["x"].amax(1, keepdim=True)).exp()
    return (e / e.sum(1, keepdim=True),)


def _normalised(op: Any, t: Values, centre: bool) -> Results:
    x = t["x"] + t["residual"] if op.residual else t["x"]
    z = x - x.mean(1, keepdim=True) if centre else x
    y = z / (z.square().mean(1, keepdim=True) + EPSILON).sqrt() * t["gamma"]
    y = y + t["beta"] if "beta" in t else y
    return (x, y) if op.residual else (y,)


def _cross_entropy(op: Any, t: Values) -> Results:
    z = t["logits"]
    top = z.amax(1, keepdim=True)
    log_sum = (z - top).exp().sum(1).log() + top[:, 0]
    return (log_sum - z.gather(1, t["targets"][:, None])[:, 0],)


def _reduction(op: Any, t: Values) -> Results:
    x = t["x"]
    return (x.amax(1) if op.function == "max" else x.sum(1) / (x.shape[1] if op.function == "mean" else 1),)


# --------------------------------------------------------------------------- elements
FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": lambda a, b: torch.where(a > b, a, b),
    "minimum": lambda a, b: torch.where(a < b, a, b),
    "fma": lambda a, b, c: a * b + c,
    "scale": lambda x: CONSTANT * x,
    "neg": lambda x: -x,
    "abs": lambda x: torch.where(x < 0, -x, x),
    "relu": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
    "square": lambda x: x * x,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": lambda x: 1 / x.sqrt(),
    "tanh": torch.tanh,
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "silu": lambda x: x / (1 + (-x).exp()),
    "gelu": lambda x: x * (1 + torch.erf(x * 0.5**0.5)) / 2,
    "gelu_tanh": lambda x: x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
    "cast": lambda x: x,
    "copy": lambda x: x,
}


def _elementwise(op: Any, t: Values) -> Results:
    if op.function == "fill":
        return (torch.full_like(t["y"], CONSTANT),)
    x = list(t["x"].unbind(0))
    x += [x[0][:1]] * (COSTS[op.function].inputs - len(x))  # one that is not read in full is a single number
    if op.function in ("masked_fill", "where"):
        chosen, other = x if op.function == "where" else (torch.full_like(x[0], CONSTANT), x[0])
        return (torch.where(t["mask"], chosen, other),)
    return (FUNCTIONS[op.function](*x),)


def _swiglu(op: Any, t: Values) -> Results:
    return (FUNCTIONS["silu"](t["gate"]) * t["up"],)


def _dropout(op: Any, t: Values) -> Results:
    """What the mask at hand makes of x; which elements it drops is chance, see `roofline.measure.check`."""
    return t["mask"], t["x"] * t["mask"] / (1 - op.p) if op.p < 1 else t["x"] * 0


def _rotary(op: Any, t: Values) -> Results:
    """Pairs (x_j, x_(j + d/2)) turned by the angle of their position, as complex numbers."""
    table = t["cos_sin"].repeat(op.tokens // len(t["cos_sin"]), 1)[:, None]
    half = table.shape[-1] // 2
    turn = torch.complex(table[..., :half], table[..., half:])
    q, k = (torch.complex(x[..., :half], x[..., half:]) * turn for x in (t["q"], t["k"]))
    return torch.cat((q.real, q.imag), -1), torch.cat((k.real, k.imag), -1)


# --------------------------------------------------------------------------- memory and optimizer
def _copy(op: Any, t: Values) -> Results:
    """Over a link: to the device what the host holds, from it what the device holds."""
    if not op.over:
        return (t["source"],)
    return (t["payload"] if op.read else t["host"],)


def _adamw(op: Any, t: Values) -> Results:
    first, second = BETAS
    m = first * t["m"] + (1 - first) * t["g"]
    v = second * t["v"] + (1 - second) * t["g"] ** 2
    step = (m / (1 - first**ADAM_STEP)) / ((v / (1 - second**ADAM_STEP)).sqrt() + ADAM_EPSILON)
    p = t["p"] * (1 - LEARNING_RATE * WEIGHT_DECAY) - LEARNING_RATE * step
    return (p, m, v, p) if "copy" in t else (p, m, v)


def _sgd(op: Any, t: Values) -> Results:
    step = MOMENTUM * t["m"] + t["g"] if op.momentum else t["g"]
    p = t["p"] - LEARNING_RATE * step
    return (p, *((step,) if op.momentum else ()), *((p,) if "copy" in t else ()))


FORWARD: dict[str, Callable[[Any, Values], Results]] = {
    "gemm": _gemm,
    "batched_gemm": _batched_gemm,
    "grouped_gemm": _grouped_gemm,
    "conv2d": _conv2d,
    "attention": _attention,
    "softmax": _softmax,
    "layernorm": lambda op, t: _normalised(op, t, centre=True),
    "rmsnorm": lambda op, t: _normalised(op, t, centre=False),
    "cross_entropy": _cross_entropy,
    "reduction": _reduction,
    "elementwise": _elementwise,
    "swiglu": _swiglu,
    "dropout": _dropout,
    "rotary": _rotary,
    "embedding": lambda op, t: (t["table"][t["ids"].long()],),
    "transpose": lambda op, t: (t["x"].mT,),
    "copy": _copy,
    "adamw": _adamw,
    "sgd": _sgd,
    **reference_mixers.FORWARD,
}
"""What each operator computes."""
