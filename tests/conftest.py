"""What the tests of operators share: an H200's capacities, and the comparison of scalars with float64 arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import typer.testing

from roofline.ops.base import Machine, Op, Work, work_of

# A runner makes all commands of an app anew for each call, which is four fifths of a short one; they keep nothing of a call.
if (maker := getattr(typer.testing, "_get_command", None)) is not None:  # a private name of typer's: without it tests are slower, no more
    typer.testing._get_command = cache(maker)  # type: ignore[attr-defined]

H200 = Machine(processors=132, smem_bytes=227 * 1024, l2_bytes=50 * 2**20, matrix_dtypes=frozenset({"bf16", "fp16", "fp8", "tf32"}))


@pytest.fixture
def h200() -> Machine:
    """An H200: 132 processors, 227 KiB of shared memory each, 50 MiB of L2."""
    return H200


def _numbers(work: Work) -> dict[str, Any]:
    """All numbers of a work by name."""
    groups = {name: getattr(work, name) for name in ("counts", "compulsory", "tiled", "cached")}
    nested = {f"{name}.{f.name}": getattr(group, f.name) for name, group in groups.items() for f in fields(group)}
    links = {f"link.{name}": value for name, value in work.link_bytes.items()}
    return {**nested, **links, "useful_flop": work.useful_flop, "extra_memory_bytes": work.extra_memory_bytes}


def _everything(op: Op) -> list[dict[str, Any]]:
    """Forward, each backward operator, and what is kept between them."""
    kept = {f"saved.{t.name}": t.bytes for t in op.saved()}
    return [*(_numbers(work_of(o, H200)) for o in (op, *op.backward())), kept]


def _dims(op: Op) -> dict[str, Any]:
    return {f.name: getattr(op, f.name) for f in fields(op) if f.metadata["kind"] in ("dim", "amount")}  # type: ignore[arg-type]


def _in_arrays(op: Op) -> Op:
    return replace(op, **{k: np.array([v] * 2, dtype=np.float64) for k, v in _dims(op).items()})  # type: ignore[type-var]


@pytest.fixture
def in_arrays() -> Callable[[Op], Op]:
    """The operator with each dimension as a float64 array of two equal elements."""
    return _in_arrays


@pytest.fixture
def same_in_arrays() -> Callable[..., None]:
    """A check that dimensions as float64 arrays give the bits that they give as integers, one at a time.

    ``integers`` also asks that all counts are; bytes through a cache are not where a wave of blocks is cut.
    """

    def check(op: Op, *, integers: bool = True) -> None:
        for scale in (1, 3):
            scalars = replace(op, **{k: v * scale if v > 1 else v for k, v in _dims(op).items()})  # type: ignore[type-var]
            arrays = _in_arrays(scalars)
            assert arrays.check() == scalars.check()
            for one, many in zip(_everything(scalars), _everything(arrays), strict=True):
                assert {k: np.float64(v).tobytes() for k, v in one.items()} == {
                    k: np.broadcast_to(np.asarray(v, dtype=np.float64), (2,))[1].tobytes() for k, v in many.items()
                }
            assert not integers or all(isinstance(v, int) for work in _everything(scalars) for v in work.values())

    return check


@pytest.fixture(autouse=True)
def _no_width_of_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel test workers set COLUMNS, by which our own tables would be narrowed."""
    monkeypatch.delenv("COLUMNS", raising=False)
