"""The device of a fact: a shipped profile, with the figures that the fact itself states in place of the profile's."""

from __future__ import annotations

from dataclasses import replace

from roofline.hardware.profile import Figure, Hardware, Value
from roofline.ops.base import Op, Work, work_of
from roofline.predict.bound import Bound, bound, machine_of
from roofline.spec.hardware import load_hardware
from tests.published.facts import Fact

PROFILES = {"a100-40gb": "a100-sxm-40gb", "a100-80gb-sxm": "a100-sxm", "b200": "b200-sxm", "h100-sxm": "h100-sxm"}
"""Profiles by the names that the facts use."""


def device(fact: Fact, profile: str = "") -> Hardware:
    """The profile that the fact names, else ``profile``, with the fact's own peak and bandwidths."""
    hardware = load_hardware(profile or PROFILES[fact.inputs["hw"]])
    inputs = fact.inputs
    if "peak_flops" in inputs:
        hardware = with_peak(hardware, inputs["peak_flops"])
    if "hbm_bw" in inputs:
        hardware = with_bandwidth(hardware, inputs["hbm_bw"])
    if "exp_rate" in inputs:
        hardware = replace(hardware, sfu=_stated(hardware.sfu, inputs["exp_rate"]))
    if "pcie_bw" in inputs:
        pcie = hardware.link("pcie")
        hardware = replace(hardware, links={**hardware.links, "pcie": replace(pcie, bandwidth=_stated(pcie.bandwidth, inputs["pcie_bw"]))})
    return hardware


def with_peak(hardware: Hardware, flop_per_s: float) -> Hardware:
    """Another dense peak for the 16-bit formats."""
    stated = {name: _stated(hardware.tensor[name], flop_per_s) for name in ("fp16", "bf16") if name in hardware.tensor}
    return replace(hardware, tensor={**hardware.tensor, **stated})


def with_bandwidth(hardware: Hardware, bytes_per_s: float) -> Hardware:
    """Another bandwidth of the device memory."""
    hbm = hardware.levels["hbm"]
    return replace(hardware, levels={**hardware.levels, "hbm": replace(hbm, bandwidth=_stated(hbm.bandwidth, bytes_per_s))})


def _stated(figure: Value, value: float) -> Figure:
    assert isinstance(figure, Figure)
    return replace(figure, value=value, source="stated by the fact", formula=None, per_clock=None)


def work(op: Op, hardware: Hardware) -> Work:
    """What one execution does on the device."""
    return work_of(op, machine_of(hardware))


def bound_of(op: Op, hardware: Hardware) -> Bound:
    """What it takes at least."""
    return bound(work(op, hardware), hardware)


def bound_s(hardware: Hardware, *ops: Op) -> float:
    """Seconds that the operators take at least, one after the other."""
    return float(sum(bound_of(op, hardware).time_s for op in ops))


def rate(value: Value) -> float:
    """The number of a figure that must be there."""
    assert isinstance(value, Figure)
    return value.value
