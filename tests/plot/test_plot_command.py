"""``roofline plot``: formats by ending, errors with their fix, the same bytes each time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from roofline.cli.app import app, hoisted
from tests.plot.conftest import INGEST, SEARCH, SWEEP, Made

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made) -> Run:
    """A command in an empty folder in which ``r.json`` is a report."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.json").write_bytes(made("analyze", "w.yaml").read_bytes())

    def call(*words: str, code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, hoisted(["plot", *words]), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return call


def test_the_ending_picks_the_format(run: Run) -> None:
    run("r.json", "-o", "x.svg")
    run("r.json", "-o", "x.html")
    run("r.json", "-o", "x.txt")
    assert Path("x.svg").read_text(encoding="utf-8").startswith("<svg ")
    assert Path("x.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "x: FLOP per byte of HBM" in Path("x.txt").read_text(encoding="utf-8")
    assert run("r.json", "-o", "-", "--format", "svg").stdout == Path("x.svg").read_text(encoding="utf-8")


def test_png_by_the_renderer(run: Run) -> None:
    pytest.importorskip("resvg_py")
    run("r.json", "-o", "x.png", "--width", "400")
    data = Path("x.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 800, "twice the width"


def test_png_without_the_renderer_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    result = run("r.json", "-o", "x.png", code=3)
    assert "pip install 'roofline[plot-png]'" in result.stderr
    assert not Path("x.png").exists()


def test_standard_input(run: Run) -> None:
    text = Path("r.json").read_text(encoding="utf-8")
    assert run("-", "--format", "svg", stdin=text).stdout == run("r.json", "--format", "svg").stdout
    assert "given once" in run("-", "-", code=2, stdin=text).stderr


def test_equal_input_gives_equal_bytes(run: Run) -> None:
    for format_ in ("svg", "html", "text"):
        assert run("r.json", "--format", format_).stdout == run("r.json", "--format", format_).stdout


def test_waterfall_of_a_step(run: Run) -> None:
    assert "where the time of up goes" in run("r.json", "--figure", "waterfall", "--step", "up").stdout
    assert "Where the time of up goes" in run("r.json", "--figure", "waterfall", "--step", "up", "--format", "svg").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.json",), "no such file"),
        (("r.json", "--figure", "rooflin"), "did you mean 'roofline'"),
        (("r.json", "--theme", "drak"), "did you mean 'dark'"),
        (("r.json", "--format", "pdf"), "known: text, svg, html, png"),
        (("r.json", "--step", "up"), "--figure waterfall"),
        (("r.json", "--figure", "waterfall", "--step", "upp"), "did you mean 'up'"),
        (("r.json", "--width", "10"), "360"),
        (("r.json", "r.json"), "-o FILE.html"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, words: tuple[str, ...], said: str) -> None:
    result = run(*words, code=2)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [SWEEP, SEARCH, INGEST], ids=lambda w: w[0])
def test_sweeps_searches_and_traces(run: Run, made: Made, words: tuple[str, ...]) -> None:
    path = str(made(*words))
    assert run(path, "--format", "svg").stdout.startswith("<svg ")
    assert run(path, "--format", "html").stdout.startswith("<!doctype html>")
    assert "-o FILE.svg" in run(path, code=2).stderr
    assert "both are reports" in run("r.json", path, "--format", "html", code=2).stderr


@pytest.mark.parametrize("words", [SWEEP, SEARCH, INGEST], ids=lambda w: w[0])
def test_broken_json_is_refused_with_its_place(run: Run, made: Made, words: tuple[str, ...]) -> None:
    found = json.loads(made(*words).read_text(encoding="utf-8"))
    for broken, said in (
        ({**found, "schema": 99}, "schema 99"),
        ({**found, {"sweep": "points", "search": "pareto", "ingest": "streams"}[words[0]]: 3}, "expected an array, found an integer"),
    ):
        Path("b.json").write_text(json.dumps(broken), encoding="utf-8")
        assert said in run("b.json", "--format", "svg", code=2).stderr
    if words[0] == "sweep":
        found["points"][0]["bound_s"] = -1
        Path("b.json").write_text(json.dumps(found), encoding="utf-8")
        assert "report.points[0].bound_s: -1 is out of range" in run("b.json", "--format", "svg", code=2).stderr


def test_two_reports_are_drawn_over_each_other(run: Run, made: Made) -> None:
    other = str(made("analyze", "w.yaml", "--set", "batch=16"))
    assert 'base"' in run("r.json", other, "--format", "svg").stdout
    assert "what changed" in run("r.json", other, "--format", "html").stdout
    Path("far.json").write_bytes(made("analyze", "w.yaml", "-H", "h100-sxm").read_bytes())
    assert "not comparable" in run("far.json", other, "--format", "html", code=2).stderr
    assert "NOT COMPARABLE" in run("far.json", other, "--allow-context-change", "--format", "html").stdout
