"""Kernels as users write them, good and bad; named as ``tests.measure.kernels_of_tests:name``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Call = Callable[[], Any]
ONE = torch.empty(32, 32)
CALLS = [0]


def right(op: Any, tensors: Any) -> Call:
    """A product."""
    return lambda: torch.mm(tensors["a"], tensors["w"], out=tensors["c"])


def zeros(op: Any, tensors: Any) -> Call:
    return lambda: torch.zeros_like(tensors["c"])


def nothing(op: Any, tensors: Any) -> Call:
    """Writes nothing and returns what it was given."""
    return lambda: tensors["c"]


def stale(op: Any, tensors: Any) -> Call:
    """Right for the first inputs, and the same for all others."""
    found = torch.mm(tensors["a"], tensors["w"])
    return lambda: found


def wrong_shape(op: Any, tensors: Any) -> Call:
    return lambda: torch.mm(tensors["a"], tensors["w"])[1:]


def none(op: Any, tensors: Any) -> Call:
    return lambda: None


def raises(op: Any, tensors: Any) -> Call:
    def run() -> None:
        raise ValueError("my own mistake\nin two lines")

    return run


def one_output(op: Any, tensors: Any) -> Call:
    """All sets write into one place."""
    out = ONE if tensors["c"].shape == ONE.shape else tensors["c"]
    return lambda: torch.mm(tensors["a"], tensors["w"], out=out)


def tires(op: Any, tensors: Any) -> Call:
    """Right for its first calls only."""

    def run() -> torch.Tensor:
        CALLS[0] += 1
        product = torch.mm(tensors["a"], tensors["w"])
        return product if CALLS[0] < 4 else 2 * product

    return run
