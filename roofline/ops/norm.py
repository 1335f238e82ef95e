"""Layer norm and RMS norm of each row, on their own or with the residual addition before them.

layernorm: y = (x - mean) / sqrt(var + eps) gamma + beta; rmsnorm: y = x / sqrt(mean x^2 + eps) gamma. Statistics are fp32
and take one sweep, the result a second one, which re-reads x where a row does not fit on chip. The statistics kept
for the backward pass (8 or 4 bytes a row) are left out of the forward traffic. An unfused layer norm is what tensor code
without such a kernel runs: a sweep for the mean, one for the variance, one for the result, as kernels of their own.
Sources: Ba et al., arXiv 1607.06450; Zhang and Sennrich, arXiv 1910.07467.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from roofline.numeric import Number
from roofline.ops.base import EAGER_CHAINS, Counts, Kernel, Op, Pass, TensorSpec, choice, dim, flag, number_format, operator
from roofline.ops.launched import Launched, fuses
from roofline.ops.rows import STATISTIC, RowSweeps
from roofline.records import dataclass


@dataclass(frozen=True, kw_only=True)
class _Norm(RowSweeps):
    """What the norms share: x (and a residual added to it) in, y (and that sum) out, a gain a column."""

    STATISTICS: ClassVar[tuple[str, ...]] = ()

    rows: Number = dim("independent rows, such as tokens")
    cols: Number = dim("elements of a row that share one mean or scale")
    dtype: str = number_format("format of x, y and the weights")
    residual: bool = flag("add a residual to x first and write that sum as well")

    def _matrix(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.rows, self.cols), self.dtype, role)

    def _vector(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.cols,), self.dtype, role)

    def _weights(self) -> tuple[str, ...]:
        """Names of the weights, each one vector."""
        return ("gamma",)

    def _flop_per_element(self) -> int:
        """Forward FLOP an element, without the residual addition."""
        raise NotImplementedError

    def _backward_flop_per_element(self) -> int:
        """Backward FLOP an element, without the residual addition."""
        raise NotImplementedError

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x and y, the weights, and with a residual that and the sum."""
        residual = (self._matrix("residual", "in"),) if self.residual else ()
        sums = (self._matrix("sum", "out"),) if self.residual else ()
        weights = tuple(self._vector(name, "weight") for name in self._weights())
        return (self._matrix("x", "in"), *residual, *weights, *sums, self._matrix("y", "out"))

    def counts(self) -> Counts:
        """A fixed number of FLOP an element, and one rsqrt a row."""
        flop = self._flop_per_element() + int(self.residual)
        return Counts(vector=flop * self.rows * self.cols, sfu=self.rows)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel for the norm, in eager torch one before it for the residual addition; a compiler's own kernel does both."""
        if fuses(execution):
            return (self.passes()[0].stream("fused_rows", self.dtype),)
        x, y = self._matrix("x", "in"), self._matrix("y", "out")
        weights = tuple(self._vector(name, "weight") for name in self._weights())
        norm = Pass(self.name, (x, *weights), (y,), Counts(vector=self._flop_per_element() * x.elements, sfu=self.rows))
        add = Pass("elementwise", (x, x), (y,), Counts(vector=x.elements))
        after = norm.stream(self.name, self.dtype)
        if not self.residual:
            return (after,)
        return add.stream("elementwise", self.dtype), replace(after, fresh_bytes=x.bytes)

    def row_count(self) -> Number:
        """Rows of x."""
        return self.rows

    def row_bytes(self) -> Number:
        """A row of x, or of the sum."""
        return self._vector("row", "in").bytes

    def reread_bytes(self) -> Number:
        """x, or the sum, once more for the result."""
        return self._matrix("x", "in").bytes

    def saved(self) -> tuple[TensorSpec, ...]:
        """What was normalised, and its statistics for each row."""
        statistics = tuple(TensorSpec(name, (self.rows,), STATISTIC, "in") for name in self.STATISTICS)
        return (self._matrix("sum" if self.residual else "x", "in"), *statistics)

    def backward(self) -> tuple[Op, ...]:
        """One kernel: dx and the gradients of the weights; the gradient of the sum is added where there is one."""
        reads = (*self.saved(), self._vector("gamma", "weight"), self._matrix("dy", "in"))
        gradients = tuple(self._vector(f"d{name}", "out") for name in self._weights())
        flop = self._backward_flop_per_element() + int(self.residual)
        return (
            Kernel(
                label=f"{self.name}_backward",
                dtype=self.dtype,
                reads=(*reads, self._matrix("dsum", "in")) if self.residual else reads,
                writes=(self._matrix("dx", "out"), *gradients),
                arithmetic=Counts(vector=flop * self.rows * self.cols),
            ),
        )


@operator(
    "layernorm",
    family="normalisation",
    title="layer norm of each row",
    formula="8 FLOP an element (7 without beta) and 1 rsqrt a row; bytes 2 e rows cols, 4 e rows cols with a residual",
    source="arXiv 1607.06450",
)
@dataclass(frozen=True, kw_only=True)
class LayerNorm(_Norm):
    """y = (x - mean) rstd gamma + beta."""

    STATISTICS: ClassVar[tuple[str, ...]] = ("mean", "rstd")

    bias: bool = flag("add beta", default=True)
    implementation: str = choice("one kernel, or one for each sweep over the row", ("fused", "unfused"), default="fused")

    def _weights(self) -> tuple[str, ...]:
        return ("gamma", "beta") if self.bias else ("gamma",)

    def _flop_per_element(self) -> int:
        """Mean 1, variance 3 (subtract, multiply-add), subtract, rstd, gamma, and beta."""
        return 7 + int(self.bias)

    def passes(self) -> tuple[Pass, ...]:
        """One; unfused, the residual addition, mean, variance and result."""
        if self.implementation == "fused":
            return super().passes()
        x, y, weights = self._matrix("x", "in"), self._matrix("y", "out"), tuple(self._vector(n, "weight") for n in self._weights())
        mean, rstd = (TensorSpec(name, (self.rows,), STATISTIC, "scratch") for name in self.STATISTICS)
        found = []
        if self.residual:
            total = self._matrix("sum", "out")
            found.append(Pass("elementwise", (x, self._matrix("residual", "in")), (total,), Counts(vector=x.elements)))
            x = total
        found.append(Pass("reduction", (x,), (mean,), Counts(vector=x.elements)))
        found.append(Pass("reduction", (x, mean), (rstd,), Counts(vector=3 * x.elements, sfu=self.rows)))
        last = Counts(vector=(self._flop_per_element() - 4) * x.elements)
        return (*found, Pass("elementwise", (x, mean, rstd, *weights), (y,), last))

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """As the library's or a compiler's kernel; unfused, each sweep. A compiler fuses them."""
        if self.implementation == "fused" or fuses(execution):
            return super(LayerNorm, replace(self, implementation="fused")).launched(execution)
        return tuple(p.stream(p.name, self.dtype) for p in self.passes())

    def reread_bytes(self) -> Number:
        """Unfused, each sweep is a pass of its own and reads once."""
        return super().reread_bytes() if self.implementation == "fused" else 0

    def _backward_flop_per_element(self) -> int:
        """x^ = (x - mean) rstd 2, dgamma 2, g = dy gamma 1, sum g 1, sum g x^ 2, dx = rstd (g - a - x^ b) 4, and dbeta."""
        return 12 + int(self.bias)


@operator(
    "rmsnorm",
    family="normalisation",
    title="root-mean-square norm of each row",
    formula="4 FLOP an element and 1 rsqrt a row; bytes 2 e rows cols, 4 e rows cols with a residual",
    source="arXiv 1910.07467",
)
@dataclass(frozen=True, kw_only=True)
class RmsNorm(_Norm):
    """y = x rstd gamma."""

    STATISTICS: ClassVar[tuple[str, ...]] = ("rstd",)

    def _flop_per_element(self) -> int:
        """Sum of squares 2, rstd 1, gamma 1."""
        return 4

    def _backward_flop_per_element(self) -> int:
        """x^ = x rstd 1, dgamma 2, g = dy gamma 1, sum g x^ 2, dx = rstd (g - x^ b) 3."""
        return 9


def _chain(kernel: Kernel) -> tuple[Pass, ...]:
    """dx, then the gradients of the weights, which read x and dy again (and the gradient of the sum is added by a third)."""
    saved, dy = kernel.reads[0], next(t for t in kernel.reads if t.name == "dy")
    small = tuple(t for t in kernel.reads if t.name not in (saved.name, "dy", "dsum"))
    dx, gradients = kernel.writes[0], kernel.writes[1:]
    half = Counts(vector=kernel.arithmetic.vector / 2)
    chain = (Pass("norm_backward", (saved, dy, *small), (dx,), half), Pass("norm_weights_backward", (saved, dy, *small), gradients, half))
    dsum = tuple(t for t in kernel.reads if t.name == "dsum")
    return (*chain, Pass("elementwise", (dx, *dsum), (dx,), Counts(vector=dx.elements))) if dsum else chain


EAGER_CHAINS["layernorm_backward"] = EAGER_CHAINS["rmsnorm_backward"] = _chain
