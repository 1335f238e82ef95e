"""The kernels of one step as they are issued: what each costs host and device, and how much longer the device needs at least.

One definition for rows and wholes of a report, sweeps and plans; numbers, or float64 arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.hardware.profile import Hardware
from roofline.numeric import Number, anywhere, is_array, maximum, minimum, total, where
from roofline.ops.base import Work
from roofline.ops.launched import FusedAttention
from roofline.predict.estimate.estimator import HostCost, KernelEstimate
from roofline.predict.estimate.timeline import Calls
from roofline.predict.floor import warm_floor_s


def calls_of(kernels: Sequence[KernelEstimate], hosts: Sequence[HostCost], factor: Number = 1.0, *, chained: bool = True) -> list[Calls]:
    """The kernels in order, their device times lifted by ``factor``.

    ``chained`` among kernels of other steps, which a single step that is run again and again is not.
    """
    return [Calls(h.host_s, k.time_s * factor + h.between_s(chained), k.kernel.calls) for k, h in zip(kernels, hosts, strict=True)]


def raised(work: Work, kernels: Sequence[KernelEstimate], hardware: Hardware) -> Number:
    """How many times longer than the parameters say the device needs at least, its cache full for every kernel; mostly 1."""
    moved: Number = work.compulsory.hbm
    if not any(isinstance(k.kernel, FusedAttention) for k in kernels):  # those whose launched kernels say what they move
        said = [(getattr(k.kernel, "read_bytes", 0) + getattr(k.kernel, "write_bytes", 0)) * k.kernel.calls for k in kernels]
        moved = minimum(moved, total(said))
    passes = maximum(work.kernels, sum(k.kernel.calls for k in kernels))
    floor, time = warm_floor_s(work, hardware, moved, passes), total(k.time_s for k in kernels)
    low = (time > 0) & (time < floor)
    if not is_array(time, floor):
        return floor / time if low else 1.0
    return where(low, floor / where(low, time, 1.0), 1.0) if anywhere(low) else 1.0
