"""Published figures come out of the code: operators, profiles, bound, tile model and Amdahl's law."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

import tests.published.computed_attention
import tests.published.computed_mixers as mixers
import tests.published.computed_products as products
from roofline.ops.gemm import Gemm
from roofline.predict.crossover import crossover
from roofline.spec.hardware import load_hardware
from tests.published.devices import bound_of, device
from tests.published.facts import COMPUTATIONS, Fact, computations_of, computed, efficiency, facts, reproduced

NOT_REPRODUCED: dict[str, str] = {}
"""Facts that the code does not give, and why."""

GATES_IN_PASSES_OF_THEIR_OWN = {f"ffc-time-{n}": 3 / 4 for n in (1048576, 2097152, 4194304)}
"""The formula beside these has 32 bytes an element: gates multiplied in passes of their own. The published code fuses them into
the outer butterflies, which leaves three passes of 8 bytes, and the tool counts those: a bound must not have more."""

FACTS = [pytest.param(fact, id=fact.id) for fact in facts()]
CEILINGS = [pytest.param(fact, id=fact.id) for fact in facts() if fact.is_ceiling]


@pytest.mark.parametrize("fact", FACTS)
def test_the_code_gives_the_published_figure(fact: Fact) -> None:
    assert reproduced(fact, computed(fact)) == (fact.id not in NOT_REPRODUCED), f"{fact.quantity}: {computed(fact)} {fact.unit}"


@pytest.mark.parametrize("fact", CEILINGS)
def test_no_published_measurement_beats_the_bound(fact: Fact) -> None:
    value = computed(fact)
    assert isinstance(value, float)
    low, high = fact.tolerance["efficiency"]
    assert 0 < low <= efficiency(fact, value) <= high < 1


@pytest.mark.parametrize("fact", FACTS)
def test_the_code_agrees_with_the_formula_stated_beside_the_figure(fact: Fact) -> None:
    """The windows of ceilings are wide; the formula pins the value. Its inputs and value are rounded in places."""
    value = fact.formula_value
    if fact.id in GATES_IN_PASSES_OF_THEIR_OWN:
        assert isinstance(value, float)
        value *= GATES_IN_PASSES_OF_THEIR_OWN[fact.id]
    assert computed(fact) == pytest.approx(value, rel=0.01)


def test_every_fact_has_exactly_one_computation() -> None:
    assert {fact.id: len(computations_of(fact)) for fact in facts()} == {fact.id: 1 for fact in facts()}


def test_every_computation_serves_a_fact() -> None:
    used = {function for fact in facts() for function in computations_of(fact)}
    assert used == set(COMPUTATIONS.values())


def test_the_facts_cover_the_topics_of_this_accountant() -> None:
    assert Counter(fact.topic for fact in facts()) == {
        "attention": 65,
        "gemm-ladder": 24,
        "attention-memory": 11,
        "attention-onchip": 7,
        "fftconv": 18,
        "gemm": 6,
        "hardware": 4,
        "amdahl": 1,
        "softmax": 1,
        "elementwise": 1,
        "monarch": 1,
    }


def test_what_is_not_reproduced_is_a_fact_with_a_reason() -> None:
    assert set(NOT_REPRODUCED) <= {fact.id for fact in facts()}
    assert all(NOT_REPRODUCED.values())


# --------------------------------------------------------------------------- a judge that can say no
def _ceiling(check: str, expected: float) -> Fact:
    some = facts()[0]
    return replace(some, check=check, expected=expected, tolerance={"efficiency": [0.5, 1.2]})


def test_a_rate_above_the_bound_is_not_reproduced_whatever_the_window() -> None:
    assert reproduced(_ceiling("upper_bound_rate", 99.0), 100.0)
    assert not reproduced(_ceiling("upper_bound_rate", 101.0), 100.0)
    assert not reproduced(_ceiling("upper_bound_rate", 49.0), 100.0)


def test_a_time_below_the_bound_is_not_reproduced_whatever_the_window() -> None:
    assert reproduced(_ceiling("lower_bound_time", 101.0), 100.0)
    assert not reproduced(_ceiling("lower_bound_time", 99.0), 100.0)
    assert not reproduced(_ceiling("lower_bound_time", 201.0), 100.0)


def test_a_zero_tolerance_forgives_rounding_and_nothing_else() -> None:
    exact = replace(facts()[0], check="equals", expected=0.1 + 0.2, tolerance={"rel": 0})
    assert reproduced(exact, 0.3)
    assert not reproduced(exact, 0.3000001)


# --------------------------------------------------------------------------- what the facts imply beside their figures
def _fact(name: str) -> Fact:
    return next(fact for fact in facts() if fact.id == name)


@pytest.mark.parametrize("name", ["tk-b200-gemm-l1", "tk-b200-gemm-l2"])
def test_a_product_in_loops_stays_below_the_vector_lanes_too(name: str) -> None:
    """The fact's window is on the tensor peak; these two levels of the ladder do not use tensor cores at all."""
    op = Gemm(m=4096, n=4096, k=4096, dtype="fp32")
    found = bound_of(op, load_hardware("b200-sxm"))
    lanes_s = found.per_resource_s["vector"]
    assert found.per_resource_s["tensor"] == 0
    assert _fact(name).expected < float(op.counts().tensor) / found.time_s / 1e12 <= float(op.counts().tensor) / lanes_s / 1e12
    assert float(op.counts().tensor) / lanes_s / 1e12 == pytest.approx(75)


def test_every_sgemm_of_the_worklog_is_below_the_bound_of_its_device() -> None:
    rates = [fact.inputs["gflops"] for fact in facts() if fact.id.startswith("sgemm-a6000-")]
    shares = [products.sgemm_efficiency(rate) for rate in rates]
    assert 0 < min(shares) < max(shares) == pytest.approx(0.60, abs=0.01)


def test_the_crossover_search_finds_the_published_critical_batch() -> None:
    hardware = device(_fact("sb-bcrit-h100"), "h100-sxm")
    found = crossover(Gemm(m=1, n=products.WIDE, k=products.WIDE, dtype="bf16"), "m", hardware)
    # Activations and the result are read and written as well: one token more than the ratio of the rates says.
    assert found == math.ceil(products.critical_batch(_fact("sb-bcrit-h100"))) == 299


@pytest.mark.parametrize("fact", [pytest.param(f, id=f.id) for f in facts() if "factors" in f.inputs])
def test_transforms_factor_as_the_published_kernels_do(fact: Fact) -> None:
    op = mixers.gated(fact, "flash")
    assert op.check() is None
    assert sorted(n for n in op.transform_factors() if n > 1) == sorted(fact.inputs["factors"])


@pytest.mark.parametrize("fact", [pytest.param(f, id=f.id) for f in facts() if f.id.startswith("ffc-speedup")])
def test_no_published_convolution_beats_its_bound_and_fusion_gains_less_than_its_bytes(fact: Fact) -> None:
    """Both paths are held to the device; the fused one comes nearer on chip than to memory, so that it gains less than it saves."""
    shares = mixers.shares_of_bound(fact)
    assert all(0.1 < share < 1 for share in shares.values())
    assert shares["flash"] < shares["cufft"]
    saved = fact.inputs["pytorch_ms"] / fact.inputs["flash_ms"] * shares["cufft"] / shares["flash"]
    assert 1 < computed(fact) < saved < 10  # type: ignore[operator]


def test_the_gflop_row_of_flashattention_figure_2_is_an_order_below_its_own_shape() -> None:
    """Printed are 66.6 and 75.2 GFLOP; the printed shape has 12.4 and 12.8 times that, so that only the ratio is a fact."""
    attention = tests.published.computed_attention
    naive, flash = (attention.tensor_flop(*attention.figure_2(kind)) / 1e9 for kind in ("naive", "flash1"))
    assert (naive / 66.6, flash / 75.2) == (pytest.approx(12.4, abs=0.05), pytest.approx(12.8, abs=0.05))
