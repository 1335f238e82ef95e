"""Shorter expressions keep their value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.spec.expression import ExpressionError, evaluate
from roofline.spec.simplify import simplified

NAMES = ("tokens", "tp", "ep")
leaves = st.sampled_from([*NAMES, "1", "2", "8", "256", "0"])


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, inner)
    operations = [pairs.map(lambda p, o=o: f"({p[0]}) {o} ({p[1]})") for o in "+-*/"]
    calls = [pairs.map(lambda p, f=f: f"{f}({p[0]}, {p[1]})") for f in ("min", "max", "ceil_div")]
    return st.one_of(*operations, *calls, inner.map(lambda x: f"ceil({x})"))


expressions = st.recursive(leaves, _joined, max_leaves=8)


@settings(deadline=None, max_examples=300)
@given(text=expressions, tokens=st.integers(1, 5000), tp=st.sampled_from([1, 2, 8]), ep=st.integers(1, 64), known=st.booleans())
def test_the_value_stays(text, tokens, tp, ep, known):
    """For all whole numbers, with names put in or left."""
    names = {"tokens": tokens, "tp": tp, "ep": ep}
    try:
        wanted = evaluate(text, names)
    except ExpressionError:
        return
    short = simplified(text, {"tp": tp, "ep": ep} if known else {})
    assert evaluate(short, names) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("8192 / tp + max(8 / tp, 1) * 256", "10240"),
        ("tokens * max(8 / tp, 1) * 256", "tokens * 2048"),
        ("seq * (cp + 1) / (2 * cp)", "seq"),
        ("ceil_div(ceil(imbalance * tokens * etp * ep / tp) * 8, ep)", "tokens * 8"),
        ("32 * (cp - 1)", "0"),
        ("tokens / 2", "tokens / 2"),
        ("ceil_div(tokens / 2, cp)", "ceil(tokens / 2)"),
    ],
)
def test_degrees_of_one_vanish(text, short):
    """As a person would write it."""
    assert simplified(text, dict.fromkeys(("tp", "cp", "ep", "etp", "imbalance"), 1)) == short


def test_names_that_stay():
    """Only what is known is put in."""
    assert simplified("tp * cp * dp / (ep * etp)", {"cp": 1, "ep": 1, "etp": 1}) == "tp * dp"
