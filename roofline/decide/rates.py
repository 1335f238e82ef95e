"""Where costs take their figures from: the rate of tokens from a report, price and power from a profile or a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from roofline.decide.remedy import of_analyze, of_plan
from roofline.errors import InputError, Problem, UsageError
from roofline.hardware.profile import Figure, Value, si
from roofline.report.cost import Amount, Fleet, Throughput
from roofline.report.model import Input, Notice, Report, Scalar
from roofline.report.plan import PlanReport
from roofline.report.shape import ShapeError, decode
from roofline.report.store import read_json, report_from
from roofline.spec.expression import ExpressionError, evaluate
from roofline.spec.find import find_hardware, holds_cluster
from roofline.spec.hardware import load_hardware
from roofline.spec.source import read_source
from roofline.units import Dimension, format_quantity

UNKNOWN_MEMORY = "W040"
"""Code of the warning that nobody knows whether what is paid for fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """What a report says: tokens a second, the time of a step, and the phase, the devices and the profile it is about, where it says so.

    ``device`` executes the step, ``hardware`` is it or its cluster. ``notices`` is what whoever pays for it must know, ``both`` the tokens
    that a mixed step reads (its chunk) and writes (one a sequence).
    """

    throughput: Throughput
    step_s: Amount
    phase: str | None = None
    devices: int | None
    hardware: str | None
    device: str | None
    input: Input
    notices: tuple[Notice, ...] = ()
    both: tuple[float, float] | None = None


def rate_of_report(path: str, tokens: str | None, phases: tuple[str, ...] = (), option: str = "--tokens") -> Rated:
    """The rate that a report of `roofline plan` or `roofline analyze` gives.

    ``phases`` are those that a plan may be of, any where there are none. ``tokens`` are those of one execution, a number or an expression
    over the report's params, or over the sizes of a plan that does not know its own; ``option`` is what says them.

    Raises:
        InputError: not such a report.
        UsageError: a report without a time, of work that does not fit the device, or tokens that are not said.
    """
    found = read_json(path)
    source = Input.of_text("report", path, read_source(path, max_bytes=2**26).text)
    if isinstance(found, dict) and "rates" in found and "degrees" in found:
        return _of_plan(found, path, (tokens, option), source, phases)
    return _of_report(report_from(found, path), path, (tokens, option), source)


def step_of_report(path: str, phases: tuple[str, ...]) -> Rated:
    """What a report says where its tokens do not matter, but the time of its step does; errors as `rate_of_report`."""
    found = read_json(path)
    return rate_of_report(path, None if isinstance(found, dict) and found.get("rates") else "1", phases)


def _of_plan(found: dict[str, Any], path: str, said: tuple[str | None, str], source: Input, phases: tuple[str, ...]) -> Rated:
    try:
        plan: PlanReport = decode(PlanReport, found, "plan")
    except ShapeError as err:
        raise InputError([Problem(path, 0, 0, str(err))]) from None
    phase = str(plan.job.get("phase"))
    if phases and phase not in phases:
        raise UsageError(f"{path}: a plan of phase {phase}, where one of {' or '.join(phases)} is wanted")
    if plan.time is None or not plan.time.step_s > 0:
        raise UsageError(f"{path}: the plan has no time: {plan.unavailable.get('time', 'it says no more')}")
    notices = _must_fit(path, plan.memory.fits, plan.memory.shortfall_bytes, plan.unavailable.get("memory"), of_plan(plan))
    step = Amount(value=plan.time.step_s, low=plan.time.low_s, high=plan.time.high_s)
    rate = _rate(step, tokens_of_plan(plan, said[0], path, said[1]))
    named = f"{plan.model}, {plan.plan}, {plan.time.label}"
    return Rated(
        throughput=Throughput(kind=plan.time.kind, source=named, tokens_per_s=rate),
        step_s=step,
        phase=phase,
        devices=plan.devices,
        hardware=plan.cluster,
        device=plan.device,
        input=source,
        notices=notices,
        both=_both(plan, path) if phase == "mixed" else None,
    )


def _both(plan: PlanReport, path: str) -> tuple[float, float]:
    """Tokens that a mixed step reads and writes.

    Raises:
        InputError: a report that does not say it.
    """
    chunk, batch = plan.job.get("chunk"), plan.job.get("batch")
    if not isinstance(chunk, int | float) or not isinstance(batch, int | float) or not min(chunk, batch) > 0:
        raise InputError([Problem(path, 0, 0, "a plan of phase mixed whose job has no chunk and batch above 0")])
    return float(chunk), float(batch)


def tokens_of_plan(plan: PlanReport, tokens: str | None, path: str, option: str = "--tokens") -> float:
    """The tokens of a plan's step: its own, or where it has none (guessed tokens, of which some are accepted) those that ``option`` states.

    Raises:
        UsageError: both or neither.
    """
    if plan.rates is not None:
        if tokens is not None:
            raise UsageError(f"{option} {tokens}: a plan knows the tokens of its step, and {path} is one: leave it out")
        return plan.rates.tokens_per_step
    if tokens is None:
        why = plan.unavailable.get("rates", "it does not say how many tokens a step makes")
        some = 1 + float(plan.job.get("draft") or 3) / 2  # half of the guesses, which is possible of any number of them
        raise UsageError(f"{path}: {why}: say how many a step makes, such as {option} 'batch * {some:g}'")
    return _stated_tokens(tokens, plan.job, option)


def _stated_tokens(tokens: str, names: Mapping[str, Scalar], option: str) -> float:
    try:
        made = evaluate(tokens, {k: v for k, v in names.items() if v is not None})
    except ExpressionError as err:
        raise UsageError(f"{option} {tokens}: {err}") from None
    if not made > 0:
        raise UsageError(f"{option} {tokens}: {made:g} tokens; they must be above 0")
    refuse_beyond(float(made), names, f"{option} {tokens}")
    return float(made)


def refuse_beyond(made: float, names: Mapping[str, Scalar], said: str) -> None:
    """Refuse more tokens than a step of guessed ones can make: of each sequence all its guesses and the one that follows them.

    ``names`` are the sizes of a plan or the params of a report, where ``global_batch`` are the sequences of all replicas. A step that
    guesses nothing has no ``draft`` among them, and then nothing is known.

    Raises:
        UsageError: more of them than that.
    """
    draft, batch = names.get("draft"), names.get("global_batch", names.get("batch"))
    if not isinstance(draft, int | float) or not isinstance(batch, int | float) or made <= batch * (draft + 1) * (1 + 1e-9):
        return
    most = f"{batch:g} sequences with {draft:g} guessed tokens each make at most {batch * (draft + 1):g} a step"
    raise UsageError(f"{said}: {made:g} tokens, and {most}: every guess and the token behind them")


def _must_fit(path: str, fits: bool | None, short: float | None, why: str | None, command: str | None) -> tuple[Notice, ...]:
    """Nobody can run, and so pay for, what does not fit; where nobody knows, that is said."""
    if fits is False:
        lack = "" if short is None else f": {format_quantity(short, Dimension.BYTES)} short"
        see = "" if command is None else f"; see '{command}' for what would"
        raise UsageError(f"{path} does not fit the memory of the device{lack}, so that it has no cost{see}")
    if fits is None:
        return (Notice(code=UNKNOWN_MEMORY, message=f"{path}: whether it fits the memory is not known: {why or 'no size of it is'}"),)
    return ()


def replicated(rated: Rated, devices: int | None) -> Rated:
    """The rate of ``devices``: of a report's own, or of as many replicas of them as there are, which serve requests of their own.

    Raises:
        UsageError: no whole number of replicas, or a training step, whose replicas would have to exchange gradients.
    """
    if rated.devices is None or devices in (None, rated.devices):
        return rated
    assert devices is not None
    count, rest = divmod(devices, rated.devices)
    said = f"--devices {devices}: {rated.input.path} is of {rated.devices} devices"
    if rated.phase == "train":
        raise UsageError(
            f"{said}, and more replicas exchange gradients: plan the step on {devices} ('roofline plan ... --devices {devices}')"
        )
    if rest:
        raise UsageError(f"{said}: leave it out, or give a whole multiple, for as many replicas")
    rate = rated.throughput.tokens_per_s
    low, high = (None if end is None else end * count for end in (rate.low, rate.high))
    scaled = Amount(value=rate.value * count, low=low, high=high)
    source = f"{count} replicas of {rated.throughput.source}"
    return replace(rated, devices=devices, throughput=replace(rated.throughput, source=source, tokens_per_s=scaled))


def _of_report(report: Report, path: str, said: tuple[str | None, str], source: Input) -> Rated:
    kind, step = _time(report, path)
    memory = report.totals.memory
    short = memory.shortfall_bytes if memory.fits is False else None
    command = of_analyze(report) if memory.fits is False else None
    notices = _must_fit(path, memory.fits, short, report.totals.unavailable.get("fits"), command)
    tokens, option = said
    if tokens is None:
        raise UsageError(f"{path}: a report does not say how many tokens one execution makes; give {option}, such as {option} batch")
    made = _stated_tokens(tokens, report.params, option)
    name = None if report.hardware is None else str(report.hardware["name"])
    throughput = Throughput(kind=kind, source=f"{report.workload} on {name}", tokens_per_s=_rate(step, made))
    return Rated(throughput=throughput, step_s=step, devices=None, hardware=name, device=name, input=source, notices=notices)


def _time(report: Report, path: str) -> tuple[str, Amount]:
    """The best time that the report has: measured, else estimated, else the bound."""
    measured, estimate, bound = report.totals.measured, report.totals.estimate, report.totals.bound
    if measured is not None and measured.time_s > 0 and measured.status in ("ok", "throttled"):
        low, high = measured.interval_s or (None, None)
        return "measured", Amount(value=measured.time_s, low=low, high=high)
    if estimate is not None and estimate.time_s > 0:
        return "estimate", Amount(value=estimate.time_s, low=estimate.low_s, high=estimate.high_s)
    if bound is not None and bound.time_s > 0:
        return "bound", Amount(value=bound.time_s)
    raise UsageError(f"{path}: the report has no time; analyze it on a device, with -H NAME")


def _rate(step: Amount, tokens: float) -> Amount:
    low, high = (None if end is None else tokens / end for end in (step.high, step.low))
    return Amount(value=tokens / step.value, low=low, high=high)


def stated_rate(tokens_per_s: float) -> Throughput:
    """A rate given on the command line."""
    return Throughput(kind="stated", source="the command line", tokens_per_s=Amount(value=tokens_per_s))


# --------------------------------------------------------------------------- devices
def fleet(devices: int, price: float | None, power: float | None, hardware: str | None) -> Fleet:
    """Devices with price and power: those given, else those of the profile or the cluster.

    Raises:
        UsageError: neither has a price.
    """
    own = _own_figures(hardware) if hardware is not None and (price is None or power is None) else {}
    own_price, own_power = own.get("price", (None, "")), own.get("power", (None, ""))
    usd, price_source = (price, "--price") if price is not None else own_price
    watts, power_source = (power, "--power") if power is not None else own_power
    if usd is None:
        where = f"{hardware} states no price: {own_price[1]}" if hardware else "no profile or cluster was named"
        raise UsageError(f"{where}; give the price of a device, such as --price '2.5 USD/h'")
    return Fleet(
        devices=devices,
        usd_per_device_hour=usd,
        price_source=price_source,
        watts_per_device=watts,
        power_source=power_source if watts is not None else None,
    )


def require_device(hardware: str, device: str, of: str) -> None:
    """Refuse to pay for another device than the times are of: its price and its power are not theirs.

    Raises:
        UsageError: the profile or the cluster ``hardware`` is of another device than ``device``, which ``of`` is of.
    """
    named = load_hardware(hardware).name
    if named != device:
        said = f"-H {hardware}: times of {of} are of {device}, whose price and power are not those of {named}"
        raise UsageError(f"{said}: leave it out, and give --price or --power where {device} states none")


def mtbf_of(hardware: str | None, devices: int = 1) -> tuple[float | None, str]:
    """Mean time between failures of one device of a cluster in s, and its source or why there is none, for a job of so many devices.

    Raises:
        UsageError: more devices than the cluster joins.
    """
    if hardware is None or not holds_cluster(find_hardware(hardware)):
        return None, "no cluster was named"
    from roofline.spec.cluster import load_cluster

    cluster = load_cluster(hardware)
    if cluster.capacity < devices:
        raise UsageError(f"{devices:,} devices, and the outermost tier of {cluster.name} joins {cluster.capacity:,}")
    value, said = _figure(cluster.mtbf, "it says nothing of failures")
    return value, f"{hardware}: {said}"


def _own_figures(hardware: str) -> dict[str, tuple[float | None, str]]:
    """Price in USD an hour and power in W of one device, each with its source or why there is none."""
    if not holds_cluster(find_hardware(hardware)):
        profile = load_hardware(hardware)
        return {"price": _named(profile.price.get("hour"), hardware), "power": _named(profile.power.get("tdp"), hardware)}
    from roofline.spec.cluster import load_cluster

    cluster = load_cluster(hardware)
    found = {}
    for name, value in (("price", cluster.node_price), ("power", cluster.node_power)):
        whole, said = _named(value, hardware)
        found[name] = (None if whole is None else whole / cluster.node_ranks, f"{said}, a node's over {cluster.node_ranks}")
    if found["power"][0] is None:
        found["power"] = _named(cluster.device.power.get("tdp"), cluster.device.name)
    if found["price"][0] is None and isinstance(cluster.device.price.get("hour"), Figure):
        found["price"] = _named(cluster.device.price.get("hour"), cluster.device.name)
    return found


def _named(value: Value | None, name: str) -> tuple[float | None, str]:
    found, said = _figure(value, "it has none")
    return found, f"{name}: {said}" if found is not None else said


def _figure(value: Value | None, otherwise: str) -> tuple[float | None, str]:
    if isinstance(value, Figure):
        return si(value), value.source or value.kind
    return None, otherwise if value is None else value.reason
