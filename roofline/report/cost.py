"""What time costs, as data: dollars and joules of tokens and of runs, and what failures take. A value that cannot be given is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from roofline.report.model import Input, Notice

COST_SCHEMA = 1
"""Version of the format of costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A figure with the ends of its band; null ends where the time it comes from has none."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The devices that are paid for: how many, price of one in USD an hour, power of one in W, and where both come from."""

    devices: int
    usd_per_device_hour: float
    price_source: str
    watts_per_device: float | None
    power_source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Tokens a second of the whole fleet; ``kind`` says whether that is a bound, an estimate, measured or stated."""

    kind: str
    source: str
    tokens_per_s: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class PerMillion:
    """What a million tokens cost."""

    usd: Amount
    joules: Amount | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCost:
    """Dollars and joules per million tokens read (``input``), written (``output``), and of a mix of both.

    ``blend`` are the tokens read and written that the mix is made of. A mixed step reads and writes in the same seconds: it has a ``blend``
    of its own, its ``output`` carries the whole step, and its ``input`` is null.
    """

    schema: int
    kind: str
    tool: str
    inputs: tuple[Input, ...]
    fleet: Fleet
    read: Throughput | None
    written: Throughput | None
    input: PerMillion | None
    output: PerMillion | None
    blended: PerMillion | None
    blend: tuple[float, ...] | None
    warnings: tuple[Notice, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """What failures take, in s and as shares of the time that add up to 1.

    ``young_s`` and ``daly_s`` are the best work between checkpoints by either formula; ``interval_s`` is the one that is used.
    """

    devices: int
    device_mtbf_s: float
    mtbf_source: str
    job_mtbf_s: float
    checkpoint_s: float
    checkpoint_source: str
    restart_s: float
    young_s: float
    daly_s: float
    interval_s: float
    interval_source: str
    useful_share: float
    checkpoint_share: float
    restart_share: float
    rework_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReport:
    """`Goodput` alone."""

    schema: int
    kind: str
    tool: str
    goodput: Goodput


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What a training run costs: time without and with failures, device hours, dollars and joules (of the time with failures)."""

    schema: int
    kind: str
    tool: str
    inputs: tuple[Input, ...]
    fleet: Fleet
    tokens: float
    throughput: Throughput
    without_failures_s: Amount
    goodput: Goodput | None
    failures: Amount | None
    time_s: Amount
    device_hours: Amount
    usd: Amount
    usd_per_million_tokens: Amount
    joules: Amount | None
    warnings: tuple[Notice, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """A compute-optimal model for a budget of FLOP, the ratio with its source, and what the budget came from."""

    schema: int
    kind: str
    tool: str
    flop: float
    flop_source: str
    tokens_per_parameter: float
    ratio_source: str
    parameters: float
    tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPoint:
    """One batch: time of a step, tokens a second of a user and of a device, cost of a million tokens, and whether it is allowed.

    ``fits`` is null where the memory of the device, or what is needed of it, is not known; ``shortfall_bytes`` are what one device lacks.
    """

    batch: float
    step_s: Amount
    tokens_per_s_per_user: float
    tokens_per_s_per_device: float
    usd_per_million: Amount
    joules_per_million: Amount | None
    fits: bool | None
    shortfall_bytes: float | None
    meets_target: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingReport:
    """Cost of tokens by batch, and the cheapest batch that fits and keeps the target (null where none does).

    ``plan`` is how the work is spread, null where the workload is that of one device. ``ttft_s`` is the time to the first token, and
    ``ttft_source`` what it is of: a report, or a prompt of so many tokens under the same plan.
    """

    schema: int
    kind: str
    tool: str
    inputs: tuple[Input, ...]
    workload: str
    hardware: str
    plan: str | None
    time_kind: str
    fleet: Fleet
    target_tpot_s: float | None
    target_ttft_s: float | None
    ttft_s: float | None
    ttft_source: str | None
    points: tuple[ServingPoint, ...]
    best: ServingPoint | None
    warnings: tuple[Notice, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrapolationReport:
    """A large configuration from small ones: coefficients of the terms, errors of each row when left out, and the time with its band."""

    schema: int
    kind: str
    tool: str
    inputs: tuple[Input, ...]
    rows: int
    terms: Mapping[str, float]
    seconds: Mapping[str, float]
    left_out_error: tuple[float, ...]
    target: Mapping[str, float]
    beyond: Mapping[str, float]
    time_s: Amount


CostReport: TypeAlias = TokenCost | ServingReport | RunCost | FailureReport | BudgetReport | ExtrapolationReport
"""What the commands below `roofline cost` write; ``kind`` tells them apart."""
