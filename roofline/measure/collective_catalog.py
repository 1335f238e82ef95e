"""The collectives that can be measured, as data. They run between processes, so that `roofline.measure.run` has no part in them."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.errors import UsageError
from roofline.measure.spec import KernelSpec

DTYPES = ("bf16", "fp16", "fp32", "fp64", "int32", "int64", "int8")
NEEDS = ("torchrun",)
TITLES = {
    "all_reduce": "torch.distributed.all_reduce, a sum in place",
    "all_gather": "all_gather of torch.distributed, into one tensor",
    "reduce_scatter": "reduce_scatter of torch.distributed, a sum from one tensor",
    "all_to_all": "torch.distributed.all_to_all_single",
    "broadcast": "torch.distributed.broadcast from rank 0",
    "send_recv": "torch.distributed.batch_isend_irecv, to the next rank and from the one before",
}

COLLECTIVES: dict[str, KernelSpec] = {
    name: KernelSpec(name=name, op=name, title=title, build=f"roofline.measure.kernels.collective:{name}", needs=NEEDS, dtypes=DTYPES)
    for name, title in TITLES.items()
}
"""By the name that users type, which is the operator's."""


def command(names: Sequence[str], ranks: int = 2) -> str:
    """How they are measured."""
    kernels = " ".join(f"--kernel {name}" for name in names)
    return f"torchrun --nproc-per-node {ranks} -m roofline measure {kernels}"


def require_only_collectives(names: Sequence[str]) -> None:
    """Kernels that run in one process and collectives cannot be measured together.

    Raises:
        UsageError: both are named.
    """
    found = [name for name in names if name in COLLECTIVES]
    rest = [name for name in names if name not in COLLECTIVES]
    if found and rest:
        raise UsageError(f"{', '.join(found)}: measured between processes; measure {', '.join(rest)} by another command")
