"""Gated activations that read halves of one tensor: which steps are, and what that changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofline.ops.base import Op
from roofline.ops.elementwise import Elementwise, Swiglu
from roofline.ops.gemm import Gemm
from roofline.predict.estimate.catalog import MODELS
from roofline.report.build import analyze
from roofline.spec.hardware import load_hardware
from roofline.workload.packed import fed
from roofline.workload.workload import Step, Workload
from tests.estimates import estimating, parameters

GATED = Swiglu(rows=4, cols=64, dtype="bf16")
BOTH = Gemm(m=4, n=128, k=32, dtype="bf16")
"""Gate and up in one product."""


def pair(product: Op = BOTH, gated: Op = GATED, first: dict[str, Any] | None = None, **second: Any) -> tuple[Step, Step]:
    """A product and what follows it."""
    return Step(id="up", op=product, **(first or {})), Step(id="act", op=gated, **second)


def packed(steps: tuple[Step, ...]) -> list[bool]:
    """Of each gated step."""
    return [s.op.packed for s in fed(steps) if isinstance(s.op, Swiglu)]


@pytest.mark.parametrize("given", [{}, {"after": ("up",)}, {"after": ("other", "up")}, {"first": {"repeat": 3}, "repeat": 3}])
def test_after_the_product_for_both(given: dict[str, Any]) -> None:
    assert packed(pair(**given)) == [True]


@pytest.mark.parametrize(
    "given",
    [
        {"product": Gemm(m=4, n=64, k=32, dtype="bf16")},
        {"product": Gemm(m=8, n=128, k=32, dtype="bf16")},
        {"product": Elementwise(function="relu", elements=512, dtype="bf16")},
        {"product": GATED},
        {"after": ("other",)},
        {"after": ()},
        {"repeat": 3},
        {"product": Gemm(m=np.array([4.0, 8.0]), n=128, k=32, dtype="bf16")},
    ],
    ids=["gate alone", "other rows", "no product", "gated twice", "after another", "after nothing", "more often", "arrays"],
)
def test_not_after_anything_else(given: dict[str, Any]) -> None:
    assert not any(packed(pair(**given)))


def test_only_the_step_right_before_counts() -> None:
    up, act = pair()
    between = Step(id="between", op=Elementwise(function="relu", elements=512, dtype="bf16"))
    assert packed((up, between, act)) == [False]
    assert packed((act, up)) == [False]
    assert packed((up, act, up, act)) == [True, True]


def test_what_a_workload_says_itself_stands() -> None:
    said = Swiglu(rows=4, cols=64, dtype="bf16", packed=True)
    assert packed((Step(id="act", op=said),)) == [True]


def test_the_other_steps_are_as_they_were() -> None:
    up, act = pair(direction="forward+backward", measured_s=1e-6)
    first, second = fed((up, act))
    assert first is up
    assert (second.id, second.direction, second.measured_s, second.op) == (
        "act",
        "forward+backward",
        1e-6,
        Swiglu(rows=4, cols=64, dtype="bf16", packed=True),
    )
    assert fed(()) == ()
    assert fed((act,)) == (act,)


def test_counts_are_those_of_two_tensors() -> None:
    """The same bytes and arithmetic: halves are slower to read, not more."""
    alone, halves = GATED, Swiglu(rows=4, cols=64, dtype="bf16", packed=True)
    assert (alone.counts(), alone.compulsory(None)) == (halves.counts(), halves.compulsory(None))
    moved = [[(k.read_bytes, k.write_bytes) for k in op.launched("eager")] for op in (alone, halves)]  # type: ignore[union-attr]
    assert moved[0] == moved[1]


def test_a_report_estimates_halves_as_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels that read halves start in 4 us each instead of 2; beside the product, not after it, they read none."""
    device = estimating(load_hardware("h100-sxm"), monkeypatch)
    monkeypatch.setattr(MODELS["Stream"], "sets", lambda kernel, library: (f"stream.{kernel.kind}",), raising=False)
    sorts = {"stream.elementwise": parameters("stream.elementwise"), "stream.broadcast": parameters("stream.broadcast", fixed_s=4e-6)}
    known = replace(device, fitted={**device.fitted, **sorts})
    follows, apart = (
        analyze(Workload(name="w", execution="graph", steps=pair(after=after)), known).rows[1].estimate for after in (("up",), ())
    )
    assert follows is not None
    assert apart is not None
    assert follows.time_s == pytest.approx(apart.time_s + 2 * 2e-6)
