"""The library: its names, what an import costs, and that it says what the command line says."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import roofline
from roofline.cli.app import app_for

NAMES = {
    "Workload", "Hardware", "Cluster", "Report",
    "load_workload", "load_hardware", "load_cluster", "load_report", "to_json",
    "analyze", "estimate", "amdahl", "what_if", "diff",
    "advise", "sweep", "memory", "plan_step", "search",
    "measure", "profile",
    "RooflineError", "InputError", "UsageError", "MissingCapabilityError", "MeasurementInvalidError", "GateFailedError",
}  # fmt: skip
"""Who adds or drops a name changes what others may rely on: say so in the changelog."""

LIGHT = "import sys, roofline; print(sorted(m for m in sys.modules if m.partition('.')[0] in {names} and m != 'roofline'))"
HEAVY = {"roofline", "numpy", "scipy", "torch", "yaml", "rich", "typer", "pytest", "pynvml"}


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def cli(*arguments: str) -> Any:
    """The JSON of a command."""
    result = CliRunner().invoke(app_for(arguments), [*arguments, "--format", "json"], prog_name="roofline")
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture
def bare_file(tmp_path: Path) -> Path:
    """A workload that names no device."""
    (tmp_path / "bare.yaml").write_text("schema: 1\ndtype: bf16\nsteps:\n  - {op: gemm, m: 8, n: 8, k: 8}\n", encoding="utf-8")
    return tmp_path / "bare.yaml"


class TestNames:
    def test_the_names_are_these(self) -> None:
        assert set(roofline.__all__) == NAMES
        assert len(roofline.__all__) == len(NAMES)

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_each_resolves_is_documented_and_typed(self, name: str) -> None:
        found = getattr(roofline, name)
        assert inspect.getdoc(found)
        if inspect.isfunction(found):
            signature = inspect.signature(found)
            assert signature.return_annotation is not inspect.Signature.empty
            assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())
            assert name == "to_json" or "Raises:" in (found.__doc__ or "")

    def test_each_is_what_a_type_checker_sees(self) -> None:
        """The imports for type checkers and the table for the interpreter name the same places."""
        import ast

        tree = ast.parse(Path(roofline.__file__).read_text(encoding="utf-8"))
        typed = {a.name: n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module != "typing" for a in n.names}
        typed.pop("import_module")
        lazy = {**roofline._HOMES, "measure": "roofline.measure.session"}
        assert typed == lazy
        assert (Path(roofline.__file__).parent / "py.typed").is_file()

    def test_dir_lists_them_and_other_names_are_refused(self) -> None:
        assert set(dir(roofline)) >= NAMES
        with pytest.raises(AttributeError, match="analyse"):
            _ = roofline.analyse  # type: ignore[attr-defined]

    def test_an_import_is_light(self) -> None:
        """Nothing of ours, nothing of others; the same check finds what an analysis needs."""
        assert fresh(LIGHT.format(names=HEAVY)) == "[]"
        used = fresh(LIGHT.format(names=HEAVY).replace("; print", "; roofline.analyze('decode_gemv', 'h100-sxm'); print"))
        assert "'yaml'" in used
        assert not {"'torch'", "'rich'", "'typer'", "'numpy'", "'scipy'"} & set(used.strip("[]").split(", "))

    def test_measure_is_called_whatever_was_imported_before(self) -> None:
        """A package that is imported stands in the way of a function of its name."""
        code = "{}import roofline\ntry: roofline.measure(kernels=['gemm'], cache='hot')\nexcept roofline.UsageError as err: print(err)"
        expected = "cache='hot' is unknown; known: cold, warm"
        assert fresh(code.format("")) == fresh(code.format("import roofline.measure.base\n")) == expected


class TestSameAsTheCommandLine:
    def test_analyze(self) -> None:
        report = roofline.analyze("gpt2_medium", "h100-sxm", overrides={"batch": 2, "attention.implementation": "flash"})
        shown = cli("analyze", "gpt2_medium", "-H", "h100-sxm", "--set", "batch=2", "--set", "attention.implementation=flash")
        assert roofline.to_json(report) == shown

    def test_the_workload_s_own_device_and_none(self, bare_file: Path) -> None:
        assert roofline.to_json(roofline.analyze("qwen3_8b_decode")) == cli("analyze", "qwen3_8b_decode")
        bare = roofline.analyze(bare_file)
        assert bare.totals.bound is None
        assert bare.hardware is None

    def test_what_if_and_amdahl(self) -> None:
        swap = "attention.implementation=flash"
        change = roofline.what_if("gpt2_medium", "h100-sxm", swap=[swap])
        assert roofline.to_json(change) == cli("amdahl", "gpt2_medium", "-H", "h100-sxm", "--swap", swap)
        twice = roofline.what_if("gpt2_medium", "h100-sxm", faster={"attention": 2})
        assert (
            json.loads(cli("amdahl", "gpt2_medium", "-H", "h100-sxm", "--step", "attention", "--speedup", "2"))["speedup"] == twice.speedup
        )

    def test_diff_of_files_and_of_reports(self, tmp_path: Path) -> None:
        base, head = roofline.analyze("gpt2_medium", "h100-sxm"), roofline.analyze("gpt2_medium", "h100-sxm", overrides=["batch=9"])
        for name, report in (("base", base), ("head", head)):
            (tmp_path / f"{name}.json").write_text(roofline.to_json(report), encoding="utf-8")
        assert roofline.load_report(tmp_path / "base.json") == base
        one = roofline.diff(base, head, fail_on=["total.bound.time_s>+2%"])
        other = roofline.diff(tmp_path / "base.json", tmp_path / "head.json", fail_on=["total.bound.time_s>+2%"])
        assert [g.held for g in one.gates] == [False]
        assert (one.rows, one.totals, one.gates) == (other.rows, other.totals, other.gates)

    def test_advise_and_sweep(self) -> None:
        assert roofline.to_json(roofline.advise("gpt2_medium", "h200-sxm")) == cli("advise", "gpt2_medium", "-H", "h200-sxm")
        found = roofline.sweep("qwen3_8b_decode", over={"batch": "1..64:x8"}, overrides={"context": 2048}, tokens="batch")
        shown = cli("sweep", "qwen3_8b_decode", "--set", "context=2048", "--set", "batch=1..64:x8", "--tokens", "batch")
        assert json.loads(roofline.to_json(found)) == json.loads(shown)

    def test_memory_plan_and_search(self) -> None:
        words = ["llama-3-70b", "--phase", "decode", "--set", "batch=64", "--set", "context=8192"]
        sizes = {"batch": 64, "context": 8192}
        memory = roofline.memory("llama-3-70b", "decode", sizes, plan="tp=8", hardware="h100-sxm")
        shown = json.loads(cli("memory", *words, "--plan", "tp=8", "-H", "h100-sxm"))
        assert {k: v for k, v in json.loads(roofline.to_json(memory)).items() if k != "settings"} == {
            k: v for k, v in shown.items() if k != "settings"
        }
        plan = roofline.plan_step(
            "llama-3-70b", "dgx-h100", "decode", sizes, plan="tp=8", efficiency={"matrix": 0.6, "memory": 0.8, "link": 0.7}
        )
        shares = "matrix=0.6,memory=0.8,link=0.7"
        assert roofline.to_json(plan) == cli("plan", *words, "-C", "dgx-h100", "--plan", "tp=8", "--efficiency", shares)
        search = roofline.search("llama-3-70b", "dgx-h100", "decode", sizes, devices=8)
        assert roofline.to_json(search) == cli("search", *words, "-C", "dgx-h100", "--devices", "8")

    def test_the_format_in_which_tokens_travel_to_experts(self) -> None:
        """As on the command line; refused where there are none."""
        sizes, plan = {"batch": 64, "context": 8192}, "tp=2,dp=4,ep=8"
        sized = ("--set", "batch=64", "--set", "context=8192")
        words = ("mixtral-8x7b", "--phase", "decode", *sized, "-C", "dgx-h100", "--dispatch-dtype", "fp8")
        found = roofline.plan_step("mixtral-8x7b", "dgx-h100", "decode", sizes, plan=plan, dispatch_dtype="fp8")
        assert roofline.to_json(found) == cli("plan", *words, "--plan", plan)
        best = roofline.search("mixtral-8x7b", "dgx-h100", "decode", sizes, devices=8, dispatch_dtype="fp8")
        assert roofline.to_json(best) == cli("search", *words, "--devices", "8")
        with pytest.raises(roofline.UsageError, match="dispatch_dtype: 'llama-3-70b' has no experts"):
            roofline.plan_step("llama-3-70b", "dgx-h100", "decode", sizes, plan="tp=8", dispatch_dtype="fp8")


class TestValues:
    def test_objects_stand_for_names(self) -> None:
        """The same numbers; only where they came from differs, since an object is no file."""
        by_name = roofline.analyze("gpt2_medium", "h100-sxm")
        by_value = roofline.analyze(roofline.load_workload("gpt2_medium"), roofline.load_hardware("h100-sxm"))
        assert by_value.rows == by_name.rows
        assert by_value.totals == by_name.totals
        assert [i.sha256 for i in by_value.inputs] == ["", ""]
        with pytest.raises(roofline.UsageError, match="while it is read"):
            roofline.analyze(roofline.load_workload("gpt2_medium"), "h100-sxm", overrides={"batch": 2})

    def test_estimate_is_that_of_the_report_or_says_why_there_is_none(self, bare_file: Path) -> None:
        assert roofline.estimate("gpt2_medium", "h100-sxm") == roofline.analyze("gpt2_medium", "h100-sxm").totals.estimate
        with pytest.raises(roofline.MissingCapabilityError, match="no estimate: tpu-v5p does not state"):
            roofline.estimate("gpt2_medium", "tpu-v5p")
        with pytest.raises(roofline.MissingCapabilityError, match="no estimate: "):
            roofline.estimate(bare_file)

    @given(st.floats(0, 1), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
    def test_two_halves_of_a_part_are_the_part(self, fraction: float, one: float, other: float) -> None:
        pair = roofline.amdahl([(fraction / 2, one), (fraction / 2, other)])
        mean = 2 / (1 / one + 1 / other)
        assert pair.speedup == pytest.approx(roofline.amdahl(fraction, mean).speedup, rel=1e-9)

    def test_a_fifth_twice_as_fast(self) -> None:
        assert roofline.amdahl(0.2, 2).time == pytest.approx(0.9)
        assert roofline.amdahl(0.2, math.inf).speedup == roofline.amdahl(0.2, 2).limit == pytest.approx(1.25)


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (lambda: roofline.analyze("gpt2_medum"), "gpt2_medium"),
            (lambda: roofline.analyze("gpt2_medium", "h100-sxn"), "h100-sxm"),
            (lambda: roofline.analyze("gpt2_medium", overrides="batch=2"), "batch=2"),
            (lambda: roofline.amdahl(0.2), "amdahl\\(0.2, 2\\)"),
            (lambda: roofline.amdahl([(0.2, 2)], 2), "own speedups"),
            (lambda: roofline.amdahl(1.2, 2), "between 0 and 1"),
            (lambda: roofline.what_if("gpt2_medium", "h100-sxm"), "either swap"),
            (lambda: roofline.diff("a.json", "b.json", tolerance=3), "3 % is 0.03"),
            (lambda: roofline.load_report("nowhere.json"), "nowhere.json: no such file"),
            (lambda: roofline.sweep("gpt2_medium", over={}), "varies"),
            (lambda: roofline.advise("gpt2_medium", "h100-sxm", by="bond"), "bound"),
            (lambda: roofline.memory("llama-3-70b", "decode", {"batch": 1}), "context"),
            (lambda: roofline.memory("llama-3-70b", "mixed", {}), "mixed"),
            (lambda: roofline.memory("llama-3-70b", "decode", {"batch": 0, "context": 1}), "out of range"),
            (lambda: roofline.search("llama-3-70b", "dgx-h100", "train", {"batch": 8, "seq": 8}, devices=[]), "whole number"),
            (lambda: roofline.plan_step("llama-3-70b", "dgx-h100", "decode", {"batch": 1, "context": 9}, plan="tp=7"), "plan:1"),
            (
                lambda: roofline.plan_step("llama-3-70b", "dgx-h100", "train", {"batch": 1, "seq": 9}, plan="", cost="efficiency"),
                "nobody's",
            ),
            (lambda: roofline.measure(kernels=["gemm"], mode="slow"), "sustained"),
        ],
    )
    def test_what_cannot_be_is_refused_with_the_fix(self, call: Any, said: str) -> None:
        with pytest.raises(roofline.RooflineError, match=said):
            call()

    def test_advice_needs_a_device(self, bare_file: Path) -> None:
        with pytest.raises(roofline.UsageError, match="names no device"):
            roofline.advise(bare_file)
