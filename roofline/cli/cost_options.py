"""Options of ``roofline cost`` to what the decisions take; mistakes are named by their option."""

from __future__ import annotations

from roofline.decide.economics import TOOL, goodput
from roofline.decide.extrapolate import VARIABLES, Row, extrapolate
from roofline.decide.failures import checkpoint_time_s
from roofline.decide.optimal import CHINCHILLA, CHINCHILLA_SOURCE, flop_of, optimal
from roofline.decide.rates import Rated, fleet, mtbf_of, rate_of_report, stated_rate
from roofline.decide.serving import serving
from roofline.decide.sweep import Asked, devices, first_of, sweep
from roofline.errors import UsageError, did_you_mean
from roofline.report.cost import COST_SCHEMA, BudgetReport, ExtrapolationReport, Fleet, Goodput, ServingReport, Throughput
from roofline.report.model import Input
from roofline.spec.axes import read_axes
from roofline.spec.configurations import read_configurations
from roofline.spec.expenses import count, duration_s, quantity
from roofline.spec.find import find_workload
from roofline.spec.source import read_source
from roofline.units import Dimension


def fleet_of(rated: list[Rated], devices: int | None, price: str | None, power: str | None, hardware: str | None) -> Fleet:
    """What is paid for: of the options, else of the reports.

    Raises:
        UsageError: no number of devices, reports of different fleets, or no price.
    """
    counts = {r.devices for r in rated if r.devices is not None}
    if devices is None and len(counts) != 1:
        raise UsageError(
            "the reports are of different numbers of devices; give --devices" if counts else "give --devices: how many are paid for"
        )
    names = [r.hardware for r in rated if r.hardware is not None]
    usd = None if price is None else quantity(price, Dimension.USD_PER_HOUR, "--price")
    watts = None if power is None else quantity(power, Dimension.WATTS, "--power")
    return fleet(devices or counts.pop() or 1, usd, watts, hardware or (names[0] if names else None))


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
    found, source = mtbf_of(hardware)
    if found is None:
        raise UsageError(f"no time between failures is known ({source}): give --mtbf '50000 h' of a device, or --job-mtbf")
    return found, source


def _checkpoint(time: str | None, size: str | None, storage: str | None) -> tuple[float, str]:
    if time is not None and size is None and storage is None:
        return duration_s(time, "--checkpoint"), "stated"
    if time is None and size is not None and storage is not None:
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


def serving_of(
    workload: str,
    varied: list[str],
    tokens: str | None,
    tpot: str | None,
    ttft: str | None,
    prefill: str | None,
    count_: int | None,
    price: str | None,
    power: str | None,
    hardware: str | None,
) -> ServingReport:
    """The batches of a decoding step with their cost.

    Raises:
        UsageError: what is missing.
    """
    fixed, axes = read_axes(varied)
    source = read_source(str(find_workload(workload)))
    asked = Asked(source=source, overrides=tuple(fixed), axes=tuple(axes), hardware=hardware, tokens=tokens)
    first, (name, text) = first_of(asked), next(iter(devices(asked).items()))
    rated = None if prefill is None else rate_of_report(prefill, "1", ("prefill",))
    inputs = [Input(role="workload", path=workload, sha256=first.sha256)]
    inputs.append(Input.of_text("hardware", name, text))
    return serving(
        asked,
        sweep(asked),
        fleet_of([], count_, price, power, hardware or first.hardware),
        tpot_s=None if tpot is None else duration_s(tpot, "--tpot"),
        ttft_s=None if ttft is None else duration_s(ttft, "--ttft"),
        prefill_s=None if rated is None else rated.step_s.value,
        names={"workload": first.name, "hardware": name},
        inputs=(*inputs, *([] if rated is None else [rated.input])),
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
