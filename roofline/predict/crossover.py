"""Where a dimension stops being memory-bound: the smallest value from which the arithmetic takes longer."""

from __future__ import annotations

from dataclasses import fields, replace

from roofline.errors import UsageError, did_you_mean
from roofline.hardware.profile import Hardware
from roofline.ops.base import Op, work_of
from roofline.predict.bound import bound, kind_of, machine_of

LARGEST = 2**30
"""Dimension beyond which a crossover is of no use to anyone."""


def dimensions(op: Op) -> list[str]:
    """Names of the operator's dimensions."""
    return [f.name for f in fields(op) if f.metadata.get("kind") == "dim"]  # type: ignore[arg-type]


def crossover(op: Op, dim: str, hardware: Hardware, traffic: str = "compulsory") -> int | None:
    """The smallest value of ``dim`` from which the operator is compute-bound, None if it never is.

    Takes for granted that more of the dimension never makes it memory-bound again, as for the dimensions of a product.

    Raises:
        UsageError: the operator has no such dimension.
    """
    if dim not in dimensions(op):
        raise UsageError(f"{op.name} has no dimension '{dim}'; {did_you_mean(dim, dimensions(op))}")
    machine = machine_of(hardware)

    def computes(value: int) -> bool:
        work = work_of(replace(op, **{dim: value}), machine)  # type: ignore[type-var]
        return kind_of(bound(work, hardware, traffic).limiter) == "compute"

    if not computes(LARGEST):
        return None
    low, high = 0, LARGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if computes(middle) else (middle, high)
    return high
