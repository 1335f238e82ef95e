"""Noted operators as steps: what was recognised, what was not, whose weights a step shares, and equal layers as one with ``repeat``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from roofline.ingest.aten import Mapped, Scalar, Unrecognised, recognise
from roofline.ingest.module_capture import Capture, Noted
from roofline.ingest.module_whole import WHOLE
from roofline.numeric import scalar
from roofline.ops.base import Op


@dataclass(frozen=True, slots=True)
class Draft:
    """A step in the making; ``tied`` is the index of the step whose weights it shares.

    ``backward`` tells that it ran in the backward pass, where products are operators of their own.
    """

    mapped: Mapped
    module: str
    called: str = ""
    backward: bool = False
    tied: int | None = None
    repeat: int = 1


@dataclass(slots=True)
class Recognised:
    """Steps in order of execution, and names of operators that nobody recognised with how often they ran and why."""

    drafts: list[Draft] = field(default_factory=list)
    unknown: dict[str, tuple[int, str]] = field(default_factory=dict)


def recognised(found: Capture) -> Recognised:
    """The steps of a run, in order, each operator once for every time it ran."""
    result = Recognised()
    owners: dict[int, int] = {}
    twins: dict[tuple[str, tuple[tuple[str, Scalar], ...]], int] = {}
    for noted in found.calls:
        try:
            mapped = recognise(noted.call)
        except Unrecognised as err:
            count, why = result.unknown.get(noted.call.base, (0, str(err)))
            result.unknown[noted.call.base] = count + 1, why
            continue
        for each in mapped:
            if noted.call.name in WHOLE and noted.backward:
                each = each.backward()
            result.drafts.append(_tied(each, noted, result.drafts, owners, twins))
    return result


def _tied(
    mapped: Mapped,
    noted: Noted,
    drafts: Sequence[Draft],
    owners: dict[int, int],
    twins: dict[tuple[str, tuple[tuple[str, Scalar], ...]], int],
) -> Draft:
    """The step, which shares the weights of an earlier one where it has the same parameter; equal weights only can be shared.

    A product with a parameter that another step of another size owns is one of two plain operands. A backward pass reads the
    weights of its forward pass: the step with the same parameter, or with the same fields where it is not among its arguments.
    """
    weights = _weights(mapped.build())
    draft = Draft(mapped, noted.module, noted.call.base.strip("_").removesuffix("_backward"), noted.backward)
    if not weights:
        return draft
    key = (mapped.op, tuple(mapped.fields.items()))
    earlier = next((owners[p] for p in noted.parameters if p in owners), None)
    if earlier is None and mapped.direction == "backward":
        earlier = twins.get(key)
    if earlier is not None:
        if _weights(drafts[earlier].mapped.build()) == weights:
            return replace(draft, tied=earlier)
        return replace(draft, mapped=_without_weights(mapped))
    for parameter in noted.parameters:
        owners.setdefault(parameter, len(drafts))
    twins[key] = len(drafts)
    return draft


def _without_weights(mapped: Mapped) -> Mapped:
    if mapped.op != "gemm":
        return mapped
    fields = {name: value for name, value in mapped.fields.items() if name in ("m", "n", "k", "dtype", "out_dtype")}
    return Mapped("batched_gemm", {"batch": 1, **fields}, mapped.direction)


def _weights(op: Op) -> int:
    return int(sum(scalar(t.elements) for t in op.tensors() if t.role == "weight"))


# --------------------------------------------------------------------------- equal layers
def merged(drafts: Sequence[Draft]) -> list[Draft]:
    """Runs of equal blocks as one block whose steps have ``repeat``; the largest saving first, from the front.

    Blocks are equal where operators, fields and directions are, and where steps share weights in the same way: with a step at
    the same place of their own block, or with the same earlier step once that is merged.
    """
    found: list[Draft] = []
    place: dict[int, int] = {}
    positions: dict[object, list[int]] = {}
    keys = [_key(d) for d in drafts]
    for i, key in enumerate(keys):
        positions.setdefault(key, []).append(i)
    i = 0
    while i < len(drafts):
        period, count = _best(drafts, keys, positions, place, i)
        for t in range(period):
            for again in range(count):
                place[i + again * period + t] = len(found)
            draft = drafts[i + t]
            found.append(replace(draft, repeat=count, tied=None if draft.tied is None else place[draft.tied]))
        i += period * count
    return found


def _key(draft: Draft) -> object:
    m = draft.mapped
    return m.op, tuple(m.fields.items()), m.direction, draft.backward, draft.tied is None, _unnumbered(draft.module)


def _unnumbered(module: str) -> str:
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1", module)


def _best(
    drafts: Sequence[Draft], keys: Sequence[object], positions: Mapping[object, list[int]], place: Mapping[int, int], i: int
) -> tuple[int, int]:
    """Length and number of equal blocks from ``i`` that save most steps; 1 and 1 where nothing repeats."""
    best = (1, 1)
    for j in positions[keys[i]]:
        period = j - i
        if period <= 0 or i + 2 * period > len(drafts):
            continue
        count = 1
        while i + (count + 1) * period <= len(drafts) and _equal(drafts, keys, place, i, i + count * period, period):
            count += 1
        if period * (count - 1) > best[0] * (best[1] - 1):
            best = (period, count)
    return best


def _equal(drafts: Sequence[Draft], keys: Sequence[object], place: Mapping[int, int], a: int, b: int, period: int) -> bool:
    if keys[a : a + period] != keys[b : b + period]:
        return False
    return all(_shared(drafts[a + t].tied, a, place) == _shared(drafts[b + t].tied, b, place) for t in range(period))


def _shared(tied: int | None, start: int, place: Mapping[int, int]) -> tuple[str, int] | None:
    if tied is None:
        return None
    return ("here", tied - start) if tied >= start else ("before", place.get(tied, -1))


# --------------------------------------------------------------------------- names
def ids(drafts: Sequence[Draft]) -> list[str]:
    """A name for each step: its module, without the numbers of layers that stand for several, and what it does there."""
    names: list[str] = []
    taken: dict[str, int] = {}
    alone = _counts(drafts)
    for draft in drafts:
        path = _unnumbered(draft.module) if draft.repeat > 1 else draft.module
        module = re.sub(r"[^A-Za-z0-9_/-]+", "-", "/".join(part for part in path.split(".") if part))
        what = str(draft.mapped.fields.get("function", draft.called if draft.mapped.op == "custom" else draft.mapped.op))
        what = re.sub(r"[^A-Za-z0-9_]+", "-", what)
        name = module if module and alone[draft.module, draft.backward] == 1 else f"{module}/{what}".lstrip("/")
        name += "-backward" if draft.backward else ""
        taken[name] = taken.get(name, 0) + 1
        names.append(name if taken[name] == 1 else _free(name, taken))
    return names


def _counts(drafts: Sequence[Draft]) -> dict[tuple[str, bool], int]:
    found: dict[tuple[str, bool], int] = {}
    for draft in drafts:
        key = draft.module, draft.backward
        found[key] = found.get(key, 0) + 1
    return found


def _free(name: str, taken: dict[str, int]) -> str:
    while f"{name}-{taken[name]}" in taken:
        taken[name] += 1
    taken[f"{name}-{taken[name]}"] = 1
    return f"{name}-{taken[name]}"
