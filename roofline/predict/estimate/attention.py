"""Model of fused attention: prefill, decode and backward, each with parameters of its own.

Many queries a sequence are bound by tiles of matrix products, one query by keys that stream from memory; kernels, and what
decides their time, differ. Which of the three serves a kernel follows from its shape alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from roofline.dtypes import dtype as find_dtype
from roofline.errors import RooflineError
from roofline.numeric import anywhere, is_array
from roofline.ops.launched import FusedAttention
from roofline.predict.estimate import attention_backward, attention_decode, attention_prefill
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms

RELATED = {"bf16": ("bf16", "fp16"), "fp16": ("fp16", "bf16")}
"""By matrix format of the products, whose parameters serve; all others run as bf16 would, at their own rates and bytes."""
PREFILL = {
    "engine": ("prefill.engine", "flash.torch"),
    "flash": ("flash.torch", "cudnn.torch", "prefill.engine"),
    "cudnn": ("cudnn.torch", "prefill.engine", "flash.torch"),
    "efficient": ("efficient.torch", "flash.torch", "prefill.engine"),
}
"""Variant and library by implementation, the best first."""
DECODE = {
    "engine": ("decode.engine", "decode.torch"),
    "flash": ("decode.torch", "decode.engine"),
    "cudnn": ("decode_cudnn.torch", "decode.torch", "decode.engine"),
    "efficient": ("decode_efficient.torch", "decode.torch", "decode.engine"),
}
BACKWARD = {
    "flash": ("backward.torch",),
    "cudnn": ("backward_cudnn.torch", "backward.torch"),
    "efficient": ("backward_efficient.torch", "backward.torch"),
}
LATENT = "latent"
"""Attention over latent rows: none of the sets above serves, since a kernel that reads keys and values apart is another one."""
VARIANTS = {"prefill": PREFILL, "decode": DECODE, "backward": BACKWARD}

Formula = Callable[[FusedAttention, Device, Parameters], Terms]


class AttentionModel:
    """Model of `FusedAttention`."""

    name: ClassVar[str] = "attention"
    nearest_device: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = attention_prefill.PARAMETERS

    def sets(self, kernel: FusedAttention, library: str) -> tuple[str, ...]:
        """Own kernel and format first, then the other half precision, then a kernel of another library.

        Raises:
            RooflineError: an array of lengths in which some sequences have one query and others more.
        """
        named, phase = kernel.implementation, phase_of(kernel)
        if named == LATENT:
            return (f"attention.{LATENT}.{library}.{kernel.dtype}",)
        variants = VARIANTS[phase].get(named, VARIANTS[phase]["flash"])
        formats = RELATED.get(find_dtype(kernel.dtype).matrix, (find_dtype(kernel.dtype).matrix, "bf16", "fp16"))
        return tuple(f"attention.{variant}.{dtype}" for variant in variants for dtype in formats)

    def parameters_of(self, name: str) -> tuple[Parameter, ...]:
        """The parameters of a set, which depend on its variant."""
        return _of(name.split(".")[1])

    def terms(self, kernel: FusedAttention, device: Device, p: Parameters) -> Terms:
        """The time of one call."""
        return FORMULAS[phase_of(kernel)](kernel, device, p)


FORMULAS: dict[str, Formula] = {
    "prefill": attention_prefill.prefill,
    "decode": attention_decode.decode,
    "backward": attention_backward.backward,
}


def _of(variant: str) -> tuple[Parameter, ...]:
    first = variant.partition("_")[0]
    return {"decode": attention_decode.PARAMETERS, "backward": attention_backward.PARAMETERS}.get(first, attention_prefill.PARAMETERS)


def phase_of(kernel: FusedAttention) -> str:
    """``decode`` where each sequence has one query, else ``prefill``; ``backward`` by its direction.

    Raises:
        RooflineError: an array of lengths in which some sequences have one query and others more.
    """
    if kernel.direction == "backward":
        return "backward"
    if not is_array(kernel.q_len):
        return "decode" if kernel.q_len == 1 else "prefill"
    single = kernel.q_len == 1
    if not anywhere(single):
        return "prefill"
    if anywhere(kernel.q_len != 1):
        raise RooflineError("attention of one query a sequence is another kernel than that of many; sweep q_len 1 apart")
    return "decode"
