"""All-reduce and its relatives: what a rank sends, what it moves, what it adds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import field_values, work_of
from roofline.ops.collective import AllGather, AllReduce, AllToAll, Broadcast, Collective, ReduceScatter, SendRecv

ALL = (AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendRecv)
SHARED = (AllGather, ReduceScatter, AllToAll)
every = pytest.mark.parametrize("cls", ALL, ids=lambda c: c.name)
MIB = 2**20


def made(cls: type[Collective], size: int = 256 * MIB, ranks: int = 4, **fields: object) -> Collective:
    return cls(**{"size": size, "ranks": ranks, "dtype": "fp32", "over": "nvlink", **fields})


@pytest.mark.parametrize(
    ("cls", "sent", "factor", "hbm", "additions"),
    [
        (AllReduce, 384, 1.5, 512, 48),
        (AllGather, 192, 0.75, 320, 0),
        (ReduceScatter, 192, 0.75, 320, 48),
        (AllToAll, 192, 0.75, 512, 0),
        (Broadcast, 256, 1, 256, 0),
        (SendRecv, 256, 1, 512, 0),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_256_mib_on_4_ranks_hand_worked(cls, sent, factor, hbm, additions):
    """In MiB; additions in Mi of 64 Mi elements, of which each rank sums a quarter three times."""
    op = made(cls)
    work = work_of(op, None)
    assert work.link_bytes == {"nvlink": sent * MIB}
    assert op.bus_factor() == factor
    assert work.compulsory.hbm == hbm * MIB
    assert (work.counts.vector, work.counts.tensor, work.counts.sfu) == (additions * MIB, 0, 0)
    assert op.lane == "link"


@every
def test_a_single_rank_sends_moves_and_adds_nothing(cls):
    work = work_of(made(cls, ranks=1), None)
    assert (work.link_bytes, work.compulsory.hbm, work.counts.vector) == ({"nvlink": 0}, 0, 0)
    assert made(cls, ranks=1).bus_factor() == 0


@every
def test_a_single_rank_still_holds_its_array(cls):
    assert max(t.bytes for t in made(cls, ranks=1).tensors()) == 256 * MIB


@every
@given(size=st.integers(0, 2**40), ranks=st.integers(2, 10**4))
def test_bus_bandwidth_is_what_a_rank_sends_over_the_time(cls, size, ranks):
    """Algorithm bandwidth times the factor of nccl-tests."""
    op = made(cls, size, ranks)
    assert op.sent_bytes() == pytest.approx(size * op.bus_factor(), rel=1e-14)


@every
@given(size=st.integers(1, 2**40), ranks=st.integers(1, 10**4))
def test_more_ranks_never_send_less_and_never_twice_the_array(cls, size, ranks):
    assert made(cls, size, ranks).sent_bytes() <= made(cls, size, ranks + 1).sent_bytes() <= 2 * size


@given(size=st.integers(0, 2**30), ranks=st.integers(1, 512))
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(size, ranks):
    """In what is sent and in what is added."""
    whole, first, second = (made(cls, 4 * size * ranks, ranks) for cls in (AllReduce, ReduceScatter, AllGather))
    assert whole.sent_bytes() == first.sent_bytes() + second.sent_bytes()
    assert whole.counts() == first.counts() + second.counts()


@every
@given(ranks=st.integers(1, 512), dtype=st.sampled_from(["fp32", "bf16", "int8", "fp64"]))
def test_bytes_do_not_depend_on_the_format(cls, ranks, dtype):
    one, other = (work_of(made(cls, 8 * 512 * ranks, ranks, dtype=d), None) for d in ("fp32", dtype))
    assert (one.link_bytes, one.compulsory.hbm) == (other.link_bytes, other.compulsory.hbm)


@pytest.mark.parametrize(("ranks", "ring", "switch"), [(1, 0, 0), (2, 1, 1.5), (3, 4 / 3, 4 / 3), (8, 1.75, 1.125)])
def test_a_switch_that_adds_halves_what_many_ranks_send(ranks, ring, switch):
    """Each sends its array once, and the sum of its share once; two ranks are better off without."""
    assert made(AllReduce, 24, ranks).sent_bytes() == 24 * ring
    op = made(AllReduce, 24, ranks, algorithm="switch")
    assert (op.sent_bytes(), op.counts().vector) == (24 * switch, 0)


@every
def test_gradients_travel_the_other_way(cls):
    """As often as the values did; a broadcast has none here."""
    op = made(cls)
    backward = [type(b) for b in op.backward()]
    assert backward == {AllGather: [ReduceScatter], ReduceScatter: [AllGather], Broadcast: []}.get(cls, [cls])
    assert all(b.link_bytes() == op.link_bytes() for b in op.backward())


@every
@pytest.mark.parametrize("ranks", [1, 4])
def test_arrays_give_the_same_bits(cls, ranks, same_in_arrays):
    same_in_arrays(made(cls, 4 * 3 * 4096, ranks))


@every
def test_a_sweep_over_ranks_and_sizes_is_the_same_formula(cls):
    ranks = np.array([1.0, 2.0, 8.0])
    sent = replace(made(cls), ranks=ranks).sent_bytes()
    assert list(np.broadcast_to(sent, 3)) == [made(cls, ranks=int(n)).sent_bytes() for n in ranks]


@every
def test_the_size_of_each_says_what_it_is(cls):
    """The keys are the same; what is meant by the size is not."""
    assert {"size", "ranks", "dtype", "over"} <= set(field_values(made(cls)))
    docs = [c.__dataclass_fields__["size"].metadata["doc"] for c in ALL]
    assert len(set(docs)) == len(docs)
