"""The model of each sort of kernel."""

from __future__ import annotations

from typing import Any

from roofline.predict.estimate.base import Model

MODELS: dict[str, Model] = {}
"""By the name of the class that describes the kernel: Product, FusedAttention, Stream, Transfer."""


def model_of(kernel: Any) -> Model:
    """The model of a launched kernel."""
    return MODELS[type(kernel).__name__]


def model_named(name: str) -> Model | None:
    """The model of that name, or None."""
    return next((m for m in MODELS.values() if m.name == name), None)
