"""How far predictions lie from a measured table, as data: written by ``roofline validate``, read by people and by CI.

Errors are of predicted over measured time, as fractions. The bound is no prediction; its errors say what the datasheet alone
would be worth, and a row that is faster than it means that the count or the profile is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors over some rows: |predicted / measured - 1|, and null with the reason where nothing was predicted.

    ``bias`` is the geometric mean of predicted over measured, ``in_band`` the share of rows inside the stated 90 % band.
    """

    count: int
    mape: float | None
    median_ape: float | None
    bias: float | None
    p90_ape: float | None
    in_band: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundErrors(Errors):
    """Errors of the bound, which has no band, and how many rows are faster than it."""

    faster_than_bound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows of one operator in one file; ``regime`` is null for all of them, else launch, memory or compute by their bound."""

    file: str
    operator: str
    regime: str | None
    rows: int
    estimate: Errors
    bound: BoundErrors


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A parameter set that an estimate was made with, and the device that it was fitted on."""

    name: str
    device: str
    prior: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowError:
    """One row with what was predicted of it; ``terms`` are the seconds that the estimate is made of, before they overlap."""

    file: str
    line: int
    operator: str
    execution: str
    fields: Mapping[str, Any]
    measured_s: float
    estimated_s: float | None
    bound_s: float | None
    ratio: float
    regime: str | None
    terms: Mapping[str, float] = field(default_factory=dict)
    parameters: tuple[Used, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """What was read of a file: rows with a time, and rows without one."""

    file: str
    rows: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Predictions for a device beside measured tables. ``part`` is null for all rows, else the part of them that was taken."""

    schema: int
    tool: str
    hardware: str
    part: str | None
    regimes: str
    files: tuple[FileRead, ...]
    groups: tuple[Group, ...]
    worst: tuple[RowError, ...]
    faster_than_bound: tuple[RowError, ...]
