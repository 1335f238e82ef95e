"""To how many ranks and nodes a token goes: every choice of experts laid out, and what crosses then."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb
from statistics import fmean

import numpy as np
import pytest

from roofline.hardware.cluster import Cluster, Tier
from roofline.hardware.profile import Absent, Figure
from roofline.numeric import Number
from roofline.plan.network import collective
from roofline.plan.placement import Group
from roofline.plan.routed import Routed
from roofline.spec.hardware import load_hardware
from roofline.spec.vectorised import value_of

SORTS = [Routed(8, 2), Routed(12, 5), Routed(16, 1), Routed(16, 14)]


def places(experts: int, active: int, domains: int) -> Iterator[set[int]]:
    """The domains of each set of experts that a token may go to."""
    return ({e * domains // experts for e in chosen} for chosen in combinations(range(experts), active))


def rails(node: int, ranks: int, topology: str = "rail") -> Cluster:
    rate = Figure(1e9, "B/s", "datasheet", "here")
    tiers = (("inside", node, "switch"), ("between", ranks, topology))
    made = tuple(Tier(name=n, ranks=r, bandwidth=rate, latency=Absent("nobody says"), topology=t) for n, r, t in tiers)
    return Cluster(name="c", device=load_hardware("h100-sxm"), tiers=made)


def sent(size: Number, ranks: int, over: Cluster, routed: Routed, **more: float) -> dict[str, float]:
    legs = collective("all_to_all", size, Group(size=ranks, stride=1), over, copies=routed, **more)  # type: ignore[arg-type]
    return {leg.tier.name: float(leg.sent_bytes) for leg in legs}


# --------------------------------------------------------------------------- the mean
@pytest.mark.parametrize(
    ("routed", "ranks", "reached"),
    [(Routed(128, 8), 2, 1.9938), (Routed(8, 2), 8, 2), *((Routed(256, 8), m, d) for m, d in ((8, 5.2947), (64, 7.6758), (256, 8)))],
)
def test_ranks_that_a_token_goes_to_by_hand(routed: Routed, ranks: int, reached: float) -> None:
    """Qwen3-30B on two ranks, Mixtral with an expert a rank, DeepSeek-V3: m (1 - C(E - E/m, k) / C(E, k))."""
    e, k = routed.experts, routed.active
    assert routed.reached(ranks) == pytest.approx(ranks * (1 - comb(e - e // ranks, k) / comb(e, k)), rel=1e-12)
    assert routed.reached(ranks) == pytest.approx(reached, abs=1e-4)


@pytest.mark.parametrize("routed", SORTS)
@pytest.mark.parametrize("domains", [1, 2, 4])
def test_the_mean_is_that_of_every_choice(routed: Routed, domains: int) -> None:
    """With a limit, of every choice among the experts of the first of the domains."""
    e, k = routed.experts, routed.active
    assert routed.reached(domains) == pytest.approx(fmean(len(p) for p in places(e, k, domains)))
    for limit in range(1, domains):
        held = e * limit // domains
        if held >= k:
            assert routed.reached(domains, limit / domains) == pytest.approx(fmean(len(p) for p in places(held, k, limit)))


@pytest.mark.parametrize("routed", [*SORTS, Routed(256, 8), Routed(512, 10)])
def test_an_array_of_plans_a_number_and_the_expression_of_a_step_give_the_same_bits(routed: Routed) -> None:
    ranks = [n for n in range(1, routed.experts + 1) if routed.experts % n == 0]
    arrays = np.array(ranks, dtype=np.float64)
    found = np.asarray(routed.reached(arrays)).tolist()
    assert found == [routed.reached(n) for n in ranks] == [value_of(routed.text("ep"), {"ep": n}) for n in ranks]
    assert found == np.asarray(value_of(routed.text("ep"), {"ep": arrays})).tolist()


@pytest.mark.parametrize("routed", SORTS)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_fullest_rank_takes_in_each_token_once_at_most(routed: Routed, ranks: int) -> None:
    assert routed.loaded(1.0, ranks) == 1
    assert routed.loaded(1000.0, ranks) * routed.reached(ranks) / ranks == pytest.approx(1)


# --------------------------------------------------------------------------- what crosses
@pytest.mark.parametrize(("ranks", "node"), [(4, 2), (8, 2), (8, 4), (6, 4)])
@pytest.mark.parametrize("active", [1, 2, 3])
def test_what_the_busiest_ports_take_in_over_rails_is_what_all_choices_bring(ranks: int, node: int, active: int) -> None:
    """A token of each rank for each choice, two experts a rank: a row to each other node that has some, over ports that its members share
    evenly, and in the mean (n - 1) / n of a rank's rows from others of its node. Six ranks on nodes of four leave two in the second."""
    experts, routed = 2 * ranks, Routed(2 * ranks, active)
    nodes = [range(first, min(first + node, ranks)) for first in range(0, ranks, node)]
    choices = list(places(experts, active, ranks))
    into = [sum((ranks - len(n)) * bool(c.intersection(n)) for c in choices) / len(n) / len(choices) for n in nodes]
    rows = fmean(len(c) for c in choices)
    found = sent(rows * 1e6, ranks, rails(node, 64), routed)
    assert found["between"] == pytest.approx(max(into) * 1e6, abs=1)
    assert found["inside"] == pytest.approx(rows * (node - 1) / node * 1e6, abs=1)
    straight = sent(rows * 1e6, ranks, rails(node, 64, "fat_tree"), routed)
    assert straight["between"] >= found["between"]


def test_a_limit_leaves_fewer_nodes_and_ranks_by_hand() -> None:
    """DeepSeek-V3 on 64 ranks of 8 nodes: of the 128 experts of 4 nodes a token's 8 lie in 4 (1 - C(96, 8) / C(128, 8)) = 3.629 nodes and
    on 32 (1 - C(124, 8) / C(128, 8)) = 7.359 ranks, where they lie in 5.295 and on 7.676 without a limit."""
    routed = Routed(256, 8)
    size = routed.reached(64) * 1e6
    free, held = (sent(size, 64, rails(8, 512), routed, node_limit=limit) for limit in (0, 4))
    assert free["between"] == pytest.approx(5.2947e6 * 7 / 8, rel=1e-4)
    assert free["inside"] == pytest.approx(7.6758e6 * 7 / 8, rel=1e-4)
    assert held["between"] == pytest.approx(3.6290e6 * 7 / 8, rel=1e-4)
    assert held["inside"] == pytest.approx(7.3594e6 * 7 / 8, rel=1e-4)
    assert sent(size, 64, rails(8, 512), routed, node_limit=8) == free


def test_a_node_takes_in_no_more_than_every_token() -> None:
    """Two nodes of 8, a token to 8 of 16 ranks: both nodes have nearly every token, and however full a rank is its node has no more."""
    routed = Routed(16, 8)
    full = sent(16e6, 16, rails(8, 64), routed, imbalance=2, least=False)
    assert full["between"] == pytest.approx(2e6 * 1 / 2)
