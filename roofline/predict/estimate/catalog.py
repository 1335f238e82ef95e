"""The model of each sort of kernel."""

from __future__ import annotations

from typing import Any

from roofline.predict.estimate.attention import AttentionModel
from roofline.predict.estimate.base import Model, Parameter
from roofline.predict.estimate.grouped import GroupedModel
from roofline.predict.estimate.host import HostModel
from roofline.predict.estimate.product import ProductModel
from roofline.predict.estimate.stream import StreamModel
from roofline.predict.estimate.transfer import TransferModel

MODELS: dict[str, Model] = {
    "Product": ProductModel(),
    "GroupedProduct": GroupedModel(),
    "Stream": StreamModel(),
    "Transfer": TransferModel(),
    "FusedAttention": AttentionModel(),
    "Host": HostModel(),
}
"""By the name of the class that describes the kernel, as `roofline.ops.launched` has them; and Host, which issues any of them."""


def model_of(kernel: Any) -> Model:
    """The model of a launched kernel."""
    return MODELS[type(kernel).__name__]


def model_named(name: str) -> Model | None:
    """The model of that name, or None."""
    return next((m for m in MODELS.values() if m.name == name), None)


def declared(model: Model, name: str) -> tuple[Parameter, ...]:
    """The parameters of a set: those of its variant where the model has several (``parameters_of``)."""
    of_variant = getattr(model, "parameters_of", None)
    found: tuple[Parameter, ...] = of_variant(name) if of_variant else model.parameters
    return found
