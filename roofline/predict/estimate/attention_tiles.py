"""How kernels of fused attention cut their work: tiles of queries, steps of keys, packed heads, splits of the keys.

A kernel is known by its library and the architecture it runs on: FlashAttention 2 in torch and, with paged keys, in engines on
Ampere and on whatever is not listed; FlashAttention 3 in engines on Hopper; kernels of TensorRT-LLM in engines on Blackwell. Tiles
and splits of FlashAttention are read off its sources. Those of TensorRT-LLM, cuDNN and the widest heads are guesses, kept because
they explain measured tables well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.numeric import Number, anywhere, maximum, minimum, up
from roofline.records import dataclass

WIDEST = 256
"""Kernels have tiles for head dimensions up to 64, 128, 192, 256, and for wider ones."""

Five = tuple[float, float, float, float, float]
FULL = 0.8
"""Of the slots for tiles, above which nothing is split."""
NEARLY = 0.85
"""Of the best share of busy slots, which is good enough."""
TRIED = 6
"""Parts that are tried one by one; where more would be taken, as many as fit."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """Tiles by head dimension, in the order of `width_of`, and what the scheduler does.

    ``rows`` and ``keys`` are a prefill tile's queries and keys a step, ``decode_rows`` and ``decode_keys`` those of one query a
    sequence, whose products take ``whole_rows`` where its keys are not split.
    ``packed``: the queries of all heads that share a key fill one tile. ``split`` is how the keys of one sequence are spread
    over processors: ``balance`` gives each the same number of steps, ``fill`` makes as many parts as there are processors
    (or a multiple, ``blocks``), and only while there is work for less than 0.8 of them; at most ``most_splits``. ``swaps``: the
    heads that share a key are brought together by copies when decoding; ``split_alone`` tells whether keys of one head are split.
    Up to ``captured`` sequences an engine replays a graph that combines parts whether or not there are several, and heads wider
    than `WIDEST` are then always split into ``wide_splits``.
    """

    rows: Five
    keys: Five
    decode_rows: Five
    decode_keys: Five
    whole_rows: Five
    packed: bool
    split: str
    split_prefill: bool
    most_splits: float = 32
    blocks: float = 1
    swaps: bool = False
    split_alone: bool = True
    captured: float = 0
    wide_splits: float = 1


FA2 = Kernels(
    rows=(128, 128, 128, 64, 64),
    keys=(128, 64, 64, 64, 64),
    decode_rows=(64, 64, 64, 64, 64),
    decode_keys=(256, 128, 64, 64, 64),
    whole_rows=(128, 128, 128, 64, 64),
    packed=False,
    split="fill",
    split_prefill=True,
    most_splits=128,
    blocks=2,
)
FA2_PAGED = Kernels(
    rows=(64, 64, 64, 64, 64),
    keys=(256, 128, 64, 64, 64),
    decode_rows=(64, 64, 64, 64, 64),
    decode_keys=(256, 128, 64, 64, 64),
    whole_rows=(64, 64, 64, 64, 64),
    packed=False,
    split="fill",
    split_prefill=False,
    most_splits=128,
    blocks=2,
    swaps=True,
    split_alone=False,
)
FA3 = Kernels(
    rows=(192, 128, 128, 128, 64),
    keys=(128, 128, 96, 80, 64),
    decode_rows=(64, 64, 64, 64, 64),
    decode_keys=(128, 128, 96, 80, 64),
    whole_rows=(64, 64, 64, 64, 64),
    packed=True,
    split="balance",
    split_prefill=True,
    captured=512,
    wide_splits=32,
)
CUDNN = Kernels(
    rows=(128, 128, 128, 128, 128),
    keys=(128, 128, 128, 64, 64),
    decode_rows=(128, 128, 128, 128, 128),
    decode_keys=(128, 128, 128, 64, 64),
    whole_rows=(128, 128, 128, 128, 128),
    packed=False,
    split="none",
    split_prefill=False,
)
EFFICIENT = Kernels(
    rows=(64, 64, 32, 32, 32),
    keys=(64, 64, 128, 128, 128),
    decode_rows=(64, 64, 32, 32, 32),
    decode_keys=(64, 64, 128, 128, 128),
    whole_rows=(64, 64, 32, 32, 32),
    packed=False,
    split="none",
    split_prefill=False,
)
TRTLLM = Kernels(
    rows=(256, 256, 256, 128, 16),
    keys=(128, 128, 128, 128, 64),
    decode_rows=(64, 64, 64, 64, 16),
    decode_keys=(128, 128, 128, 128, 64),
    whole_rows=(64, 64, 64, 64, 16),
    packed=False,
    split="balance",
    split_prefill=False,
)

ENGINE = {"hopper": FA3, "blackwell": TRTLLM}
"""What an engine runs by architecture; FlashAttention 2 on all others."""


def kernels_of(implementation: str, architecture: str) -> Kernels:
    """The kernels of an implementation: ``engine`` for those of an inference engine, else a backend of torch."""
    if implementation == "engine":
        return ENGINE.get(architecture, FA2_PAGED)
    return CUDNN if implementation == "cudnn" else EFFICIENT if implementation == "efficient" else FA2


def parts(tiles: Number, blocks: Number, kernels: Kernels, processors: float) -> Number:
    """Parts into which the scheduler cuts the keys of each tile, ``blocks`` of them.

    >>> parts(8, 64, FA3, 132), parts(8, 64, FA2, 132), parts(300, 64, FA2, 132)
    (13.0, 32.0, 1.0)
    """
    if kernels.split == "none":
        return 1.0
    if kernels.split == "balance":
        each = up(1.1 * tiles * blocks / processors)
        return minimum(up(blocks / each), kernels.most_splits)
    slots = processors * kernels.blocks
    few: Any = tiles < FULL * slots
    if not anywhere(few):
        return 1.0
    found: Number = 1.0 + few * (_filling(tiles / slots, minimum(blocks, kernels.most_splits)) - 1.0)
    return found


def _filling(share: Number, most: Number) -> Number:
    """The fewest parts that leave nearly as few slots idle in a last wave as any number of parts would, at most ``most``.

    ``share`` of the slots is filled without a split. Where more parts are needed than are tried, as many as fit into one wave.
    """
    fitting = minimum(maximum(up(1 / share) - 1.0, 1.0), most)
    busy: list[Any] = [share * count / up(share * count) * (count <= most) for count in range(1, TRIED + 1)]
    enough = share * fitting
    for one in busy:
        enough = maximum(enough, one)
    found: Any = 0.0
    unsettled: Any = 1.0
    for count, one in enumerate(busy, start=1):
        good = one >= NEARLY * enough
        found, unsettled = found + unsettled * good * count, unsettled * (1.0 - good)
    result: Number = found + unsettled * fitting
    return result


def relative(p: Mapping[str, float], name: str) -> Five:
    """A parameter by head dimension: that of 128, and by how much others differ."""
    base = p[name]
    return (base * p[f"{name}_64"], base, base * p[f"{name}_192"], base * p[f"{name}_256"], base * p[f"{name}_wide"])


def width_of(head_dim: Number) -> Any:
    """Which of the five cases a head dimension is.

    >>> width_of(80)
    1
    """
    return (head_dim > 64) * 1 + (head_dim > 128) + (head_dim > 192) + (head_dim > 256)


def by_width(width: Any, values: Five) -> Number:
    """The value for a case of `width_of`."""
    if isinstance(width, int):
        return values[width]
    import numpy as np

    chosen: Number = np.asarray(values, dtype=np.float64)[width]
    return chosen
