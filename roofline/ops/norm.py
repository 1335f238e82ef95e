"""Layer norm and RMS norm of each row, on their own or with the residual addition before them.

layernorm: y = (x - mean) / sqrt(var + eps) gamma + beta; rmsnorm: y = x / sqrt(mean x^2 + eps) gamma. Statistics are fp32
and take one sweep, the result a second one, which re-reads x where a row does not fit on chip. The statistics kept
for the backward pass (8 or 4 bytes a row) are left out of the forward traffic.
Sources: Ba et al., arXiv 1607.06450; Zhang and Sennrich, arXiv 1910.07467.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.numeric import Number
from roofline.ops.base import Counts, Kernel, Op, TensorSpec, dim, flag, number_format, operator
from roofline.ops.rows import STATISTIC, RowSweeps


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

    def _weights(self) -> tuple[str, ...]:
        return ("gamma", "beta") if self.bias else ("gamma",)

    def _flop_per_element(self) -> int:
        """Mean 1, variance 3 (subtract, multiply-add), subtract, rstd, gamma, and beta."""
        return 7 + int(self.bias)

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
