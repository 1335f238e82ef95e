"""A dataflow on a device: bytes, work, room and time of each kernel and of all of them, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.dataflow.form import RESOURCES, Dataflow, Names, amount
from roofline.dataflow.nest import Nest
from roofline.dataflow.rates import Rates, rates_of
from roofline.dataflow.room import Limits, Room, limits_of, room_of
from roofline.dataflow.schedule import Schedule, schedule
from roofline.dataflow.traffic import Totals, totals
from roofline.errors import MissingCapabilityError
from roofline.hardware.profile import Hardware
from roofline.numeric import Number, maximum, minimum, total
from roofline.predict.bound import bound_of_times, machine_of


@dataclass(frozen=True, slots=True)
class Device:
    """What the accountant takes from a profile. ``names`` are what expressions may use of it."""

    name: str
    rates: Rates
    limits: Limits
    names: Names


@dataclass(frozen=True, slots=True)
class KernelAccount:
    """One kernel in numbers (or arrays, one element for each choice of tiles)."""

    name: str
    work: Totals
    room: Room
    time: Schedule

    @property
    def bound_s(self) -> Number:
        """The largest of the times of its resources."""
        return bound_of_times(self.time.per_resource_s).time_s


@dataclass(frozen=True, slots=True)
class Account:
    """A dataflow in numbers. ``extra_memory_bytes`` are the tensors passed between its kernels."""

    flow: Dataflow
    names: Names
    kernels: tuple[KernelAccount, ...]
    extra_memory_bytes: Number
    io_bytes: Number

    def sum(self, of: str) -> Number:
        """The total of one field of `Totals` over the kernels."""
        return total(getattr(k.work, of) for k in self.kernels)

    @property
    def fits(self) -> Any:
        """Whether a block of every kernel has room."""
        found: Any = True
        for kernel in self.kernels:
            found = found & kernel.room.fits
        return found

    @property
    def bound_s(self) -> Number:
        """Kernels run one after the other."""
        return total(k.bound_s for k in self.kernels)

    @property
    def scheduled_s(self) -> Number:
        """The least that the dataflow takes as written."""
        return total(maximum(k.time.scheduled_s, k.bound_s) for k in self.kernels)

    @property
    def no_overlap_s(self) -> Number:
        """What it takes when nothing overlaps."""
        return total(maximum(k.time.no_overlap_s, maximum(k.time.scheduled_s, k.bound_s)) for k in self.kernels)

    def seconds(self) -> dict[str, Number]:
        """Seconds by resource over all kernels."""
        return {r: total(k.time.per_resource_s.get(r, 0) for k in self.kernels) for r in RESOURCES}


def device_of(hardware: Hardware, dtype_name: str, sram: float | None = None, faster: Mapping[str, float] | None = None) -> Device:
    """What the accountant needs of a profile; ``sram`` replaces its shared memory, ``faster`` multiplies rates.

    Raises:
        MissingCapabilityError: the profile lacks capacities, a clock or the number of processors.
    """
    machine = machine_of(hardware)
    if machine is None:
        raise MissingCapabilityError(f"{hardware.name} does not state its processors, shared memory and L2, which a dataflow needs")
    rates, limits = rates_of(hardware, dtype_name), limits_of(hardware)
    if faster:
        rates = Rates({r: v * faster.get(r, 1) for r, v in rates.per_clock.items()}, rates.missing, rates.clock_hz, rates.processors)
    if sram is not None:
        limits = Limits(sram, sram, limits.registers_per_thread, limits.registers, limits.threads_per_block, limits.threads)
    names = {"sram": limits.smem_bytes, "processors": machine.processors, "l2_bytes": machine.l2_bytes, "mma_rows": machine.mma_rows}
    return Device(hardware.name, rates, limits, {n: int(v) if float(v).is_integer() else v for n, v in names.items()})


def account(flow: Dataflow, device: Device, chosen: Names | None = None) -> Account:
    """The dataflow on the device, with its own tiles or with those chosen (arrays give arrays)."""
    names = flow.names(device.names, chosen)
    kernels = []
    for kernel in flow.kernels:
        if not isinstance(on := amount(kernel.when, names), (int, float)) or on > 0:
            nest = Nest(flow, kernel, names)
            room = room_of(nest, device.limits)
            work = totals(nest, maximum(room.occupancy, 1) * device.rates.processors)
            kernels.append(KernelAccount(kernel.name, work, room, schedule(nest, work, room.occupancy, device.rates)))
    used = {a.tensor for k in flow.kernels if amount(k.when, names) > 0 for a in k.accesses}
    sizes = {t.name: _bytes(flow, t.name, names) for t in flow.tensors if t.name in used}
    scratch = {t.name for t in flow.tensors if t.role == "scratch"}
    return Account(
        flow,
        names,
        tuple(kernels),
        total(b for n, b in sizes.items() if n in scratch),
        total(b for n, b in sizes.items() if n not in scratch),
    )


def _bytes(flow: Dataflow, name: str, names: Names) -> Number:
    from roofline.dtypes import dtype
    from roofline.numeric import product
    from roofline.ops.base import whole

    tensor = flow.tensor(name)
    size = whole(product(amount(d, names) for d in tensor.shape) * dtype(tensor.dtype or flow.dtype).bytes)
    return size if tensor.held is None else minimum(size, amount(tensor.held, names))
