"""Grouped matrix products: each token goes through a few of many weight matrices, as in a mixture of experts.

With ``active`` of ``experts`` chosen at random for each of ``tokens``, experts (1 - (1 - active / experts)^tokens) are touched in
the mean, and only their weights are read; where it is known how many are, ``chosen`` says so. FLOP are those of the chosen experts:
2 tokens active n k. A product with as many active as there are matrices is a product by head, as absorbed latent attention has.
Where ``ranks`` devices share the experts evenly, figures are those of one device, and tokens those of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, ceil_div, log2, maximum, minimum, power, root, where
from roofline.ops.base import Counts, Machine, Op, TensorSpec, Traffic, dim, flag, number_format, operator, whole
from roofline.ops.gemm import BatchedGemm
from roofline.ops.launched import GroupedProduct, Launched, Product, alignment

LN2 = 0.6931471805599453
"""From the logarithm to base 2 to the natural one."""
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
    ranks: Number = dim("devices that share the experts evenly, of which this is one; tokens are those of all of them", default=1)
    chosen: Number = dim("experts here that a token chooses, where that is known; 0 for the mean of a random choice", default=0, minimum=0)
    fullest: Number = dim("rows of the fullest expert, where that is known; 0 for a random choice", default=0, minimum=0)
    frozen: bool = flag("W is not trained, so that backward forms no gradient of it")
    tile_m: Number = dim("rows of the block tile of C", default=128)
    tile_n: Number = dim("columns of the block tile of C", default=128)

    def check(self) -> str | None:
        """No more can be active or chosen than there are, and the fullest has no fewer rows than the mean and no more than all."""
        if anywhere(self.active > self.experts):
            return f"active {self.active} is more than experts {self.experts}"
        if anywhere(self.chosen > minimum(self.held, self.rows)):
            return f"chosen {self.chosen} is more than the experts {self.held} or the rows {self.rows} that are here"
        holding = where(self.chosen > 0, self.chosen, self.held)
        if anywhere((self.fullest > 0) & ((self.fullest > self.rows) | (self.fullest * holding < self.rows))):
            return f"fullest {self.fullest} is more than all {self.rows} rows, or less than their mean over {holding} experts"
        return None

    @property
    def rows(self) -> Number:
        """Rows of A: each token once for each of its experts that lie here."""
        return ceil_div(self.tokens * self.active, self.ranks)

    @property
    def held(self) -> Number:
        """Experts that lie here."""
        return ceil_div(self.experts, self.ranks)

    @cached_property
    def touched(self) -> Number:
        """Experts that at least one token chooses; in the mean over uniform choices where it is not known. All else here asks for it."""
        random = self.held * (1 - power(1 - self.active / self.experts, self.tokens))
        return where(self.chosen > 0, self.chosen, random)

    @property
    def most_rows(self) -> Number:
        """Rows of the fullest expert; of a random choice the mean and, for a maximum of many nearly normal loads, their deviation."""
        mean = self.rows / self.touched
        random = mean + root(2 * mean * log2(maximum(self.touched, 1)) * LN2 * (1 - self.active / self.experts))
        return where(self.fullest > 0, self.fullest, minimum(random, self.rows))

    def _touched_of(self, elements: Number) -> Number:
        """Elements read of so many an expert, as a whole number of eights, and at most all."""
        found = (self.touched * elements + EIGHT / 2) // EIGHT * EIGHT
        every = (self.active == self.experts) & (self.chosen == 0)
        return minimum(where(every, self.held * elements, found), self.held * elements)

    def _scales(self, elements: Number) -> Number:
        return where(self.group_size > 0, self.scale_bytes * ceil_div(elements, maximum(self.group_size, 1)), 0)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """A[rows, k], W[held, k, n] of which those touched move with their scales, biases, C[rows, n]."""
        weight = self.weight_dtype or self.dtype
        out = self.out_dtype or ("bf16" if find_dtype(self.dtype).bits <= 8 else self.dtype)
        matrix = self.k * self.n
        scales = self._scales(matrix)
        moved = self._touched_of(matrix) + self._touched_of(scales) / find_dtype(weight).bytes  # scales move with their weights
        found = [
            TensorSpec("a", (self.rows, self.k), self.dtype, "in"),
            TensorSpec("w", (self.held, self.k, self.n), weight, "weight", whole(moved), self.held * scales),
        ]
        if self.bias:
            found.append(TensorSpec("bias", (self.held, self.n), out, "weight", self._touched_of(self.n)))
        return (*found, TensorSpec("c", (self.rows, self.n), out, "out"))

    def counts(self) -> Counts:
        """2 n k for each token and expert it passes, and n additions of a bias."""
        return Counts(tensor=2 * self.rows * self.n * self.k, vector=self.rows * self.n * int(self.bias))

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel: a batch of products where every token passes every matrix, else a grouped one that rows are sorted for."""
        *reads, c = self.tensors()
        a, w = reads[:2]
        matrices = sum((t.moved_bytes for t in reads[2:]), w.moved_bytes)
        if anywhere(self.active < self.experts) or anywhere(self.chosen > 0):
            return (
                GroupedProduct(
                    experts=self.held,
                    chosen=self.touched,
                    rows=self.rows,
                    fullest=self.most_rows,
                    n=self.n,
                    k=self.k,
                    dtype=self.dtype,
                    weight_bytes=matrices,
                    read_bytes=a.moved_bytes + matrices,
                    write_bytes=c.moved_bytes,
                    aligned=self.k % (2 * EIGHT) == 0,
                ),
            )
        return (
            Product(
                kind="batched_gemm",
                batch=self.touched,
                m=self.rows / self.touched,
                n=self.n,
                k=self.k,
                dtype=self.dtype,
                read_bytes=a.moved_bytes + matrices,
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
        return () if self.frozen else self.tensors()[:1]

    def backward(self) -> tuple[Op, ...]:
        """dA = dC W^T by expert, and dW = A^T dC unless W is frozen, one product for each expert."""
        back = replace(self, n=self.k, k=self.n, out_dtype=None, bias=False)
        if self.frozen:
            return (back,)
        groups = minimum(self.held, self.rows)
        return back, BatchedGemm(batch=groups, m=self.k, n=self.n, k=self.rows / groups, dtype=self.dtype)
