"""Attention over a shared latent: what multi-head latent attention computes when its key and value products are absorbed.

Every head's query (rank + rope wide) meets the same cached row for each key, of which the first ``rank`` elements are also the value:
one row is stored and read, not a key and a value. Source: DeepSeek-V2, arXiv 2405.04434; sparse selection: DeepSeek-V3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Number, minimum, where
from roofline.ops.base import Counts, Op, TensorSpec, dim, number_format, operator
from roofline.ops.launched import FusedAttention, Launched
from roofline.ops.pages import whole_pages

VECTOR_FLOP = 5
"""Per score: scale, subtract the maximum, find it, add up, normalise."""


@operator(
    "latent_attention",
    family="attention",
    title="attention of all heads over one cached latent row a key",
    formula="2 b h q k (2 rank + rope) FLOP; bytes e b (k (rank + rope) + h q (2 rank + rope))",
    source="arXiv 2405.04434",
)
@dataclass(frozen=True, kw_only=True)
class LatentAttention(Op):
    """O[b, h, q, rank] from Q[b, h, q, rank + rope] and the latent rows L[b, k, rank + rope]."""

    batch: Number = dim("sequences")
    heads: Number = dim("query heads")
    q_len: Number = dim("queries a sequence; 1 when decoding")
    kv_len: Number = dim("cached rows a sequence; each query sees all of them")
    rank: Number = dim("width of the latent, which is key and value")
    rope: Number = dim("width of the rotary part of a key")
    dtype: str = number_format("format of Q and O, and of the products")
    kv_dtype: str | None = number_format("format of the latent rows when it differs (a quantised cache)", default=None)
    top_k: Number = dim("rows that a query picks, where attention is sparse; 0 for all", default=0, minimum=0)
    page: Number = dim("rows of a page, where the cache is kept in whole pages; 0 for as many as there are rows", default=0, minimum=0)

    def seen_keys(self) -> Number:
        """Rows that a query meets."""
        return where(self.top_k > 0, minimum(self.top_k, self.kv_len), self.kv_len)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """Q, the latent rows (of which those picked move), O."""
        width, rows = self.rank + self.rope, self.batch * minimum(self.seen_keys() * self.q_len, self.kv_len)
        return (
            TensorSpec("q", (self.batch, self.heads, self.q_len, width), self.dtype, "in"),
            TensorSpec(
                "latent", (self.batch, whole_pages(self.kv_len, self.page), width), self.kv_dtype or self.dtype, "cache", rows * width
            ),
            TensorSpec("o", (self.batch, self.heads, self.q_len, self.rank), self.dtype, "out"),
        )

    def counts(self) -> Counts:
        """2 (rank + rope) a score and 2 rank for its value."""
        scores = self.batch * self.heads * self.q_len * self.seen_keys()
        return Counts(tensor=2 * scores * (2 * self.rank + self.rope), vector=VECTOR_FLOP * scores, sfu=scores)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One fused kernel, of its own sort: all heads share a row that is key and value, which no other kernel's time tells."""
        return (
            FusedAttention(
                batch=self.batch,
                heads=self.heads,
                kv_heads=1,
                q_len=self.q_len,
                kv_len=self.seen_keys(),
                head_dim=self.rank + self.rope,
                v_head_dim=self.rank,
                dtype=self.dtype,
                kv_dtype=self.kv_dtype or self.dtype,
                causal=False,
                implementation="latent",
            ),
        )
