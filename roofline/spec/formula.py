"""Expressions that are worked out later, for numbers and for float64 arrays: the amounts of a dataflow.

The text is held to the rules of `expression` (the same grammar, functions and limits) when it is read; what is kept is a
tree of plain functions, so that thousands of tile sizes cost one evaluation with arrays.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from roofline.numeric import Number, ceil_div, is_array, log2, maximum, minimum, root
from roofline.spec.expression import FUNCTIONS, evaluate
from roofline.spec.reader import INVALID, Reader, came_to, expression_value, scalar
from roofline.spec.source import Node, Scalar

Evaluated = Callable[[Mapping[str, Number]], Number]


def _divide(a: Number, b: Number) -> Number:
    if not is_array(a, b) and isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return a / b


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: _divide,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
}
_FOLDED: dict[str, Callable[[Number, Number], Number]] = {"min": minimum, "max": maximum, "ceil_div": ceil_div}


_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "ceil": lambda a: ceil_div(a, 1),
    "floor": lambda a: a // 1,
    "round": lambda a: a.round(),
    "sqrt": root,
    "log2": log2,
}
"""Functions of one value, for arrays; numbers keep those of `expression`, which leave integers integers."""


def _elementwise(name: str, value: Number) -> Number:
    found: Number = _ARRAYS[name](value) if is_array(value) else FUNCTIONS[name][0](value)
    return found


def _compiled(node: ast.expr) -> Evaluated:
    """The function of a node that `evaluate` has accepted."""
    if isinstance(node, ast.Constant):
        constant: Any = node.value
        return lambda names: constant
    if isinstance(node, ast.Name):
        name = node.id
        return lambda names: names[name]
    if isinstance(node, ast.UnaryOp):
        inner, sign = _compiled(node.operand), -1 if isinstance(node.op, ast.USub) else 1
        return lambda names: sign * inner(names)
    if isinstance(node, ast.BinOp):
        left, right, operation = _compiled(node.left), _compiled(node.right), _BINARY[type(node.op)]
        return lambda names: operation(left(names), right(names))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    called, arguments = node.func.id, [_compiled(a) for a in node.args]
    if called in _FOLDED:
        fold = _FOLDED[called]
        return lambda names: reduce(fold, [a(names) for a in arguments])
    return lambda names: _elementwise(called, arguments[0](names))


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression by its text; called with names it gives the value.

    >>> Formula("ceil_div(seq, tile) * 2")({"seq": 1000, "tile": 128})
    16
    """

    text: str
    _function: Evaluated = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Parse once."""
        object.__setattr__(self, "_function", _compiled(ast.parse(self.text.strip(), mode="eval").body))

    def __call__(self, names: Mapping[str, Number]) -> Number:
        """The value under these names."""
        return self._function(names)


def formula(text: str, names: Mapping[str, Any] | None = None) -> Formula:
    """An expression for a dataflow written in Python; with ``names`` it is checked at once.

    Raises:
        ExpressionError: it cannot be worked out.
    """
    if names is not None:
        evaluate(text, names)
    return Formula(text)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number or an expression over the names of a dataflow, checked with the values that they have in the file."""

    minimum: float = 0
    whole: bool = False
    words: tuple[str, ...] = ()

    def read(self, node: Node, reader: Reader) -> Any:
        """The number, a `Formula`, or a word that is allowed instead (the name of a loop)."""
        if isinstance(node, Scalar) and node.text in self.words:
            return node.text
        if scalar(node, reader, "a number or an expression") is None:
            return INVALID
        value = expression_value(node, reader)
        if value is INVALID:
            return value
        if value < self.minimum:
            return reader.fail(node, f"{came_to(node, value, reader)} is out of range: at least {self.minimum:g}")
        if self.whole and isinstance(value, float) and not value.is_integer():
            return reader.fail(node, f"expected a whole number, but the expression gives {value:g}")
        assert isinstance(node, Scalar)
        parsed = Formula(node.text)
        plain = not any(isinstance(n, ast.Name) for n in ast.walk(ast.parse(node.text.strip(), mode="eval")))
        return value if plain else parsed

    def json_schema(self) -> dict[str, Any]:
        """A number or an expression."""
        return {"anyOf": [{"type": "number", "minimum": self.minimum}, {"type": "string"}]}
