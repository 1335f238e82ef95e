"""Which of a few tile configurations is fastest: each runs a few times on the tensors at hand, once for each shape.

A tuner of our own, since that of Triton clears a cache of 256 MB between runs, keeps what it finds by argument and not by
kernel, and ends the process's run where a configuration does not fit. On a CPU, in Triton's interpreter, the first is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch

from roofline.errors import MeasurementInvalidError

Config = Mapping[str, Any]
Launch = Callable[[], Any]

TRIALS = 5
TRIAL_S = 2e-3
"""A trial repeats the kernel until it lasts about that long, so that the timer's steps do not decide."""
MOST_REPEATS = 50

_FASTEST: dict[Hashable, int] = {}
TRIED: dict[Hashable, list[tuple[Config, float | str]]] = {}
"""What each configuration took in seconds, or why it could not run, by the key it was tuned under."""


def tuned(key: tuple[Hashable, ...], configs: Sequence[Config], make: Callable[[Config], Launch], device: torch.device) -> Launch:
    """The launch of the configuration that is fastest for this key, tried out the first time that the key is met.

    Raises:
        MeasurementInvalidError: none of them runs here, with the reason of each.
    """
    if device.type != "cuda" or len(configs) == 1:
        return make(configs[0])
    known = (*key, str(device))
    if known not in _FASTEST:
        _FASTEST[known] = _fastest(known, configs, make, device)
    return make(configs[_FASTEST[known]])


def _fastest(key: Hashable, configs: Sequence[Config], make: Callable[[Config], Launch], device: torch.device) -> int:
    tried = [(config, _seconds(lambda c=config: make(c), device)) for config in configs]  # type: ignore[misc]
    TRIED[key] = tried
    times = [(found, i) for i, (_, found) in enumerate(tried) if isinstance(found, float)]
    if not times:
        raise MeasurementInvalidError("no tile configuration runs here: " + "; ".join(f"{dict(c)}: {why}" for c, why in tried))
    return min(times)[1]


def _seconds(made: Callable[[], Launch], device: torch.device) -> float | str:
    """The least time of a few trials, or why it cannot run: too much shared memory or registers, or a compiler that gave up."""
    try:
        launch = made()
        launch()  # compiles
        torch.cuda.synchronize(device)
        once = _timed(launch, 1)
        repeats = max(1, min(MOST_REPEATS, int(TRIAL_S / max(once, 1e-6))))
        return min(_timed(launch, repeats) for _ in range(TRIALS))
    except Exception as err:  # Triton's errors have no common class
        return next(iter(f"{type(err).__name__}: {err}".splitlines()), type(err).__name__)


def _timed(launch: Launch, repeats: int) -> float:
    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        launch()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / repeats
