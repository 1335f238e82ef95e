"""Plans as text and as maps: what is understood, what is refused and where, and that writing and reading are inverse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.plan.job import Job
from roofline.plan.plan import CONTEXT_KINDS, ORDERS, OVERLAPS, RECOMPUTE, SCHEDULES, Plan
from roofline.plan.validate import Case, Shape
from roofline.spec.plan import KEYS, MEANING, checked, plan_node, read_plan, written
from roofline.spec.source import MapNode, Source, parse


def places(text: str) -> list[tuple[int, str]]:
    """Columns and sentences of what is wrong with a text."""
    with pytest.raises(InputError) as caught:
        read_plan(text)
    return [(p.column, p.message) for p in caught.value.problems]


def test_text_to_a_plan() -> None:
    found = read_plan(" tp=8, pp=16,dp=2 ,sp,zero=1,context=ulysses,recompute=full,overlap=tp+data,imbalance=1.3,uneven").plan
    assert found == Plan(
        tp=8, pp=16, dp=2, sequence_parallel=True, zero=1, context_kind="ulysses", recompute="full", overlap=("tp", "data"),
        imbalance=1.3, uneven=True,
    )  # fmt: skip


def test_nothing_is_a_plan_of_one_device() -> None:
    assert read_plan("").plan == Plan()


def test_what_devices_leave_over_is_data_parallel() -> None:
    assert read_plan("tp=8,pp=16", devices=16384).plan.dp == 128
    assert read_plan("tp=8,dp=4", devices=16384).plan.dp == 4
    assert read_plan("tp=7", devices=16).plan.dp == 1  # the rules then say that the product is wrong


def test_chunks_of_layers_mean_interleaving() -> None:
    assert read_plan("pp=4,virtual=2").plan.schedule == "interleaved"
    assert read_plan("pp=4,virtual=2,schedule=1f1b").plan.schedule == "1f1b"


def test_all_problems_at_their_columns() -> None:
    assert places("tp=8, pp=x,tq=3,sp=2,schedule=1f2b,overlap=cp+dat,zero=4,tp=2") == [(58, "'tp' is given twice")]
    found = dict(places("tp=8, pp=x,tq=3,sp=2,schedule=1f2b,overlap=cp+dat,zero=4,imbalance=.5"))
    assert found[10] == "pp: 'x' is not a number; write it in decimal digits, e.g. 1024"
    assert found[12].startswith("unknown key 'tq' of a plan")
    assert found[20].startswith("sp: '2' is not true or false")
    assert found[31] == "schedule: unknown word '1f2b'; did you mean '1f1b'?"
    assert found[44] == "overlap: unknown axis 'dat'; did you mean 'data'?"
    assert found[56] == "zero: 4 is not a whole number from 0 to 3"
    assert found[68] == "imbalance: 0.5 is not the load of the fullest rank over the mean, which is at least 1"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("tp=8,,pp=2", "a key is missing"),
        ("tp", "a value is missing"),
        ("tp=0", "from 1 to"),
        ("tp=99999999999", "from 1 to"),
        ("tp=8.5", "not a whole number"),
    ],
)
def test_what_is_no_plan(text: str, part: str) -> None:
    assert any(part in message for _, message in places(text))


def test_a_map_and_a_text_in_a_file() -> None:
    root = parse(
        Source(
            "w.yaml",
            "plan:\n  tp: 8\n  overlap: [cp, data]\n  sp: true\nshort: tp=8,pp=2\nwrong:\n  tp: 0\n  zeroo: 1\n"
            "list: [1]\nshort_wrong: tp=0\n",
        )
    )
    assert isinstance(root, MapNode)
    at = {name: entry.value for name, entry in root.entries.items()}
    assert plan_node(at["plan"]).plan == Plan(tp=8, sequence_parallel=True, overlap=("cp", "data"))
    assert plan_node(at["short"]).plan == Plan(tp=8, pp=2)
    with pytest.raises(InputError) as caught:
        plan_node(at["wrong"])
    assert [(p.line, p.column) for p in caught.value.problems] == [(7, 7), (8, 3)]
    assert "did you mean 'zero'?" in str(caught.value)
    with pytest.raises(InputError, match="expected a plan as a map"):
        plan_node(at["list"])
    with pytest.raises(InputError, match=r"w\.yaml:10:14: tp: 0 is not"):
        plan_node(at["short_wrong"])


def test_rules_are_reported_where_the_plan_stands() -> None:
    read = read_plan("tp=8,pp=5")
    with pytest.raises(InputError) as caught:
        checked(
            read, Case(plan=read.plan, job=Job(phase="train", batch=8, seq=64), shape=Shape(layers=32, heads=32, kv_heads=8), devices=16)
        )
    assert [(p.path, p.column) for p in caught.value.problems] == [("--plan", 1), ("--plan", 9)]


def test_every_key_has_a_meaning() -> None:
    assert set(MEANING) == set(KEYS)


degrees = st.sampled_from([1, 2, 3, 8, 128])


@given(
    st.builds(
        Plan,
        tp=degrees, cp=st.just(2), pp=degrees, dp=degrees, ep=degrees, etp=degrees, microbatch=degrees,
        sequence_parallel=st.booleans(), uneven=st.booleans(), zero=st.integers(0, 3), node_limit=st.integers(0, 8),
        context_kind=st.sampled_from(CONTEXT_KINDS), schedule=st.sampled_from(SCHEDULES), recompute=st.sampled_from(RECOMPUTE),
        order=st.sampled_from(ORDERS), imbalance=st.sampled_from([1.0, 1.25, 2.0]),
        overlap=st.lists(st.sampled_from(OVERLAPS), unique=True).map(lambda axes: tuple(a for a in OVERLAPS if a in axes)),
    )
)  # fmt: skip
def test_writing_and_reading_are_inverse(plan: Plan) -> None:
    assert read_plan(written(plan)).plan == plan
