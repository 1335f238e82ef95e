"""Convolutions of one to three dimensions, forward and backward, and pooling."""

from __future__ import annotations

from math import prod

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles
from roofline.ingest.aten_elementwise import streamed

POSITIONS = {
    "convolution": (3, 4, 5, 8, 6),
    "_convolution": (3, 4, 5, 8, 6),
    "convolution_overrideable": (3, 4, 5, 8, 6),
    "conv1d": (3, 4, 5, 6, None),
    "conv2d": (3, 4, 5, 6, None),
    "conv3d": (3, 4, 5, 6, None),
    "cudnn_convolution": (3, 2, 4, 5, None),
    "miopen_convolution": (4, 3, 5, 6, None),
}
"""Where stride, padding, dilation, groups and ``transposed`` stand."""


def _axes(value: object, count: int, name: str) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * count
    if isinstance(value, tuple) and len(value) in (1, count) and all(isinstance(n, int) for n in value):
        return tuple(value) * (count if len(value) == 1 else 1)
    raise Unrecognised(f"the {name} is not recorded")


def _fields(x: Tensor, w: Tensor, steps: tuple[tuple[int, ...], ...], groups: int, bias: bool) -> dict[str, Scalar]:
    """Fields of `conv2d` for images or, as images of one row, sequences; defaults are left out."""
    stride, padding, dilation = steps
    size, kernel = x.shape[2:], w.shape[2:]
    if len(size) == 1:
        size, kernel, stride, dilation, padding = (1, *size), (1, *kernel), (1, *stride), (1, *dilation), (0, *padding)
    found: dict[str, Scalar] = {
        "batch": x.shape[0], "in_channels": x.shape[1], "height": size[0], "width": size[1],
        "out_channels": w.shape[0], "kernel": kernel[0], "dtype": x.dtype,
    }  # fmt: skip
    pairs = {"stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1)}
    if kernel[1] != kernel[0]:
        found["kernel_w"] = kernel[1]
    for name, ((first, second), default) in pairs.items():
        if first != default:
            found[name] = first
        if second != first:
            found[f"{name}_w"] = second
    if groups != 1:
        found["groups"] = groups
    if bias:
        found["bias"] = True
    return found


def _other(x: Tensor, w: Tensor, steps: tuple[tuple[int, ...], ...], groups: int, transposed: bool) -> tuple[int, Tensor | None]:
    """FLOP and, where it follows, the result of a convolution that is no `conv2d`: transposed, or of volumes."""
    taps = prod(w.shape[2:])
    if transposed:
        return 2 * x.elements * w.shape[1] * taps, None
    sizes = zip(x.shape[2:], w.shape[2:], *steps, strict=True)
    out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)
    result = Tensor((x.shape[0], w.shape[0], *out), x.dtype)
    return 2 * result.elements * (x.shape[1] // groups) * taps, result


@handles(*POSITIONS)
def convolution(call: Call) -> tuple[Mapped, ...]:
    """``convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)`` and its like."""
    at_stride, at_padding, at_dilation, at_groups, at_transposed = POSITIONS[call.base]
    x, w = call.tensor(0), call.tensor(1)
    count = len(w.shape) - 2
    if len(x.shape) != len(w.shape) or count < 1:
        raise Unrecognised(f"a convolution of shapes {list(x.shape)} and {list(w.shape)}")
    named = (("stride", at_stride, 1), ("padding", at_padding, 0), ("dilation", at_dilation, 1))
    steps = tuple(_axes(call.argument(at, default), count, name) for name, at, default in named)
    groups = call.argument(at_groups, 1)
    transposed = at_transposed is not None and call.argument(at_transposed) is True
    bias = isinstance(call.argument(2), Tensor)
    if not x.elements * w.elements or not isinstance(groups, int):
        return ()
    if count < 3 and not transposed:
        return (Mapped("conv2d", _fields(x, w, steps, groups, bias)),)
    flop, result = _other(x, w, steps, groups, transposed)
    out = call.out[0] if call.out else result
    if out is None:
        raise Unrecognised("the result's shape is not recorded")
    return _custom(flop, (x, w), (out,))


def _custom(flop: int, reads: tuple[Tensor, ...], writes: tuple[Tensor, ...]) -> tuple[Mapped, ...]:
    read, write = sum(t.bytes for t in reads), sum(t.bytes for t in writes)
    return (Mapped("custom", {"dtype": reads[0].dtype, "tensor_flop": flop, "read": read, "write": write}),)


@handles("convolution_backward")
def convolution_backward(call: Call) -> tuple[Mapped, ...]:
    """``convolution_backward(dy, x, w, bias sizes, stride, padding, dilation, transposed, output padding, groups, wanted)``.

    Both gradients are the operator's backward pass; one of them alone (the first layer has no dx) is half of it.
    """
    dy, x, w, wanted = call.tensor(0), call.tensor(1), call.tensor(2), call.argument(10)
    if not isinstance(wanted, tuple) or len(wanted) != 3:
        raise Unrecognised("which gradients are wanted is not recorded")
    forward = convolution(Call("convolution", (x, w, dy if wanted[2] else None, *(call.argument(i) for i in range(4, 10))), (dy,)))
    if not forward:
        return ()
    if wanted[0] and wanted[1] and forward[0].op == "conv2d":
        return (forward[0].backward(),)
    flop = forward[0].build().counts().tensor
    parts = (((dy, w), (x,)),) * bool(wanted[0]) + (((dy, x), (w,)),) * bool(wanted[1])
    return tuple(each for reads, writes in parts for each in _custom(int(flop), reads, writes))


@handles("max_pool2d", "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool2d", "upsample_nearest2d")
def pooled(call: Call) -> tuple[Mapped, ...]:
    """Each element read, each result written; one comparison or addition an element at least."""
    if not call.out:
        raise Unrecognised("the result's shape is not recorded")
    x = call.tensor(0)
    return streamed((x,), call.out, x.elements)


@handles("max_pool2d_with_indices_backward", "avg_pool2d_backward", "_adaptive_avg_pool2d_backward")
def pooled_backward(call: Call) -> tuple[Mapped, ...]:
    """Reads dy, writes dx."""
    dy, x = call.tensor(0), call.tensor(1)
    return streamed((dy,), (x,), dy.elements)
