"""Answers about links in sentences and tables: the first line answers, the arithmetic follows."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.plan.links import Carried, CollectiveLinks, DataLinks, ExpertLinks, TensorLinks
from roofline.report.columns import Column
from roofline.report.sentences import size
from roofline.units import Dimension, format_quantity


def _rate(value: float) -> str:
    return format_quantity(value, Dimension.BYTES_PER_S)


def _seconds(value: float) -> str:
    return format_quantity(value, Dimension.SECONDS)


def at_once(legs: Sequence[Carried]) -> str:
    """How the times of several tiers make one; empty for a single one."""
    if len({leg.tier for leg in legs}) < 2:
        return ""
    return "The tiers carry at the same time, an array in pieces: the busiest decides."


def leg_columns(legs: Sequence[Carried]) -> list[Column]:
    """What each tier carries; empty where nothing is sent."""
    if not legs:
        return []
    return [
        Column("tier", tuple(leg.tier for leg in legs), right=False),
        Column("collective", tuple(leg.kind for leg in legs), right=False),
        Column("ranks", tuple(f"{leg.ranks:g}" for leg in legs)),
        Column("a rank sends", tuple(size(leg.sent_bytes) for leg in legs)),
        Column("one way", tuple(_rate(leg.bytes_per_s) for leg in legs)),
        Column("time", tuple(_seconds(leg.time_s) for leg in legs)),
    ]


# --------------------------------------------------------------------------- tensor parallel
def tensor_answer(found: TensorLinks) -> str:
    """Up to which of the degrees the link keeps up."""
    bound = [str(d.degree) for d in found.degrees if not d.hidden]
    most = found.gated_limit if found.gated else found.limit
    limit = f"F / alpha = {most:.1f}"
    two = next((d for d in found.degrees if d.degree == 2), None)
    if most < 2 and two is not None:
        share = f"two devices alone need {two.link_over_compute:.0%} of the arithmetic's time".replace("%", " %")
        return f"Keep tensor parallelism off this link: {limit} is less than two devices ({share}, more of them more)"
    if not bound:
        return f"Tensor parallelism is hidden at every degree asked for ({limit})"
    if found.largest_hidden == 1:
        return f"Tensor parallelism binds on the link at every degree asked for ({limit}): keep it on faster links"
    return f"Tensor parallelism is hidden up to {found.largest_hidden} devices; the link binds at {', '.join(bound)} ({limit})"


def tensor_lines(found: TensorLinks) -> list[str]:
    """The arithmetic."""
    rate, flop = _rate(found.link_bytes_per_s), format_quantity(found.flop_per_s, Dimension.FLOP_PER_S)
    first = f"alpha = C / W = {flop} / {rate} = {found.alpha_flop_per_byte:,.0f} FLOP/B; F / alpha = {found.width:,} / "
    first += f"{found.alpha_flop_per_byte:,.0f} = {found.limit:.1f}, or {found.gated_limit:.1f} with a third product (gated)."
    products = "three products (gated)" if found.gated else "two products"
    return [
        first,
        f"Counted for {products} of {found.width:,} columns, an all-gather and a reduce-scatter of 16-bit activations, each rank's own "
        "share not sent; F / alpha takes all shares as sent. No latency is counted.",
    ]


def degree_columns(found: TensorLinks) -> list[Column]:
    """One line a degree."""
    return [
        Column("devices", tuple(str(d.degree) for d in found.degrees)),
        Column("link / arithmetic", tuple(f"{d.link_over_compute:.2f}" for d in found.degrees)),
        Column("verdict", tuple("hidden" if d.hidden else "link binds" for d in found.degrees), right=False),
        Column("over", tuple(", ".join(d.tiers) or "-" for d in found.degrees), right=False),
    ]


# --------------------------------------------------------------------------- data parallel
def data_answer(found: DataLinks) -> str:
    """Whether the backward pass hides the gradients."""
    verdict = "is hidden by" if found.hidden else "is longer than"
    text = f"The all-reduce of {size(found.gradient_bytes * found.parameters)} of gradients takes {_seconds(found.link_s)} and {verdict} "
    text += f"the backward pass of {_seconds(found.backward_s)}"
    return text if found.hidden else f"{text}: {_seconds(found.exposed_s)} stay exposed"


def data_lines(found: DataLinks) -> list[str]:
    """What a device must work on, and the arithmetic of the backward pass."""
    need = f"Hidden from {found.tokens_needed_at_peak:,.0f} tokens a device on at the peak"
    if found.mfu < 1:
        need += f", from {found.tokens_needed:,.0f} at {found.mfu:.0%} of it".replace("%", " %")
    return [
        f"{need}; there are {found.tokens:,.0f}.",
        f"Backward: 4 FLOP x {found.parameters:.4g} parameters x {found.tokens:,.0f} tokens at {found.mfu:.0%}".replace("%", " %")
        + " of the peak; attention's own products are left out.",
        *filter(None, [at_once(found.legs)]),
    ]


# --------------------------------------------------------------------------- experts
def expert_answer(found: ExpertLinks) -> str:
    """Seconds a token and tokens a second."""
    if found.tokens_per_s_per_user is None:
        return "Nothing leaves a single device: the links bound no rate of tokens"
    rate = f"at most {found.tokens_per_s_per_user:,.1f} tokens/s for each user"
    return f"Experts' exchanges alone take {_seconds(found.token_s)} a token: {rate}"


def expert_lines(found: ExpertLinks) -> list[str]:
    """The arithmetic, term by term."""
    copies = f"{found.tokens:g} tokens x {found.copies} copies x {found.hidden:,} elements"
    if found.imbalance > 1:
        copies += f" x {found.imbalance:g} on the fullest rank"
    return [
        f"Dispatch {size(found.dispatch_bytes)} and combine {size(found.combine_bytes)} for {copies}: {_seconds(found.exchange_s)}.",
        f"Layer: x {found.halves} {'half' if found.halves == 1 else 'halves'} of the batch = {_seconds(found.layer_s)}; token: x "
        f"{found.layers} layers = {_seconds(found.token_s)}.",
        "No latency and no arithmetic is counted"
        + ("; every copy leaves its device." if found.ranks is None else "; shares that stay on a device are not sent."),
        *filter(None, [at_once(found.legs)]),
    ]


# --------------------------------------------------------------------------- one collective
def collective_answer(found: CollectiveLinks) -> str:
    """The least time, and where it goes."""
    if found.bound_s == 0:
        return f"A single rank: {found.kind} sends nothing and takes no time"
    text = f"{found.kind} of {size(found.size)} over {found.ranks} ranks: at least {_seconds(found.bound_s)}, {found.binds} binds"
    counted = "with what is known of latency" if found.latency_missing else "with latency"
    return text + f"; {_seconds(found.time_s)} {counted}, one leg after the other"


def collective_lines(found: CollectiveLinks) -> list[str]:
    """Bandwidths as benchmarks print them, and what is not counted."""
    lines = []
    if found.algorithm_bytes_per_s is not None and found.bus_bytes_per_s is not None:
        said = f"At the bound: algorithm bandwidth {_rate(found.algorithm_bytes_per_s)} (size / time), bus bandwidth "
        lines.append(f"{said}{_rate(found.bus_bytes_per_s)} (x {found.bus_factor:.4g}).")
    lines += [f"{text[0].upper()}{text[1:]}." for text in found.latency_missing]
    return [*lines, *filter(None, [at_once(found.legs)])]
