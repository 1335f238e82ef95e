"""`roofline loop`: a log that people read, that says predicted against achieved gain, and that can be made from its inputs again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.whole_models import rows_of
from roofline.cli.app import app_for
from roofline.decide.loop import verdict_of
from roofline.decide.loop_log import log_text, read_log
from roofline.report.loop import NOT_COMPARED, VERDICTS
from roofline.report.store import load_report
from roofline.spec.source import parse, read_source

TABLE = Path(__file__).parents[2] / "results" / "tables" / "h200-sxm" / "models.csv"
DECODE = "schema: 1\nname: decode\nmodel: llama-3-8b\nphase: decode\nexecution: eager\nparams: {batch: 1, context: 512}\n"


def run(*arguments: str, code: int = 0) -> str:
    """Standard output of a command, standard error of one that fails."""
    result = CliRunner().invoke(app_for(("loop",)), ["loop", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.fixture
def log(tmp_path, monkeypatch) -> str:
    """A loop that has begun with a model decoding eagerly."""
    monkeypatch.chdir(tmp_path)
    Path("decode.yaml").write_text(DECODE, encoding="utf-8")
    run("init", "log.yaml", "--workload", "decode.yaml", "-H", "h200-sxm")
    return "log.yaml"


def measured_ms(batch: int, mode: str) -> float:
    """What llama3-8b took to decode a token after 512 in the committed table."""
    wanted = {"model": "llama3-8b", "phase": "decode", "batch": str(batch), "ctx": "512", "mode": mode}
    return next(float(r["ms"]) for r in rows_of(TABLE) if wanted.items() <= r.items())


def test_a_whole_loop_on_a_measured_model(log):
    """Eager, then a graph, then 64 sequences: each gain is within 10 % of the predicted one, and they multiply."""
    times = [measured_ms(1, "eager"), measured_ms(1, "graph"), measured_ms(64, "graph")]
    run("measured", log, "--time", f"{times[0]} ms", "--source", "models.csv")
    for change, took in ((("--change", "graph"), times[1]), (("--set", "batch=64"), times[2])):
        run("next", log, *change, "--hypothesis", "the host is too slow")
        assert "as predicted" in run("measured", log, "--time", f"{took} ms")
    found = json.loads(run("status", log, "--format", "json"))
    assert found["achieved"] == pytest.approx(64 * times[0] / times[2])
    gains = [t["predicted"]["speedup"] for t in found["log"]["turns"]]
    assert found["predicted"] == found["predicted_all"] == pytest.approx(gains[1] * gains[2])
    assert [t["work"] for t in found["log"]["turns"]] == [1, 1, 64]
    assert run("status", log).startswith(f"2 turns: {found['achieved']:.3g}x achieved, {found['predicted']:.3g}x predicted.")


def test_the_best_advice_is_the_next_turn(log):
    """Without a name it is what `advise` ranks first, and its report lies beside the log under its hash."""
    said = CliRunner().invoke(app_for(("advise",)), ["advise", "decode.yaml", "-H", "h200-sxm", "--format", "json"]).stdout
    best = json.loads(said)["advice"][0]
    run("next", log)
    turn = read_log(log).log.turns[1]
    assert (turn.change, turn.predicted.speedup) == (best["key"], best["speedup"])
    assert load_report(turn.predicted.report.path).totals.estimate.time_s == turn.predicted.time_s


def test_a_fused_workload_is_stored_and_replayed(log):
    """A change that no override expresses is made again from the log, and its report can be read."""
    run("next", log, "--change", "one-kernel")
    run("next", log, "--change", "graph")
    turn = read_log(log).log.turns[1]
    assert "fused" in [r.op for r in load_report(turn.predicted.report.path).rows]
    assert "a turn before cannot be written as overrides" in run("next", log, "--set", "batch=2", code=2)


def test_equal_input_gives_equal_files(log, tmp_path):
    """The log and the reports of a second loop are those of the first."""
    run("next", log)
    again = tmp_path / "again"
    again.mkdir()
    (again / "decode.yaml").write_text(DECODE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(again)
        run("init", log, "--workload", "decode.yaml", "-H", "h200-sxm")
        run("next", log)
    for name in (log, "log.turn0.json", "log.turn1.json"):
        assert Path(name).read_bytes() == (again / name).read_bytes()


def test_a_written_log_reads_as_it_was(log):
    """Every word, whatever is in it."""
    run("next", log, "--hypothesis", 'fewer "launches": 3 # no comment\n\u00e9 \\')
    run("measured", log, "--time", "13.6 ms", "--source", "[a, b]: {c}")
    found = read_log(log).log
    assert log_text(found) == Path(log).read_text(encoding="utf-8")
    assert found.turns[1].hypothesis == 'fewer "launches": 3 # no comment\n\u00e9 \\'
    assert found.turns[0].measured.source == "[a, b]: {c}"


def test_a_measured_report_and_its_steps(log):
    """The whole comes from the report, and the next prediction applies predicted ratios to its steps."""

    def took(row: dict) -> float:
        """Attention is slower than estimated, and all else even more."""
        return row["estimate"]["time_s"] * (3 if row["id"] == "attention" else 6)

    for number in (0, 1):
        if number:
            run("next", log, "--change", "one-kernel")
        report = json.loads(Path(f"log.turn{number}.json").read_text(encoding="utf-8"))
        for row in report["rows"]:
            row["measured"] = {"time_s": took(row), "source": "made for this test"}
        Path(f"took{number}.json").write_text(json.dumps(report), encoding="utf-8")
        run("measured", log, f"took{number}.json")
    turns = read_log(log).log.turns
    whole = sum(took(r) * r["repeat"] for r in report["rows"])
    assert turns[1].measured.time_s == pytest.approx(whole)
    assert turns[1].measured.speedup == pytest.approx(turns[1].predicted.speedup), "every step took the predicted ratio"
    reports = [load_report(f"log.turn{i}.json").totals.estimate.time_s for i in (0, 1)]
    assert turns[1].predicted.speedup != pytest.approx(reports[0] / reports[1], rel=1e-3), "of measured shares, not of estimated ones"
    assert (turns[1].measured.verdict, sum(turns[1].measured.rows.values())) == ("as predicted", len(report["rows"]))


def test_a_turn_without_a_measured_one_before_it(log):
    """Is not compared, until that is measured as well."""
    run("next", log, "--change", "graph")
    run("measured", log, "--time", "6 ms", "--turn", "1")
    assert read_log(log).log.turns[1].measured.verdict == NOT_COMPARED
    assert "nothing to compare it with" in run("status", log)
    run("measured", log, "--time", "12 ms")
    assert read_log(log).log.turns[1].measured.speedup == pytest.approx(2)


def test_verdicts_by_hand():
    """Predicted 2x: 10 % around it is as predicted; 3 % around nothing is no gain; below is worse."""
    found = [verdict_of(2.0, x) for x in (0.9, 1.02, 1.5, 1.81, 2.19, 2.3)]
    assert found == ["worse", "no gain", "less than predicted", "as predicted", "as predicted", "more than predicted"]


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_every_pair_of_gains_has_one_verdict(predicted, achieved):
    """And one that is exactly as predicted says so."""
    assert verdict_of(predicted, achieved) in VERDICTS
    assert verdict_of(predicted, predicted) == "as predicted"


def test_mistakes_in_a_log_are_shown_where_they_stand(log):
    """All of them at once."""
    text = Path(log).read_text(encoding="utf-8")
    broken = text.replace("kind: loop", "kind: lop").replace("speedup: 1", "speedup: -1").replace("hypothesis:", "hypothesys:")
    Path(log).write_text(broken, encoding="utf-8")
    said = run("status", log, code=2)
    assert "unknown value 'lop'" in said
    assert "-1 is out of range" in said
    assert "did you mean 'hypothesis'" in said
    assert all(f"{log}:{line}:" in said for line in (3, 7, 8, 13))


def test_turns_come_in_order(log):
    """A turn that was cut out by hand is missed."""
    Path(log).write_text(Path(log).read_text(encoding="utf-8").replace("number: 0", "number: 1"), encoding="utf-8")
    assert "turns are numbered 0, 1, 2" in run("status", log, code=2)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("batch: 1", "batch: 2", "'decode.yaml' has changed since"),
        ("", "", "change 'grap' does not apply to what turn 1 starts from"),
    ],
)
def test_what_no_longer_holds_is_refused_at_its_place(log, before, after, said):
    """A workload that has changed, or a change that is no more."""
    run("next", log, "--change", "graph")
    if before:
        Path("decode.yaml").write_text(DECODE.replace(before, after), encoding="utf-8")
    else:
        Path(log).write_text(Path(log).read_text(encoding="utf-8").replace('"graph"', '"grap"'), encoding="utf-8")
    shown = run("next", log, code=2)
    assert said in shown
    assert shown.startswith(f"{log}:")
    assert "^" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("init", "log.md", "--workload", "decode.yaml", "-H", "h200-sxm"), "end its name in .yaml"),
        (("init", "log.yaml", "--workload", "decode.yaml", "-H", "h200-sxm"), "exists"),
        (("init", "x.yaml", "--workload", "-", "-H", "h200-sxm"), "not standard input"),
        (("init", "x.yaml", "--workload", "decode.yaml"), "add -H NAME"),
        (("next", "log.yaml", "--change", "grph"), "did you mean 'graph'"),
        (("next", "log.yaml", "--change", "graph", "--set", "batch=2"), "give one of them"),
        (("next", "log.yaml", "--least", "1000"), "nothing is advised that gains 1000x"),
        (("measured", "log.yaml"), "give the report of a measurement"),
        (("measured", "log.yaml", "--time", "5"), "--time"),
        (("measured", "log.yaml", "--time", "5 ms", "--turn", "3"), "there are turns 0 to 0"),
        (("measured", "log.yaml", "log.turn0.json"), "the whole was not measured"),
        (("measured", "log.yaml", "none.json"), "no such report"),
        (("status", "none.yaml"), "no such file"),
        (("status", "decode.yaml"), "expected a loop, but this is a workload"),
    ],
)
def test_what_cannot_be_obeyed(log, arguments, said):
    """One sentence with the fix, exit 2, and the log as it was."""
    before = Path(log).read_bytes()
    assert said in run(*arguments, code=2)
    assert Path(log).read_bytes() == before


def test_the_log_is_plain_yaml(log):
    """The reader of all our files takes it."""
    assert parse(read_source(log)).entries["kind"].value.text == "loop"


def test_a_report_of_something_else_is_no_measurement_of_a_turn(log):
    """Another device and another work are named; the turn's own work is taken."""
    for change, part in (
        (lambda r: r["hardware"].update(name="l4"), "is of l4"),
        (lambda r: r["rows"][0].update(id="other"), "is of other work than the turn"),
    ):
        report = json.loads(Path("log.turn0.json").read_text(encoding="utf-8"))
        for row in report["rows"]:
            row["measured"] = {"time_s": 1.0, "source": "made for this test"}
        change(report)
        Path("other.json").write_text(json.dumps(report), encoding="utf-8")
        assert part in run("measured", log, "other.json", code=2)


def test_nothing_is_written_that_could_not_be_read_again(log):
    before = Path(log).read_text(encoding="utf-8")
    assert "cannot be written" in run("measured", log, "--time", "1e300 s", code=2)
    assert Path(log).read_text(encoding="utf-8") == before


def test_a_hypothesis_is_no_markup(log):
    """Pipes would end the cell, backticks the code span, brackets make a link, a line break ends the row."""
    run("next", log, "--set", "batch=64", "--hypothesis", "a | b `c` [d](http://e)\nf")
    rows = [line for line in run("status", log, "--format", "markdown").splitlines() if line.startswith("|")]
    assert len(rows) == 4
    cells = re.split(r"(?<!\\)\|", rows[3])[1:-1]
    assert len(cells) == 8
    assert cells[7].strip() == "``a \\| b `c` [d](http://e) f``"
    assert cells[1].strip() == "`batch=64`"
