"""Where reading collects its problems, and the readings that every type shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import InputError, Problem
from roofline.spec.expression import ExpressionError, evaluate
from roofline.spec.scalars import odd_notation
from roofline.spec.source import ListNode, Node, Scalar


class _Invalid:
    """What a type returns after it has reported a problem."""

    def __repr__(self) -> str:
        return "INVALID"


INVALID = _Invalid()
ALL = "*"
"""Among the unknown names: none could be read."""


@dataclass(slots=True)
class Reader:
    """Collects problems; ``names`` are what expressions may use.

    ``unknown`` are names whose own value was refused, ``dtype_refused`` says the same of the default dtype: what
    follows from a problem that is already reported is not reported again, and only counts among the ``failures``.
    """

    names: Mapping[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    dtype_refused: bool = False
    failures: int = 0

    def fail(self, node: Node, message: str) -> _Invalid:
        """Report a problem at the node."""
        self.problems.append(node.problem(message))
        self.failures += 1
        return INVALID

    def follows(self, expression: str) -> bool:
        """Whether an expression uses a name whose own value was refused."""
        used = set(re.findall(r"[A-Za-z_]\w*", expression))
        return bool(used if ALL in self.unknown else used & self.unknown)

    def follow(self) -> _Invalid:
        """Refuse a value whose cause is already reported."""
        self.failures += 1
        return INVALID

    def finish(self) -> None:
        """Raise all problems, if there are any."""
        if self.problems:
            raise InputError(self.problems)


def kind(node: Node) -> str:
    """What a node is, in words."""
    if isinstance(node, Scalar):
        return f"'{node.text}'" if node.text else "nothing"
    return "a list" if isinstance(node, ListNode) else "a map"


def scalar(node: Node, reader: Reader, wanted: str) -> Scalar | None:
    """The node as a scalar with text, or None after reporting that one was wanted."""
    if isinstance(node, Scalar) and (node.text != "" or node.quoted):
        return node
    reader.fail(node, f"expected {wanted}, found {kind(node)}")
    return None


def came_to(node: Node, value: int, reader: Reader) -> str:
    """A value as a person must hear of it: with the expression and the names that it came from."""
    text = node.text if isinstance(node, Scalar) else ""
    used = [f"{n} = {reader.names[n]}" for n in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text)) if n in reader.names]
    return f"'{text}' is {value} ({', '.join(used)}), which" if used else str(value)


def expression_value(node: Node, reader: Reader) -> Any:
    """The value of a number or of an expression over ``reader.names``."""
    found = scalar(node, reader, "a number or an expression over params")
    if found is None:
        return INVALID
    try:
        return evaluate(found.text, reader.names)
    except ExpressionError as err:
        return reader.follow() if reader.follows(found.text) else reader.fail(node, odd_notation(found.text) or str(err))
