"""Our frozen dataclasses behave as the standard library's, which is asked beside each."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from roofline import records
from roofline.ops.gemm import Gemm
from roofline.workload.workload import Step


def classes(make: Any) -> dict[str, Any]:
    """Of each sort one: slots, inheritance, fields left out of comparison or text, none at all, methods of their own."""

    @make(frozen=True, slots=True, kw_only=True)
    class Base:
        a: int
        b: tuple[int, ...] = (1, 2)
        hidden: int = dataclasses.field(default=0, repr=False)
        apart: int = dataclasses.field(default=0, compare=False)

    @make(frozen=True)
    class Child(Base):
        c: float = 0.5

    @make(frozen=True)
    class Empty:
        pass

    @make(frozen=True)
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

    @make(frozen=True)
    class Compared:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    @make(frozen=True, order=True)
    class Ordered:
        a: int

    return {"base": Base, "child": Child, "empty": Empty, "own": Own, "compared": Compared, "ordered": Ordered}


OURS, THEIRS = classes(records.dataclass), classes(dataclasses.dataclass)
MADE: list[tuple[str, dict[str, Any]]] = [
    ("base", {"a": 1}),
    ("base", {"a": 1, "hidden": 3}),
    ("base", {"a": 1, "apart": 3}),
    ("child", {"a": 1, "c": 2.0}),
    ("empty", {}),
    ("own", {"a": 1}),
    ("compared", {"a": 1}),
    ("ordered", {"a": 1}),
    ("ordered", {"a": 2}),
]


@pytest.mark.parametrize(("one", "values"), MADE)
def test_text_comparison_and_hash_are_theirs(one: str, values: dict[str, Any]) -> None:
    ours, theirs = OURS[one](**values), THEIRS[one](**values)
    assert repr(ours) == repr(theirs)
    for other, fields in MADE:
        mine, their = OURS[other](**fields), THEIRS[other](**fields)
        assert (ours == mine) is (theirs == their), (other, fields)
        if one == other:
            assert (hash(ours) == hash(mine)) is (hash(theirs) == hash(their)), fields
    assert ours != object() or one in ("own", "compared")


def test_nothing_can_be_changed_and_replace_makes_another() -> None:
    ours = OURS["base"](a=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        ours.a = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del ours.a
    assert dataclasses.replace(ours, a=2) == OURS["base"](a=2)
    assert not hasattr(ours, "__dict__"), "slots"
    assert [f.name for f in dataclasses.fields(OURS["child"])] == ["a", "b", "hidden", "apart", "c"]


def test_one_of_the_project_s_is_copied_and_pickled() -> None:
    step = Step(id="p", op=Gemm(m=1, n=2, k=3, dtype="bf16"))
    assert copy.deepcopy(step) == pickle.loads(pickle.dumps(step)) == step
    assert hash(copy.copy(step.op)) == hash(step.op)


def test_a_class_of_others_may_derive_from_ours() -> None:
    """As operators of other packages do."""

    @dataclasses.dataclass(frozen=True)
    class Theirs(OURS["base"]):  # type: ignore[misc, name-defined]
        d: int = 4

    assert Theirs(a=1) == Theirs(a=1)
    assert "d=4" in repr(Theirs(a=1))
