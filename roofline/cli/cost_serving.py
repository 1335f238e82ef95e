"""What ``roofline cost serving`` is asked, from words to values: batches of a workload on one device, or of a model under a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline.cli.outcome import settings
from roofline.cli.planning import WORKLOADS, Given, judged, question
from roofline.decide.rates import require_device, step_of_report
from roofline.decide.serving import Decoded, Goals, of_grid, of_plans, serving
from roofline.decide.sweep import Asked, devices, first_of, sweep
from roofline.errors import MissingCapabilityError, UsageError
from roofline.report.cost import Fleet, ServingReport
from roofline.report.model import Input
from roofline.spec.axes import Axis, read_axes, spelt
from roofline.spec.expenses import duration_s
from roofline.spec.find import find_model, find_workload, model_names, workload_names
from roofline.spec.source import MapNode, parse, read_source

if TYPE_CHECKING:
    from roofline.cli.planning import Question
    from roofline.report.plan import PlanReport


BATCH = ("batch", "global_batch")
"""What serving varies, and of which one value is an answer too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of the command line."""

    workload: str
    varied: list[str]
    tokens: str | None = None
    tpot: str | None = None
    ttft: str | None = None
    prefill: str | None = None
    prompt: int | None = None
    hardware: str | None = None
    devices: int | None = None
    price: str | None = None
    power: str | None = None
    cluster: str | None = None
    plan: str | None = None
    cost: str | None = None
    efficiency: str | None = None
    kv_dtype: str | None = None
    reserve: str | None = None


def serving_of(words: Words) -> ServingReport:
    """The batches of a decoding step with their cost.

    Raises:
        InputError: what is wrong with files, sizes or the plan, at its place.
        UsageError: what is missing, or options of a plan beside a workload of one device.
    """
    fixed, axes = read_axes(words.varied, BATCH)
    if words.prefill is not None and words.prompt is not None:
        raise UsageError("give the time to the first token as --prefill REPORT or by --prompt TOKENS, not both")
    decoded, fleet, first = (_spread if _is_spread(words) else _alone)(words, fixed, axes)
    tpot_s, ttft_s = (None if t is None else duration_s(t, o) for t, o in ((words.tpot, "--tpot"), (words.ttft, "--ttft")))
    goals = Goals(tpot_s=tpot_s, ttft_s=ttft_s, first_s=first[0] if first else None, first_source=first[1] if first else None)
    return serving(decoded, fleet, goals)


def _is_spread(words: Words) -> bool:
    """Whether the question is of a model under a plan.

    Raises:
        UsageError: options that the other kind of question has.
    """
    said = words.cluster is not None or words.plan is not None
    if words.workload.endswith(WORKLOADS):
        root = parse(read_source(words.workload))
        own = root.entries if isinstance(root, MapNode) else {}
        spread = "model" in own and (said or "plan" in own or "cluster" in own)
    else:
        spread = words.workload not in (*workload_names(), "-") and (said or words.workload in model_names() or _is_config(words.workload))
    other = {
        "--cluster": words.cluster, "--plan": words.plan, "--cost": words.cost, "--efficiency": words.efficiency,
        "--kv-dtype": words.kv_dtype, "--reserve": words.reserve, "--prompt": words.prompt,
    }  # fmt: skip
    used = next((name for name, value in other.items() if value is not None), None)
    if not spread and used is not None:
        raise UsageError(f"{used} is of a model under a plan, and '{words.workload}' is a workload as one device runs it")
    return spread


def _is_config(name: str) -> bool:
    return name.endswith(".json")


First = tuple[float, str]
"""The time to the first token, and what it is of."""


# --------------------------------------------------------------------------- one device
def _alone(words: Words, fixed: Sequence[str], axes: Sequence[Axis]) -> tuple[Decoded, Fleet, First | None]:
    """A workload of steps, its devices stated."""
    source = read_source(str(find_workload(words.workload)))
    asked = Asked(
        source=source, overrides=tuple(fixed), axes=tuple(axes), hardware=words.hardware, otherwise=settings.hardware, tokens=words.tokens
    )
    first, (name, text) = first_of(asked), next(iter(devices(asked).items()))
    prefilled, report = _first(words)
    inputs = (Input(role="workload", path=words.workload, sha256=first.sha256), Input.of_text("hardware", name, text), *report)
    decoded = of_grid(asked, sweep(asked), (first.name, name), first.params, inputs)
    return decoded, _fleet(words, words.devices, words.hardware or first.hardware or settings.hardware), prefilled


def _fleet(words: Words, count: int | None, hardware: str | None) -> Fleet:
    from roofline.cli.cost_options import fleet_of

    if count is None:
        raise UsageError("give --devices: how many are paid for")
    return fleet_of(count, words.price, words.power, hardware)


def _first(words: Words) -> tuple[First | None, tuple[Input, ...]]:
    """The time of the report of a prefill, and the report."""
    if words.prefill is None:
        return None, ()
    rated = step_of_report(words.prefill, ("prefill",))
    return (rated.step_s.value, f"{rated.throughput.kind} of {rated.throughput.source}"), (rated.input,)


# --------------------------------------------------------------------------- a model under a plan
def _spread(words: Words, fixed: Sequence[str], axes: Sequence[Axis]) -> tuple[Decoded, Fleet, First | None]:
    """A model on a cluster: each batch as `roofline plan` judges it."""
    if len(axes) != 1 or axes[0].key != "batch" or not axes[0].numeric:
        raise UsageError("serving varies one thing, the batch of all devices: give --set batch=8..512:x2 and no other list")
    asked = [_question(words, [*fixed, f"batch={spelt(value)}"]) for value in axes[0].values]
    subject = asked[0].subject
    if subject.job.phase != "decode":
        raise UsageError(f"what is served is a decoding step, and {words.workload} is of phase {subject.job.phase}")
    prefilled, report = _first(words)
    if words.prompt is not None:
        prefilled = _prompt(words, asked[0], words.prompt)
    cluster = subject.cluster
    if words.hardware is not None:
        require_device(words.hardware, cluster.device.name, cluster.name)
    role, path = ("workload", words.workload) if words.workload.endswith(WORKLOADS) else ("model", str(find_model(words.workload)))
    inputs = (
        Input.of_text(role, words.workload, read_source(path).text),
        Input.of_text("cluster", cluster.name, read_source(cluster.path).text),
    )
    decoded = of_plans([_judged(words, one) for one in asked], (*inputs, *report), words.tokens)
    return decoded, _fleet(words, int(asked[0].plan.devices), words.hardware or words.cluster or cluster.name), prefilled


def _question(words: Words, sizes: list[str]) -> Question:
    file = words.workload.endswith(WORKLOADS)
    given = Given(
        model=words.workload, cluster=words.cluster or "", phase="" if file else "decode", sizes=sizes, kv_dtype=words.kv_dtype,
        plan=words.plan, devices=words.devices,
    )  # fmt: skip
    return question(given)


def _judged(words: Words, asked: Question) -> PlanReport:
    return judged(asked, words.cost, words.efficiency, words.reserve or "0 B")


def _prompt(words: Words, asked: Question, tokens: int) -> First:
    """The prefill of one prompt on each replica, with nothing else in its way, under the same plan.

    Raises:
        UsageError: the plan breaks a rule of a prefill, or a prompt does not fit.
        MissingCapabilityError: it has no time at the kind of cost that was asked.
    """
    from roofline.models.shape import case_of
    from roofline.plan.validate import problems

    job = replace(asked.subject.job, phase="prefill", batch=asked.plan.dp, seq=tokens, context=0, draft=0, mtp=False)
    subject = replace(asked.subject, job=job, words=())
    broken = [p.message for p in problems(case_of(subject.model, asked.plan, job, subject.cluster)) if p.fatal]
    if broken:
        raise UsageError(f"--prompt {tokens}: {'; '.join(broken)}")
    found = _judged(words, replace(asked, subject=subject))
    if found.memory.fits is False:
        raise UsageError(f"--prompt {tokens}: the prefill of a prompt does not fit under {found.plan}")
    if found.time is None or found.rates is None or found.rates.ttft_s is None:
        why = found.unavailable.get("time") or found.unavailable.get("ttft_s", "it has no time")
        raise MissingCapabilityError(f"--prompt {tokens}: {why}")
    return found.rates.ttft_s, f"{found.time.kind} of a prompt of {tokens:,} tokens alone under {found.plan}"
