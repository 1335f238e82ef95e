"""What is computed: steps in order, each an operator with how often it runs and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from roofline.ops.base import Op
from roofline.ops.launched import EXECUTIONS as EXECUTIONS
from roofline.records import dataclass

DIRECTIONS = ("forward", "backward", "forward+backward")
TRAFFIC = ("compulsory", "tiled", "cached")
"""Which count of bytes the time is taken from: each operand once (a true bound), the tiling's own re-reads without a
cache, or those filtered by L2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. ``after`` is None for "after the step before"; ``tied_to`` names the step whose weights it shares."""

    id: str
    op: Op
    repeat: int = 1
    direction: str = "forward"
    after: tuple[str, ...] | None = None
    tied_to: str | None = None
    measured_s: float | None = None

    def ops(self) -> tuple[Op, ...]:
        """The operators of one execution in this direction."""
        forward = (self.op,) if self.direction != "backward" else ()
        return (*forward, *(self.op.backward() if self.direction != "forward" else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An assertion about a report: a path such as ``attention.bound.limiter``, how to compare, and with what."""

    path: str
    comparison: str
    value: str | float | bool
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A named list of steps with the parameters they came from."""

    name: str
    steps: tuple[Step, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    dtype: str | None = None
    execution: str = "eager"
    traffic: str = "compulsory"
    hardware: str | None = None
    expect: tuple[Expectation, ...] = ()
    path: str = ""
    sha256: str = ""
