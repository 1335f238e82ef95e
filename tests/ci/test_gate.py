"""`roofline gate`: the workloads of two commits, one verdict."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from roofline.report.published import schema_of

from .conftest import Repository

SLOWER = ("seq: 4096", "seq: 4352")
TWO_PERCENT = ("--fail-on", "total.bound.time_s>+2%")


def first(text: str) -> str:
    return text.partition("\n")[0]


def test_no_change_passes(repository: Repository) -> None:
    done = repository.roofline("gate", "--base", "HEAD")
    assert (done.returncode, done.stdout) == (0, "passed: 1 workload against HEAD; 1 same\n")


def test_a_regression_is_exit_1_by_the_rules_of_the_project(repository: Repository) -> None:
    """roofline.toml says fail_on, so no flag is needed."""
    repository.edit(*SLOWER)
    repository.commit("slower")
    done = repository.roofline("gate", "--base", "HEAD~1")
    assert done.returncode == 1
    assert first(done.stdout) == "FAILED: 1 workload against HEAD~1; 1 failed"
    assert "workloads/block.yaml: failed: total.bound.time_s>+2%: total.bound.time_s: " in done.stdout
    assert "Traceback" not in done.stderr


def test_uncommitted_changes_count_as_well(repository: Repository) -> None:
    repository.edit(*SLOWER)
    assert repository.roofline("gate", "--base", "HEAD").returncode == 1


def test_a_broken_budget_fails_without_any_rule(repository: Repository) -> None:
    repository.edit("<= 10 ms", "<= 1 ms")
    (repository.folder / "roofline.toml").write_text('hardware = "h100-sxm"\n', encoding="utf-8")
    done = repository.roofline("gate", "--base", "HEAD")
    assert done.returncode == 1
    assert "total.bound.time_s <= 1 ms: does not hold (it is " in done.stdout


def test_a_commit_that_is_not_there_is_no_baseline(repository: Repository) -> None:
    done = repository.roofline("gate", "--base", "0123456789abcdef0123456789abcdef01234567")
    assert done.returncode == 3
    assert first(done.stdout).startswith("NO BASELINE: 1 workload against 0123456789")
    assert "a shallow clone lacks it" in done.stdout
    done = repository.roofline("gate", "--base", "nosuch", "--allow-missing-baseline")
    assert done.returncode == 0
    assert "no baseline: nothing was compared with nosuch" in done.stderr


def test_a_new_workload_has_no_baseline_and_fails_by_its_budget_only(repository: Repository) -> None:
    text = (repository.folder / "workloads" / "block.yaml").read_text(encoding="utf-8")
    (repository.folder / "workloads" / "new.yaml").write_text(text.replace("seq: 4096", "seq: 2048"), encoding="utf-8")
    done = repository.roofline("gate", "--base", "HEAD", *TWO_PERCENT)
    assert done.returncode == 0
    assert first(done.stdout) == "passed: 2 workloads against HEAD; 1 same, 1 no baseline"
    assert "workloads/new.yaml: no baseline: it is new" in done.stdout
    (repository.folder / "workloads" / "new.yaml").write_text(text.replace("10 ms", "1 us"), encoding="utf-8")
    assert repository.roofline("gate", "--base", "HEAD").returncode == 1


def test_a_renamed_file_is_compared_with_what_it_was(repository: Repository) -> None:
    repository.git("mv", "workloads/block.yaml", "workloads/layer.yaml")
    repository.edit(*SLOWER, name="workloads/layer.yaml")
    repository.commit("renamed")
    done = repository.roofline("gate", "--base", "HEAD~1")
    assert done.returncode == 1
    assert "workloads/layer.yaml (renamed from workloads/block.yaml): failed: total.bound.time_s>+2%" in done.stdout


def test_a_renamed_step_is_listed_as_removed_and_added(repository: Repository) -> None:
    repository.edit("id: qkv", "id: query_key_value")
    done = repository.roofline("gate", "--base", "HEAD", "--format", "markdown")
    assert done.returncode == 0
    assert "- removed: qkv\n- added: query_key_value\n" in done.stdout
    assert repository.roofline("gate", "--base", "HEAD", "--fail-on", "missing").returncode == 1


def test_a_removed_workload_is_listed(repository: Repository) -> None:
    folder = repository.folder / "workloads"
    (folder / "other.yaml").write_text("schema: 1\ndtype: bf16\nsteps: [{op: gemm, m: 8, n: 8, k: 8}]\n", encoding="utf-8")
    repository.commit("two")
    (folder / "other.yaml").unlink()
    done = repository.roofline("gate", "--base", "HEAD")
    assert (done.returncode, first(done.stdout)) == (0, "passed: 2 workloads against HEAD; 1 same, 1 removed")
    assert "workloads/other.yaml: removed: it is gone" in done.stdout


def test_another_device_is_not_comparable(repository: Repository) -> None:
    repository.edit("h100-sxm", "h200-sxm", "roofline.toml")
    done = repository.roofline("gate", "--base", "HEAD")
    assert done.returncode == 2
    assert "block.yaml: not comparable: not comparable: hardware h100-sxm -> h200-sxm" in done.stdout
    assert repository.roofline("gate", "--base", "HEAD", "--allow-context-change").returncode == 0


def test_the_base_is_read_with_its_own_settings_and_profiles(repository: Repository) -> None:
    """A profile of the project that became faster is seen as such."""
    profile = (
        "schema: 1\nname: ours\nextends: h100-sxm\nproduct: a card of ours\nsources: {ours: measured}\n"
        "levels: {hbm: {bandwidth: {value: 1 TB/s, kind: measured, source: ours}}}\n"
    )
    (repository.folder / "hardware_specs").mkdir()
    (repository.folder / "hardware_specs" / "ours.yaml").write_text(profile, encoding="utf-8")
    repository.edit('"h100-sxm"', '"ours"', "roofline.toml")
    repository.commit("ours")
    repository.edit("1 TB/s", "2 TB/s", "hardware_specs/ours.yaml")
    done = repository.roofline("gate", "--base", "HEAD", "--format", "markdown", "--fail-on", "missing")
    assert done.returncode == 0
    assert "profile figure levels.hbm.bandwidth" in done.stdout
    assert "1000000000000 -> 2000000000000" in done.stdout


def test_a_base_that_cannot_be_analyzed_is_no_baseline(repository: Repository) -> None:
    repository.edit("op: gemm", "op: gmm")
    repository.commit("broken")
    repository.edit("op: gmm", "op: gemm")
    done = repository.roofline("gate", "--base", "HEAD", "--allow-missing-baseline")
    assert done.returncode == 0
    assert "no baseline: the base commit's file cannot be analyzed: " in done.stdout
    assert "unknown operator 'gmm'" in done.stdout


def test_a_head_that_cannot_be_read_is_exit_2_with_every_place(repository: Repository) -> None:
    repository.edit("op: gemm", "op: gmm")
    done = repository.roofline("gate", "--base", "HEAD")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("workloads/block.yaml:6:") == 1
    assert done.stderr.count("unknown operator 'gmm'") == 2


def test_it_works_from_a_folder_of_the_repository(repository: Repository) -> None:
    repository.edit(*SLOWER)
    inner = Repository.__new__(Repository)
    inner.folder, inner.environment = repository.folder / "workloads", repository.environment
    done = inner.roofline("gate", "block.yaml", "--base", "HEAD")
    assert done.returncode == 1
    assert "block.yaml: failed: " in done.stdout


def test_a_file_outside_of_the_repository_has_no_baseline(repository: Repository) -> None:
    (repository.folder.parent / "w.yaml").write_text("schema: 1\ndtype: bf16\nsteps: [{op: gemm, m: 8, n: 8, k: 8}]\n", encoding="utf-8")
    done = repository.roofline("gate", "../w.yaml", "--base", "HEAD")
    assert done.returncode == 3
    assert "../w.yaml: no baseline: it lies outside of the repository" in done.stdout


def test_modules_of_the_commit_are_never_imported(repository: Repository) -> None:
    """json.py and a package roofline in the repository are not what the base's analysis imports."""
    for name in ("json.py", "yaml.py", "typer.py", "roofline.py"):
        (repository.folder / name).write_text("raise SystemExit('the wrong one')\n", encoding="utf-8")
    repository.commit("traps")
    path = repository.environment["PYTHONPATH"]
    code = f"import sys; sys.path[:1] = []; sys.path.insert(0, {path!r}); from roofline.cli.app import run; run()"
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code, "gate", "--base", "HEAD"],
        cwd=repository.folder,
        env=repository.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, first(done.stdout)) == (0, "passed: 1 workload against HEAD; 1 same"), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give the commit to compare with as --base"),
        (("--base", "HEAD", "--from", "x"), "give the commit to compare with as --base"),
        (("--base", "--oops"), "names no commit"),
        (("--base", ""), "names no commit"),
        (("--from", "nosuch"), "no such folder"),
        (("--from", ".", "workloads"), "takes no workloads"),
        (("--base", "HEAD", "--fail-on", "regresion"), "did you mean 'regression'"),
        (("gone.yaml", "--base", "HEAD"), "no such file"),
    ],
)
def test_mistakes_are_exit_2_in_words(repository: Repository, words: tuple[str, ...], said: str) -> None:
    done = repository.roofline("gate", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_outside_of_a_repository_it_says_so(repository: Repository, tmp_path: Path) -> None:
    plain = Repository.__new__(Repository)
    plain.folder, plain.environment = tmp_path / "plain", repository.environment
    (plain.folder / "workloads").mkdir(parents=True)
    (plain.folder / "workloads" / "w.yaml").write_text("schema: 1\ndtype: bf16\nsteps: [{op: gemm, m: 8, n: 8, k: 8}]\n", encoding="utf-8")
    done = plain.roofline("gate", "--base", "HEAD")
    assert done.returncode == 3
    assert "not a git repository" in done.stderr


# --------------------------------------------------------------------------- the folder
def test_the_folder_has_all_that_a_job_keeps_and_judges_the_same(repository: Repository) -> None:
    repository.edit(*SLOWER)
    repository.edit("<= 10 ms", "<= 1 ms")
    done = repository.roofline("gate", "--base", "HEAD", "-d", "out")
    files = sorted(p.relative_to(repository.folder / "out").as_posix() for p in (repository.folder / "out").rglob("*") if p.is_file())
    assert files == [
        "base/workloads/block.yaml.json", "comment.md", "gate.json", "head/workloads/block.yaml.json", "junit.xml", "metrics.txt",
    ]  # fmt: skip
    again = repository.roofline("gate", "--from", "out")
    assert again.returncode == done.returncode == 1
    assert again.stdout.splitlines()[1:] == done.stdout.splitlines()[1:]
    gate = json.loads((repository.folder / "out" / "gate.json").read_text(encoding="utf-8"))
    jsonschema.validate(gate, schema_of("gate"))
    assert (gate["verdict"], [b["held"] for b in gate["workloads"][0]["budgets"]]) == ("failed", [True, False])
    root = ElementTree.parse(repository.folder / "out" / "junit.xml").getroot()
    assert {c.get("name") for c in root.iter("testcase") if len(c)} == {"total.bound.time_s>+2%", "expect total.bound.time_s <= 1 ms"}


@pytest.mark.parametrize("text", ["{}", "[]", '{"workloads": [{"name": "x"}]}', '{"workloads": 3}', "not json"])
def test_a_spoiled_manifest_is_refused_in_words(repository: Repository, text: str) -> None:
    repository.roofline("gate", "--base", "HEAD", "-d", "out")
    (repository.folder / "out" / "gate.json").write_text(text, encoding="utf-8")
    done = repository.roofline("gate", "--from", "out")
    assert done.returncode == 2
    assert "gate.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_spoiled_report_is_refused_in_words(repository: Repository) -> None:
    repository.roofline("gate", "--base", "HEAD", "-d", "out")
    (repository.folder / "out" / "base" / "workloads" / "block.yaml.json").write_text('{"schema": 1, "rows": 3}', encoding="utf-8")
    done = repository.roofline("gate", "--from", "out")
    assert done.returncode == 2
    assert "block.yaml.json" in done.stderr


def test_the_same_commits_give_the_same_bytes(repository: Repository) -> None:
    repository.edit(*SLOWER)
    for name in ("one", "two"):
        repository.roofline("gate", "--base", "HEAD", "-d", f"../{name}")
    folders = [repository.folder.parent / name for name in ("one", "two")]
    texts = [{p.relative_to(f).as_posix(): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 6
