"""Where costs take their figures from: the rate of tokens from a report, price and power from a profile or a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.errors import InputError, Problem, UsageError
from roofline.hardware.profile import Figure, Value, si
from roofline.report.cost import Amount, Fleet, Throughput
from roofline.report.model import Input, Report
from roofline.report.shape import ShapeError, decode
from roofline.report.store import read_json, report_from
from roofline.spec.expression import ExpressionError, evaluate
from roofline.spec.find import find_hardware, holds_cluster
from roofline.spec.source import read_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """What a report says: tokens a second, the time of a step, and the devices and the profile it is about, where it says so."""

    throughput: Throughput
    step_s: Amount
    devices: int | None
    hardware: str | None
    input: Input


def rate_of_report(path: str, tokens: str | None, phases: tuple[str, ...] = ()) -> Rated:
    """The rate that a report of `roofline plan` or `roofline analyze` gives.

    ``phases`` are those that a plan may be of, any where there are none. ``tokens`` are those of one execution, a number or an expression
    over the report's params; a plan knows its own.

    Raises:
        InputError: not such a report.
        UsageError: a report without a time, or tokens that are not said.
    """
    found = read_json(path)
    source = Input.of_text("report", path, read_source(path, max_bytes=2**26).text)
    if isinstance(found, dict) and "rates" in found and "degrees" in found:
        return _of_plan(found, path, source, phases)
    return _of_report(report_from(found, path), path, tokens, source)


def _of_plan(found: dict[str, Any], path: str, source: Input, phases: tuple[str, ...]) -> Rated:
    from roofline.report.plan import PlanReport

    try:
        plan: PlanReport = decode(PlanReport, found, "plan")
    except ShapeError as err:
        raise InputError([Problem(path, 0, 0, str(err))]) from None
    phase = str(plan.job.get("phase"))
    if phases and phase not in phases:
        raise UsageError(f"{path}: a plan of phase {phase}, where one of {' or '.join(phases)} is wanted")
    if plan.time is None or plan.rates is None or not plan.time.step_s > 0:
        raise UsageError(f"{path}: the plan has no time: {plan.unavailable.get('time', 'it says no more')}")
    step = Amount(value=plan.time.step_s, low=plan.time.low_s, high=plan.time.high_s)
    rate = _rate(step, plan.rates.tokens_per_step)
    said = f"{plan.model}, {plan.plan}, {plan.time.label}"
    return Rated(
        throughput=Throughput(kind=plan.time.kind, source=said, tokens_per_s=rate),
        step_s=step,
        devices=plan.devices,
        hardware=plan.cluster,
        input=source,
    )


def _of_report(report: Report, path: str, tokens: str | None, source: Input) -> Rated:
    kind, step = _time(report, path)
    if tokens is None:
        raise UsageError(f"{path}: a report does not say how many tokens one execution makes; give --tokens, such as --tokens batch")
    try:
        made = evaluate(tokens, {k: v for k, v in report.params.items() if v is not None})
    except ExpressionError as err:
        raise UsageError(f"--tokens {tokens}: {err}") from None
    if not made > 0:
        raise UsageError(f"--tokens {tokens}: {made:g} tokens; they must be above 0")
    name = None if report.hardware is None else str(report.hardware["name"])
    throughput = Throughput(kind=kind, source=f"{report.workload} on {name}", tokens_per_s=_rate(step, made))
    return Rated(throughput=throughput, step_s=step, devices=None, hardware=name, input=source)


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


def mtbf_of(hardware: str | None) -> tuple[float | None, str]:
    """Mean time between failures of one device of a cluster in s, and its source or why there is none."""
    if hardware is None or not holds_cluster(find_hardware(hardware)):
        return None, "no cluster was named"
    from roofline.spec.cluster import load_cluster

    value, said = _figure(load_cluster(hardware).mtbf, "it says nothing of failures")
    return value, f"{hardware}: {said}"


def _own_figures(hardware: str) -> dict[str, tuple[float | None, str]]:
    """Price in USD an hour and power in W of one device, each with its source or why there is none."""
    from roofline.spec.hardware import load_hardware

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
