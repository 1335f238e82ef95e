"""Failures of a long run: how often they come, how often to save, and which share of the time is useful.

Failures are taken to come independently and at a constant rate, so that a job of N devices has the N-fold rate of one. After each the
job restarts from the last checkpoint. With C the time of a checkpoint in which nothing is computed, R that of a restart and M the mean
time between failures of the job, useful work of length t between two checkpoints takes M e^(R/M) (e^((t+C)/M) - 1) on average (Daly,
"A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22, 2006, eq. 20).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.errors import UsageError

MOST_EXPONENT = 500.0
"""(t + C + R) / M beyond which no checkpoint is ever reached."""


def job_mtbf_s(device_mtbf_s: float, devices: float) -> float:
    """Mean time between failures of a job that stops when any of its devices does, in s.

    >>> job_mtbf_s(16384 * 10000.0, 16384)
    10000.0
    """
    return device_mtbf_s / devices


def observed_mtbf_s(duration_s: float, interruptions: float) -> float:
    """Mean time between the interruptions that were counted, in s.

    >>> round(observed_mtbf_s(54 * 86400, 466) / 3600, 2)
    2.78
    """
    return duration_s / interruptions


def young_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """Work between checkpoints that loses least to first order, sqrt(2 C M) (Young, Communications of the ACM 17, 1974).

    It minimises C/t + t/(2M), the checkpoints and the half interval that is lost with each failure.

    >>> round(young_interval_s(60, 10800), 3)
    1138.42
    """
    return math.sqrt(2 * checkpoint_s * mtbf_s)


def daly_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """Work between checkpoints by Daly's higher-order estimate (2006, eq. 37); M where a checkpoint takes 2M or longer."""
    if checkpoint_s >= 2 * mtbf_s:
        return mtbf_s
    x = math.sqrt(checkpoint_s / (2 * mtbf_s))
    return math.sqrt(2 * checkpoint_s * mtbf_s) * (1 + x / 3 + x * x / 9) - checkpoint_s


def first_order_overhead(interval_s: float, checkpoint_s: float, mtbf_s: float) -> float:
    """Time lost to checkpoints and to work done again, over useful time, while both are small."""
    return checkpoint_s / interval_s + interval_s / (2 * mtbf_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Where the expected time goes; the four add up to 1. ``rework`` is work, and checkpoints, that a failure undid."""

    useful: float
    checkpoint: float
    restart: float
    rework: float


def shares(interval_s: float, checkpoint_s: float, restart_s: float, mtbf_s: float) -> Shares:
    """The expected shares of a run that saves after every ``interval_s`` of work, by Daly's model without approximation.

    A restart is itself cut short by a failure at the same rate, so that its share of all time is 1 - e^(-R/M).

    Raises:
        UsageError: failures come so fast that no checkpoint is reached.
    """
    if (interval_s + checkpoint_s + restart_s) / mtbf_s > MOST_EXPONENT:
        raise UsageError(
            f"a failure every {mtbf_s:.3g} s comes long before {interval_s:.3g} s of work, a checkpoint of {checkpoint_s:.3g} s and a "
            f"restart of {restart_s:.3g} s are done: the run makes no progress"
        )
    useful = interval_s / (mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1((interval_s + checkpoint_s) / mtbf_s))
    saving = useful * checkpoint_s / interval_s
    restarting = -math.expm1(-restart_s / mtbf_s)
    return Shares(useful=useful, checkpoint=saving, restart=restarting, rework=max(0.0, 1 - useful - saving - restarting))


def checkpoint_time_s(size_bytes: float, storage_bytes_per_s: float) -> float:
    """How long writing a checkpoint takes, in s, at the bandwidth that the storage gives to the whole job.

    >>> checkpoint_time_s(5.67e12, 2e12)
    2.835
    """
    return size_bytes / storage_bytes_per_s
