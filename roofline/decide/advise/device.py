"""The same work on another device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.decide.advise.situation import EXACT, Change, Situation


def devices(now: Situation) -> Iterator[Change]:
    """Each other device that was named; never a step of a path, since what follows would be advice for another machine."""
    for other in now.others:
        if other.name != now.hardware.name:
            yield Change(
                key=f"on-{other.name}",
                rule="device",
                title=f"on {other.name}",
                exactness=EXACT,
                result=replace(now, hardware=other),
                conditions=("the kernels are as good there as the profile says",),
                check=tuple(f"{c} -H {other.name}" for c in (now.command(now),) if c),
                combines=False,
            )
