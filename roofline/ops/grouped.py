"""Grouped matrix products: each token goes through a few of many weight matrices, as in a mixture of experts.

With ``active`` of ``experts`` chosen at random for each of ``tokens``, experts (1 - (1 - active / experts)^tokens) are touched in
the mean, and only their weights are read. FLOP are those of the chosen experts: 2 tokens active n k. A product with as many
active as there are matrices is a product by head, as absorbed latent attention has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, ceil_div, maximum, minimum, power, where
from roofline.ops.base import Counts, Machine, Op, TensorSpec, Traffic, dim, flag, number_format, operator, whole
from roofline.ops.gemm import BatchedGemm
from roofline.ops.launched import Launched, Product, alignment

EIGHT = 8
"""Elements are touched in eights, so that bytes of any format are whole."""


@operator(
    "grouped_gemm",
    family="matrix",
    title="products of tokens with a few of many weight matrices (experts)",
    formula="2 tokens active n k FLOP; bytes e tokens active (k + n) + e_w n k experts (1 - (1 - active / experts)^tokens)",
    source="expected number of boxes hit by uniform choice; as published mixtures of experts compute",
)
@dataclass(frozen=True, kw_only=True)
class GroupedGemm(Op):
    """C[token, chosen, n] = A[token, chosen, k] W[expert, k, n] (+ bias), with ``active`` experts chosen for each token."""

    tokens: Number = dim("tokens, each of which chooses")
    experts: Number = dim("weight matrices")
    active: Number = dim("matrices that a token passes")
    n: Number = dim("columns of W and C")
    k: Number = dim("columns of A, rows of W")
    dtype: str = number_format("format of A and of the products")
    out_dtype: str | None = number_format("format of C; that of A when not given, bf16 for fp8 and fp4", default=None)
    weight_dtype: str | None = number_format("format of W when it is quantised on its own", default=None)
    group_size: Number = dim("weights that share a scale, for a quantised W; 0 for none", default=0, minimum=0)
    scale_bytes: Number = dim("bytes of a scale", default=2)
    bias: bool = flag("add a bias of n for each expert")
    tile_m: Number = dim("rows of the block tile of C", default=128)
    tile_n: Number = dim("columns of the block tile of C", default=128)

    def check(self) -> str | None:
        """No more can be active than there are."""
        return f"active {self.active} is more than experts {self.experts}" if anywhere(self.active > self.experts) else None

    @property
    def rows(self) -> Number:
        """Rows of A: each token once for each of its experts."""
        return self.tokens * self.active

    @property
    def touched(self) -> Number:
        """Experts that at least one token chooses, in the mean over uniform choices."""
        return self.experts * (1 - power(1 - self.active / self.experts, self.tokens))

    def _touched_of(self, elements: Number) -> Number:
        """Elements read of so many an expert, as a whole number of eights, and at most all."""
        found = (self.touched * elements + EIGHT / 2) // EIGHT * EIGHT
        return minimum(where(self.active == self.experts, self.experts * elements, found), self.experts * elements)

    def _scales(self, elements: Number) -> Number:
        return where(self.group_size > 0, self.scale_bytes * ceil_div(elements, maximum(self.group_size, 1)), 0)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """A[rows, k], W[experts, k, n] of which those touched move with their scales, biases, C[rows, n]."""
        weight = self.weight_dtype or self.dtype
        out = self.out_dtype or ("bf16" if find_dtype(self.dtype).bits <= 8 else self.dtype)
        matrix = self.k * self.n
        scales = self._scales(matrix)
        moved = self._touched_of(matrix) + self._touched_of(scales) / find_dtype(weight).bytes  # scales move with their weights
        found = [
            TensorSpec("a", (self.rows, self.k), self.dtype, "in"),
            TensorSpec("w", (self.experts, self.k, self.n), weight, "weight", whole(moved), self.experts * scales),
        ]
        if self.bias:
            found.append(TensorSpec("bias", (self.experts, self.n), out, "weight", self._touched_of(self.n)))
        return (*found, TensorSpec("c", (self.rows, self.n), out, "out"))

    def counts(self) -> Counts:
        """2 n k for each token and expert it passes, and n additions of a bias."""
        return Counts(tensor=2 * self.rows * self.n * self.k, vector=self.rows * self.n * int(self.bias))

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel: a batch of products, one for each expert touched."""
        *reads, c = self.tensors()
        a, w = reads[:2]
        return (
            Product(
                kind="batched_gemm",
                batch=self.touched,
                m=self.rows / self.touched,
                n=self.n,
                k=self.k,
                dtype=self.dtype,
                read_bytes=sum((t.moved_bytes for t in reads[1:]), a.moved_bytes),
                write_bytes=c.moved_bytes,
                aligned=minimum(alignment(self.k * find_dtype(w.dtype).bytes), alignment(self.n * find_dtype(c.dtype).bytes)),
            ),
        )

    def tiled(self, machine: Machine) -> Traffic:
        """A is read again for each tile of columns, a touched W for each tile of its rows."""
        once = self.compulsory(machine)
        a, w = self.tensors()[:2]
        per_expert = ceil_div(self.rows, self.touched * self.tile_m)
        moved = once.hbm + a.moved_bytes * (ceil_div(self.n, self.tile_n) - 1) + w.moved_bytes * (maximum(per_expert, 1) - 1)
        return replace(once, l2=moved, hbm=moved)

    def cached(self, machine: Machine) -> Traffic:
        """Re-reads of one expert's operands hit in L2 where those fit."""
        tiled = self.tiled(machine)
        a, w = self.tensors()[:2]
        fits = a.moved_bytes + w.moved_bytes <= machine.l2_bytes * self.touched
        return replace(tiled, hbm=where(fits, self.compulsory(machine).hbm, tiled.hbm))

    def saved(self) -> tuple[TensorSpec, ...]:
        """A, for the gradient of W."""
        return self.tensors()[:1]

    def backward(self) -> tuple[Op, ...]:
        """dA = dC W^T by expert, and dW = A^T dC, one product for each expert."""
        back = replace(self, n=self.k, k=self.n, out_dtype=None, bias=False)
        groups = minimum(self.experts, self.rows)
        return back, BatchedGemm(batch=groups, m=self.k, n=self.n, k=self.rows / groups, dtype=self.dtype)
