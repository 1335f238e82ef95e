"""The house: rooms import downwards only, heavy packages stay behind their doors, files and functions stay small."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import median

import pytest

import roofline

PACKAGE = Path(roofline.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

ROOMS = (
    ("records",),
    ("errors", "numeric"),
    ("dtypes", "units", "notebook"),
    ("hardware",),
    ("ops",),
    ("workload",),
    ("plan",),
    ("models",),
    ("predict",),
    ("dataflow",),
    ("spec",),
    ("report",),
    ("decide",),
    ("fit",),
    ("measure",),
    ("testing",),
    ("ingest",),
    ("library",),
    ("cli",),
    ("__main__",),
    ("__init__",),
)
"""From the ground up. Modules of one room may import each other; a room imports those below it."""

OUTSIDE = {
    "torch": {"measure", "ingest"},
    "pynvml": {"measure", "ingest"},
    "triton": {"measure", "ingest"},
    "numpy": {"numeric", "predict", "dataflow", "report", "fit", "measure", "ingest", "decide"},
    "scipy": {"fit"},
    "rich": {"report", "cli"},
    "yaml": {"spec"},
    "tomllib": {"spec"},
    "tomli": {"spec"},
    "typer": {"cli"},
    "resvg_py": {"report"},
    "pytest": {"ingest", "library"},
}
"""Which rooms may import which packages."""

MOST_LINES, LONGEST_FUNCTION = 400, 60


def room(module: str) -> str:
    """The first name below the package."""
    return [*module.split("."), "__init__"][1]


def module_of(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = ("roofline", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    """The file as a syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """All modules that a file imports, at the top, in functions and for types alike."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room they enter"
            # `from roofline.cli import analyze` imports a module, `from roofline import __version__` does not.
            inner = {
                f"{node.module}.{alias.name}"
                for alias in node.names
                if (PACKAGE.parent / f"{node.module}/{alias.name}".replace(".", "/")).with_suffix(".py").exists()
            }
            found |= inner or {str(node.module)}
    return found


def height(name: str) -> int:
    """The floor of a room."""
    return next(i for i, names in enumerate(ROOMS) if name in names)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_downwards(path):
    """A room stands above all that it imports. `roofline` itself holds the version and names the library."""
    own = room(module_of(path))
    for imported in imports(path):
        if imported == "roofline" or not imported.startswith("roofline."):
            continue
        other = room(imported)
        assert other == own or height(other) < height(own), f"{module_of(path)} imports {imported}, which stands above it or beside it"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_packages_are_imported_in_their_rooms_only(path):
    """torch and NVML behind `measure` and `ingest`, yaml behind `spec`, typer behind `cli`; nothing unknown."""
    for imported in imports(path):
        name = imported.split(".")[0]
        if name == "roofline" or name in sys.stdlib_module_names:
            continue
        assert name in OUTSIDE, f"{module_of(path)} imports {name}, which is no dependency"
        assert room(module_of(path)) in OUTSIDE[name], f"{module_of(path)} imports {name}"


def test_every_room_is_known():
    """A new room gets its floor here and in docs/architecture.md."""
    names = {n for floor in ROOMS for n in floor}
    assert {room(module_of(p)) for p in FILES} - {"__init__"} <= names


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_and_functions_are_small(path):
    """A file has one reason to exist."""
    assert len(path.read_text(encoding="utf-8").splitlines()) < MOST_LINES
    for function in functions(path):
        assert lines(function) <= LONGEST_FUNCTION, function.name


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a file."""
    return [n for n in ast.walk(tree(path)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From its name to its end."""
    return (function.end_lineno or 0) - function.lineno + 1


def test_files_and_functions_are_mostly_smaller_still():
    """Medians: a file under 150 lines, a function near ten; 95 of 100 functions under 50."""
    sizes = sorted(lines(f) for p in FILES for f in functions(p))
    assert median(len(p.read_text(encoding="utf-8").splitlines()) for p in FILES) < 150
    assert median(sizes) <= 10
    assert sizes[int(0.95 * len(sizes))] < 50


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_file_is_a_drawer(path):
    """A name says what a file is about."""
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc", "shared"}


# --------------------------------------------------------------------------- what a start imports
REPORT_MODULES = "import sys; import roofline.cli.app as a\ntry: a.run()\nfinally: print('\\n'.join(sys.modules), file=sys.stderr)"
WORKLOAD = """schema: 1
hardware: h100-sxm
dtype: bf16
params: {batch: 8}
steps:
  - {op: gemm, m: batch, n: 4096, k: 4096}
  - {op: attention, batch: batch, heads: 8, q_len: 128, kv_len: 128, head_dim: 64}
"""


def modules_after(*arguments: str, cwd: Path) -> set[str]:
    """Top-level modules in the process when the command has run."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", REPORT_MODULES, *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_amdahl_starts_light(tmp_path):
    """Arithmetic on two numbers needs neither operators nor profiles, and nothing outside typer."""
    found = modules_after("amdahl", "--fraction", "0.2", "--speedup", "2", cwd=tmp_path)
    assert "typer" in found
    assert not found & {"rich", "numpy", "torch", "pynvml", "yaml", "importlib.metadata", "roofline.ops.base", "roofline.report.model"}


def test_analyze_to_json_starts_light(tmp_path):
    """Only the operators of the workload, no arrays, no tables, no look at other packages."""
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    found = modules_after("analyze", "w.yaml", "--format", "json", cwd=tmp_path)
    assert {"yaml", "roofline.ops.gemm", "roofline.ops.attention"} <= found
    assert not found & {"rich", "numpy", "torch", "pynvml", "importlib.metadata", "roofline.ops.conv", "roofline.ops.norm"}


def test_a_table_needs_rich_but_no_arrays(tmp_path):
    """The check above can fail: a table does import rich."""
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    found = modules_after("analyze", "w.yaml", cwd=tmp_path)
    assert "rich" in found
    assert not found & {"numpy", "torch", "pynvml"}
