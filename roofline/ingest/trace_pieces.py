"""The executed operators of a trace: which GPU events belong to one call, and which of our operators do its work.

The innermost operator that the table knows has the work of the kernels below it. Work is counted once: an operator that only
delegates (``linear`` to ``addmm``) counts nothing of its own where something below it was counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from roofline.ingest import trace_serving as trace_serving  # registers its handlers
from roofline.ingest.aten import Mapped, Unrecognised, recognise
from roofline.ingest.trace_call import call_of, too_long
from roofline.ingest.trace_collectives import collective_of, is_communication
from roofline.ingest.trace_events import NONE, OVER_LISTS, Trace
from roofline.ingest.trace_link import FORWARD_PHASE, Links
from roofline.ingest.trace_lists import Launched, launched
from roofline.ingest.trace_triton import fused

COMPUTE, COPY, LINK = "compute", "copy", "communication"
OF_A_GRAPH = "launched by a graph, whose kernels share one call: nothing says which operator each belongs to"
NO_OPERATOR = "no operator was running around its launch"
COUNTED_BELOW = "part of an operator of which other kernels are counted"
ZEROS = ("aten::fill_", "aten::zero_")
"""Inside another operator: what they write of its result is counted as theirs."""
SPREAD = {"aten::gather": "aten::index_select"}
"""Operators that another calls with ids spread out over a row, as many as the row has numbers and yet one in memory: the other counts."""
_TF32 = re.compile(r"tf32|s1688", re.IGNORECASE)


class Known(NamedTuple):
    """What a call is: our operators, or the reason why nobody can say; ``note`` says how they were counted where not from shapes."""

    mapped: tuple[Mapped, ...]
    reason: str | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """One executed operator with its GPU events (places in ``trace.gpu``).

    ``name`` is the operator's as recorded, or the kernel's where there is none; ``forward`` the operator whose gradient it is.
    """

    name: str
    known: Known
    gpu: tuple[int, ...]
    lane: str
    phase: str
    forward: str | None


def pieces_of(trace: Trace, links: Links, link: str = "", host_link: str = "") -> list[Piece]:
    """All GPU events of a trace by executed operator, in order of their start.

    ``link`` carries the collectives and ``host_link`` the copies from and to the host; empty where they are not known.
    """
    found = [*_Pieces(trace, links, link, host_link).all()]
    return sorted(found, key=lambda p: (trace.gpu.start[p.gpu[0]], p.gpu[0]))


class _Pieces:
    """Sorts GPU events to the operators that have their work."""

    def __init__(self, trace: Trace, links: Links, link: str, host_link: str) -> None:
        self.trace, self.links, self.link, self.host_link = trace, links, link, host_link
        self._recognised: dict[tuple[int, int, int, bool, Launched | None], Known] = {}
        self._first: dict[int, int] = {}
        self._blocks: dict[int, list[tuple[str, int]]] = {}
        self._zeroed: set[int] = set()
        for i, owner in enumerate(links.owner):
            if owner != NONE and trace.gpu_kind[i] == "kernel":
                self._first.setdefault(owner, trace.gpu.name[i])
                if OVER_LISTS in self._name(i):
                    self._blocks.setdefault(owner, []).append((self._name(i), trace.gpu.extra[i]))
                if self._operator(owner) in ZEROS:
                    self._zeroed.update(links.ancestors(owner)[1:])

    def all(self) -> Iterator[Piece]:
        """Events with work of their own, then those of operators."""
        of_operators: dict[int, list[int]] = {}
        of_messages: dict[int, list[int]] = {}
        for i in range(len(self.trace.gpu)):
            own = self._own(i)
            owner = self.links.owner[i]
            if own is not None:
                yield own
            elif self.trace.operators.correlation[owner] != NONE:
                of_messages.setdefault(owner, []).append(i)
            else:
                of_operators.setdefault(owner, []).append(i)
        for owner, gpu in of_messages.items():
            yield self._exchange(self.trace.operators.correlation[owner], tuple(gpu))
        yield from self._by_operator(of_operators)

    # ---------------------------------------------------------------- events that state their work
    def _own(self, i: int) -> Piece | None:
        trace, kind = self.trace, self.trace.gpu_kind[i]
        if kind != "kernel":
            return self._piece(self._name(i), _memory(kind, self._name(i), trace.gpu.extra[i], self.host_link), (i,), COPY)
        owner = self.links.owner[i]
        if trace.gpu.detail[i] != NONE:
            return self._exchange(trace.gpu.detail[i], (i,))
        if self.links.graph[i]:
            return self._piece(self._name(i), Known((), OF_A_GRAPH), (i,))
        if owner == NONE:
            return self._piece(self._name(i), Known((), NO_OPERATOR), (i,))
        return None

    def _exchange(self, message: int, gpu: tuple[int, ...]) -> Piece:
        """A collective, from the message that the kernel states, or the operator for all of its kernels."""
        try:
            known = Known((collective_of(self.trace.messages[message], self.link),), None)
        except Unrecognised as why:
            known = Known((), str(why))
        return self._piece(self.trace.messages[message].name, known, gpu, LINK)

    # ---------------------------------------------------------------- events of operators
    def _by_operator(self, events: dict[int, list[int]]) -> Iterator[Piece]:
        claims: dict[int, list[int]] = {}
        waiting: list[tuple[int, int | None, str]] = []
        counted: set[int] = set()
        for owner, gpu in events.items():
            candidate, reason = self._candidate(owner)
            if candidate == owner:
                claims.setdefault(owner, []).extend(gpu)
                counted.update(self.links.ancestors(owner)[1:])
            else:
                waiting.append((owner, candidate, reason))
        left: list[tuple[int, str]] = []
        for owner, candidate, reason in waiting:
            if candidate is None:
                left.append((owner, reason))
            elif candidate in counted and candidate not in claims:
                left.append((owner, COUNTED_BELOW))
            else:
                claims.setdefault(candidate, []).extend(events[owner])
        for operator, gpu in claims.items():
            yield self._piece(self._operator(operator), self._known(operator), tuple(sorted(gpu)), operator=operator)
        for owner, reason in left:
            yield self._piece(self._operator(owner), Known((), reason), tuple(events[owner]), operator=owner)

    def _candidate(self, owner: int) -> tuple[int | None, str]:
        """The innermost operator from here outwards that is known to do work; else why the innermost is not."""
        reason = ""
        for operator in self.links.ancestors(owner):
            known = self._known(operator)
            if known.mapped:
                around = self.links.parent[operator]
                better = around != NONE and self._operator(around) == SPREAD.get(self._operator(operator)) and self._known(around).mapped
                return (around if better else operator), ""
            reason = reason or known.reason or ""
        return None, reason or NO_OPERATOR

    def _known(self, operator: int) -> Known:
        """What an operator is; by name and signature, and by its kernels where those decide."""
        spans = self.trace.operators
        grids = launched(self._blocks[operator]) if operator in self._blocks else None
        key = (spans.name[operator], spans.detail[operator], self._kernel_of(operator), operator in self._zeroed, grids)
        if key not in self._recognised:
            self._recognised[key] = self._recognise(*key)
        return self._recognised[key]

    def _recognise(self, name: int, signature: int, kernel: int, zeroed: bool, grids: Launched | None) -> Known:
        text = self.trace.words.texts[name]
        shapes = self.trace.signatures[signature]
        kernels = (self.trace.words.texts[kernel],) if kernel != NONE else ()
        try:
            call = replace(call_of(text, shapes, kernels, grids), zeroed=zeroed)
            mapped = (fused(call),) if shapes.triton else recognise(call)
        except Unrecognised as why:
            return Known((), str(why))
        except (ArithmeticError, LookupError, TypeError, ValueError):  # what a damaged or hostile trace holds is no bug of a handler
            return Known((), "its arguments are none that such an operator takes")
        note = grids.note if grids and mapped and too_long(shapes) else None
        return Known(tuple(_as_executed(m, kernels) for m in mapped), None, note)

    def _kernel_of(self, operator: int) -> int:
        """The name of the first kernel that the operator itself launched."""
        return self._first.get(operator, NONE)

    # ---------------------------------------------------------------- naming
    def _name(self, i: int) -> str:
        return self.trace.words.texts[self.trace.gpu.name[i]]

    def _operator(self, operator: int) -> str:
        return self.trace.words.texts[self.trace.operators.name[operator]]

    def _piece(self, name: str, known: Known, gpu: tuple[int, ...], lane: str = COMPUTE, operator: int | None = None) -> Piece:
        owner = self.links.owner[gpu[0]] if operator is None else operator
        if lane == COMPUTE and any(is_communication(self._name(i)) for i in gpu):
            lane = LINK
        phase = self.links.phase[owner] if owner != NONE else FORWARD_PHASE
        return Piece(name, known, gpu, lane, phase, self.links.forward.get(owner))


def _memory(kind: str, name: str, size: int, host_link: str) -> Known:
    """A copy or a set of memory by the driver, from the bytes that it states; one from or to the host goes over that link."""
    if size < 0:
        return Known((), "its bytes are not recorded")
    if not size:
        return Known((), "it moves no bytes")
    if kind == "set":
        return Known((Mapped("copy", {"dtype": "int8", "write": size}),), None)
    within = "DtoD" in name
    read, write = within or "DtoH" in name, within or "HtoD" in name
    if not (read or write):
        return Known((), "the ends of the copy are not recorded")
    sides = {side: size for side, has in (("read", read), ("write", write)) if has}
    over = {} if within else {"over": host_link}
    return Known((Mapped("copy", {"dtype": "int8", **sides, **over}),), None)


def _as_executed(mapped: Mapped, kernels: tuple[str, ...]) -> Mapped:
    """Products of fp32 numbers that ran on tensor cores in tf32, which the kernel's name says."""
    if mapped.fields.get("dtype") == "fp32" and mapped.op in ("gemm", "batched_gemm", "conv2d") and any(_TF32.search(k) for k in kernels):
        return replace(mapped, fields={**mapped.fields, "dtype": "tf32"})
    return mapped
