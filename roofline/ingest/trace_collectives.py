"""Collectives as traces record them: a name, elements in and out, the size of the group and a format."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.dtypes import dtype as find_dtype
from roofline.ingest.aten import Mapped, Unrecognised
from roofline.ingest.trace_events import Message

OPERATORS: Mapping[str, tuple[str, str]] = {
    "allreduce": ("all_reduce", "in"),
    "all_reduce": ("all_reduce", "in"),
    "allreduce_coalesced": ("all_reduce", "in"),
    "allgather": ("all_gather", "out"),
    "all_gather": ("all_gather", "out"),
    "_allgather_base": ("all_gather", "out"),
    "allgather_into_tensor_coalesced": ("all_gather", "out"),
    "_all_gather_base": ("all_gather", "out"),
    "reduce_scatter": ("reduce_scatter", "in"),
    "_reduce_scatter_base": ("reduce_scatter", "in"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", "in"),
    "alltoall": ("all_to_all", "in"),
    "alltoall_base": ("all_to_all", "in"),
    "all_to_all": ("all_to_all", "in"),
    "all_to_allv": ("all_to_all", "in"),
    "broadcast": ("broadcast", "in"),
    "send": ("send_recv", "in"),
    "recv": ("send_recv", "in"),
}
"""By the profiler's name: our operator, and which of its counts is that of the full array."""
FORMATS = {
    "Float": "fp32",
    "Double": "fp64",
    "Half": "fp16",
    "BFloat16": "bf16",
    "Byte": "int8",
    "Char": "int8",
    "Bool": "bool",
    "Int": "int32",
    "Long": "int64",
    "Float8_e4m3fn": "fp8_e4m3",
    "Float8_e5m2": "fp8_e5m2",
}
"""Formats by the names of ``at::ScalarType``."""
WORDS = ("nccl", "rccl", "all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "all_to_all", "cross_device_reduce")
"""Parts of the names of kernels that exchange data between devices."""


def is_communication(kernel: str) -> bool:
    """Whether a kernel's name says that it exchanges data between devices.

    >>> is_communication("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    True
    """
    text = kernel.lower()
    return any(word in text for word in WORDS)


def collective_of(message: Message, link: str) -> Mapped:
    """The collective of a message over ``link``.

    Raises:
        Unrecognised: a collective that we have no operator for, or one whose size, group or format was not recorded.
    """
    name = message.name.lower().removeprefix("nccl:")
    if name not in OPERATORS:
        raise Unrecognised("a collective of a sort that is not known here")
    op, side = OPERATORS[name]
    elements = message.in_elements if side == "in" else message.out_elements
    dtype = FORMATS.get(message.dtype or "")
    if elements is None or dtype is None:
        raise Unrecognised("the message's size is not recorded")
    if message.ranks is None:
        raise Unrecognised("the size of the group is not recorded")
    size = elements * find_dtype(dtype).bytes
    return Mapped(op, {"size": size, "ranks": message.ranks, "dtype": dtype, "over": link})
