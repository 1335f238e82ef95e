"""A workload whose params are float64 arrays: every point of a sweep through the same operators at once.

The file is read at the first point like any other, with all its checks. What depends on an axis is then worked out again with
arrays that broadcast, one dimension an axis, so that a step that knows only the batch is counted once for each batch, whatever
else is varied. What cannot be an array (text, how often a step runs, settings) makes its axis *discrete*: it is walked value by value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from roofline.errors import InputError, Problem
from roofline.numeric import Number, is_array
from roofline.ops.base import Op
from roofline.spec.axes import Axis, spelt
from roofline.spec.formula import Formula
from roofline.spec.kind import require
from roofline.spec.model_keys import MODEL_NAMES
from roofline.spec.overrides import SETTINGS, id_of, overridden
from roofline.spec.source import ListNode, MapNode, Node, Scalar, Source, parse
from roofline.spec.workload import AMOUNTS, read_workload
from roofline.units import parse_quantity
from roofline.workload.workload import Step, Workload

ARRAYS = ("dim", "amount", "probability")
"""Sorts of fields that may be arrays."""
MOST = 2**53
"""Largest count that a float64 holds exactly."""
_NAME = re.compile(r"[A-Za-z_]\w*")


def discrete(source: Source, overrides: Sequence[str], axes: Sequence[Axis]) -> list[Axis]:
    """The axes that are walked value by value: text, settings, words of a step, and what decides how often a step runs.

    Raises:
        InputError: problems in the file or in an override, at the first point.
    """
    root = _root(source, [*overrides, *_first(axes)])
    workload = read_workload(source, [*overrides, *_first(axes)])
    if len(_steps(root)) != len(workload.steps):  # the text has no steps of its own, such as that of a model's config
        return list(axes)
    ops = {s.id: s.op for s in workload.steps}
    repeats = {name for node in _steps(root) for name in _used(_text(node, "repeat"))}
    words = (*SETTINGS, *MODEL_NAMES)
    return [a for a in axes if not a.numeric or a.key in words or _feeds(a.key, repeats, root) or _is_word(a.key, ops) or _is_switch(a)]


def swept(source: Source, overrides: Sequence[str], arrays: Mapping[str, Number]) -> Workload:
    """The workload with arrays for its numeric axes (key of an override to values); dimensions of steps may then be arrays.

    Raises:
        InputError: problems in the file, or a point at which a dimension is out of its range, each at its place.
    """
    first = [f"{key}={spelt(_plain(values.ravel()[0]))}" for key, values in arrays.items()]  # type: ignore[union-attr]
    workload = read_workload(source, [*overrides, *first])
    if not arrays:
        return workload
    root = _root(source, [*overrides, *first])
    sweep = _Sweep(arrays, _names(root, workload.params, arrays))
    steps = tuple(sweep.step(node, step) for node, step in zip(_steps(root), workload.steps, strict=True))
    if sweep.problems:
        raise InputError(sweep.problems)
    return replace(workload, steps=steps, params=sweep.names)


# --------------------------------------------------------------------------- nodes
def _root(source: Source, overrides: Sequence[str]) -> MapNode:
    """The workload with its overrides; a model has been replaced by its steps."""
    return overridden(require(parse(source), "a workload"), overrides)


def _first(axes: Sequence[Axis]) -> list[str]:
    return [f"{a.key}={spelt(a.values[0])}" for a in axes]


def _steps(root: MapNode) -> tuple[Node, ...]:
    steps = root.entries["steps"].value if "steps" in root.entries else None
    return steps.items if isinstance(steps, ListNode) else ()


def _text(node: Node, key: str) -> str:
    entry = node.entries.get(key) if isinstance(node, MapNode) else None
    return entry.value.text if entry is not None and isinstance(entry.value, Scalar) else ""


def _used(text: str) -> set[str]:
    return set(_NAME.findall(text))


def _params(root: MapNode) -> dict[str, str]:
    node = root.entries["params"].value if "params" in root.entries else None
    return {name: _text(node, name) for name in node.entries} if isinstance(node, MapNode) else {}


def _feeds(key: str, names: set[str], root: MapNode) -> bool:
    """Whether one of the names is that param, or is worked out from it; or the key is such a field of a step itself."""
    if key.endswith(".repeat"):
        return True
    reached = {key}
    for name, text in _params(root).items():
        if _used(text) & reached:
            reached.add(name)
    return bool(reached & names)


def _is_switch(axis: Axis) -> bool:
    """Whether 0 of a param takes out the steps that read it, so that they are others than those of its other values: a cached prefix."""
    return axis.key == "cached" and 0 in axis.values


def _is_word(key: str, ops: Mapping[str, Op]) -> bool:
    """Whether the key is a field of a step that is no number."""
    step, dot, name = key.partition(".")
    if not dot or step not in ops:
        return False
    return not any(f.name == name and f.metadata.get("kind") in ARRAYS for f in fields(ops[step]))  # type: ignore[arg-type]


def _plain(value: Any) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def _names(root: MapNode, first: Mapping[str, Any], arrays: Mapping[str, Number]) -> dict[str, Any]:
    """Params by name, arrays where they depend on an axis, each after those that it uses."""
    names: dict[str, Any] = {}
    for name, text in _params(root).items():
        if name in arrays:
            names[name] = arrays[name]
        elif any(is_array(names[n]) for n in _used(text) & set(names)):
            names[name] = Formula(text)(names)
        else:
            names[name] = first[name]
    return names


# --------------------------------------------------------------------------- values
@dataclass(slots=True)
class _Sweep:
    """Arrays of the axes, the names of expressions, and what was wrong."""

    arrays: Mapping[str, Number]
    names: dict[str, Any]
    problems: list[Problem]

    def __init__(self, arrays: Mapping[str, Number], names: dict[str, Any]) -> None:
        self.arrays, self.names, self.problems = arrays, names, []

    def step(self, node: Node, step: Step) -> Step:
        """The step with arrays for what depends on an axis."""
        changed: dict[str, Number] = {}
        assert isinstance(node, MapNode)
        for f in fields(step.op):  # type: ignore[arg-type]
            kind, entry = f.metadata.get("kind"), node.entries.get(f.name)
            if kind not in ARRAYS or entry is None or not isinstance(entry.value, Scalar):
                continue
            value = self.arrays.get(f"{id_of(node)}.{f.name}")
            if value is None and self._varies(entry.value.text):
                value = self._value(entry.value.text, f.metadata)
            if value is not None and is_array(value):
                changed[f.name] = self._checked(value, entry.value, f.metadata)
        if not changed or self.problems:
            return step
        op: Op = replace(step.op, **changed)  # type: ignore[type-var]
        if contradiction := op.check():
            self.problems.append(node.problem(f"at some point of the sweep: {contradiction}"))
        return replace(step, op=op)

    def _varies(self, text: str) -> bool:
        return any(is_array(self.names[n]) for n in _used(text) & set(self.names))

    def _value(self, text: str, metadata: Any) -> Number:
        """The expression with arrays; of an amount the number before its unit."""
        if metadata["kind"] != "amount":
            return Formula(text)(self.names)
        number, _, unit = text.rpartition(" ")
        return Formula(number)(self.names) * parse_quantity(f"1 {unit}", AMOUNTS[metadata["unit"]])

    def _checked(self, value: Any, node: Scalar, metadata: Any) -> Number:
        """The value, after reporting the first point at which it is out of range."""
        low, high = _range(metadata)
        bad = ~((value >= low) & (value <= high) & (value < math.inf))
        said = f"from {low} to {high:g}" if high < MOST else f"at least {low} and finite"
        if metadata["kind"] == "dim" and not bad.any():
            bad, said = value % 1 != 0, "a whole number"
        if bad.any():
            at, wrong = self._place(bad), value.ravel()[int(bad.argmax())]
            self.problems.append(node.problem(f"at {at} '{node.text}' is {wrong:g}; wanted is {said}"))
        found: Number = value
        return found

    def _place(self, bad: Any) -> str:
        """The values of the axes at the first place that is marked."""
        left, said = int(bad.argmax()), []
        for (key, values), size in reversed(list(zip(self.arrays.items(), _sizes(bad.shape, len(self.arrays)), strict=True))):
            rest, index = divmod(left, size)
            left = left if bad.ndim == 1 else rest
            if size == values.size:  # type: ignore[union-attr]
                said.append(f"{key} = {values.ravel()[index]:g}")  # type: ignore[union-attr]
        return ", ".join(reversed(said))


def _range(metadata: Any) -> tuple[float, float]:
    """The least and the largest value that a field may have."""
    if metadata["kind"] == "dim":
        return metadata.get("minimum", 1), MOST
    return 0, 1 if metadata["kind"] == "probability" else math.inf


def _sizes(shape: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """Values along each axis; one dimension may hold all axes, as between two points."""
    return shape * axes if len(shape) == 1 else shape
