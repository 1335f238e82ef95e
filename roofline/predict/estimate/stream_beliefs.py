"""What is thought of streaming kernels before any fit: how many paths a sort has, where its parameters start, whom it resembles.

Starts are orders of magnitude read from the kernels' code and from a few measurements: a row that a block reduces costs hundreds
to thousands of clocks of synchronisation, a block that keeps its row in shared memory leaves others no room. A fit moves them as
far as measurements say; a sort without any is taken for its relative.
"""

from __future__ import annotations

from collections.abc import Mapping

IN_A_WARP: Mapping[str, float] = {"row_clocks": 60.0, "element_clocks": 40.0, "block_lanes": 0.06, "block_share": 5.0}
SOFTMAX: Mapping[str, float] = {
    **IN_A_WARP,
    "row_clocks_2": 60.0, "element_clocks_2": 40.0, "block_lanes_2": 0.06, "block_share_2": 5.0,
    "row_clocks_3": 800.0, "hbm_share_3": 0.8, "element_clocks_3": 70.0, "block_lanes_3": 0.7,
    "row_clocks_4": 1700.0, "element_clocks_4": 100.0, "block_lanes_4": 1.0,
    "hbm_share_5": 0.7, "element_clocks_5": 50.0, "block_share_5": 1.0, "block_lanes_5": 1.5,
    "hbm_share_6": 0.8, "element_clocks_6": 50.0, "block_share_6": 1.0, "block_lanes_6": 1.5,
    "hbm_share_7": 0.75, "element_clocks_7": 40.0, "block_share_7": 1.0, "block_lanes_7": 1.5,
}  # fmt: skip
NORM: Mapping[str, float] = {"hbm_share": 0.7, "block_share": 5.0, "block_lanes": 0.06}
UNALIGNED: Mapping[str, float] = {"row_clocks_2": 2200.0}

BELIEFS: Mapping[str, Mapping[str, float]] = {
    "softmax": SOFTMAX,
    "log_softmax": SOFTMAX,
    "softmax_backward": IN_A_WARP,
    "log_softmax_backward": IN_A_WARP,
    "layernorm": {**NORM, **UNALIGNED, "row_clocks": 200.0, "element_clocks": 30.0},
    "rmsnorm": {**NORM, **UNALIGNED, "row_clocks": 120.0, "element_clocks": 20.0},
    "norm_backward": {**NORM, "row_clocks": 200.0, "element_clocks": 30.0},
    "reduction": {
        "row_clocks": 20.0, "block_share": 0.05, "row_clocks_2": 700.0, "block_share_2": 0.5, "hbm_share_3": 0.9,
        "row_clocks_3": 12000.0, "block_share_3": 5.0,
    },
    "transpose": {"hbm_share": 1.1},
    "nll_mean": {"row_clocks": 1300.0},
    "adamw": {"block_share": 5.0, "element_clocks": 100.0, "block_lanes": 1.0},
    "broadcast": {"element_clocks": 85.0},
    "fill": {"hbm_share": 0.7},
    "copy": {"hbm_share_2": 0.58},
}  # fmt: skip
"""Starts by sort of kernel, where they differ from those that all sorts share."""

LIKE_ELEMENTWISE = frozenset(
    ("fill", "broadcast", "concatenate", "dropout", "fused", "nll", "embedding", "rotary", "nll_backward", "embedding_backward", "pack")
)
RELATIVES: Mapping[str, str] = {
    **dict.fromkeys(LIKE_ELEMENTWISE, "elementwise"),
    "log_softmax": "softmax",
    "softmax_backward": "softmax",
    "log_softmax_backward": "softmax",
    "layernorm": "rmsnorm",
    "norm_backward": "layernorm",
    "fused_rows": "rmsnorm",
    "sgd": "adamw",
}
"""Whose parameters serve a sort that has none of its own."""
