"""Collectives: what each rank sends over a link when several exchange or add up arrays.

``size`` is the one of nccl-tests, so that tables measured with it compare: the full array, of which a rank may hold a
share. Each operator counts what one rank sends, one way, with any algorithm of sends and receives (ring, tree, direct);
ranks receive as much at the same time. That over the time is the *bus bandwidth*, which a link's rate bounds whatever
the number of ranks; ``size`` over the time is the *algorithm bandwidth*. A single rank sends and moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, where
from roofline.ops.base import Counts, Op, Pass, TensorSpec, amount, choice, dim, flag, number_format, operator, whole, word
from roofline.ops.launched import Launched, Transfer

SOURCE = "NVIDIA/nccl-tests, doc/PERFORMANCE.md"


@dataclass(frozen=True, kw_only=True)
class Collective(Op):
    """What all of them share; ``size`` in bytes, sent and moved by each of ``ranks``."""

    size: Number = amount("bytes, as nccl-tests counts them", "B")
    ranks: Number = dim("ranks that take part; 1 sends nothing")
    dtype: str = number_format("format of the elements; no byte count depends on it", default="fp32")
    over: str = word("link of the profile that carries it, such as nvlink")

    @property
    def lane(self) -> str:
        """Runs beside kernels and copies, one collective at a time."""
        return "link"

    def bus_factor(self) -> Number:
        """Bus bandwidth over algorithm bandwidth: for one rank 0, else as nccl-tests has it."""
        return (self.ranks - 1) / self.ranks

    def sent_bytes(self) -> Number:
        """Bytes that each rank sends, one way."""
        return whole(self.size * (self.ranks - 1) / self.ranks)

    def link_bytes(self) -> Mapping[str, Number]:
        """What each rank sends over the link."""
        return {self.over: self.sent_bytes()}

    def counts(self) -> Counts:
        """None: bytes are moved as they are."""
        return Counts()

    def passes(self) -> tuple[Pass, ...]:
        """One kernel that reads what it sends and writes what it receives."""
        reads = tuple(t for t in self.tensors() if t.role != "out")
        writes = tuple(t for t in self.tensors() if t.role != "in")
        return (Pass(self.name, reads, writes, self.counts()),)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One transfer: the link takes far longer than the memory at its ends."""
        return (Transfer(link=self.over, bytes=self.sent_bytes(), kind=self.name, ranks=self.ranks),)

    def elements(self) -> Number:
        """Elements of the full array."""
        return whole(self.size / find_dtype(self.dtype).bytes)

    def _whole_array(self, name: str, role: str) -> TensorSpec:
        return self._tensor(name, self.elements(), role)

    def _share(self, name: str, role: str) -> TensorSpec:
        return self._tensor(name, whole(self.elements() / self.ranks), role)

    def _tensor(self, name: str, elements: Number, role: str) -> TensorSpec:
        return TensorSpec(name, (elements,), self.dtype, role, touched=where(self.ranks > 1, elements, 0))

    def _additions(self) -> Number:
        """Each rank adds up its share of the result: ranks - 1 additions an element."""
        return whole(self.elements() * (self.ranks - 1) / self.ranks)


@operator(
    "all_reduce",
    family="collective",
    title="sum over all ranks, on every rank",
    formula="sent 2 S (n-1)/n by ranks that add, S (n+1)/n where the switch adds; (n-1)/n FLOP an element; memory 2 S",
    source=SOURCE,
)
@dataclass(frozen=True, kw_only=True)
class AllReduce(Collective):
    """x[size] becomes, in place and on every rank, the sum of x over all ranks."""

    size: Number = amount("bytes of the array that each rank has before and after", "B")
    algorithm: str = choice(
        "ring: the ranks add and pass on, and a tree sends as much; switch: the network adds (NVLink SHARP)",
        ("ring", "switch"),
        default="ring",
    )

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[size], read and written."""
        return (self._whole_array("x", "inout"),)

    def counts(self) -> Counts:
        """Additions of the ranks, none where the switch adds."""
        return Counts(vector=self._additions() if self.algorithm == "ring" else 0)

    def bus_factor(self) -> Number:
        """Each element is sent n - 1 times to be added and n - 1 times to be spread, over n links."""
        return 2 * (self.ranks - 1) / self.ranks

    def sent_bytes(self) -> Number:
        """To the switch goes the array once, and the summed share that each rank spreads."""
        if self.algorithm == "switch":
            return whole(where(self.ranks > 1, self.size * (self.ranks + 1) / self.ranks, 0))
        return whole(2 * self.size * (self.ranks - 1) / self.ranks)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One transfer, of the bytes that ranks pass on where they add: links are fitted to those, whoever adds."""
        return Collective.launched(replace(self, algorithm="ring"), execution)

    def backward(self) -> tuple[Op, ...]:
        """The gradients of all ranks are added up alike."""
        return (self,)


@operator(
    "all_gather",
    family="collective",
    title="the shares of all ranks, put together on every rank",
    formula="sent S (n-1)/n; memory S + S/n",
    source=SOURCE,
)
@dataclass(frozen=True, kw_only=True)
class AllGather(Collective):
    """y[size] on every rank, from x[size / ranks] of each."""

    size: Number = amount("bytes of the full array that each rank has afterwards", "B")
    sharded_weights: bool = flag("weights of which a rank keeps its share between their uses (ZeRO 3, FSDP): only memory differs")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[size / ranks] and y[size]."""
        return self._share("x", "in"), self._whole_array("y", "out")

    def backward(self) -> tuple[Op, ...]:
        """Each rank's gradient of y adds to that of the share it came from."""
        return (ReduceScatter(size=self.size, ranks=self.ranks, dtype=self.dtype, over=self.over),)


@operator(
    "reduce_scatter",
    family="collective",
    title="sum over all ranks, a share of it on each",
    formula="sent S (n-1)/n; (n-1)/n FLOP an element; memory S + S/n",
    source=SOURCE,
)
@dataclass(frozen=True, kw_only=True)
class ReduceScatter(Collective):
    """y[size / ranks] is one rank's share of the sum of x[size] over all ranks."""

    size: Number = amount("bytes of the full array that each rank has before", "B")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[size] and y[size / ranks]."""
        return self._whole_array("x", "in"), self._share("y", "out")

    def counts(self) -> Counts:
        """The additions of one share."""
        return Counts(vector=self._additions())

    def backward(self) -> tuple[Op, ...]:
        """The gradient of each share goes to every rank."""
        return (AllGather(size=self.size, ranks=self.ranks, dtype=self.dtype, over=self.over),)


@operator(
    "all_to_all",
    family="collective",
    title="a share of every rank's array to every other rank",
    formula="sent S (n-1)/n; memory 2 S",
    source=SOURCE,
)
@dataclass(frozen=True, kw_only=True)
class AllToAll(Collective):
    """y[size] holds a share of x[size] from each rank; a switch is assumed, since on a ring shares pass through ranks between."""

    size: Number = amount("bytes that each rank has to distribute, its own share among them", "B")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[size] and y[size]."""
        return self._whole_array("x", "in"), self._whole_array("y", "out")

    def backward(self) -> tuple[Op, ...]:
        """The gradients go the way back."""
        return (self,)


@dataclass(frozen=True, kw_only=True)
class _Whole(Collective):
    """A collective that sends the whole array."""

    def bus_factor(self) -> Number:
        """All of the array leaves one rank, so that its link decides."""
        return where(self.ranks > 1, 1, 0)

    def sent_bytes(self) -> Number:
        """The array, where there is another rank."""
        return whole(where(self.ranks > 1, self.size, 0))


@operator(
    "broadcast",
    family="collective",
    title="the array of one rank to all others",
    formula="sent S; memory S",
    source=SOURCE,
)
@dataclass(frozen=True, kw_only=True)
class Broadcast(_Whole):
    """x[size] of the first rank becomes, in place, that of every rank; in a chain all but the last send it on."""

    size: Number = amount("bytes of the array", "B")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[size], which a rank reads or writes; one that passes it on does both."""
        return (self._whole_array("x", "in"),)


@operator(
    "send_recv",
    family="collective",
    title="an array to the next rank, one from the rank before",
    formula="sent S; memory 2 S",
    source=SOURCE,
)
@dataclass(frozen=True, kw_only=True)
class SendRecv(_Whole):
    """x[size] goes to the next rank and y[size] comes from the one before, at the same time, as between pipeline stages."""

    size: Number = amount("bytes that each rank sends", "B")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[size] and y[size]."""
        return self._whole_array("x", "in"), self._whole_array("y", "out")

    def backward(self) -> tuple[Op, ...]:
        """The gradients go the way back."""
        return (self,)
