"""Files that commands read and write: what may be named, what is refused, and that a report is whole or not there."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.errors import RooflineError
from roofline.report.store import load_report, write_text

from .bad_files import PROFILE
from .conftest import ROOT, WORKLOAD, Run


# ---- reading -------------------------------------------------------------------------------------------------------
def _odd_files(folder: Path) -> dict[str, str]:
    """Paths that are no files to read, with what is said of them."""
    (folder / "dir").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    return {
        "dir": "is a directory",
        "./dir": "is a directory",
        "fifo": "is not a regular file",
        "/dev/zero": "is not a regular file",
        "loop.yaml": "cannot be read",
        "./gone.yaml": "no such file",
        "gone/w.yaml": "no directory 'gone'",
        "w.yaml/x": "no such file",
        "gone.json": "no such file",
    }


@pytest.mark.parametrize(
    "command", [["analyze"], ["analyze", "w.yaml", "-H"], ["hardware", "show"], ["validate"], ["diff", "r.json"]], ids=" ".join
)
def test_only_regular_files_are_read(run: Run, folder: Path, command: list[str]) -> None:
    """Row 5: a FIFO and a device never block, and each is called what it is."""
    for name, said in _odd_files(folder).items():
        result = run(*command, name)
        assert (result.exit_code, result.stdout) == (2, ""), name
        assert said in result.stderr or (command[0] == "diff" and "no such file" in result.stderr), (name, result.stderr)
        assert len(result.stderr.splitlines()) == 1


def test_a_named_file_may_lie_anywhere_and_needs_no_ending(run: Run, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Row 5: what the user names is read, through links too."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "toy").write_text(PROFILE, encoding="utf-8")
    (folder / "link.yaml").symlink_to(elsewhere / "toy")
    (folder / "plain").write_text(WORKLOAD, encoding="utf-8")
    for profile in (str(elsewhere / "toy"), os.path.relpath(elsewhere / "toy", folder), "link.yaml"):
        assert run("analyze", "plain", "-H", profile).exit_code == 0


@pytest.mark.parametrize("name", ["../secret", "../secret.yaml", "/etc/passwd", "./secret.yaml", "secret.yaml", "..", "SECRET", ""])
def test_extends_and_hardware_take_names_and_never_paths(run: Run, folder: Path, name: str) -> None:
    """Row 5: a file from elsewhere cannot make the tool open another one, and does not show what is in it."""
    (folder / "secret.yaml").write_text("password: hunter2", encoding="utf-8")
    (folder / "inner").mkdir()
    (folder / "inner" / "h.yaml").write_text(PROFILE.replace("vendor: acme", f'vendor: acme\nextends: "{name}"'), encoding="utf-8")
    (folder / "inner" / "w.yaml").write_text(WORKLOAD.replace("h100-sxm", f'"{name}"'), encoding="utf-8")
    for words in (["hardware", "show", "inner/h.yaml"], ["analyze", "w.yaml", "-H", "inner/h.yaml"], ["analyze", "inner/w.yaml"]):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "unknown" in result.stderr
        assert f"{words[-1]}:{4 if words[-1].endswith('h.yaml') else 3}:" in result.stderr
        assert "hunter2" not in result.stderr
        assert "password" not in result.stderr


def test_profiles_that_extend_each_other_name_the_circle(run: Run, folder: Path) -> None:
    own = folder / "hardware_specs"
    own.mkdir()
    for name, parent in (("one", "two"), ("two", "one"), ("self", "self")):
        (own / f"{name}.yaml").write_text(PROFILE.replace("name: toy", f"name: {name}\nextends: {parent}"), encoding="utf-8")
    assert "in a circle: one -> two -> one" in run("hardware", "show", "one").stderr
    assert "in a circle: self -> self" in run("hardware", "show", "hardware_specs/self.yaml").stderr


def test_a_long_chain_of_profiles_is_refused(run: Run, folder: Path) -> None:
    own = folder / "hardware_specs"
    own.mkdir()
    for i in range(40):
        text = PROFILE.replace("name: toy", f"name: p{i}" + (f"\nextends: p{i + 1}" if i < 39 else ""))
        (own / f"p{i}.yaml").write_text(text, encoding="utf-8")
    result = run("hardware", "show", "p0")
    assert result.exit_code == 2
    assert "more than 16 profiles extend each other" in result.stderr
    assert run("hardware", "show", "p30").exit_code == 0


# ---- writing -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("gone/r.json", "there is no directory"),
        ("dir", "it is a directory"),
        ("", "it is a directory"),
        ("w.yaml/r.json", "there is no directory"),
        ("x" * 300 + ".json", "File name too long"),
        ("a\0b.json", "null"),
        ("loop.json", "cannot write 'loop.json'"),
    ],
)
@pytest.mark.parametrize("command", [["analyze", "w.yaml"], ["hardware", "list"], ["diff", "r.json", "r.json"], ["schema", "report"]])
def test_where_nothing_can_be_written_is_an_error_in_one_line(run: Run, folder: Path, command: list[str], output: str, said: str) -> None:
    """Row 19."""
    (folder / "dir").mkdir()
    (folder / "loop.json").symlink_to("loop.json")
    before = sorted(os.listdir(folder))
    result = run(*command, "-o", output)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(os.listdir(folder)) == before


def test_a_refused_command_leaves_the_old_file(run: Run, folder: Path) -> None:
    (folder / "out.json").write_text("old", encoding="utf-8")
    assert run("analyze", "w.yaml", "--set", "batch=0", "-o", "out.json").exit_code == 2
    assert (folder / "out.json").read_text() == "old"


def test_a_report_keeps_the_mode_of_the_file_and_follows_the_umask(run: Run, folder: Path) -> None:
    """Row 19: temporary files are made 0600, which no colleague could read."""
    before = os.umask(0o027)
    try:
        run("analyze", "w.yaml", "-o", "new.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "new.json").stat().st_mode) == 0o640
    (folder / "new.json").chmod(0o604)
    run("analyze", "w.yaml", "-o", "new.json")
    assert stat.S_IMODE((folder / "new.json").stat().st_mode) == 0o604


def test_a_link_stays_a_link_and_a_pipe_a_pipe(run: Run, folder: Path) -> None:
    """A FIFO stands for all that is no regular file: were it a device, a mistake here would replace one of the system's."""
    (folder / "real.json").touch()
    (folder / "link.json").symlink_to("real.json")
    run("analyze", "w.yaml", "-o", "link.json")
    assert (folder / "link.json").is_symlink()
    assert load_report(str(folder / "real.json")).workload == "small"
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("analyze", "w.yaml", "-o", "pipe").exit_code == 0
        assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
        assert os.read(reader, 100).startswith(b"small on h100-sxm")
    finally:
        os.close(reader)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_report_and_no_trace(folder: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Row 19."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    old, before = (folder / "r.json").read_text(), sorted(os.listdir(folder))
    with monkeypatch.context() as patched:
        patched.setattr(f"roofline.report.store.os.{call}", fail)
        with pytest.raises(RooflineError, match=r"cannot write 'r\.json': No space left on device"):
            write_text("r.json", "new")
    assert (folder / "r.json").read_text() == old
    assert sorted(os.listdir(folder)) == before


def test_an_interrupt_while_writing_leaves_the_old_report_and_no_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = sorted(os.listdir(folder))
    with monkeypatch.context() as patched:
        patched.setattr("roofline.report.store.os.fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_text("r.json", "new")
    assert sorted(os.listdir(folder)) == before
    assert load_report("r.json").workload == "small"


WRITER = """
import sys
from roofline.report.store import write_text

text = open("r.json", encoding="utf-8").read()
print(".", flush=True)
while True:
    write_text("shared.json", text)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_killed_writer_and_writers_at_the_same_time_leave_a_whole_report(folder: Path) -> None:
    """Rows 19 and 20: three processes write one file; they are killed at random, and it is read all the while."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    write_text("shared.json", (folder / "r.json").read_text())
    writers = [subprocess.Popen([sys.executable, "-c", WRITER], env=env, stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.read(1) == b"."
        for i in range(30):
            assert load_report("shared.json").workload == "small"
            if i in (10, 20):
                writers[i // 10].kill()
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            assert writer.stdout is not None
            writer.stdout.close()
    assert load_report("shared.json").workload == "small"


def test_steps_are_analysed_without_what_reads_models(tmp_path: Path) -> None:
    """A start is what the command is made of: models, plans, numpy, rich and torch stay out, whatever the params are called."""
    steps = "steps: [{id: a, op: gemm, m: 8, n: d_model, k: d_model}]\n"
    (tmp_path / "w.yaml").write_text(
        "schema: 1\nname: steps\nhardware: h100-sxm\ndtype: bf16\nparams: {d_model: 64}\n" + steps, encoding="utf-8"
    )
    code = (
        "import sys; sys.argv = ['roofline', 'analyze', 'w.yaml', '--format', 'json']\nfrom roofline.cli.app import run\n"
        "try: run()\nexcept SystemExit: pass\n"
        "heavy = ('roofline.spec.model_key', 'roofline.models.steps', 'numpy', 'rich.table', 'torch')\n"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert '"d_model": 64' in done.stdout
