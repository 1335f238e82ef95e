"""Operators of other packages: found by their entry point, checked, and like our own from then on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.errors import UsageError
from roofline.ops import OPERATORS, plugins
from roofline.ops.base import work_of
from roofline.ops.registry import MODULES
from roofline.report.published import schema_of
from roofline.spec.workload import one_step

GOOD = '''
from dataclasses import dataclass
from roofline.numeric import Number
from roofline.ops.base import Counts, Op, TensorSpec, dim, number_format, operator

@operator("fft", family="transform", title="fast Fourier transform", formula="5 n log2 n FLOP", source="a test")
@dataclass(frozen=True, kw_only=True)
class Fft(Op):
    """y = DFT(x) of n points, in stages of radix 2."""
    stages: Number = dim("stages, of which a transform of n points has log2 n")
    points: Number = dim("points")
    dtype: str = number_format("format of x and y")
    def tensors(self):
        return TensorSpec("x", (2, self.points), self.dtype, "in"), TensorSpec("y", (2, self.points), self.dtype, "out")
    def counts(self):
        return Counts(vector=5 * self.points * self.stages)
'''
USE = ["stages=10", "points=1024", "dtype=fp32"]

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path, monkeypatch) -> Iterator[Install]:
    """Puts a distribution with an entry point and a module on the path, for the length of a test."""
    modules: list[str] = []

    def add(code: str, name: str = "fft", package: str = "fourier", target: str = ":Fft") -> None:
        folder: Path = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{name} = {package}_ops{target}\n", encoding="utf-8")
        (folder / f"{package}_ops.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        modules.append(f"{package}_ops")

    yield add
    OPERATORS._foreign.clear()
    for module in modules:
        sys.modules.pop(module, None)


def test_nobody_else_has_operators_here():
    """The tests below mean something only where no such package is installed."""
    assert list(OPERATORS) == list(MODULES)


def test_an_operator_of_another_package_is_read_and_counted(install):
    """From its YAML name to its work, without a line of ours about it."""
    install(GOOD)
    assert "fourier_ops" not in sys.modules
    op = one_step("fft", USE).steps[0].op
    work = work_of(op, None)
    assert (type(op).__module__, work.counts.vector, work.compulsory.hbm) == ("fourier_ops", 5 * 1024 * 10, 2 * 2 * 1024 * 4)


def test_a_module_may_register_it(install):
    """The entry point may name the module alone."""
    install(GOOD, target="")
    assert OPERATORS["fft"].title == "fast Fourier transform"


def test_it_is_listed_shown_and_in_the_schema(install):
    """Docs and editors know it like one of ours."""
    install(GOOD)
    runner = CliRunner()
    assert "fast Fourier transform" in runner.invoke(app, ["operators", "list"]).output
    assert "of which a transform of n points" in runner.invoke(app, ["operators", "show", "fft"]).output
    step = {"op": "fft", "stages": 10, "points": 1024, "dtype": "fp32"}
    validator = Draft202012Validator(schema_of("workload"))
    assert validator.is_valid({"schema": 1, "steps": [step]})
    assert not validator.is_valid({"schema": 1, "steps": [{**step, "pionts": 8}]})
    report = runner.invoke(app, ["op", "fft", *USE, "-H", "h100-sxm", "--format", "json"])
    assert json.loads(report.stdout)["rows"][0]["op"] == "fft"


def test_its_mistakes_are_reported_like_ours(install):
    """Its keys are checked by the same reader, and its name is among those suggested."""
    install(GOOD)
    result = CliRunner().invoke(app, ["op", "fft", "stages=10", "pionts=8", "dtype=fp32"])
    assert (result.exit_code, "did you mean 'points'?" in result.stderr) == (2, True)
    assert "'fft'" in CliRunner().invoke(app, ["op", "ffft", "dtype=fp32"]).stderr


def test_our_own_names_cannot_be_taken(install):
    """`gemm` means gemm, whatever is installed."""
    install(GOOD.replace('"fft"', '"gemm"'), name="gemm")
    assert OPERATORS["gemm"].__module__ == "roofline.ops.gemm"
    assert list(OPERATORS) == list(MODULES)
    assert "fourier_ops" not in sys.modules


BROKEN = {
    "fails on import": ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"),
    "no such class": ("", "AttributeError: .*Fft"),
    "not registered": ("class Fft: pass", "nothing of that name is registered"),
    "another name": (GOOD.replace('"fft"', '"ftf"'), "nothing of that name is registered"),
    "takes one of ours": (GOOD.replace('"fft"', '"gemm"'), "operator 'gemm' is one of roofline's own"),
    "plain field": (GOOD.replace('dim("points")', "7"), "fields not declared with .*: points"),
    "not a dataclass": (GOOD.replace("@dataclass(frozen=True, kw_only=True)\n", ""), "it is not a dataclass"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_package_is_named(case, install):
    """With the package, the entry point and the reason, again and again, and never as a traceback."""
    code, reason = BROKEN[case]
    install(code)
    for _ in range(2):
        with pytest.raises(UsageError, match=rf"operator 'fft' of fourier \(fourier_ops:Fft\) cannot be .*: .*{reason}"):
            OPERATORS["fft"]
    result = CliRunner().invoke(app, ["op", "fft", *USE])
    assert (result.exit_code, "Traceback" in result.stderr) == (2, False)


def test_two_packages_with_one_name_are_refused(install):
    """Which of them counts would depend on the order of installation."""
    install(GOOD)
    install(GOOD, package="transforms")
    with pytest.raises(UsageError, match=r"several packages: fourier \(.*\), transforms \(.*\); keep one"):
        OPERATORS["fft"]


def test_our_operators_never_look_at_other_packages(install, monkeypatch):
    """The start stays light: installed packages are looked through only for a name that is not ours."""

    def refuse() -> None:
        raise AssertionError("looked at installed packages")

    monkeypatch.setattr(plugins, "_entry_points", refuse)
    assert one_step("gemm", ["m=1", "n=1", "k=1", "dtype=bf16"]).steps[0].op.name == "gemm"
    with pytest.raises(AssertionError, match="looked"):
        one_step("gem", ["m=1"])


def test_a_program_may_register_its_own(install, monkeypatch):
    """Without an entry point: registering is enough for who has the class at hand."""
    script = ModuleType("a_script")
    monkeypatch.setitem(sys.modules, "a_script", script)
    exec(compile(GOOD, "a_script.py", "exec", dont_inherit=True), script.__dict__)
    assert OPERATORS["fft"] is script.Fft
    assert "fft" in list(OPERATORS)
