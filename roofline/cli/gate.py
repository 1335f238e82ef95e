"""``roofline gate``: the workloads of a pull request against those of its base commit, with one verdict and one comment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, reported

if TYPE_CHECKING:
    from roofline.report.gate import GateReport

FORMATS = ("text", "json", "markdown", "junit")


@reported
def command(
    workloads: Annotated[
        list[str] | None, typer.Argument(help="Workload files, or folders of them; ./workloads if none is given.", show_default=False)
    ] = None,
    base: Annotated[str | None, typer.Option("--base", help="Commit to compare with: a branch, a tag or a hash.")] = None,
    stored: Annotated[str | None, typer.Option("--from", help="Folder that -d wrote: judge its reports again, without git.")] = None,
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Device; else the one that each workload names.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="Change every workload, before and after alike: key=value.")] = None,
    fail_on: Annotated[list[str] | None, typer.Option("--fail-on", help="Rule as of 'roofline diff' (exit 1); repeat.")] = None,
    allow_context_change: Annotated[
        bool, typer.Option("--allow-context-change", help="Compare all the same what is not comparable.")
    ] = False,
    allow_missing_baseline: Annotated[bool, typer.Option("--allow-missing-baseline", help="Exit 0 when there is no baseline yet.")] = False,
    directory: Annotated[
        str | None, typer.Option("-d", "--directory", help="Write reports, comment.md, junit.xml and gate.json into this folder.")
    ] = None,
    format_: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Analyze workloads as they are and as they were at a commit, compare them, and hold their budgets ('expect').

    A workload that is new has no baseline and fails by its budgets only; a file that git knows as renamed is compared with
    what it was. Exit codes: 0 passed, 1 a gate or a budget failed, 2 bad input or not comparable, 3 no baseline at all.

    Example: roofline gate workloads --base origin/main --fail-on 'total.bound.time_s>+2%'
    """
    from roofline.cli.gating import Question, from_commit, from_folder, write_folder
    from roofline.errors import UsageError

    chosen = chosen_format(format_, output, FORMATS)
    if (base is None) == (stored is None):
        raise UsageError("give the commit to compare with as --base, or a folder of reports as --from")
    if stored is not None and (workloads or hardware or overrides):
        raise UsageError("--from judges stored reports: it takes no workloads, -H or --set")
    question = Question(tuple(workloads or ["workloads"]), hardware, tuple(overrides or ()), tuple(fail_on or ()), allow_context_change)
    found, reports = from_folder(stored, question) if stored is not None else from_commit(str(base), question)
    if directory is not None:
        write_folder(directory, found, reports)
    deliver(_text(found, chosen), output)
    _end(found, allow_missing_baseline)


def _text(found: GateReport, chosen: str) -> str:
    from roofline.report.formats import gate_view

    if chosen == "json":
        from roofline.report.store import to_json

        return to_json(found)
    if chosen == "markdown":
        return gate_view.comment(found)
    return gate_view.to_junit(found) if chosen == "junit" else "\n".join(gate_view.lines(found)) + "\n"


def _end(found: GateReport, allow_missing_baseline: bool) -> None:
    """The exit code of the verdict, with its reason on stderr."""
    from roofline.errors import GateFailedError, MissingCapabilityError, UsageError
    from roofline.report.formats.gate_view import verdict_line

    if found.verdict == "failed":
        raise GateFailedError(verdict_line(found))
    if found.verdict == "not comparable":
        raise UsageError(verdict_line(found))
    if found.verdict == "no baseline":
        if not allow_missing_baseline:
            raise MissingCapabilityError(f"{verdict_line(found)}; --allow-missing-baseline passes a first run")
        note(f"no baseline: nothing was compared with {found.base} (--allow-missing-baseline)")
