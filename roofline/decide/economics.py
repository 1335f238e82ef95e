"""What time costs: dollars and joules of tokens, of serving and of training runs.

Money and energy are devices x time x rate, whatever the devices do meanwhile: the energy is that of the stated power, which a device
at its limit draws and an idle one does not. A band of a time becomes a band of what it costs; a bound of a time bounds the cost.
"""

from __future__ import annotations

from dataclasses import replace

from roofline import __version__
from roofline.decide.failures import daly_interval_s, job_mtbf_s, shares, young_interval_s
from roofline.errors import UsageError
from roofline.report.cost import COST_SCHEMA, Amount, Fleet, Goodput, PerMillion, RunCost, Throughput, TokenCost
from roofline.report.model import Input

HOUR_S = 3600.0
MILLION = 1e6
TOOL = f"roofline {__version__}"
NO_POWER = "no power is known; give --power, such as --power '700 W'"


def scaled(amount: Amount, factor: float) -> Amount:
    """The amount times a factor above 0."""
    low, high = (None if end is None else end * factor for end in (amount.low, amount.high))
    return Amount(value=amount.value * factor, low=low, high=high)


def inverse(amount: Amount, numerator: float = 1.0) -> Amount:
    """``numerator`` over the amount: rates from times and the other way round; the ends change places."""
    low, high = (None if end is None else numerator / end for end in (amount.high, amount.low))
    return Amount(value=numerator / amount.value, low=low, high=high)


def usd_per_s(fleet: Fleet) -> float:
    """What a second of all devices costs."""
    return fleet.devices * fleet.usd_per_device_hour / HOUR_S


def watts(fleet: Fleet) -> float | None:
    """The power of all devices."""
    return None if fleet.watts_per_device is None else fleet.devices * fleet.watts_per_device


def per_million(fleet: Fleet, tokens_per_s: Amount) -> PerMillion:
    """Dollars and joules of a million tokens at that rate."""
    seconds = inverse(tokens_per_s, MILLION)
    power = watts(fleet)
    return PerMillion(usd=scaled(seconds, usd_per_s(fleet)), joules=None if power is None else scaled(seconds, power))


def require_rate(*given: object) -> None:
    """Refuse a cost of tokens of which nothing says how quickly they are made.

    Raises:
        UsageError: nothing given is anything.
    """
    if all(one is None for one in given):
        raise UsageError("give what reads tokens (--prefill, --input-tokens-per-s), what writes them (--decode, --output-tokens-per-s)")


def token_cost(
    fleet: Fleet,
    read: Throughput | None,
    written: Throughput | None,
    blend: tuple[float, float] | None,
    inputs: tuple[Input, ...] = (),
) -> TokenCost:
    """The cost of tokens read, written, and of a mix of ``blend`` tokens read to tokens written.

    Raises:
        UsageError: no rate at all, or a mix of which one part has no rate.
    """
    require_rate(read, written)
    if blend is not None and (read is None or written is None):
        raise UsageError("--blend needs the rate of tokens read and the rate of tokens written")
    first, second = (None if t is None else per_million(fleet, t.tokens_per_s) for t in (read, written))
    why = {name: "no rate of these tokens was given" for name, t in (("input", read), ("output", written)) if t is None}
    if blend is None:
        why["blended"] = "the mix was not said: give --blend READ:WRITTEN, such as --blend 3:1"
    if fleet.watts_per_device is None:
        why["joules"] = NO_POWER
    return TokenCost(
        schema=COST_SCHEMA,
        kind="token_cost",
        tool=TOOL,
        inputs=inputs,
        fleet=fleet,
        read=read,
        written=written,
        input=first,
        output=second,
        blended=_blended(first, second, blend) if blend and first and second else None,
        blend=blend,
        unavailable=why,
    )


def mixed_cost(fleet: Fleet, throughput: Throughput, both: tuple[float, float], inputs: tuple[Input, ...] = ()) -> TokenCost:
    """The cost of tokens of a mixed step, which reads and writes so many in the same seconds.

    What it costs is that of all its tokens, in the mix of the step. Tokens written carry all of it, those read beside them included; tokens
    read have no price of their own, since no second is theirs alone.
    """
    rates = [replace(throughput, tokens_per_s=scaled(throughput.tokens_per_s, tokens / sum(both))) for tokens in both]
    beside = f"a step reads {both[0] / both[1]:,.4g} tokens beside each that it writes: the cost of those written is that of the whole step"
    return TokenCost(
        schema=COST_SCHEMA,
        kind="token_cost",
        tool=TOOL,
        inputs=inputs,
        fleet=fleet,
        read=rates[0],
        written=rates[1],
        input=None,
        output=per_million(fleet, rates[1].tokens_per_s),
        blended=per_million(fleet, throughput.tokens_per_s),
        blend=both,
        unavailable={"input": beside, **({"joules": NO_POWER} if fleet.watts_per_device is None else {})},
    )


def _blended(first: PerMillion, second: PerMillion, blend: tuple[float, float]) -> PerMillion:
    """Weighted by tokens; the ends are those of both, since one device reads and writes."""
    parts = (blend[0] / sum(blend), blend[1] / sum(blend))

    def mixed(a: Amount, b: Amount) -> Amount:
        ends = [(getattr(a, end), getattr(b, end)) for end in ("low", "high")]
        low, high = (None if x is None or y is None else parts[0] * x + parts[1] * y for x, y in ends)
        return Amount(value=parts[0] * a.value + parts[1] * b.value, low=low, high=high)

    joules = mixed(first.joules, second.joules) if first.joules and second.joules else None
    return PerMillion(usd=mixed(first.usd, second.usd), joules=joules)


def goodput(
    devices: int,
    device_mtbf_s: float,
    checkpoint_s: float,
    restart_s: float,
    *,
    interval_s: float | None = None,
    mtbf_source: str = "stated",
    checkpoint_source: str = "stated",
) -> Goodput:
    """What failures take from a job on so many devices; checkpoints at the interval given, else at Daly's.

    Raises:
        UsageError: no progress is made.
    """
    mtbf = job_mtbf_s(device_mtbf_s, devices)
    young, daly = young_interval_s(checkpoint_s, mtbf), daly_interval_s(checkpoint_s, mtbf)
    used = daly if interval_s is None else interval_s
    spent = shares(used, checkpoint_s, restart_s, mtbf)
    return Goodput(
        devices=devices,
        device_mtbf_s=device_mtbf_s,
        mtbf_source=mtbf_source,
        job_mtbf_s=mtbf,
        checkpoint_s=checkpoint_s,
        checkpoint_source=checkpoint_source,
        restart_s=restart_s,
        young_s=young,
        daly_s=daly,
        interval_s=used,
        interval_source="Daly" if interval_s is None else "stated",
        useful_share=spent.useful,
        checkpoint_share=spent.checkpoint,
        restart_share=spent.restart,
        rework_share=spent.rework,
    )


def run_cost(fleet: Fleet, tokens: float, throughput: Throughput, found: Goodput | None = None, inputs: tuple[Input, ...] = ()) -> RunCost:
    """A training run of so many tokens: its time with what failures take, and what that costs."""
    ideal = inverse(throughput.tokens_per_s, tokens)
    time = ideal if found is None else scaled(ideal, 1 / found.useful_share)
    power, why = watts(fleet), {}
    if power is None:
        why["joules"] = NO_POWER
    if found is None:
        why["goodput"] = why["failures"] = "failures were left out: give --mtbf (or a cluster that has one), --restart and a checkpoint"
    usd = scaled(time, usd_per_s(fleet))
    return RunCost(
        schema=COST_SCHEMA,
        kind="run_cost",
        tool=TOOL,
        inputs=inputs,
        fleet=fleet,
        tokens=tokens,
        throughput=throughput,
        without_failures_s=ideal,
        goodput=found,
        failures=None if found is None else scaled(time, 1 / found.job_mtbf_s),
        time_s=time,
        device_hours=scaled(time, fleet.devices / HOUR_S),
        usd=usd,
        usd_per_million_tokens=scaled(usd, MILLION / tokens),
        joules=None if power is None else scaled(time, power),
        unavailable=why,
    )
