"""Every kernel computes what its operator says: at a small shape on a CPU, at that and at its example shape on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from roofline.errors import MissingCapabilityError, UsageError
from roofline.measure.allocate import allocate, refill
from roofline.measure.check import check, check_call, difference, small_op
from roofline.measure.needs import missing
from roofline.measure.registry import KERNELS, default_kernel, kernels_for, prepare
from roofline.measure.spec import KernelSpec
from roofline.ops.functions import FUNCTIONS
from roofline.ops.registry import OPERATORS

on_gpu = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]
"""There torch's compiler warns of what is not ours."""


def gpu(test):
    for mark in on_gpu:
        test = mark(test)
    return test


WITHOUT_GRADIENTS = {"fp8", "fp8_e4m3", "int8"}


def made(spec: KernelSpec, shape: str = "small", **fields):
    """The operator of a kernel at one of its shapes."""
    return OPERATORS[spec.op](**{**getattr(spec, shape), **spec.fields, **fields})


def variants(device: str):
    """Every kernel, dtype and direction whose needs a kind of device can meet."""
    return [
        pytest.param(spec, dtype, direction, id=f"{spec.name}-{dtype}-{direction}")
        for spec in KERNELS.values()
        for dtype in spec.dtypes
        for direction in spec.directions
        if not (direction == "backward" and dtype in WITHOUT_GRADIENTS)
        if ("cpu" not in spec.needed(dtype) if device == "cuda" else not missing(spec.needed(dtype), "cpu"))
    ]


def checked(spec, device, direction="forward", shape="small", **fields):
    op = made(spec, shape, **fields)
    return check(spec, op, device, direction)


def with_scratch(spec, dtype):
    return {"dtype": dtype, **({"scratch_dtype": dtype} if spec.name == "cross_entropy" else {})}


@pytest.mark.parametrize(("spec", "dtype", "direction"), variants("cpu"))
def test_every_kernel_passes_its_check_on_a_cpu(spec, dtype, direction):
    result = checked(spec, "cpu", direction, **with_scratch(spec, dtype))
    assert result.passed, result


@gpu
@pytest.mark.parametrize(("spec", "dtype", "direction"), variants("cuda"))
def test_every_kernel_passes_its_check_on_a_gpu(spec, dtype, direction):
    result = checked(spec, "cuda", direction, **with_scratch(spec, dtype))
    assert result.passed, result


@gpu
@pytest.mark.parametrize("spec", KERNELS.values(), ids=list(KERNELS))
def test_every_kernel_runs_its_example_and_passes_at_the_shape_derived_from_it(spec):
    op = made(spec, "example")
    result = check(spec, small_op(spec, op), "cuda")
    assert result.passed, result
    tensors = allocate(op, "cuda")
    call = prepare(spec, op, tensors, device="cuda")
    call()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    del tensors, call
    torch.cuda.empty_cache()
    assert start.elapsed_time(end) < 50


CAPTURED = [
    pytest.param(spec, direction, id=f"{spec.name}-{direction}")
    for spec in KERNELS.values()
    for direction in spec.directions
    if spec.captured(direction)
]


@gpu
@pytest.mark.parametrize(("spec", "direction"), CAPTURED)
def test_a_kernel_said_to_be_capturable_is_captured_and_replays_on_new_inputs(spec, direction):
    dtype = {} if spec.name in ("memcpy_h2d", "memcpy_d2h") else {"dtype": "bf16"}
    op = made(spec, **dtype)
    tensors = allocate(op, "cuda", 1, direction)
    call = prepare(spec, op, tensors, direction, "cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call()
    if spec.op in ("dropout", "adamw", "sgd"):  # random, and in place: a replay is a step more
        return

    def replay():
        graph.replay()
        return outputs

    if direction == "forward":
        refill(op, tensors, 2)
    result = check_call(replay, op, tensors, "cuda", direction)
    assert result.passed, result


# --------------------------------------------------------------------------- fields that choose other code
ATTENTION_CASES = {
    "square": {"q_len": 40, "kv_len": 40},
    "not-causal": {"q_len": 24, "kv_len": 40, "causal": False},
    "more-keys": {"q_len": 24, "kv_len": 40},
    "window": {"q_len": 24, "kv_len": 40, "window": 9},
    "one-query": {"q_len": 1, "kv_len": 40},
    "one-head": {"heads": 4, "kv_heads": 1},
}


@pytest.mark.parametrize("case", ATTENTION_CASES.values(), ids=list(ATTENTION_CASES))
@pytest.mark.parametrize("name", ["flash", "naive", "math"])
def test_attention_agrees_with_the_reference_in_every_mask(name, case):
    result = checked(KERNELS[name], "cpu", **case)
    assert result.passed, result


@gpu
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("case", ATTENTION_CASES.values(), ids=list(ATTENTION_CASES))
@pytest.mark.parametrize("name", ["flash", "cudnn", "efficient", "naive", "math"])
def test_attention_on_a_gpu_agrees_with_the_reference_or_is_refused(name, case, direction):
    try:
        result = checked(KERNELS[name], "cuda", direction, **case, dtype="bf16", head_dim=64)
    except UsageError:
        assert name in ("cudnn", "efficient") or (direction, "window" in case) == ("backward", True)
    else:
        assert result.passed, result


@pytest.mark.parametrize("case", [{"scale_pass": False}, {"mask": True, "causal": False}, {"v_head_dim": 16}])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_naive_attention_runs_as_the_fields_say(case, direction):
    result = checked(KERNELS["naive"], "cpu", direction, **case)
    assert result.passed, result


@pytest.mark.parametrize(
    ("name", "case", "word"),
    [
        ("flash", {"dropout": 0.1}, "dropout"),
        ("flash", {"kv_splits": 4}, "split keys"),
        ("flash", {"v_head_dim": 16}, "another width"),
        ("flash", {"kv_dtype": "bf16"}, "another dtype"),
        ("gemm", {"weight_dtype": "int8"}, "dtype of A"),
        ("gemm", {"bias": True, "accumulate": True}, "not both"),
        ("gemm", {"dtype": "int8", "m": 8}, "above 16"),
        ("gemm", {"dtype": "fp8", "k": 24}, "multiples of 16"),
        ("copy", {"elements": 0, "read": 10, "write": 5}, "writes what it reads"),
        ("reduction", {"function": "max", "out_dtype": "fp64"}, "maximum"),
        ("rotary", {"positions": 7}, "divide tokens"),
        ("elementwise", {"function": "neg", "inputs": 2}, "inputs"),
        ("adamw", {"state_dtype": "bf16"}, "format of p"),
        ("sgd", {"state_dtype": "bf16"}, "format of p"),
    ],
)
def test_what_a_kernel_cannot_run_is_refused_and_not_run_differently(name, case, word):
    with pytest.raises(UsageError, match=word):
        checked(KERNELS[name], "cpu", **case)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_the_table_has_a_kernel(name):
    extra = {"out_dtype": "bf16"} if name == "cast" else {}
    result = checked(KERNELS["elementwise"], "cpu", function=name, **extra)
    assert result.passed, result


@pytest.mark.parametrize("name", [n for n, f in FUNCTIONS.items() if f.gradients])
def test_every_function_with_a_gradient_has_a_backward_kernel(name):
    extra = {"out_dtype": "bf16"} if name == "cast" else {}
    result = checked(KERNELS["elementwise"], "cpu", "backward", function=name, **extra)
    assert result.passed, result


def test_an_input_that_is_broadcast_is_one_number():
    assert checked(KERNELS["elementwise"], "cpu", function="fma", inputs=1).passed
    assert checked(KERNELS["elementwise"], "cpu", function="add", inputs=1).passed


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("gemm", {"bias": True}),
        ("gemm", {"accumulate": True}),
        *[("gemm", {"activation": a, "bias": True}) for a in ("relu", "gelu", "silu")],
        ("gemm", {"dtype": "fp8", "out_dtype": "bf16"}),
        ("conv2d", {"bias": True, "stride": 2, "groups": 2, "dilation": 2}),
        ("conv2d", {"kernel_w": 5, "padding_w": 2, "stride_w": 3}),
        ("layernorm", {"residual": True}),
        ("layernorm", {"bias": False}),
        ("rmsnorm", {"residual": True}),
        ("cross_entropy", {"dtype": "bf16"}),
        *[("reduction", {"function": f}) for f in ("sum", "mean", "max")],
        ("reduction", {"dtype": "bf16", "out_dtype": "fp32"}),
        ("reduction", {"rows": 1}),
        ("rotary", {"in_place": True}),
        ("rotary", {"positions": 0, "kv_heads": 0}),
        ("adamw", {"dtype": "bf16", "master": True}),
        ("adamw", {"dtype": "bf16"}),
        ("sgd", {"momentum": False}),
        ("embedding", {"tokens": 100, "id_dtype": "int32"}),
        ("copy", {"elements": 0, "read": 100, "write": 100}),
    ],
)
def test_fields_of_an_operator_reach_its_kernel(name, case):
    result = checked(KERNELS[name], "cpu", **case)
    assert result.passed, result


@pytest.mark.gpu
def test_a_descent_in_16_bits_updates_its_fp32_weights_and_their_copy():
    """On a CPU torch's own step of 16 bits is wrong, and refused."""
    result = checked(KERNELS["sgd"], "cuda", dtype="bf16", master=True)
    assert result.passed, result


def test_a_descent_in_16_bits_is_refused_on_a_cpu():
    with pytest.raises(MissingCapabilityError, match="needs a CUDA device"):
        checked(KERNELS["sgd"], "cpu", dtype="bf16")


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("gemm", {"bias": True}),
        ("conv2d", {"bias": True, "groups": 2, "stride": 2}),
        ("layernorm", {"residual": True}),
        ("rmsnorm", {"residual": True}),
        ("cross_entropy", {"dtype": "bf16"}),
        ("reduction", {"function": "max"}),
        ("embedding", {"tokens": 100}),
    ],
)
def test_fields_of_an_operator_reach_its_backward_kernel(name, case):
    result = checked(KERNELS[name], "cpu", "backward", **case)
    assert result.passed, result


def test_flash_equals_naive_within_rounding_and_the_error_can_be_shown():
    op = made(KERNELS["flash"], dtype="bf16")
    error = difference(KERNELS["flash"], KERNELS["naive"], op, "cpu")
    assert 0 < error < 0.02
    assert difference(KERNELS["flash"], KERNELS["naive"], replace(op, dtype="fp32"), "cpu") < error / 100


@pytest.mark.parametrize(("name", "dtype"), [("gemm", "fp8"), ("gemm", "int8"), ("transpose", "int8")])
def test_a_backward_pass_of_an_8_bit_format_is_refused(name, dtype):
    with pytest.raises(UsageError, match=r"gradients|plain products"):
        checked(KERNELS[name], "cpu", "backward", dtype=dtype)


def test_the_default_kernel_of_every_small_shape_runs_that_operator():
    for spec in KERNELS.values():
        assert default_kernel(made(spec)) in kernels_for(spec.op)


def test_a_plain_fp32_product_leaves_the_settings_of_the_process_alone():
    before = torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision
    for name in ("gemm", "conv2d", "naive"):
        assert checked(KERNELS[name], "cpu").passed
    assert (torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision) == before
    assert torch.get_float32_matmul_precision() == "highest"
