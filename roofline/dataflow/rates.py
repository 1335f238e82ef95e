"""What one processor of a device does in a clock, from the profile's own figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.dataflow.form import RESOURCES
from roofline.dtypes import dtype as find_dtype
from roofline.errors import MissingCapabilityError
from roofline.hardware.profile import Absent, Figure, Hardware, Value, si


@dataclass(frozen=True, slots=True)
class Rates:
    """Per clock and processor: matrix and vector FLOP, special functions, bytes of shared memory, L2 and HBM.

    ``missing`` says why a resource has no rate; its time is then not counted. ``clock_hz`` is that of the tensor peaks.
    """

    per_clock: Mapping[str, float]
    missing: Mapping[str, str]
    clock_hz: float
    processors: float

    def cycles(self, resource: str) -> float | None:
        """The rate, or None where nobody publishes it."""
        return self.per_clock.get(resource)


def rates_of(hardware: Hardware, dtype_name: str) -> Rates:
    """The rates for products in that dtype.

    Raises:
        MissingCapabilityError: the profile states no clock or no number of processors.
    """
    clock, count = si(hardware.clocks.get("peak")), si(hardware.processors)
    if not clock or not count:
        raise MissingCapabilityError(f"{hardware.name} states no clocks.peak or no processors, so there are no cycles of a step to count")
    per_clock: dict[str, float] = {}
    missing: dict[str, str] = {}
    for resource, value in _values(hardware, dtype_name).items():
        if isinstance(value, Figure):
            per_clock[resource] = value.per_clock or value.value / (clock * count)
        else:
            missing[resource] = value.reason
    return Rates(per_clock, missing, clock, count)


def _values(hardware: Hardware, dtype_name: str) -> dict[str, Value]:
    key = find_dtype(dtype_name).matrix
    levels = hardware.levels
    lanes = hardware.vector_rate("fp64" if dtype_name == "fp64" else "fp32")
    # A dtype without a matrix path is multiplied on the vector lanes, as in the bound of an operator.
    tensor = hardware.tensor.get(key) or hardware.vector.get(key) or Absent(f"{hardware.name} multiplies no {dtype_name}")
    found: dict[str, Value] = {
        "tensor": tensor,
        "vector": lanes,
        "sfu": hardware.sfu,
        "smem": levels["smem"].bandwidth,
        "l2": levels["l2"].bandwidth,
        "hbm": levels["hbm"].bandwidth,
    }
    return {name: found[name] for name in RESOURCES}
