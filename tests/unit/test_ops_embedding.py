"""Embedding: bytes of the rows touched, and the scatter-add of the gradient."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.embedding import Embedding

SIZES = st.integers(1, 10**6)


def test_hand_worked():
    """3 tokens of a 10 x 4 table in bf16: 3 ids of 8 B, 3 rows of 8 B read, 3 written; the table itself is 80 B."""
    op = Embedding(tokens=3, vocab=10, hidden=4, dtype="bf16")
    assert op.compulsory(None).hbm == 24 + 24 + 24
    assert op.counts() == Embedding(tokens=9, vocab=10, hidden=4, dtype="bf16").counts()
    assert {t.name: t.bytes for t in op.tensors()} == {"ids": 24, "table": 80, "y": 24}


def test_rows_of_numpy_are_the_bytes_read():
    """An independent count: fancy indexing with distinct ids."""
    table, ids = np.zeros((10, 4), np.float16), np.arange(3)
    op = Embedding(tokens=3, vocab=10, hidden=4, dtype="fp16")
    assert op.compulsory(None).hbm == ids.nbytes + table[np.unique(ids)].nbytes + table[ids].nbytes


def test_no_more_rows_than_the_vocabulary_are_compulsory(h200):
    """100 tokens of 10 rows: each row once if it stays in L2, else once a token."""
    op = Embedding(tokens=100, vocab=10, hidden=4, dtype="bf16")
    assert op.compulsory(h200).hbm == op.cached(h200).hbm == 100 * 8 + 80 + 800
    assert op.tiled(h200).hbm == 100 * 8 + 800 + 800
    large = Embedding(tokens=200_000, vocab=100_000, hidden=4096, dtype="bf16")
    assert large.cached(h200).hbm == large.tiled(h200).hbm == 200_000 * (8 + 2 * 8192)


@given(tokens=SIZES, vocab=SIZES, hidden=SIZES)
def test_twice_the_width_moves_twice_the_rows(tokens, vocab, hidden):
    """The ids stay the same."""
    op = Embedding(tokens=tokens, vocab=vocab, hidden=hidden, dtype="bf16")
    ids = 8 * tokens
    assert replace(op, hidden=2 * hidden).compulsory(None).hbm - ids == 2 * (op.compulsory(None).hbm - ids)


def test_backward_adds_into_the_touched_rows_only():
    """3 tokens of 4: dy 24 B, ids 24 B, three fp32 rows of 16 B read and written, 12 additions."""
    (backward,) = Embedding(tokens=3, vocab=10, hidden=4, dtype="bf16").backward()
    assert backward.compulsory(None).hbm == 24 + 24 + 2 * 3 * 16
    assert backward.counts().vector == 12


def test_backward_touches_the_rows_that_autograd_touches():
    """The gradient of distinct ids is zero in every other row."""
    torch = pytest.importorskip("torch")
    table = torch.randn(10, 4, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([1, 5, 7]), table).sum().backward()
    (backward,) = Embedding(tokens=3, vocab=10, hidden=4, dtype="fp32").backward()
    assert backward.writes[0].touched == int((table.grad != 0).sum())


@pytest.mark.parametrize("tokens", [3, 5000])
def test_arrays_give_the_same_bits(same_in_arrays, tokens):
    """A sweep is the same formula."""
    same_in_arrays(Embedding(tokens=tokens, vocab=1000, hidden=64, dtype="bf16"))
