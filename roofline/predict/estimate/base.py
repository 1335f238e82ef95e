"""What every model of a kernel's time is: a pure function of the kernel, the device and a few parameters.

The bound says what nothing can beat; a model says what this sort of kernel takes. Parameters are mostly shares of the
device's own rates and times in seconds, so that those fitted on one device are a prior for its relatives. Formulas use
`roofline.numeric`, so one line serves a kernel and a whole table of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from roofline.dtypes import dtype as find_dtype
from roofline.errors import RooflineError
from roofline.hardware.profile import Figure, Hardware, Value, si
from roofline.numeric import Number, is_array
from roofline.records import dataclass

Parameters = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number of a model: meaning, range, and what it is thought to be before any fit.

    ``spread`` is the standard deviation of that belief in the natural logarithm: 0.1 holds a fit near ``start``,
    1.0 lets it go where the measurements are.
    """

    name: str
    doc: str
    start: float
    low: float
    high: float
    spread: float = 0.5


REGIMES = ("launch", "memory", "compute")
"""What decides a kernel's time: costs that no work explains, bytes, or arithmetic."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds of one call and what they are made of, before they overlap.

    ``parts`` always has ``fixed``, ``memory`` and ``compute``; a model may add others, such as ``sfu``, for explanation.
    """

    time_s: Number
    parts: Mapping[str, Number]

    def regime(self) -> Any:
        """``launch`` where the fixed cost is half of the time or more, else the larger of memory and compute."""
        fixed, memory, compute = (self.parts[name] for name in ("fixed", "memory", "compute"))
        if is_array(self.time_s):
            import numpy as np

            return np.where(2 * fixed >= self.time_s, "launch", np.where(memory >= compute, "memory", "compute"))
        return "launch" if 2 * fixed >= self.time_s else "memory" if memory >= compute else "compute"


class Model(Protocol):
    """A model of one sort of kernel."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    nearest_device: ClassVar[bool]
    """Whether a set of the nearest device precedes a better name of a farther one: hardware decides more than the library."""

    def sets(self, kernel: Any, library: str) -> tuple[str, ...]:
        """Names of the parameter sets that may serve the kernel, the best first."""
        ...

    def terms(self, kernel: Any, device: Device, p: Parameters) -> Terms:
        """The time of one call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The numbers of a profile that models use. Rates in SI units over the whole device; ``clock_hz`` is the highest clock.

    ``matrix_flop_per_s`` is by matrix dtype (fp16, bf16, tf32, fp8 ...), of the vector lanes where there is no matrix unit.
    """

    name: str
    architecture: str
    processors: float
    clock_hz: float
    smem_bytes: float
    l2_bytes: float
    hbm_bytes_per_s: float
    matrix_flop_per_s: Mapping[str, float]
    vector_flop_per_s: Mapping[str, float]
    sfu_per_s: float
    link_bytes_per_s: Mapping[str, float]

    def matrix(self, dtype_name: str) -> float:
        """Peak of the engine that multiplies matrices of this dtype, in FLOP/s."""
        key = find_dtype(dtype_name).matrix
        if key not in self.matrix_flop_per_s:
            raise RooflineError(f"{self.name} has no matrix rate for {dtype_name}")
        return self.matrix_flop_per_s[key]

    def vector(self, dtype_name: str) -> float:
        """Peak of the vector lanes in FLOP/s; fp32 lanes for all but fp64."""
        key = "fp64" if dtype_name == "fp64" else "fp32"
        if key not in self.vector_flop_per_s:
            raise RooflineError(f"{self.name} states no vector rate for {dtype_name}")
        return self.vector_flop_per_s[key]


def device_of(hardware: Hardware) -> Device:
    """The numbers of a profile that models use.

    Raises:
        RooflineError: the profile lacks one that every model needs; the message names it.
    """
    smem, l2 = hardware.levels["smem"], hardware.levels["l2"]
    count = _needed(hardware, "processors.count", hardware.processors)
    l2_bytes = _needed(hardware, "levels.l2.size", l2.size) * (count if l2.scope == "processor" else 1)
    vector, tensor = _rates(hardware.vector), _rates(hardware.tensor)
    return Device(
        name=hardware.name,
        architecture=hardware.architecture,
        processors=count,
        clock_hz=si(hardware.clocks.get("boost")) or _needed(hardware, "clocks.peak", hardware.clocks["peak"]),
        smem_bytes=_needed(hardware, "levels.smem.size", smem.size),
        l2_bytes=l2_bytes,
        hbm_bytes_per_s=_needed(hardware, "levels.hbm.bandwidth", hardware.levels["hbm"].bandwidth),
        matrix_flop_per_s={**vector, **tensor},
        vector_flop_per_s=vector,
        sfu_per_s=_needed(hardware, "engines.sfu", hardware.sfu),
        link_bytes_per_s={name: rate for name, link in hardware.links.items() if (rate := si(link.bandwidth)) is not None},
    )


def _rates(rates: Mapping[str, Value]) -> dict[str, float]:
    return {name: rate.value for name, rate in rates.items() if isinstance(rate, Figure)}


def _needed(hardware: Hardware, key: str, value: Value) -> float:
    if not isinstance(value, Figure):
        raise RooflineError(f"{hardware.name} does not state {key}, which an estimate needs: {value.reason}")
    return value.value
