"""Which input sets a runner really went through, seen by their outputs: each is spoilt, the runner runs once, and is it whole?

Only a few values of an output are spoilt and looked at, since it may fill the device. An output that is also an input, such as
the weights of an optimizer, must not be spoilt; a set with no other output is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from roofline.measure.allocate import spoil
from roofline.measure.base import Runner

LOOKED_AT = 16
"""Values of an output, from its beginning, that are spoilt."""

Tensors = Mapping[str, torch.Tensor]


def touched_sets(runner: Runner, sets: Sequence[Tensors], written: Sequence[str]) -> int | None:
    """How many of the sets one `Runner.time` went through, each into memory of its own; None where the runner shows no results, or
    is a scripted one that computes none.

    ``written`` names the tensors of a set that a kernel only writes. Runs once.
    """
    if len(getattr(runner, "results", ())) != len(sets) or not getattr(runner, "executes", True):
        return None
    kept = [_storages(tensors, written) for tensors in sets]
    blind = 0
    for storages, result in zip(kept, runner.results, strict=True):  # type: ignore[attr-defined]
        pieces = list(_pieces(result, storages))
        blind += not pieces
        for piece in pieces:
            spoil(piece)
    runner.time()
    found = zip(kept, runner.results, strict=True)  # type: ignore[attr-defined]
    whole = {piece.data_ptr() for storages, result in found for piece in list(_pieces(result, storages))[:1] if not _spoilt(piece)}
    return len(whole) + blind


def _storages(tensors: Tensors, written: Sequence[str]) -> set[int]:
    """Where the values lie that must stay."""
    return {t.untyped_storage().data_ptr() for name, t in tensors.items() if name not in written}


def _pieces(result: Any, kept: set[int]) -> Iterator[torch.Tensor]:
    """The beginning of each output that may be spoilt."""
    if isinstance(result, (tuple, list)):
        for each in result:
            yield from _pieces(each, kept)
    elif _may_be_spoilt(result, kept):
        yield result.data[(0,) * (result.dim() - 1)][:LOOKED_AT] if result.dim() else result.data


def _may_be_spoilt(result: Any, kept: set[int]) -> bool:
    """No input, and no boolean: a mask may well be true throughout."""
    known = isinstance(result, torch.Tensor) and result.numel() and result.dtype is not torch.bool
    return bool(known) and result.untyped_storage().data_ptr() not in kept


def _spoilt(piece: torch.Tensor) -> bool:
    """Whether it still holds nothing but what `spoil` wrote."""
    untouched = torch.isnan(piece.float()) if piece.is_floating_point() else piece == torch.iinfo(piece.dtype).max
    return bool(untouched.all())
