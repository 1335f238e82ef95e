"""Custom work: what is given is what is counted."""

from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import Counts, Traffic, work_of
from roofline.ops.custom import Custom

AMOUNTS = st.integers(0, 10**15)


def test_hand_worked():
    """Each total where it belongs; a vector FLOP feeds on 6 B of registers."""
    work = work_of(Custom(dtype="bf16", tensor_flop=100, vector_flop=10, sfu_ops=3, read=64, write=16), None)
    assert work.counts == Counts(tensor=100, vector=10, sfu=3)
    assert work.compulsory == Traffic(register=60, smem=0, l2=80, hbm=80)


def test_nothing_is_fine(h200):
    """No work, no bytes, one kernel, no contradiction."""
    op = Custom(dtype="bf16")
    work = work_of(op, h200)
    assert (work.counts, work.compulsory, work.cached, work.kernels) == (Counts(), Traffic(), Traffic(), 1)
    assert op.check() is None
    assert op.backward() == ()


def test_amounts_read_as_floats_count_as_integers():
    """Unit strings become floats."""
    counts = Custom(dtype="bf16", tensor_flop=1e12, read=3.35e12).counts()
    assert isinstance(counts.tensor, int)
    assert isinstance(Custom(dtype="bf16", read=3.35e12).compulsory(None).hbm, int)


@given(flop=AMOUNTS, read=AMOUNTS, write=AMOUNTS)
def test_twice_the_amounts_is_twice_the_work(flop, read, write):
    """Everything is linear."""
    one = work_of(Custom(dtype="bf16", tensor_flop=flop, read=read, write=write), None)
    two = work_of(Custom(dtype="bf16", tensor_flop=2 * flop, read=2 * read, write=2 * write), None)
    assert two.counts == one.counts + one.counts
    assert two.compulsory == one.compulsory + one.compulsory


def test_arrays_give_the_same_bits(same_in_arrays):
    """A sweep is the same formula."""
    same_in_arrays(Custom(dtype="bf16", tensor_flop=100, vector_flop=10, sfu_ops=3, read=64, write=16))
