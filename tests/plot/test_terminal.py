"""The roofline in a terminal: it fits, in braille or ASCII, and its letters are the steps of the table."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from roofline.report.plot.braille import Canvas
from roofline.report.plot.marks import marks_of
from roofline.report.plot.roofs import roofs_of
from roofline.report.plot.stages import stages_of
from roofline.report.plot.terminal import figure, letters, print_roofline, print_waterfall
from tests.plot.box import estimate, measured, report, row

STEPS = report(
    row("large", 4e12, 1e10, measured=measured(0.08)),
    row("small", 1e11, 1e10, estimate=estimate(0.02)),
    row("\x1b[31mred\u202e", 1e10, 1e10),
    row("copy", 0, 1e9),
)


def drawn(width: int, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    console = Console(file=stream, width=width, no_color=True, highlight=False, markup=False)
    print_roofline(STEPS, console)
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_it_fits_the_terminal(width: int, encoding: str) -> None:
    text = drawn(width, encoding)
    assert max(map(len, text.splitlines())) <= width
    assert text.startswith("hbm (memory) binds"), "the first line answers"
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_letters_are_the_steps_by_share() -> None:
    found = marks_of(STEPS)
    assert letters(found) == {0: "a", 1: "b", 2: "c"}
    table = [line.split() for line in drawn(120).splitlines() if line[:2] in ("a ", "b ", "c ")]
    assert [cells[:2] for cells in table] == [["a", "large"], ["b", "small"], ["c", "\\x1b[31mred\\u202e"]]
    assert "not drawn: copy (no FLOP)" in drawn(120)


def test_a_capital_is_below_its_small_letter_where_it_took_longer() -> None:
    lines = figure(roofs_of(STEPS), marks_of(STEPS), letters(marks_of(STEPS)), 100)
    body = [line for line in lines if "│" in line]
    at = {key: (i, line.split("│")[1].index(key)) for key in "aAc" for i, line in enumerate(body) if key in line.split("│")[1]}
    assert at["A"][1] == at["a"][1], "equal intensity"
    assert at["A"][0] > at["a"][0]
    assert at["c"][1] < at["a"][1], "fewer FLOP for a byte are to the left"


def test_ascii_has_the_same_shape() -> None:
    for line in figure(roofs_of(STEPS), marks_of(STEPS), letters(marks_of(STEPS)), 80, plain=True):
        assert line.isascii()


@given(st.integers(0, 39), st.integers(0, 39))
def test_a_dot_of_braille_is_in_its_character(x: int, y: int) -> None:
    canvas = Canvas(20, 10)
    canvas.dot(x, y)
    lines = canvas.lines()
    code = ord(lines[y // 4][x // 2]) - 0x2800
    assert code == {(0, 0): 1, (0, 1): 2, (0, 2): 4, (0, 3): 64, (1, 0): 8, (1, 1): 16, (1, 2): 32, (1, 3): 128}[x % 2, y % 4]
    assert sum(c not in " \u2800" for line in lines for c in line) == 1


def test_two_letters_in_one_cell_are_a_star() -> None:
    canvas = Canvas(3, 1)
    assert canvas.letter(1, 0, "a")
    assert not canvas.letter(1, 0, "b")
    assert canvas.lines() == [" *"]
    assert not canvas.text(0, 0, "ab")


def test_a_waterfall_of_letters_begins_where_the_one_before_ended() -> None:
    step = report(row("a", 5e8, 1e3, estimate=estimate(10e-6, {"fixed": 5e-6, "memory": 1e-6, "compute": 5e-6})))
    stream = io.StringIO()
    print_waterfall(stages_of(step, "a"), Console(file=stream, width=80, no_color=True, highlight=False, markup=False))
    heading, ideal, fixed, whole = stream.getvalue().splitlines()
    assert heading == "where the time of a goes"
    assert ideal.count("█") + fixed.count("█") == whole.count("█")
    assert abs(ideal.count("█") - fixed.count("█")) <= 1, "halves, to a letter"
    assert fixed.index("█") == ideal.rindex("█") + 1
    assert [line.split()[-2:] for line in (ideal, fixed, whole)] == [["50.0", "%"], ["50.0", "%"], ["100", "%"]]
