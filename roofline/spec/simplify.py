"""Expressions made shorter: names of known value put in, arithmetic on numbers done, so that a text for one plan reads like one by hand.

>>> simplified("4096 / tp * max(8 / tp, 1) * (cp - 1)", {"cp": 2})
'4096 / tp * max(8 / tp, 1)'
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from roofline.spec.expression import ExpressionError, evaluate

ROUNDING = ("ceil", "floor", "round")


def simplified(text: str, known: Mapping[str, int | float]) -> str:
    """The expression with these names replaced by their values and constants worked out.

    Whole numbers stay whole: names that are left are taken to be whole, so that rounding them changes nothing.
    """
    return ast.unparse(_folded(ast.parse(text, mode="eval").body, known))


def _folded(node: ast.expr, known: Mapping[str, int | float]) -> ast.expr:
    """From the leaves up; a node is changed only where the value stays the same for all whole numbers."""
    if isinstance(node, ast.Name):
        return ast.Constant(known[node.id]) if node.id in known else node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _called(node.func, [_folded(a, known) for a in node.args])
    if isinstance(node, ast.BinOp):
        return _joined(node.op, _folded(node.left, known), _folded(node.right, known))
    return node


def _called(function: ast.Name, arguments: list[ast.expr]) -> ast.expr:
    """A function of numbers is worked out; rounding of what is whole, and pieces of one, are left out."""
    if all(isinstance(a, ast.Constant) for a in arguments):
        return _worked(ast.Call(function, arguments, []))
    if function.id in ROUNDING and _is_whole(arguments[0]):
        return arguments[0]
    if function.id == "ceil_div" and _number(arguments[1]) == 1:
        return arguments[0] if _is_whole(arguments[0]) else ast.Call(ast.Name("ceil"), [arguments[0]], [])
    return ast.Call(function, arguments, [])


def _joined(operation: ast.operator, left: ast.expr, right: ast.expr) -> ast.expr:
    """Numbers are worked out, neutral elements left out, factors that meet multiplied."""
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        return _worked(ast.BinOp(left, operation, right))
    if isinstance(operation, ast.Mult):
        return _product(left, right)
    if isinstance(operation, ast.Div):
        return _quotient(left, right)
    if _number(right) == 0 and isinstance(operation, (ast.Add, ast.Sub)):
        return left
    return ast.BinOp(left, operation, right)


def _number(node: ast.expr) -> float | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) else None


def _worked(node: ast.expr) -> ast.expr:
    """The value of an expression of numbers, where it is exact."""
    try:
        value = evaluate(ast.unparse(node), {})
    except ExpressionError:
        return node
    return ast.Constant(value) if isinstance(value, int) else node


def _product(left: ast.expr, right: ast.expr) -> ast.expr:
    if _number(left) == 0 or _number(right) == 0:
        return ast.Constant(0)
    if _number(left) == 1:
        return right
    if _number(right) == 1:
        return left
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult) and None not in (_number(left.right), _number(right)):
        return ast.BinOp(left.left, ast.Mult(), _worked(ast.BinOp(left.right, ast.Mult(), right)))  # x * 8 * 256 is x * 2048
    return ast.BinOp(left, ast.Mult(), right)


def _quotient(left: ast.expr, right: ast.expr) -> ast.expr:
    if _number(right) == 1:
        return left
    if (
        isinstance(left, ast.BinOp)
        and isinstance(left.op, ast.Mult)
        and _number(left.right) is not None
        and _number(left.right) == _number(right)
    ):
        return left.left
    return ast.BinOp(left, ast.Div(), right)


def _is_whole(node: ast.expr) -> bool:
    """Whether a node is whole whenever its names are."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in (*ROUNDING, "ceil_div") or (node.func.id in ("min", "max") and all(_is_whole(a) for a in node.args))
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) and _is_whole(node.left) and _is_whole(node.right)
    return isinstance(node, ast.Name) or isinstance(_number(node), int)
