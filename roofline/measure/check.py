"""Does the kernel compute what the operator says? Its output beside a float64 reference, before anything is timed.

The error is the largest difference relative to the largest value of the reference, since that is what rounding scales with: a
small result of a long sum is as inexact as a large one. A kernel runs twice on one set of tensors, with new inputs the second
time and all outputs spoilt before each run, so that one that writes nothing, writes zeros or repeats an earlier result fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch

from roofline.measure.allocate import allocate, refill, results
from roofline.measure.reference import reference
from roofline.measure.registry import prepare
from roofline.measure.spec import KernelSpec
from roofline.ops.base import Op
from roofline.report.model import CheckResult

__all__ = ["check", "check_call", "compare_outputs", "difference", "reference", "small_op", "tolerance"]

TOLERANCES = {
    "fp64": 1e-11,
    "fp32": 2e-5,
    "tf32": 4e-3,
    "fp16": 4e-3,
    "bf16": 2.5e-2,
    "fp8": 2.5e-2,
    "fp8_e4m3": 2.5e-2,
    "int8": 0.0,
}
"""Largest error by dtype. One rounding is at most 2^-9 = 0.002 in bf16, 2^-12 = 0.00024 in fp16 and in the factors of TF32, 2^-25 in
fp32; kernels round intermediate results as well (probabilities, activations), sums add roundings up and exponentials amplify
them: correct kernels were seen at 0.008, 0.0012 and 5e-7, and these are about three times that (fp32 more, for long sums). fp8
products are exact in their inputs and written in bf16, with sums of about 14 bits in between. Integers are exact."""

EXACT = {"transpose", "copy", "embedding"}
"""Operators that only move data, and must not change it."""

TF32_FLOOR = 2e-5
"""TF32 rounds each factor to 11 bits, which a sum of products shows; a smaller error means that plain fp32 ran."""

TF32_OPERATORS = {"gemm", "batched_gemm"}
"""Operators of which the libraries run every shape in TF32 once it is allowed; a convolution chooses by its shape."""

FAILED = 1e200
"""The error of an output that cannot be compared: a report holds finite numbers only, and none above this."""

LARGEST_DIM = {"window": 24, "sram": 0}
"""Bounds of dimensions that a small shape does not name."""

_FILTER = {"kernel", "kernel_w", "stride", "stride_w", "padding", "padding_w", "dilation", "dilation_w", "groups"}
KEPT = {"head_dim", "v_head_dim", "order", *_FILTER}
"""Dimensions by which libraries choose their code, so that a check keeps them."""


# --------------------------------------------------------------------------- comparing
def compare_outputs(actual: Any, expected: Sequence[torch.Tensor]) -> float:
    """The largest error of the outputs, each relative to the largest value expected of it; FAILED for what is no result."""
    got = tuple(actual) if isinstance(actual, (tuple, list)) else (actual,)
    if len(got) != len(expected):
        return FAILED
    return max((_error(a, e) for a, e in zip(got, expected, strict=True)), default=FAILED)


def _error(actual: Any, expected: torch.Tensor) -> float:
    if not isinstance(actual, torch.Tensor) or actual.shape != expected.shape:
        return FAILED
    wanted = expected.double()
    if not wanted.numel():
        return 0.0
    largest = float(wanted.abs().max())
    apart = float((actual.detach().to(wanted.device).double() - wanted).abs().max())
    if not math.isfinite(apart) or not math.isfinite(largest):
        return FAILED
    return apart / largest if largest else (0.0 if apart == 0 else FAILED)


def tolerance(op: Op, direction: str = "forward") -> float:
    """How far a kernel's output may lie from the reference; the coarsest format that it writes or computes in decides."""
    if op.name in EXACT and direction == "forward":
        return 0.0
    formats = {op.dtype, *(t.dtype for t in results(op)), getattr(op, "scratch_dtype", op.dtype)}
    return max(TOLERANCES.get(name, 0.0) for name in formats)


# --------------------------------------------------------------------------- shapes
def small_op(spec: KernelSpec, op: Op) -> Op:
    """The operator at a shape that float64 can follow: each dimension at most that of the kernel's small shape.

    Everything that chooses the code stays: dtype, flags, head width, filter size, grouped heads, more keys than queries.
    """
    bounds = {**LARGEST_DIM, **{k: v for k, v in spec.small.items() if isinstance(v, int) and not isinstance(v, bool)}}
    wanted = {name: min(getattr(op, name), bound) for name, bound in bounds.items() if name not in KEPT and hasattr(op, name)}
    shrunk: Op = replace(op, **wanted)  # type: ignore[type-var]
    like = _LIKE.get(op.name)
    shrunk = like(op, shrunk) if like else shrunk
    if shrunk.check() is None:
        return shrunk
    words = {f.name: getattr(op, f.name) for f in fields(op) if f.metadata.get("kind") not in ("dim", "amount")}  # type: ignore[arg-type]
    return type(op)(**{**spec.small, **words, **spec.fields})


def _like_attention(op: Any, shrunk: Any) -> Any:
    """Two query heads share a key head where some do, and queries stay fewer than keys where they were."""
    grouped = bool(op.kv_heads) and op.kv_heads < op.heads
    kv_heads = max(shrunk.heads // 2, 1) if grouped else (shrunk.heads if op.kv_heads else 0)
    fewer = op.q_len < op.kv_len and shrunk.q_len == shrunk.kv_len
    q_len = max(shrunk.q_len // 2, 1) if fewer else shrunk.q_len
    return replace(shrunk, heads=kv_heads * 2 if grouped else shrunk.heads, kv_heads=kv_heads, q_len=q_len)


def _like_grouped(op: Any, shrunk: Any) -> Any:
    """All on one device, with as uneven loads, and matrices without rows where there were some."""
    known = replace(shrunk, ranks=1, chosen=0, fullest=0)
    rows, held = known.rows, known.held
    chosen = min(op.chosen, rows, max(held - 1, 1) if op.chosen < op.held else held)
    fullest = min(max(round(rows * op.fullest / op.rows), -(-rows // (chosen or held))), rows - max(chosen, 1) + 1)
    return replace(known, chosen=chosen, fullest=fullest if op.fullest else 0)


def _like_conv(op: Any, shrunk: Any) -> Any:
    """Whole groups, and an image in which one window fits."""
    needed = {"height": op.dilation * (op.kernel - 1) + 1, "width": (op.dilation_w or op.dilation) * (op.kernel_width - 1) + 1}
    image = {name: min(getattr(op, name), max(getattr(shrunk, name), size)) for name, size in needed.items()}
    channels = {name: max(getattr(shrunk, name) // op.groups, 1) * op.groups for name in ("in_channels", "out_channels")}
    return replace(shrunk, **image, **channels)


def _like_fft_conv(op: Any, shrunk: Any) -> Any:
    """A filter no longer than the sequence, and the usual transform where the one given belongs to a longer one."""
    return replace(shrunk, kernel_len=min(op.kernel_len, shrunk.seq), fft_len=op.fft_len if shrunk.seq == op.seq else 0)


def _like_monarch(op: Any, shrunk: Any) -> Any:
    """The same blocks: they choose the code."""
    return replace(shrunk, n=op.n)


_LIKE: dict[str, Callable[[Any, Any], Any]] = {
    "attention": _like_attention,
    "grouped_gemm": _like_grouped,
    "conv2d": _like_conv,
    "fft_conv": _like_fft_conv,
    "monarch": _like_monarch,
}


# --------------------------------------------------------------------------- checking
def check(spec: KernelSpec, op: Op, device: str, direction: str = "forward", seed: int = 1) -> CheckResult:
    """Run the kernel at the operator's own shape (see `small_op`) on two sets of inputs, and hold both outputs against float64.

    Raises:
        UsageError, MissingCapabilityError: the kernel cannot run it, see `roofline.measure.registry.prepare`.
    """
    tensors = allocate(op, device, seed, direction)
    call = prepare(spec, op, tensors, direction, device)
    first = check_call(call, op, tensors, device, direction)
    if not first.passed:
        return first
    refill(op, tensors, seed + 1, direction)
    if direction == "backward":  # what its forward pass left behind belongs to the old inputs
        call = prepare(spec, op, tensors, direction, device)
    again = check_call(call, op, tensors, device, direction)
    if not again.passed:
        return replace(again, against="float64 reference of new inputs, which the output does not follow")
    return max(first, again, key=lambda result: result.error)


def check_call(
    call: Callable[[], Any], op: Op, tensors: Mapping[str, torch.Tensor], device: str, direction: str = "forward"
) -> CheckResult:
    """Run a prepared kernel once on the values in ``tensors`` and hold its output against float64; for use after timing too.

    After new values are written with `refill`; for a backward pass a new callable is needed then.
    """
    before = {name: t.clone() for name, t in tensors.items()}
    outputs = call()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    if op.name == "dropout" and direction == "forward":
        return _check_dropout(op, before, outputs)
    error = compare_outputs(outputs, reference(op, before, direction))
    return _verdict(error, op, direction)


def _verdict(error: float, op: Op, direction: str) -> CheckResult:
    allowed = tolerance(op, direction)
    if op.dtype == "tf32" and op.name in TF32_OPERATORS and error < TF32_FLOOR:
        return CheckResult(passed=False, error=error, tolerance=allowed, against="float64 reference: too exact for TF32, plain fp32 ran")
    return CheckResult(passed=error <= allowed, error=error, tolerance=allowed, against="float64 reference")


def _check_dropout(op: Any, before: dict[str, torch.Tensor], outputs: Any) -> CheckResult:
    """The mask is random: it must drop p of the elements within six standard deviations, and y must follow from it."""
    allowed, against = tolerance(op), "float64 reference with the kernel's own mask"
    if not isinstance(outputs, tuple) or len(outputs) != 2 or outputs[0].shape != before["mask"].shape:
        return CheckResult(passed=False, error=FAILED, tolerance=allowed, against=against)
    kept, expected = float(outputs[0].double().mean()), 1 - op.p
    if abs(kept - expected) > 6 * (op.p * expected / outputs[0].numel()) ** 0.5:
        return CheckResult(passed=False, error=abs(kept - expected), tolerance=allowed, against=f"share of elements kept, {expected:g}")
    error = compare_outputs(outputs, reference(op, {**before, "mask": outputs[0]}))
    return CheckResult(passed=error <= allowed, error=error, tolerance=allowed, against=against)


def difference(one: KernelSpec, other: KernelSpec, op: Op, device: str, direction: str = "forward", seed: int = 1) -> float:
    """How far two kernels lie apart on the same inputs, such as flash and naive attention, each with the fields it fixes."""
    outputs = []
    for spec in (one, other):
        fitted: Op = replace(op, **spec.fields)  # type: ignore[type-var]
        found = prepare(spec, fitted, allocate(fitted, device, seed, direction), direction, device)()
        outputs.append(tuple(found) if isinstance(found, (tuple, list)) else (found,))
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return compare_outputs(outputs[0], outputs[1])
