"""``roofline ingest trace``: what is printed, written and kept back, and how it ends."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from roofline.cli.app import app_for
from roofline.ingest.trace_events import read_trace
from roofline.report.published import schema_of
from roofline.spec.workload import load_workload
from tests.ingest.traces import Made, product, scalar, tensor

jsonschema = pytest.importorskip("jsonschema")  # a machine with a GPU may lack it

DATA = Path(__file__).parent.parent / "data" / "traces"
TRACES = sorted(str(p) for p in DATA.glob("*.gz"))
NORMS = str(DATA / "mi300x_norm_layers_fwd_bwd.pt.trace.json.gz")


def run(*arguments: str, code: int = 0, stdin: bytes | None = None) -> Result:
    found = CliRunner().invoke(app_for(("ingest",)), ["ingest", "trace", *arguments], input=stdin)
    assert found.exit_code == code, found.output
    assert found.exception is None or isinstance(found.exception, SystemExit)
    return found


def step(**metadata: Any) -> Made:
    """A step of a few operators, one of them unknown."""
    made = Made(**metadata)
    made.event("user_annotation", "ProfilerStep#3", 0, 900, 1)
    product(made, 512, 1024, 256, 100)
    product(made, 512, 1024, 256, 120)
    owner = made.operator(
        "aten::native_layer_norm", 130, 5, tensor(64, 512), ([], "ScalarList", "[512]"), tensor(512), tensor(512), scalar("1e-5")
    )
    made.kernel("layer_norm", 200, 5, launched=131, owner=owner)
    odd = made.operator("mine::secret_sauce", 140, 5, tensor(64, 512))
    made.kernel("odd_kernel", 250, 7, launched=141, owner=odd)
    made.kernel(
        "ncclAllReduce",
        300,
        5,
        launched=150,
        stream=9,
        **{"Collective name": "allreduce", "In msg nelems": 64, "Group size": 8, "dtype": "Float"},
    )
    return made


# --------------------------------------------------------------------------- output
def test_the_first_line_is_the_coverage(tmp_path: Path) -> None:
    assert run(step().write(tmp_path)).stdout.splitlines()[0] == ("coverage 81.1 %: the work of 30.00 µs of 37.00 µs in 5 kernels is known")


@pytest.mark.parametrize("path", TRACES, ids=lambda p: Path(p).name.split(".")[0])
def test_json_follows_its_schema_and_is_the_same_every_time(path: str) -> None:
    """Keys never vanish, and there is no number that JSON has not."""
    first = run(path, "--format", "json").stdout
    assert run(path, "--format", "json").stdout == first
    found = json.loads(first, parse_constant=lambda word: pytest.fail(word))
    jsonschema.validate(found, schema_of("trace"))
    assert {"kernels", "gpu_time_s", "coverage"} <= set(found)


def test_the_committed_schema_is_the_present_one() -> None:
    text = (Path(__file__).parent.parent.parent / "docs/schema/trace.json").read_text(encoding="utf-8")
    assert json.loads(text) == schema_of("trace")


def test_csv_has_a_line_for_each_operator(tmp_path: Path) -> None:
    """Unknown work is an empty cell, not a zero."""
    found = list(csv.DictReader(io.StringIO(run(step().write(tmp_path), "--format", "csv").stdout)))
    by_name = {r["name"]: r for r in found}
    assert float(by_name["aten::mm"]["tensor_flop"]) == 2 * 512 * 1024 * 256
    assert by_name["mine::secret_sauce"]["tensor_flop"] == by_name["mine::secret_sauce"]["hbm_bytes"] == ""
    empty = Made().write(tmp_path)
    assert run(empty, "--format", "csv").stdout.splitlines() == [",".join(found[0])]


def test_a_table_names_what_is_unknown_and_why(tmp_path: Path) -> None:
    shown = run(step().write(tmp_path), "-H", "h200-sxm").stdout
    assert "mine::secret_sauce" in shown
    assert "no handler for mine::secret_sauce" in shown
    assert "of roof" in shown
    assert "waiting: " in shown


def test_an_ascii_terminal_gets_us(tmp_path: Path) -> None:
    shown = CliRunner(charset="ascii").invoke(app_for(("ingest",)), ["ingest", "trace", step().write(tmp_path)])
    assert "30.00 us of 37.00 us" in shown.stdout
    assert shown.stdout.isascii()


def test_without_gpu_events_it_says_so(tmp_path: Path) -> None:
    made = Made()
    made.operator("aten::mm", 0, 10, tensor(4, 4), tensor(4, 4))
    found = run(made.write(tmp_path))
    assert found.stdout.splitlines()[0] == "coverage unknown: the trace has no GPU kernels"
    assert "W102" in found.stderr


def test_kernels_of_no_time_are_kernels_all_the_same(tmp_path: Path) -> None:
    """A recording whose durations were cut off is another mistake than one without the GPU."""
    made = step()
    for event in made.events:
        if event["cat"] == "kernel":
            event["dur"] = 0
    found = run(made.write(tmp_path))
    assert found.stdout.splitlines()[0] == "coverage unknown: every kernel of the trace takes 0 s"
    assert "W107" in found.stderr
    assert "W102" not in found.stderr
    report = json.loads(run(str(tmp_path / "made.json"), "--format", "json").stdout)
    assert (report["coverage"], report["unavailable"]["coverage"]) == (None, "all kernels take 0 s")
    assert report["kernels"] > 0


@pytest.mark.parametrize(
    ("named", "asked", "said"),
    [
        ("NVIDIA H200", "h100-sxm", "h100-sxm is not the device of the trace, which looks like h200-sxm: roofs"),
        ("Some Chip 9", "h100-sxm", "h100-sxm is not the device of the trace, which no profile is of: roofs"),
        ("NVIDIA H200", "h200-sxm", None),
        (None, "h200-sxm", None),
    ],
)
def test_another_device_than_the_trace_names_is_said(tmp_path: Path, named: str | None, asked: str, said: str | None) -> None:
    made = step(**({"deviceProperties": [{"id": 0, "name": named}]} if named else {}))
    found = run(made.write(tmp_path), "-H", asked)
    assert ("warning W108: " in found.stderr) == (said is not None)
    assert (said or "") in found.stderr
    assert "Some Chip" not in found.stderr
    advice = CliRunner().invoke(app_for(("advise",)), ["advise", str(tmp_path / "made.json"), "-H", asked])
    assert ("warning W108: " in advice.stderr) == (said is not None)


def test_a_suggested_profile_is_not_taken(tmp_path: Path) -> None:
    other = run(step(deviceProperties=[{"id": 0, "name": "NVIDIA H200 of another kind"}]).write(tmp_path))
    assert "no profile matches" in other.stdout
    made = step(deviceProperties=[{"id": 0, "name": "NVIDIA H200"}])
    found = run(made.write(tmp_path))
    assert "add -H h200-sxm" in found.stdout
    assert "of roof" not in found.stdout


def test_stdin_and_files(tmp_path: Path) -> None:
    """The same report from a pipe; -o picks the format by its ending."""
    path = step().write(tmp_path)
    run(path, "-o", str(tmp_path / "out.json"))
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["kernels"] == 5
    piped = json.loads(run("-", "--format", "json", stdin=Path(path).read_bytes()).stdout)
    assert {**piped, "inputs": []} == {**written, "inputs": []}
    assert piped["inputs"][0]["sha256"] == written["inputs"][0]["sha256"] == hashlib.sha256(Path(path).read_bytes()).hexdigest()


# --------------------------------------------------------------------------- workload
@pytest.mark.parametrize("path", TRACES, ids=lambda p: Path(p).name.split(".")[0])
def test_a_written_workload_is_read_again(tmp_path: Path, path: str) -> None:
    """The same operators with the same times, as often; analyze and diff go on from it."""
    target = tmp_path / "w.yaml"
    report = json.loads(run(path, "--format", "json", "--workload", str(target), "--link", "nvlink", "-H", "h200-sxm").stdout)
    workload = load_workload(str(target))
    known = [r for r in report["rows"] if r["work"]]
    assert sum(s.repeat for s in workload.steps) == sum(r["calls"] * len(r["work"]) for r in known)
    total = sum((s.measured_s or 0) * s.repeat for s in workload.steps)
    assert total == pytest.approx(sum(r["time_s"] for r in known if len(r["work"]) == 1), rel=1e-6)
    for row in known:
        first = next(s for s in workload.steps if s.id.split("/")[0] == row["id"])
        for key, value in row["work"][0]["fields"].items():
            assert getattr(first.op, key) == value


def test_collectives_need_a_link_to_be_written(tmp_path: Path) -> None:
    path, target = step().write(tmp_path), tmp_path / "w.yaml"
    run(path, "--workload", str(target))
    assert "add --link" in target.read_text()
    assert "all_reduce" not in target.read_text()
    run(path, "--workload", str(target), "--link", "nvlink")
    assert "all_reduce" in target.read_text()


def test_nothing_recognised_is_nothing_to_write(tmp_path: Path) -> None:
    made = Made()
    made.kernel("odd", 10, 5, launched=1)
    assert "nothing to write" in run(made.write(tmp_path), "--workload", str(tmp_path / "w.yaml"), code=2).stderr
    assert not (tmp_path / "w.yaml").exists()


# --------------------------------------------------------------------------- errors
def test_mistakes_end_with_2(tmp_path: Path) -> None:
    path = step().write(tmp_path)
    text = Path(path).read_text()
    (tmp_path / "cut.json").write_text(text[:-40])
    (tmp_path / "bad.json").write_text(text.replace('"ph"', "ph", 1))
    for arguments, said in (
        ((str(tmp_path / "cut.json"),), "truncated"),
        ((str(tmp_path / "bad.json"),), "bad.json:1:"),
        ((str(tmp_path / "none.json"),), "no such file"),
        ((path, "--steps", "4"), "no step 4; it has 3"),
        ((path, "-H", "h300"), "unknown hardware"),
        ((path, "-H", "h200-sxm", "--link", "nvlnk"), "did you mean 'nvlink'"),
        ((path, "--format", "xml"), "unknown format"),
    ):
        assert said in run(*arguments, code=2).stderr


def test_part_of_a_truncated_trace_can_be_asked_for(tmp_path: Path) -> None:
    path = step().write(tmp_path)
    (tmp_path / "cut.json").write_text(Path(path).read_text()[:-40])
    found = run(str(tmp_path / "cut.json"), "--partial", "--format", "json")
    assert "W101" in found.stderr
    assert json.loads(found.stdout)["partial"]


# --------------------------------------------------------------------------- privacy
SECRET = "hf_Zp93secrettoken"
PLACES = {
    "host_name": SECRET,
    "environment": {"HF_TOKEN": SECRET, "inner": [{"deep": SECRET}, {"x": SECRET}]},
    "distributedInfo": {"backend": SECRET, "pg_config": [{"pg_name": SECRET}]},
    "traceName": f"/home/{SECRET}/trace.json",
    "deviceProperties": [{"id": 0, "name": f"NVIDIA {SECRET}", "serial": SECRET}],
    "INFO": [SECRET],
}


def private(folder: Path) -> str:
    """A trace with a secret in all of its metadata, in arguments that are not asked for, and in notes of the user."""
    made = step(**PLACES)
    for event in made.events:
        event["args"] |= {"kernel_file": f"/home/{SECRET}.py", "Process Group Name": SECRET, "Call stack": SECRET, "env": {SECRET: 1}}
        event["id"] = SECRET
    made.event("user_annotation", SECRET, 10, 5, 1)
    made.event("python_function", f"/home/{SECRET}/train.py(3): main", 10, 5, 1)
    made.events.append({"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": SECRET}})
    made.events.append({"ph": "i", "name": SECRET, "s": "g", "pid": SECRET, "tid": SECRET, "ts": 5})
    return made.write(folder)


@pytest.mark.parametrize(
    "arguments", [(), ("--format", "json"), ("--format", "csv"), ("-H", "h200-sxm", "--all"), ("--steps", "3"), ("--steps", "9")]
)
def test_nothing_of_the_metadata_is_shown(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = private(tmp_path)
    target = tmp_path / "w.yaml"
    found = CliRunner().invoke(app_for(("ingest",)), ["ingest", "trace", path, *arguments, "--workload", str(target)])
    assert SECRET not in found.stdout + found.stderr
    assert SECRET not in (target.read_text() if target.exists() else "")


def test_nothing_of_it_is_even_kept(tmp_path: Path) -> None:
    """Annotations of the user are let go while reading; the device's name is compared with the profiles' and not shown."""
    trace = read_trace(private(tmp_path))
    assert not any(SECRET in text for text in trace.words.texts)
    assert not any(SECRET.encode() in text for s in trace.signatures for text in (s.dims, s.types, s.values))


def test_errors_show_nothing_of_the_text_either(tmp_path: Path) -> None:
    """Cut or broken anywhere, even within the secrets."""
    text = Path(private(tmp_path)).read_text()
    place = text.index(SECRET)
    changed = [(f'"{SECRET}"', SECRET), ('"args": {', f'"args": {{{SECRET}'), (SECRET, f'{SECRET}" {SECRET}')]
    for broken in (text[: place + 9], f"{SECRET}{text}", *(text.replace(a, b, 1) for a, b in changed)):
        (tmp_path / "broken.json").write_text(broken)
        assert SECRET not in run(str(tmp_path / "broken.json"), code=2).output


def test_names_cannot_drive_a_terminal_or_a_spreadsheet(tmp_path: Path) -> None:
    made = Made()
    made.kernel("=HYPERLINK(1)\x1b[31m", 10, 5, launched=1)
    path = made.write(tmp_path)
    for arguments in ((), ("--format", "csv")):
        assert "\x1b" not in run(path, *arguments).stdout
    assert "'=HYPERLINK" in run(path, "--format", "csv").stdout
