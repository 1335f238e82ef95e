"""What the steps of a model are written for, and how they are written: products in their stored formats, norms, shares of ranks.

Under a plan dimensions are expressions in the names of its degrees (tp, cp, pp, dp, ep, etp, imbalance), so that one expansion serves
all degrees: those written into a file, and float64 arrays of a search. Only how a plan is built (sequence parallelism, the kind of
context parallelism, the ZeRO stage, recomputation) changes which steps there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from roofline.dtypes import dtype as find_dtype
from roofline.models.description import Experts, Model
from roofline.models.quantised import Quantisation
from roofline.models.weights import Weight
from roofline.numeric import Number, minimum
from roofline.ops.base import Op
from roofline.plan.job import OPTIMIZER
from roofline.plan.job import PHASES as PHASES
from roofline.plan.loads import fullest
from roofline.plan.plan import AXES, Plan

SCALED = ("int4", "fp4", "int8")
META = ("part", "axis", "when", "why")
"""Keys of a step that say what it is to a plan: its part of the model, the group it exchanges in, the pass or moment that it belongs
to where ``pass`` does not say so, and the reason for work that a single device would not do. The writer leaves them out."""

Fields = dict[str, Any]
"""A step as it is written: keys in order, values as numbers or expressions."""


@dataclass(frozen=True, slots=True)
class Language:
    """What reads steps, which is above this room: the operator of a step under these names and with the dtype of those that state none, and
    the value of a number or an expression."""

    operator: Callable[[Fields, Mapping[str, Number], str], Op]
    value: Callable[[int | str, Mapping[str, Number]], Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters beside frozen weights: two products of ``rank`` beside each product in ``targets`` (ids of steps)."""

    rank: int
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """What the steps are made for: a phase, how weights and cache are stored, and a plan if the work is spread.

    ``attention`` is the implementation where several exist. ``cached`` says that keys and values of a prefix exist in a prefill, ``draft``
    how many tokens are guessed and then verified in a decoding step, ``mtp`` that the model's own modules guess them, ``page`` how many
    tokens a page of the cache holds (0 for no pages), ``images`` that the sequences of a prefill have images in them. ``gradient_dtype``
    is the format in which gradients are exchanged and ``dispatch_dtype`` the one in which tokens travel to their experts; the model's
    unless given. ``optimizer`` names the one that training runs (`roofline.models.memory_states`).
    """

    model: Model
    phase: str
    how: Quantisation | None = None
    kv_dtype: str | None = None
    plan: Plan | None = None
    attention: str = "flash"
    cached: bool = False
    draft: int = 0
    mtp: bool = False
    page: int = 0
    lora: Lora | None = None
    images: bool = False
    gradient_dtype: str | None = None
    dispatch_dtype: str | None = None
    optimizer: str = OPTIMIZER

    # ---------------------------------------------------------------- what is computed
    @property
    def decoding(self) -> bool:
        """Whether one token a sequence is computed, or a few, behind a cache."""
        return self.phase == "decode"

    @property
    def training(self) -> bool:
        """Whether there is a backward pass."""
        return self.phase == "train"

    def keys(self) -> str:
        """The expression for keys a sequence."""
        return "context" if self.decoding else "seq"

    # ---------------------------------------------------------------- how it is spread
    @property
    def parallel(self) -> bool:
        """Whether there is a plan."""
        return self.plan is not None

    @property
    def sequence_parallel(self) -> bool:
        """Whether norms and residuals see a share of the tokens."""
        return self.plan is not None and self.plan.sequence_parallel

    def over(self, size: int | str, axis: str = "tp") -> int | str:
        """A dimension that ranks of an axis share evenly.

        >>> str("4096 / tp")
        '4096 / tp'
        """
        return f"{size} / {axis}" if self.parallel else size

    def kv_width(self, kv_heads: int, width: int) -> int | str:
        """Elements of keys or values of a token on a rank; beyond one head a rank, heads are stored again."""
        return f"{self.kv_heads(kv_heads)} * {width}" if self.parallel else kv_heads * width

    def kv_heads(self, kv_heads: int) -> int | str:
        """Key and value heads of a rank, at least one."""
        return f"max({kv_heads} / tp, 1)" if self.parallel else kv_heads

    @property
    def spread(self) -> str:
        """Tokens that norms and residuals of a rank see."""
        return "tokens / tp" if self.sequence_parallel else "tokens"

    @property
    def element(self) -> int:
        """Bytes of an activation."""
        return int(find_dtype(self.model.dtype).bytes)

    # ---------------------------------------------------------------- steps
    def product(
        self, name: str, path: str, n: int, k: int, *, rows: str = "tokens", bias: bool = False, kept: bool = False, split: str = "",
        wide: int | str | None = None,
    ) -> Fields:  # fmt: skip
        """A product with a weight, in the format that the weight is stored in.

        ``split`` is n where ranks share the columns and k where they share the rows, to be summed afterwards; ``wide`` are the columns of
        a rank where they are not simply shared.
        """
        quantised = {} if kept else self.formats(path, k, n)
        columns = wide if wide is not None and self.parallel else self.over(n) if split == "n" else n
        shared = self.over(k) if split == "k" else k
        return {"id": name, "op": "gemm", "m": rows, "n": columns, "k": shared, **({"bias": True} if bias else {}), **quantised}

    def formats(self, path: str, k: int, n: int) -> Fields:
        """The keys of a product that speak of quantised weights."""
        how = self.how
        if how is None or self.training or not how.takes(Weight(path, "", k, n, linear=True)):
            return {}
        if how.computes:
            return {"dtype": how.computes, "out_dtype": self.model.dtype}
        rows = how.block[0]
        return {"weight_dtype": how.dtype, **({"group_size": rows} if rows and how.dtype in SCALED else {})}

    def norm(self, name: str, rows: str = "tokens", cols: int | str | None = None, *, residual: bool = False) -> Fields:
        """A norm; of the hidden width it is the model's, of others rms."""
        own = cols is None
        kind = self.model.norm if own else "rmsnorm"
        plain = {"bias": False} if own and kind == "layernorm" and not self.model.norm_bias else {}
        extra = {"residual": True} if residual else {}
        return {"id": name, "op": kind, "rows": rows, "cols": self.model.hidden if own else cols, **plain, **extra}


def plan_names(plan: Plan, model: Model | None = None) -> dict[str, Number]:
    """What the expressions of an expansion under a plan may use of it, as numbers or arrays.

    Of ``ep`` ranks the fullest has at most ``ep`` times the mean, all there is. A token goes to ``active`` different ones of a model's
    experts, so that all tokens fill at most as many: a rank with experts / ep of them takes in no more than experts / active times
    the mean.
    """
    feeds = {layer.feed for layer in model.layers if isinstance(layer.feed, Experts)} if model is not None else set()
    choices = min((feed.experts / feed.active for feed in feeds), default=plan.ep)
    return {**{axis: getattr(plan, axis) for axis in AXES}, "imbalance": minimum(plan.imbalance, fullest(plan.ep, choices))}
