"""A step of the user's own program under torch.profiler, and the report of its trace: ``with roofline.profile() as p: step()``."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any

from roofline.errors import MissingCapabilityError, UsageError
from roofline.hardware.profile import Hardware
from roofline.report.model import Input
from roofline.report.trace import TraceReport

LIVE = "(live)"
"""What stands for the path of the trace in a report, since the file itself is gone."""


class profile:  # noqa: N801 - read as a statement: with roofline.profile() as p
    """Records what runs in its block and reads the trace when the block ends.

    ``hardware`` is a profile or its name, for roofs; ``link`` the link of it that carries collectives. ``trace`` keeps the trace in a
    file (``.json`` or ``.json.gz``). After the block ``report`` is what ``roofline ingest trace`` would say. Where the block raised
    something nothing is read, and the error goes on.

    Recording takes time on the host: what is launch-bound takes longer than without it. Warm up before the block.

    Raises:
        MissingCapabilityError: torch is not installed.
        UsageError: no such profile or link, or the trace cannot be read.
    """

    def __init__(self, hardware: str | Hardware | None = None, *, link: str = "", trace: str | os.PathLike[str] | None = None) -> None:
        if isinstance(hardware, str):
            from roofline.spec.hardware import load_hardware

            hardware = load_hardware(hardware)
        if hardware is not None and link:
            hardware.link(link)
        self._hardware, self._link, self._kept = hardware, link, trace
        self._report: TraceReport | None = None
        self._profiler: Any = None
        self._marked = 0

    @property
    def report(self) -> TraceReport:
        """The report, after the block.

        Raises:
            UsageError: the block has not ended, or ended by an error.
        """
        if self._report is None:
            raise UsageError("there is no report yet: the block under roofline.profile() has not ended, or raised an error")
        return self._report

    def __enter__(self) -> profile:
        try:
            from torch import profiler
        except ImportError as err:
            raise MissingCapabilityError(f"roofline.profile() runs torch.profiler, and torch is not installed ({err})") from None
        self._report = None
        self._profiler = profiler.profile(record_shapes=True)
        self._profiler.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        import torch

        if torch.cuda.is_available() and error is None:
            torch.cuda.synchronize()
        self._profiler.__exit__(kind, error, trace)
        if error is None:
            self._report = self._read()
        self._profiler = None

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Marks a step, so that the report has it apart: ``with p.step(): train_one_batch()``.

        Raises:
            UsageError: outside of the block.
        """
        if self._profiler is None:
            raise UsageError("a step is marked within the block under roofline.profile()")
        from torch.profiler import record_function

        with record_function(f"ProfilerStep#{self._marked}"):
            yield
        self._marked += 1

    def _read(self) -> TraceReport:
        from roofline.ingest.trace_report import ingest_trace

        with tempfile.TemporaryDirectory() as folder:
            suffix = ".json.gz" if self._kept is not None and os.fspath(self._kept).endswith(".gz") else ".json"
            path = os.path.join(folder, f"trace{suffix}")
            self._profiler.export_chrome_trace(path)
            report = ingest_trace(path, self._hardware, link_name=self._link)
            if self._kept is not None:
                try:
                    shutil.copyfile(path, self._kept)
                except OSError as err:
                    raise UsageError(f"cannot write the trace to '{os.fspath(self._kept)}': {err.strerror or err}") from None
        inputs = tuple(replace(i, path=LIVE) if i.role == "trace" else i for i in report.inputs)
        if self._hardware is not None:
            inputs += (Input(role="hardware", path=self._hardware.name, sha256=""),)
        return replace(report, inputs=inputs)
