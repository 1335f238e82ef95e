"""Seconds of one layer, of the embedding and of the head under a plan: compute, and exchanges by axis, before anything overlaps.

One microbatch on one rank, forward and backward apart; what happens once an optimizer step stands apart from both. Numbers, or float64
arrays where the plan's degrees are arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from roofline.numeric import Number

EXCHANGES = ("tp", "ep", "cp", "data", "pp")
"""Exchanges in the order in which they are hidden: etp counts as tp, expert_data as data."""
HOST = "host"
"""What a device waits for that is no exchange: the host, which launches kernels one by one and falls behind."""
WAITS = (*EXCHANGES, HOST)
AXIS_OF = {"tp": "tp", "etp": "tp", "ep": "ep", "cp": "cp", "dp": "data", "data": "data", "expert_data": "data", "pp": "pp"}


@dataclass(slots=True)
class PassTimes:
    """One pass of a microbatch: ``compute`` with ``recompute`` apart, ``attention`` of that compute and ``weight`` of it for gradients of
    weights, and ``exchanges`` by axis; ``needed`` are further ones that nothing can hide. ``host`` is what launching all of it costs a
    host. Seconds."""

    compute: Number = 0.0
    recompute: Number = 0.0
    attention: Number = 0.0
    weight: Number = 0.0
    exchanges: dict[str, Number] = field(default_factory=dict)
    needed: dict[str, Number] = field(default_factory=dict)
    host: Number = 0.0

    def plus(self, other: PassTimes, times: Number = 1) -> PassTimes:
        """This and ``times`` the other."""
        return PassTimes(
            more(self.compute, other.compute, times),
            more(self.recompute, other.recompute, times),
            more(self.attention, other.attention, times),
            more(self.weight, other.weight, times),
            _plus(self.exchanges, other.exchanges, times),
            _plus(self.needed, other.needed, times),
            more(self.host, other.host, times),
        )


@dataclass(slots=True)
class Times:
    """Both passes, what is done once a step (``optimizer``, and exchanges of ``gradients`` and ``weights``), and what was counted.

    ``flop`` are matrix FLOP as executed in both passes, ``resident_bytes`` the weights and cache that a forward pass reads. ``by`` are
    seconds of compute, without recomputation, by what decides them, for single numbers. ``tensor_s`` and ``memory_s`` are what matrix
    units and memory need for that compute, each for itself.
    """

    forward: PassTimes = field(default_factory=PassTimes)
    backward: PassTimes = field(default_factory=PassTimes)
    optimizer: Number = 0.0
    gradients: Number = 0.0
    weights: Number = 0.0
    flop: Number = 0.0
    resident_bytes: Number = 0.0
    tensor_s: Number = 0.0
    memory_s: Number = 0.0
    by: dict[str, Number] = field(default_factory=dict)

    def plus(self, other: Times, times: Number = 1) -> Times:
        """This and ``times`` the other."""
        return Times(
            self.forward.plus(other.forward, times),
            self.backward.plus(other.backward, times),
            more(self.optimizer, other.optimizer, times),
            more(self.gradients, other.gradients, times),
            more(self.weights, other.weights, times),
            more(self.flop, other.flop, times),
            more(self.resident_bytes, other.resident_bytes, times),
            more(self.tensor_s, other.tensor_s, times),
            more(self.memory_s, other.memory_s, times),
            _plus(self.by, other.by, times),
        )

    def bare(self) -> Times:
        """Without what was counted: all that the step's time needs."""
        return replace(self, flop=0.0, resident_bytes=0.0, tensor_s=0.0, memory_s=0.0, by={})


def more(one: Number, other: Number, times: Number) -> Number:
    """``one + other * times``, without touching arrays for what is plainly nothing: most of a layer's parts in a search."""
    if isinstance(other, (int, float)) and other == 0:
        return one
    added = other if isinstance(times, int) and times == 1 else other * times
    return added if isinstance(one, (int, float)) and one == 0 else one + added


def _plus(one: Mapping[str, Number], other: Mapping[str, Number], times: Number) -> dict[str, Number]:
    found = dict(one)
    for name, value in other.items():
        found[name] = more(found.get(name, 0.0), value, times)
    return found


def summed(parts: Iterable[tuple[Times, Number]]) -> Times:
    """So many of each."""
    found = Times()
    for part, times in parts:
        found = found.plus(part, times)
    return found
