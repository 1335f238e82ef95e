"""Operators of torch that start no kernel of their own: views, shapes, allocations without contents."""

from __future__ import annotations

from roofline.ingest.aten import base_name

VIEWS = frozenset((
    "_reshape_alias", "_unsafe_view", "alias", "as_strided", "chunk", "detach", "diagonal", "expand", "expand_as", "flatten",
    "lift_fresh", "movedim", "narrow", "permute", "positive", "real", "ravel", "select", "slice", "split", "split_with_sizes",
    "squeeze", "swapaxes", "swapdims", "t", "tensor_split", "transpose", "unbind", "unflatten", "unfold", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "view", "view_as", "view_as_complex", "view_as_real", "numpy_T", "mT",
))  # fmt: skip
"""New shapes and strides over the same memory."""

ALLOCATIONS = frozenset((
    "empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided", "new_empty", "new_empty_strided", "resize", "set",
    "record_stream",
))  # fmt: skip
"""Memory without contents."""

QUERIES = frozenset((
    "_has_compatible_shallow_copy_type", "_local_scalar_dense", "_nested_tensor_size", "dim", "is_floating_point", "is_nonzero",
    "is_same_size", "is_pinned", "item", "numel", "prim::device", "requires_grad", "result_type", "size", "stride", "storage_offset",
    "sym_numel", "sym_size", "sym_storage_offset", "sym_stride", "_fused_sdp_choice", "_assert_async", "_assert_scalar",
    "_assert_tensor_metadata", "_version",
))  # fmt: skip
"""Questions about a tensor; reading a value waits for the device and computes nothing there."""

_ALL = VIEWS | ALLOCATIONS | QUERIES


def is_view(name: str) -> bool:
    """Whether an operator does no work on a device.

    >>> is_view("aten::t"), is_view("aten::transpose_"), is_view("aten::mm")
    (True, True, False)
    """
    base = base_name(name)
    return base in _ALL or (base.endswith("_") and base[:-1] in _ALL)
