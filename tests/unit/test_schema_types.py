"""The types of a file's values: what each takes, what it refuses and where, and that its JSON Schema says the same."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.dtypes import DTYPES
from roofline.errors import InputError
from roofline.spec.reader import INVALID, Reader, expression_value
from roofline.spec.schema import (
    Bool,
    Choice,
    Dim,
    DtypeName,
    Integer,
    Key,
    ListOf,
    MapOf,
    Quantity,
    Real,
    RealExpression,
    Record,
    Text,
    Type,
)
from roofline.spec.source import MapNode, Source, parse
from roofline.units import Dimension


def read(type_: Type, text: str, **names: Any) -> tuple[Any, list[str]]:
    """What the type makes of ``v: text``, and its complaints as ``line:column message``."""
    root = parse(Source("f.yaml", f"v: {text}"))
    assert isinstance(root, MapNode)
    reader = Reader(names)
    value = type_.read(root.entries["v"].value, reader)
    assert (value is INVALID) <= bool(reader.problems)
    return value, [f"{p.line}:{p.column} {p.message}" for p in reader.problems]


TAKEN: list[tuple[Type, str, Any]] = [
    (Text(), "abc", "abc"),
    (Text(), "12", "12"),
    (Text(), "'null'", "null"),
    (Text(), "''", ""),
    (Choice(("a", "b")), "b", "b"),
    (DtypeName(), "bf16", "bf16"),
    (Bool(), "true", True),
    (Bool(), "false", False),
    (Integer(), "0", 0),
    (Integer(1, 3), "3", 3),
    (Real(), "-2.5", -2.5),
    (Real(0, 1), "0", 0.0),
    (Real(0, 1), "1", 1.0),
    (Real(0, above=True), "1e-300", 1e-300),
    (Quantity(Dimension.SECONDS), "5 ms", 0.005),
    (Quantity(Dimension.BYTES, allow_zero=True), "0 B", 0),
    (Dim(), "4096", 4096),
    (Dim(), "n * 2", 14),
    (Dim(), "n / 7", 1),
    (Dim(), "1e3", 1000),
    (Dim(0), "0", 0),
    (Dim(), "2 ** 62", 2**62),
    (RealExpression(Real(0, 1)), "1 / 4", 0.25),
    (ListOf(Text()), "[a, b]", ("a", "b")),
    (ListOf(Text(), lone=True), "a", ("a",)),
    (ListOf(Integer()), "[]", ()),
    (MapOf(Integer()), "{a: 1, x-b: what}", {"a": 1}),
    (MapOf(Integer(), ("a",)), "{a: 1}", {"a": 1}),
    (Record("a thing", (Key("a", Integer(), "", required=True), Key("b", Text(), ""))), "{a: 1, x-c: []}", {"a": 1}),
]

REFUSED: list[tuple[Type, str, str]] = [
    (Text(), "", "1:3 expected text, found nothing"),
    (Text(), "null", "1:4 a value is missing"),
    (Text(), "[a]", "1:4 expected text, found a list"),
    (Text(), "{a: b}", "1:4 expected text, found a map"),
    (Choice(("flash", "naive")), "flesh", "1:4 unknown value 'flesh'; did you mean 'flash'? (known: flash, naive)"),
    (Choice(("flash", "naive")), "zzz", "1:4 unknown value 'zzz'; known: flash, naive"),
    (Choice(("flash", "naive")), "Flash", "1:4 unknown value 'Flash'; did you mean 'flash'?"),
    (DtypeName(), "bf61", "1:4 unknown dtype 'bf61'; did you mean 'bf16'"),
    (Bool(), "yes", "1:4 'yes' is not true or false; write true or false (here true)"),
    (Bool(), "1", "1:4 '1' is not true or false"),
    (Bool(), "'true'", "1:4 'true' stands in quotes"),
    (Bool(), "True", "1:4 'True' is not true or false; write true or false (here true)"),
    (Integer(), "-1", "1:4 -1 is out of range: at least 0"),
    (Integer(1, 3), "4", "1:4 4 is out of range: at least 1 and at most 3"),
    (Integer(2, 2), "3", "1:4 3 is not known here; write 2"),
    (Integer(), "1.5", "1:4 '1.5' is not a whole number"),
    (Integer(), "1e3", "1:4 '1e3' is not in plain digits; write 1000"),
    (Integer(), "'1'", "1:4 '1' stands in quotes"),
    (Integer(), "010", "1:4 '010' has a leading zero; write 10 if decimal is meant"),
    (Integer(), "9223372036854775808", "1:4 9223372036854775808 is too large"),
    (Real(), "nan", "1:4 'nan' is not a finite number"),
    (Real(), ".inf", "1:4 '.inf'"),
    (Real(), "1e999", "1:4 '1e999' is out of range"),
    (Real(0, 1), "1.0000000001", "1:4 1 is out of range: at least 0 and at most 1"),
    (Real(0, 1), "-1e-300", "1:4 -1e-300 is out of range"),
    (Real(0, above=True), "0", "1:4 0 is out of range: above 0"),
    (Quantity(Dimension.SECONDS), "5", "1:4 '5' has no unit"),
    (Quantity(Dimension.SECONDS), "0 s", "1:4 '0 s' must be more than 0"),
    (Quantity(Dimension.SECONDS), "-1 s", "1:4 '-1 s' must be more than 0"),
    (Quantity(Dimension.SECONDS), "5 GB", "1:4 '5 GB': 'GB' is a size"),
    (Quantity(Dimension.SECONDS), "1e-200 s", "1:4 1e-200 in SI units is out of range: from 1e-30 to 1e+30"),
    (Quantity(Dimension.SECONDS), "1e200 s", "1:4 1e+200 in SI units is out of range"),
    (Dim(), "0", "1:4 0 is out of range: at least 1"),
    (Dim(), "n - 7", "1:4 'n - 7' is 0 (n = 7), which is out of range: at least 1"),
    (Dim(), "n / 2", "1:4 expected a whole number, but the expression gives 3.5"),
    (Dim(), "2 ** 63", "1:4 9223372036854775808 is too large for a count (2**63 or more)"),
    (Dim(), "m", "1:4 unknown name 'm'; known: n"),
    (Dim(), "1:30", "1:4 '1:30' is not one number"),
    (Dim(), "0x10", "1:4 '0x10' is not in decimal digits; write 16"),
    (Dim(), "4 GB", "1:4 '4 GB' has a unit where a plain number is wanted"),
    (RealExpression(Real(0, 1)), "n", "1:4 7 is out of range: at least 0 and at most 1"),
    (ListOf(Text()), "a", "1:4 expected a list, found 'a'"),
    (ListOf(Integer()), "[1, x, 3]", "1:8 'x' is not a number"),
    (MapOf(Integer()), "[1]", "1:4 expected a map, found a list"),
    (MapOf(Integer(), ("fp8",)), "{pf8: 1}", "1:5 unknown key 'pf8'; did you mean 'fp8'?"),
    (Record("a thing", (Key("width", Integer(), ""),)), "{widht: 1}", "1:5 unknown key 'widht' in a thing; did you mean 'width'?"),
    (Record("a thing", (Key("a", Integer(), "", required=True), Key("b", Text(), "", required=True))), "{}", "1:4 a thing lacks 'a', 'b'"),
    (Record("a thing", ()), "1", "1:4 expected a thing as a map, found '1'"),
]


def _name(value: Any) -> str:
    return type(value).__name__ if hasattr(value, "read") else ascii(value)


@pytest.mark.parametrize(("type_", "text", "value"), TAKEN, ids=_name)
def test_what_a_type_takes(type_: Type, text: str, value: Any) -> None:
    found, problems = read(type_, text, n=7)
    assert (found, problems) == (value, [])
    assert type(found) is type(value)


@pytest.mark.parametrize(("type_", "text", "said"), REFUSED, ids=_name)
def test_what_a_type_refuses_at_its_place(type_: Type, text: str, said: str) -> None:
    _, problems = read(type_, text, n=7)
    assert len(problems) == 1
    assert problems[0].startswith(said)


def test_every_problem_of_a_list_is_reported_and_the_rest_is_kept() -> None:
    assert read(ListOf(Integer()), "[1, x, 3, -1]")[0] == (1, 3)
    assert len(read(ListOf(Integer()), "[1, x, 3, -1]")[1]) == 2


# ---- numbers over their whole range --------------------------------------------------------------------------------
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_real_reads_what_repr_writes(x: float) -> None:
    found, problems = read(Real(), repr(x))
    assert problems == []
    assert found == x


@given(st.floats())
def test_a_share_lies_between_zero_and_one(x: float) -> None:
    assert (read(Real(0, 1), repr(x))[0] is not INVALID) is (0 <= x <= 1)


@given(st.integers())
def test_an_integer_is_taken_within_64_bits(n: int) -> None:
    assert (read(Integer(), str(n))[0] == n) is (0 <= n < 2**63)
    assert (read(Dim(), str(n))[0] == n) is (1 <= n < 2**63)


@given(st.floats())
def test_a_quantity_is_finite_positive_and_of_this_world(x: float) -> None:
    assert (read(Quantity(Dimension.SECONDS), f"{x!r} s")[0] is not INVALID) is (math.isfinite(x) and 1e-30 <= x <= 1e30)


# ---- follow-on problems --------------------------------------------------------------------------------------------
def test_what_follows_from_a_reported_problem_is_refused_without_a_word() -> None:
    root = parse(Source("f.yaml", "v: a + n"))
    assert isinstance(root, MapNode)
    reader = Reader({"n": 1}, unknown={"a"})
    assert expression_value(root.entries["v"].value, reader) is INVALID
    assert (reader.problems, reader.failures) == ([], 1)


def test_a_name_that_was_never_written_is_reported_beside_an_unknown_one() -> None:
    root = parse(Source("f.yaml", "v: b + n"))
    assert isinstance(root, MapNode)
    reader = Reader({"n": 1}, unknown={"a"})
    assert expression_value(root.entries["v"].value, reader) is INVALID
    assert len(reader.problems) == 1


def test_finish_raises_all_problems_in_the_order_of_the_lines() -> None:
    root = parse(Source("f.yaml", "a: x\nb: y\n"))
    assert isinstance(root, MapNode)
    reader = Reader()
    for key in ("b", "a"):
        Integer().read(root.entries[key].value, reader)
    with pytest.raises(InputError) as caught:
        reader.finish()
    assert [p.line for p in caught.value.problems] == [1, 2]
    Reader().finish()


# ---- JSON Schema ---------------------------------------------------------------------------------------------------
_PLAIN = (Integer, Real, Bool, Choice, DtypeName, ListOf, MapOf, Record, Text)


@pytest.mark.parametrize(("type_", "text", "value"), [t for t in TAKEN if isinstance(t[0], _PLAIN)], ids=_name)
def test_the_json_schema_takes_what_the_type_takes(type_: Type, text: str, value: Any) -> None:
    jsonschema.validate(json.loads(json.dumps(value)), type_.json_schema())


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Integer(1, 3), 4),
        (Integer(), -1),
        (Integer(), 1.5),
        (Real(0, 1), 2),
        (Real(0, above=True), 0),
        (Bool(), "true"),
        (Choice(("a",)), "b"),
        (DtypeName(), "bf61"),
        (ListOf(Integer()), 1),
        (MapOf(Integer(), ("a",)), {"b": 1}),
        (Record("a thing", (Key("a", Integer(), "", required=True),)), {}),
        (Record("a thing", (Key("a", Integer(), ""),)), {"b": 1}),
    ],
)
def test_the_json_schema_refuses_what_the_type_refuses(type_: Type, value: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, type_.json_schema())
    assert read(type_, json.dumps(value))[1] != []


def test_every_dtype_is_a_dtype_name() -> None:
    assert all(read(DtypeName(), name) == (name, []) for name in DTYPES)
