"""Published facts on long convolutions and Monarch Mixer: bounds of the operator, and ratios of published figures."""

from __future__ import annotations

from roofline.ops.fft_conv import FftConv
from roofline.predict.amdahl import Part, amdahl
from tests.published.devices import bound_s, device
from tests.published.facts import Fact, computes

BATCH, CHANNELS = 64, 768
"""Of FlashFFTConv's benchmark; longer sequences ran with fewer, and their times were scaled to these."""


def gated(fact: Fact, implementation: str) -> FftConv:
    """The gated convolution of the benchmark: as long as its transform, in 16 bits, filters transformed before."""
    given = fact.inputs
    return FftConv(
        batch=given.get("batch", BATCH),
        channels=given.get("hidden", CHANNELS),
        seq=given["fft_size"],
        dtype="fp16",
        implementation=implementation,
        padding="circular",
        gated=True,
        spectrum=True,
    )


@computes("ffc-time-*")
def flash_seconds(fact: Fact) -> float:
    """One fused kernel, or three where a sequence does not fit on chip."""
    return bound_s(device(fact, "h100-sxm"), gated(fact, "flash"))


@computes("ffc-speedup-*")
def speedup_over_cufft(fact: Fact) -> float:
    """What the bounds of both paths and the published shares of them make: the ratio of the published times."""
    seconds = {which: bound_s(device(fact, "h100-sxm"), gated(fact, which)) for which in ("cufft", "flash")}
    shares = shares_of_bound(fact)
    return (seconds["cufft"] / shares["cufft"]) / (seconds["flash"] / shares["flash"])


def shares_of_bound(fact: Fact) -> dict[str, float]:
    """The bound of each path as a share of its published time."""
    published = {"cufft": fact.inputs["pytorch_ms"] / 1e3, "flash": fact.inputs["flash_ms"] / 1e3}
    return {which: bound_s(device(fact, "h100-sxm"), gated(fact, which)) / seconds for which, seconds in published.items()}


@computes("ffc-hyena-speedup-16k", "ffc-hyenadna", "m2-vs-flash-8k")
def ratio_of_rates(fact: Fact) -> float:
    """Published rates of whole models, the slower one first: all of the run becomes faster by their ratio."""
    slower, faster = sorted(float(v) for v in fact.inputs.values())
    return amdahl([Part(1.0, faster / slower)]).speedup
