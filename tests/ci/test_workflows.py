"""What stands in the action, the workflows, the hooks and the templates: pinned, with few rights, and true to the command line."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from roofline import __version__
from roofline.cli.app import app

from .conftest import CI, EXAMPLE, ROOT

ACTIONS = [ROOT / "action.yml", CI / "comment" / "action.yml"]
OURS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXAMPLES = sorted((EXAMPLE / ".github" / "workflows").glob("*.yml"))
WORKFLOWS = [*OURS, *EXAMPLES]
EVERY = [*ACTIONS, *WORKFLOWS]


def read(path: Path) -> Any:
    """A YAML file; the key ``on`` is text here."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def steps(path: Path) -> Iterator[dict[str, Any]]:
    """All steps of an action or a workflow."""
    found = read(path)
    for job in found["jobs"].values() if "jobs" in found else [found["runs"]]:
        yield from job["steps"]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", EVERY, ids=name)
def test_every_action_of_others_is_pinned_by_its_hash_with_its_version(path: Path) -> None:
    """A tag can be moved, a hash cannot."""
    used = [line for line in path.read_text(encoding="utf-8").splitlines() if re.search(r"\buses: ", line)]
    assert used
    for line in used:
        if "uses: ./" not in line and "uses: OWNER/roofline" not in line:
            assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_an_action_has_one_hash_everywhere() -> None:
    found: dict[str, set[str]] = {}
    for path in EVERY:
        for action, pin in re.findall(r"uses: ([\w./-]+)@([0-9a-f]{40})", path.read_text(encoding="utf-8")):
            found.setdefault(action, set()).add(pin)
    assert len(found) >= 6
    assert {action: pins for action, pins in found.items() if len(pins) > 1} == {}


@pytest.mark.parametrize("path", EVERY, ids=name)
def test_no_expression_stands_in_a_script(path: Path) -> None:
    """What a pull request chooses (a title, a branch) comes by the environment, where it cannot be code."""
    assert not [s["run"] for s in steps(path) if "${{" in s.get("run", "")]


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_workflows_state_their_rights_and_never_run_others_code_with_ours(path: Path) -> None:
    found = read(path)
    assert isinstance(found["permissions"], (dict, str))
    assert "write-all" not in str(found)
    assert "pull_request_target" not in found["on"]
    if "workflow_run" in found["on"]:
        assert not [s for s in steps(path) if "checkout" in s.get("uses", "")]
    for step in steps(path):
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] == "false"


@pytest.mark.parametrize("path", ACTIONS, ids=name)
def test_every_script_that_an_action_runs_is_there_and_gets_its_environment(path: Path) -> None:
    """The names that a script reads are those that the step gives."""
    for step in steps(path):
        if "run" in step:
            script = CI / re.fullmatch(r'bash "\$GITHUB_ACTION_PATH/(?:ci|\.\.)/(\w+\.sh)"', step["run"])[1]  # type: ignore[index]
            text = script.read_text(encoding="utf-8")
            assert step["shell"] == "bash"
            for variable in step["env"]:
                assert re.search(rf"\b{variable}\b", text) or variable == "GH_TOKEN", (script.name, variable)


@pytest.mark.parametrize("path", ACTIONS, ids=name)
def test_every_input_is_described_and_used(path: Path) -> None:
    found, text = read(path), path.read_text(encoding="utf-8")
    for key, value in found["inputs"].items():
        assert value["description"]
        assert f"inputs.{key}" in text
    for value in found.get("outputs", {}).values():
        assert value["description"]
        assert (CI / "gate.sh").read_text(encoding="utf-8").count(f'"{value["value"].split(".")[-1].rstrip(" }")}=') == 1


def test_the_page_names_every_input_and_output() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    found = read(ACTIONS[0])
    assert [key for key in (*found["inputs"], *found["outputs"]) if f"`{key}`" not in page] == []


def test_the_gate_ends_the_job_last() -> None:
    """So that the report is kept and commented on whatever the verdict is."""
    order = [s.get("run") or s["uses"] for s in steps(ACTIONS[0])]
    assert [
        next(i for i, what in enumerate(order) if word in what) for word in ("gate.sh", "upload-artifact", "comment.sh", "finish.sh")
    ] == [2, 3, 4, 5]
    assert len(order) == 6


def test_a_fork_is_never_commented_on_from_its_own_job() -> None:
    (comment,) = (s for s in steps(ACTIONS[0]) if "comment.sh" in s.get("run", ""))
    assert "github.event.pull_request.head.repo.full_name == github.repository" in comment["if"]
    other = read(EXAMPLES[0] if "comment" in EXAMPLES[0].name else EXAMPLES[1])
    assert "head_repository.full_name != github.repository" in other["jobs"]["comment"]["if"]


def test_the_examples_give_inputs_that_exist() -> None:
    known = {"OWNER/roofline": read(ACTIONS[0])["inputs"], "OWNER/roofline/ci/comment": read(ACTIONS[1])["inputs"]}
    used = [s for path in EXAMPLES for s in steps(path) if s["uses"].startswith("OWNER/")]
    assert {s["uses"].partition("@")[0] for s in used} == set(known)
    for step in used:
        assert set(step.get("with", {})) <= set(known[step["uses"].partition("@")[0]])
        assert step["uses"].endswith(f"@v{__version__}")


def test_both_jobs_of_the_example_have_the_same_rules() -> None:
    rules = [s["with"]["fail-on"] for path in EXAMPLES for s in steps(path) if s["uses"].startswith("OWNER/")]
    assert len(set(rules)) == 1


# --------------------------------------------------------------------------- release
def test_a_release_is_built_then_attested_then_published_with_few_rights() -> None:
    found = read(ROOT / ".github" / "workflows" / "release.yml")
    jobs = found["jobs"]
    assert found["on"] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}
    assert found["permissions"] == {}
    assert [jobs[j].get("needs") for j in ("build", "attest", "publish")] == [None, "build", "attest"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert jobs["attest"]["permissions"] == {"id-token": "write", "attestations": "write"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "release"
    assert "password" not in str(jobs)
    assert "secrets." not in str(jobs)


def test_nothing_is_built_or_installed_where_the_right_to_publish_is() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    for job in ("attest", "publish"):
        assert not [s for s in jobs[job]["steps"] if "run" in s or "checkout" in s["uses"]]


@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), (__version__, 1), ("v9.9.9", 1), ("", 1)])
def test_a_tag_is_the_version_of_the_package(tag: str, code: int) -> None:
    done = subprocess.run([sys.executable, str(CI / "release_version.py"), tag], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert bool(done.stderr) == bool(code)


# --------------------------------------------------------------------------- hooks and templates
HOOKS = {hook["id"]: hook for hook in read(ROOT / ".pre-commit-hooks.yaml")}


def test_the_three_hooks_are_there_and_the_example_uses_them() -> None:
    assert set(HOOKS) == {"roofline-validate", "roofline-fmt", "roofline-budget"}
    (example,) = read(EXAMPLE / ".pre-commit-config.yaml")["repos"]
    assert [h["id"] for h in example["hooks"]] == list(HOOKS)
    assert example["rev"] == f"v{__version__}"


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_runs_on_the_files_that_it_names(hook: str) -> None:
    """As pre-commit would: the entry with the shipped files that the patterns take; all of them are in order."""
    entry = HOOKS[hook]
    files = [p.relative_to(ROOT).as_posix() for f in ("workloads", "hardware_specs") for p in (ROOT / f).rglob("*.yaml")]
    taken = [f for f in files if re.search(entry["files"], f) and not (entry.get("exclude") and re.search(entry["exclude"], f))]
    assert ("workloads/gpt2_medium.yaml" in taken, "hardware_specs/nvidia/h100-sxm.yaml" in taken) == (True, hook != "roofline-budget")
    command = shlex.split(entry["entry"]) + (["--check"] if hook == "roofline-fmt" else [])
    result = CliRunner().invoke(app, [*command[1:], *(str(ROOT / f) for f in sorted(taken))])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("path", ["README.md", "workloads/notes.txt", "src/x.yaml"])
def test_a_hook_leaves_other_files_alone(path: str) -> None:
    assert not [h for h in HOOKS.values() if re.search(h["files"], path)]


def test_the_gitlab_template_calls_what_exists() -> None:
    job = read(EXAMPLE / "gitlab-ci.yml")["roofline"]
    reports = job["artifacts"]["reports"]
    assert set(reports) == {"junit", "metrics", "codequality"}
    script = "\n".join(job["script"])
    assert reports["codequality"] in script
    for line in job["script"]:
        words = shlex.split(line.partition("||")[0])
        if words[0] == "roofline":
            text = CliRunner().invoke(app, [words[1], "--help"]).stdout
            assert not [w for w in words[2:] if w.startswith("-") and not re.search(rf"(?<![\w-]){w}\b", text)]


def test_the_example_is_in_order() -> None:
    """Its workload keeps its budget on the device of its settings."""
    workload = str(EXAMPLE / "workloads" / "block.yaml")
    assert CliRunner().invoke(app, ["budget", workload, "-H", "h100-sxm"]).exit_code == 0
    assert CliRunner().invoke(app, ["validate", workload, str(EXAMPLE / "roofline.toml")]).exit_code == 0
    assert CliRunner().invoke(app, ["fmt", "--check", workload]).exit_code == 0
