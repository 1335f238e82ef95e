"""What the operators that mix along a sequence or across channels compute, in float64: sums, without a transform or a permutation trick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from roofline.measure.spectra import filters_of

Values = Mapping[str, torch.Tensor]
Results = tuple[torch.Tensor, ...]

ROWS = 256
"""Rows of a convolution's matrix that exist at a time."""


def convolved(op: Any, u: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """sum_j k[c, i - j] u[b, c, j], the index below zero wrapping around or meeting nothing, as products with a matrix a channel."""
    seq, device = u.shape[2], u.device
    filters = torch.nn.functional.pad(k[:, :seq], (0, max(0, seq - k.shape[1])))
    out = []
    for first in range(0, seq, ROWS):
        lag = torch.arange(first, min(first + ROWS, seq), device=device)[:, None] - torch.arange(seq, device=device)[None]
        matrix = filters[:, lag % seq]
        out.append(torch.einsum("cij,bcj->bci", matrix if op.padding == "circular" else matrix * (lag >= 0), u))
    return torch.cat(out, 2)


def fft_conv(op: Any, t: Values) -> Results:
    """post k * (pre u)."""
    filters = filters_of(op, t["k"]) if op.spectrum else t["k"]
    y = convolved(op, t["u"] * t["pre_gate"] if op.gated else t["u"], filters)
    return (y * t["post_gate"] if op.gated else y,)


def monarch(op: Any, t: Values) -> Results:
    """Each factor on blocks of its width, then element j of block i to place j (n / width) + i."""
    y = t["x"]
    for name in [name for name in t if name.startswith("w")]:
        blocks, width, _ = t[name].shape
        y = torch.einsum("rip,ipj->rji", y.reshape(-1, blocks, width), t[name]).reshape(y.shape)
    return (y,)


def _blocks(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Product with a block-diagonal matrix along the last dimension."""
    blocks, deep, _ = w.shape
    return torch.einsum("...ip,ipj->...ij", x.reshape(*x.shape[:-1], blocks, deep), w).flatten(-2)


def m2(op: Any, t: Values) -> Results:
    """MLP(W_out (post k * (pre u))), u and the gates from W_in x."""
    conv = op.convolution()
    if op.projections:
        mixed = _blocks(t["x"], t["w_project_in"]).mT.chunk(3, 1)
        parts = dict(zip(("u", "pre_gate", "post_gate"), mixed, strict=True))
    else:
        parts = {name: t[name] for name in ("u", "pre_gate", "post_gate")}
    y = fft_conv(conv, {**parts, "k": t["k"]})[0].mT
    y = _blocks(y, t["w_project_out"]) if op.projections else y
    h = _blocks(y, t["w_up"])
    return (_blocks(h * (1 + torch.erf(h * 0.5**0.5)) / 2, t["w_down"]),)


FORWARD = {"fft_conv": fft_conv, "monarch": monarch, "m2": m2}
"""By the operator's name."""
