"""Model of fused attention: prefill, decode, backward and that over a latent, each with parameters of its own.

Many queries a sequence are bound by tiles of matrix products, one query by keys that stream from memory; kernels, and what
decides their time, differ. Which of the first three serves a kernel follows from its shape alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from roofline.dtypes import dtype as find_dtype
from roofline.errors import RooflineError
from roofline.numeric import anywhere, is_array
from roofline.ops.launched import FusedAttention
from roofline.predict.estimate import attention_backward, attention_decode, attention_latent, attention_prefill
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
UNEQUAL = "prefill_unequal.engine"
"""Keys wider than values, as latent attention has them where it is expanded: tiles of their own."""
LATENT = "latent"
"""Attention over latent rows: none of the sets above serves, since a kernel that reads keys and values apart is another one."""
LATENT_QUANTISED = "latent_quantised"
"""The same over rows that are kept in fewer bits than the products take: another kernel, which converts them."""
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
            return _latent_sets(kernel, library)
        variants = VARIANTS[phase].get(named, VARIANTS[phase]["flash"])
        if phase == "prefill" and anywhere(kernel.head_dim != kernel.v_head_dim):
            variants = (UNEQUAL, *variants)
        formats = RELATED.get(find_dtype(kernel.dtype).matrix, (find_dtype(kernel.dtype).matrix, "bf16", "fp16"))
        return tuple(f"attention.{variant}.{dtype}" for variant in variants for dtype in formats)

    def parameters_of(self, name: str) -> tuple[Parameter, ...]:
        """The parameters of a set, which depend on its variant."""
        return _of(name.split(".")[1])

    def terms(self, kernel: FusedAttention, device: Device, p: Parameters) -> Terms:
        """The time of one call."""
        return FORMULAS[LATENT if kernel.implementation == LATENT else phase_of(kernel)](kernel, device, p)


FORMULAS: dict[str, Formula] = {
    "prefill": attention_prefill.prefill,
    "decode": attention_decode.decode,
    "backward": attention_backward.backward,
    LATENT: attention_latent.latent,
}
PARAMETERS = {
    "decode": attention_decode.PARAMETERS,
    "backward": attention_backward.PARAMETERS,
    LATENT: attention_latent.PARAMETERS,
}
"""By the first word of a variant, where they are not those of prefill."""


def _latent_sets(kernel: FusedAttention, library: str) -> tuple[str, ...]:
    """An engine's serve a call from torch too: there is no kernel of torch's own."""
    quantised = find_dtype(kernel.kv_dtype).bits < find_dtype(kernel.dtype).bits
    variants = (LATENT_QUANTISED, LATENT) if quantised else (LATENT,)
    libraries = dict.fromkeys((library, "engine"))
    return tuple(f"attention.{variant}.{own}.bf16" for variant in variants for own in libraries)


def _of(variant: str) -> tuple[Parameter, ...]:
    return PARAMETERS.get(variant.partition("_")[0], attention_prefill.PARAMETERS)


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
