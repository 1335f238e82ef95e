"""A trace in memory: columns of the events that matter, a few dozen bytes each.

Times are microseconds as recorded, on one clock for host and device. Texts are kept once each and by number. Of the
metadata only the devices' names are looked at, to recognise the device; nothing of it is handed on.
"""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import InputError, Problem
from roofline.ingest.trace_bytes import TraceBytes, refusal
from roofline.ingest.trace_decode import GPU, KINDS, Arguments, decoder
from roofline.ingest.trace_text import Ended, TraceText

LONGEST_NAME = 1000
"""Characters kept of a name; demangled kernels reach thousands and mostly differ in the first hundreds."""
MOST_KEPT = 20_000_000
"""Events kept of one trace, some 100 bytes each."""
LARGEST_US = 1e18
MOST = 2**62
"""Larger numbers are none that a profiler writes, and would not fit a column."""
MOST_CATEGORIES = 1000
NONE = -1
STEP = "ProfilerStep#"
LOADING = "enumerate(DataLoader)"
OVER_LISTS = "multi_tensor_apply_kernel"
"""Part of the names of kernels that work on lists of tensors, of which the launch grid is kept: it tells how long they are."""
OPTIMIZER = "Optimizer.step#"
KEPT_ANNOTATIONS = (STEP, LOADING, OPTIMIZER)
"""Annotations of the profiler itself and of torch. Those of users may say anything, and are not kept."""


class Words:
    """Texts by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text, a new one where it is new."""
        if len(text) > LONGEST_NAME:
            text = text[:LONGEST_NAME]
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found


def _doubles() -> array[float]:
    return array("d")


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Spans:
    """Events of one sort, in the order of the file. ``lane`` is the number of a thread (host) or of a device's stream."""

    start: array[float] = field(default_factory=_doubles)
    length: array[float] = field(default_factory=_doubles)
    name: array[int] = field(default_factory=_numbers)
    lane: array[int] = field(default_factory=_numbers)
    correlation: array[int] = field(default_factory=_numbers)
    external: array[int] = field(default_factory=_numbers)
    extra: array[int] = field(default_factory=_numbers)
    detail: array[int] = field(default_factory=_numbers)

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Message:
    """What a collective says of itself; None for what it does not."""

    name: str
    in_elements: int | None
    out_elements: int | None
    ranks: int | None
    dtype: str | None


@dataclass(frozen=True, slots=True)
class Signature:
    """Arguments of an operator as recorded, still text; empty where no shapes were recorded."""

    dims: bytes
    types: bytes
    values: bytes
    triton: bool = False

    def parsed(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Shapes, types and concrete values, one for each argument; empty lists where they are no lists."""
        found = []
        for text in (self.dims, self.types, self.values):
            try:
                value = json.loads(text.decode("utf-8", "replace")) if text else []
            except (ValueError, RecursionError):
                value = []
            found.append(value if isinstance(value, list) else [])
        return found[0], found[1], found[2]


NO_ARGUMENTS = Arguments()
NO_SIGNATURE = Signature(b"", b"", b"")


@dataclass(slots=True)
class Trace:
    """The events kept.

    ``gpu``: kernels, copies and sets of memory, whose ``extra`` is bytes, of kernels over lists the blocks of the launch (-1 unknown),
    and whose ``detail`` a number in ``messages`` (-1 for none); ``gpu_kind`` says which. ``operators``: ``extra`` is the sequence
    number (-1 none), negative minus 2 where it is that of a backward pass, and ``detail`` a number in ``signatures``. ``runtime``:
    calls of the driver.
    ``partial`` says why not all of the trace was read, None where it was.
    """

    name: str
    words: Words = field(default_factory=Words)
    gpu: Spans = field(default_factory=Spans)
    gpu_kind: list[str] = field(default_factory=list)
    operators: Spans = field(default_factory=Spans)
    runtime: Spans = field(default_factory=Spans)
    annotations: Spans = field(default_factory=Spans)
    lanes: list[tuple[int, int]] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=lambda: [NO_SIGNATURE])
    events: int = 0
    devices: tuple[str, ...] = ()
    sha256: str = ""
    partial: str | None = None


def read_trace(path: str, *, partial: bool = False, library: str | None = None) -> Trace:
    """The trace in a file (``-`` is standard input).

    ``partial``: take what a truncated trace holds. ``library`` picks who decodes (``msgspec`` or ``json``).

    Raises:
        InputError: not a trace, malformed, truncated, or beyond the limits; with the place.
    """
    source = TraceBytes(path)
    text = TraceText(source.chunks(), source.name, decoder(library))
    trace = Trace(source.name)
    keep = _Keeper(trace)
    try:
        for batch in text.batches():
            keep.all(batch)
    except Ended:
        why = source.damage or "it ends in the middle"
        if not partial:
            raise refusal(source.name, f"truncated: {why}, after {text.events} whole events; --partial takes those") from None
        trace.partial = f"{why}, after {text.events} whole events"
    except _NoTime as err:
        raise InputError([Problem(source.name, 0, 0, str(err))]) from None
    trace.events, trace.sha256 = text.events, source.sha256()
    trace.devices = _device_names(text.devices)
    return trace


class _NoTime(Exception):
    """An event that lies nowhere in time."""


class _Keeper:
    """Puts events into the columns of a trace, a batch at a time, since there are millions of them."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._threads = _Lanes(trace.lanes)
        self._streams = _Lanes(trace.lanes)
        self._messages: dict[Message, int] = {}
        self._signatures: dict[tuple[bytes, bytes, bytes, bool], int] = {(b"", b"", b"", False): 0}
        self._kinds: dict[str | None, str | None] = {}

    def all(self, batch: list[Any]) -> None:
        """Keep what matters of some events."""
        found: dict[str, list[Any]] = {kind: [] for kind in (*KINDS.values(), "")}
        kinds = self._kinds
        for event in batch:
            cat = event.cat
            if cat not in kinds:
                if len(kinds) > MOST_CATEGORIES:
                    kinds.clear()
                kinds[cat] = KINDS.get((cat or "").lower())
            kind = kinds[cat]
            if kind is not None and event.ph == "X":
                found[kind].append(event)
        self._operators(found["operator"])
        self._runtime(found["runtime"])
        for kind in dict.fromkeys(GPU.values()):
            self._gpu(found[kind], kind)
        self._annotations([e for e in found["annotation"] if (e.name or "").startswith(KEPT_ANNOTATIONS)])
        if len(self.trace.gpu) + len(self.trace.operators) + len(self.trace.runtime) > MOST_KEPT:
            raise _NoTime(f"more than {MOST_KEPT} operators and kernels; record fewer steps")

    def _spans(self, spans: Spans, events: list[Any]) -> None:
        """Times and names."""
        if not events:
            return
        starts = [e.ts for e in events]
        lengths = [0.0 if e.dur is None else e.dur for e in events]
        if None in starts or not (min(starts) > -LARGEST_US and max(starts) < LARGEST_US):
            raise _NoTime("an event of a kept category has no time 'ts' (microseconds)")
        if not (min(lengths) >= 0 and max(lengths) < LARGEST_US):
            raise _NoTime("an event of a kept category has no length 'dur' from 0 up (microseconds)")
        number = self.trace.words.number
        spans.start.extend(starts)
        spans.length.extend(lengths)
        spans.name.extend([number(e.name or "") for e in events])

    def _on_threads(self, spans: Spans, events: list[Any]) -> list[Any]:
        """Times, names and threads; the arguments of each."""
        self._spans(spans, events)
        spans.lane.extend([self._threads.number(e.pid, e.tid, NONE) for e in events])
        return [e.args or NO_ARGUMENTS for e in events]

    def _gpu(self, events: list[Any], kind: str) -> None:
        spans = self.trace.gpu
        self._spans(spans, events)
        args = [e.args or NO_ARGUMENTS for e in events]
        device = [e.pid if a.device is None else a.device for e, a in zip(events, args, strict=True)]
        stream = [e.tid if a.stream is None else a.stream for e, a in zip(events, args, strict=True)]
        spans.lane.extend([self._streams.number(d, s, 0) for d, s in zip(device, stream, strict=True)])
        spans.correlation.extend(_column([a.correlation for a in args]))
        spans.external.extend(_column([a.external for a in args]))
        spans.extra.extend(_column([_blocks(e, a) if kind == "kernel" else a.bytes for e, a in zip(events, args, strict=True)]))
        spans.detail.extend([NONE if a.collective is None else self._message(a) for a in args])
        self.trace.gpu_kind.extend([kind] * len(events))

    def _operators(self, events: list[Any]) -> None:
        spans = self.trace.operators
        args = self._on_threads(spans, events)
        spans.external.extend(_column([a.external for a in args]))
        sequences = _column([a.sequence for a in args])
        backward = [_int(a.forward_thread, 0) > 0 for a in args]
        spans.extra.extend([-2 - s if back and s >= 0 else s for s, back in zip(sequences, backward, strict=True)])
        spans.correlation.extend([NONE if a.collective is None else self._message(a) for a in args])
        spans.detail.extend([self._signature(a) for a in args])

    def _runtime(self, events: list[Any]) -> None:
        args = self._on_threads(self.trace.runtime, events)
        self.trace.runtime.correlation.extend(_column([a.correlation for a in args]))

    def _annotations(self, events: list[Any]) -> None:
        self._on_threads(self.trace.annotations, events)

    def _signature(self, args: Any) -> int:
        key = (bytes(args.dims), bytes(args.types), bytes(args.values), args.backend == "triton")
        found = self._signatures.get(key)
        if found is None:
            found = self._signatures[key] = len(self.trace.signatures)
            self.trace.signatures.append(Signature(*key))
        return found

    def _message(self, args: Any) -> int:
        dtype = args.message_dtype if isinstance(args.message_dtype, str) else None
        sent, received, ranks = (_int(n, NONE) for n in (args.in_elements, args.out_elements, args.ranks))
        name = args.collective if isinstance(args.collective, str) else ""
        message = Message(name[:LONGEST_NAME], _positive(sent), _positive(received), _positive(ranks), dtype)
        found = self._messages.get(message)
        if found is None:
            found = self._messages[message] = len(self.trace.messages)
            self.trace.messages.append(message)
        return found


class _Lanes:
    """Numbers of threads, or of streams, by what a trace says of them."""

    def __init__(self, lanes: list[tuple[int, int]]) -> None:
        self._lanes = lanes
        self._seen: dict[tuple[Any, Any], int] = {}
        self._known: dict[tuple[int, int], int] = {}

    def number(self, first: Any, second: Any, otherwise: int) -> int:
        """The number of a lane; ``otherwise`` stands for a part that is no number."""
        try:
            return self._seen[first, second]
        except (KeyError, TypeError):  # new, or no number at all
            lane = (_int(first, otherwise), _int(second, otherwise))
        found = self._known.get(lane)
        if found is None:
            found = self._known[lane] = len(self._lanes)
            self._lanes.append(lane)
        if type(first) is int and type(second) is int:
            self._seen[first, second] = found
        return found


def _blocks(event: Any, args: Any) -> int | None:
    """The blocks of a launch over lists; its grid has one dimension. None for other kernels, or where it is not recorded."""
    if OVER_LISTS not in (event.name or "") or not isinstance(args.grid, list) or not args.grid:
        return None
    return _positive(_int(args.grid[0], NONE)) if all(_int(n, NONE) == 1 for n in args.grid[1:]) else None


def _positive(count: int) -> int | None:
    return count if count > 0 else None


def _column(values: list[Any]) -> array[int]:
    """Whole numbers, -1 for what is none."""
    return array("q", [v if type(v) is int and -MOST < v < MOST else _int(v, NONE) for v in values])


def _int(value: Any, otherwise: int) -> int:
    """A whole number that fits a column, also from text, as some writers give it."""
    if value is None or isinstance(value, bool):
        return otherwise
    if isinstance(value, str):
        value = int(value) if len(value) <= 19 and value.isascii() and value.isdigit() else None
    elif isinstance(value, float):
        value = int(value) if math.isfinite(value) else None
    return value if isinstance(value, int) and -MOST < value < MOST else otherwise


def _device_names(found: Any) -> tuple[str, ...]:
    """Names of the devices, for recognising a profile; they are never printed."""
    if not isinstance(found, list):
        return ()
    names = (d.get("name") for d in found if isinstance(d, dict))
    return tuple(dict.fromkeys(n[:LONGEST_NAME] for n in names if isinstance(n, str)))
