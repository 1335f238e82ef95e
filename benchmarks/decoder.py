"""A Llama-like decoder in plain torch, random bf16 weights, whole or split over the ranks of a tensor-parallel group.

Its operators are those of `whole_models.layer`: rms_norm, one fused product for Q, K and V, rotary as separate elementwise kernels,
attention with grouped heads (the flash backend, or naive with an additive mask), a product for the output, a residual; then rms_norm, one
product for gate and up, silu times up (or gelu), a product for down, a residual. Embedding and vocabulary product are untied. With tp
above 1 heads and feed-forward are split, each layer has two all-reduces, and the vocabulary product is split with its logits gathered.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from whole_models import Dims


class Exchange:
    """The all-reduce and gather of a group; ``off`` leaves them out, to see what of them is exposed."""

    def __init__(self, group: Any = None, size: int = 1) -> None:
        self.group, self.size, self.off = group, size, False

    def add(self, x: Tensor) -> Tensor:
        """The sum over the group, in place."""
        if self.size > 1 and not self.off:
            dist.all_reduce(x, group=self.group)
        return x

    def gather(self, x: Tensor) -> Tensor:
        """The shares of all ranks, one after the other."""
        if self.size == 1 or self.off:
            return x
        whole = torch.empty((self.size * x.shape[0], *x.shape[1:]), dtype=x.dtype, device=x.device)
        dist.all_gather_into_tensor(whole, x, group=self.group)
        return whole


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of the two halves of each head."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Layer(nn.Module):
    """One layer of one rank. ``mask`` is that of naive attention; ``cache`` holds K and V, of which the last position is written."""

    def __init__(self, d: Dims, exchange: Exchange, attention: str, device: str) -> None:
        super().__init__()
        made = {"dtype": torch.bfloat16, "device": device}
        self.d, self.exchange, self.attention = d, exchange, attention
        self.heads, self.kv_heads, ffn = d.heads // exchange.size, d.kv_heads // exchange.size, d.ffn // exchange.size
        width = self.heads * d.head_dim
        self.norm1, self.norm2 = nn.RMSNorm(d.hidden, **made), nn.RMSNorm(d.hidden, **made)
        self.qkv = nn.Linear(d.hidden, (self.heads + 2 * self.kv_heads) * d.head_dim, bias=False, **made)
        self.out = nn.Linear(width, d.hidden, bias=False, **made)
        self.up = nn.Linear(d.hidden, (2 if d.gated else 1) * ffn, bias=False, **made)
        self.down = nn.Linear(ffn, d.hidden, bias=False, **made)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None = None, cache: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """x[batch, seq, hidden] to the same shape."""
        x = x + self.exchange.add(self.out(self._attended(self.norm1(x), cos, sin, mask, cache)))
        wide = self.up(self.norm2(x))
        if self.d.gated:
            gate, up = wide.chunk(2, dim=-1)
            inner = F.silu(gate) * up
        else:
            inner = F.gelu(wide)
        return x + self.exchange.add(self.down(inner))

    def _attended(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: tuple[Tensor, Tensor] | None) -> Tensor:
        batch, seq, _ = x.shape
        parts = self.qkv(x).view(batch, seq, self.heads + 2 * self.kv_heads, self.d.head_dim)
        q, k, v = (t.transpose(1, 2) for t in parts.split((self.heads, self.kv_heads, self.kv_heads), dim=2))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            cache[0][:, :, -1:] = k
            cache[1][:, :, -1:] = v
            k, v = cache
        if self.attention == "naive":
            y = self._naive(q, k, v, mask)
        else:
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION if x.is_cuda else SDPBackend.MATH):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=self.heads != self.kv_heads)
        return y.transpose(1, 2).reshape(batch, seq, self.heads * self.d.head_dim)

    def _naive(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.d.head_dim**-0.5
        if mask is not None:
            scores = scores + mask
        return torch.matmul(torch.softmax(scores, dim=-1), v)


class Decoder(nn.Module):
    """The whole of one rank; ``last`` asks for logits of the last position only."""

    def __init__(self, d: Dims, exchange: Exchange | None = None, attention: str = "flash", device: str = "cuda") -> None:
        super().__init__()
        self.d, self.exchange = d, exchange or Exchange()
        made = {"dtype": torch.bfloat16, "device": device}
        self.embedding = nn.Embedding(d.vocab, d.hidden, **made)
        self.layers = nn.ModuleList(Layer(d, self.exchange, attention, device) for _ in range(d.layers))
        self.norm = nn.RMSNorm(d.hidden, **made)
        self.head = nn.Linear(d.hidden, d.vocab // self.exchange.size, bias=False, **made)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def tables(self, first: int, count: int) -> tuple[Tensor, Tensor]:
        """cos and sin of ``count`` positions from ``first``."""
        device = self.head.weight.device
        half = self.d.head_dim // 2
        angle = torch.arange(first, first + count, device=device)[:, None] * 10000.0 ** (-torch.arange(half, device=device)[None] / half)
        return angle.cos().bfloat16(), angle.sin().bfloat16()

    def forward(
        self, tokens: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None = None, caches: Any = None, last: bool = False
    ) -> Tensor:
        """tokens[batch, seq] to logits."""
        x = self.embedding(tokens)
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, mask, None if caches is None else caches[i])
        x = self.norm(x)
        return self.exchange.gather(self.head(x[:, -1:] if last else x))

    def caches(self, batch: int, context: int) -> list[tuple[Tensor, Tensor]]:
        """Random keys and values of ``context`` positions for every layer."""
        shape = (batch, self.d.kv_heads // self.exchange.size, context, self.d.head_dim)
        made = {"dtype": torch.bfloat16, "device": self.head.weight.device}
        return [(torch.randn(shape, **made), torch.randn(shape, **made)) for _ in self.layers]


def causal_mask(seq: int, device: str) -> Tensor:
    """The dense additive mask of naive attention."""
    return torch.full((seq, seq), float("-inf"), dtype=torch.bfloat16, device=device).triu(1)
