"""Counter files in all their forms give the same launches, and what is no such file is refused at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.ingest.ncu_numbers import Locale, locale_of, told_by, unit_of
from roofline.ingest.ncu_read import Table, range_names, read_table, short_name

FIXTURE = Path(__file__).parent.parent / "data" / "ncu" / "h200_wide_raw.csv"
RANGE = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
PREAMBLE = "==PROF== Connected to process 440 (/usr/bin/secret-name)\nepoch 1, loss 3.14\n"

WIDE = (
    f'"ID","Process ID","Host Name","{RANGE}","Kernel Name","Device","CC","dram__bytes_read.sum","dram__bytes_write.sum",'
    '"gpu__time_duration.sum"\n'
    '"","","","","","","","Mbyte","Kbyte","us"\n'
    '"0","440","secret-host","440  ""<default domain>:mlp:none:none:none:none:none:none"" ","void f<int, 4>(float*)","0","9.0",'
    '"1,260.5","1,234.5","1,372.25"\n'
)
LONG = (
    f'"ID","Process ID","Host Name","{RANGE}","Kernel Name","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    + "".join(
        f'"0","440","secret-host","440  ""<default domain>:mlp:none:none:none:none:none:none"" ","void f<int, 4>(float*)","0","9.0","S",'
        f'"{name}","{unit}","{value}"\n'
        for name, unit, value in (
            ("dram__bytes_read.sum", "Gbyte", "1.2605"),
            ("not__known.sum", "furlong", "x"),
            ("dram__bytes_write.sum", "byte", "1,234,500"),
            ("gpu__time_duration.sum", "nsecond", "1,372,250"),
        )
    )
)
EXPECTED = {"dram__bytes_read.sum": 1260.5e6, "dram__bytes_write.sum": 1234.5e3, "gpu__time_duration.sum": 1372.25e-6}


def table(tmp_path: Path, text: str, name: str = "c.csv") -> Table:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_table(str(tmp_path / name))


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        table(tmp_path, text)
    return str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    "text",
    [
        WIDE,
        LONG,
        PREAMBLE + WIDE + "step 3 done\n==PROF== Disconnected from process 440\n",
        "\ufeff" + LONG.replace("\n", "\r\n"),
        PREAMBLE + LONG,
        # A German machine: points between thousands, a comma before decimals, and its spreadsheet's semicolons.
        WIDE.replace('"1,260.5","1,234.5","1,372.25"', '"1.260,5","1.234,5","1.372,25"'),
        WIDE.replace('","', '";"').replace('"1,260.5";"1,234.5";"1,372.25"', '"1.260,5";"1234,5";"1 372,25"'),
        LONG.replace("1.2605", "1,2605").replace("1,234,500", "1.234.500").replace("1,372,250", "1.372.250"),
    ],
    ids=["wide", "long", "surrounded", "bom-crlf", "long-surrounded", "german", "semicolons", "long-german"],
)
def test_every_form_gives_the_same_launch(tmp_path: Path, text: str) -> None:
    (launch,) = table(tmp_path, text).launches
    assert (launch.id, launch.kernel, launch.ranges, launch.capability) == ("0", "f", ("mlp",), "9.0")
    assert {name: v.value for name, v in launch.counters.items()} == pytest.approx(EXPECTED, rel=1e-15)


def test_nothing_of_host_process_or_preamble_is_kept(tmp_path: Path) -> None:
    assert "secret" not in repr(table(tmp_path, PREAMBLE + WIDE).launches)


def test_a_summary_counts_its_invocations(tmp_path: Path) -> None:
    text = (
        '"Process ID","Device","CC","Kernel Name","Invocations","Metric Name","Metric Unit","Minimum","Maximum","Average"\n'
        '"1","0","9.0","k","12","dram__bytes_read.sum","Kbyte","1","3","2.5"\n'
    )
    (launch,) = table(tmp_path, text).launches
    assert (launch.count, launch.counters["dram__bytes_read.sum"].value) == (12, 2500)


def test_a_counter_that_is_not_there_is_not_zero(tmp_path: Path) -> None:
    for absent in ("n/a", "", "nan"):
        (launch,) = table(tmp_path, WIDE.replace('"1,234.5"', f'"{absent}"')).launches
        assert "dram__bytes_write.sum" not in launch.counters
        assert "dram__bytes_read.sum" in launch.counters


def test_the_details_page_has_two_counters_of_one_name(tmp_path: Path) -> None:
    rows = "".join(
        f'"0","k","0","{s}","Memory Throughput","{u}","{v}"\n' for s, u, v in (("SOL", "%", "71.5"), ("Mem", "Gbyte/second", "940.25"))
    )
    head = '"ID","Kernel Name","Device","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    (launch,) = table(tmp_path, head + rows).launches
    assert launch.counters["Memory Throughput [byte/s]"].value == 940.25e9


# --------------------------------------------------------------------------- located refusals
def test_problems_are_told_all_at_once_each_at_its_cell(tmp_path: Path) -> None:
    text = WIDE.replace('"Kbyte"', '"Kbit"').replace('"1,260.5"', '"1,26,05.x"').replace('"1,372.25"', '"-5.5"')
    with pytest.raises(InputError) as caught:
        table(tmp_path, text)
    found = caught.value.problems
    assert [p.line for p in found] == [2, 3, 3]
    for problem, cell in zip(found, ('"Kbit"', '"1,26,05.x"', '"-5.5"'), strict=True):
        assert problem.source_line[problem.column - 1 :].startswith(cell)
        assert cell.strip('"') in problem.message


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "/c.csv: ", "no table of Nsight Compute"),
        ("a,b\n1,2\n", "/c.csv: ", "no line holds the heading 'Kernel Name'"),
        ("==ERROR== ERR_NVGPUCTRPERM\n", "/c.csv:1:1", "profiled nothing"),
        (WIDE[:-40], "/c.csv:3:1", "a quote is not closed"),
        (WIDE.replace('"9.0",', ""), "/c.csv:3:1", "9 fields where the header has 10"),
        (WIDE.split("\n", 1)[0] + "\n", "/c.csv: ", "has no kernels"),
        ("\n".join(WIDE.split("\n")[:2]) + "\n", "/c.csv: ", "has no kernels"),
        ("\n".join([WIDE.split("\n")[0], WIDE.split("\n")[2]]) + "\n", "/c.csv:2:1", "should hold the units"),
        (WIDE.replace("dram__bytes_write.sum", "dram__bytes_read.sum"), "/c.csv:1", "stands twice"),
        (WIDE.replace('"1,260.5"', '"1.260,5"'), "/c.csv: ", "tables of two locales"),
        (LONG.replace('"Metric Unit"', '"Unit"'), "/c.csv: ", "needs 'Metric Unit'"),
        (
            WIDE.replace("dram__bytes_read", "dramm__bytes").replace("dram__bytes_write", "x__y").replace("gpu__time", "gpu__tim"),
            "/c.csv: ",
            "no column",
        ),
    ],
)
def test_what_is_no_counter_file_is_refused(tmp_path: Path, text: str, place: str, message: str) -> None:
    said = refusal(tmp_path, text)
    assert said.startswith(place)
    assert message in said


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.ncu-rep").write_bytes(b"NVR\x00\x01\xff")
    with pytest.raises(InputError, match="NUL byte"):
        read_table(str(tmp_path / "r.ncu-rep"))


@given(st.text(alphabet='",;\n=1.aID\t', max_size=200))
def test_mutilated_tables_are_read_or_refused_never_worse(text: str) -> None:
    from roofline.ingest.ncu_read import _lines, _long, _wide
    from roofline.spec.located import Source

    for whole in (text, WIDE[:250] + text, LONG[:300] + text, WIDE + text):
        try:
            lines = _lines(Source("c.csv", whole))
            lines.raise_if_any()
            (_long if "Metric Name" in lines.header else _wide)(lines)
            lines.raise_if_any()
        except InputError:
            continue


# --------------------------------------------------------------------------- numbers, units, names
def _german(text: str) -> str:
    return text.translate(str.maketrans(",.", ".,"))


@given(st.floats(0, 1e15, allow_nan=False))
def test_a_number_in_either_locale_is_the_same(value: float) -> None:
    english = f"{value:,.3f}"
    assert Locale(".", True).number(english) == Locale(",", True).number(_german(english)) == float(english.replace(",", ""))


@given(st.lists(st.floats(0, 1e12, allow_nan=False), min_size=1, max_size=8))
def test_a_file_tells_its_locale_or_says_that_it_does_not(values: list[float]) -> None:
    texts = [f"{v:,.2f}" for v in values]
    assert locale_of(texts) == Locale(".", True)
    assert locale_of(map(_german, texts)) == Locale(",", True)
    assert told_by("1,234") is None
    assert locale_of(["1,234", "7"]) == Locale(".", False)


@pytest.mark.parametrize("text", ["1,23,456", "1,2345", "1.2.3", "0x10", "12 34.5.6", "1e999", "--5", "."])
def test_no_number_of_a_locale_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is the message
        Locale(".", True).number(text)


def test_units_are_scaled_by_hand() -> None:
    assert unit_of("Gbyte") == (1e9, "byte")
    assert unit_of("Kibyte") == (1024, "byte")
    assert unit_of("byte/block") == (1, "byte")
    assert unit_of("msecond") == (1e-3, "s")
    assert unit_of("byte/ns") == (1e9, "byte/s")
    assert unit_of("Ghz") == (1e9, "hz")
    assert unit_of("cycle/nsecond") == (1e9, "hz")
    assert unit_of("sector/request") == (1, "1")
    assert unit_of("parsec") is None


def test_names_of_ranges_and_kernels() -> None:
    assert range_names('7 "d:a:b=1:none:none:none:none:none:none" "d:inner:none:none:none:none:none:none"') == ("a:b=1", "inner")
    assert range_names("") == ()
    assert short_name("void ns::k<(anonymous namespace)::T<1>>(int*)") == "ns::k"


def test_the_fixture_has_a_launch_for_each_of_its_rows() -> None:
    found = read_table(str(FIXTURE))
    assert (found.form, len(found.launches), found.locale) == ("wide", 50, Locale(".", True))
    assert len({launch.ranges for launch in found.launches}) == 34
