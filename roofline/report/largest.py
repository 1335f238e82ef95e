"""The largest value of a param with which a workload still fits the device's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofline.errors import UsageError, did_you_mean
from roofline.hardware.profile import Hardware, si
from roofline.report.bisection import last_within
from roofline.report.build import analyze
from roofline.report.sentences import percent
from roofline.spec.source import Source
from roofline.spec.workload import read_workload
from roofline.units import Dimension, format_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """The answer; ``value`` is None where not even 1 fits, and ``next_bytes`` is what one more would need."""

    param: str
    value: int | None
    needed_bytes: float
    next_bytes: float
    allowed_bytes: float
    fraction: float
    hardware: str

    @property
    def override(self) -> str:
        """The param at its largest value, or at 1 where none fits, as ``--set`` takes it."""
        return f"{self.param}={self.value or 1}"

    def sentence(self) -> str:
        """The answer in words."""
        room = f"{percent(self.fraction)} of {self.hardware}'s memory ({_bytes(self.allowed_bytes)})"
        if self.value is None:
            return f"No {self.param} fits {room}: {self.param} = 1 needs {_bytes(self.next_bytes)}."
        return (
            f"Largest {self.param} that fits {room}: {self.value}, which needs {_bytes(self.needed_bytes)}; "
            f"{self.value + 1} would be {_bytes(self.next_bytes - self.allowed_bytes)} over."
        )


def largest(source: Source, overrides: Sequence[str], hardware: Hardware, param: str, fraction: float) -> Largest:
    """The largest whole value of ``param`` whose memory stays within ``fraction`` of the device's.

    Takes for granted that more of the param never needs less memory.

    Raises:
        UsageError: no such param, a fraction outside (0, 1], a device without a memory size, or a param on which memory does
            not depend.
    """
    capacity = si(hardware.levels["hbm"].size)
    if not 0 < fraction <= 1:
        raise UsageError(f"--memory-fraction {fraction:g} is out of range: above 0 and at most 1")
    if capacity is None:
        raise UsageError(f"{hardware.name} states no size of its memory")
    params = read_workload(source, overrides).params
    if param not in params:
        raise UsageError(f"--largest: the workload has no param '{param}'; {did_you_mean(param, list(params))}")

    def needed(value: int) -> float:
        workload = read_workload(source, [*overrides, f"{param}={value}"])
        return analyze(workload, None).totals.memory.needed_bytes

    found = last_within(needed, capacity * fraction)
    if found is None:
        raise UsageError(f"--largest {param}: the memory needed does not grow with it")
    return Largest(
        param=param,
        value=found or None,
        needed_bytes=needed(found) if found else 0,
        next_bytes=needed(found + 1),
        allowed_bytes=capacity * fraction,
        fraction=fraction,
        hardware=hardware.name,
    )


def _bytes(value: float) -> str:
    return format_quantity(value, Dimension.BYTES)
