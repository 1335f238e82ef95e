"""Published facts on devices, matrix products and Amdahl's law."""

from __future__ import annotations

from dataclasses import replace

from roofline.hardware.profile import Hardware
from roofline.ops.base import Op
from roofline.ops.gemm import Gemm
from roofline.ops.memory import Copy
from roofline.predict.amdahl import Part, amdahl
from roofline.predict.bound import machine_of
from roofline.report.hardware_view import summaries
from roofline.spec.hardware import load_hardware
from tests.published.devices import bound_of, bound_s, device, rate, with_peak
from tests.published.facts import Fact, computes

WIDE = 2**20
"""A weight matrix so large that the bytes of activations do not count, as the published critical batches have it."""


# --------------------------------------------------------------------------- devices
@computes("seed-ridge-h100")
def ridge_of_h100(fact: Fact) -> float:
    """As `roofline hardware list` gives it."""
    return _ridge(device(fact, "h100-sxm"))


@computes("sb-ridge-v5e")
def ridge_of_v5e(fact: Fact) -> float:
    """As `roofline hardware list` gives it."""
    return _ridge(device(fact, "tpu-v5e"))


def _ridge(hardware: Hardware) -> float:
    found = summaries([hardware])[0].ridge_flop_per_byte
    assert found is not None
    return found


@computes("fa1-a100-sram-bw")
def shared_memory_bandwidth(fact: Fact) -> float:
    """The profile's own figure, derived from the inputs that the fact states."""
    return rate(load_hardware("a100-sxm-40gb").levels["smem"].bandwidth)


@computes("h100-sfu-rate")
def exponentials_per_second(fact: Fact) -> float:
    """The profile's own figure."""
    return rate(load_hardware("h100-sxm").sfu)


@computes("seed-amdahl")
def end_to_end_speedup(fact: Fact) -> float:
    """One part made faster."""
    return amdahl([Part(fact.inputs["fraction"], fact.inputs["local_speedup"])]).speedup


# --------------------------------------------------------------------------- products
def tokens_until_compute_bound(op: Op, hardware: Hardware, memory: str = "hbm", feed: Op | None = None) -> float:
    """Time to bring in the weights over the time to multiply one token with them."""
    weights_s = bound_of(feed or op, hardware).per_resource_s[memory]
    return float(weights_s / bound_of(op, hardware).per_resource_s["tensor"])


@computes("sb-bcrit-h100")
def critical_batch(fact: Fact) -> float:
    """Weights in bf16."""
    return tokens_until_compute_bound(Gemm(m=1, n=WIDE, k=WIDE, dtype="bf16"), device(fact, "h100-sxm"))


@computes("sb-bcrit-w8a16")
def critical_batch_of_int8_weights(fact: Fact) -> float:
    """Weights in int8, products in bf16, at the ridge that the fact states."""
    v5e = load_hardware("tpu-v5e")
    hardware = with_peak(v5e, fact.inputs["ridge"] * rate(v5e.levels["hbm"].bandwidth))
    return tokens_until_compute_bound(Gemm(m=1, n=WIDE, k=WIDE, dtype="bf16", weight_dtype="int8"), hardware)


@computes("sb-pcie-bcrit")
def critical_batch_of_weights_in_host_memory(fact: Fact) -> float:
    """The weights cross the host link instead of being read from HBM."""
    op = Gemm(m=1, n=WIDE, k=WIDE, dtype="bf16")
    weights = Copy(dtype="bf16", elements=op.tensors()[1].elements, over="pcie")
    return tokens_until_compute_bound(op, device(fact, "tpu-v6e"), "pcie", weights)


@computes("sb-dot-ai")
def intensity_of_a_dot_product(fact: Fact) -> float:
    """A product of one row with one column."""
    op = Gemm(m=1, n=1, k=int(fact.inputs["N"]), dtype="bf16")
    return float(op.counts().tensor / op.compulsory(None).hbm)


@computes("sgemm-flops")
def product_flop(fact: Fact) -> float:
    """Two for each multiply-add."""
    return float(Gemm(m=fact.inputs["M"], n=fact.inputs["N"], k=fact.inputs["K"], dtype="fp32").counts().tensor)


@computes("sgemm-mem-time")
def product_memory_seconds(fact: Fact) -> float:
    """The worklog's product reads C as well (beta = 1); on the A6000 of its 768 GB/s."""
    op = Gemm(m=4092, n=4092, k=4092, dtype="fp32", accumulate=True)
    return float(bound_of(op, load_hardware("rtx-a6000")).per_resource_s["hbm"])


@computes("sgemm-a6000-*")
def share_of_cublas(fact: Fact) -> float:
    """The kernel's share of the bound over that of cuBLAS."""
    return sgemm_efficiency(fact.inputs["gflops"]) / sgemm_efficiency(fact.inputs["cublas_gflops"])


def sgemm_efficiency(gflop_per_s: float) -> float:
    """A published rate at 4096 cubed in fp32 as a share of what an A6000 could do."""
    op = Gemm(m=4096, n=4096, k=4096, dtype="fp32")
    return bound_s(load_hardware("rtx-a6000"), op) / (float(op.counts().tensor) / (gflop_per_s * 1e9))


@computes("tk-b200-gemm-*", "fastcu-h100-k*")
def product_rate(fact: Fact) -> float:
    """FLOP over the bound."""
    op = Gemm(m=fact.inputs["M"], n=fact.inputs["N"], k=fact.inputs["K"], dtype="bf16")
    return float(op.counts().tensor) / bound_s(device(fact), op)


@computes("fastcu-l2hit")
def l2_hit_rate(fact: Fact) -> float:
    """Of the reads of A and B in a large product, those that a wave of 16 x 8 tiles does not take from HBM."""
    given = fact.inputs
    op = Gemm(m=8192, n=8192, k=8192, dtype="bf16", tile_m=given["tile_m"], tile_n=given["tile_n"])
    machine = machine_of(load_hardware("h100-sxm"))
    assert machine is not None
    wave = replace(machine, processors=given["wave_m"] * given["wave_n"])
    written = op.tensors()[-1].bytes
    return 1 - float((op.cached(wave).hbm - written) / (op.tiled(wave).l2 - written))
