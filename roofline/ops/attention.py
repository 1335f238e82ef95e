"""Attention: softmax(Q K^T / sqrt(d)) V, materialised pass by pass or streamed through on-chip memory.

With S = batch x heads x q_len x kv_len scores and X the size of Q, in elements:

- ``naive`` writes the scores to memory: forward 4 S + 4 X, backward 7 S + 8 X elements, 2 S more for a mask pass,
  2.5 S more in each direction for dropout with a one-byte mask (FlashAttention, Dao et al. 2022, algorithms 0 and 3).
  It computes masked scores too, so a causal mask halves what is useful and not what is executed.
- ``flash`` keeps a block of queries on chip and streams K and V (FlashAttention 2 and later). HBM sees Q, K, V, O and
  one fp32 log-sum-exp a row; K and V are re-read from L2 once for each block of queries.
- ``flash1`` keeps a block of keys and streams Q and O (FlashAttention 1): with T = kv_len / block, HBM sees K and V
  once and (3 T - 1) X of Q and O; the block follows from the SRAM given, so that HBM bytes fall as N^2 d^2 / SRAM.

FLOP 2 S (d + d_v) forward and 2 S (3 d + 2 d_v) backward; causal counts half the square, as FlashAttention's own
benchmarks do. One exponential a score in each direction, on the special-function units.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, ceil_div, is_array, maximum, minimum, where
from roofline.ops import attention_launched
from roofline.ops.base import (
    Counts,
    Machine,
    Op,
    Pass,
    TensorSpec,
    Traffic,
    amount,
    choice,
    dim,
    flag,
    number_format,
    operator,
    probability,
    whole,
)
from roofline.ops.launched import Launched
from roofline.ops.pages import whole_pages
from roofline.records import dataclass

FORWARD_VECTOR_FLOP = 5
"""Per score: scale, subtract the maximum, find it, add up, normalise."""
BACKWARD_VECTOR_FLOP = 4
"""Per score: P (dP - D) and the scale; the row sum D itself is counted once a row."""
IMPLEMENTATIONS = ("flash", "flash1", "cudnn", "efficient", "naive")
"""``cudnn`` and ``efficient`` are other kernels of the algorithm of ``flash``: the same counts, but times of their own."""
LARGEST_BLOCK = 128
"""Rows of queries a block keeps when no SRAM is given: what production kernels take for head_dim 128."""


@operator(
    "attention",
    family="attention",
    title="scaled dot-product attention",
    formula="forward 2 b h q k (d + d_v) FLOP, backward 2 b h q k (3 d + 2 d_v); half of it causal",
    source="Dao et al. 2022 (arXiv 2205.14135), Dao 2023 (arXiv 2307.08691) and their benchmark conventions",
)
@dataclass(frozen=True, kw_only=True)
class Attention(Op):
    """O[b, h, q, d_v] from Q[b, h, q, d], K[b, h_kv, k, d], V[b, h_kv, k, d_v]."""

    batch: Number = dim("sequences")
    heads: Number = dim("query heads")
    kv_heads: Number = dim("key and value heads; 0 is as many as query heads", default=0, minimum=0)
    q_len: Number = dim("queries a sequence; 1 when decoding")
    kv_len: Number = dim("keys a sequence, cached ones included")
    head_dim: Number = dim("width of a query and of a key")
    v_head_dim: Number = dim("width of a value; 0 is head_dim", default=0, minimum=0)
    dtype: str = number_format("format of Q and O, and of the products")
    kv_dtype: str | None = number_format("format of K and V when it differs (a quantised cache)", default=None)
    implementation: str = choice("how it is computed", IMPLEMENTATIONS, default="flash")
    causal: bool = flag("a query sees the keys up to its own position, the last query all of them")
    window: Number = dim("keys a query sees at most, for sliding windows; 0 is all", default=0, minimum=0)
    mask: bool = flag("naive: add a mask in a pass of its own (implied by causal)")
    scale_pass: bool = flag("naive: scale the scores in a pass of its own, as plain torch code does")
    dropout: float = probability("probability of dropping a score; above 0 naive runs a pass with a one-byte mask")
    cache: bool = flag("K and V are a resident cache, counted in memory")
    page: Number = dim("keys of a page, where a cache is kept in whole pages; 0 for as many as there are keys", default=0, minimum=0)
    kv_splits: Number = dim("flash: parts into which the keys are split, combined by a second kernel", default=1)
    sram: Number = amount("on-chip memory a block may use; 0 is that of the device", "B", default=0)
    tile_m: Number = dim("flash: queries a block; 0 derives them from the SRAM", default=0, minimum=0)
    tile_n: Number = dim("flash: keys a step", default=128)

    # ---------------------------------------------------------------- shape
    def check(self) -> str | None:
        """Heads must divide, windows and split keys need what they stand on."""
        if anywhere(self.heads % maximum(self.kv_heads, 1) > 0):
            return f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}"
        if anywhere(self.window > 0) and not self.causal:
            return "window needs causal: true"
        if self.implementation == "naive" and self._split:
            return "kv_splits needs implementation: flash"
        if self._split and anywhere(self.kv_splits == 1):
            return "kv_splits is 1 in some cases of a sweep and not in others, which have one kernel more; sweep them apart"
        return None

    @property
    def _split(self) -> bool:
        """Whether a second kernel combines parts of the keys."""
        return anywhere(self.kv_splits > 1)

    @property
    def _kv_heads(self) -> Number:
        return where(self.kv_heads > 0, self.kv_heads, self.heads)

    @property
    def _v_dim(self) -> Number:
        return where(self.v_head_dim > 0, self.v_head_dim, self.head_dim)

    @property
    def rows(self) -> Number:
        """Query rows over batch and heads."""
        return self.batch * self.heads * self.q_len

    def seen_keys(self) -> Number:
        """Mean number of keys a query sees: all, half the square where causal, at most the window."""
        if not self.causal:
            return self.kv_len
        offset = maximum(self.kv_len - self.q_len, 0)
        window = where(self.window > 0, minimum(self.window, self.kv_len), self.kv_len)
        rising = minimum(maximum(window - offset, 0), self.q_len)
        pairs = rising * offset + rising * rising / 2 + (self.q_len - rising) * window
        if not is_array(self.q_len, pairs):
            return window if self.q_len == 1 else whole(pairs / self.q_len)
        return where(self.q_len == 1, window, pairs / self.q_len)

    def scores(self) -> Number:
        """Scores that the mathematics needs, over batch and heads."""
        return whole(self.rows * self.seen_keys())

    def _read_keys(self) -> Number:
        """Keys touched at all, which a window makes fewer than are cached."""
        return minimum(self.kv_len, where(self.window > 0, self.window + self.q_len - 1, self.kv_len))

    # ---------------------------------------------------------------- tensors
    def tensors(self) -> tuple[TensorSpec, ...]:
        """Q[b, h, q, d], K[b, h_kv, k, d], V[b, h_kv, k, d_v], O[b, h, q, d_v]."""
        kv, role = self.kv_dtype or self.dtype, "cache" if self.cache else "in"
        touched = self.batch * self._kv_heads * self._read_keys()
        shape = (self.batch, self._kv_heads, whole_pages(self.kv_len, self.page))
        return (
            TensorSpec("q", (self.batch, self.heads, self.q_len, self.head_dim), self.dtype, "in"),
            TensorSpec("k", (*shape, self.head_dim), kv, role, touched * self.head_dim),
            TensorSpec("v", (*shape, self._v_dim), kv, role, touched * self._v_dim),
            TensorSpec("o", (self.batch, self.heads, self.q_len, self._v_dim), self.dtype, "out"),
        )

    def _square(self, name: str, dtype: str | None = None) -> TensorSpec:
        shape = (self.batch, self.heads, self.q_len, self.kv_len)
        return TensorSpec(name, shape, dtype or self.dtype, "scratch")

    def row_statistics(self) -> TensorSpec:
        """fp32 log-sum-exp of each row; FlashAttention 1 keeps maximum and sum."""
        width = 2 if self.implementation == "flash1" else 1
        return TensorSpec("lse", (self.batch, self.heads, self.q_len, width), "fp32", "out")

    # ---------------------------------------------------------------- arithmetic
    def counts(self) -> Counts:
        """As executed: naive computes the masked scores too."""
        executed = self.rows * self.kv_len if self.implementation == "naive" else self.scores()
        return Counts(tensor=2 * executed * (self.head_dim + self._v_dim), vector=FORWARD_VECTOR_FLOP * executed, sfu=executed)

    def useful_flop(self) -> Number:
        """2 (d + d_v) for each score that is not masked."""
        return 2 * self.scores() * (self.head_dim + self._v_dim)

    # ---------------------------------------------------------------- passes
    def passes(self) -> tuple[Pass, ...]:
        """The kernels launched: up to six when the scores are materialised, one or two when they are not."""
        return self._naive_passes() if self.implementation == "naive" else self._flash_passes()

    def _naive_passes(self) -> tuple[Pass, ...]:
        q, k, v, o = self.tensors()
        s, p, kept = self._square("s"), self._square("p"), self._square("dropout_mask", "bool")
        square = s.elements
        product = 2 * square
        passes = [Pass("scores", (q, k), (s,), Counts(tensor=product * self.head_dim))]
        if self.scale_pass:
            passes.append(Pass("scale", (s,), (s,), Counts(vector=square)))
        if self.mask or self.causal:
            passes.append(Pass("mask", (s,), (s,), Counts(vector=square)))
        passes.append(Pass("softmax", (s,), (p,), Counts(vector=4 * square, sfu=square)))
        if self.dropout > 0:
            passes.append(Pass("dropout", (p,), (p, kept), Counts(vector=square)))
        passes.append(Pass("output", (p, v), (o,), Counts(tensor=product * self._v_dim)))
        return tuple(passes)

    def _flash_passes(self) -> tuple[Pass, ...]:
        q, k, v, o = self.tensors()
        if not self._split:
            return (Pass("flash", (q, k, v), (o, self.row_statistics()), self.counts()),)
        partial = TensorSpec("partial", (self.kv_splits, self.rows, self._v_dim + 1), "fp32", "scratch")
        return (Pass("flash", (q, k, v), (partial,), self.counts()), Pass("combine", (partial,), (o,)))

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One fused kernel, or the products and sweeps of the materialised form."""
        return attention_launched.forward(self, execution)

    # ---------------------------------------------------------------- traffic
    def block_rows(self, machine: Machine) -> Number:
        """Queries a block keeps: SRAM / (4 d e) in whole sixteens, as the paper divides it, at most 128 by default."""
        given = where(self.sram > 0, self.sram, machine.smem_bytes)
        fit = given // (4 * self.head_dim * find_dtype(self.dtype).bytes) // 16 * 16
        derived = maximum(where(self.sram > 0, fit, minimum(fit, LARGEST_BLOCK)), 16)
        return where(self.tile_m > 0, self.tile_m, derived)

    def outer_steps(self, machine: Machine) -> Number:
        """FlashAttention 1: blocks of SRAM / (4 d e) keys."""
        given = where(self.sram > 0, self.sram, machine.smem_bytes)
        keys = maximum(given // (4 * self.head_dim * find_dtype(self.dtype).bytes), 1)
        return ceil_div(self.kv_len, keys)

    def tiled(self, machine: Machine) -> Traffic:
        """Re-reads of the streamed operand, none for naive, whose passes are GEMMs and sweeps."""
        once = self.compulsory(machine)
        if self.implementation == "naive":
            return once
        q, k, v, o = self.tensors()
        kv = k.moved_bytes + v.moved_bytes
        if self.implementation == "flash1":
            steps = self.outer_steps(machine)
            moved = once.hbm + (steps - 1) * (q.moved_bytes + 2 * o.moved_bytes)
            return replace(once, smem=moved, l2=moved, hbm=moved)
        moved = once.hbm + kv * (self._kv_reads(machine) - 1)
        return replace(once, smem=moved + self._operand_feeds(machine), l2=moved, hbm=moved)

    def _kv_reads(self, machine: Machine) -> Number:
        """How often a key is read from L2: once for each block of queries that sees it, in each head of its group."""
        blocks = ceil_div(self.q_len, self.block_rows(machine)) * self.heads / self._kv_heads
        return maximum(blocks * self.seen_keys() / self._read_keys(), 1)

    def _operand_feeds(self, machine: Machine) -> Number:
        """Shared-memory reads of the two products: Q again for each step of keys, K and V for each MMA row block."""
        e = find_dtype(self.dtype).bytes
        per_score = self.head_dim / self.tile_n + (self.head_dim + self._v_dim) / machine.mma_rows
        return self.scores() * per_score * e

    def cached(self, machine: Machine) -> Traffic:
        """Blocks of queries that run in one wave share K and V; a head cut by a wave's end is read again."""
        traffic = super().cached(machine)
        if self.implementation in ("naive", "flash1"):
            return traffic
        once = self.compulsory(machine)
        q, k, v, _ = self.tensors()
        kv = k.moved_bytes + v.moved_bytes
        blocks = ceil_div(self.q_len, self.block_rows(machine)) * self.heads / self._kv_heads
        one_wave = self.batch * self._kv_heads * blocks <= machine.processors
        resident = q.moved_bytes + kv <= machine.l2_bytes
        again = minimum((blocks - 1) / machine.processors, blocks - 1)
        hbm = once.hbm + kv * where(one_wave, 0, again) * where(resident, 0, 1)
        return replace(traffic, hbm=minimum(hbm, traffic.hbm))

    # ---------------------------------------------------------------- memory and backward
    def saved(self) -> tuple[TensorSpec, ...]:
        """Naive keeps the probabilities (and the dropout mask), flash the output and one number a row."""
        q, k, v, o = self.tensors()
        if self.implementation != "naive":
            return (q, k, v, o, self.row_statistics())
        kept = (self._square("dropout_mask", "bool"),) if self.dropout > 0 else ()
        return (q, k, v, self._square("p"), *kept)

    def extra_memory_bytes(self) -> Number:
        """The materialised scores and probabilities, or the row statistics."""
        if self.implementation == "naive":
            return super().extra_memory_bytes()
        return super().extra_memory_bytes() + self.row_statistics().bytes

    def training_peak_bytes(self) -> Number:
        """Peak memory of one forward and backward: naive 4 S + 10 X, flash 13 X and 8 B a row.

        The reading of FlashAttention's table 21 (its benchmark also holds the packed QKV and its gradient), exact
        to the MiB at every length of that table.
        """
        q = self.tensors()[0]
        if self.implementation == "naive":
            return 4 * self._square("s").bytes + 10 * q.bytes
        return 13 * q.bytes + 8 * self.rows

    def backward(self) -> tuple[Op, ...]:
        """Gradients of Q, K and V, with the scores recomputed where they were not kept."""
        return (AttentionBackward(forward=self, dtype=self.dtype),)


@dataclass(frozen=True, kw_only=True)
class AttentionBackward(Op):
    """dQ, dK, dV from dO: four products when P was kept, five when S is recomputed."""

    forward: Attention
    dtype: str

    def _gradients(self) -> tuple[TensorSpec, TensorSpec, TensorSpec, TensorSpec]:
        q, k, v, o = (replace(t, name=f"d{t.name}", role="out", dtype=self.dtype) for t in self.forward.tensors())
        return q, k, v, replace(o, role="in")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """What the forward pass saved, dO; dQ, dK, dV."""
        dq, dk, dv, do = self._gradients()
        saved = tuple(replace(t, role="scratch" if t.role == "scratch" else "in") for t in self.forward.saved())
        return (*saved, do, dq, dk, dv)

    def counts(self) -> Counts:
        """2 (3 d + 2 d_v) a score, of which naive leaves out the recomputed 2 d."""
        f = self.forward
        naive = f.implementation == "naive"
        executed = f.rows * f.kv_len if naive else f.scores()
        width = (2 if naive else 3) * f.head_dim + 2 * f._v_dim
        return Counts(tensor=2 * executed * width, vector=BACKWARD_VECTOR_FLOP * executed, sfu=0 if naive else executed)

    def useful_flop(self) -> Number:
        """The four products of the mathematics over unmasked scores; recomputation is not useful work."""
        f = self.forward
        return 2 * f.scores() * (2 * f.head_dim + 2 * f._v_dim)

    def passes(self) -> tuple[Pass, ...]:
        """Naive: dV, dP, (dropout,) dS, dQ, dK. Flash: the row sums D, the main kernel, and dQ from fp32."""
        return self._naive_passes() if self.forward.implementation == "naive" else self._flash_passes()

    def _naive_passes(self) -> tuple[Pass, ...]:
        f = self.forward
        q, k, v, _ = f.tensors()
        dq, dk, dv, do = self._gradients()
        p, dp, ds = f._square("p"), f._square("dp"), f._square("ds")
        product = 2 * p.elements
        dropout = (Pass("dropout", (dp, f._square("dropout_mask", "bool")), (dp,)),) if f.dropout > 0 else ()
        return (
            Pass("dv", (p, do), (dv,), Counts(tensor=product * f._v_dim)),
            Pass("dp", (do, v), (dp,), Counts(tensor=product * f._v_dim)),
            *dropout,
            Pass("ds", (p, dp), (ds,), Counts(vector=BACKWARD_VECTOR_FLOP * p.elements)),
            Pass("dq", (ds, k), (dq,), Counts(tensor=product * f.head_dim)),
            Pass("dk", (ds, q), (dk,), Counts(tensor=product * f.head_dim)),
        )

    def _flash_passes(self) -> tuple[Pass, ...]:
        f = self.forward
        q, k, v, o, lse = f.saved()
        dq, dk, dv, do = self._gradients()
        row_sum = TensorSpec("row_sum", (f.rows,), "fp32", "scratch")
        partial = TensorSpec("dq_fp32", dq.shape, "fp32", "scratch")
        return (
            Pass("row_sum", (o, do), (row_sum,), Counts(vector=2 * o.elements)),
            Pass("flash_backward", (q, k, v, do, lse, row_sum), (dk, dv, partial), self.counts()),
            Pass("convert_dq", (partial,), (dq,)),
        )

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One fused kernel, or the products and sweeps of the materialised form."""
        return attention_launched.backward(self, execution)

    def compulsory(self, machine: Machine | None) -> Traffic:
        """Flash: saved tensors and dO once, gradients once, whatever the kernels pass between them."""
        traffic = super().compulsory(machine)
        if self.forward.implementation == "naive":
            return traffic
        moved = sum(t.moved_bytes for t in self.tensors())
        return replace(traffic, l2=moved, hbm=moved)

    def tiled(self, machine: Machine) -> Traffic:
        """FlashAttention 1 streams Q, dO and dQ for each block of keys; later kernels stream Q and dO and add to dQ."""
        f, once = self.forward, super().compulsory(machine)
        if f.implementation == "naive":
            return once
        q, k, v, o, _ = f.saved()
        dq, dk, dv, do = self._gradients()
        if f.implementation == "flash1":
            keys = k.moved_bytes + v.moved_bytes + dk.moved_bytes + dv.moved_bytes
            moved = keys + o.moved_bytes + do.moved_bytes + (4 * f.outer_steps(machine) - 1) * q.moved_bytes
            moved = moved + 2 * f.row_statistics().bytes
            return replace(once, smem=moved, l2=moved, hbm=moved)
        again = maximum(ceil_div(f.kv_len, f.tile_n) * f.seen_keys() / f.kv_len - 1, 0)
        moved = once.hbm + again * (q.moved_bytes + do.moved_bytes + 2 * 4 * dq.elements)
        return replace(once, smem=moved, l2=moved, hbm=moved)

    def cached(self, machine: Machine) -> Traffic:
        """Later kernels find the streamed Q, dO and dQ of a head in L2."""
        traffic = super().cached(machine)
        if self.forward.implementation not in ("naive", "flash1"):
            resident = self.resident_bytes(machine)
            return replace(traffic, hbm=super().compulsory(machine).hbm - resident)
        return traffic
