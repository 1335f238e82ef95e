"""What advice starts from, and what a change makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TypeAlias

from roofline.hardware.profile import Hardware
from roofline.workload.packed import fed
from roofline.workload.workload import Step, Workload

EXACT, ROUNDING, APPROXIMATE, OTHER_MODEL = "exact", "rounding", "approximate", "changes the model"
EXACTNESS = (EXACT, ROUNDING, APPROXIMATE, OTHER_MODEL)
"""What a change does to the results: nothing; other orders of the same sums; fewer digits; another computation or training."""


COUNTERS = (
    "ncu --csv --page raw --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum python step.py > after.csv "
    "&& roofline ingest ncu after.csv"
)
"""Counters that show the bytes of each kernel after a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """How a workload grows with its batch: its present size, the param's name, and the fields in proportion to it by step."""

    param: str
    size: int
    fields: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A workload on a device. ``work`` is its useful work over that of the first one, which a larger batch raises.

    ``source`` is what was named on the command line, ``settings`` the overrides that express the changes made so far (None where
    a change cannot be written as overrides). ``others`` are devices that may take its place. ``without_batch`` says why ``batch``
    is None.

    Its steps say themselves how they are fed, since a change of the step before one must not change what that one reads.
    """

    workload: Workload
    hardware: Hardware
    source: str = ""
    settings: tuple[str, ...] | None = ()
    work: float = 1.0
    batch: Batch | None = None
    without_batch: str = ""
    others: tuple[Hardware, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "workload", replace(self.workload, steps=fed(self.workload.steps)))

    @property
    def training(self) -> bool:
        """Whether any step has a backward pass."""
        return any(s.direction != "forward" for s in self.workload.steps) or any(s.op.family == "optimizer" for s in self.workload.steps)

    def with_steps(self, steps: Sequence[Step], settings: tuple[str, ...] | None = None) -> Situation:
        """Other steps; ``settings`` are the overrides that give them, None where there are none."""
        return replace(self, workload=replace(self.workload, steps=tuple(steps)), settings=self._with(settings))

    def _with(self, settings: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if settings is None or self.settings is None else (*self.settings, *settings)

    def command(self, result: Situation) -> str | None:
        """The command line that measures a result, where overrides of a workload can express it."""
        if not self.source or result.settings is None:
            return None
        said = "".join(f" --set {quote(word)}" for word in result.settings)
        return f"roofline measure {quote(self.source)}{said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change with its result. ``combines`` tells that it may be a step of a path: another device may not.

    ``reason`` is set where the change was considered and cannot be made; it then has no result.
    """

    key: str
    rule: str
    title: str
    exactness: str
    result: Situation | None
    conditions: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    combines: bool = True
    reason: str = ""


Rule: TypeAlias = Callable[[Situation], Iterator[Change]]
"""What looks at a situation and gives the changes of one sort that apply there."""
