"""A plan for a person: the answer first, then where the time and the memory of a device go, then what it means."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.report.columns import Column, seconds
from roofline.report.memory_view import NAMES as MEMORY_NAMES
from roofline.report.memory_view import both
from roofline.report.plan import PlanReport, StepTime
from roofline.report.sentences import percent, size, times
from roofline.units import Dimension, format_quantity

AXES = {
    "tp": "tensor parallel",
    "ep": "expert parallel",
    "cp": "context parallel",
    "data": "gradients and weights",
    "pp": "between stages",
}
NAMES = {
    "compute": "compute",
    "recompute": "computed again",
    "bubble": "bubble",
    "optimizer": "optimizer",
    **{f"exposed_{axis}": f"waits: {said}" for axis, said in {**AXES, "host": "launches by the host"}.items()},
}
"""Parts of a step in words."""
STEPS = {"train": "step", "prefill": "prefill of the batch", "decode": "token of every sequence", "mixed": "step"}


def part_name(part: str) -> str:
    """A part of a step in words; compute with what decides it.

    >>> part_name("compute.tensor"), part_name("exposed_tp")
    ('compute (tensor)', 'waits: tensor parallel')
    """
    name, _, inside = part.partition(".")
    return f"{name} ({inside})" if inside else NAMES.get(name, name)


def answer(found: PlanReport) -> str:
    """The first line: time, MFU, whether it fits, what binds and what comes next."""
    said = [_time(found), _mfu(found), _fits(found)]
    time = found.time
    if time and time.binds and time.binds_share is not None:
        next_ = f", next {part_name(time.next)}" if time.next else ""
        said.append(f"{part_name(time.binds)} binds {percent(time.binds_share)}{next_}")
    return f"{found.model} on {found.devices:,} x {found.device}: " + "; ".join(s for s in said if s) + "."


def _time(found: PlanReport) -> str:
    if found.time is None:
        return "no time"
    kind = {"bound": "at least ", "estimate": "about "}.get(found.time.kind, "")
    said = f"{STEPS[str(found.job['phase'])]} {kind}{seconds(found.time.step_s)}"
    if found.time.low_s is not None and found.time.high_s is not None:
        said += f" ({seconds(found.time.low_s)} to {seconds(found.time.high_s)})"
    return said


def _mfu(found: PlanReport) -> str:
    use = found.utilisation
    if found.job["phase"] == "decode":
        return f"MBU {percent(use.mbu)}" if use.mbu is not None else ""
    share = use.mfu[use.rule]
    if share is None or use.peak_flop_per_s is None:
        return ""
    peak = format_quantity(use.peak_flop_per_s, Dimension.FLOP_PER_S)
    most = "at most " if found.time and found.time.kind == "bound" else ""
    return f"MFU {most}{percent(share)} of {peak} {use.peak_dtype}"


def _fits(found: PlanReport) -> str:
    m = found.memory
    if m.fits is None or m.available_bytes is None:
        return ""
    if m.fits:
        return f"fits, {size(m.needed_bytes)} of {size(m.available_bytes)}"
    return f"DOES NOT FIT, {size(m.shortfall_bytes or 0)} short"


def tables(found: PlanReport) -> list[list[Column]]:
    """Time by part, then memory by part; time is left out where only a rate was stated."""
    made = []
    if found.time and found.time.parts_s:
        made.append(time_columns(found.time.parts_s, found.time.step_s))
    parts = [(MEMORY_NAMES[name], b) for name, b in found.memory.parts_bytes.items() if b] + [("total", found.memory.needed_bytes)]
    names, sizes = zip(*parts, strict=True)
    made.append([Column("a device keeps", names, right=False), Column("bytes", tuple(both(s) for s in sizes))])
    return made


def time_columns(parts: Mapping[str, float], step: float) -> list[Column]:
    """The parts that take time, and the sum."""
    rows = [(NAMES[name], s) for name, s in parts.items() if s] + [("step", step)]
    names, amounts = zip(*rows, strict=True)
    return [
        Column("of a step", names, right=False),
        Column("time", tuple(seconds(a) for a in amounts)),
        Column("share", tuple(percent(a / step) if step else "-" for a in amounts)),
    ]


def lines(found: PlanReport) -> list[str]:
    """What is said below the tables."""
    staged = found.degrees["pp"] != 1
    said = [f"Plan {found.plan} on {found.cluster}; {_job(found)}."]
    if found.time:
        said.append(f"Time is {_kind(found, found.time)}.")
    said += _rates(found)
    if found.time and found.time.binds and found.time.without_it_speedup is not None:
        said.append(f"Were {part_name(found.time.binds)} free, the whole would be {times(found.time.without_it_speedup)} faster.")
    if staged or found.job["phase"] == "train":
        s = found.schedule
        idle = percent(s.bubble_fraction)
        said.append(f"{s.microbatches:g} microbatches a replica; of ideal time the schedule's bubble is {idle} for equal stages.")
    said += _shares(found)
    return said + [f"No {name.replace('_', ' ')}: {why}." for name, why in found.unavailable.items() if name in ("time", "rates", "mfu")]


def _kind(found: PlanReport, time: StepTime) -> str:
    """What the time is; of a bound what it holds for, since parts that somebody states need not be the quickest."""
    if time.kind != "bound":
        return time.label
    whole = ""
    if found.degrees["pp"] != 1 and found.job["phase"] == "prefill":
        part = found.degrees["microbatch"]
        parts = "in equal parts" if found.schedule.chosen else f"in parts of {part:g} prompt{'' if part == 1 else 's'}"
        whole = f" that sends whole prompts through the stages {parts}"
    return f"a {time.label}; nothing under this plan{whole} can be faster"


def _job(found: PlanReport) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, (int, float)) else f"{name} {value}" for name, value in found.job.items() if value
    )


def _rates(found: PlanReport) -> list[str]:
    r = found.rates
    if r is None:
        return []
    said = f"{_count(r.tokens_per_s)} tokens/s, {_count(r.tokens_per_s_per_device)} a device"
    if r.tokens_per_s_per_user is not None:
        said += f", {_count(r.tokens_per_s_per_user)} a user"
    if r.ttft_s is not None:
        said += f"; first tokens of the batch after {seconds(r.ttft_s)}"
    return [said + "."]


def _count(value: float) -> str:
    """Four digits, and all of those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _shares(found: PlanReport) -> list[str]:
    use = found.utilisation
    parameters = "6ND" if found.job["phase"] == "train" else "2ND"
    shares = [f"{percent(s)} {rule.replace('six_nd', parameters)}" for rule, s in use.mfu.items() if s is not None]
    said = (
        [f"MFU by rule of attention: {', '.join(shares)}." + (f" HFU {percent(use.hfu)}." if use.hfu is not None else "")] if shares else []
    )
    if use.leaves_memory_at_batch is not None:
        said.append(f"From a batch of {use.leaves_memory_at_batch} a replica on, matrix units need longer than memory.")
    elif found.job["phase"] == "decode" and "leaves_memory_at_batch" in found.unavailable:
        said.append(f"Memory roof: {found.unavailable['leaves_memory_at_batch']}.")
    return said
