"""Copies over PCIe between pinned host memory and the device, one way at a time."""

from __future__ import annotations

from collections.abc import Callable

from roofline.measure.ceilings.base import Bench, Candidate, Measured, Unmeasured, rate_of


def transfer(to_device: bool) -> Callable[[Bench], Measured]:
    """How one way is measured."""

    def measure(bench: Bench) -> Measured:
        if not bench.cuda:
            raise Unmeasured("the CPU is the host")
        import torch

        size = bench.sizes.transfer_bytes
        host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        host.fill_(1)
        there = torch.empty(size, dtype=torch.uint8, device=bench.place)
        target, origin = (there, host) if to_device else (host, there)
        candidate = Candidate(label=f"{size / 1e6:.0f} MB, pinned", build=lambda: lambda: target.copy_(origin, non_blocking=True))
        call = candidate.build()
        call()
        bench.device.synchronize()
        return rate_of(bench.time(call, launch="eager"), size, candidate.label)

    return measure
