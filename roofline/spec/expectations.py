"""The ``expect`` block of a workload: assertions on its report, read but not yet checked."""

from __future__ import annotations

import re

from roofline.errors import did_you_mean
from roofline.spec.limits import limit, not_ordered, overflows
from roofline.spec.reader import Reader, scalar
from roofline.spec.source import MapNode, Node
from roofline.workload.workload import Expectation

MAX_EXPECTATION = 200
_EXPECTATION = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(.+?)\s*")


def read_expectations(node: Node | None, ids: list[str] | None, reader: Reader) -> tuple[Expectation, ...]:
    """The assertions of a workload; ``ids`` are its steps, None where they could not be read."""
    if node is None:
        return ()
    if not isinstance(node, MapNode):
        reader.fail(node, "expected assertions as a map, such as 'attention.bound.limiter: tensor'")
        return ()
    found = []
    for path, entry in node.entries.items():
        step, dot, _ = path.partition(".")
        if not dot:
            reader.fail(entry.key, f"'{path}' names no figure; write STEP.KEY or total.KEY, such as total.bound.time_s")
        elif ids is not None and step not in (*ids, "total"):
            reader.fail(entry.key, f"no step is called '{step}'; {did_you_mean(step, [*ids, 'total'])}")
        text = scalar(entry.value, reader, "a value, or a comparison such as '<= 5 ms'")
        if text is None:
            continue
        if len(text.text) > MAX_EXPECTATION:
            reader.fail(text, f"an assertion may have {MAX_EXPECTATION} characters")
            continue
        match = _EXPECTATION.fullmatch(text.text)
        comparison, value = match.groups() if match else ("==", text.text)
        if overflows(value):
            reader.fail(text, f"'{value}' is out of range; the largest number is about 1.8e308")
            continue
        if comparison not in ("==", "!=") and limit(path, value) is None:
            reader.fail(text, not_ordered(value, comparison))
            continue
        found.append(Expectation(path=path, comparison=comparison, value=value, line=entry.key.mark.line))
    return tuple(found)
