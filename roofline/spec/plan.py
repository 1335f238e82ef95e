"""Plans as they are written: ``tp=8,pp=16,sp`` on the command line, a map under ``plan:`` in a file; problems at their place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from roofline.errors import InputError, Problem, did_you_mean
from roofline.hardware.cluster import Cluster
from roofline.models.description import Model
from roofline.models.shape import case_of, shape_of
from roofline.plan.job import Job
from roofline.plan.loads import beyond
from roofline.plan.plan import AXES, CONTEXT_KINDS, ORDERS, OVERLAPS, RECOMPUTE, SCHEDULES, Plan
from roofline.plan.unused import unused
from roofline.plan.validate import Case, PlanProblem, Shape, problems
from roofline.spec.scalars import as_bool, as_float, as_int
from roofline.spec.source import Entry, ListNode, MapNode, Mark, Node, Scalar, Source

DEGREES = (*AXES, "virtual", "microbatch")
FLAGS = {"sp": "sequence_parallel", "uneven": "uneven"}
CHOICES = {"context": ("context_kind", CONTEXT_KINDS), "schedule": ("schedule", SCHEDULES), "recompute": ("recompute", RECOMPUTE)}
KEYS = (*DEGREES, *FLAGS, *CHOICES, "order", "zero", "imbalance", "node_limit", "overlap")
"""All that a plan can say."""
MEANING = {
    "tp": "tensor parallel: each product is split over so many devices",
    "cp": "context parallel: the tokens of a sequence are split",
    "pp": "pipeline parallel: the layers are split into so many stages",
    "dp": "data parallel: so many replicas; with --devices what is left over",
    "ep": "expert parallel: experts are split over so many devices of a stage",
    "etp": "expert tensor parallel: each expert is split over so many",
    "virtual": "chunks of layers a stage holds, under schedule=interleaved",
    "microbatch": "sequences of one microbatch on a replica, in training and in the prefill of a pipeline",
    "sp": "Megatron's sequence parallelism: norms and residuals split along tokens",
    "uneven": "the first and the last chunk of layers hold fewer than the others",
    "context": f"how context parallelism exchanges: {', '.join(CONTEXT_KINDS)}",
    "schedule": f"of the pipeline: {', '.join(SCHEDULES)}",
    "recompute": f"activations computed again in the backward pass: {', '.join(RECOMPUTE)}",
    "order": f"axes from neighbouring devices outwards: {', '.join(ORDERS)}",
    "zero": "ZeRO stage, 0 to 3, over the ranks that share weights; 3 is FSDP",
    "imbalance": "tokens of the fullest rank of experts over the mean, at least 1",
    "node_limit": "nodes that a token's experts may lie in, any of them unless said",
    "overlap": f"axes whose exchange runs beside compute, joined by +, or none: {', '.join(OVERLAPS)}",
}
"""What each key says, for help and schema."""
MOST = 2**24
"""Largest degree: more devices than any cluster has, and small enough that products stay exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPlan:
    """A plan, and where each of its keys stands."""

    plan: Plan
    nodes: Mapping[str, Node]
    whole: Node

    def says(self, key: str) -> bool:
        """Whether the plan states that key."""
        return key in self.nodes

    def located(self, found: list[PlanProblem]) -> list[Problem]:
        """Problems of a plan at the key that is to blame, else at the plan."""
        return [self.nodes.get(p.axis, self.whole).problem(p.message) for p in found]


def read_plan(text: str, *, devices: int | None = None, name: str = "--plan") -> WrittenPlan:
    """The plan of a text such as ``tp=8,pp=16,zero=1,sp``; ``dp`` left out is what ``devices`` leave over, 1 without them.

    Raises:
        InputError: all that is not understood, each at its column.
    """
    source = Source(name, text)
    entries: dict[str, Entry] = {}
    found: list[Problem] = []
    at = 0
    for piece in text.split(","):
        start = at + len(piece) - len(piece.lstrip())
        at += len(piece) + 1
        key, equals, value = piece.strip().partition("=")
        mark = Mark(1, start + 1)
        if not key:
            if text.strip():
                found.append(source.problem(mark, "a key is missing here; write key=value, such as tp=8"))
            continue
        node = Scalar(source, mark, key.strip(), False)
        shown = Scalar(source, Mark(1, start + len(key) + 2), value.strip(), False) if equals else replace(node, text="")
        if node.text in entries:
            found.append(node.problem(f"'{node.text}' is given twice"))
        entries[node.text] = Entry(node, shown if equals else Scalar(source, mark, "true" if node.text in FLAGS else "", False))
    if found:
        raise InputError(found)
    return plan_node(MapNode(source, Mark(1, 1), entries), devices=devices)


def plan_node(node: Node, *, devices: int | None = None) -> WrittenPlan:
    """The plan of a ``plan:`` key: a map of the keys, or the text of the command line.

    Raises:
        InputError: all that is not understood, each at its place.
    """
    if isinstance(node, Scalar):
        return _of_text(node, devices)
    if not isinstance(node, MapNode):
        raise InputError([node.problem("expected a plan as a map such as {tp: 8, pp: 16}, or as text 'tp=8,pp=16'")])
    found: list[Problem] = []
    values: dict[str, Any] = {}
    nodes: dict[str, Node] = {}
    for key, entry in node.entries.items():
        if key not in KEYS:
            found.append(entry.key.problem(f"unknown key '{key}' of a plan; {did_you_mean(key, KEYS)}"))
            continue
        try:
            values.update(_value(key, entry.value))
            nodes[key] = entry.value
        except ValueError as error:
            found.append(entry.value.problem(f"{key}: {error}"))
    if found:
        raise InputError(found)
    if "virtual" in values and values["virtual"] > 1 and "schedule" not in values:
        values["schedule"] = "interleaved"
    plan = Plan(**values)
    if devices is not None and "dp" not in values and devices % (plan.tp * plan.cp * plan.pp) == 0:
        plan = replace(plan, dp=devices // int(plan.tp * plan.cp * plan.pp))
    return WrittenPlan(plan=plan, nodes=nodes, whole=node)


def _of_text(node: Scalar, devices: int | None) -> WrittenPlan:
    """A text in a file; its problems stand where the text stands."""
    try:
        read = read_plan(node.text, devices=devices)
    except InputError as error:
        raise InputError([node.problem(p.message) for p in error.problems]) from None
    return WrittenPlan(plan=read.plan, nodes=dict.fromkeys(read.nodes, node), whole=node)


def _value(key: str, node: Node) -> dict[str, Any]:
    """A key's value by the name of the plan's field."""
    if key == "overlap":
        return {"overlap": _overlap(node)}
    if not isinstance(node, Scalar):
        raise ValueError("write one value")
    if key in DEGREES:
        return {key: _whole(node, 1, MOST)}
    if key in FLAGS:
        return {FLAGS[key]: as_bool(node)}
    if key == "zero":
        return {key: _whole(node, 0, 3)}
    if key == "node_limit":
        return {key: _whole(node, 1, MOST)}
    if key == "imbalance":
        value = as_float(node)
        if not 1 <= value <= MOST:
            raise ValueError(f"{value:g} is not the load of the fullest rank over the mean, which is at least 1")
        return {key: value}
    name, known = CHOICES.get(key, ("order", ORDERS))
    if node.text not in known:
        raise ValueError(f"unknown word '{node.text}'; {did_you_mean(node.text, known)}")
    return {name: node.text}


def _whole(node: Scalar, least: int, most: int) -> int:
    value = as_int(node)
    if not least <= value <= most:
        raise ValueError(f"{value} is not a whole number from {least} to {most}")
    return value


def _overlap(node: Node) -> tuple[str, ...]:
    if isinstance(node, ListNode):
        words = [item.text if isinstance(item, Scalar) else "?" for item in node.items]
    else:
        assert isinstance(node, Scalar)
        words = [] if node.text == "none" else [w.strip() for w in node.text.split("+")]
    for word in words:
        if not word:
            raise ValueError(f"an axis is missing here; write none, or axes joined by +: {', '.join(OVERLAPS)}")
        if word not in OVERLAPS:
            raise ValueError(f"unknown axis '{word}'; {did_you_mean(word, OVERLAPS)}")
        if words.count(word) > 1:
            raise ValueError(f"'{word}' is given twice")
    return tuple(axis for axis in OVERLAPS if axis in words)


def checked(written: WrittenPlan, case: Case) -> list[PlanProblem]:
    """The warnings of a plan that obeys all rules.

    Raises:
        InputError: the rules it breaks and the keys that would change nothing, all of them, each at the key that is to blame.
    """
    found = [*problems(replace(case, stated=written.says("microbatch"))), *unused(case, written.nodes), *beyond(case)]
    fatal = [p for p in found if p.fatal]
    if fatal:
        raise InputError(written.located(fatal))
    return [p for p in found if not p.fatal]


def with_unsaid(read: WrittenPlan, shape: Shape, phase: str) -> Plan:
    """The plan with what it says nothing of: experts split by tensor parallelism as all else is, and the parts of a prefill, left open."""
    plan = read.plan
    if shape.experts and not read.says("ep") and not read.says("etp"):
        plan = replace(plan, etp=plan.tp)
    return replace(plan, microbatch=0) if phase == "prefill" and not read.says("microbatch") else plan


def obeyed(
    read: WrittenPlan, model: Model, job: Job, cluster: Cluster | None = None, devices: int | None = None
) -> tuple[WrittenPlan, list[PlanProblem]]:
    """The plan with what it leaves unsaid, after it has obeyed all rules of this model and job, and the rules that only warn.

    Raises:
        InputError: the rules it breaks, as `checked`.
    """
    found = replace(read, plan=with_unsaid(read, shape_of(model), job.phase))
    return found, checked(found, case_of(model, found.plan, job, cluster, devices))


def held(read: WrittenPlan, model: Model, job: Job, keys: Collection[str]) -> None:
    """Refuse of the ``keys`` that a search holds fixed those that would change none of its plans: degrees that it varies may be above 1.

    Raises:
        InputError: each at its place.
    """
    varied: dict[str, Any] = {axis: 2 for axis in AXES if not read.says(axis)}
    free = replace(read.plan, **varied)
    case = case_of(model, free, job)
    schedule = [p for p in problems(case) if p.axis == "schedule" and "schedule" in keys]
    if found := schedule + unused(case, keys):
        raise InputError(read.located(found))


def written(plan: Plan, phase: str = "train") -> str:
    """The plan as text of the command line, what stands at its default left out: for a prefill in stages, any microbatch that is chosen.

    >>> written(Plan(tp=8, pp=16, dp=64, zero=1, sequence_parallel=True))
    'tp=8,pp=16,dp=64,sp,zero=1'
    >>> written(Plan(pp=2), "prefill"), written(Plan(pp=2, microbatch=0), "prefill")
    ('pp=2,microbatch=1', 'pp=2')
    """
    base = Plan()
    chosen = phase == "prefill" and plan.pp != 1 and plan.microbatch == 1
    usual = {"microbatch": (0,) if chosen else (0, 1)}
    words = [f"{key}={getattr(plan, key):g}" for key in DEGREES if getattr(plan, key) not in usual.get(key, (1,))]
    words += [key for key, name in FLAGS.items() if getattr(plan, name)]
    if plan.cp != 1 and plan.context_kind != base.context_kind:
        words.append(f"context={plan.context_kind}")
    for key in ("schedule", "recompute", "order", "zero", "imbalance", "node_limit"):
        if getattr(plan, key) != getattr(base, key):
            words.append(f"{key}={getattr(plan, key)}")
    if plan.overlap != base.overlap:
        words.append(f"overlap={'+'.join(plan.overlap) or 'none'}")
    return ",".join(words) or "tp=1"
