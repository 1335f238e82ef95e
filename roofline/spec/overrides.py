"""``--set``: nodes of a workload replaced before anything is read, so that a bad value is reported like one of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from roofline.errors import InputError, Problem, UsageError, did_you_mean
from roofline.spec.source import Entry, ListNode, MapNode, Mark, Node, Scalar, Source

SETTINGS = ("name", "hardware", "dtype", "execution", "traffic")
"""Top-level keys that may be given besides the params."""


class _Refused(Exception):
    """An override that names nothing."""


def overridden(root: MapNode, overrides: Iterable[str]) -> MapNode:
    """The workload with ``key=value`` put in: a param, a setting, or ``step.field``; a model's key as its steps.

    Raises:
        UsageError: an override that is not ``key=value``.
        InputError: overrides that name nothing, all of them, each with the nearest name.
    """
    if "model" in root.entries:
        from roofline.spec.model_key import expanded

        root, overrides = expanded(root, list(overrides))
    problems: list[Problem] = []
    for text in overrides:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise UsageError(f"--set {text}: write key=value, such as batch=16 or attention.causal=true")
        source = Source(f"--set {key}", f"{key}={value}")
        new = Entry(Scalar(source, Mark(1, 1), key, False), Scalar(source, Mark(1, len(key) + 2), value, False))
        try:
            root = _override_step(root, new) if "." in key else _override_top(root, new)
        except _Refused as refused:
            problems.append(new.key.problem(str(refused)))
    if problems:
        raise InputError(problems)
    return root


def _override_top(root: MapNode, new: Entry) -> MapNode:
    key, params = new.key.text, root.entries.get("params")
    own = params.value.entries if params is not None and isinstance(params.value, MapNode) else {}
    if params is not None and key in own:
        return _with(root, "params", replace(params, value=_with(params.value, key, new)))
    if key in SETTINGS:
        return _with(root, key, new)
    raise _Refused(f"the workload has no param '{key}'; {did_you_mean(key, [*own, *SETTINGS])}; for a step write step.field=value")


def _override_step(root: MapNode, new: Entry) -> MapNode:
    step_id, _, name = new.key.text.partition(".")
    steps = root.entries.get("steps")
    if steps is None or not isinstance(steps.value, ListNode):
        return root  # the reading of the steps says what is wrong
    items = list(steps.value.items)
    ids = [id_of(item) for item in items]
    if step_id not in ids:
        raise _Refused(f"no step is called '{step_id}'; {did_you_mean(step_id, [i for i in ids if i])}")
    at = ids.index(step_id)
    items[at] = _with(items[at], name, replace(new, key=replace(new.key, text=name)))
    return _with(root, "steps", replace(steps, value=replace(steps.value, items=tuple(items))))


def id_of(node: Node) -> str | None:
    """What a step is called: its id, else its operator; None where it says neither."""
    if not isinstance(node, MapNode):
        return None
    entry = node.entries.get("id") or node.entries.get("op")
    return entry.value.text if entry is not None and isinstance(entry.value, Scalar) else None


def _with(node: Node, name: str, entry: Entry) -> MapNode:
    assert isinstance(node, MapNode)
    return replace(node, entries={**node.entries, name: entry})
