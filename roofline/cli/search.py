"""``roofline search``: all plans of a job on a cluster, the best of them, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported, warn
from roofline.cli.plan import (
    Attention_,
    Cluster_,
    Cost_,
    DispatchDtype,
    Efficiency,
    Format,
    GradientDtype,
    KvDtype,
    Optimizer,
    Output,
    Page,
    Phase,
    Reserve,
    Sets,
)

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.cli.planning import Given
    from roofline.report.search import SearchReport
    from roofline.spec.plan import WrittenPlan


@reported
def command(
    model: Annotated[str, typer.Argument(help="A model by name, a Hugging Face config.json, or a workload file with 'model:'.")],
    devices: Annotated[str, typer.Option("--devices", help="How many, or several numbers to choose from: 8192,16384.")],
    cluster: Cluster_ = "",
    phase: Phase = "",
    plan: Annotated[str | None, typer.Option("--plan", help="What is fixed: tp=8,sp; all else is searched.")] = None,
    settings: Sets = None,
    objective: Annotated[str, typer.Option("--objective", help="time, cost (time of all devices) or memory.")] = "time",
    top: Annotated[int, typer.Option("--top", min=1, max=1000, help="How many plans to show.")] = 10,
    cost: Cost_ = None,
    efficiency: Efficiency = None,
    kv_dtype: KvDtype = None,
    dispatch_dtype: DispatchDtype = None,
    gradient_dtype: GradientDtype = None,
    optimizer: Optimizer = None,
    attention: Attention_ = None,
    page: Page = None,
    reserve: Reserve = "0 B",
    format_: Format = None,
    output: Output = None,
) -> None:
    """The plan that takes the least time (or device time, or memory) of all that fit, what no other beats, and why.

    Example: roofline search llama-3.1-405b --phase train -C dgx-h100 --devices 16384 --set batch=2048 --set seq=8192 --plan tp=8
    --efficiency matrix=0.6,memory=0.85,link=0.7
    """
    from roofline.cli.planning import Given

    chosen = chosen_format(format_, output, ("table", "json"))
    given = Given(
        model=model, cluster=cluster, phase=phase, sizes=settings or [], kv_dtype=kv_dtype, gradient_dtype=gradient_dtype,
        dispatch_dtype=dispatch_dtype, optimizer=optimizer, attention=attention, page=page, plan=plan,
    )  # fmt: skip
    found = _searched(given, _numbers(devices), objective, top, (cost, efficiency), reserve)
    warn(found.warnings)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
    else:
        _show(found, output)


def _numbers(text: str) -> tuple[int, ...]:
    """Whole numbers from 1, joined by commas."""
    from roofline.errors import UsageError
    from roofline.spec.plan import MOST

    found = []
    for word in text.split(","):
        digits = word.strip()
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and 1 <= int(digits) <= MOST):
            raise UsageError(f"--devices: '{word}' is not a whole number from 1 to {MOST:,}; write 16384, or 8192,16384 to choose from")
        found.append(int(digits))
    return tuple(dict.fromkeys(found))


def _searched(
    given: Given, devices: tuple[int, ...], objective: str, top: int, costs: tuple[str | None, str | None], reserve: str
) -> SearchReport:
    from roofline.cli.planning import WORKLOADS, of_workload, quantity, subject_of
    from roofline.decide.costs import coster_of, kind_and_shares
    from roofline.decide.rank import report_of
    from roofline.decide.search import search
    from roofline.decide.space import STATED, fixed, space_of
    from roofline.errors import MissingCapabilityError
    from roofline.models.shape import shape_of
    from roofline.predict.estimate.estimator import NoParameters
    from roofline.spec.plan import held, read_plan
    from roofline.units import Dimension

    subject, own = of_workload(given) if given.model.endswith(WORKLOADS) else (subject_of(given), None)
    kind, shares = kind_and_shares(*costs)
    coster = coster_of(kind, subject.cluster, shares=shares, execution=subject.execution)
    space = space_of(subject.job, shape_of(subject.model), subject.attention)
    read = read_plan(given.plan) if given.plan else own
    if read is not None:
        keys = [key for key in read.nodes if given.plan or key in STATED]
        held(read, subject.model, subject.job, keys)
        space = fixed(space, read.plan, keys)
    if own is not None and not given.plan:
        _say_not_held(own, subject.job.phase)
    room = quantity(reserve, Dimension.BYTES, "--reserve")
    try:
        found = search(subject, devices, coster, space, objective=objective, top=top, reserve=room)
    except NoParameters as error:
        raise MissingCapabilityError(str(error)) from None
    return report_of(found, subject, devices, coster, objective)


def _say_not_held(own: WrittenPlan, phase: str) -> None:
    """The plan of a file is where its writer is, and a search is for what else there is: what it lets vary varies, in words."""
    from roofline.cli.outcome import settings
    from roofline.decide.space import STATED
    from roofline.spec.plan import written

    if not settings.quiet and not STATED.issuperset(own.nodes):
        note(f"note: the file's plan, {written(own.plan, phase)}, is not held: a search looks at all plans; --plan holds what it states")


def _show(found: SearchReport, output: str | None) -> None:
    from roofline.report.search_view import answer, front, lines, table
    from roofline.report.text import print_columns, styled

    def draw(console: Console) -> None:
        console.print(styled(answer(found), "bold"))
        for title, rows in (("", found.best), ("What no other beats in time and memory, up to three times the least time:", front(found))):
            if rows:
                console.print()
                if title:
                    console.print(styled(title))
                print_columns(table(found, rows), console)
        console.print()
        for line in lines(found):
            console.print(styled(line))

    render(draw, output)
