"""Expressions are arithmetic and nothing else."""

from __future__ import annotations

import math
import re
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.spec.expression import ALLOWED, LIMIT, ExpressionError, evaluate

NAMES: dict[str, int | float | str | bool] = {
    "batch": 8,
    "seq": 1000,
    "d_model": 1024,
    "heads": 16,
    "scale": 0.5,
    "causal": True,
    "dtype": "bf16",
    "zero": 0,
    "min": 3,
}


def outcome(text: str, names: dict[str, int | float | str | bool]) -> int | float | ExpressionError:
    """The value or the error; any other exception is a failure."""
    try:
        return evaluate(text, names)
    except ExpressionError as error:
        return error


VALUES = [
    ("4", 4),
    (" 4 ", 4),
    ("batch * seq", 8000),
    ("3*d_model", 3072),
    ("d_model / heads", 64),
    ("seq / heads", 62.5),
    ("7 / 2", 3.5),
    ("-7 / 7", -1),
    ("7 // 2", 3),
    ("-7 // 2", -4),
    ("7 % 4", 3),
    ("2 ** 10", 1024),
    ("2 ** -1", 0.5),
    ("2 ** 64", 2**64),
    ("-2 ** 2", -4),
    ("(-8) ** 3", -512),
    ("+5 - -5", 10),
    ("2 + 3 * 4", 14),
    ("(2 + 3) * 4", 20),
    ("4 * scale", 2.0),
    ("989e12", 989e12),
    (".5 + 1.", 1.5),
    ("min(4, 2, 3)", 2),
    ("max(batch, heads)", 16),
    ("min * 2", 6),
    ("ceil(7 / 2)", 4),
    ("floor(7 / 2)", 3),
    ("round(2.6)", 3),
    ("round(2.5)", 2),
    ("ceil_div(seq, 128)", 8),
    ("ceil_div(1024, 128)", 8),
    ("sqrt(16)", 4),
    ("sqrt(2)", math.sqrt(2)),
    ("sqrt(0)", 0),
    ("log2(1024)", 10),
    ("log2(2 ** 50 * 2 ** 50)", 100),
    ("log2(3)", math.log2(3)),
    ("log2(8.0)", 3.0),
    ("2 ** 63 * 2 ** 63", 2**126),
    ("d_model\t* 2", 2048),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_evaluates(text: str, value: float) -> None:
    found = evaluate(text, NAMES)
    assert found == value
    assert type(found) is type(value)


ESCAPES = [
    ("(1).__class__", "attribute access is not allowed"),
    ("d_model.__class__.__mro__", "attribute access is not allowed"),
    ("batch.real", "attribute access is not allowed"),
    ("().__class__.__bases__[0].__subclasses__()", "attribute access is not allowed"),
    ("dtype.format(batch)", "attribute access is not allowed"),
    ("'{0.__class__}'.format(1)", "attribute access is not allowed"),
    ("(1).__reduce__()", "attribute access is not allowed"),
    ("min.__self__", "attribute access is not allowed"),
    ("min.__self__.eval('1')", "attribute access is not allowed"),
    ("(1.0).fromhex('0x1p3')", "attribute access is not allowed"),
    ("__import__('os').system('id')", "attribute access is not allowed"),
    ("__import__('os')", "calling '__import__' is not allowed"),
    ("eval('1')", "calling 'eval' is not allowed"),
    ("exec('1')", "calling 'exec' is not allowed"),
    ("open('/etc/passwd')", "calling 'open' is not allowed"),
    ("getattr(batch, 'real')", "calling 'getattr' is not allowed"),
    ("print(1)", "calling 'print' is not allowed"),
    ("breakpoint()", "calling 'breakpoint' is not allowed"),
    ("pow(9, 9)", "calling 'pow' is not allowed"),
    ("batch(1)", "calling 'batch' is not allowed"),
    ("min(1, 2)(3)", "calling this is not allowed"),
    ("(1)(2)", "calling this is not allowed"),
    ("(lambda: 1)()", "lambda is not allowed"),
    ("lambda: 1", "lambda is not allowed"),
    ("[x for x in (1, 2)]", "a comprehension is not allowed"),
    ("{x for x in (1, 2)}", "a comprehension is not allowed"),
    ("{x: 1 for x in (1, 2)}", "a comprehension is not allowed"),
    ("max(x for x in (1, 2))", "a generator is not allowed"),
    ("(x for x in (1, 2))", "a generator is not allowed"),
    ("f'{batch}'", "formatted text is not allowed"),
    ("f'{().__class__}'", "formatted text is not allowed"),
    ("(x := 5)", "an assignment is not allowed"),
    ("min((x := 5), 1)", "an assignment is not allowed"),
    ("x = 5", "cannot be read"),
    ("batch[0]", "a subscript is not allowed"),
    ("[1, 2][0]", "a subscript is not allowed"),
    ("batch[1:2]", "a subscript is not allowed"),
    ("[1, 2]", "a list is not allowed"),
    ("{1, 2}", "a set is not allowed"),
    ("{1: 2}", "a dictionary is not allowed"),
    ("(1, 2)", "a comma between values is not allowed"),
    ("1, 2", "a comma between values is not allowed"),
    ("()", "a comma between values is not allowed"),
    ("min(*[1, 2])", "a starred argument is not allowed"),
    ("min(1, *batch)", "a starred argument is not allowed"),
    ("min(1, 2, key=abs)", "a named argument is not allowed"),
    ("round(number=1.5)", "a named argument is not allowed"),
    ("min(**dtype)", "a named argument is not allowed"),
    ("'a' * 9", "quoted text is not allowed"),
    ("'a'", "quoted text is not allowed"),
    ("b'a'", "quoted text is not allowed"),
    ("min('a', 'b')", "quoted text is not allowed"),
    ("True", "'True' is not allowed"),
    ("None", "'None' is not allowed"),
    ("...", "'...' is not allowed"),
    ("3j", "an imaginary number is not allowed"),
    ("1 < 2", "a comparison is not allowed"),
    ("1 == 2", "a comparison is not allowed"),
    ("1 in (1, 2)", "a comparison is not allowed"),
    ("1 is 1", "a comparison is not allowed"),
    ("1 and 2", "'and' or 'or' is not allowed"),
    ("1 if 2 else 3", "'if ... else' is not allowed"),
    ("not 1", "the operator 'not' is not allowed"),
    ("~1", "the operator '~' is not allowed"),
    ("1 << 9", "the operator '<<' is not allowed"),
    ("1 >> 9", "the operator '>>' is not allowed"),
    ("1 & 1", "the operator '&' is not allowed"),
    ("1 | 1", "the operator '|' is not allowed"),
    ("2 ^ 3", "the operator '\\^' is not allowed"),
    ("batch @ seq", "the operator '@' is not allowed"),
    ("(yield 1)", "yield is not allowed"),
    ("(yield from dtype)", "yield is not allowed"),
    ("1 # comment", "a comment is not allowed"),
    ("__builtins__", "unknown name '__builtins__'"),
    ("__name__", "unknown name '__name__'"),
    ("await batch", "await"),
    ("import os", "'import' is a reserved word"),
    ("1; 2", "cannot be read"),
    ("1\n2", "must be one line"),
    ("1 +\\\n2", "must be one line"),
    ("1 \x0b+ 1", "plain ASCII"),
    ("1\x00", "plain ASCII"),
    ("\ufb01ve", "plain ASCII"),
    ("\uff4d\uff49\uff4e(1, 2)", "plain ASCII"),
    ("2 \u00d7 3", "plain ASCII"),
    ("\u0661 + 1", "plain ASCII"),
    ("9 ** 65", "an exponent may be 64 at most"),
    ("2 ** 64 * 2 ** 63", "too large"),
    ("9 ** 9 ** 9", "an exponent may be 64 at most"),
    ("9 ** 64", "too large"),
    ("2 ** 64 * 2 ** 64", "too large"),
    ("1e30 * 1e30", "too large"),
    ("1e300", "too large"),
    ("1e400", "out of range|too large"),
    ("-(2 ** 64) * 2 ** 63", "too large"),
    ("(2 ** 60) ** 64.0", "too large"),
    ("+".join("1" * 3000), "may have 200 characters"),
    ("+".join("1" * 100), "64 numbers, names and operations"),
    ("(" * 1000 + "1" + ")" * 1000, "may have 200 characters"),
    ("(" * 99 + "1" + ")" * 99, "nested brackets"),
    ("[" * 50, "nested brackets"),
    ("-" * 100_000 + "1", "may have 200 characters"),
    ("-" * 190 + "1", "64 numbers, names and operations"),
    ("~" * 190 + "1", "64 numbers, names and operations"),
    ("9" * 5000, "may have 200 characters"),
    ("9" * 190, "more than 40 digits"),
    ("1" + "0" * 39, "too large"),
    ("min(" * 33 + "1", "nested brackets"),
    ("1_000", "write 1000"),
    ("0x10", "not a number"),
    ("0b11", "not a number"),
    ("0o17", "not a number"),
    ("010", "cannot be read"),
    ("00", "leading zero"),
]


def test_the_list_holds_at_least_60_escapes() -> None:
    assert len(ESCAPES) >= 60


@pytest.mark.parametrize(("text", "pattern"), ESCAPES)
def test_refuses_everything_else(text: str, pattern: str) -> None:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the parser's own warnings must not come through
        with pytest.raises(ExpressionError, match=pattern) as caught:
            evaluate(text, NAMES)
    assert time.perf_counter() - began < 1
    assert caught.value.offset is None or 0 <= caught.value.offset <= len(text)
    if "is not allowed" in str(caught.value):
        assert str(caught.value).endswith(f"in an expression; allowed: {ALLOWED}")


WRONG = [
    ("", "an expression is missing", 0),
    ("   ", "an expression is missing", 3),
    ("4 *", "cannot be read as an expression", None),
    ("4 d_model", "cannot be read as an expression", None),
    ("in * 2", "'in' is a reserved word", None),
    ("2 * d_mdel", "unknown name 'd_mdel'; did you mean 'd_model'?", 4),
    ("  2 * d_mdel", "did you mean 'd_model'?", 6),
    ("2 * causal", "'causal' is true or false here", 4),
    ("2 * dtype", "'dtype' is text here", 4),
    ("max + 1", "'max' is a function; write max(...)", 0),
    ("1 / zero", "division by zero", 4),
    ("1 // zero", "division by zero", 5),
    ("1 % 0", "division by zero", 4),
    ("0 ** -1", "division by zero", 5),
    ("ceil_div(1, 0)", "division by zero", 0),
    ("1 + ceil(1, 2)", "ceil takes 1 value, not 2", 4),
    ("min(1)", "min takes 2 or more values, not 1", 0),
    ("ceil_div(1)", "ceil_div takes 2 values, not 1", 0),
    ("1 + sqrt(-1)", "sqrt needs 0 or more", 4),
    ("log2(0)", "log2 needs more than 0", 0),
    ("(-8) ** 0.5", "a negative number has no such root", 0),
]


@pytest.mark.parametrize(("text", "fragment", "offset"), WRONG)
def test_says_what_is_wrong_and_where(text: str, fragment: str, offset: int | None) -> None:
    with pytest.raises(ExpressionError, match=re.escape(fragment)) as caught:
        evaluate(text, NAMES)
    if offset is not None:
        assert caught.value.offset == offset


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 2**127, -(2**127), 1e39])
def test_names_must_stay_within_the_limit(value: float) -> None:
    with pytest.raises(ExpressionError, match="too large"):
        evaluate("x", {"x": value})


def test_no_names_at_all() -> None:
    with pytest.raises(ExpressionError, match="none is known here"):
        evaluate("x", {})


def test_a_deep_stack_ends_in_an_error_of_ours() -> None:
    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        else:
            assert evaluate("-" * 30 + "(" * 20 + "1" + ")" * 20, {}) == 1

    deeper(500)


@given(st.text(max_size=210) | st.text(alphabet="1290 +-*/%().,_emin\"'[]{}:=<x", max_size=80))
@settings(max_examples=500)
def test_any_text_gives_a_number_or_an_expression_error(text: str) -> None:
    found = outcome(text, NAMES)
    if isinstance(found, ExpressionError):
        assert "\n" not in str(found)
        assert found.offset is None or 0 <= found.offset <= len(text)
    else:
        assert math.isfinite(found)
        assert abs(found) < LIMIT


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner)
    return (
        pairs.map(lambda p: f"({p[0]} {p[1]} {p[2]})")
        | inner.map(lambda i: f"-{i}")
        | st.tuples(inner, inner).map(lambda p: f"max({p[0]}, {p[1]})")
        | inner.map(lambda i: f"({i}) ** 2")
    )


@given(st.recursive(st.integers(min_value=0, max_value=999).map(str) | st.just("seq"), _joined, max_leaves=8))
@settings(max_examples=300)
def test_integers_agree_with_python(text: str) -> None:
    try:
        expected = eval(text, {"__builtins__": {}, "max": max, "seq": 1000})  # the oracle; the text is ours
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="division by zero"):
            evaluate(text, {"seq": 1000})
        return
    found = outcome(text, {"seq": 1000})
    if isinstance(found, ExpressionError):
        assert "too large" in str(found) or "split it in two" in str(found)
    else:
        assert found == expected
        assert isinstance(found, int)


@given(st.integers(), st.integers().filter(bool))
def test_division_is_exact_where_it_can_be(a: int, b: int) -> None:
    if max(abs(a), abs(b)) >= 10**30:
        return
    found = evaluate("a / b", {"a": a, "b": b})
    assert found == (a // b if a % b == 0 else a / b)
    assert isinstance(found, int) == (a % b == 0)
