"""Embedding: one row of a table for each token.

No arithmetic forward. The rows touched are counted as all different until the vocabulary is exhausted, min(tokens, vocab);
repeated ids in a real batch touch fewer. Backward adds each token's gradient to its row, an fp32 read and write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.numeric import Number, minimum, where
from roofline.ops.base import EAGER_CHAINS, Counts, Kernel, Machine, Op, Pass, TensorSpec, Traffic, dim, number_format, operator
from roofline.ops.launched import Launched

GRADIENT = "fp32"
"""Format in which the gradient of the table is accumulated."""


@operator(
    "embedding",
    family="embedding",
    title="rows of a table by token id",
    formula="0 FLOP; bytes tokens (8 + e hidden) + e min(tokens, vocab) hidden",
    source="definition of the look-up",
)
@dataclass(frozen=True, kw_only=True)
class Embedding(Op):
    """y[token, :] = table[id[token], :]."""

    tokens: Number = dim("ids to look up")
    vocab: Number = dim("rows of the table")
    hidden: Number = dim("elements of a row")
    dtype: str = number_format("format of the table and of y")
    id_dtype: str = number_format("format of the ids", default="int64")

    def _touched(self) -> Number:
        """Elements of the rows touched, with ids all different as long as the vocabulary lasts."""
        return minimum(self.tokens, self.vocab) * self.hidden

    def _ids(self) -> TensorSpec:
        return TensorSpec("ids", (self.tokens,), self.id_dtype, "in")

    def _output(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.tokens, self.hidden), self.dtype, role)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """ids, the table, of which only some rows move, and y."""
        table = TensorSpec("table", (self.vocab, self.hidden), self.dtype, "weight", touched=self._touched())
        return self._ids(), table, self._output("y", "out")

    def counts(self) -> Counts:
        """None."""
        return Counts()

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel, as large as what it writes."""
        return (replace(self.passes()[0].stream(self.name, self.dtype), rows=self.tokens, cols=self.hidden),)

    def tiled(self, machine: Machine) -> Traffic:
        """Every token reads its row, whether or not another did."""
        traffic = self.compulsory(machine)
        again = self._output("y", "in").bytes - self.tensors()[1].moved_bytes
        return replace(traffic, l2=traffic.l2 + again, hbm=traffic.hbm + again)

    def cached(self, machine: Machine) -> Traffic:
        """Rows used again come from L2 where the rows touched fit in it."""
        tiled = self.tiled(machine)
        fits = self.tensors()[1].moved_bytes <= machine.l2_bytes
        return replace(tiled, hbm=where(fits, self.compulsory(machine).hbm, tiled.hbm))

    def saved(self) -> tuple[TensorSpec, ...]:
        """The ids."""
        return (self._ids(),)

    def backward(self) -> tuple[Op, ...]:
        """Adds dy into the touched rows of the table's gradient, which is read and written."""
        gradient = TensorSpec("dtable", (self.vocab, self.hidden), GRADIENT, "inout", touched=self._touched())
        return (
            Kernel(
                label="embedding_backward",
                dtype=self.dtype,
                reads=(self._ids(), self._output("dy", "in"), gradient),
                writes=(gradient,),
                arithmetic=Counts(vector=self.tokens * self.hidden),
            ),
        )


def _chain(kernel: Kernel) -> tuple[Pass, ...]:
    """A gradient of zeros for the whole table, then the sums of the rows touched."""
    ids, dy, gradient = kernel.reads
    table = TensorSpec(gradient.name, gradient.shape, kernel.dtype, "out")
    touched = TensorSpec(gradient.name, gradient.shape, kernel.dtype, "inout", touched=gradient.touched)
    return Pass("fill", (), (table,)), Pass("embedding_backward", (dy, ids, touched), (touched,), kernel.arithmetic)


EAGER_CHAINS["embedding_backward"] = _chain
