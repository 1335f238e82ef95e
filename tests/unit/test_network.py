"""Collectives over the tiers of a cluster: by hand, against messages that are really passed on, and what holds for all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import RooflineError, UsageError
from roofline.hardware.cluster import Cluster, Tier
from roofline.hardware.profile import Absent, Figure, Value
from roofline.numeric import divisors
from roofline.ops.launched import Transfer
from roofline.plan.network import KINDS, Leg, bound_s, collective, leg_bound_s, leg_time_s, missing_latency, serial_s, time_s
from roofline.plan.placement import Group, Lie
from roofline.plan.plan import Plan, groups
from roofline.spec.hardware import load_hardware

H100 = load_hardware("h100-sxm")
UNKNOWN = Absent("nobody says")


def figure(value: float, unit: str) -> Figure:
    return Figure(value, unit, "datasheet", "here")


def tier(name: str, ranks: int, rate: float, step: float | None = None, topology: str = "switch", **more: Any) -> Tier:
    latency: Value = UNKNOWN if step is None else figure(step, "s")
    return Tier(name=name, ranks=ranks, bandwidth=figure(rate, "B/s"), latency=latency, topology=topology, **more)


def cluster(*tiers: Tier) -> Cluster:
    return Cluster(name="c", device=H100, tiers=tiers)


INSIDE, BETWEEN = tier("inside", 8, 400e9, 1e-6), tier("between", 64, 50e9, 3e-6, "rail")
TWO = cluster(INSIDE, BETWEEN)
THREE = cluster(INSIDE, BETWEEN, tier("pods", 512, 50e9, None, "fat_tree", oversubscription=5))


def sent(kind: str, size: float, group: Group, over: Cluster = TWO, **more: Any) -> dict[str, float]:
    """Bytes that a rank sends, by tier."""
    found: dict[str, float] = {}
    for leg in collective(kind, size, group, over, **more):
        found[leg.tier.name] = found.get(leg.tier.name, 0) + float(leg.sent_bytes)
    return found


# --------------------------------------------------------------------------- by hand
def test_an_all_reduce_of_two_nodes_by_hand() -> None:
    """16 ranks, 16 MB: 7/8 of it scattered and gathered inside (14 MB + 14 MB), 2 x 1/2 of the eighth between (2 MB)."""
    legs = collective("all_reduce", 16e6, Group(size=16, stride=1), TWO)
    assert [(leg.tier.name, leg.kind, leg.ranks) for leg in legs] == [
        ("inside", "reduce_scatter", 8),
        ("between", "all_reduce", 2),
        ("inside", "all_gather", 8),
    ]
    assert [leg.sent_bytes for leg in legs] == [14e6, 2e6, 14e6]
    assert bound_s(legs) == pytest.approx(28e6 / 400e9)  # 70 us inside, 40 us between
    assert serial_s(legs) == pytest.approx(70e-6 + 40e-6)


def test_time_with_latency_by_hand() -> None:
    """Ring of 8: 14 steps of 1 us and 14 MB at 400 GB/s; by tree 6 steps and 16 MB."""
    (leg,) = collective("all_reduce", 8e6, Group(size=8, stride=1), TWO)
    assert leg_time_s(leg, algorithm="ring") == pytest.approx(14e-6 + 14e6 / 400e9)
    assert leg_time_s(leg, algorithm="tree") == pytest.approx(6e-6 + 16e6 / 400e9)
    assert leg_time_s(leg) == leg_time_s(leg, algorithm="tree")
    assert leg_time_s(replace(leg, size=80e6)) == leg_time_s(replace(leg, size=80e6), algorithm="ring")
    assert leg_time_s(leg, share=0.5, algorithm="ring") == pytest.approx(14e-6 + 14e6 / 200e9)


def test_a_switch_that_adds_by_hand() -> None:
    """(n + 1) / n of 8 MB instead of 2 (n - 1) / n, in two steps; with two ranks a ring sends less, and is taken."""
    adds = cluster(replace(INSIDE, in_network_reduction=True))
    (leg,) = collective("all_reduce", 8e6, Group(size=8, stride=1), adds)
    assert leg.sent_bytes == 9e6
    assert leg_time_s(leg, algorithm="switch") == pytest.approx(2e-6 + 9e6 / 400e9)
    (pair,) = collective("all_reduce", 8e6, Group(size=2, stride=1), adds)
    assert pair.sent_bytes == 8e6
    assert leg.transfer() == Transfer(link="inside", bytes=14e6, kind="all_reduce", ranks=8)


def test_between_nodes_whose_switches_add_both_directions_are_counted_by_hand() -> None:
    """Scattered sums leave a rank as 14 MB and come as 2 MB, gathered ones the other way: 16 MB each way and not 28."""
    adds = cluster(replace(INSIDE, in_network_reduction=True), replace(BETWEEN, bandwidth=figure(1e15, "B/s")))
    legs = collective("all_reduce", 16e6, Group(size=16, stride=1), adds)
    assert [leg.loads for leg in legs] == [(14e6, 2e6), (2e6, 2e6), (2e6, 14e6)]
    assert bound_s(legs) == pytest.approx(16e6 / 400e9)
    assert bound_s(legs[:1]) == pytest.approx(14e6 / 400e9)


@pytest.mark.parametrize(
    ("kind", "inside", "between"),
    [("all_gather", 14e6, 1e6), ("reduce_scatter", 14e6, 1e6), ("broadcast", 16e6, 2e6), ("all_to_all", 14e6, 8e6)],
)
def test_the_others_of_two_nodes_by_hand(kind: str, inside: float, between: float) -> None:
    """Shares of 1 MB; over rails an all-to-all also passes on inside what came from outside."""
    assert sent(kind, 16e6, Group(size=16, stride=1)) == {"inside": inside, "between": between}


def test_an_all_to_all_without_rails_goes_straight() -> None:
    """7 of 16 shares inside, 8 to the other node."""
    straight = cluster(INSIDE, replace(BETWEEN, topology="fat_tree"))
    assert sent("all_to_all", 16e6, Group(size=16, stride=1), straight) == {"inside": 7e6, "between": 8e6}


def test_copies_cross_to_a_limited_number_of_nodes() -> None:
    """8 copies of everything in 8 MB, at most 4 of 8 nodes: 4 MB cross, 7/8 of them to other nodes, and all 8 MB pass inside."""
    group = Group(size=64, stride=1)
    assert sent("all_to_all", 8e6, group, copies=8) == {"inside": 7e6, "between": 7e6}
    assert sent("all_to_all", 8e6, group, copies=8, node_limit=4) == {"inside": 7e6, "between": 3.5e6}
    assert sent("all_to_all", 8e6, group, copies=2, node_limit=4) == sent("all_to_all", 8e6, group)


def test_the_fullest_rank_takes_in_more_by_hand() -> None:
    """1 MB of each of 64 ranks in the mean, and twice that to rank 0: 2 MB x 7/8 pass inside to it. Over rails its node's 8 ports take
    in for all 8 ranks, of whose others nothing is known: at least the mean, 7/8 MB a port, and with 16 times the mean at least 2 x 7/8.
    Over a fat tree its own port takes in 2 x 7/8 MB, and inside come the 2 x 7/64 MB of its own node's ranks."""
    group = Group(size=64, stride=1)
    assert sent("all_to_all", 2e6, group, imbalance=2) == {"inside": 2e6 * 7 / 8, "between": 1e6 * 7 / 8}
    assert sent("all_to_all", 16e6, group, imbalance=16) == {"inside": 16e6 * 7 / 8, "between": 2e6 * 7 / 8}
    straight = cluster(INSIDE, replace(BETWEEN, topology="fat_tree"))
    assert sent("all_to_all", 2e6, group, straight, imbalance=2) == {"inside": 2e6 * 7 / 64, "between": 2e6 * 7 / 8}


def test_where_the_others_have_the_same_the_node_of_the_fullest_rank_takes_in_more_by_hand() -> None:
    """1 MB of each of 64 ranks in the mean, 8 MB to rank 0 and (64 - 8) / 63 = 8/9 MB to each other: the ports of its node take in for
    (8 + 7 x 8/9) / 8 = 16/9 MB each, where at least 1 MB is sure. A group within a node has no ports to the outside."""
    group = Group(size=64, stride=1)
    assert sent("all_to_all", 8e6, group, imbalance=8)["between"] == 1e6 * 7 / 8
    found = sent("all_to_all", 8e6, group, imbalance=8, least=False)
    assert found["inside"] == 8e6 * 7 / 8
    assert found["between"] == pytest.approx(16 / 9 * 1e6 * 7 / 8)
    assert sent("all_to_all", 8e6, Group(size=8, stride=1), imbalance=8, least=False) == {"inside": 8e6 * 7 / 8}


@pytest.mark.parametrize("size", [8, 16, 24, 64, 512])
def test_what_a_node_takes_in_is_never_below_the_least_and_meets_it_at_both_ends(size: int) -> None:
    """Evenly loaded, and where one rank has all, there is nothing to choose."""
    for imbalance in (1, 1.5, size / 3, size):
        least, same = (bound_s(collective("all_to_all", imbalance * 1e6, Group(size=size, stride=1), TWO, imbalance=imbalance, least=sure))
                       for sure in (True, False))  # fmt: skip
        assert same >= least * (1 - 1e-12)
        if imbalance in (1, size):
            assert same == pytest.approx(least, rel=1e-12)


def test_on_a_ring_only_what_ends_at_the_fullest_rank_is_more() -> None:
    """4 ranks: a share passes one link on average, to whatever rank it goes; what ends at one with 3 times the mean is 3 x 3/4 of it."""
    ring = cluster(tier("ring", 4, 100e9, None, "ring"))
    group = Group(size=4, stride=1)
    assert sent("all_to_all", 1e6, group, ring) == {"ring": 1e6}
    assert sent("all_to_all", 1.2e6, group, ring, imbalance=1.2) == {"ring": 1e6}
    assert sent("all_to_all", 3e6, group, ring, imbalance=3) == {"ring": 3e6 * 3 / 4}


def test_stages_send_over_the_tier_that_their_slowest_pair_needs() -> None:
    """Stages of 4 devices: two in a node, so that every second pair crosses."""
    (inside,) = collective("send_recv", 1e6, Group(size=2, stride=4), TWO)
    (across,) = collective("send_recv", 1e6, Group(size=4, stride=4), TWO)
    assert (inside.tier.name, across.tier.name) == ("inside", "between")
    assert leg_time_s(across) == pytest.approx(3e-6 + 1e6 / 50e9)


def test_oversubscription_slows_far_ends() -> None:
    legs = collective("all_reduce", 1e9, Group(size=512, stride=1), THREE)
    assert {leg.tier.name: leg.rate for leg in legs} == {"inside": 400e9, "between": 50e9, "pods": 10e9}


def test_a_mesh_has_one_link_to_each_other_rank() -> None:
    """2 of 8 use one of seven links."""
    mesh = cluster(tier("mesh", 8, 448e9, None, "mesh"))
    assert collective("all_gather", 1e6, Group(size=2, stride=1), mesh)[0].rate == pytest.approx(64e9)
    assert collective("all_gather", 1e6, Group(size=8, stride=1), mesh)[0].rate == 448e9


def test_a_group_takes_the_axes_of_a_torus_that_it_needs() -> None:
    """16 x 16: one row has half of the bandwidth."""
    torus = cluster(tier("ici", 256, 200e9, 1e-6, "torus", axes=2))
    row, every = (collective("all_gather", 1e6, Group(size=n, stride=1), torus)[0] for n in (16, 256))
    assert (row.rate, every.rate) == (100e9, 200e9)
    assert leg_time_s(row) == pytest.approx(15e-6 + 1e6 * 15 / 16 / 100e9)
    assert leg_time_s(every) == pytest.approx(30e-6 + 1e6 * 255 / 256 / 200e9)


def test_only_a_ring_discounts_an_all_to_all() -> None:
    """On a bidirectional ring it takes a quarter of an all-gather of the whole (jax-ml/scaling-book): 16 ranks, 1 MB each."""
    ring = cluster(tier("ring", 16, 100e9, None, "ring"))
    group = Group(size=16, stride=1)
    gathered, exchanged = (sent(kind, size, group, ring)["ring"] for kind, size in (("all_gather", 16e6), ("all_to_all", 1e6)))
    assert exchanged / gathered == pytest.approx(1 / 4 * 16 / 15)
    assert sent("all_to_all", 1e6, group, cluster(tier("switch", 16, 100e9)))["switch"] == pytest.approx(15e6 / 16)


# --------------------------------------------------------------------------- counted independently
@pytest.mark.parametrize("ranks", range(2, 12))
def test_shares_on_a_ring_pass_the_ranks_that_are_counted(ranks: int) -> None:
    """Every share sent along the shorter way, link by link; where both ways are as long half goes either way."""
    ring = cluster(tier("ring", ranks, 1.0, None, "ring"))
    hops = sum(min((b - a) % ranks, (a - b) % ranks) for a, b in product(range(ranks), repeat=2))
    assert sent("all_to_all", ranks, Group(size=ranks, stride=1), ring)["ring"] == pytest.approx(hops / ranks)


def received(loads: list[float], inside: int, *, rails: bool) -> tuple[float, float]:
    """Bytes that the busiest port takes in, inside and between, where rank r gets loads[r] of every rank's array: pair by pair.

    Over rails what comes from another node arrives at the rank of the sender's number and is passed on inside, all rails evenly.
    """
    ranks = len(loads)
    within, between = [0.0] * ranks, [0.0] * ranks
    for source, target in product(range(ranks), range(ranks)):
        share = loads[target] / ranks
        if source == target:
            continue
        if source // inside == target // inside:
            within[target] += share
        elif not rails:
            between[target] += share
        else:
            port = target // inside * inside + source % inside
            between[port] += share
            within[target] += share if port != target else 0.0
    return max(within), max(between)


@given(st.lists(st.integers(0, 9), min_size=16, max_size=16).filter(any), st.booleans())
def test_no_loads_of_ranks_beat_the_exchange_of_their_fullest(parts: list[int], rails: bool) -> None:
    """Two nodes of 8: whatever the loads, the busiest port of each tier takes in at least what is counted, and all of it inside."""
    loads = [16 * p / sum(parts) for p in parts]
    fullest = max(loads)
    over = cluster(INSIDE, replace(BETWEEN, topology="rail" if rails else "fat_tree"))
    found = sent("all_to_all", 1e6 * fullest, Group(size=16, stride=1), over, imbalance=fullest)
    within, between = (1e6 * n for n in received(loads, 8, rails=rails))
    assert found["inside"] == pytest.approx(within, abs=2)
    assert found["between"] <= between + 2
    if not rails:
        assert found["between"] == pytest.approx(between, abs=2)


def nested_sends(nodes: int, inside: int) -> tuple[int, int]:
    """Chunks that a rank sends inside and between in an all-reduce by reduce-scatter, all-reduce and all-gather, message by message."""
    chunks = nodes * inside
    values = {(n, r): [n * inside + r] * chunks for n, r in product(range(nodes), range(inside))}
    counts = {"inside": 0, "between": 0}
    own = {r: [c for c in range(chunks) if c % inside == r] for r in range(inside)}

    def send(source: tuple[int, int], target: tuple[int, int], wanted: list[int], *, add: bool, at: dict[Any, list[int]]) -> None:
        counts["inside" if source[0] == target[0] else "between"] += len(wanted) if source == (0, 0) else 0
        for c in wanted:
            at[target][c] = at[target][c] + values[source][c] if add else values[source][c]

    def everyone(pairs: list[Any]) -> None:
        after = {rank: list(held) for rank, held in values.items()}
        for source, target, wanted, add in pairs:
            send(source, target, wanted, add=add, at=after)
        values.update(after)

    everyone([((n, r), (n, o), own[o], True) for n, r, o in product(range(nodes), range(inside), range(inside)) if o != r])
    part = {(n, r): [c for i, c in enumerate(own[r]) if i % nodes == n] for n, r in values}
    across = [(a, b) for a, b in product(values, values) if a[1] == b[1] and a[0] != b[0]]
    everyone([(a, b, part[b], True) for a, b in across])
    everyone([(a, b, part[a], False) for a, b in across])
    everyone([((n, r), (n, o), own[r], False) for n, r, o in product(range(nodes), range(inside), range(inside)) if o != r])
    assert all(held == [sum(range(chunks))] * chunks for held in values.values())
    return counts["inside"], counts["between"]


@pytest.mark.parametrize(("nodes", "inside"), [(2, 2), (2, 4), (4, 2), (3, 4), (1, 4), (4, 1)])
def test_an_all_reduce_sends_what_messages_count(nodes: int, inside: int) -> None:
    """Numbers that are sent and added, until every rank has every sum."""
    over = cluster(tier("inside", max(inside, 2), 1.0), tier("between", 2 * 64, 1.0))
    group = Group(size=nodes * inside, stride=1 if inside > 1 else 2)
    found = sent("all_reduce", nodes * inside, group, over)
    assert (found.get("inside", 0), found.get("between", 0)) == nested_sends(nodes, inside)


def all_members(plan: Plan, axis: str) -> list[list[int]]:
    """The devices of every group along ``axis``, from the coordinates of each device in the plan's order."""
    order = plan.order.split("-")
    sizes = [int(getattr(plan, a)) for a in order]
    devices = [dict(zip(order, c[::-1], strict=True)) for c in product(*(range(s) for s in reversed(sizes)))]
    found: dict[tuple[int, ...], list[int]] = {}
    within = {"etp": (1, plan.etp), "ep": (plan.etp, plan.ep * plan.etp), "expert_data": (plan.ep * plan.etp, plan.tp * plan.cp * plan.dp)}
    places = dict.fromkeys(range(int(plan.pp)), 0)
    for i, d in enumerate(devices):
        at = places[d["pp"]]  # its number on its stage
        places[d["pp"]] += 1
        if axis == "data":
            key = (d["pp"], d["tp"])
        elif axis in order:
            key = tuple(d[a] for a in order if a != axis)
        else:
            stride, block = (int(n) for n in within[axis])
            key = (d["pp"], at // block, at % stride)
        found.setdefault(key, []).append(i)
    return list(found.values())


def in_domains(members: list[int], ranks: int) -> list[int]:
    """How many of them each domain holds."""
    return list(Counter(m // ranks for m in members).values())


DEGREE = st.sampled_from([1, 2, 3, 4, 5, 6, 8])
ORDER = st.sampled_from(["tp-cp-pp-dp", "tp-cp-dp-pp"])


@settings(max_examples=150, deadline=None)
@given(tp=DEGREE, cp=DEGREE, pp=DEGREE, dp=DEGREE, order=ORDER, data=st.data())
def test_groups_lie_where_their_devices_do(tp: int, cp: int, pp: int, dp: int, order: str, data: st.DataObject) -> None:
    """Every device, every group, every node or pod: the most and the fewest members in one, and how many of them a group needs."""
    if tp * cp * pp * dp > 600:
        return
    several = data.draw(st.sampled_from(divisors(tp * cp * dp)))
    etp = data.draw(st.sampled_from(divisors(several)))
    plan = Plan(tp=tp, cp=cp, pp=pp, dp=dp, ep=several // etp, etp=etp, order=order)
    for axis, group in groups(plan).items():
        every = all_members(plan, axis)
        assert {len(members) for members in every} == {group.size}, axis
        for ranks in (2, 6, 8, 36, 64):
            held, lie = [in_domains(members, ranks) for members in every], group.lie(ranks)
            assert (lie.most, lie.fewest, lie.domains) == (max(map(max, held)), min(map(min, held)), max(map(len, held))), (axis, ranks)


def test_groups_of_six_on_nodes_of_eight_by_hand() -> None:
    """Four groups: 6, 2 and 4, 4 and 2, 6. One gathers 12 MB: the two on a node alone receive 8 MB over two ports, 4 MB each, and inside
    a whole group sends 10 MB. To a sum the two send their part and receive the sum, 12 MB over two ports."""
    group = groups(Plan(tp=6, dp=4))["tp"]
    assert group.lie(8) == Lie(most=6, fewest=2, domains=2, even=False)
    assert sent("all_gather", 12e6, group) == {"inside": 10e6, "between": 4e6}
    assert sent("reduce_scatter", 12e6, group) == {"inside": 10e6, "between": 4e6}
    assert sent("all_reduce", 12e6, group) == {"inside": 20e6, "between": 6e6}
    assert sent("all_to_all", 12e6, group, cluster(INSIDE, replace(BETWEEN, topology="switch"))) == {"inside": 10e6, "between": 8e6}
    assert sent("send_recv", 1e6, groups(Plan(tp=3, pp=2, dp=4))["pp"]) == {"between": 1e6}
    alone = groups(Plan(tp=6))["tp"]
    assert sent("all_gather", 12e6, alone) == {"inside": 10e6}


@settings(max_examples=60, deadline=None)
@given(size=st.integers(2, 24), stride=st.sampled_from([1, 2, 3, 4, 6, 8]), blocks=st.integers(1, 6))
def test_between_nodes_a_group_sends_what_its_worst_node_must(size: int, stride: int, blocks: int) -> None:
    """Over all groups and nodes. A node of k of N members receives what the others have, (N - k) / N, and to a sum it sends its part and
    receives the sum, over k ports; all together send a sum 2 (n - 1) times for n nodes. Whoever adds, that is the least."""
    group = Group(size=size, stride=stride, blocks=blocks)
    every = [[b * size * stride + i + j * stride for j in range(size)] for b in range(blocks) for i in range(stride)]
    over = cluster(INSIDE, tier("between", 1024, 50e9, topology="switch"))
    held = [h for h in (in_domains(members, 8) for members in every) if len(h) > 1]
    gathered = max((size - k) / size / k for h in held for k in h) if held else 0
    summed = max(max(1 / min(h), 2 * (len(h) - 1) / size) for h in held) if held else 0
    passed = max((size - k) / size for h in held for k in h) if held else 0
    for kind, least in (("all_gather", gathered), ("reduce_scatter", gathered), ("all_reduce", summed), ("all_to_all", passed)):
        assert sent(kind, 1e6, group, over).get("between", 0) == pytest.approx(1e6 * least), kind


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS), order=ORDER, axis=st.sampled_from(["tp", "cp", "pp", "dp", "data"]),
    rows=st.lists(st.tuples(DEGREE, DEGREE, DEGREE, DEGREE), min_size=1, max_size=6),
)  # fmt: skip
def test_arrays_of_groups_that_lie_in_several_ways_are_their_elements(
    kind: str, order: str, axis: str, rows: list[tuple[int, ...]]
) -> None:
    names = ("tp", "cp", "pp", "dp")
    many: dict[str, Any] = {n: np.array([r[i] for r in rows], dtype=np.float64) for i, n in enumerate(names)}
    legs = collective(kind, 1e6, groups(Plan(**many, order=order))[axis], THREE)
    for at, row in enumerate(rows):
        alone = collective(kind, 1e6, groups(Plan(**dict(zip(names, row, strict=True)), order=order))[axis], THREE)
        for function in (bound_s, time_s):
            found = np.broadcast_to(np.asarray(function(legs), dtype=float), (len(rows),))
            assert found[at] == pytest.approx(float(function(alone)), rel=1e-12), function


# --------------------------------------------------------------------------- what always holds
SIZES, RANKS, STRIDES = st.floats(1, 1e12), st.integers(1, 9), st.integers(0, 6)
CLUSTERS = st.sampled_from([TWO, THREE, cluster(replace(INSIDE, in_network_reduction=True), BETWEEN)])


@given(kind=st.sampled_from(KINDS), size=SIZES, doublings=RANKS, stride=STRIDES, over=CLUSTERS)
def test_an_array_gives_the_numbers_of_its_elements(kind: str, size: float, doublings: int, stride: int, over: Cluster) -> None:
    members, far = 2.0 ** min(doublings, 6 - stride), 2.0**stride
    group = Group(size=np.array([1.0, members, 2.0]), stride=np.array([far, far, 1.0]))
    legs = collective(kind, np.full(3, size), group, over)
    for at, (n, s) in enumerate(((1, far), (members, far), (2, 1))):
        alone = collective(kind, size, Group(size=int(n), stride=int(s)), over)
        for function in (bound_s, serial_s, time_s):
            many = np.broadcast_to(np.asarray(function(legs), dtype=float), (3,))
            assert many[at] == pytest.approx(float(function(alone)), rel=1e-12), function


@given(kind=st.sampled_from(KINDS), size=SIZES, stride=STRIDES, over=CLUSTERS)
def test_a_single_rank_costs_nothing(kind: str, size: float, stride: int, over: Cluster) -> None:
    legs = collective(kind, size, Group(size=1, stride=2**stride), over)
    assert legs == ()
    assert (bound_s(legs), time_s(legs)) == (0, 0)
    alone = Leg(tier=over.tiers[0], kind=kind, size=size, ranks=1)
    assert (alone.sent_bytes, leg_bound_s(alone), leg_time_s(alone)) == (0, 0, 0)


@given(kind=st.sampled_from(KINDS), size=SIZES, doublings=RANKS, over=CLUSTERS)
def test_no_time_is_below_its_bound_and_no_bound_below_the_slowest_tier(kind: str, size: float, doublings: int, over: Cluster) -> None:
    """What leaves a node leaves it over the slow tier, however it is arranged: at least what one node's ranks must send together."""
    count = 2 ** min(doublings, 6)
    legs = collective(kind, size, Group(size=count, stride=1), over)
    assert 0 <= bound_s(legs) <= serial_s(legs) * (1 + 1e-12)
    assert serial_s(legs) <= time_s(legs) * (1 + 1e-9)
    if kind == "all_reduce" and count > 8:
        nodes = count // 8
        assert bound_s(legs) >= 2 * size * (nodes - 1) / nodes / (8 * 50e9) * (1 - 1e-12)


@given(size=SIZES, doublings=st.integers(1, 6))
def test_more_ranks_and_more_bytes_never_take_less(size: float, doublings: int) -> None:
    few, many = (collective("all_reduce", size, Group(size=2**d, stride=1), TWO) for d in (doublings - 1, doublings))
    more = collective("all_reduce", 2 * size, Group(size=2**doublings, stride=1), TWO)
    assert time_s(few) <= time_s(many) * (1 + 1e-12)
    assert time_s(many) <= time_s(more) * (1 + 1e-12)


# --------------------------------------------------------------------------- what is refused or said
def test_a_missing_latency_is_no_latency_and_said() -> None:
    legs = collective("all_reduce", 1e6, Group(size=512, stride=1), THREE)
    assert missing_latency(legs) == ("no latency of pods is counted: nobody says",)
    (pods,) = [leg for leg in legs if leg.tier.name == "pods"]
    assert leg_time_s(pods) == leg_bound_s(pods)


def test_unknown_words_are_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'all_reduce'"):
        collective("allreduce", 1, Group(size=2, stride=1), TWO)
    (leg,) = collective("all_gather", 1, Group(size=2, stride=1), TWO)
    with pytest.raises(UsageError, match="no switch for all_gather over inside; it has ring, tree"):
        leg_time_s(leg, algorithm="switch")
    with pytest.raises(UsageError, match="unknown algorithm 'rings'; did you mean 'ring'"):
        leg_time_s(leg, algorithm="rings")


def test_a_tier_without_a_bandwidth_says_why() -> None:
    unknown = Leg(tier=replace(INSIDE, bandwidth=UNKNOWN), kind="all_gather", size=1, ranks=2)
    with pytest.raises(RooflineError, match="bandwidth of tier 'inside' is not known: nobody says"):
        leg_bound_s(unknown)


def test_a_cluster_without_tiers_carries_nothing() -> None:
    assert collective("all_reduce", 1, Group(size=1, stride=1), cluster()) == ()
    with pytest.raises(UsageError, match="no tiers"):
        collective("all_reduce", 1, Group(size=2, stride=1), cluster())
