"""JSON that a command wrote, with one value changed or taken out: plots and advice come of it, or a refusal that names the file.

What was found by trying each value of each file in turn is listed by name; the rest is drawn at random.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.cli.advised import Given, advised
from roofline.cli.plot import _figure, _page, _show
from roofline.errors import RooflineError
from roofline.report.load import load
from roofline.report.model import Report
from tests.plot.conftest import INGEST, SEARCH, SWEEP, made

__all__ = ["made"]
Key = tuple[str | int, ...]
GONE: Any = object()
CHANGES = (GONE, None, 0, -1, 1e-99, 1e199, "", "zz9", [], {})
KEPT_ROWS = 3
BASES = {"report": ("analyze", "w.yaml"), "sweep": SWEEP, "search": SEARCH, "trace": INGEST}


@pytest.fixture(scope="session")
def files(made: Callable[..., Path]) -> dict[str, Any]:
    """What the commands wrote, lists cut to what a change of one value needs."""
    found = {name: json.loads(made(*words).read_text(encoding="utf-8")) for name, words in BASES.items()}
    for name, key in (("report", "rows"), ("trace", "rows"), ("sweep", "points"), ("search", "pareto")):
        found[name][key] = [one for one in found[name][key] if one.get("work", True)][:KEPT_ROWS]
    return found


def places(value: Any, at: Key = ()) -> Iterator[Key]:
    """Every value of a file, by its keys; of a list the first."""
    if at:
        yield at
    inner: Sequence[Any] = list(value.items()) if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


def changed(value: Any, at: Key, new: Any) -> Any:
    """The file with another value there, or without it."""
    whole = copy.deepcopy(value)
    inner = whole
    for key in at[:-1]:
        inner = inner[key]
    if new is GONE:
        del inner[at[-1]]
    else:
        inner[at[-1]] = new
    return whole


def used(path: Path) -> None:
    """Drawn in every way, and asked for advice; refusals are taken."""
    for use in (_drawn, _advised):
        try:
            use(str(path))
        except RooflineError:
            continue


def _drawn(path: str) -> None:
    found = load(path)
    _page(found, None, ("a", "b"), False)
    _figure(found, None, "roofline", None, "light", 640.0)
    if isinstance(found, Report):
        _figure(found, None, "waterfall", None, "light", 640.0)
        _show(found, None, "roofline", None, str(Path(path).with_suffix(".txt")))


def _advised(path: str) -> None:
    advised(Given(subject=path, hardware=None))


@pytest.mark.parametrize("name", BASES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_value_is_used_or_refused(name: str, data: st.DataObject, files: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "changed.json"
    at = data.draw(st.sampled_from(list(places(files[name]))))
    path.write_text(json.dumps(changed(files[name], at, data.draw(st.sampled_from(CHANGES)))), encoding="utf-8")
    used(path)


FOUND = [
    ("report", ("rows",), [], "report.rows: a workload has a step at least"),
    ("report", ("rows", 0, "direction"), "zz9", "rows[0].direction: 'zz9' is not one of forward"),
    ("report", ("rows", 0, "repeat"), 0, "rows[0].repeat: a step runs once"),
    ("report", ("rows", 0, "flop", "tensor"), GONE, "rows[0].flop lacks 'tensor'"),
    ("report", ("rows", 0, "bytes"), {}, "rows[0].bytes lacks 'hbm'"),
    ("report", ("totals", "flop"), {}, "totals.flop lacks 'tensor', 'vector', 'sfu'"),
    ("sweep", ("points", 0, "params", "batch"), GONE, "points[0].params lacks 'batch'"),
    ("sweep", ("points", 0, "estimate_s"), 0, "points[0].estimate_s: a time is above 0"),
    ("search", ("job", "phase"), GONE, "job lacks 'phase'"),
    ("search", ("pareto", 0, "step_s"), 0, "pareto[0].step_s: a time is above 0"),
    ("trace", ("rows", 0, "flop"), {}, "rows[0].flop lacks 'tensor'"),
    ("trace", ("rows", 0, "work", 0, "op"), "zz9", "rows[0].work[0].op: unknown operator 'zz9'"),
    ("trace", ("rows", 0, "work", 0, "fields", "dtype"), "zz9", "rows[0].work[0].fields.dtype: 'zz9' is not a number format"),
    ("trace", ("rows", 0, "work", 0, "fields"), {}, "rows[0].work[0].fields: "),
    ("trace", ("idle", "causes", "host"), GONE, "idle.causes lacks 'host'"),
    ("trace", ("idle", "longest"), [], "idle.longest: there is idle time"),
]


@pytest.mark.parametrize(("name", "at", "new", "said"), FOUND, ids=lambda v: v if isinstance(v, str) else None)
def test_the_field_and_the_file_are_named(name: str, at: Key, new: Any, said: str, files: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(changed(files[name], at, new)), encoding="utf-8")
    with pytest.raises(RooflineError) as refused:
        load(str(path))
    assert str(path) in str(refused.value)
    assert said in str(refused.value)


FIELDS = [
    ("rows", "x", "a whole number from 1"),
    ("dtype", 7, "a number format"),
    ("rows", 0.5, "a whole number"),
    ("zz9", 1, "no such field"),
]


@pytest.mark.parametrize(("field", "value", "said"), FIELDS)
def test_a_field_of_a_row_is_named_where_advice_makes_an_operator_of_it(
    field: str, value: Any, said: str, files: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "changed.json"
    norm = next(i for i, row in enumerate(files["report"]["rows"]) if row["op"] == "rmsnorm")
    path.write_text(json.dumps(changed(files["report"], ("rows", norm, "fields", field), value)), encoding="utf-8")
    with pytest.raises(RooflineError, match=rf"rows\[{norm}\]\.fields\.{field}: .*{said}"):
        advised(Given(subject=str(path), hardware=None))
