"""Options of ``roofline cost`` to what the decisions take; mistakes are named by their option."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from roofline.cli.outcome import settings
from roofline.decide.economics import TOOL, goodput
from roofline.decide.extrapolate import VARIABLES, Row, extrapolate
from roofline.decide.failures import checkpoint_time_s
from roofline.decide.optimal import CHINCHILLA, CHINCHILLA_SOURCE, flop_of, optimal
from roofline.decide.rates import Rated, fleet, mtbf_of, replicated, require_device, stated_rate
from roofline.errors import UsageError, did_you_mean
from roofline.report.cost import COST_SCHEMA, BudgetReport, ExtrapolationReport, Fleet, Goodput, RunCost, Throughput, TokenCost
from roofline.report.model import Input
from roofline.spec.configurations import read_configurations
from roofline.spec.expenses import count, duration_s, quantity
from roofline.spec.source import read_source
from roofline.units import Dimension

Found = TypeVar("Found", TokenCost, RunCost)


def fleet_of(devices: int, price: str | None, power: str | None, hardware: str | None) -> Fleet:
    """So many devices with the price and the power of the options, else of the profile or cluster.

    Raises:
        UsageError: no price.
    """
    usd = None if price is None else quantity(price, Dimension.USD_PER_HOUR, "--price")
    watts = None if power is None else quantity(power, Dimension.WATTS, "--power")
    return fleet(devices, usd, watts, hardware)


def paid(
    rated: list[Rated | None], devices: int | None, price: str | None, power: str | None, hardware: str | None
) -> tuple[Fleet, list[Rated | None]]:
    """What is paid for: of the options, else of the reports; and the reports at the rate of so many devices.

    Raises:
        UsageError: no number of devices, or one that reports are not of; reports of different fleets, another device, or no price.
    """
    known = [r for r in rated if r is not None]
    counts = {r.devices for r in known if r.devices is not None}
    if devices is None and len(counts) != 1:
        raise UsageError(
            "the reports are of different numbers of devices; give --devices" if counts else "give --devices: how many are paid for"
        )
    count_ = devices or counts.pop() or 1
    for one in known:
        if hardware is not None and one.device is not None:
            require_device(hardware, one.device, one.input.path)
    names = [r.hardware for r in known if r.hardware is not None]
    scaled = [None if r is None else replicated(r, count_) for r in rated]
    return fleet_of(count_, price, power, hardware or (names[0] if names else settings.hardware)), scaled


def noticed(found: Found, rated: list[Rated | None]) -> Found:
    """The cost with what must be known of the reports that it comes from."""
    return replace(found, warnings=tuple(notice for r in rated if r is not None for notice in r.notices))


def mixed_of(rated: list[Rated | None], beside: Mapping[str, str | None]) -> Rated | None:
    """The report of a mixed step, which reads and writes at once, so that nothing else has a part in its tokens; None without one.

    Raises:
        UsageError: another report, or options that give it another mix or another rate.
    """
    found = next((r for r in rated if r is not None and r.both is not None), None)
    if found is None:
        return None
    others = [r.input.path for r in rated if r is not None and r.input.sha256 != found.input.sha256]
    said = [*others, *(name for name, value in beside.items() if value is not None)]
    if said:
        raise UsageError(f"{found.input.path} is of a mixed step, which reads and writes tokens in a mix of its own: leave out {said[0]}")
    return found


def rate_or_none(rated: Rated | None, stated: str | None, report: str, option: str) -> Throughput | None:
    """The rate of a report or the one stated.

    Raises:
        UsageError: both.
    """
    if rated is not None and stated is not None:
        raise UsageError(f"give {report} or {option}, not both")
    return rated.throughput if rated else None if stated is None else stated_rate(count(stated, option))


def blend_of(text: str | None) -> tuple[float, float] | None:
    """Tokens read to tokens written.

    Raises:
        UsageError: not two numbers with a colon between them.
    """
    if text is None:
        return None
    first, colon, second = text.partition(":")
    if not colon:
        raise UsageError(f"--blend '{text}': write tokens read to tokens written, such as 3:1")
    return count(first, "--blend"), count(second, "--blend")


def throughput_of(rated: Rated | None, rate: str | None, step_time: str | None, step_tokens: str | None) -> Throughput:
    """The rate of training: of a report, stated, or from a stated step.

    Raises:
        UsageError: none of them, or more than one.
    """
    if [rated is not None, rate is not None, step_time is not None].count(True) != 1:
        raise UsageError("give one of a report, --tokens-per-s, or --step-time with --tokens")
    if rated is not None:
        return rated.throughput
    if rate is not None:
        return stated_rate(count(rate, "--tokens-per-s"))
    if step_tokens is None:
        raise UsageError("--step-time needs the tokens of a step: give --tokens, such as --tokens 16M")
    return stated_rate(count(step_tokens, "--tokens") / duration_s(step_time or "", "--step-time"))


def failures_of(
    count_: int,
    hardware: str | None,
    mtbf: str | None,
    job_mtbf: str | None,
    restart: str | None,
    checkpoint: str | None,
    checkpoint_size: str | None,
    storage: str | None,
    interval: str | None,
    *,
    wanted: bool,
) -> Goodput | None:
    """What failures take; None where nothing was said of them and they are not ``wanted``.

    Raises:
        UsageError: something that failures cannot be worked out without.
    """
    said = (mtbf, job_mtbf, restart, checkpoint, checkpoint_size, storage, interval)
    if not wanted and not any(said):
        return None
    device_mtbf, source = _device_mtbf(count_, hardware, mtbf, job_mtbf)
    writing, written = _checkpoint(checkpoint, checkpoint_size, storage)
    if restart is None:
        raise UsageError("give the time of a restart, such as --restart '10 min'")
    return goodput(
        count_,
        device_mtbf,
        writing,
        duration_s(restart, "--restart", zero=True),
        interval_s=None if interval is None else duration_s(interval, "--interval"),
        mtbf_source=source,
        checkpoint_source=written,
    )


def _device_mtbf(count_: int, hardware: str | None, mtbf: str | None, job_mtbf: str | None) -> tuple[float, str]:
    if mtbf is not None and job_mtbf is not None:
        raise UsageError("give --mtbf of a device or --job-mtbf of the whole job, not both")
    if mtbf is not None:
        return duration_s(mtbf, "--mtbf"), "--mtbf"
    if job_mtbf is not None:
        return duration_s(job_mtbf, "--job-mtbf") * count_, "--job-mtbf"
    found, source = mtbf_of(hardware or settings.cluster, count_)
    if found is None:
        raise UsageError(f"no time between failures is known ({source}): give --mtbf '50000 h' of a device, or --job-mtbf")
    return found, source


def _checkpoint(time: str | None, size: str | None, storage: str | None) -> tuple[float, str]:
    if time is not None and (size is not None or storage is not None):
        raise UsageError("give the time of a checkpoint, --checkpoint, or --checkpoint-size with --storage, not both")
    if time is not None:
        return duration_s(time, "--checkpoint"), "stated"
    if size is not None and storage is not None:
        written = quantity(size, Dimension.BYTES, "--checkpoint-size")
        return checkpoint_time_s(written, quantity(storage, Dimension.BYTES_PER_S, "--storage")), f"{size.strip()} at {storage.strip()}"
    raise UsageError("give the time of a checkpoint, --checkpoint '30 s', or --checkpoint-size '5.7 TB' with --storage '2 TB/s'")


def budget_of(flop: str | None, count_: int | None, time: str | None, achieved: str | None, ratio: float | None) -> BudgetReport:
    """A compute-optimal model for FLOP that are given, or that devices reach in a time.

    Raises:
        UsageError: neither or both, or a ratio that is not above 0.
    """
    fleet_given = (count_, time, achieved)
    if (flop is None) == (not any(v is not None for v in fleet_given)) or (flop is None and None in fleet_given):
        raise UsageError("give --flop 5.76e23, or --devices, --time and --achieved together")
    if flop is not None:
        budget, source = count(flop, "--flop"), "stated"
    else:
        rate = quantity(achieved or "", Dimension.FLOP_PER_S, "--achieved")
        budget = flop_of(count_ or 1, duration_s(time or "", "--time"), rate)
        source = f"{count_} devices for {time} at {achieved} each"
    found = optimal(budget, CHINCHILLA if ratio is None else ratio)
    return BudgetReport(
        schema=COST_SCHEMA,
        kind="budget",
        tool=TOOL,
        flop=found.flop,
        flop_source=source,
        tokens_per_parameter=found.tokens_per_parameter,
        ratio_source=CHINCHILLA_SOURCE if ratio is None else "--tokens-per-parameter",
        parameters=found.parameters,
        tokens=found.tokens,
    )


def extrapolation_of(table: str, at: list[str]) -> ExtrapolationReport:
    """The time of the configuration ``at`` from those of a table.

    Raises:
        UsageError: not all of devices, batch and seq, or a configuration that the rows say nothing of.
    """
    target: dict[str, float] = {}
    for text in at:
        key, equals, value = text.partition("=")
        if key not in VARIABLES or not equals:
            raise UsageError(f"--at {text}: write {' or '.join(f'{v}=...' for v in VARIABLES)}; {did_you_mean(key, VARIABLES)}")
        target[key] = count(value, f"--at {key}")
    missing = [v for v in VARIABLES if v not in target]
    if missing:
        raise UsageError(f"--at lacks {', '.join(missing)}: give all of {', '.join(VARIABLES)}")
    rows = [Row(**row) for row in read_configurations(table, (*VARIABLES, "time_s"))]
    found = extrapolate(rows, {v: target[v] for v in VARIABLES})
    return ExtrapolationReport(
        schema=COST_SCHEMA,
        kind="extrapolation",
        tool=TOOL,
        inputs=(Input.of_text("measured", table, read_source(table).text),),
        rows=len(rows),
        terms=found.coefficients,
        seconds=found.seconds,
        left_out_error=found.errors,
        target={v: target[v] for v in VARIABLES},
        beyond=found.beyond,
        time_s=found.time_s,
    )
