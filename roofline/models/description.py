"""A model as its dims: layers made of a mixer and a feed-forward, plus embedding, head and towers. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Softmax attention. ``qk_norm`` is none, head (a gain of head_dim) or row (a gain of the whole row).

    ``window`` is 0 where all keys are seen; ``chunked`` says that it is a chunk, of which a query sees the part before it.
    ``gate`` doubles the query product for an output gate; ``rotary`` are the elements rotated in a head.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: str = "none"
    sinks: bool = False
    gate: bool = False
    window: int = 0
    chunked: bool = False
    rotary: int = 0
    causal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """Scores of cheap heads that pick ``top_k`` keys for each query (DeepSeek sparse attention)."""

    heads: int
    head_dim: int
    top_k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention: keys and values from one latent of ``rank`` and a shared rotary key of ``rope``."""

    heads: int
    q_rank: int
    rank: int
    nope: int
    rope: int
    v_head_dim: int
    bias: bool = False
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNet:
    """Gated delta rule: a state of key_dim x value_dim for each value head."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """State-space mixer: a state of head_dim x state for each head."""

    heads: int
    head_dim: int
    groups: int
    state: int
    conv: int
    conv_bias: bool
    bias: bool

    @property
    def width(self) -> int:
        """Inner width."""
        return self.heads * self.head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """Feed-forward: up, activation, down; ``gated`` has a gate beside up."""

    width: int
    gated: bool = True
    bias: bool = False
    activation: str = "silu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Mixture of experts: ``active`` of ``experts`` a token, and experts that every token passes (``shared_width``, 0 for none)."""

    experts: int
    active: int
    width: int
    gated: bool = True
    bias: bool = False
    activation: str = "silu"
    router_bias: bool = False
    shared_width: int = 0
    shared_gate: bool = False


Mixer: TypeAlias = Attention | LatentAttention | DeltaNet | Mamba2
Feed: TypeAlias = Mlp | Experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer. ``norms`` are the gains of hidden width before and after its parts; ``parallel`` feeds both parts the same input."""

    mixer: Mixer | None
    feed: Feed | None
    norms: int = 2
    parallel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """Weights outside the layers of the text model, counted in a part of their own: a vision tower, positions, a pooler."""

    name: str
    part: str
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model. ``kind`` is decoder or encoder; ``norm_bias`` tells layer norm with beta from one without; ``mtp`` are modules apart.

    ``image`` is channels, size and patch of an encoder of images, else zeros; ``context`` the longest stated, 0 for none.
    """

    name: str
    model_type: str
    kind: str = "decoder"
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool = False
    norm: str = "rmsnorm"
    norm_bias: bool = False
    final_norm: bool = True
    head: bool = True
    head_bias: bool = False
    positions: int = 0
    embedding_norm: bool = False
    extras: tuple[Extra, ...] = ()
    mtp: tuple[Layer, ...] = ()
    dtype: str = "bf16"
    context: int = 0
    notes: tuple[str, ...] = ()
    image: tuple[int, int, int] = (0, 0, 0)

    @property
    def norm_width(self) -> int:
        """Elements of one norm's weights."""
        return self.hidden * (2 if self.norm == "layernorm" and self.norm_bias else 1)


@dataclass(slots=True)
class Found:
    """What reading a configuration gave: the model, and the keys that were ignored."""

    model: Model
    ignored: list[str] = field(default_factory=list)
