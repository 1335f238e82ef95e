"""Published figures on collectives come out of the operators, or it is said why they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofline.ops.collective import AllGather, AllReduce, AllToAll, ReduceScatter
from roofline.ops.gemm import Gemm

FILE = Path(__file__).parent.parent / "data" / "published" / "collectives.yaml"
FACTS: dict[str, dict[str, Any]] = {fact["id"]: fact for fact in yaml.safe_load(FILE.read_text(encoding="utf-8"))["facts"]}
US = 1e-6
LINK = {"dtype": "bf16", "over": "link"}
ON_MANY = 10**6
"""Ranks at which (n-1)/n is 1 to six digits: the book's formulas leave that factor out."""


def crossover(fact: dict[str, Any]) -> float:
    """Half of the products on each of two chips, sums of B x F in bf16 exchanged: the D at which both take as long."""
    rows = cols = 1024
    product = Gemm(m=rows, n=cols, k=1, dtype="bf16")  # D / 2 = 1
    reduction = AllReduce(size=2 * rows * cols, ranks=2, **LINK)
    link_s = reduction.sent_bytes() / fact["inputs"]["link_bw"]
    return 2 * link_s / (product.counts().tensor / fact["inputs"]["peak_flops"])


def all_gather_us(fact: dict[str, Any]) -> float:
    """The time of an all-gather whose ranks send over all axes at once."""
    inputs = fact["inputs"]
    sent = AllGather(size=inputs["bytes"], ranks=ON_MANY, **LINK).sent_bytes()
    return sent / (inputs["bw"] * inputs.get("axes", 1)) / US


def bus_factor(fact: dict[str, Any]) -> float:
    """One for the three of them."""
    (factor,) = {cls(size=1, ranks=fact["inputs"]["n"], **LINK).bus_factor() for cls in (AllGather, ReduceScatter, AllToAll)}
    return factor


COMPUTED: dict[str, Callable[[dict[str, Any]], float]] = {
    "sb-net-roofline-2chip": crossover,
    "sb-allgather-1": all_gather_us,
    "sb-allgather-2": all_gather_us,
    "nccl-ag-factor-8": bus_factor,
}
NOT_REPRODUCED = {
    "nccl-nvls-factor-8": "a switch that adds receives (n+1)/n of the array from each rank; the published factor counts it twice",
}


def allowed(fact: dict[str, Any]) -> float:
    return fact["tolerance"].get("abs", 0) + fact["tolerance"].get("rel", 0) * fact["expected"]


@pytest.mark.parametrize("name", COMPUTED)
def test_the_operators_give_the_published_figure(name: str) -> None:
    fact = FACTS[name]
    assert abs(COMPUTED[name](fact) - fact["expected"]) <= allowed(fact)
    assert COMPUTED[name](fact) == pytest.approx(fact["computed"], rel=2e-3)


def test_every_fact_is_reproduced_or_has_a_reason() -> None:
    assert set(FACTS) == {*COMPUTED, *NOT_REPRODUCED}
    assert {fact["topic"] for fact in FACTS.values()} == {"collective"}


def test_four_ranks_need_three_quarters_of_the_time_that_the_book_gives() -> None:
    """It counts the share that each already has."""
    fact = FACTS["sb-allgather-1"]
    op = AllGather(size=fact["inputs"]["bytes"], ranks=4, **LINK)
    assert op.sent_bytes() / fact["inputs"]["bw"] / US == pytest.approx(0.75 * fact["computed"], rel=2e-3)


def test_the_published_factor_of_in_network_reduction_counts_the_bytes_twice() -> None:
    """2 (n-1)/n over twice (n+1)/n."""
    fact = FACTS["nccl-nvls-factor-8"]
    ring, switch = (AllReduce(size=8, ranks=fact["inputs"]["n"], **LINK, algorithm=a).sent_bytes() for a in ("ring", "switch"))
    assert ring / (2 * switch) == pytest.approx(fact["expected"], abs=allowed(fact))
