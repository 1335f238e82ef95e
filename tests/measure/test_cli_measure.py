"""``roofline measure`` and ``roofline kernels`` as commands: what they print, write, refuse, and leave alone."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline.cli.measure as command
from roofline.cli.outcome import settings
from roofline.measure.device import INSTALL_TORCH
from roofline.measure.registry import KERNELS, names
from roofline.report.store import load_report

from .conftest import ROOT, Run, fake_device

On = Callable[..., Any]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "report.json").read_text(encoding="utf-8"))

jsonschema = pytest.importorskip("jsonschema")  # a machine with a GPU may lack it


@pytest.fixture(autouse=True)
def _flags() -> Iterator[None]:
    yield
    settings.quiet = settings.debug = False


class TestCpu:
    def test_a_kernel_with_fields_and_pass(self, on_cpu: Run) -> None:
        result = on_cpu("-k", "gemm", "--set", "m=64", "--set", "k=32", "--pass", "forward+backward", "--format", "json")
        assert result.exit_code == 0, result.stderr
        report = json.loads(result.stdout)
        jsonschema.validate(report, SCHEMA)
        (row,) = report["rows"]
        assert (row["fields"]["m"], row["fields"]["k"], row["direction"]) == (64, 32, "forward+backward")
        assert row["measured"]["time_s"] > 1e-7
        assert row["measured"]["check"]["passed"]
        conditions = {k: row["measured"]["conditions"][k] for k in ("cache", "launch", "mode")}
        assert conditions == {"cache": "warm", "launch": "eager", "mode": "burst"}

    def test_a_workload_each_distinct_step_once_and_then_the_whole(self, on_cpu: Run, place: Path) -> None:
        result = on_cpu("w.yaml", "-o", "r.json", limit="0.3 s")
        assert (result.exit_code, result.stdout) == (0, "")
        report = load_report("r.json")
        jsonschema.validate(json.loads((place / "r.json").read_text(encoding="utf-8")), SCHEMA)
        assert report.rows[0].measured == report.rows[2].measured
        whole = report.totals.measured
        assert whole
        assert (whole.source, whole.status) == ("a run of the whole sequence", "ok")
        assert whole.samples_s
        assert report.environment["device_kind"] == "cpu"
        assert report.inputs[0].path == "w.yaml"

    def test_a_measured_report_diffs_against_another(self, on: On, run: Run, place: Path) -> None:
        for name, call_s in (("base", 10e-6), ("same", 10.01e-6), ("slow", 11e-6)):
            on(fake_device(call_s=call_s, noise=0.01), "-k", "gemm", "-o", f"{name}.json")
        found = {name: run("diff", "base.json", f"{name}.json", "--format", "json") for name in ("same", "slow")}
        verdicts = {name: json.loads(result.stdout)["rows"][0]["measured"]["verdict"] for name, result in found.items()}
        assert verdicts == {"same": "same", "slow": "worse"}
        assert (found["same"].exit_code, found["slow"].exit_code) == (0, 1)

    def test_nothing_of_this_machine_is_in_the_report(self, on_cpu: Run, place: Path) -> None:
        text = on_cpu("-k", "softmax", "--format", "json").stdout
        assert str(place) not in text
        assert os.uname().nodename not in text
        assert set(json.loads(text)["environment"]) == {
            "device", "device_kind", "device_uuid", "threads", "torch", "machine", "last_level_cache_bytes", "timer_resolution_s",
        }  # fmt: skip


class TestFormats:
    def test_the_table_says_what_was_measured_and_where_the_time_goes(self, on: On) -> None:
        result = on(fake_device(), "w.yaml", "-H", "h100-sxm", "--cache", "warm")
        lines = result.stdout.splitlines()
        assert result.exit_code == 0, result.stderr
        assert lines[0] == "tiny measured on Fake device"
        heads = "step kernel binds bound estimate band in band measured 95 % n achieved of roof SM MHz W error status"
        assert " ".join(lines[1].split()) == heads
        assert lines[2].split()[:2] == ["up", "gemm"]
        assert any(line.startswith("the whole sequence as one run: 50.00 us; the sum of its steps: 50.00 us") for line in lines)
        assert lines[-1].startswith("up takes 60.0 % of the measured time; at its bound")

    def test_csv_and_markdown(self, on: On) -> None:
        (row,) = csv.DictReader(io.StringIO(on(fake_device(), "-k", "gemm", "--format", "csv").stdout))
        assert float(row["measured_time_s"]) == pytest.approx(10e-6)
        text = on(fake_device(), "w.yaml", "--format", "md").stdout
        assert text.startswith("### `tiny measured on Fake device`\n\n| step |")
        assert "| `up` |" in text
        assert "- `up` takes 60.0 %" in text

    def test_the_ending_of_the_file_chooses(self, on: On, place: Path) -> None:
        for name, start in (("r.json", '{\n "schema": 1'), ("r.csv", "workload,"), ("r.md", "### "), ("r.txt", "kernel gemm measured")):
            result = on(fake_device(), "-k", "gemm", "-o", name)
            assert (result.exit_code, result.stdout) == (0, "")
            assert (place / name).read_text(encoding="utf-8").startswith(start)

    def test_equal_timings_give_equal_bytes(self, on: On) -> None:
        one, other = (on(fake_device(noise=0.02, seed=1), "w.yaml", "--format", "json").stdout for _ in range(2))
        assert one == other
        jsonschema.validate(json.loads(one), SCHEMA)

    def test_quiet_changes_nothing_on_stdout(self, on: On) -> None:
        loud, quiet = (on(fake_device(), "w.yaml", *flag) for flag in ((), ("-q",)))
        assert loud.stdout == quiet.stdout
        assert "W001" in loud.stderr
        assert quiet.stderr == ""


class TestProfiles:
    def test_none_gives_no_bound_and_says_so(self, on: On) -> None:
        result = on(fake_device(), "-k", "gemm", "--format", "json")
        assert json.loads(result.stdout)["rows"][0]["bound"] is None
        assert "W001" in result.stderr

    def test_a_named_profile_gives_bound_and_share_of_each_roof(self, on: On) -> None:
        row = json.loads(on(fake_device(call_s=1e-3), "-k", "gemm", "-H", "x86-server", "--format", "json").stdout)["rows"][0]
        assert row["bound"]["time_s"] > 0
        shares = row["measured"]["share_of_peak"]
        limiter = row["bound"]["limiter"]
        assert shares[limiter] == pytest.approx(row["bound"]["per_resource_s"][limiter] / 1e-3)
        assert row["measured"]["achieved_per_s"]["hbm"] == pytest.approx(row["bytes"]["hbm"] / 1e-3)

    def test_auto_without_a_match_is_missing_and_nothing_is_measured(self, run: Run) -> None:
        result = run("measure", "-k", "gemm", "--device", "cpu")
        assert (result.exit_code, result.stdout) == (3, "")
        assert "roofline calibrate --device cpu -o FILE" in result.stderr

    def test_auto_finds_the_profile_of_the_devices_name(self, on: On) -> None:
        device = fake_device(call_s=1.0, info={"name": "NVIDIA H200", "processors": 132})
        report = json.loads(on(device, "-k", "gemm", "-H", "auto", "--format", "json").stdout)
        assert report["hardware"]["name"] == "h200-sxm"

    def test_what_the_profile_lacks_is_said_before_anything_is_measured(self, on: On) -> None:
        device = fake_device()
        result = on(device, "-k", "gemm", "--set", "dtype=fp64", "-H", "trainium2")
        assert result.exit_code == 2
        assert "fp64" in result.stderr
        assert device.samples == 0


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["-k", "flesh"], "unknown kernel 'flesh'; did you mean 'flash'?"),
            (["-k", "gemm", "--cache", "hot"], "--cache 'hot' is unknown"),
            (["-k", "gemm", "--launch", "grph"], "--launch 'grph' is unknown; did you mean 'graph'?"),
            (["-k", "gemm", "--mode", "x"], "--mode 'x' is unknown"),
            (["-k", "gemm", "--time-limit", "10"], "--time-limit: '10' has no unit"),
            (["-k", "gemm", "--time-limit", "0 s"], "--time-limit: '0 s' must be more than 0"),
            (["-k", "gemm", "--time-limit", "-1 s"], "--time-limit:"),
            (["-k", "gemm", "--time-limit", "inf s"], "--time-limit:"),
            (["-k", "gemm", "-o", "gone/r.json"], "cannot write 'gone/r.json'"),
            (["-k", "gemm", "-o", "locks"], "cannot write 'locks'"),
            (["-k", "gemm", "--format", "xml"], "unknown format 'xml'"),
        ],
    )
    def test_mistakes_are_said_before_a_device_is_opened(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
    ) -> None:
        monkeypatch.setattr(command, "_open", lambda choice: pytest.fail("opened"))
        result = run("measure", *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "give either a workload or --kernel NAME"),
            (["w.yaml", "-k", "gemm"], "give either a workload or --kernel NAME"),
            (["-k", "gemm", "--set", "q=4"], "unknown key 'q'"),
            (["-k", "gemm", "--pass", "sideways"], "sideways"),
            (["w.yaml", "--pass", "backward"], "--pass goes with --kernel"),
            (["gone.yaml"], "gone.yaml"),
            (["-k", "gemm", "-H", "h1000"], "unknown hardware profile 'h1000'"),
        ],
    )
    def test_so_are_those_in_what_is_to_be_measured(self, on: On, words: list[str], said: str) -> None:
        device = fake_device()
        result = on(device, *words)
        assert (result.exit_code, result.stdout, device.samples) == (2, "", 0)
        assert said in result.stderr

    def test_a_graph_on_the_cpu_is_refused_and_not_replaced(self, on_cpu: Run) -> None:
        result = on_cpu("-k", "gemm", "--launch", "graph")
        assert result.exit_code == 2
        assert "a CPU has no graphs" in result.stderr

    def test_what_needs_a_gpu_is_missing_on_a_cpu(self, on_cpu: Run) -> None:
        result = on_cpu("-k", "cudnn", "--set", "dtype=bf16")
        assert result.exit_code == 3
        assert "it needs a CUDA device" in result.stderr

    def test_no_gpu_is_said_with_the_fix_and_the_cpu_is_never_taken_instead(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        result = run("measure", "-k", "gemm", "-H", "none")
        assert (result.exit_code, result.stdout) == (3, "")
        assert "no CUDA device" in result.stderr
        assert "--device cpu" in result.stderr

    def test_no_torch_is_said_with_the_command_to_install_it(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        monkeypatch.setattr("roofline.measure.device.importlib.import_module", lambda name: (_ for _ in ()).throw(_no(name)))
        result = run("measure", "-k", "gemm", "--device", "cpu")
        assert result.exit_code == 3
        assert INSTALL_TORCH in result.stderr


def _no(name: str) -> ImportError:
    return ImportError(f"No module named '{name}'", name=name)


class TestOwnKernels:
    """Row 6: code of the user's runs only when the command line names it, and takes the place of nothing."""

    def test_it_is_measured_as_the_operator_that_it_says(self, on: On, mine: Path) -> None:
        result = on(fake_device(), "-k", "mine:matmul", "--set", "m=16", "--format", "json")
        assert result.exit_code == 0, result.stderr
        (row,) = json.loads(result.stdout)["rows"]
        assert (row["id"], row["op"], row["fields"]["m"]) == ("mine_matmul", "gemm", 16)
        assert row["measured"]["conditions"]["kernel"] == "mine:matmul"

    def test_the_operator_may_be_given(self, on: On, mine: Path) -> None:
        refused = on(fake_device(), "-k", "mine:unlabelled")
        assert refused.exit_code == 2
        assert "does not say which operator it runs" in refused.stderr
        assert on(fake_device(), "-k", "mine:unlabelled", "--op", "gemm").exit_code == 0

    @pytest.mark.parametrize("name", ["zeros", "nothing", "stale"])
    def test_wrong_output_is_exit_4_and_never_timed(self, on: On, mine: Path, name: str) -> None:
        device = fake_device()
        result = on(device, "-k", f"mine:{name}", "-o", "r.json")
        assert (result.exit_code, device.samples) == (4, 0)
        assert f"mine_{name}: invalid: its output is" in result.stderr
        row = load_report("r.json").rows[0]
        assert row.measured
        assert (row.measured.status, row.measured.time_s) == ("invalid", 0.0)

    def test_its_own_exception_is_exit_4_with_its_place(self, on: On, mine: Path) -> None:
        result = on(fake_device(), "-k", "mine:raises")
        assert result.exit_code == 4
        assert "ValueError: my own mistake (mine.py:" in result.stderr
        assert "Traceback" not in result.stderr

    def test_one_that_is_right_at_first_only_is_exit_4(self, on: On, mine: Path) -> None:
        result = on(fake_device(), "-k", "mine:tires")
        assert result.exit_code == 4
        assert "after timing, its output is off" in result.stderr

    @pytest.mark.parametrize("key", ["kernel: os:system", "kernel: mine:matmul", "op: mine:matmul", "op: 'mine:matmul'", "build: mine:x"])
    def test_a_file_cannot_name_code(self, on: On, mine: Path, place: Path, key: str) -> None:
        rest = "" if key.startswith("op") else "op: gemm, "
        text = f"schema: 1\nname: x\ndtype: fp32\nsteps:\n  - {{id: a, {rest}{key}, m: 8, n: 8, k: 8}}\n"
        (place / "evil.yaml").write_text(text, encoding="utf-8")
        device = fake_device()
        result = on(device, "evil.yaml")
        assert (result.exit_code, device.samples) == (2, 0)
        assert "evil.yaml:5:" in result.stderr
        assert "mine" not in sys.modules

    def test_files_beside_it_take_the_place_of_no_library(self, place: Path, mine: Path) -> None:
        """json.py, yaml.py and torch.py in the working directory are not what `import json` finds."""
        for name in ("json", "yaml", "html", "numpy", "torch", "typing"):
            (place / f"{name}.py").write_text("raise SystemExit('the wrong one')\n", encoding="utf-8")
        (place / "bin").mkdir()
        start = "import sys\nfrom roofline.cli.app import run\nsys.argv[0] = 'roofline'\nrun()\n"
        (place / "bin" / "start.py").write_text(start, encoding="utf-8")
        words = ["measure", "-k", "mine:matmul", "--device", "cpu", "-H", "none", "--time-limit", "0.1 s", "--format", "json"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(place / "locks")}
        done = subprocess.run(
            [sys.executable, "bin/start.py", *words], cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"][0]["measured"]["status"] == "ok"


class TestProgress:
    def bar(self, monkeypatch: pytest.MonkeyPatch, on: On, tty: bool, *flags: str) -> str:
        shown: list[str] = []

        class Stream(io.StringIO):
            def isatty(self) -> bool:
                return tty

            def write(self, text: str) -> int:
                shown.append(text)
                return len(text)

        real = command._progress

        def progress(plan: Any) -> Any:
            monkeypatch.setattr(sys, "stderr", Stream())
            monkeypatch.setenv("TERM", "xterm")
            return real(plan)

        monkeypatch.setattr(command, "_progress", progress)
        on(fake_device(), "w.yaml", *flags)
        return "".join(shown)

    def test_a_person_sees_each_step(self, monkeypatch: pytest.MonkeyPatch, on: On) -> None:
        shown = self.bar(monkeypatch, on, True)
        assert "\x1b" in shown

    @pytest.mark.parametrize(("tty", "flags"), [(False, ()), (True, ("-q",))])
    def test_nobody_else_does(self, monkeypatch: pytest.MonkeyPatch, on: On, tty: bool, flags: tuple[str, ...]) -> None:
        assert "\x1b" not in self.bar(monkeypatch, on, tty, *flags)


class TestKernels:
    def test_the_list_names_each_kernel_once_and_loads_no_torch(self, place: Path) -> None:
        code = (
            "import sys; sys.argv = ['roofline', 'kernels']\n"
            "from roofline.cli.app import run\n"
            "try: run()\nexcept SystemExit as end: code = end.code\n"
            "print([m for m in ('torch', 'numpy', 'triton', 'pynvml') if m in sys.modules], code or 0, file=sys.stderr)"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], cwd=place, env=environment, capture_output=True, text=True, check=True)
        assert done.stderr.strip() == "[] 0"
        assert [line.split()[0] for line in done.stdout.splitlines()][: len(KERNELS)] == list(KERNELS)

    def test_as_json_with_what_each_needs(self, run: Run, place: Path) -> None:
        rows = {r["name"]: r for r in json.loads(run("kernels", "--format", "json").stdout)}
        assert rows["gemm"]["needs_by_dtype"]["fp8"] == ["sm89"]
        assert rows["cudnn"]["needs"][0] == "cuda"
        assert rows["flash"]["directions"] == ["forward", "backward"]
        assert run("kernels", "-o", "k.json").stdout == ""
        assert {r["name"] for r in json.loads((place / "k.json").read_text(encoding="utf-8"))} == set(rows)

    def test_a_broken_package_of_somebodys_hides_no_other(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        from importlib.metadata import EntryPoint

        point = EntryPoint(name="theirs", value="no_such_package_here:kernel", group="roofline.kernels")
        monkeypatch.setattr("roofline.measure.registry._entry_points", lambda: {"theirs": point})
        result = run("kernels")
        assert result.exit_code == 0
        assert [line.split()[0] for line in result.stdout.splitlines()] == [name for name in names() if name != "theirs"]
        assert "'no_such_package_here:kernel' cannot be imported" in result.stderr

    def test_an_unknown_format_is_refused(self, run: Run) -> None:
        assert run("kernels", "--format", "csv").exit_code == 2
