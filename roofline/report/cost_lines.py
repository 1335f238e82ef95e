"""Costs for people: the answer first, then what it is made of."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.report.columns import Column, number, seconds
from roofline.report.cost import (
    Amount,
    BudgetReport,
    ExtrapolationReport,
    Fleet,
    Goodput,
    PerMillion,
    RunCost,
    ServingPoint,
    ServingReport,
    Throughput,
    TokenCost,
)
from roofline.report.sentences import percent
from roofline.units import Dimension, format_quantity

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
_LARGE = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def usd(value: float) -> str:
    """A sum of money."""
    if value >= 1e6:
        return f"{value / 1e6:.4g} M USD"
    return f"{value:.0f} USD" if value >= 1000 else f"{value:.4g} USD"


def span(value: float) -> str:
    """A time that may be months."""
    for size, unit in ((2 * DAY_S, "days"), (HOUR_S, "h"), (2 * MINUTE_S, "min")):
        if value >= size:
            return f"{value / {'days': DAY_S, 'h': HOUR_S, 'min': MINUTE_S}[unit]:.4g} {unit}"
    return seconds(value, True)


def joules(value: float) -> str:
    """An energy; above a kilowatt-hour in those too."""
    shown = format_quantity(value, Dimension.JOULES)
    return f"{shown} ({value / 3.6e6:.4g} kWh)" if value >= 3.6e6 else shown


def tokens(value: float) -> str:
    """A number of tokens or parameters."""
    for size, suffix in _LARGE:
        if value >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.4g}"


def _band(a: Amount, shown: str) -> str:
    """The figure with how far its ends lie from it."""
    if a.low is None or a.high is None or not a.value:
        return shown
    low, high = (round((end / a.value - 1) * 100) for end in (a.low, a.high))
    return f"{shown} (-{-low}/+{high} %)"


def fleet_line(f: Fleet) -> str:
    """What is paid for."""
    devices = f"{f.devices} device{'s' if f.devices > 1 else ''}"
    power = f", {f.watts_per_device:g} W each ({f.power_source})" if f.watts_per_device is not None else ", power not known"
    return f"{devices} at {f.usd_per_device_hour:.4g} USD/h each ({f.price_source}){power}."


def rate_line(what: str, t: Throughput) -> str:
    """A rate and where it comes from."""
    note = {"bound": ": a bound, so that the cost is no less than said", "stated": ""}.get(t.kind, "")
    source = t.source if t.kind == "stated" else f"{t.kind} of {t.source}"
    return f"{what}: {_band(t.tokens_per_s, tokens(t.tokens_per_s.value))} tokens/s ({source}){note}."


def _per_million(name: str, p: PerMillion) -> str:
    energy = "" if p.joules is None else f", {joules(p.joules.value)}"
    return f"{name}: {_band(p.usd, usd(p.usd.value))}{energy} per million tokens."


def token_lines(c: TokenCost) -> Iterator[str]:
    """Cost of tokens."""
    blend = f"Blended {c.blend[0]:g}:{c.blend[1]:g}" if c.blend else ""
    for name, part in ((blend, c.blended), ("Output", c.output), ("Input", c.input)):
        if part is not None:
            yield _per_million(name, part)
    yield fleet_line(c.fleet)
    for what, rate in (("Tokens read", c.read), ("Tokens written", c.written)):
        if rate is not None:
            yield rate_line(what, rate)
    if c.read is not None and c.input is None:
        why = c.unavailable["input"]
        yield f"{why[0].upper()}{why[1:]}."


def goodput_lines(g: Goodput) -> Iterator[str]:
    """What failures take."""
    yield (
        f"{percent(g.useful_share)} of the time is useful; {percent(g.checkpoint_share)} goes to checkpoints, "
        f"{percent(g.restart_share)} to restarts, {percent(g.rework_share)} to work done again."
    )
    yield f"A failure every {span(g.job_mtbf_s)}: {span(g.device_mtbf_s)} a device ({g.mtbf_source}) over {g.devices} devices."
    yield (
        f"A checkpoint of {span(g.checkpoint_s)} ({g.checkpoint_source}) after every {span(g.interval_s)} of work ({g.interval_source}); "
        f"best by Young {span(g.young_s)}, by Daly {span(g.daly_s)}. A restart takes {span(g.restart_s)} (stated)."
    )


def run_lines(c: RunCost) -> Iterator[str]:
    """Cost of a run."""
    energy = "" if c.joules is None else f", {joules(c.joules.value)}"
    yield f"{_band(c.usd, usd(c.usd.value))} and {_band(c.time_s, span(c.time_s.value))} for {tokens(c.tokens)} tokens{energy}."
    yield f"{number(c.device_hours.value)} device hours; {usd(c.usd_per_million_tokens.value)} per million tokens."
    if c.goodput is not None and c.failures is not None:
        extra = c.time_s.value - c.without_failures_s.value
        yield f"Without failures {span(c.without_failures_s.value)}; about {c.failures.value:.3g} failures add {span(extra)}."
        yield from goodput_lines(c.goodput)
    else:
        yield f"Failures are left out: {c.unavailable['goodput'].partition(': ')[2]}."
    yield fleet_line(c.fleet)
    yield rate_line("Trains", c.throughput)


def budget_lines(b: BudgetReport) -> Iterator[str]:
    """A compute-optimal model."""
    budget = format_quantity(b.flop, Dimension.FLOP)
    yield f"{tokens(b.parameters)} parameters on {tokens(b.tokens)} tokens use up {budget} ({b.flop_source})."
    yield f"6 N D FLOP at {b.tokens_per_parameter:g} tokens a parameter ({b.ratio_source})."


def extrapolation_lines(e: ExtrapolationReport) -> Iterator[str]:
    """A large configuration from small ones."""
    at = ", ".join(f"{key} = {number(v)}" for key, v in e.target.items())
    ends = f"{seconds(e.time_s.low, True)} to {seconds(e.time_s.high, True)}"
    yield f"{seconds(e.time_s.value, True)} at {at}; nine times in ten {ends}, as far as {e.rows} rows can say."
    parts = sorted(((name, s) for name, s in e.seconds.items() if s > 0), key=lambda item: -item[1])
    yield "Made of " + ", ".join(f"{name} {seconds(s, True)}" for name, s in parts) + "."
    yield f"Rows left out are missed by {percent(max(abs(x) for x in e.left_out_error))} at most."
    far = [f"{key} {number(x)} times" for key, x in e.beyond.items() if x > 1]
    if far:
        yield f"Beyond the rows: {', '.join(far)}. What happens only at that scale is not in the band."


def serving_lines(s: ServingReport) -> Iterator[str]:
    """The cheapest batch, and what is paid for."""
    wanted = ((s.target_tpot_s, "a token"), (s.target_ttft_s, "to the first token"))
    target = " and ".join(f"at most {seconds(t, True)} {what}" for t, what in wanted if t is not None)
    least, most = ("at least ", "at most ") if s.time_kind == "bound" else ("", "")
    if s.best is None:
        yield f"No batch fits{' and needs ' if target else ''}{target}."
    else:
        b = s.best
        energy = "" if b.joules_per_million is None else f", {joules(b.joules_per_million.value)}"
        cost = _band(b.usd_per_million, usd(b.usd_per_million.value))
        yield f"{least.capitalize()}{cost}{energy} per million tokens{', ' if target else ''}{target}: batch {number(b.batch)}."
        user, device = number(b.tokens_per_s_per_user), number(b.tokens_per_s_per_device)
        yield f"There each user gets {most}{user} tokens/s and each device makes {device} ({s.time_kind})."
    if s.ttft_s is not None:
        yield f"The first token comes after {seconds(s.ttft_s, True)} ({s.ttft_source})."
    if s.plan is not None:
        yield f"{s.workload} under {s.plan} on {s.hardware}; a batch is of all devices together."
    yield fleet_line(s.fleet)


def _fits(p: ServingPoint) -> str:
    if not p.shortfall_bytes:
        return {True: "yes", False: "NO", None: "-"}[p.fits]
    return f"NO, {format_quantity(p.shortfall_bytes, Dimension.BYTES)} short"


def serving_columns(s: ServingReport, ascii_: bool = False) -> list[Column]:
    """The batches."""
    return [
        Column("batch", tuple(number(p.batch) for p in s.points)),
        Column("step", tuple(seconds(p.step_s.value, ascii_) for p in s.points)),
        Column("tokens/s a user", tuple(number(p.tokens_per_s_per_user) for p in s.points)),
        Column("tokens/s a device", tuple(number(p.tokens_per_s_per_device) for p in s.points)),
        Column("USD/M tokens", tuple(f"{p.usd_per_million.value:.4g}" for p in s.points)),
        Column(
            "J/token",
            tuple("-" if p.joules_per_million is None else f"{p.joules_per_million.value / 1e6:.4g}" for p in s.points),
            priority=2,
        ),
        Column("fits", tuple(_fits(p) for p in s.points), right=False),
        Column("in time", tuple("yes" if p.meets_target else "no" for p in s.points), right=False, priority=1),
    ]
