"""Collectives of torch.distributed on ready tensors, and the exact result that each must have.

Every function takes (op, tensors, group) and returns a callable that runs the collective once, in order with the other work of
the current stream. Checks use small whole numbers that follow from a rank and a place: their sums are exact in every format,
and a share that went astray does not look like the one that belongs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from roofline.ops.collective import Collective

Tensors = Mapping[str, torch.Tensor]
Call = Callable[..., Any]

CHUNK = 2**24
"""Elements that are checked at a time: the expected values of a large array need no second one of its size."""
LARGEST_EXACT = 127
"""Every format that is measured holds whole numbers up to this exactly."""
MOST_VALUES = 61
"""A prime, so that patterns do not repeat with the shares."""


def _named(present: str, former: str) -> Call:
    """A function of torch.distributed under its present name, or the one it had before torch 2.13."""
    found: Call = getattr(dist, present, None) or getattr(dist, former)
    return found


def all_reduce(op: Collective, tensors: Tensors, group: Any) -> Call:
    """x becomes the sum."""
    x = tensors["x"]
    return lambda: dist.all_reduce(x, group=group)


def all_gather(op: Collective, tensors: Tensors, group: Any) -> Call:
    """y from all x."""
    x, y, gather = tensors["x"], tensors["y"], _named("all_gather_single", "all_gather_into_tensor")
    return lambda: gather(y, x, group=group)


def reduce_scatter(op: Collective, tensors: Tensors, group: Any) -> Call:
    """y is a share of the sum."""
    x, y, scatter = tensors["x"], tensors["y"], _named("reduce_scatter_single", "reduce_scatter_tensor")
    return lambda: scatter(y, x, group=group)


def all_to_all(op: Collective, tensors: Tensors, group: Any) -> Call:
    """y has a share of each x."""
    x, y = tensors["x"], tensors["y"]
    return lambda: dist.all_to_all_single(y, x, group=group)


def broadcast(op: Collective, tensors: Tensors, group: Any) -> Call:
    """x becomes that of rank 0."""
    x = tensors["x"]
    return lambda: dist.broadcast(x, src=0, group=group)


def send_recv(op: Collective, tensors: Tensors, group: Any) -> Call:
    """x to the next rank, y from the one before."""
    x, y, rank, ranks = tensors["x"], tensors["y"], dist.get_rank(), int(op.ranks)
    after, before = (rank + 1) % ranks, (rank - 1) % ranks

    def call() -> None:
        pair = [dist.P2POp(dist.isend, x, after, group), dist.P2POp(dist.irecv, y, before, group)]
        for work in dist.batch_isend_irecv(pair):
            work.wait()

    return call


CALLS: Mapping[str, Callable[[Collective, Tensors, Any], Call]] = {
    "all_reduce": all_reduce,
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "all_to_all": all_to_all,
    "broadcast": broadcast,
    "send_recv": send_recv,
}


# --------------------------------------------------------------------------- exact values
def pattern(op: Collective, rank: int, places: torch.Tensor) -> torch.Tensor:
    """What ``rank`` has at these places of its input."""
    summed = op.name in ("all_reduce", "reduce_scatter")
    values = min(MOST_VALUES, max(2, LARGEST_EXACT // int(op.ranks) + 1)) if summed else MOST_VALUES
    return (places + 7 * rank) % values


def expected(op: Collective, rank: int, places: torch.Tensor) -> torch.Tensor:
    """What ``rank`` must have at these places of its output."""
    ranks, share = int(op.ranks), max(1, int(op.elements()) // int(op.ranks))
    if op.name == "all_gather":
        return _by_rank(op, places // share, places % share)
    if op.name == "all_to_all":
        return _by_rank(op, places // share, rank * share + places % share)
    if op.name == "broadcast":
        return pattern(op, 0, places)
    if op.name == "send_recv":
        return pattern(op, (rank - 1) % ranks, places)
    begin = rank * share if op.name == "reduce_scatter" else 0
    found = pattern(op, 0, places + begin)
    for other in range(1, ranks):
        found += pattern(op, other, places + begin)
    return found


def _by_rank(op: Collective, rank: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """`pattern` with a rank for each place."""
    return (places + 7 * rank) % MOST_VALUES


def fill(op: Collective, tensors: Tensors, rank: int) -> None:
    """The rank's pattern into its input, and what no collective gives into its output."""
    for places, part in _parts(tensors["x"]):
        part.copy_(pattern(op, rank, places))
    if "y" in tensors:
        tensors["y"].fill_(LARGEST_EXACT)


def wrong(op: Collective, tensors: Tensors, rank: int) -> float:
    """Share of the elements of the output that are not what they must be, after one call on what `fill` wrote."""
    out = tensors.get("y", tensors["x"])
    exact = int(op.ranks) <= LARGEST_EXACT
    found = 0
    for places, part in _parts(out):
        should = expected(op, rank, places).to(part.dtype)
        same = part == should if exact else torch.isclose(part.double(), should.double(), rtol=0.01)
        found += int((~same).sum())
    return found / max(1, out.numel())


def _parts(tensor: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for begin in range(0, tensor.numel(), CHUNK):
        part = tensor[begin : begin + CHUNK]
        yield torch.arange(begin, begin + part.numel(), device=tensor.device), part


def buffers(op: Collective, device: str) -> dict[str, torch.Tensor]:
    """The operator's tensors, not filled.

    Raises:
        torch.OutOfMemoryError: they do not fit.
    """
    from roofline.measure.allocate import torch_dtype

    return {t.name: torch.empty(int(t.elements), dtype=torch_dtype(t.dtype), device=device) for t in op.tensors()}


def fill_for_timing(op: Collective, tensors: Tensors, rank: int) -> str:
    """What is moved while the clock runs, and its name: zeros where sums would grow from call to call until they overflow."""
    x = tensors["x"]
    if op.name == "all_reduce":
        x.zero_()
        return "zeros"
    generator = torch.Generator(device=x.device).manual_seed(rank)
    if x.is_floating_point():
        x.normal_(generator=generator)
        return "normal"
    x.random_(-100, 100, generator=generator)
    return "uniform"
