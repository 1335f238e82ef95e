"""Situations made by hand, on an H200 whose figures the tests repeat: 4.8 TB/s, 989.4 TFLOP/s in bf16, 66.9 in fp32 lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from roofline.decide.advise.effects import Outcome, evaluated, state_of
from roofline.decide.advise.registry import changes
from roofline.decide.advise.situation import Change, Situation
from roofline.hardware.profile import Hardware
from roofline.ops import OPERATORS
from roofline.report.advice import Tried
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step, Workload

HBM, BF16, FP32, LANES = 4.8e12, 989.4e12, 66.9e12, 66.9e12
Make = Callable[..., Situation]


def step(name: str, op: str, *, repeat: int = 1, direction: str = "forward", after: Any = None, **fields: Any) -> Step:
    """A step in bf16, unless its fields say otherwise."""
    return Step(id=name, op=OPERATORS[op](**{"dtype": "bf16", **fields}), repeat=repeat, direction=direction, after=after)


def change_of(now: Situation, key: str) -> Change:
    """The change of that key."""
    return {c.key: c for c in changes(now)}[key]


def outcome(now: Situation, key: str, basis: str = "bound") -> Outcome:
    """The change of that key, evaluated."""
    found = evaluated(change_of(now, key), state_of(now), basis)
    assert not isinstance(found, Tried), found
    return found


@pytest.fixture(scope="session")
def h200() -> Hardware:
    """With its fitted parameters."""
    return load_hardware("h200-sxm")


@pytest.fixture(scope="session")
def bare(h200: Hardware) -> Hardware:
    """Without parameters, so that there are bounds alone."""
    return replace(h200, fitted={}, priors={})


@pytest.fixture
def bounded(bare: Hardware) -> Make:
    """A situation of steps that has bounds alone."""
    return lambda *steps, **more: Situation(workload=Workload(name="w", steps=steps), hardware=bare, **more)


@pytest.fixture
def estimated(h200: Hardware) -> Make:
    """A situation of steps that has estimates."""

    def make(*steps: Step, execution: str = "eager", **more: Any) -> Situation:
        return Situation(workload=Workload(name="w", steps=steps, execution=execution), hardware=h200, **more)

    return make
