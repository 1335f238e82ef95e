"""Published limits of parallel plans come out of what ranks send: how many tokens and ranks keep links from binding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofline.hardware.cluster import Cluster, Tier
from roofline.hardware.profile import Absent, Figure
from roofline.numeric import scalar
from roofline.plan.links import data_links, tensor_links
from roofline.plan.network import Leg, bound_s
from roofline.spec.hardware import load_hardware

FILE = Path(__file__).parent.parent / "data" / "published" / "parallelism.yaml"
FACTS: dict[str, dict[str, Any]] = {fact["id"]: fact for fact in yaml.safe_load(FILE.read_text(encoding="utf-8"))["facts"]}
SIDE = 100
"""Chips along an axis: enough that the share of its own that each keeps is a hundredth, which the book's formulas leave out."""


def torus(axis_bytes_per_s: float, axes: int) -> Tier:
    """An axis carries so much of a chip, both ways of it together."""
    bandwidth = Figure(axis_bytes_per_s * axes, "B/s", "derived", "fact")
    return Tier(name="ici", ranks=SIDE**axes, bandwidth=bandwidth, latency=Absent("not in the book"), topology="torus", axes=axes)


def network(tier: Tier) -> Cluster:
    return Cluster(name="book", device=load_hardware("tpu-v5p"), tiers=(tier,))


def data_over_axes(fact: dict[str, Any]) -> float:
    """Tokens of a chip at which the backward pass hides gradients that go over all axes at once."""
    given = fact["inputs"]
    over = network(torus(given["link_bw"], given["axes"]))
    return data_links(1e9, SIDE ** given["axes"], 1, given["peak"], over).tokens_needed_at_peak


def tensor_over_axes(fact: dict[str, Any]) -> float:
    """F / alpha, alpha being that of one axis."""
    given = fact["inputs"]
    over = network(torus(1.0, given["axes"]))
    return tensor_links(given["ffn"], given["alpha"], over, (2,)).limit


def data_between_pods(fact: dict[str, Any]) -> float:
    """Pods as devices: tokens of a pod at which gradients over the data-centre network are hidden."""
    given = fact["inputs"]
    bandwidth = Figure(given["dcn_bw"], "B/s", "derived", "fact")
    over = network(Tier(name="dcn", ranks=1000, bandwidth=bandwidth, latency=Absent("not in the book"), topology="switch"))
    return data_links(1e9, 1000, 1, given["pod_flops"], over).tokens_needed_at_peak


def weights_and_activations(fact: dict[str, Any]) -> float:
    """Tokens of a chip at which a forward pass hides gathered weights (on two axes) and activations (on one), split at its best."""
    given = fact["inputs"]
    width, hidden, chips, link = given["ffn"], 8192, 4096, 1e11
    for_weights, for_activations = torus(link, given["mxmy"]), torus(link, 1)

    def excess_s(tokens: float) -> float:
        """Communication less arithmetic of a layer, at the split that communicates least."""
        arithmetic = 4 * tokens * chips * hidden * width / chips / (given["alpha"] * link)
        return min(sent_s(tokens, 2 ** (i / 16)) for i in range(16, 16 * 11)) - arithmetic

    def sent_s(tokens: float, rows: float) -> float:
        cols = chips / rows
        weights = Leg(tier=for_weights, kind="all_gather", size=2 * 2 * hidden * width / cols, ranks=for_weights.ranks)
        activations = Leg(tier=for_activations, kind="all_reduce", size=2 * tokens * chips * hidden / rows, ranks=10**6)
        return scalar(bound_s([weights])) + scalar(bound_s([activations]))

    low, high = 1.0, 1e5
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if excess_s(middle) > 0 else (low, middle)
    return high


COMPUTED: dict[str, Callable[[dict[str, Any]], float]] = {
    "sb-dp-bcrit-v5p-3axes": data_over_axes,
    "sb-tp-limit": tensor_over_axes,
    "sb-mixed-bcrit": weights_and_activations,
    "sb-dcn-bcrit": data_between_pods,
}


def allowed(fact: dict[str, Any]) -> float:
    return fact["tolerance"].get("abs", 0) + fact["tolerance"].get("rel", 0) * fact["expected"]


@pytest.mark.parametrize("name", COMPUTED)
def test_the_published_figure_comes_out(name: str) -> None:
    fact = FACTS[name]
    assert abs(COMPUTED[name](fact) - fact["expected"]) <= allowed(fact)
    assert COMPUTED[name](fact) == pytest.approx(fact["computed"], rel=2e-3)


def test_every_fact_is_reproduced() -> None:
    assert set(FACTS) == set(COMPUTED)
    assert {fact["topic"] for fact in FACTS.values()} == {"parallelism"}
