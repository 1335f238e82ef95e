"""Softmax of each row: y = exp(x - max) / sum exp(x - max).

Naive skips the maximum, safe takes it in a sweep of its own, online finds maximum and sum together by rescaling the sum
whenever the maximum moves. Rows too long for the chip cost 3, 4 and 3 memory accesses an element.
Source: Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Number, ceil_div
from roofline.ops.base import EAGER_CHAINS, Counts, Kernel, Op, Pass, TensorSpec, choice, dim, number_format, operator
from roofline.ops.launched import Launched, fuses
from roofline.ops.rows import RowSweeps

VECTOR_FLOP = {"naive": 2, "safe": 4, "online": 5}
"""An element: sum and scale; also maximum and subtraction; also the rescaling of the running sum."""

READS_OFF_CHIP = {"naive": 2, "safe": 3, "online": 2}
"""Sweeps over x: (maximum,) sum, result; online joins the first two."""

ONLINE_BLOCK = 128
"""Columns folded into the running maximum and sum at a time, each with one exponential to rescale the sum."""

BACKWARD_FLOP = 4
"""An element of dx = y (dy - sum y dy): a multiply-add, a subtraction, a product."""


@operator(
    "softmax",
    family="normalisation",
    title="softmax of each row",
    formula="2 (naive), 4 (safe) or 5 (online) FLOP and 1 exp an element; bytes 2 e rows cols when a row fits on chip",
    source="arXiv 1805.02867",
)
@dataclass(frozen=True, kw_only=True)
class Softmax(RowSweeps):
    """y[rows, cols] = softmax of x[rows, cols] along the columns."""

    rows: Number = dim("independent rows")
    cols: Number = dim("elements of a row, over which it sums to one")
    dtype: str = number_format("format of x and y")
    implementation: str = choice("how maximum and sum are found", tuple(VECTOR_FLOP), default="safe")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x and y, of one shape."""
        shape = (self.rows, self.cols)
        return TensorSpec("x", shape, self.dtype, "in"), TensorSpec("y", shape, self.dtype, "out")

    def counts(self) -> Counts:
        """Each exponential once (a kernel that streams a row again evaluates it again), and online's rescaling."""
        elements = self.rows * self.cols
        rescales = self.rows * ceil_div(self.cols, ONLINE_BLOCK) if self.implementation == "online" else 0
        return Counts(vector=VECTOR_FLOP[self.implementation] * elements, sfu=elements + rescales)

    def accesses_per_element(self, on_chip: bool) -> tuple[int, int]:
        """Reads and writes of memory an element, when a row stays on chip and when it does not.

        >>> Softmax(rows=1, cols=8, dtype="fp32").accesses_per_element(on_chip=False)
        (3, 1)
        """
        return (1 if on_chip else READS_OFF_CHIP[self.implementation], 1)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel, a compiler's or the library's."""
        return (self.passes()[0].stream("fused_rows" if fuses(execution) else self.name, self.dtype),)

    def row_count(self) -> Number:
        """Rows of x."""
        return self.rows

    def row_bytes(self) -> Number:
        """A row of x."""
        return TensorSpec("row", (self.cols,), self.dtype, "in").bytes

    def reread_bytes(self) -> Number:
        """x once more for each further sweep."""
        return self.tensors()[0].bytes * (self.accesses_per_element(on_chip=False)[0] - 1)

    def saved(self) -> tuple[TensorSpec, ...]:
        """y, from which the gradient is formed."""
        return self.tensors()[1:]

    def backward(self) -> tuple[Op, ...]:
        """dx = y (dy - sum y dy): reads y and dy, writes dx."""
        shape = (self.rows, self.cols)
        return (
            Kernel(
                label="softmax_backward",
                dtype=self.dtype,
                reads=(*self.saved(), TensorSpec("dy", shape, self.dtype, "in")),
                writes=(TensorSpec("dx", shape, self.dtype, "out"),),
                arithmetic=Counts(vector=BACKWARD_FLOP * self.rows * self.cols),
            ),
        )


def _chain(kernel: Kernel) -> tuple[Pass, ...]:
    """torch multiplies y and dy first, in a kernel of its own."""
    y, dy = kernel.reads
    dx = kernel.writes[0]
    return (
        Pass("elementwise", (y, dy), (dx,), Counts(vector=y.elements)),
        Pass("softmax_backward", (y, dx), (dx,), kernel.arithmetic),
    )


EAGER_CHAINS["softmax_backward"] = _chain
