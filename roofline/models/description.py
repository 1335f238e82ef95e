"""A model as its dims: layers made of a mixer and a feed-forward, plus embedding, head and towers. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Softmax attention. ``qk_norm`` is none, head (a gain of head_dim) or row (a gain of the whole row).

    ``window`` is 0 where all keys are seen; ``chunked`` says that it is a chunk, of which a query sees the part before it.
    ``gate`` doubles the query product for an output gate; ``rotary`` are the elements rotated in a head. ``k_bias`` is false where keys
    alone have no bias (Whisper).
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
    k_bias: bool = True


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
    """One layer. ``norms`` are the gains of hidden width before and after its parts; ``parallel`` feeds both parts the same input.

    ``cross`` is attention over the result of an encoder, behind the mixer and with a norm of its own.
    """

    mixer: Mixer | None
    feed: Feed | None
    norms: int = 2
    parallel: bool = False
    cross: Attention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """Weights outside the layers of the text model, counted in a part of their own: a vision tower, positions, a pooler."""

    name: str
    part: str
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """How a tower takes an image: each square of ``patch`` pixels a side is one row of it.

    ``size`` are the pixels a side of every image, 0 where images have their own resolution; ``merged`` patches a side then become one row
    of the text, and ``unit`` are the pixels a side of the largest square that is not cut, a window's or that of merged patches. ``frames``
    are those that one patch spans in time, the same image again for a still one. ``blended`` are the rows of the table of positions from
    which that of a patch is interpolated, 1 where each patch has its own.
    """

    channels: int
    patch: int
    size: int = 0
    unit: int = 1
    merged: int = 1
    frames: int = 1
    bias: bool = False
    class_token: bool = False
    norm: bool = False
    blended: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """How an encoder takes a spectrogram of ``mels`` rows: two convolutions in time of 3 taps, of which the second halves its length."""

    mels: int


ROWS, SEEN, IMAGES = "image_rows", "image_batch * image_tokens", "image_batch"
"""Rows of what follows a vision tower: its own, those that the text sees, one an image."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One operation between a tower and what takes its result: a norm, a product or a function of each element.

    ``rows`` is an expression in the params of the tower, ``width`` the elements of a row of the result, ``into`` those of a product's
    input (of a pool: the rows that become one), ``times`` how often it stands in the model. ``split`` is n where ranks of tensor
    parallelism share its columns and k where they share its rows, to be summed; others every rank does whole.
    """

    name: str
    op: str
    rows: str
    width: int
    into: int = 0
    bias: bool = False
    times: int = 1
    split: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """Layers with a width and an input of their own beside those of the text: an encoder of images, of sound, or of the source text.

    ``model`` has its layers, norms and positions; ``stem`` is None where it looks words up in the text model's table; ``pieces`` lead from
    it to the text. ``tokens`` is the expression of the rows that the text sees of an image. ``counted`` says that its weights are counted
    one by one; otherwise they are one of the text model's extras.
    """

    name: str
    model: Model
    stem: Pixels | Sound | None = None
    pieces: tuple[Piece, ...] = ()
    tokens: str = ""
    counted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model. ``kind`` is decoder or encoder; ``norm_bias`` tells layer norm with beta from one without; ``mtp`` are modules apart.

    ``image`` is channels, size and patch of an encoder of images, else zeros; ``context`` the longest stated, 0 for none. ``relative``
    are the rows of a table of position biases, one a head, that all its layers add to their scores (T5); 0 for none.
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
    relative: int = 0
    towers: tuple[Tower, ...] = ()

    @property
    def norm_width(self) -> int:
        """Elements of one norm's weights."""
        return self.hidden * (2 if self.norm == "layernorm" and self.norm_bias else 1)

    @property
    def encoder(self) -> Tower | None:
        """The encoder whose result the layers attend to, where the model is an encoder-decoder."""
        return next((tower for tower in self.towers if tower.counted), None)

    @property
    def eyes(self) -> Tower | None:
        """The tower that looks at images, where there is one."""
        return next((tower for tower in self.towers if isinstance(tower.stem, Pixels)), None)


@dataclass(slots=True)
class Found:
    """What reading a configuration gave: the model, and the keys that were ignored."""

    model: Model
    ignored: list[str] = field(default_factory=list)
