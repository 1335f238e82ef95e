"""One rank of a test: ``roofline`` on its own arguments, with a fault put into one of the ranks."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from roofline.cli.app import run
from roofline.measure import collectives, cpu, ranks

RANK = int(os.environ.get("RANK", "0"))
FAULT, _, FAULTY = os.environ.get("FAULT", "").partition("@")


def impatient(choice: str, lock: bool, prepare: Any, patience_s: float) -> ranks.Ranks:
    """As a rank of the tests, which cannot wait for minutes."""
    return ranks.join(choice, lock, prepare, float(os.environ.get("PATIENCE_S", "60")))


def die_at_the_second_size() -> None:
    """Without a word, as a process that was killed."""
    measured, seen = collectives._measured, []

    def call(*arguments: Any) -> Any:
        seen.append(arguments)
        if len(seen) == 2:
            os._exit(9)
        return measured(*arguments)

    collectives._measured = call  # type: ignore[assignment]


def be_another_device() -> None:
    """By name."""
    describe = cpu.describe
    cpu.describe = lambda: replace(describe(), name="Another CPU")  # type: ignore[assignment]


def lack_memory() -> None:
    """For every array from 16 KiB on."""
    from roofline.measure.kernels import collective

    buffers = collective.buffers

    def call(op: Any, device: str) -> Any:
        if op.size >= 2**14:
            raise MemoryError("no room")
        return buffers(op, device)

    collective.buffers = call  # type: ignore[assignment]


def lose_a_share() -> None:
    """The collective leaves its output as it was."""
    from roofline.measure.kernels import collective

    collective.CALLS = {name: lambda op, tensors, group: lambda: None for name in collective.CALLS}  # type: ignore[assignment]


FAULTS = {
    "dies": die_at_the_second_size,
    "differs": be_another_device,
    "small": lack_memory,
    "wrong": lose_a_share,
}

if __name__ == "__main__":
    collectives.LARGEST = dict.fromkeys(("cpu", "cuda"), 2**14)
    collectives.join = impatient  # type: ignore[assignment]
    if FAULT and FAULTY in ("", str(RANK)):
        FAULTS[FAULT]()
    sys.argv[0] = "roofline"
    run()
