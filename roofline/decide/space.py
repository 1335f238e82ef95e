"""The plans that a search looks at: all degrees whose product is the devices, and the words that change how work is spread.

Degrees are a grid of float64 arrays, one element a plan; words are combinations of which each is evaluated over the whole grid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roofline.errors import UsageError
from roofline.hardware.cluster import Cluster
from roofline.numeric import divisors, scalar
from roofline.plan.job import Job
from roofline.plan.plan import CONTEXT_KINDS, ORDERS, Plan
from roofline.plan.validate import Case, Shape, verdicts

Array = np.ndarray[Any, np.dtype[np.float64]]
COLUMNS = ("tp", "cp", "pp", "dp", "ep", "etp", "microbatch", "virtual")
PP = COLUMNS.index("pp")
STATED = frozenset({"overlap", "imbalance", "node_limit"})
"""Keys of a plan that no search varies: what is known of the software and of the tokens, which holds for every plan."""
MOST_VIRTUAL = 16
"""Chunks of layers a stage that are tried."""
MOST_MICROBATCH = 64
"""Sequences of the largest microbatch that is tried in training, where larger ones hold more and leave fewer to fill the stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What may vary. Each list holds what is tried; one word in a list fixes it. ``fixed`` degrees are those a user states."""

    sequence_parallel: tuple[bool, ...] = (False, True)
    context_kind: tuple[str, ...] = CONTEXT_KINDS
    zero: tuple[int, ...] = (0, 1, 2, 3)
    schedule: tuple[str, ...] = ("1f1b", "interleaved", "zero_bubble", "dualpipe")
    recompute: tuple[str, ...] = ("none", "full")
    order: tuple[str, ...] = ORDERS
    overlap: tuple[str, ...] = Plan().overlap
    imbalance: float = 1.0
    node_limit: int = 0
    fixed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """One combination of words."""

    sequence_parallel: bool
    context_kind: str
    zero: int
    recompute: str
    order: str
    schedule: str


def space_of(job: Job, shape: Shape, attention: str) -> Space:
    """What a job lets vary: without a backward pass neither ZeRO nor recomputation nor schedules do."""
    if job.phase != "train":
        context = CONTEXT_KINDS if job.phase == "prefill" else CONTEXT_KINDS[:1]
        return Space(zero=(0,), schedule=("1f1b",), recompute=("none",), context_kind=context)
    # Flash attention computes its scores again by itself, so that selective recomputation is none.
    recompute = ("none", "selective", "full") if attention == "naive" else ("none", "full")
    return Space(recompute=recompute)


def grid(devices: int, job: Job, shape: Shape, space: Space) -> dict[str, Array]:
    """All degrees whose product is the devices, with their microbatches and ranks of experts, as columns; a single chunk a stage.

    Raises:
        UsageError: stated degrees that make no such product, or the microbatch of a step that has none.
    """
    fixed = dict(space.fixed)
    mesh = np.array(list(_meshes(devices, fixed)), dtype=np.float64).reshape(-1, 4)
    if not len(mesh):
        said = ", ".join(f"{axis}={value:g}" for axis, value in fixed.items() if axis in ("tp", "cp", "pp", "dp"))
        raise UsageError(f"--plan {said}: no degrees of the other axes make {devices:,} devices with it")
    if "microbatch" in fixed and job.phase not in ("train", "prefill"):
        raise UsageError(f"--plan microbatch={fixed['microbatch']}: a {job.phase} step goes in as many parts as there are stages")
    experts = _only(fixed, "ep", divisors(shape.experts) if shape.experts else [1])
    found = _outer(mesh, experts)
    # Experts are each on one rank, or split as the products of attention are.
    if shape.experts and "etp" not in fixed:
        whole = np.column_stack([found, np.ones(len(found))])
        split = np.column_stack([found, found[:, 0]])[found[:, 0] > 1]
        found = np.concatenate([whole, split])
    else:
        found = _outer(found, [fixed.get("etp", 1)])
    micro = _only(fixed, "microbatch", _microbatches(job))
    if job.phase == "prefill" and "microbatch" not in fixed:  # without stages the batch is whole
        found = np.concatenate([_outer(found[found[:, PP] == 1], [1]), _outer(found[found[:, PP] > 1], micro)])
    else:
        found = _outer(found, micro)
    found = _outer(found, [1])
    return {name: found[:, i].copy() for i, name in enumerate(COLUMNS)}


def interleaved(columns: dict[str, Array], space: Space) -> tuple[dict[str, Array], Any]:
    """The grid with every number of chunks a stage from 2 on, and which row of the grid each row is of."""
    virtual = _only(dict(space.fixed), "virtual", range(2, MOST_VIRTUAL + 1))
    rows = np.repeat(np.arange(len(columns["tp"])), len(virtual))
    found = {name: values[rows] for name, values in columns.items()}
    found["virtual"] = np.tile(np.array(virtual, dtype=np.float64), len(columns["tp"]))
    return found, rows


def _meshes(devices: int, fixed: dict[str, int]) -> Iterator[tuple[int, int, int, int]]:
    """tp, cp, pp and the dp that is left over."""
    for tp in _only(fixed, "tp", divisors(devices)):
        for cp in _only(fixed, "cp", divisors(devices // tp) if devices % tp == 0 else []):
            rest = devices // (tp * cp)
            for pp in _only(fixed, "pp", divisors(rest) if devices % (tp * cp) == 0 else []):
                if devices % (tp * cp * pp) == 0 and fixed.get("dp", rest // pp) == rest // pp:
                    yield tp, cp, pp, rest // pp


def _only(fixed: dict[str, int], name: str, tried: Sequence[int] | range) -> list[int]:
    """The stated value, or all that are tried."""
    return [fixed[name]] if name in fixed else list(tried)


def _outer(rows: Array, values: Sequence[int]) -> Array:
    """Each row with each value behind it."""
    many = np.repeat(rows, len(values), axis=0)
    return np.column_stack([many, np.tile(np.array(values, dtype=np.float64), len(rows))])


def _microbatches(job: Job) -> list[int]:
    """Sequences of a microbatch: divisors of the batch, of which the rules leave those that divide a replica's. A prefill has all of them,
    as where a single plan leaves its parts open; training those up to a size."""
    if job.phase not in ("train", "prefill"):
        return [1]
    parts = divisors(int(scalar(job.batch)))
    return parts if job.phase == "prefill" else [n for n in parts if n <= MOST_MICROBATCH]


# --------------------------------------------------------------------------- rules
def plan_of(columns: dict[str, Array], words: Words, space: Space) -> Plan:
    """The plans of a grid under one combination of words."""
    return Plan(
        **columns,
        sequence_parallel=words.sequence_parallel,
        context_kind=words.context_kind,
        zero=words.zero,
        schedule=words.schedule,
        recompute=words.recompute,
        order=words.order,
        overlap=space.overlap,
        imbalance=space.imbalance,
        node_limit=space.node_limit,
        uneven=True,
    )


def obeys(plan: Plan, job: Job, shape: Shape, devices: int, cluster: Cluster) -> tuple[Any, dict[str, int]]:
    """A mask of the plans that obey all rules, and how many break each, counted under the first that they break."""
    size = len(np.atleast_1d(plan.tp))
    left = np.ones(size, dtype=bool)
    broken: dict[str, int] = {}
    case = Case(plan=plan, job=job, shape=shape, devices=devices, node_ranks=cluster.node_ranks, capacity=cluster.capacity)
    for reason, holds in verdicts(case):
        kept = left & np.broadcast_to(np.asarray(holds, dtype=bool), (size,))
        lost = int(left.sum() - kept.sum())
        if lost:
            broken[reason] = broken.get(reason, 0) + lost
        left = kept
    return left, broken


def pointless(plan: Plan, space: Space) -> Any:
    """Plans that are the same as another one of the search: a word that changes nothing there, and is not the first that is tried."""
    found = np.zeros(len(np.atleast_1d(plan.tp)), dtype=bool)
    if plan.sequence_parallel != space.sequence_parallel[0]:
        found |= plan.tp == 1
    if plan.context_kind != space.context_kind[0]:
        found |= plan.cp == 1
    if plan.zero != space.zero[0]:
        found |= plan.cp * plan.dp == 1
    if plan.schedule != space.schedule[0]:
        found |= plan.pp == 1
    if plan.order != space.order[0]:
        found |= (plan.pp == 1) | (plan.dp == 1)
    return found


def one(plan: Plan, at: int, layers: int) -> Plan:
    """One plan of a grid, in whole numbers; uneven only where the layers do not divide."""
    degrees: dict[str, Any] = {name: int(np.atleast_1d(getattr(plan, name))[at]) for name in COLUMNS}
    return replace(plan, **degrees, uneven=layers % (degrees["pp"] * degrees["virtual"]) != 0)


# --------------------------------------------------------------------------- what a user fixes
def fixed(space: Space, plan: Plan, stated: Collection[str]) -> Space:
    """The space with what a written plan states held fixed: its degrees and its words by their keys."""
    degrees = tuple((name, int(getattr(plan, name))) for name in COLUMNS if name in stated)
    words: dict[str, Any] = {"fixed": degrees}
    if "sp" in stated:
        words["sequence_parallel"] = (plan.sequence_parallel,)
    for key, name in (
        ("context", "context_kind"),
        ("zero", "zero"),
        ("schedule", "schedule"),
        ("recompute", "recompute"),
        ("order", "order"),
    ):
        if key in stated:
            words[name] = (getattr(plan, name),)
    if "virtual" in stated and plan.virtual > 1:
        words["schedule"] = ("interleaved",)
    for name in STATED:
        if name in stated:
            words[name] = getattr(plan, name)
    return replace(space, **words)
