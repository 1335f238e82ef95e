"""Small traces made by hand: operators on threads, the calls that launch kernels, kernels on streams. Times in microseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HOST = 100
"""Process of the host."""


class Made:
    """A trace that is being made up."""

    def __init__(self, **metadata: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.metadata = metadata
        self._next = 1

    def event(self, cat: str, name: str, start: float, length: float, tid: int, pid: int = HOST, **args: Any) -> Made:
        """One complete event."""
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length, "args": args})
        return self

    def operator(self, name: str, start: float, length: float, *args: tuple[Any, str, str], thread: int = 1, **more: Any) -> int:
        """An operator with its arguments as (dims, type, value); its external id."""
        number = self._number()
        shapes = {"Input Dims": [a[0] for a in args], "Input type": [a[1] for a in args], "Concrete Inputs": [a[2] for a in args]}
        self.event("cpu_op", name, start, length, thread, **{"External id": number, **(shapes if args else {}), **more})
        return number

    def kernel(
        self,
        name: str,
        start: float,
        length: float,
        *,
        launched: float | None = None,
        call: str = "cudaLaunchKernel",
        owner: int | None = None,
        stream: int = 7,
        device: int = 0,
        thread: int = 1,
        cat: str = "kernel",
        correlation: int | None = None,
        **more: Any,
    ) -> int:
        """A kernel and, where ``launched`` says when, the call of 1 us that launched it; its correlation number."""
        number = self._number() if correlation is None else correlation
        if launched is not None:
            self.event("cuda_runtime", call, launched, 1.0, thread, correlation=number)
        args = {"correlation": number, "device": device, "stream": stream, **({"External id": owner} if owner else {}), **more}
        self.event(cat, name, start, length, stream, pid=device, **args)
        return number

    def _number(self) -> int:
        self._next += 1
        return self._next

    def text(self, **how: Any) -> str:
        """The trace as JSON, in an object."""
        return json.dumps({"schemaVersion": 1, **self.metadata, "traceEvents": self.events}, **how)

    def write(self, folder: Path, name: str = "made.json") -> str:
        """The trace in a file; its path."""
        path = folder / name
        path.write_text(self.text(), encoding="utf-8")
        return str(path)


def tensor(*shape: int, dtype: str = "c10::BFloat16") -> tuple[Any, str, str]:
    """A tensor argument."""
    return list(shape), dtype, ""


def scalar(value: str) -> tuple[Any, str, str]:
    """A scalar argument."""
    return [], "Scalar", value


def product(made: Made, m: int, n: int, k: int, start: float, *, launched: float | None = None, length: float = 10.0, **more: Any) -> None:
    """``mm(A[m, k], B[k, n])`` in bf16 and its kernel; the operator runs around the launch."""
    at = start - 5 if launched is None else launched
    owner = made.operator("aten::mm", at - 1, 3, tensor(m, k), tensor(k, n), thread=more.get("thread", 1))
    made.kernel("nvjet_tst_gemm", start, length, launched=at, owner=owner, **more)
