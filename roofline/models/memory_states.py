"""What training keeps of each parameter: the weight, its gradient, the optimizer's states, and how ZeRO shards them.

P parameters on n ranks that share them, with w, g and o bytes a parameter of weight, gradient and optimizer, need
stage 0: (w + g + o) P; 1: (w + g) P + o P / n; 2: w P + (g + o) P / n; 3: (w + g + o) P / n (Rajbhandari et al. 2019, arXiv 1910.02054,
section 5 and figure 1, where w = g = 2 and o = 12). Megatron's distributed optimizer is stage 1 with fp32 gradients: 6 + 12 / n.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.dtypes import dtype as find_dtype
from roofline.errors import UsageError, did_you_mean
from roofline.numeric import Number

MASTER_BYTES = 4
"""An fp32 copy of a weight that is computed in fewer bits."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer: bytes a parameter of its states, and whether it updates an fp32 copy of 16-bit weights."""

    states_bytes: int
    master: bool
    said: str


OPTIMIZERS = {
    "adamw": Optimizer(8, True, "fp32 first and second moments, fp32 master weights"),
    "adamw_bf16": Optimizer(4, False, "bf16 first and second moments, weights updated in place"),
    "sgd": Optimizer(0, True, "fp32 master weights"),
    "sgd_momentum": Optimizer(4, True, "fp32 momentum, fp32 master weights"),
}
"""Kinds of optimizer by name."""


def optimizer_bytes(name: str, weight_dtype: str) -> int:
    """Bytes a parameter of an optimizer's states, master weights included where weights have fewer than 32 bits.

    Raises:
        UsageError: no optimizer of that name.

    >>> optimizer_bytes("adamw", "bf16")
    12
    """
    if name not in OPTIMIZERS:
        raise UsageError(f"unknown optimizer '{name}'; {did_you_mean(name, list(OPTIMIZERS))}")
    found = OPTIMIZERS[name]
    return found.states_bytes + (MASTER_BYTES if found.master and find_dtype(weight_dtype).bits < 32 else 0)


@dataclass(frozen=True, slots=True)
class State:
    """Bytes of one rank: weights, their gradients, the optimizer's states."""

    weights: Number
    gradients: Number
    optimizer: Number

    def __add__(self, other: State) -> State:
        return State(self.weights + other.weights, self.gradients + other.gradients, self.optimizer + other.optimizer)

    @property
    def total(self) -> Number:
        """All of it."""
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True, slots=True)
class Each:
    """Bytes a trained parameter: its weight, its gradient, its states."""

    weight: float
    gradient: float
    optimizer: float


def model_state(parameters: Number, ranks: Number, zero: int, each: Each) -> State:
    """What one of ``ranks`` that share ``parameters`` keeps of them at a ZeRO stage.

    >>> model_state(7.5e9, 64, 2, Each(2, 2, 12)).total / 1e9
    16.640625
    """
    share = [1 / ranks if zero >= stage else 1 for stage in (3, 2, 1)]
    amounts = (each.weight, each.gradient, each.optimizer)
    weights, gradients, optimizer = (parameters * amount * part for amount, part in zip(amounts, share, strict=True))
    return State(weights, gradients, optimizer)
