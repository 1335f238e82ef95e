"""Estimates of operators on one device under one execution.

An operator is the kernels it launches, each with the parameters that the profile carries for that sort of kernel, else
those of the nearest relative (a prior). Without either there is no estimate, and the reason says what was looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.errors import RooflineError
from roofline.hardware.profile import Hardware, ParameterSet
from roofline.numeric import Number, total, where
from roofline.ops.base import Op
from roofline.ops.launched import Launched, library_of
from roofline.predict.estimate.base import REGIMES, Device, Terms, device_of
from roofline.predict.estimate.catalog import model_of

LAUNCH_BOUND_S = 5e-6
"""A kernel whose work takes less than this at published rates is in the launch regime."""
NO_BAND = (0.5, 2.0)
"""Of a set that was never held against rows it did not see."""
PRIOR_WIDENING = 2
"""How many times wider, in the logarithm, the band of a set is on another device than the one it was fitted on."""


class NoParameters(RooflineError):
    """Neither the profile nor its priors carry parameters for a kernel."""


@dataclass(frozen=True, slots=True)
class KernelEstimate:
    """All calls of one kernel: seconds, the band that 90 % of measurements fall into, terms by name, and whose parameters."""

    kernel: Launched
    time_s: Number
    low_s: Number
    high_s: Number
    terms: Mapping[str, Number]
    parameters: ParameterSet
    prior: bool


@dataclass(frozen=True, slots=True)
class OpEstimate:
    """An operator's kernels one after the other."""

    kernels: tuple[KernelEstimate, ...]

    @property
    def time_s(self) -> Number:
        """Device time of all kernels."""
        return total(k.time_s for k in self.kernels)


class Estimator:
    """Estimates on ``hardware`` under ``execution``.

    Raises:
        RooflineError: the profile lacks a figure that every model needs.
    """

    def __init__(self, hardware: Hardware, execution: str = "eager") -> None:
        self.hardware, self.execution = hardware, execution
        self.library = library_of(execution)
        self.device: Device = device_of(hardware)
        self._found: dict[tuple[str, ...], tuple[ParameterSet, bool]] = {}

    def op(self, op: Op) -> OpEstimate:
        """The kernels that the operator launches, each with its time.

        Raises:
            NoParameters: nothing is known of one of its kernels.
        """
        return OpEstimate(tuple(self.kernel(k) for k in op.launched(self.execution)))

    def kernel(self, kernel: Launched) -> KernelEstimate:
        """One launched kernel, all its calls."""
        model = model_of(kernel)
        chosen, prior = self._parameters(model.sets(kernel, self.library))
        terms = model.terms(kernel, self.device, chosen.values)
        low, high = _band(chosen, terms, prior)
        time = terms.time_s * kernel.calls
        parts = {name: part * kernel.calls for name, part in terms.parts.items()}
        return KernelEstimate(kernel, time, time * low, time * high, parts, chosen, prior)

    def _parameters(self, names: tuple[str, ...]) -> tuple[ParameterSet, bool]:
        if names not in self._found:
            self._found[names] = self._look_up(names)
        return self._found[names]

    def _look_up(self, names: tuple[str, ...]) -> tuple[ParameterSet, bool]:
        """For each name the profile's own set, then the priors'; a better name of a relative precedes a worse own one."""
        for name in names:
            for sets in (self.hardware.fitted, self.hardware.priors):
                if name in sets:
                    return sets[name], sets[name].device != self.hardware.name
        raise NoParameters(
            f"{self.hardware.name} carries no fitted parameters for {names[0]}, nor does a relative; "
            f"measure it with 'roofline calibrate' or fit a table with 'roofline fit'"
        )


def _band(chosen: ParameterSet, terms: Terms, prior: bool) -> tuple[Number, Number]:
    """Ends of the band over the estimate, by regime; twice as wide (in the logarithm) for a set of another device."""
    regime = terms.regime()
    ends = {name: chosen.band.get(name, NO_BAND) for name in REGIMES}
    widened = {name: tuple(end**PRIOR_WIDENING for end in pair) if prior else pair for name, pair in ends.items()}
    low, high = (_pick(regime, {name: pair[side] for name, pair in widened.items()}) for side in (0, 1))
    return low, high


def _pick(regime: Any, values: Mapping[str, float]) -> Number:
    if isinstance(regime, str):
        return values[regime]
    return where(regime == "launch", values["launch"], where(regime == "memory", values["memory"], values["compute"]))
