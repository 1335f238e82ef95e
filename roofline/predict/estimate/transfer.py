"""Time of bytes over a link: a start that grows with the ranks, a ramp until the link is full, and the bytes at a share of its rate.

    time = fixed + ranks x rank + ramp x bytes / (bytes + half) + bytes / (share x bandwidth)

Copies over PCIe and the collectives of NCCL have one form: what differs is how long they take to get going. Collectives over PCIe also
share the host, which two ranks fill and more crowd: the last term grows with (ranks / 2) to the power ``crowding``.
"""

from __future__ import annotations

from typing import ClassVar

from roofline.errors import RooflineError, did_you_mean
from roofline.numeric import maximum, power
from roofline.ops.launched import Transfer
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms


class TransferModel:
    """Model of `Transfer`."""

    name: ClassVar[str] = "transfer"
    nearest_device: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("fixed_s", "start and end, in seconds", 5e-6, 5e-7, 1e-4, 0.7),
        Parameter("rank_s", "more for each rank that takes part, in seconds", 5e-7, 1e-9, 2e-5, 1.0),
        Parameter("ramp_s", "until the link is full, in seconds", 2e-6, 1e-9, 2e-4, 1.5),
        Parameter("half_bytes", "of which half of that shows, in bytes", 1e6, 1e3, 1e9, 1.0),
        Parameter("link_share", "of the link's bandwidth", 0.8, 0.05, 1.0, 0.3),
    )

    shared: ClassVar[tuple[Parameter, ...]] = (
        Parameter("crowding", "power of the ranks over two by which they wait for each other on the host", 1.0, 1e-3, 4.0, 1.0),
    )

    def parameters_of(self, name: str) -> tuple[Parameter, ...]:
        """Those of a set; collectives through the host have one more."""
        _, kind, link, *_ = (*name.split("."), "", "")
        return self.parameters + (self.shared if link == "pcie" and kind not in ("copy", "any") else ())

    def sets(self, kernel: Transfer, library: str) -> tuple[str, ...]:
        """Of its sort over its link, of any sort over it; the same for all libraries, which call the same driver and NCCL."""
        return f"transfer.{kernel.kind}.{kernel.link}.any", f"transfer.any.{kernel.link}.any", "transfer.any.any.any"

    def terms(self, kernel: Transfer, device: Device, p: Parameters) -> Terms:
        """The time of one call.

        Raises:
            RooflineError: the device has no such link, or states no bandwidth of it.
        """
        if kernel.link not in device.link_bytes_per_s:
            raise RooflineError(
                f"{device.name} states no bandwidth of link '{kernel.link}'; {did_you_mean(kernel.link, list(device.link_bytes_per_s))}"
            )
        ramp = p["ramp_s"] * kernel.bytes / (kernel.bytes + p["half_bytes"])
        fixed = p["fixed_s"] + p["rank_s"] * kernel.ranks
        moving = kernel.bytes / (p["link_share"] * device.link_bytes_per_s[kernel.link])
        if "crowding" in p:
            moving = moving * power(maximum(kernel.ranks / 2, 1.0), p["crowding"])
        return Terms(fixed + ramp + moving, {"fixed": fixed + ramp, "memory": moving, "compute": 0.0})
