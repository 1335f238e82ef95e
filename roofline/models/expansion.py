"""What the steps of a model are written for, and how they are written: products in their stored formats, norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.models.description import Model
from roofline.models.quantised import Quantisation
from roofline.models.weights import Weight

PHASES = ("prefill", "decode", "train")
SCALED = ("int4", "fp4", "int8")

Fields = dict[str, Any]
"""A step as it is written: keys in order, values as numbers or expressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """What the steps are made for: a phase, and how weights and cache are stored."""

    model: Model
    phase: str
    how: Quantisation | None = None
    kv_dtype: str | None = None

    @property
    def decoding(self) -> bool:
        """Whether one token a sequence is computed, behind a cache."""
        return self.phase == "decode"

    def keys(self) -> str:
        """The expression for keys a sequence."""
        return "context" if self.decoding else "seq"

    def product(self, name: str, path: str, n: int, k: int, *, rows: str = "tokens", bias: bool = False, kept: bool = False) -> Fields:
        """A product with a weight, in the format that the weight is stored in."""
        quantised = {} if kept else self.formats(path, k, n)
        return {"id": name, "op": "gemm", "m": rows, "n": n, "k": k, **({"bias": True} if bias else {}), **quantised}

    def formats(self, path: str, k: int, n: int) -> Fields:
        """The keys of a product that speak of quantised weights."""
        how = self.how
        if how is None or self.phase == "train" or not how.takes(Weight(path, "", k, n, linear=True)):
            return {}
        if how.computes:
            return {"dtype": how.computes, "out_dtype": self.model.dtype}
        rows = how.block[0]
        return {"weight_dtype": how.dtype, **({"group_size": rows} if rows and how.dtype in SCALED else {})}

    def norm(self, name: str, rows: str = "tokens", cols: int | None = None, *, residual: bool = False) -> Fields:
        """A norm; of the hidden width it is the model's, of others rms."""
        own = cols is None
        kind = self.model.norm if own else "rmsnorm"
        plain = {"bias": False} if own and kind == "layernorm" and not self.model.norm_bias else {}
        extra = {"residual": True} if residual else {}
        return {"id": name, "op": kind, "rows": rows, "cols": self.model.hidden if own else cols, **plain, **extra}
