"""Telling a workload, a hardware profile, a cluster, a report and a dataflow apart by what is in the file."""

from __future__ import annotations

from roofline.errors import InputError
from roofline.spec.source import MapNode, Node

_MARKS = {
    "a workload": frozenset({"steps", "params", "execution", "expect", "model", "phase"}),
    "a hardware profile": frozenset({"engines", "levels", "processors", "vendor", "extends", "match", "clocks"}),
    "a cluster": frozenset({"tiers", "device", "node_power", "node_price", "mtbf"}),
    "a report": frozenset({"tool", "rows", "totals", "conventions", "reports"}),
    "a dataflow": frozenset({"tensors", "kernels", "tiles", "let"}),
}
"""Keys that no other kind of file has."""

_USES = {
    "a workload": "analyze it with 'roofline analyze FILE -H PROFILE'",
    "a hardware profile": "name it with -H, or see it with 'roofline hardware show FILE'",
    "a cluster": "name it with -H, or see it with 'roofline cluster show FILE'",
    "a report": "compare it with another by 'roofline diff BASE HEAD'",
    "a dataflow": "see it with 'roofline dataflow show FILE -H PROFILE'",
}


def kind_of(node: Node) -> str | None:
    """``a workload``, ``a hardware profile``, ``a cluster`` ..., by most keys; None where they do not tell."""
    keys = set(node.entries) if isinstance(node, MapNode) else set()
    if keys & _MARKS["a cluster"]:
        keys -= {"extends"}  # clusters have it as well
    counts = {kind: len(marks & keys) for kind, marks in _MARKS.items()}
    first, second, *_ = sorted(counts, key=lambda kind: -counts[kind])
    return first if counts[first] > counts[second] else None


def require(node: Node, wanted: str) -> MapNode:
    """The node as the top of that kind of file.

    Raises:
        InputError: it is no map, or a file of another kind; one sentence instead of a complaint about every key.
    """
    if not isinstance(node, MapNode):
        raise InputError([node.problem(f"expected {wanted} as a map of keys to values")])
    kind = kind_of(node)
    if kind not in (None, wanted):
        raise InputError([node.problem(f"expected {wanted}, but this is {kind}; {_USES[str(kind)]}")])
    return node
