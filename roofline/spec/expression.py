"""Arithmetic written in a workload, such as ``3 * d_model`` or ``ceil_div(seq, 128)``.

An expression is parsed by Python's own parser and then walked; a node that is not listed here is refused. Nothing is
ever compiled or run. Integers stay integers: ``/`` of two integers is one where it is exact, and so are ``sqrt`` and
``log2``, since most results are counts.
"""

from __future__ import annotations

import ast
import keyword
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import TypeAlias

from roofline.errors import did_you_mean
from roofline.units import QuantityError, quoted, read_number

Number: TypeAlias = int | float

MAX_LENGTH = 200
MAX_NODES = 64
MAX_BRACKETS = 32
MAX_EXPONENT = 64
LIMIT = 2**127
"""Every value on the way must be smaller in size: products of counts fit, and stay far inside a float's range."""


class ExpressionError(ValueError):
    """An expression that cannot be worked out; ``offset`` is the character it is about, from 0, where one is known."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        self.offset = offset
        super().__init__(message)


def evaluate(text: str, names: Mapping[str, int | float | str | bool]) -> int | float:
    """The value of an expression over the numbers in ``names``.

    Raises:
        ExpressionError: something that is not arithmetic, an unknown name, a name whose value is no number, a division
            by zero, or a limit of this module passed.

    >>> evaluate("ceil_div(seq, 128) * d_model / 2", {"seq": 1000, "d_model": 64})
    256
    """
    start = len(text) - len(text.lstrip())
    tree = _parse(text.strip(), start)
    if sum(isinstance(node, ast.expr) for node in ast.walk(tree)) > MAX_NODES:
        raise ExpressionError(f"an expression may have {MAX_NODES} numbers, names and operations; split it in two")
    return _Evaluation(text.strip(), names, start).value(tree)


# ---- parsing -------------------------------------------------------------------------------------------------------


def _parse(text: str, start: int) -> ast.expr:
    _require_plain(text, start)
    try:
        with warnings.catch_warnings():  # the parser warns of "1if x else 2", which is refused below anyway
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        offset = start + max(0, (error.offset or 1) - 1)
        raise ExpressionError(_unreadable(text), min(offset, start + len(text))) from None
    except (RecursionError, MemoryError, ValueError):  # which of them depends on the Python version
        raise ExpressionError("this expression is nested too deeply; split it in two", start) from None


def _require_plain(text: str, start: int) -> None:
    """Bound what the parser is given: its own limits end in a RecursionError or worse."""
    if not text:
        raise ExpressionError("an expression is missing; write one such as 4 * d_model", start)
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression may have {MAX_LENGTH} characters; split it in two", start + MAX_LENGTH)
    for at, char in enumerate(text):
        if not " " <= char <= "~" and char != "\t":
            what = "one line" if char in "\r\n" else f"plain ASCII (not '{quoted(char)}')"
            raise ExpressionError(f"an expression must be {what}; write it with letters, digits, + - * /", start + at)
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth > MAX_BRACKETS:
            raise ExpressionError(f"more than {MAX_BRACKETS} nested brackets; split the expression in two", start + at)
        if char == "#":
            raise _not_allowed("a comment", start + at)


def _unreadable(text: str) -> str:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    reserved = next((w for w in words if keyword.iskeyword(w)), None)
    if reserved:
        return f"'{reserved}' is a reserved word and cannot be used in an expression; choose another name"
    return f"'{quoted(text)}' cannot be read as an expression; write one such as 4 * d_model"


# ---- what is allowed -----------------------------------------------------------------------------------------------


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return a / b


def _power(a: Number, b: Number) -> Number:
    if abs(b) > MAX_EXPONENT:
        raise ExpressionError(f"an exponent may be {MAX_EXPONENT} at most")
    if a < 0 and not float(b).is_integer():
        raise ExpressionError("a negative number has no such root; make the base positive")
    result: Number = a**b
    return result


def _ceil_div(a: Number, b: Number) -> Number:
    return -(-a // b)


def _sqrt(a: Number) -> Number:
    if a < 0:
        raise ExpressionError("sqrt needs 0 or more")
    root = math.isqrt(a) if isinstance(a, int) else 0
    return root if isinstance(a, int) and root * root == a else math.sqrt(a)


def _log2(a: Number) -> Number:
    if a <= 0:
        raise ExpressionError("log2 needs more than 0")
    is_power_of_two = isinstance(a, int) and a & (a - 1) == 0
    return int(a).bit_length() - 1 if is_power_of_two else math.log2(a)


_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}

_MANY = MAX_NODES
FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int]] = {
    "min": (min, 2, _MANY),
    "max": (max, 2, _MANY),
    "ceil": (math.ceil, 1, 1),
    "floor": (math.floor, 1, 1),
    "round": (round, 1, 1),
    "ceil_div": (_ceil_div, 2, 2),
    "sqrt": (_sqrt, 1, 1),
    "log2": (_log2, 1, 1),
}
"""Each function with the fewest and the most arguments it takes. ``round`` takes halves to the even neighbour."""

ALLOWED = f"numbers, names, + - * / // % **, round brackets and the functions {', '.join(FUNCTIONS)}"

# By class name: some of these classes are younger than the oldest Python we run on.
_CONSTRUCTS = {
    "Attribute": "attribute access",
    "Await": "await",
    "BoolOp": "'and' or 'or'",
    "Compare": "a comparison",
    "Dict": "a dictionary",
    "DictComp": "a comprehension",
    "FormattedValue": "formatted text",
    "GeneratorExp": "a generator",
    "IfExp": "'if ... else'",
    "JoinedStr": "formatted text",
    "Lambda": "lambda",
    "List": "a list",
    "ListComp": "a comprehension",
    "NamedExpr": "an assignment",
    "Set": "a set",
    "SetComp": "a comprehension",
    "Slice": "a slice",
    "Starred": "a starred argument",
    "Subscript": "a subscript",
    "TemplateStr": "formatted text",
    "Tuple": "a comma between values",
    "Yield": "yield",
    "YieldFrom": "yield",
}
_OPERATORS = {
    "BitAnd": "&",
    "BitOr": "|",
    "BitXor": "^",
    "Invert": "~",
    "LShift": "<<",
    "MatMult": "@",
    "Not": "not",
    "RShift": ">>",
}


def _not_allowed(what: str, offset: int) -> ExpressionError:
    return ExpressionError(f"{what} is not allowed in an expression; allowed: {ALLOWED}", offset)


# ---- walking -------------------------------------------------------------------------------------------------------


class _Evaluation:
    """One walk over one tree. Depth is bounded by MAX_NODES, so that recursion is safe."""

    def __init__(self, text: str, names: Mapping[str, int | float | str | bool], start: int) -> None:
        self.text = text
        self.names = names
        self.start = start

    def at(self, node: ast.expr) -> int:
        """Where a node stands in the user's text; it is ASCII, so that bytes are characters."""
        return self.start + node.col_offset

    def value(self, node: ast.expr) -> Number:
        """The value of a node, within the limits."""
        if isinstance(node, ast.Constant):
            return self.checked(self.constant(node), node)
        if isinstance(node, ast.Name):
            return self.checked(self.name(node), node)
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise _not_allowed(_CONSTRUCTS.get(type(node).__name__, "this"), self.at(node))

    def constant(self, node: ast.Constant) -> Number:
        """A number, in decimal digits as everywhere else in a file."""
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise _not_allowed(_constant_kind(node.value), self.at(node))
        try:
            read_number(self.text[node.col_offset : node.end_col_offset])
        except QuantityError as error:
            raise ExpressionError(str(error), self.at(node)) from None
        return node.value

    def name(self, node: ast.Name) -> Number:
        """The number that a name stands for."""
        if node.id not in self.names:
            if node.id in FUNCTIONS:
                raise ExpressionError(f"'{node.id}' is a function; write {node.id}(...)", self.at(node))
            hint = did_you_mean(node.id, list(self.names))
            raise ExpressionError(f"unknown name '{node.id}'; {hint}", self.at(node))
        value = self.names[node.id]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            kind = "true or false" if isinstance(value, bool) else "text"
            raise ExpressionError(f"'{node.id}' is {kind} here; use the name of a number", self.at(node))
        return value

    def binary(self, node: ast.BinOp) -> Number:
        """An operation on two values."""
        operation = _BINARY.get(type(node.op))
        if operation is None:
            raise _not_allowed(f"the operator '{_OPERATORS.get(type(node.op).__name__, '?')}'", self.at(node))
        left, right = self.value(node.left), self.value(node.right)
        return self.applied(node, operation, left, right)

    def unary(self, node: ast.UnaryOp) -> Number:
        """A sign."""
        operation = _UNARY.get(type(node.op))
        if operation is None:
            raise _not_allowed(f"the operator '{_OPERATORS.get(type(node.op).__name__, '?')}'", self.at(node))
        return self.applied(node, operation, self.value(node.operand))

    def call(self, node: ast.Call) -> Number:
        """A function of the list, with plain arguments."""
        if not isinstance(node.func, ast.Name):
            what = _CONSTRUCTS.get(type(node.func).__name__, "calling this")
            raise _not_allowed(what, self.at(node.func))
        if node.func.id not in FUNCTIONS:
            raise _not_allowed(f"calling '{node.func.id}'", self.at(node))
        if node.keywords:
            raise _not_allowed("a named argument", self.at(node))
        function, fewest, most = FUNCTIONS[node.func.id]
        values = [self.value(argument) for argument in node.args]
        if not fewest <= len(values) <= most:
            wanted = f"{fewest} or more values" if most == _MANY else f"{fewest} value{'s' * (fewest > 1)}"
            raise ExpressionError(f"{node.func.id} takes {wanted}, not {len(values)}", self.at(node))
        return self.applied(node, function, *values)

    def applied(self, node: ast.expr, operation: Callable[..., Number], *values: Number) -> Number:
        """The result of an operation, with arithmetic's own failures put in words."""
        try:
            return self.checked(operation(*values), node)
        except ZeroDivisionError:
            at = node.right if isinstance(node, ast.BinOp) else node
            raise ExpressionError("division by zero; check the value it divides by", self.at(at)) from None
        except OverflowError:
            raise self.too_large(node) from None
        except ExpressionError as error:
            raise ExpressionError(str(error), self.at(node) if error.offset is None else error.offset) from None

    def checked(self, value: Number, node: ast.expr) -> Number:
        """The value, if it is finite and within the limit."""
        if value != value or abs(value) >= LIMIT:
            raise self.too_large(node)
        return value

    def too_large(self, node: ast.expr) -> ExpressionError:
        """The error for a value past the limit."""
        return ExpressionError("a value on the way is too large or not finite; all must stay below 2**127 (1.7e38)", self.at(node))


def _constant_kind(value: object) -> str:
    if value is None or value is ... or isinstance(value, bool):
        return "'...'" if value is ... else f"'{value}'"
    return "an imaginary number" if isinstance(value, complex) else "quoted text"
