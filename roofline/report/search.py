"""What a search found, as data: the best plans, those that no other beats in time and memory, and why others are out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.report.model import Notice, Scalar

SCHEMA = 1
"""Version of this format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A plan that obeys the rules and fits. ``parts_s`` add up to ``step_s``; ``mfu`` by the report's rule, ``device_s`` of all devices."""

    plan: str
    devices: int
    step_s: float
    tokens_per_s: float | None
    mfu: float | None
    device_s: float
    memory_bytes: float
    parts_s: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """Everything `roofline search` found. ``looked_at`` = ``feasible`` + the sum of ``infeasible``, each under the first rule it breaks.

    ``why`` says why the best beats the next; ``difference_s`` are the seconds, by part, that the next takes longer.
    """

    schema: int
    tool: str
    model: str
    cluster: str
    device: str
    devices: tuple[int, ...]
    job: Mapping[str, Scalar]
    objective: str
    kind: str
    label: str
    mfu_rule: str
    looked_at: int
    feasible: int
    infeasible: Mapping[str, int]
    best: tuple[Ranked, ...]
    pareto: tuple[Ranked, ...]
    why: str | None
    difference_s: Mapping[str, float]
    warnings: tuple[Notice, ...] = ()
