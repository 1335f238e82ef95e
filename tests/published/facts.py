"""Published facts: what was printed, within which tolerance the tool must give it, and whether it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

GOLDEN = Path(__file__).parent.parent / "data" / "published" / "golden.yaml"

UNITS = {
    "x": 1.0,
    "elements": 1.0,
    "tokens": 1.0,
    "accesses": 1.0,
    "cycles": 1.0,
    "regs": 1.0,
    "FLOP/B": 1.0,
    "%": 0.01,
    "ms": 1e-3,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GB": 1e9,
    "GFLOP": 1e9,
    "TB/s": 1e12,
    "TFLOP/s": 1e12,
    "Texp/s": 1e12,
}
"""Units of the facts in SI."""

Value = float | tuple[float, ...]


@dataclass(frozen=True)
class Fact:
    """One published figure with the inputs it was stated for."""

    id: str
    topic: str
    check: str
    quantity: str
    inputs: dict[str, Any]
    expected: Value
    unit: str
    tolerance: dict[str, Any]
    formula: str
    formula_value: Value
    source: str

    @property
    def is_ceiling(self) -> bool:
        """Whether the published figure was measured, so that the tool gives a bound on it and not the figure."""
        return self.check != "equals"


@cache
def facts() -> tuple[Fact, ...]:
    """All facts of the file, in its order."""
    return tuple(_fact(entry) for entry in yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))["facts"])


def _fact(entry: dict[str, Any]) -> Fact:
    return Fact(
        id=entry["id"],
        topic=entry["topic"],
        check=entry["check"],
        quantity=entry["quantity"],
        inputs=entry["inputs"],
        expected=_value(entry["expected"]),
        unit=entry["unit"],
        tolerance=entry["tolerance"],
        formula=str(entry["formula"]),
        formula_value=_value(entry["computed"]),
        source=entry["source"]["title"],
    )


def _value(written: Any) -> Value:
    return tuple(written) if isinstance(written, list) else written


# --------------------------------------------------------------------------- computing them
Computation = Callable[[Fact], Value]
COMPUTATIONS: dict[str, Computation] = {}
"""From a fact's id, or a pattern of ids, to the function that computes it in SI units."""


def computes(*patterns: str) -> Callable[[Computation], Computation]:
    """Register a function for the facts of these ids."""

    def register(function: Computation) -> Computation:
        COMPUTATIONS.update(dict.fromkeys(patterns, function))
        return function

    return register


def computations_of(fact: Fact) -> list[Computation]:
    """Every computation whose pattern names the fact; exactly one is wanted."""
    return [function for pattern, function in COMPUTATIONS.items() if fnmatchcase(fact.id, pattern)]


def computed(fact: Fact) -> Value:
    """What the tool gives, in the fact's unit."""
    value = computations_of(fact)[0](fact)
    scale = UNITS[fact.unit]
    return tuple(v / scale for v in value) if isinstance(value, tuple) else value / scale


# --------------------------------------------------------------------------- judging them
def efficiency(fact: Fact, value: float) -> float:
    """The measured figure as a share of the bound: at most 1 wherever the bound holds."""
    assert isinstance(fact.expected, (int, float))
    return fact.expected / value if fact.check == "upper_bound_rate" else value / fact.expected


def allowed_deviation(fact: Fact) -> float:
    """How far the value may lie from the published one."""
    assert isinstance(fact.expected, (int, float))
    return fact.tolerance.get("abs", 0) + fact.tolerance.get("rel", 0) * abs(fact.expected)


def reproduced(fact: Fact, value: Value) -> bool:
    """Within tolerance; for a measured figure: below the bound, and by no more than stated."""
    if isinstance(value, tuple):
        return value == fact.expected
    assert isinstance(fact.expected, (int, float))
    if not fact.is_ceiling:
        # The last bits of a quotient are no deviation: tolerances of zero are meant for the figure as printed.
        return abs(value - fact.expected) <= allowed_deviation(fact) + 1e-12 * abs(fact.expected)
    low, high = fact.tolerance["efficiency"]
    share = efficiency(fact, value)
    return share <= 1 and low <= share <= high
