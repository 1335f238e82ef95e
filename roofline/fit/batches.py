"""Rows that differ in their dimensions alone, as one operator whose dimensions are arrays.

What is chosen by words (formats, functions, implementations) and by the parameter sets that a row's kernels ask for is the same
within a batch, so that a whole table is estimated in a few array operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from roofline.fit.columns import directions, fields_of
from roofline.fit.tables import Row
from roofline.ops.base import Op
from roofline.ops.launched import library_of
from roofline.predict.estimate.catalog import MODELS

LARGEST = 16384
"""Most rows of a batch: arrays of this size stay in a core's cache."""
NUMBERS = ("dim", "amount")
"""Kinds of fields that become arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows ``at`` these places of the list that was given, and the operators that stand for all of them."""

    at: tuple[int, ...]
    ops: tuple[Op, ...]
    execution: str


def batches(rows: Sequence[Row]) -> Iterator[Batch]:
    """The rows in batches, in the order in which their kinds appear."""
    kinds: dict[Any, list[int]] = {}
    for at, row in enumerate(rows):
        kinds.setdefault(_kind(row), []).append(at)
    for members in kinds.values():
        for start in range(0, len(members), LARGEST):
            chosen = members[start : start + LARGEST]
            yield Batch(at=tuple(chosen), ops=_stacked([rows[i] for i in chosen]), execution=rows[chosen[0]].execution)


def _kind(row: Row) -> Any:
    """What rows of one batch share."""
    words = tuple((op.name, *(getattr(op, name) for name in _names(op.name)[1])) for op in (row.op, *row.more))
    return row.operator, row.direction, row.execution, words, sets_of(row)


@cache
def _names(operator: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operator's fields that become arrays, and the others."""
    kinds = {name: declared.metadata["kind"] in NUMBERS for name, declared in fields_of(operator).items()}
    return tuple(n for n, number in kinds.items() if number), tuple(n for n, number in kinds.items() if not number)


def sets_of(row: Row) -> tuple[tuple[str, ...], ...]:
    """For each kernel of a row the parameter sets that may serve it, the best first; none where it has no model."""
    library = library_of(row.execution)
    kernels = [kernel for op in row.ops for kernel in op.launched(row.execution)]
    models = [MODELS.get(type(kernel).__name__) for kernel in kernels]
    return tuple(model.sets(kernel, library) if model else () for model, kernel in zip(models, kernels, strict=True))


def _stacked(rows: Sequence[Row]) -> tuple[Op, ...]:
    """The operators of the first row with the dimensions of all."""
    first, *more = (_with_all(ops) for ops in zip(*((row.op, *row.more) for row in rows), strict=True))
    return (*directions(first, rows[0].direction), *more)


def _with_all(ops: Sequence[Op]) -> Op:
    columns = {n: np.array([getattr(op, n) for op in ops], dtype=np.float64) for n in _names(ops[0].name)[0]}
    return replace(ops[0], **columns)  # type: ignore[type-var]
