"""Text of a list of events to events with the few fields that are kept; everything else of a trace is never looked at.

With msgspec (the extra ``ingest``) the fields are picked while the text is parsed, some four times as fast as with the
standard library, which is the fall-back. Both accept and refuse the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any

ARGUMENTS = {
    "external": "External id",
    "correlation": "correlation",
    "sequence": "Sequence number",
    "forward_thread": "Fwd thread id",
    "stream": "stream",
    "device": "device",
    "bytes": "bytes",
    "dims": "Input Dims",
    "types": "Input type",
    "values": "Concrete Inputs",
    "backend": "kernel_backend",
    "collective": "Collective name",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "ranks": "Group size",
    "message_dtype": "dtype",
    "grid": "grid",
}
"""What is kept of an event's ``args``: our name, and the profiler's."""
RAW = ("dims", "types", "values")
"""Kept as text until a signature is seen for the first time: a trace of a million operators has a few hundred."""
GPU = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set", "memcpy": "copy", "memset": "set"}
HOST = {
    "cpu_op": "operator",
    "operator": "operator",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "hip_runtime": "runtime",
    "runtime": "runtime",
    "user_annotation": "annotation",
}
KINDS = {**GPU, **HOST}
"""Categories that are kept and what they are; those with capitals are of older profilers."""

Decode = Callable[[bytes], list[Any]]


@dataclass(slots=True)
class Arguments:
    """What is kept of ``args``."""

    external: Any = None
    correlation: Any = None
    sequence: Any = None
    forward_thread: Any = None
    stream: Any = None
    device: Any = None
    bytes: Any = None
    dims: Any = b""
    types: Any = b""
    values: Any = b""
    backend: Any = None
    collective: Any = None
    in_elements: Any = None
    out_elements: Any = None
    ranks: Any = None
    message_dtype: Any = None
    grid: Any = None


@dataclass(slots=True)
class Event:
    """What is kept of an event."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: float | None = None
    dur: float | None = None
    args: Arguments | None = None


def decoder(library: str | None = None) -> Decode:
    """A function from the text of a list to events; by msgspec where it is installed, unless ``library`` says otherwise.

    The function raises ValueError for text that is not JSON or no list of events.
    """
    if library != "json":
        try:
            return _by_msgspec()
        except ImportError:
            if library == "msgspec":
                raise
    return _by_json


def _by_msgspec() -> Decode:
    from importlib import import_module

    # By name, since it is no dependency: the contract tests and type checkers know only those.
    msgspec = import_module("msgspec")
    raw = {name: (msgspec.Raw, msgspec.Raw(b"")) for name in RAW}
    kinds = {name: raw.get(name, (Any, None)) for name in ARGUMENTS}
    fields = [(name, kind, msgspec.field(name=ARGUMENTS[name], default=default)) for name, (kind, default) in kinds.items()]
    arguments = msgspec.defstruct("Arguments", fields, gc=False)
    time = float | None
    event = msgspec.defstruct(
        "Event",
        [(n, str | None, None) for n in ("ph", "cat", "name")]
        + [(n, Any, None) for n in ("pid", "tid")]
        + [("ts", time, None), ("dur", time, None), ("args", arguments | None, None)],
        gc=False,
    )
    decode = msgspec.json.Decoder(list[event]).decode  # type: ignore[valid-type]

    def decoded(text: bytes) -> list[Any]:
        try:
            found: list[Any] = decode(text)
        except UnicodeDecodeError:
            found = decode(text.decode("utf-8", "replace").encode())
        except msgspec.DecodeError as err:
            if "utf-8" not in str(err).lower():
                raise ValueError(str(err)) from None
            found = decode(text.decode("utf-8", "replace").encode())
        return found

    return decoded


def _by_json(text: bytes) -> list[Any]:
    found = json.loads(text.decode("utf-8", "replace"), parse_constant=_refused)
    return [_event(e) for e in found]


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _event(found: Any) -> Event:
    if not isinstance(found, dict):
        raise ValueError("an event is not an object")
    if not all(isinstance(found.get(key), (str, NoneType)) for key in ("ph", "cat", "name")):
        raise ValueError("a name that is no text")
    if not all(isinstance(found.get(key), (int, float, NoneType)) and not isinstance(found.get(key), bool) for key in ("ts", "dur")):
        raise ValueError("a time that is no number")
    event = Event(*(found.get(n) for n in ("ph", "cat", "name", "pid", "tid", "ts", "dur")))
    args = found.get("args")
    if args is not None and (event.cat or "").lower() in KINDS:
        if not isinstance(args, dict):
            raise ValueError("args that are no object")
        event.args = Arguments(**{name: args[key] for name, key in ARGUMENTS.items() if key in args})
        for name in RAW:
            value = getattr(event.args, name)
            if value != b"":
                setattr(event.args, name, json.dumps(value).encode())
    return event
