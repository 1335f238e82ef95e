"""Loads of experts as tables name them: against one token or one row at a time."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.fit import routing
from roofline.fit.routing import Routed, exponent_of, routed


def test_worked_by_hand() -> None:
    """4 tokens, 2 of 8: the stride is 4, each expert gets one; of 4 ranks the first holds 2. 2 tokens are spread over the stride."""
    assert routed(4, 8, 2, 1, None) == Routed(8, 8, 1)
    assert routed(4, 8, 2, 4, None) == Routed(2, 2, 1)
    assert routed(2, 8, 2, 1, None) == Routed(4, 4, 1)


@given(st.integers(1, 300), st.sampled_from((8, 16, 60)), st.integers(1, 8))
def test_balanced_is_dealt_token_by_token(tokens: int, experts: int, active: int) -> None:
    stride = -(-experts // active)
    counts: Counter[int] = Counter()
    for i in range(tokens):
        at = i if tokens >= stride else i * stride / tokens
        counts.update(int((at + j * stride) % experts) for j in range(active))
    assert routed(tokens, experts, active, 1, None) == Routed(tokens * active, len(counts), max(counts.values()))


def one_by_one(counts: list[int], missing: int, ranks: int, most: int) -> list[int]:
    """The ranks in turn give a row to whoever has the fewest, or take one from whoever has the most."""
    held, rank = len(counts) // ranks, 0
    while missing:
        mine = range(rank * held, (rank + 1) * held)
        if missing > 0:
            at = min(mine, key=lambda i: counts[i])
            if counts[at] < most:
                counts[at], missing = counts[at] + 1, missing - 1
        else:
            at = max(mine, key=lambda i: counts[i])
            if counts[at] > 0:
                counts[at], missing = counts[at] - 1, missing + 1
        rank = (rank + 1) % ranks
    return counts


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3000),
    st.sampled_from(((8, 2, 1), (64, 8, 1), (64, 8, 4), (128, 1, 16))),
    st.sampled_from((1.01, 1.2)),
    st.integers(0, 9),
)
def test_a_power_law_is_mended_as_one_by_one(tokens: int, shape: tuple[int, int, int], exponent: float, seed: int) -> None:
    experts, active, ranks = shape
    found = routing._drawn(tokens, experts, active, ranks, exponent, random.Random(seed))
    draw, power = random.Random(seed), 1 - exponent
    low, high = (1.0, 0.8 * tokens) if tokens * active > experts else (0.01, 2.0)
    values = np.array([((high**power - low**power) * draw.random() + low**power) ** (1 / power) for _ in range(experts)])
    counts = [min(int(c), tokens) for c in np.round(values / values.sum() * tokens * active)]
    expected = one_by_one(counts, tokens * active - sum(counts), ranks, tokens)
    by_rank = [sorted(part) for part in np.array(expected).reshape(ranks, -1).tolist()]
    assert [sorted(part) for part in found.reshape(ranks, -1).astype(int).tolist()] == by_rank


@given(st.integers(1, 4000), st.sampled_from((1.01, 1.2)), st.sampled_from((1, 4, 32)))
@settings(max_examples=40, deadline=None)
def test_the_fullest_rank_has_at_least_its_share(tokens: int, exponent: float, ranks: int) -> None:
    got = routed(tokens, 64, 4, ranks, exponent)
    assert got.rows >= tokens * 4 // ranks
    assert got.rows / got.chosen <= got.fullest <= got.rows
    assert got.chosen <= 64 // ranks
    if ranks == 1:
        assert got.rows == tokens * 4


def test_words() -> None:
    assert exponent_of("balanced") is None
    assert exponent_of("power_law_1.2") == 1.2
    with pytest.raises(ValueError, match="uniform"):
        exponent_of("uniform")
