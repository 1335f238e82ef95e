"""Estimates of operators on one device under one execution.

An operator is the kernels it launches, each with the parameters that the profile carries for that sort of kernel, else
those of the nearest relative (a prior). Without either there is no estimate, and the reason says what was looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.errors import RooflineError
from roofline.hardware.profile import Hardware, ParameterSet
from roofline.numeric import Number, is_array, total, where
from roofline.ops.base import Op
from roofline.ops.launched import Launched, library_of
from roofline.predict.estimate.base import REGIMES, Device, Model, Terms, device_of
from roofline.predict.estimate.catalog import MODELS
from roofline.predict.estimate.host import HOST_SET, HostModel
from roofline.records import dataclass

LAUNCH_BOUND_S = 5e-6
"""A kernel whose work takes less than this at published rates is in the launch regime."""
NO_BAND = (0.5, 2.0)
"""Of a set that was never held against rows it did not see."""
RELATED_WIDENING = 1.5
"""How many times wider, in the logarithm, the band of a set is on another device of the same architecture."""
FOREIGN_WIDENING = 4.0
"""The same on one of another architecture; docs/accuracy.md shows how many rows fall inside."""


HOST = HostModel()


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

    @property
    def regime(self) -> Any:
        """What decides the time, as `roofline.predict.estimate.base.Terms.regime`."""
        return Terms(self.time_s, self.terms).regime()


@dataclass(frozen=True, slots=True)
class OpEstimate:
    """An operator's kernels one after the other."""

    kernels: tuple[KernelEstimate, ...]

    @property
    def time_s(self) -> Number:
        """Device time of all kernels."""
        return total(k.time_s for k in self.kernels)


class Chosen:
    """A set of parameters, whether it is a prior here, and the ends of its band by regime, widened if it is."""

    __slots__ = ("foreign", "high", "low", "prior", "set", "values")

    def __init__(self, chosen: ParameterSet, hardware: Hardware) -> None:
        own = chosen.device == hardware.name or chosen.product == hardware.product
        self.set, self.values, self.prior = chosen, chosen.values, not own
        related = chosen.architecture == hardware.architecture
        self.foreign = not (own or related)
        power = FOREIGN_WIDENING if self.foreign else RELATED_WIDENING if self.prior else 1.0
        ends = {name: chosen.band.get(name, NO_BAND) for name in REGIMES}
        self.low = {name: low**power for name, (low, _) in ends.items()}
        self.high = {name: high**power for name, (_, high) in ends.items()}

    def band(self, terms: Terms) -> tuple[Number, Number]:
        """Ends of the band over the estimate, by regime."""
        if not is_array(terms.time_s):
            regime = terms.regime()
            return self.low[regime], self.high[regime]
        # As `Terms.regime`, without its words: comparing text for each of a million kernels costs more than their model.
        launch = 2 * terms.parts["fixed"] >= terms.time_s
        memory = terms.parts["memory"] >= terms.parts["compute"]
        low, high = (where(launch, e["launch"], where(memory, e["memory"], e["compute"])) for e in (self.low, self.high))
        return low, high


@dataclass(frozen=True, slots=True)
class HostCost:
    """What issuing all calls of a kernel takes: seconds of the host, and of the device between kernels, by whose parameters.

    ``gap_s`` is that of kernels launched one by one; ``chain_s`` that of a graph in which the kernel stands among others, which
    a graph of the same kernel again and again does not have: the code of each has to be fetched.
    """

    host_s: float
    gap_s: float
    chosen: Chosen | None
    chain_s: float = 0.0

    def between_s(self, chained: bool) -> float:
        """Device time between the kernels; ``chained`` among kernels of other steps."""
        return self.gap_s + (self.chain_s if chained else 0.0)


FREE = HostCost(0.0, 0.0, None)
"""Under a graph."""


class Estimator:
    """Estimates on ``hardware`` under ``execution``.

    Raises:
        RooflineError: the profile lacks a figure that every model needs.
    """

    def __init__(self, hardware: Hardware, execution: str = "eager") -> None:
        self.hardware, self.execution = hardware, execution
        self.library = library_of(execution)
        self.device: Device = device_of(hardware)
        self._found: dict[tuple[str, ...], Chosen] = {}

    def op(self, op: Op) -> OpEstimate:
        """The kernels that the operator launches, each with its time on the device.

        Raises:
            NoParameters: nothing is known of one of its kernels.
        """
        return OpEstimate(tuple([self.kernel(k) for k in op.launched(self.execution)]))

    def kernel(self, kernel: Launched) -> KernelEstimate:
        """One launched kernel, all its calls.

        Raises:
            NoParameters: nothing is known of its sort.
        """
        model = MODELS.get(type(kernel).__name__) or self._no_model(kernel)
        chosen = self.chosen(model.sets(kernel, self.library), nearest=model.nearest_device)
        terms = model.terms(kernel, self.device, chosen.values)
        low, high = chosen.band(terms)
        time, parts, calls = terms.time_s, terms.parts, kernel.calls
        if calls != 1:
            time, parts = time * calls, {name: part * calls for name, part in parts.items()}
        return KernelEstimate(kernel, time, time * low, time * high, parts, chosen.set, chosen.prior)

    def host(self, kernel: Launched) -> HostCost:
        """What issuing the kernel takes, all its calls; nothing unless each is launched from Python.

        Raises:
            NoParameters: nothing is known of the host.
        """
        if self.execution != "eager":
            found = self.hardware.fitted.get(HOST_SET) or self.hardware.priors.get(HOST_SET)
            return HostCost(0.0, 0.0, None, found.values["chain_s"] * kernel.calls) if found else FREE
        chosen = self.chosen((HOST_SET,))
        issue = HOST.terms(kernel, self.device, chosen.values).time_s
        return HostCost(float(issue) * kernel.calls, chosen.values["gap_s"] * kernel.calls, chosen)

    def chosen(self, names: tuple[str, ...], *, nearest: bool = False) -> Chosen:
        """The best set of those names that the profile or its priors carry; with ``nearest`` the best of the nearest device.

        Raises:
            NoParameters: they carry none.
        """
        found = self._found.get(names)
        if found is None:
            found = self._found[names] = self._look_up(names, nearest)
        return found

    def _look_up(self, names: tuple[str, ...], nearest: bool) -> Chosen:
        """The best name of those that the profile or a prior of its architecture carries, else of what is left.

        A worse name of its own precedes a better one of another architecture, whose kernels are other code. With ``nearest``
        all own sets come first, then those of the first prior.
        """
        later = []
        for chosen in self._candidates(names, nearest):  # read one by one: most are never asked for
            if not chosen.foreign:
                return chosen
            later.append(chosen)
        if later:
            return min(later, key=lambda c: self._rank(c.set.device, names))
        raise NoParameters(
            f"{self.hardware.name} carries no fitted parameters for {names[0]}, nor does a relative; "
            f"measure it with 'roofline calibrate' or fit a table with 'roofline fit'"
        )

    def _candidates(self, names: tuple[str, ...], nearest: bool) -> Iterator[Chosen]:
        """Sets of those names, the better name first; with ``nearest`` own ones, then those of the first prior, before others."""
        own, priors = self.hardware.fitted, self.hardware.priors
        if not nearest:
            yield from (Chosen(sets[name], self.hardware) for name in names for sets in (own, priors) if name in sets)
            return
        yield from (Chosen(own[name], self.hardware) for name in names if name in own)
        found = [priors[name] for name in names if name in priors]
        yield from (Chosen(s, self.hardware) for s in sorted(found, key=lambda s: self._rank(s.device, names)))

    def _rank(self, device: str, names: tuple[str, ...]) -> int:
        """The place of a device among the priors that have one of those sets; own and inherited ones come before."""
        priors = self.hardware.priors
        order = list(dict.fromkeys(priors[name].device for name in priors if name in names))
        return order.index(device) if device in order else -1

    def _no_model(self, kernel: Launched) -> Model:
        raise NoParameters(f"no model estimates a kernel of the sort {type(kernel).__name__}")
