"""Whether products of fp32 tensors may use TF32: settings of the process, so that they hold for one call and are put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from roofline.ops.base import Op


def exactly(op: Op, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call, with TF32 allowed if that is the operator's dtype and forbidden for plain fp32; else as it is.

    A product of fp32 tensors otherwise runs in whatever the process happens to allow, at a tenth or ten times the rate
    (convolutions use TF32 unless told not to).
    """
    if op.dtype not in ("fp32", "tf32"):
        return call

    def within() -> Any:
        with _allowed(op.dtype == "tf32"):
            return call()

    return within


def _settings() -> list[tuple[Any, str, Any, Any]]:
    """Where the process keeps it (object, attribute, value that allows, value that forbids); torch 2.9 renamed them."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if hasattr(cudnn, "conv"):
        return [(matmul, "fp32_precision", "tf32", "ieee"), (cudnn.conv, "fp32_precision", "tf32", "ieee")]
    return [(matmul, "allow_tf32", True, False), (cudnn, "allow_tf32", True, False)]


@contextmanager
def _allowed(tf32: bool) -> Iterator[None]:
    settings = _settings()
    before = [getattr(place, name) for place, name, _, _ in settings]
    for place, name, yes, no in settings:
        setattr(place, name, yes if tf32 else no)
    try:
        yield
    finally:
        for (place, name, _, _), value in zip(settings, before, strict=True):
            setattr(place, name, value)
