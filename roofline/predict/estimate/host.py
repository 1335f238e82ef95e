"""What launching costs the host: seconds of Python and driver for each kernel that eager torch issues.

The device idles where the host cannot keep up. The cost depends on what is called rather than on its size: a product goes
through a library that chooses an algorithm, a fused attention through a dispatcher, an elementwise function through little.
A kernel replayed from a graph costs the host nothing that shows.
"""

from __future__ import annotations

from typing import Any, ClassVar

from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms

HOST_SET = "host.torch"
"""The one parameter set of the host: that of eager torch."""
_BY_KERNEL = {
    "Product": "host_product_s",
    "GroupedProduct": "host_product_s",
    "FusedAttention": "host_attention_s",
    "Stream": "host_stream_s",
    "Transfer": "host_stream_s",
}


class HostModel:
    """Seconds that the host needs to issue one call of a kernel."""

    name: ClassVar[str] = "host"
    nearest_device: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("host_product_s", "host time for one matrix product", 11e-6, 1e-6, 100e-6),
        Parameter("host_attention_s", "host time for one kernel of fused attention", 20e-6, 1e-6, 200e-6),
        Parameter("host_stream_s", "host time for one elementwise, row-wise or copying kernel", 9e-6, 1e-6, 100e-6),
        Parameter(
            "chain_s",
            "device time between two different kernels of a graph, beyond that between repetitions of one",
            0.4e-6,
            1e-9,
            5e-6,
            1.0,
        ),
        Parameter("gap_s", "device time between two kernels launched one by one, beyond that inside a graph", 0.5e-6, 1e-9, 10e-6, 1.0),
    )

    def sets(self, kernel: Any, library: str) -> tuple[str, ...]:
        """The set of eager torch: an engine's kernels are replayed from graphs."""
        return (HOST_SET,)

    def terms(self, kernel: Any, device: Device, p: Parameters) -> Terms:
        """The host's time for one call; all of it is fixed."""
        issue = p[_BY_KERNEL[type(kernel).__name__]]
        return Terms(issue, {"fixed": issue, "memory": 0.0, "compute": 0.0})
