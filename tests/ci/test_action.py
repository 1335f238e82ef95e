"""The steps of the action on two commits, by the scripts that it runs, with a `gh` that only writes down what it is asked."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import CI, Fake, Repository

SLOWER = ("seq: 4096", "seq: 4352")


def outputs(path: Path) -> dict[str, str]:
    """Outputs of a step as the runner reads them."""
    return dict(line.split("=", 1) for line in path.read_text(encoding="utf-8").splitlines())


def steps(repository: Repository, base: str, **given: str) -> tuple[int, dict[str, str], str]:
    """Gate, then finish: the exit code of the job, the outputs, and the comment."""
    out, summary = repository.folder.parent / "output", repository.folder.parent / "summary.md"
    for path in (out, summary):
        path.unlink(missing_ok=True)
    gate = repository.script("gate.sh", GATE_BASE=base, GITHUB_OUTPUT=str(out), GITHUB_STEP_SUMMARY=str(summary), **given)
    assert gate.returncode == 0, gate.stderr
    found = outputs(out)
    done = repository.script("finish.sh", GATE_EXIT_CODE=found["exit-code"], GATE_VERDICT=found["verdict"])
    comment = (repository.folder / found["directory"] / "comment.md").read_text(encoding="utf-8")
    assert summary.read_text(encoding="utf-8") == comment
    return done.returncode, found, comment


def test_a_regression_ends_with_1_and_its_comment_says_why(repository: Repository) -> None:
    repository.edit(*SLOWER)
    repository.commit("slower")
    code, found, comment = steps(repository, "HEAD~1", GATE_FAIL_ON="total.bound.time_s>+2%\n\n  row.limiter-changed  \n")
    assert (code, found["verdict"]) == (1, "failed")
    lines = comment.splitlines()
    assert lines[0] == "<!-- roofline-diff -->"
    assert lines[1] == "**FAILED: 1 workload against HEAD~1; 1 failed**"
    assert "**FAILED 1 of 2 gates; total time +" in comment
    assert re.search(r"^- attention: tensor FLOP \+12\.9 %.*q_len 4096 -> 4352, kv_len 4096 -> 4352", comment, re.MULTILINE)


def test_no_change_ends_with_0(repository: Repository) -> None:
    code, found, comment = steps(repository, "HEAD")
    assert (code, found["verdict"]) == (0, "passed")
    assert "**passed: 1 workload against HEAD; 1 same**" in comment


@pytest.mark.parametrize("base", ["", "0" * 40])
def test_an_event_without_a_commit_before_it_has_its_own_message(repository: Repository, base: str) -> None:
    code, found, comment = steps(repository, base)
    assert (code, found["verdict"]) == (0, "no baseline")
    assert "**no baseline: this event names no commit to compare with**" in comment
    assert steps(repository, base, GATE_ALLOW_MISSING_BASELINE="false")[0] == 3


def test_a_first_workload_has_its_own_message(repository: Repository) -> None:
    repository.git("rm", "-q", "workloads/block.yaml")
    repository.commit("none")
    repository.git("checkout", "-q", "HEAD~1", "--", "workloads/block.yaml")
    code, found, comment = steps(repository, "HEAD")
    assert (code, found["verdict"]) == (0, "no baseline")
    assert "no baseline: it is new: the base commit does not have it" in comment
    assert steps(repository, "HEAD", GATE_ALLOW_MISSING_BASELINE="false")[0] == 3


def test_a_rename_is_listed(repository: Repository) -> None:
    repository.git("mv", "workloads/block.yaml", "workloads/layer.yaml")
    repository.commit("renamed")
    code, _, comment = steps(repository, "HEAD~1")
    assert code == 0
    assert "- workloads/layer.yaml (renamed from workloads/block.yaml): same" in comment


def test_a_file_that_cannot_be_read_ends_with_2_and_says_so(repository: Repository) -> None:
    repository.edit("op: gemm", "op: gmm")
    code, found, comment = steps(repository, "HEAD")
    assert (code, found["verdict"]) == (2, "invalid")
    assert "the log of the job says why" in comment


def test_inputs_are_arguments_and_never_code(repository: Repository) -> None:
    """Quotes, dollars and semicolons of an input reach the command as they are."""
    trap = repository.folder / "trap"
    hostile = f'$(touch {trap}) `touch {trap}` "; touch {trap}; #'
    done = repository.script("gate.sh", GATE_BASE="HEAD", GATE_FAIL_ON=hostile, GATE_HARDWARE=hostile, GATE_SET=hostile)
    assert done.returncode == 0
    assert not trap.exists()
    assert f"--set {hostile}: write key=value" in done.stderr


def test_a_workload_called_like_an_option_is_a_file(repository: Repository) -> None:
    done = repository.script("gate.sh", GATE_BASE="HEAD", GATE_WORKLOADS="--version")
    assert "unknown workload '--version'" in done.stderr


# --------------------------------------------------------------------------- the comment
COMMENT = {"GITHUB_REPOSITORY": "owner/repo", "GH_TOKEN": "x"}


def prepared(repository: Repository) -> None:
    steps(repository, "HEAD")


def test_a_first_comment_is_posted(repository: Repository, gh: Fake) -> None:
    prepared(repository)
    calls = gh("exit 0")
    done = repository.script("comment.sh", GATE_PULL_REQUEST="7", **COMMENT)
    assert done.returncode == 0, done.stderr
    listed, posted = calls.read_text(encoding="utf-8").splitlines()
    assert listed.startswith("api --paginate repos/owner/repo/issues/7/comments --jq ")
    assert '.user.type == "Bot"' in listed
    assert posted == "api --method POST repos/owner/repo/issues/7/comments -F body=@roofline-gate/comment.md --silent"


def test_the_comment_that_is_there_is_brought_up_to_date(repository: Repository, gh: Fake) -> None:
    prepared(repository)
    calls = gh('[[ "$*" == *--paginate* ]] && printf "41\\n42\\n"; exit 0')
    repository.script("comment.sh", GATE_PULL_REQUEST="7", **COMMENT)
    assert "api --method PATCH repos/owner/repo/issues/comments/41 " in calls.read_text(encoding="utf-8")


def test_a_token_that_may_not_write_fails_nothing(repository: Repository, gh: Fake) -> None:
    prepared(repository)
    gh("exit 1")
    done = repository.script("comment.sh", GATE_PULL_REQUEST="7", **COMMENT)
    assert done.returncode == 0
    assert "::warning::the comment could not be written" in done.stdout


FORK = {"GATE_HEAD_SHA": "a" * 40, "GATE_HEAD_OWNER": "somebody", "GATE_HEAD_BRANCH": "patch-1"}


def test_the_pull_request_of_a_fork_is_asked_of_github_and_no_artefact(repository: Repository, gh: Fake) -> None:
    prepared(repository)
    calls = gh('[[ "$*" == *"/pulls "* ]] && echo 9; exit 0')
    done = repository.script("comment.sh", **COMMENT, **FORK)
    assert done.returncode == 0, done.stderr
    asked, _, posted = calls.read_text(encoding="utf-8").splitlines()
    assert "repos/owner/repo/pulls -f state=open -f head=somebody:patch-1" in asked
    assert "select(.head.sha == env.GATE_HEAD_SHA)" in asked
    assert " repos/owner/repo/issues/9/comments " in posted


@pytest.mark.parametrize("answer", ["", "9; rm -rf x", "null"])
def test_without_an_open_pull_request_nothing_is_written(repository: Repository, gh: Fake, answer: str) -> None:
    prepared(repository)
    calls = gh(f"echo '{answer}'")
    done = repository.script("comment.sh", **COMMENT, **FORK)
    assert done.returncode == 0
    assert "no open pull request" in done.stdout
    assert len(calls.read_text(encoding="utf-8").splitlines()) == 1


def test_the_fork_s_comment_is_rendered_from_its_reports_and_not_from_its_text(repository: Repository) -> None:
    """The artefact's comment.md is spoiled; what is written is judged anew."""
    repository.edit(*SLOWER)
    repository.commit("slower")
    steps(repository, "HEAD~1")
    artefact = repository.folder / "roofline-gate"
    (artefact / "comment.md").write_text("[free money](https://example.org) @everyone", encoding="utf-8")
    done = repository.script("render.sh", GATE_ARTIFACT=str(artefact), GATE_DIRECTORY="fresh", GATE_FAIL_ON="total.bound.time_s>+2%")
    assert done.returncode == 0, done.stderr
    text = (repository.folder / "fresh" / "comment.md").read_text(encoding="utf-8")
    assert "free money" not in text
    assert text.splitlines()[1].startswith("**FAILED: 1 workload against the base in ")


def test_reports_that_cannot_be_read_are_said_to_be_that(repository: Repository) -> None:
    (repository.folder / "artefact" / "head").mkdir(parents=True)
    (repository.folder / "artefact" / "head" / "x.json").write_text("{}", encoding="utf-8")
    done = repository.script("render.sh", GATE_ARTIFACT="artefact", GATE_DIRECTORY="fresh")
    assert done.returncode == 0
    assert "cannot be read" in (repository.folder / "fresh" / "comment.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_scripts_are_clean() -> None:
    done = subprocess.run(["shellcheck", *map(str, sorted(CI.glob("*.sh")))], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
