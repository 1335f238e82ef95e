"""What `roofline gate` does: reports of two commits, or of a folder, paired and judged."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from roofline.cli.outcome import settings
from roofline.errors import InputError, MissingCapabilityError, Problem, UsageError, of_each

if TYPE_CHECKING:
    from roofline.report.gate import Budget, Gated, GateReport
    from roofline.report.model import Report

Reports = Mapping[str, "tuple[Report | None, Report | None]"]
"""Base and head of each workload."""

# The folder of a commit must not come before the installed package when modules are looked up.
RUN = "import sys; sys.path[:1] = []; from roofline.cli.app import run; sys.argv[0] = 'roofline'; run()"


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line asks."""

    workloads: tuple[str, ...]
    hardware: str | None
    overrides: tuple[str, ...]
    rules: tuple[str, ...]
    allow_context_change: bool


def from_commit(base: str, question: Question) -> tuple[GateReport, Reports]:
    """The workloads of the working tree against those of a commit.

    Raises:
        InputError: workloads that cannot be read, all problems at once.
        MissingCapabilityError: there is no git or no repository.
    """
    from roofline.report.gate import gate_report, gated
    from roofline.spec.revision import changes_since, commit_of, extract, root_of

    heads = _heads(question)
    root = root_of(os.getcwd())
    commit = commit_of(os.getcwd(), base)
    found: list[Gated] = []
    reports: dict[str, tuple[Report | None, Report | None]] = {}
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "base"
        tree.mkdir()
        changes = changes_since(root, commit) if commit else None
        if commit:
            extract(root, commit, tree)
        for workload, (head, budgets) in heads.items():
            path = _from_root(workload, root)
            old = changes.renamed.get(path) if changes else None
            missing = f"the commit {base} is not in this repository (a shallow clone lacks it: fetch it)"
            before = _base(tree, old or path, root, question) if commit else missing
            found.append(_judged(gated, workload, before, head, question, budgets, old))
            reports[workload] = (None if isinstance(before, str) else before, head)
        for path in sorted(changes.deleted if changes else ()):
            gone = _base(tree, path, root, question) if _was_asked_for(path, root, question) else ""
            if not isinstance(gone, str):
                found.append(gated(path, gone, None, ()))
                reports[path] = (gone, None)
    return gate_report(base, found), reports


def _judged(
    gated: Any, name: str, before: Report | str, head: Report | None, question: Question, budgets: tuple[Budget, ...], old: str | None
) -> Gated:
    found: Gated = gated(name, before, head, question.rules, budgets, renamed_from=old, allow_context_change=question.allow_context_change)
    return found


# --------------------------------------------------------------------------- heads
def _heads(question: Question) -> dict[str, tuple[Report, tuple[Budget, ...]]]:
    """Reports of the working tree with their budgets, every problem at once."""
    found = of_each(_files(question.workloads), lambda name: _analyzed(name, question))
    if not found:
        raise MissingCapabilityError(f"no workload in {', '.join(question.workloads)}: nothing was compared")
    return found


def _files(names: tuple[str, ...]) -> Iterator[str]:
    from roofline.spec.kind import kind_of
    from roofline.spec.source import parse, read_source

    for name in names:
        if not os.path.isdir(name):
            yield name
            continue
        for path in sorted(p for p in Path(name).rglob("*") if p.suffix in (".yaml", ".yml") and p.is_file()):
            try:
                kind = kind_of(parse(read_source(str(path))))
            except InputError:  # told when it is analyzed
                kind = "a workload"
            if kind in ("a workload", None):
                yield path.as_posix()


def _analyzed(name: str, question: Question) -> tuple[Report, tuple[Budget, ...]]:
    from roofline.report.build import analyze
    from roofline.report.expect import check
    from roofline.report.gate import budgets_of
    from roofline.report.model import Input
    from roofline.spec.hardware import load_hardware
    from roofline.spec.workload import load_workload

    workload = load_workload(name, list(question.overrides))
    device = question.hardware or workload.hardware or settings.hardware
    inputs = [Input(role="workload", path=name, sha256=workload.sha256)]
    if device:
        inputs.append(Input.of_hardware(device))
    report = analyze(workload, load_hardware(device) if device else None, inputs)
    return report, budgets_of(check(report, workload.expect))


# --------------------------------------------------------------------------- base
def _from_root(name: str, root: Path) -> str:
    return Path(os.path.relpath(Path(name).resolve(), root.resolve())).as_posix()


def _was_asked_for(path: str, root: Path, question: Question) -> bool:
    """Whether a deleted file lay in a folder that is compared; a single file that is gone is a mistake of the caller."""
    folders = [_from_root(name, root) for name in question.workloads if os.path.isdir(name)]
    return path.endswith((".yaml", ".yml")) and any(f == "." or path.startswith(f"{f}/") for f in folders)


def _base(tree: Path, path: str, root: Path, question: Question) -> Report | str:
    """The report of a file of the commit, by a process whose working directory is that commit's; or why there is none."""
    from roofline.report.store import load_report

    if path.startswith("../"):
        return "it lies outside of the repository"
    if not (tree / path).is_file():
        return "it is new: the base commit does not have it"
    here = tree / os.path.relpath(os.getcwd(), root.resolve())
    here.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        written = os.path.join(place, "report.json")
        asked = ["analyze", os.path.relpath(tree / path, here), "--quiet", "--format", "json", "-o", written]
        asked += [word for value in question.overrides for word in ("--set", value)]
        asked += ["-H", question.hardware] if question.hardware else []
        done = subprocess.run([sys.executable, "-c", RUN, *asked], cwd=here, capture_output=True, check=False)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
            return f"the base commit's file cannot be analyzed: {said}"
        return load_report(written)


# --------------------------------------------------------------------------- folders
def write_folder(folder: str, found: GateReport, reports: Reports) -> None:
    """``base/`` and ``head/`` with the reports by the workload's name; ``gate.json``, ``comment.md``, ``junit.xml``, ``metrics.txt``."""
    from roofline.report.formats import gate_view, openmetrics
    from roofline.report.store import to_json, write_text

    for name, sides in reports.items():
        for side, report in zip(("base", "head"), sides, strict=True):
            if report is not None:
                place = Path(folder, side, *_stored_as(name).parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                write_text(str(place), to_json(report))
    Path(folder).mkdir(parents=True, exist_ok=True)
    texts = {
        "gate.json": to_json(found),
        "comment.md": gate_view.comment(found),
        "junit.xml": gate_view.to_junit(found),
        "metrics.txt": openmetrics.of_reports(*(head for _, head in reports.values() if head)),
    }
    for file, text in texts.items():
        write_text(os.path.join(folder, file), text)


def _stored_as(name: str) -> PurePosixPath:
    """The path of a report below its folder: that of the workload without what leads out of it."""
    parts = [p for p in Path(name).as_posix().split("/") if p not in ("", ".", "..")]
    return PurePosixPath(*parts[:-1], f"{parts[-1]}.json")


def from_folder(folder: str, question: Question) -> tuple[GateReport, Reports]:
    """The reports that `write_folder` wrote, judged anew: only reports are read, so that nobody else's words are believed.

    Raises:
        InputError: a file that is no report.
        UsageError: no such folder.
    """
    from roofline.report.gate import gate_report, gated
    from roofline.report.store import load_report

    if not os.path.isdir(folder):
        raise UsageError(f"--from '{folder}': no such folder; 'roofline gate ... -d {folder}' writes one")
    reports: dict[str, tuple[Report | None, Report | None]] = {}
    for side, other in (("head", "base"), ("base", "head")):
        for path in sorted(Path(folder, side).rglob("*.json")):
            name = path.relative_to(Path(folder, side)).as_posix().removesuffix(".json")
            if name not in reports:
                pair = {side: load_report(str(path)), other: _stored(Path(folder, other), path.relative_to(Path(folder, side)))}
                reports[name] = (pair["base"], pair["head"])
    if not reports:
        raise MissingCapabilityError(f"no reports in {folder}: nothing was compared")
    missing = "it is new: there is no report of the base"
    told = _told(folder)
    found = []
    for name, (before, head) in reports.items():
        old, budgets = told.get(name, (None, ()))
        found.append(_judged(gated, name, before or missing, head, question, budgets, old))
    return gate_report(f"the base in {folder}", found), reports


def _told(folder: str) -> dict[str, tuple[str | None, tuple[Budget, ...]]]:
    """What gate.json says besides the reports: old names and budgets. Texts to show, of the kinds they must be, and nothing else."""
    from roofline.report.gate import Budget
    from roofline.report.store import read_json

    path = os.path.join(folder, "gate.json")
    if not os.path.isfile(path):
        return {}
    try:
        found = {}
        for entry in read_json(path)["workloads"]:
            budgets = tuple(Budget(rule=str(b["rule"]), held=b["held"] is True, message=str(b["message"])) for b in entry["budgets"])
            old = entry["renamed_from"]
            found[str(entry["name"])] = (None if old is None else str(old), budgets)
        return found
    except (KeyError, TypeError):
        raise InputError([Problem(path, 0, 0, "this is not what 'roofline gate -d' writes")]) from None


def _stored(folder: Path, name: Path) -> Report | None:
    from roofline.report.store import load_report

    path = folder / name
    return load_report(str(path)) if path.is_file() else None
