"""Number formats: their size, and which engine multiplies them.

The names are the ones of profiles and workloads. Sub-byte formats count exactly (``fp4`` is 0.5 B an element);
block scales of quantised weights are a field of the operator that reads them.
"""

from __future__ import annotations

from roofline.errors import UsageError, did_you_mean
from roofline.records import dataclass


@dataclass(frozen=True, slots=True)
class Dtype:
    """A number format. ``matrix`` is the profile key of the matrix engine's rate for products in it."""

    name: str
    bits: int
    matrix: str

    @property
    def bytes(self) -> float:
        """Bytes an element; a whole number where it is one, so that counts of bytes stay integers."""
        return self.bits // 8 if self.bits % 8 == 0 else self.bits / 8


DTYPES: dict[str, Dtype] = {
    d.name: d
    for d in (
        Dtype("fp64", 64, "fp64"),
        Dtype("fp32", 32, "fp32"),
        Dtype("tf32", 32, "tf32"),  # stored in 4 bytes, multiplied with a 10-bit mantissa
        Dtype("bf16", 16, "bf16"),
        Dtype("fp16", 16, "fp16"),
        Dtype("fp8", 8, "fp8"),
        Dtype("fp8_e4m3", 8, "fp8"),
        Dtype("fp8_e5m2", 8, "fp8"),
        Dtype("fp6", 6, "fp6"),
        Dtype("fp4", 4, "fp4"),
        Dtype("int64", 64, "int64"),
        Dtype("int32", 32, "int32"),
        Dtype("int8", 8, "int8"),
        Dtype("int4", 4, "int4"),
        Dtype("bool", 8, "int8"),
    )
}
"""All number formats by name."""
CACHE = ("fp32", "bf16", "fp16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp6", "fp4", "int8", "int4")
"""Formats of cached keys and values: those of activations, and what they are quantised to."""


def dtype(name: str) -> Dtype:
    """The format of that name.

    Raises:
        UsageError: no such format; the message names the nearest.

    >>> dtype("bf16").bytes
    2
    """
    try:
        return DTYPES[name]
    except KeyError:
        raise UsageError(f"unknown dtype '{name}'; {did_you_mean(name, list(DTYPES))}") from None


def cache_dtype(name: str) -> Dtype:
    """The format of that name, in which keys and values may be kept.

    Raises:
        UsageError: no such format, or none of a cache.
    """
    found = dtype(name)
    if name not in CACHE:
        raise UsageError(f"{name} is no format of cached keys and values: those are {', '.join(CACHE)}")
    return found
