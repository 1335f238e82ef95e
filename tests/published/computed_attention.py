"""Published facts on attention, by the operator and the tile model."""

from __future__ import annotations

from typing import Any

from roofline.dataflow.account import account, device_of
from roofline.numeric import scalar
from roofline.ops.attention import Attention
from roofline.ops.base import Op
from roofline.ops.gemm import Gemm
from roofline.ops.softmax import Softmax
from roofline.report.single import tile_of
from roofline.spec.dataflow import load_dataflow
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step
from tests.published.devices import bound_of, bound_s, device, rate, work
from tests.published.facts import Fact, computes

TOKENS, HIDDEN = 16384, 2048
"""FlashAttention's benchmark: the batch and the heads follow from the sequence and the head dimension."""

FIGURE_2: dict[str, Any] = {"batch": 64, "heads": 16, "q_len": 1024, "kv_len": 1024, "head_dim": 64, "dtype": "fp16"}
"""The shape of FlashAttention's figure 2; its reference runs passes for the mask and for dropout."""

ROUNDS = 1024
"""A length at which to count what grows with the length and with its square."""


def square(fact: Fact, implementation: str = "flash", **fields: Any) -> Attention:
    """Attention of a sequence with itself, with batch and heads as the fact states them or as the benchmark sets them."""
    given = fact.inputs
    seq, width = given["seq"], given["head_dim"]
    return Attention(
        batch=given.get("batch", TOKENS // seq),
        heads=given.get("heads", HIDDEN // width),
        q_len=seq,
        kv_len=seq,
        head_dim=width,
        causal=given.get("causal", False),
        dtype="fp16",
        implementation=implementation,
        **fields,
    )


def both(op: Op) -> tuple[Op, ...]:
    """Forward and backward."""
    return (op, *op.backward())


def figure_2(implementation: str) -> tuple[Op, ...]:
    """Both passes at the shape of figure 2."""
    extra: dict[str, Any] = {"mask": True, "dropout": 0.1} if implementation == "naive" else {}
    return both(Attention(implementation=implementation, **FIGURE_2, **extra))


def tensor_flop(*ops: Op) -> float:
    """Matrix FLOP as executed."""
    return float(sum(op.counts().tensor for op in ops))


# --------------------------------------------------------------------------- ceilings
@computes("fa3-h100-fwd-*", "tk-h100-fwd-*")
def flash_forward_rate(fact: Fact) -> float:
    """FLOP over the bound, everything overlapped."""
    op = square(fact)
    return tensor_flop(op) / bound_s(device(fact), op)


@computes("tk-h100-bwd-*")
def flash_backward_rate(fact: Fact) -> float:
    """The backward pass alone, 2.5 times the forward FLOP."""
    backward = square(fact).backward()
    return tensor_flop(*backward) / bound_s(device(fact), *backward)


@computes("fa2-a100-fwdbwd-*")
def flash_rate(fact: Fact) -> float:
    """Forward and backward."""
    ops = both(square(fact))
    return tensor_flop(*ops) / bound_s(device(fact), *ops)


@computes("fa2-h100-fwd-*")
def flash_rate_with_exposed_exponentials(fact: Fact) -> float:
    """FlashAttention 2 waits for its exponentials: the times of both engines add up."""
    op = square(fact)
    seconds = bound_of(op, device(fact)).per_resource_s
    return tensor_flop(op) / float(seconds["tensor"] + seconds["sfu"])


@computes("naive-a100-fwdbwd-*")
def naive_rate(fact: Fact) -> float:
    """The benchmark divides FlashAttention's FLOP, recomputation included, by the time of the materialised passes."""
    return tensor_flop(*both(square(fact))) / bound_s(device(fact), *both(square(fact, "naive")))


@computes("naive-h100-fwd-*")
def naive_forward_rate(fact: Fact) -> float:
    """The forward passes alone."""
    return tensor_flop(square(fact)) / bound_s(device(fact), square(fact, "naive"))


@computes("fa1-fig2-std-runtime")
def figure_2_naive_seconds(fact: Fact) -> float:
    """Both passes, materialised."""
    return bound_s(device(fact), *figure_2("naive"))


@computes("fa1-fig2-flash-runtime")
def figure_2_flash_seconds(fact: Fact) -> float:
    """Both passes of FlashAttention 1."""
    return bound_s(device(fact), *figure_2("flash1"))


@computes("fa1-tab7-fmha-fwd512")
def table_7_seconds(fact: Fact) -> float:
    """Forward pass of FlashAttention 1."""
    return bound_s(device(fact, "a100-sxm-40gb"), square(fact, "flash1"))


# --------------------------------------------------------------------------- counts
@computes("seed-naive-attn-elements")
def score_elements(fact: Fact) -> float:
    """The first tensor that naive attention writes, for one head."""
    n = fact.inputs["n"]
    op = Attention(batch=1, heads=1, q_len=n, kv_len=n, head_dim=128, dtype="bf16", implementation="naive")
    return float(op.passes()[0].writes[0].elements)


@computes("fa1-fig2-std-hbm")
def figure_2_bytes(fact: Fact) -> float:
    """HBM bytes of the materialised passes."""
    hardware = load_hardware("a100-sxm-40gb")
    return float(sum(work(op, hardware).compulsory.hbm for op in figure_2("naive")))


@computes("fa1-fig2-hbm-ratio")
def figure_2_byte_ratio(fact: Fact) -> float:
    """FlashAttention 1 streams Q and O once for each block of keys that fits in the A100's shared memory."""
    hardware = load_hardware("a100-sxm-40gb")
    streamed = [work(op, hardware).tiled for op in figure_2("flash1")]
    return figure_2_bytes(fact) / float(sum(t.hbm for t in streamed if t is not None))


@computes("fa1-fig2-flop-ratio")
def figure_2_flop_ratio(fact: Fact) -> float:
    """Recomputation makes five backward products of four."""
    return tensor_flop(*figure_2("flash1")) / tensor_flop(*figure_2("naive"))


@computes("fa1-tab21-mem-pytorch-*")
def naive_peak_bytes(fact: Fact) -> float:
    """Peak memory of the benchmark, materialised."""
    return float(square(fact, "naive").training_peak_bytes())


@computes("fa1-tab21-mem-flash-*")
def flash_peak_bytes(fact: Fact) -> float:
    """Peak memory of the benchmark, FlashAttention 1."""
    return float(square(fact, "flash1").training_peak_bytes())


@computes("fa1-mem-ratio-4k")
def peak_ratio(fact: Fact) -> float:
    """The one over the other."""
    return naive_peak_bytes(fact) / flash_peak_bytes(fact)


@computes("sb-attn-dominates")
def length_where_attention_equals_the_rest(fact: Fact) -> float:
    """FLOP of a layer's products grow with the length, those of attention with its square."""
    width = fact.inputs["d_model"]
    attention = Attention(batch=1, heads=width // 128, q_len=ROUNDS, kv_len=ROUNDS, head_dim=128, dtype="bf16")
    shapes = [(width, width)] * 4 + [(4 * width, width)] * 2 + [(width, 4 * width)]  # Q, K, V, O; gate, up; down
    products = [Gemm(m=ROUNDS, n=n, k=k, dtype="bf16") for n, k in shapes]
    return ROUNDS * tensor_flop(*products) / tensor_flop(attention)


@computes("softmax-accesses")
def softmax_accesses(fact: Fact) -> tuple[float, ...]:
    """Reads and writes of rows that do not fit on chip."""
    kinds = ("naive", "safe", "online")
    return tuple(sum(Softmax(rows=1, cols=8, dtype="fp32", implementation=k).accesses_per_element(on_chip=False)) for k in kinds)


# --------------------------------------------------------------------------- rates and tiles
@computes("fa3-exp-ratio")
def matmul_over_exponentials(fact: Fact) -> float:
    """Two rates of the profile."""
    hardware = load_hardware("h100-sxm")
    return rate(hardware.matrix_engine("fp16")[1]) / rate(hardware.sfu)


@computes("fa3-peak-util", "fa4-util")
def utilisation(fact: Fact) -> float:
    """A published rate over the profile's dense peak."""
    name = "h100-sxm" if fact.id.startswith("fa3") else "b200-sxm"
    return float(fact.inputs["rate"]) / rate(load_hardware(name).matrix_engine("bf16")[1])


@computes("fa3-fwd-smem-128", "fa3-bwd-smem-128")
def tile_footprint(fact: Fact) -> float:
    """Shared memory of a block."""
    given, hopper = fact.inputs, device_of(load_hardware("h100-sxm"), "bf16")
    name, own = ("flash2", {"stages": given["stages"]}) if "stages" in given else ("backward", {"do_stages": given["dO_stages"]})
    settings = {"head_dim": given["hdim"], "tile_m": given["tile_m"], "tile_n": given["tile_n"], **own}
    found = account(load_dataflow(f"attention:{name}", [f"{k}={v}" for k, v in settings.items()], hopper.names), hopper)
    return float(scalar(max(k.room.smem_bytes for k in found.kernels)))


@computes("fa3-bwd-regs-128")
def tile_registers(fact: Fact) -> float:
    """Accumulators of a thread, by the dataflow."""
    given, hopper = fact.inputs, device_of(load_hardware("h100-sxm"), "bf16")
    settings = {"head_dim": given["hdim"], **{name: given[name] for name in ("tile_m", "tile_n", "warpgroups")}}
    found = account(load_dataflow("attention:backward", [f"{k}={v}" for k, v in settings.items()], hopper.names), hopper)
    return float(scalar(max(k.room.accumulators_per_thread for k in found.kernels)))


@computes("fa4-fwd-*", "fa4-bwd-*")
def cycles_of_a_step(fact: Fact) -> float:
    """The resource that the id ends with, on a B200; the exponentials do not depend on the head dimension."""
    _, way, resource = fact.id.split("-")
    m, n, width = fact.inputs["M"], fact.inputs["N"], fact.inputs.get("D", 128)
    op = Attention(batch=1, heads=1, q_len=4096, kv_len=4096, head_dim=width, dtype="bf16", tile_m=m, tile_n=n)
    found = tile_of(Step(id="a", op=op, direction={"fwd": "forward", "bwd": "backward"}[way]), load_hardware("b200-sxm"))
    assert found is not None
    return float(scalar(found[0].time.steps[-1].cycles[{"exp": "sfu", "mma": "tensor", "smem": "smem"}[resource]]))
