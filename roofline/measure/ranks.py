"""The processes that torchrun started, as ranks that agree: on what each is, on errors, on times.

Words and times go over a gloo group between the hosts' processors, whatever carries the data. So ranks can tell each other what is
wrong before NCCL, which only waits, is asked for anything; what one rank cannot do, all know and all stop. A rank that died is
noticed by its closed connection, or at the latest after ``patience_s``.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from roofline.errors import InputError, MeasurementInvalidError, MissingCapabilityError, RooflineError, UsageError
from roofline.measure.base import Device

PATIENCE_S = 120.0
"""How long a rank is waited for. NCCL on eight GPUs takes some ten seconds to connect."""
SET_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")

_T = TypeVar("_T")


class RankFailedError(MeasurementInvalidError):
    """Another rank is gone or does not answer: nothing can be agreed upon any more."""


@dataclass(kw_only=True)
class Ranks:
    """This process among the others. ``group`` carries the data, with the library ``backend``; ``holds`` is let go at the end."""

    rank: int
    count: int
    device: Device
    group: Any
    backend: str
    patience_s: float
    holds: ExitStack = field(default_factory=ExitStack)

    @property
    def first(self) -> bool:
        """Whether this is the rank that speaks."""
        return self.rank == 0

    def all_of(self, mine: _T) -> list[_T]:
        """What every rank has to say, in their order."""
        return gathered(mine, self.count)

    def together(self, what: Callable[[], _T]) -> _T:
        """Do something that may fail on one rank only; then all fail with the words of the first that did.

        Nothing that waits for other ranks may be in it.
        """
        return agreed(what, self.count)

    def meet(self) -> None:
        """Wait until all are here."""
        import torch.distributed as dist

        with others():
            dist.barrier()

    def slowest(self, times: Sequence[float]) -> list[float]:
        """Of each time the longest of any rank."""
        return [max(each) for each in zip(*self.all_of(list(times)), strict=True)]

    def leave(self) -> None:
        """Part in good order; only where all ranks do."""
        import torch.distributed as dist

        self.holds.close()
        with others():
            dist.barrier()
            dist.destroy_process_group()


def dissolve() -> None:
    """Let the groups go on this rank alone, where all ranks have agreed that there is nothing to do: threads of gloo that still run when
    the interpreter ends take the process down with them."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        with others():
            dist.destroy_process_group()


def rank_of(environment: Mapping[str, str] | None = None) -> int:
    """This process's rank, 0 where it is alone."""
    text = (os.environ if environment is None else environment).get("RANK", "0")
    return int(text) if text.isdigit() else 0


def launched(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Rank, number of ranks and rank on this host, as torchrun set them.

    Raises:
        MissingCapabilityError: it did not start this process.
        UsageError: what it set makes no sense.
    """
    lacking = [name for name in SET_BY_TORCHRUN if name not in environment]
    if lacking:
        raise MissingCapabilityError(f"collectives run between processes that torchrun starts ({', '.join(lacking)} not set)")
    texts = [environment[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]
    if not all(t.isdigit() for t in texts):
        raise UsageError(f"RANK, WORLD_SIZE and LOCAL_RANK are {', '.join(texts)}: not those of torchrun")
    rank, count, local = (int(t) for t in texts)
    if not rank < count:
        raise UsageError(f"RANK {rank} does not lie below WORLD_SIZE {count}")
    if count < 2:
        raise UsageError("a single rank has nobody to exchange with; start at least two")
    return rank, count, local


# --------------------------------------------------------------------------- agreeing
@contextmanager
def others() -> Iterator[None]:
    """Turn what torch raises when another rank is gone into words."""
    try:
        yield
    except RuntimeError as err:  # all errors of torch.distributed are
        raise RankFailedError(f"another rank failed or did not answer: {(str(err).strip() or type(err).__name__).splitlines()[0]}") from err


def gathered(mine: _T, count: int) -> list[_T]:
    """What every rank has to say, over the default group."""
    import torch.distributed as dist

    found: list[Any] = [None] * count
    with others():
        dist.all_gather_object(found, mine)
    return found


def agreed(what: Callable[[], _T], count: int) -> _T:
    """This rank's result where none failed; the error of the first rank that did, on all of them, where one did."""
    result: Any = None
    error: RooflineError | None = None
    try:
        result = what()
    except RooflineError as err:
        error = err
    errors = gathered(None if error is None else (type(error), str(error)), count)
    failed = [(rank, said) for rank, said in enumerate(errors) if said is not None]
    if not failed:
        return result  # type: ignore[no-any-return]
    rank, (kind, text) = failed[0]
    if error is not None and len(failed) == count and len({said for _, said in failed}) == 1:
        raise error
    raise (UsageError if issubclass(kind, InputError) else kind)(f"rank {rank}: {text}")


# --------------------------------------------------------------------------- joining
def join(choice: str, lock: bool, prepare: Callable[[Device], None], patience_s: float = PATIENCE_S) -> Ranks:
    """This process as a rank, on the device of its place on the host. ``prepare`` is what else may fail before the start.

    Raises:
        MissingCapabilityError: torchrun did not start it, or a rank lacks its device.
        UsageError: the ranks have different devices, or the choice of device does not fit several ranks.
    """
    rank, count, local = launched(os.environ)
    dist = _distributed()
    with others():
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=patience_s))
    holds = ExitStack()

    def opened() -> Device:
        device = _device(choice, local)
        if lock:
            _hold(holds, device, local)
        prepare(device)
        return device

    device = agreed(opened, count)
    _same(gathered((device.info.kind, device.info.name, str(device.info.facts.get("torch"))), count))
    group, backend = _carrier(dist, device, patience_s)
    return Ranks(rank=rank, count=count, device=device, group=group, backend=backend, patience_s=patience_s, holds=holds)


def _distributed() -> Any:
    from roofline.measure.device import need_torch

    need_torch()
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        raise MissingCapabilityError("this torch is built without torch.distributed or without gloo")
    return dist


def _device(choice: str, local: int) -> Device:
    """The CPU for all, or the GPU of this rank's number on the host."""
    from roofline.measure.device import open_device

    if choice.startswith("cuda:"):
        raise UsageError(f"--device {choice}: with several ranks each takes the GPU of its own number; give --device cuda")
    return open_device("cpu" if choice == "cpu" else f"cuda:{local}")


def _hold(holds: ExitStack, device: Device, local: int) -> None:
    """Keep other measurements off this rank's GPU; the CPU is one for all ranks of a host."""
    from roofline.measure.lock import device_lock

    if device.info.kind != "cpu" or local == 0:
        holds.enter_context(device_lock(device.info.uuid))


def _same(found: Sequence[tuple[str, str, str]]) -> None:
    """One time for ranks on different devices says nothing of either."""
    if len(set(found)) > 1:
        said = "; ".join(f"rank {i}: {name} ({kind}, torch {torch})" for i, (kind, name, torch) in enumerate(found))
        raise UsageError(f"the ranks differ in their device or torch: {said}")


def _carrier(dist: Any, device: Device, patience_s: float) -> tuple[Any, str]:
    """The group for data and its library."""
    if device.info.kind == "cpu":
        return None, "gloo"
    import torch

    if not dist.is_nccl_available():
        raise MissingCapabilityError("this torch is built without NCCL")
    group = dist.new_group(backend="nccl", timeout=datetime.timedelta(seconds=patience_s))
    version = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    return group, f"nccl {'.'.join(str(part) for part in version) if isinstance(version, tuple) else version}"


def finished(query: Callable[[], bool], patience_s: float) -> None:
    """Wait for the device without waiting for ever: a collective whose other side is gone never ends.

    Raises:
        RankFailedError: it did not end in time.
    """
    until = time.monotonic() + patience_s
    while not query():
        if time.monotonic() > until:
            raise RankFailedError(f"a collective did not end within {patience_s:g} s: a rank is gone, or the link is")
        time.sleep(5e-5)
