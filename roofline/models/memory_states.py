"""What training keeps of each parameter: the weight, its gradient, the optimizer's states, and how ZeRO shards them.

P parameters on n ranks that share them, with w, g and o bytes a parameter of weight, gradient and optimizer, need
stage 0: (w + g + o) P; 1: (w + g) P + o P / n; 2: w P + (g + o) P / n; 3: (w + g + o) P / n (Rajbhandari et al. 2019, arXiv 1910.02054,
section 5 and figure 1, where w = g = 2 and o = 12). Megatron's distributed optimizer is stage 1 with fp32 gradients: 6 + 12 / n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from roofline.dtypes import dtype as find_dtype
from roofline.errors import UsageError, did_you_mean
from roofline.numeric import Number
from roofline.records import dataclass

MASTER_BYTES = 4
"""An fp32 copy of a weight that is computed in fewer bits."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer: the operator of its step with the keys that make it this one, how many states it keeps of a parameter and in which
    format, and whether it updates an fp32 copy of 16-bit weights."""

    operator: str
    states: int
    state_dtype: str
    master: bool
    said: str
    keys: Mapping[str, bool] = field(default_factory=dict)

    def has_master(self, weight_dtype: str) -> bool:
        """Whether weights of this format have an fp32 copy, which is the one that is updated."""
        return self.master and find_dtype(weight_dtype).bits < 32


OPTIMIZERS = {
    "adamw": Optimizer("adamw", 2, "fp32", True, "fp32 first and second moments, fp32 master weights"),
    "adamw_bf16": Optimizer("adamw", 2, "bf16", False, "bf16 first and second moments, weights updated in place"),
    "sgd": Optimizer("sgd", 0, "fp32", True, "fp32 master weights"),
    "sgd_momentum": Optimizer("sgd", 1, "fp32", True, "fp32 momentum, fp32 master weights", {"momentum": True}),
}
"""Kinds of optimizer by name."""


def optimizer_of(name: str) -> Optimizer:
    """The optimizer of a name.

    Raises:
        UsageError: there is none; with the nearest.
    """
    if name not in OPTIMIZERS:
        raise UsageError(f"unknown optimizer '{name}'; {did_you_mean(name, list(OPTIMIZERS))}")
    return OPTIMIZERS[name]


def optimizer_bytes(name: str, weight_dtype: str) -> int:
    """Bytes a parameter of an optimizer's states, master weights included where weights have fewer than 32 bits.

    Raises:
        UsageError: no optimizer of that name.

    >>> optimizer_bytes("adamw", "bf16")
    12
    """
    found = optimizer_of(name)
    states = found.states * int(find_dtype(found.state_dtype).bytes)
    return states + (MASTER_BYTES if found.has_master(weight_dtype) else 0)


def optimizer_step(name: str, weight_dtype: str, gradient_dtype: str | None) -> dict[str, str | bool]:
    """The keys of the step of an optimizer over weights of a format, beside how many there are; formats only where they are not those
    that the operator takes by itself.

    Raises:
        UsageError: no optimizer of that name.

    >>> optimizer_step("adamw", "bf16", None)
    {'op': 'adamw', 'master': True}
    """
    found = optimizer_of(name)
    master = found.has_master(weight_dtype)
    updated = "fp32" if master else weight_dtype
    keys: dict[str, str | bool] = {"op": found.operator, **found.keys, **({"master": True} if master else {})}
    if found.states and found.state_dtype != updated:
        keys["state_dtype"] = found.state_dtype
    if gradient_dtype is not None and gradient_dtype != weight_dtype:
        keys["grad_dtype"] = gradient_dtype
    return keys


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
