"""The four ways to have the tool: a wheel, a wheel built from the sdist, an editable install, and a plain checkout."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from hashlib import sha256
from pathlib import Path

import pytest

import roofline
from roofline.spec.find import PACKAGE

ROOT = PACKAGE.parent
FORMS = ("wheel", "wheel from sdist", "editable", "checkout")
COMMANDS = (
    ("--version",),
    ("hardware", "list", "--format", "json"),
    ("hardware", "show", "h200-sxm", "--format", "json"),
    ("analyze", "decode_gemv", "--format", "json"),
)


def run(command: list[str], cwd: Path, **environment: str) -> str:
    """What the command prints, in an environment that points to no other copy of the tool."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "ROOFLINE_CONFIG_DIR", "XDG_CONFIG_HOME")
    clean = {k: v for k, v in os.environ.items() if k not in dropped}
    done = subprocess.run(command, cwd=cwd, env={**clean, "HOME": str(cwd), **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Mapping[str, Path]:
    """The wheel built from the tree, the sdist, and the wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    run([*build, str(folder / "tree"), "--wheel", str(ROOT)], folder)
    run([*build, str(folder / "sdist"), str(ROOT)], folder)
    only: Callable[[str], Path] = lambda pattern: next(folder.glob(pattern))  # noqa: E731
    return {"wheel": only("tree/*.whl"), "sdist": only("sdist/*.tar.gz"), "wheel from sdist": only("sdist/*.whl")}


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> list[str]:
    """What the code under test prints, from a folder without files."""
    folder = tmp_path_factory.mktemp("expected")
    return [run([sys.executable, "-m", "roofline", *command], folder, PYTHONPATH=str(ROOT)) for command in COMMANDS]


def environment_with(requirement: list[str], folder: Path) -> list[str]:
    """A fresh virtual environment with the tool in it, and how its console script is called.

    Dependencies come from the environment of the tests by way of a path, since nothing is downloaded here.
    """
    venv.create(folder / "venv", with_pip=False, symlinks=os.name != "nt")
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / ("python.exe" if os.name == "nt" else "python")
    site = Path(run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    run([*pip, "--force-reinstall", "--no-build-isolation", *requirement], folder)
    return [str(next(scripts.glob("roofline*")))]


def installed(form: str, built: Mapping[str, Path], folder: Path) -> tuple[list[str], dict[str, str]]:
    """How the tool of that form is called, and what the environment must hold."""
    if form == "checkout":
        return [sys.executable, "-m", "roofline"], {"PYTHONPATH": str(ROOT)}
    requirement = ["--editable", str(ROOT)] if form == "editable" else [str(built[form])]
    return environment_with(requirement, folder), {}


@pytest.mark.parametrize("form", FORMS)
def test_it_works_from_an_empty_folder(form, built, expected, tmp_path):
    """Profiles and workloads are found, and every form gives the bytes that this one gives."""
    empty = tmp_path / "empty"
    empty.mkdir()
    script, environment = installed(form, built, tmp_path)
    assert [run([*script, *command], empty, **environment) for command in COMMANDS] == expected
    assert expected[0] == f"roofline {roofline.__version__}\n"
    assert expected[3].startswith("{")


@pytest.mark.parametrize("form", ["wheel", "editable"])
def test_each_form_runs_its_own_files(form, built, tmp_path):
    """The comparison above means something only if a form does not run another one's files."""
    (script,), _ = installed(form, built, tmp_path)
    python = next(Path(script).parent.glob("python*"))
    place = run([str(python), "-c", "import roofline.spec.find as f; print(f.shipped('workloads'))"], tmp_path).strip()
    assert Path(place).is_relative_to(tmp_path / "venv") == (form == "wheel")
    assert (Path(place) == ROOT / "workloads") == (form == "editable")


# --------------------------------------------------------------------------- what is in the archives
def contents(wheel: Path) -> dict[str, bytes]:
    """Every file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(built: Mapping[str, Path], name: str) -> str:
    """A file of the wheel's own folder."""
    return next(data for path, data in contents(built["wheel"]).items() if path.endswith(f".dist-info/{name}")).decode("utf-8")


def test_both_wheels_are_the_same(built):
    """Nothing that a build needs is missing from the sdist."""
    one, other = ({k: sha256(v).hexdigest() for k, v in contents(built[w]).items()} for w in ("wheel", "wheel from sdist"))
    assert one == other


def test_the_wheel_has_all_that_is_shipped(built):
    """Every module with what lies beside it, profile, cluster, workload, dataflow and model; the licence; no tests, nothing of CI."""
    files = set(contents(built["wheel"]))
    own = {f"roofline/{p.relative_to(PACKAGE).as_posix()}" for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    data = {
        f"roofline/_data/{p.relative_to(ROOT).as_posix()}"
        for f in ("hardware_specs", "workloads")
        for p in (ROOT / f).rglob("*")
        if p.is_file()
    }
    assert own | data <= files
    assert {name.rpartition("/")[2] for name in files - own - data} == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE"}
    for name in ("py.typed", "_data/hardware_specs/clusters/dgx-h100.yaml", "_data/workloads/models/llama-3-8b.json"):
        assert f"roofline/{name}" in files
    assert any(name.startswith("roofline/_data/workloads/dataflows/") for name in files)
    assert not [name for name in files if name.endswith((".yml", ".sh", ".pyc")) or "/tests/" in name]


def test_the_sdist_has_the_tests_and_the_docs(built):
    """Whoever packages it can test it; nothing of the builder's folder comes along."""
    with tarfile.open(built["sdist"]) as archive:
        names = archive.getnames()
    top = {name.split("/")[1] for name in names if "/" in name}
    inner = {name.partition("/")[2] for name in names}
    assert {"workloads/models/llama-3-8b.json", "docs/ci/gitlab-ci.yml", "docs/ci/workloads/block.yaml"} <= inner
    assert not [name for name in inner if name.endswith(".pyc") or name.startswith(("ci/", "action.yml", ".github/"))]
    assert {"roofline", "hardware_specs", "workloads", "tests", "docs", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= top
    assert top - {"benchmarks", "CONTRIBUTING.md", "README.zh.md", "zensical.toml", ".gitignore", "PKG-INFO"} <= {
        "roofline", "hardware_specs", "workloads", "tests", "docs", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml",
    }  # fmt: skip


def test_the_metadata_says_what_it_is(built):
    """Name, version, licence, and few dependencies: seven at most, and no torch among them."""
    found = email.message_from_string(metadata(built, "METADATA"))
    assert (found["Name"], found["Version"], found["License-Expression"]) == ("roofline", roofline.__version__, "Apache-2.0")
    needed = [r for r in found.get_all("Requires-Dist", []) if "extra ==" not in r]
    names = {re.split(r"[^A-Za-z0-9_-]", r)[0].lower() for r in needed}
    assert len(names) <= 7
    assert names <= {"typer", "rich", "pyyaml", "numpy", "nvidia-ml-py", "tomli", "msgspec"}
    assert set(found.get_all("Provides-Extra")) == {"measure", "fit", "ingest", "plot-png", "docs", "test", "dev"}


def test_the_console_script_is_the_entry_point(built):
    """`roofline` calls what `python -m roofline` calls; other groups are the doors for other packages."""
    points = ConfigParser()
    points.read_string(metadata(built, "entry_points.txt"))
    assert dict(points["console_scripts"]) == {"roofline": "roofline.cli.app:run"}
    assert set(points.sections()) <= {"console_scripts", "pytest11", "roofline.operators", "roofline.kernels"}


def test_the_licence_is_the_whole_text():
    """Apache-2.0, as the metadata says."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert len(text) > 10_000
