"""Monarch matrices: a dense n x n matrix replaced by block-diagonal ones with a permutation after each, and the M2 layer.

With n = N_1 ... N_p, factor i has n / N_i blocks of N_i x N_i: n sum(N_i) weights and 2 rows n sum(N_i) FLOP, for p = 2 and a
square n 2 n^1.5 weights and 4 rows n^1.5 FLOP, against n^2 and 2 rows n^2 of the dense matrix.

``bmm`` is plain torch: a batched product and a permuting copy for each factor. ``fused`` keeps a tile of rows on chip.
Sources: Dao et al., arXiv 2204.00595 (Monarch); Fu et al., arXiv 2310.12109 (Monarch Mixer).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, ceil_div, maximum, minimum, total, where
from roofline.ops.base import Counts, Machine, Op, Pass, TensorSpec, Traffic, choice, dim, number_format, operator
from roofline.ops.factors import even_factors, first
from roofline.ops.gemm import BatchedGemm
from roofline.ops.launched import Launched, Stream
from roofline.ops.live import peak_scratch_bytes
from roofline.ops.memory import SECTOR_BYTES

MOST_ROWS = 128
"""Rows of a fused tile, when the chip has room for more."""
LINE_BYTES = 64
"""What device memory moves at least."""


@operator(
    "monarch",
    family="matrix",
    title="product with a Monarch matrix: block-diagonal factors and permutations",
    formula="2 rows n sum(N_i) FLOP, n = N_1 ... N_p; bytes e (2 rows n + n sum(N_i)), unfused 4 rows n e for each factor",
    source="Dao et al. 2022 (arXiv 2204.00595)",
)
@dataclass(frozen=True, kw_only=True)
class Monarch(Op):
    """y[rows, n] = x[rows, n] M, with M = (B_1 P) ... (B_p P): block-diagonal B_i and permutations P."""

    rows: Number = dim("rows of x, such as tokens")
    n: Number = dim("size of the matrix", minimum=4)
    dtype: str = number_format("format of x, the factors and y")
    order: Number = dim("factors, 2 or 3, as even as n allows", default=2, minimum=2)
    implementation: str = choice("batched products and permuting copies, or one kernel", ("bmm", "fused"), default="bmm")

    # ---------------------------------------------------------------- shape
    def _order(self) -> int:
        return first(self.order)

    def block_widths(self) -> tuple[Number, ...]:
        """Widths of the blocks of each factor, the widest first.

        >>> Monarch(rows=1, n=8192, dtype="bf16", order=3).block_widths()
        (32, 16, 16)
        """
        return even_factors(self.n, self._order())

    def check(self) -> str | None:
        """n must have as many factors."""
        if anywhere(self.order > 3) or anywhere(self.order != first(self.order)):
            return "order must be 2 or 3, the same in all cases of a sweep"
        if anywhere(self.block_widths()[-1] < 2):
            return f"n does not factor into {self._order()} whole factors; take a size such as a power of two"
        return None

    # ---------------------------------------------------------------- tensors
    def _rows(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.rows, self.n), self.dtype, role)

    def factors(self) -> tuple[TensorSpec, ...]:
        """w_i[n / N_i, N_i, N_i]."""
        return tuple(
            TensorSpec(f"w{i}", (self.n // width, width, width), self.dtype, "weight") for i, width in enumerate(self.block_widths(), 1)
        )

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[rows, n], w_i[n / N_i, N_i, N_i], y[rows, n]."""
        return (self._rows("x", "in"), *self.factors(), self._rows("y", "out"))

    def products(self) -> tuple[BatchedGemm, ...]:
        """The product with each factor: its blocks as a batch."""
        return tuple(
            BatchedGemm(batch=self.n // width, m=self.rows, n=width, k=width, dtype=self.dtype, out_dtype=self.dtype)
            for width in self.block_widths()
        )

    # ---------------------------------------------------------------- work
    def counts(self) -> Counts:
        """2 rows n N_i for each factor."""
        return Counts(tensor=total(p.counts().tensor for p in self.products()))

    def passes(self) -> tuple[Pass, ...]:
        """For each factor a product and a permutation, or one pass for all."""
        if self.implementation == "fused":
            return super().passes()
        found: list[Pass] = []
        x = self._rows("x", "in")
        for i, (weights, product) in enumerate(zip(self.factors(), self.products(), strict=True), 1):
            blocks = self._rows(f"blocks{i}", "scratch")
            mixed = self._rows("y", "out") if i == self._order() else self._rows(f"mixed{i}", "scratch")
            found += [Pass("product", (x, weights), (blocks,), product.counts()), Pass("permute", (blocks,), (mixed,))]
            x = mixed
        return tuple(found)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """Batched products and permuting copies, or one kernel that streams rows and multiplies."""
        if self.implementation == "fused":
            return (self.passes()[0].stream("monarch", self.dtype),)
        found: list[Launched] = []
        for i, product in enumerate(self.products()):
            found += [*product.launched(execution), self._permutation(i)]
        return tuple(found)

    def _permutation(self, i: int) -> Stream:
        """A copy that writes in order and reads a line for each element.

        ``rows`` is how many lines it reads before it comes back to the next element of one: after the last factor a line
        for each block, after the others one for each block and row, at most all there are.
        """
        blocks, moved = self.n // self.block_widths()[i], self._rows("x", "in").bytes
        between = blocks if i == self._order() - 1 else minimum(self.rows * blocks, maximum(moved // LINE_BYTES, 1))
        return Stream(
            kind="permute",
            rows=between,
            cols=self.rows * self.n / between,
            read_bytes=moved,
            write_bytes=moved,
            dtype=self.dtype,
        )

    # ---------------------------------------------------------------- traffic
    def compulsory(self, machine: Machine | None) -> Traffic:
        """Each operand of each pass once; accumulators leave the registers once."""
        return replace(super().compulsory(machine), register=total(p.compulsory(machine).register for p in self.products()))

    def fused_rows(self, machine: Machine) -> Number:
        """Rows of a fused tile: what fits in shared memory with room for the result of a factor."""
        return minimum(maximum(machine.smem_bytes // (2 * self.n * find_dtype(self.dtype).bytes), 1), MOST_ROWS)

    def tiled(self, machine: Machine) -> Traffic:
        """Products with their tiling and permutations that read a sector an element; fused, the factors again for each tile."""
        once, products = self.compulsory(machine), [p.tiled(machine) for p in self.products()]
        if self.implementation == "bmm":
            sectors = len(products) * self.rows * self.n * SECTOR_BYTES
            moved = total(p.hbm for p in products) + len(products) * self._rows("x", "in").bytes + sectors
            return replace(once, smem=total(p.smem for p in products), l2=moved, hbm=moved)
        again = total(w.bytes for w in self.factors()) * (ceil_div(self.rows, self.fused_rows(machine)) - 1)
        return replace(once, smem=total(p.smem for p in products), l2=once.l2 + again, hbm=once.hbm + again)

    def cached(self, machine: Machine) -> Traffic:
        """Factors stay in L2 if they fit, and so does the rest of a sector until it is used."""
        tiled, once = self.tiled(machine), self.compulsory(machine)
        if self.implementation == "bmm":
            again = total(p.cached(machine).hbm - p.compulsory(machine).hbm for p in self.products())
            return replace(tiled, hbm=minimum(once.hbm + again, tiled.hbm) - self.resident_bytes(machine))
        factors = total(w.bytes for w in self.factors())
        return replace(tiled, hbm=where(factors <= machine.l2_bytes, once.hbm, tiled.hbm))

    def extra_memory_bytes(self) -> Number:
        """What lies between the passes, as long as it is used."""
        return peak_scratch_bytes(self.passes())

    # ---------------------------------------------------------------- backward
    def saved(self) -> tuple[TensorSpec, ...]:
        """x, and what went into each further factor."""
        mixed = tuple(self._rows(f"mixed{i}", "scratch") for i in range(1, self._order())) if self.implementation == "bmm" else ()
        return (self._rows("x", "in"), *mixed)

    def backward(self) -> tuple[Op, ...]:
        """For each factor, last first, the gradients of its input and of its blocks: two products as large as its own."""
        return tuple(gradient for product in reversed(self.products()) for gradient in product.backward())
