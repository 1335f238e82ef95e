"""Operators that mostly move data: a reduction along rows, a transposition, a copy on the device or over a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, maximum
from roofline.ops.base import (
    Counts,
    Kernel,
    Machine,
    Op,
    TensorSpec,
    Traffic,
    amount,
    choice,
    dim,
    number_format,
    operator,
    whole,
    word,
)
from roofline.ops.launched import Launched, Transfer, fuses

SECTOR_BYTES = 32
"""What L2 moves at least, on NVIDIA GPUs since 2016: the cost of one element of a strided access."""


@operator(
    "reduction",
    family="memory",
    title="sum, mean or maximum of each row",
    formula="1 FLOP an element, and 1 a row for a mean; bytes e rows cols + e rows",
    source="definition",
)
@dataclass(frozen=True, kw_only=True)
class Reduction(Op):
    """y[rows] = sum, mean or maximum of x[rows, cols] along the columns; one row reduces everything."""

    rows: Number = dim("results")
    cols: Number = dim("elements reduced to one result")
    dtype: str = number_format("format of x")
    function: str = choice("how a row is reduced", ("sum", "mean", "max"), default="sum")
    out_dtype: str | None = number_format("format of y; that of x when not given", default=None)

    def _result(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.rows,), self.out_dtype or self.dtype, role)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[rows, cols] and y[rows]."""
        return TensorSpec("x", (self.rows, self.cols), self.dtype, "in"), self._result("y", "out")

    def counts(self) -> Counts:
        """An addition or comparison an element; a mean also scales each row."""
        return Counts(vector=self.rows * self.cols + self._scalings())

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel, a compiler's or the library's."""
        return (self.passes()[0].stream("fused_rows" if fuses(execution) else self.name, self.dtype),)

    def _scalings(self) -> Number:
        return self.rows if self.function == "mean" else 0

    def saved(self) -> tuple[TensorSpec, ...]:
        """Where the maximum was found; nothing for a sum or mean."""
        return (TensorSpec("index", (self.rows,), "int64", "in"),) if self.function == "max" else ()

    def backward(self) -> tuple[Op, ...]:
        """Spreads dy over the row, or writes it where the maximum was."""
        return (
            Kernel(
                label=f"{self.function}_backward",
                dtype=self.dtype,
                reads=(*self.saved(), self._result("dy", "in")),
                writes=(TensorSpec("dx", (self.rows, self.cols), self.dtype, "out"),),
                arithmetic=Counts(vector=self._scalings()),
            ),
        )


@operator(
    "transpose",
    family="memory",
    title="transposition of a matrix in memory",
    formula="0 FLOP; bytes 2 e rows cols; strided, L2 moves a 32-byte sector for each element on one side",
    source="definition; L2 traffic measured on an H200",
)
@dataclass(frozen=True, kw_only=True)
class Transpose(Op):
    """y[cols, rows] = x[rows, cols] transposed."""

    rows: Number = dim("rows of x")
    cols: Number = dim("columns of x")
    dtype: str = number_format("format of x and y")
    implementation: str = choice(
        "a plain strided copy, as a framework's contiguous() makes it, or one staged through shared memory",
        ("strided", "staged"),
        default="strided",
    )

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x and y."""
        shape, transposed = (self.rows, self.cols), (self.cols, self.rows)
        return TensorSpec("x", shape, self.dtype, "in"), TensorSpec("y", transposed, self.dtype, "out")

    def counts(self) -> Counts:
        """None."""
        return Counts()

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel, of one of two sorts: a plain strided copy, or one whose tiles pass through shared memory."""
        staged = self.implementation == "staged" or fuses(execution)
        return (self.passes()[0].stream("transpose_staged" if staged else self.name, self.dtype),)

    def tiled(self, machine: Machine) -> Traffic:
        """Staged tiles pass through shared memory once each way; a strided copy moves a sector an element on one side."""
        traffic, x = self.compulsory(machine), self.tensors()[0]
        if self.implementation == "staged":
            return replace(traffic, smem=2 * x.bytes)
        sectors = x.elements * SECTOR_BYTES
        return replace(traffic, l2=x.bytes + sectors, hbm=x.bytes + sectors)

    def cached(self, machine: Machine) -> Traffic:
        """The rest of a sector is used while it is in L2."""
        return replace(self.tiled(machine), hbm=self.compulsory(machine).hbm)

    def backward(self) -> tuple[Op, ...]:
        """The transposition back."""
        return (replace(self, rows=self.cols, cols=self.rows),)


@operator(
    "copy",
    family="memory",
    title="copy within device memory or over a link",
    formula="0 FLOP; bytes read + written; over a link the link's bytes, and as many on this side's memory",
    source="definition",
)
@dataclass(frozen=True, kw_only=True)
class Copy(Op):
    """Bytes from here to there: ``elements`` of a format, or ``read`` and ``write`` in bytes; ``over`` a link or not."""

    dtype: str = number_format("format of the elements")
    elements: Number = dim("elements copied; 0 when bytes are given", default=0, minimum=0)
    read: Number = amount("bytes read", "B", default=0)
    write: Number = amount("bytes written", "B", default=0)
    over: str = word("link that carries the copy; none for a copy within device memory", default="")

    def check(self) -> str | None:
        """Either elements or bytes."""
        if anywhere(self.elements > 0) and anywhere(self.read + self.write > 0):
            return "give either elements or read and write, not both"
        if not anywhere(self.elements + self.read + self.write > 0):
            return "give elements, or read and write in bytes"
        return None

    @property
    def lane(self) -> str:
        """A copy over a link runs beside kernels, one within the device is a kernel."""
        return "copy" if self.over else "compute"

    def _element_bytes(self) -> Number:
        return whole(self.elements * find_dtype(self.dtype).bytes)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """Raw bytes: source and destination, or over a link the one of the two that is in this memory."""
        if self.over:
            return (TensorSpec("payload", (self._payload(),), "int8", "in"),)
        source, destination = self._element_bytes() + self.read, self._element_bytes() + self.write
        return TensorSpec("source", (source,), "int8", "in"), TensorSpec("destination", (destination,), "int8", "out")

    def _payload(self) -> Number:
        return self._element_bytes() + whole(maximum(self.read, self.write))

    def counts(self) -> Counts:
        """None."""
        return Counts()

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """A transfer over the link, or a copy within the device."""
        if self.over:
            return (Transfer(link=self.over, bytes=self._payload()),)
        return (self.passes()[0].stream(self.name, self.dtype),)

    def link_bytes(self) -> Mapping[str, Number]:
        """What crosses the link, one way."""
        return {self.over: self._payload()} if self.over else {}

    def backward(self) -> tuple[Op, ...]:
        """Over a link the gradient travels back; within the device dy is the gradient."""
        return (replace(self, read=self.write, write=self.read),) if self.over else ()
