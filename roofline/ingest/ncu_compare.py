"""Steps of a workload beside the counters of their kernels: which launches belong to a step, and measured over counted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roofline.errors import UsageError, did_you_mean
from roofline.hardware.profile import Hardware
from roofline.ingest.ncu_group import UNNAMED, Group, group_of
from roofline.ingest.ncu_read import Launch
from roofline.numeric import scalar
from roofline.report.counted import count
from roofline.report.counters import CountedWork
from roofline.report.model import Input, Notice
from roofline.workload.workload import Step, Workload


@dataclass(slots=True)
class Beside:
    """A workload to compare with. ``patterns`` are regular expressions on range and kernel names by step id.

    A step without a pattern takes the launches within an NVTX range of its own id. The launches of a step are those of ``executions``
    executions of it, which counters do not tell.
    """

    workload: Workload
    hardware: Hardware | None
    patterns: Mapping[str, re.Pattern[str]]
    executions: int = 1
    inputs: tuple[Input, ...] = ()
    _unmatched: list[str] = field(default_factory=list)

    def step_of(self, launch: Launch) -> str | None:
        """The step that a launch belongs to: by pattern in the order given, else by the innermost range that is a step's id."""
        names = (*reversed(launch.ranges), launch.kernel)
        for step, pattern in self.patterns.items():
            if any(pattern.search(name) for name in names):
                return step
        ids = {s.id for s in self.workload.steps if s.id not in self.patterns}
        return next((name for name in reversed(launch.ranges) if name in ids), None)

    def groups(self, launches: Sequence[Launch]) -> list[Group]:
        """Launches by step in the order of the workload, then those of no step by range or kernel."""
        of_steps: dict[str, list[Launch]] = {s.id: [] for s in self.workload.steps}
        rest: dict[str, list[Launch]] = {}
        for launch in launches:
            step = self.step_of(launch)
            if step is not None:
                of_steps[step].append(launch)
            else:
                name = launch.ranges[-1] if launch.ranges else launch.kernel or UNNAMED
                rest.setdefault(f"{name} (no step)" if name in of_steps else name, []).append(launch)
        self._unmatched = [name for name, members in of_steps.items() if not members]
        if len(self._unmatched) == len(of_steps):
            seen = sorted({name for launch in launches for name in launch.ranges}) or sorted({launch.kernel for launch in launches})
            raise UsageError(
                f"no launch belongs to a step: ranges and kernels are {', '.join(seen[:5])}{' ...' if len(seen) > 5 else ''}, steps are "
                f"{', '.join(list(of_steps)[:5])}; name NVTX ranges as the steps, or give --map STEP=REGEX"
            )
        return [group_of(name, members) for name, members in (*of_steps.items(), *rest.items()) if members]

    def _step(self, group: Group) -> Step | None:
        return next((s for s in self.workload.steps if s.id == group.id), None)

    def counted(self, group: Group) -> CountedWork | None:
        """What the step's operators count for its executions; None for launches of no step."""
        step = self._step(group)
        if step is None:
            return None
        found = count(step, self.hardware, "compulsory")
        work, n = found.work, self.executions
        passes = [p for op in found.ops for p in op.passes()]
        reads = sum(scalar(t.moved_bytes) for p in passes for t in p.reads)
        writes = sum(scalar(t.moved_bytes) for p in passes for t in p.writes)
        whole = scalar(work.compulsory.hbm)
        if reads + writes != whole:  # what a product adds to is read as well
            reads = whole - writes
        return CountedWork(
            step=step.id,
            op=step.op.name,
            executions=n,
            hbm_read_bytes=n * reads,
            hbm_write_bytes=n * writes,
            hbm_bytes=n * whole,
            cached_hbm_bytes=n * scalar(work.cached.hbm) if work.cached is not None else None,
            l2_bytes=n * scalar(work.compulsory.l2),
            tiled_l2_bytes=n * scalar(work.tiled.l2) if work.tiled is not None else None,
            flop={e: n * scalar(getattr(work.counts, e)) for e in ("tensor", "vector", "sfu")},
        )

    def why_not(self, group: Group) -> str:
        """Why launches have no counted work beside them."""
        return "its launches belong to no step of the workload"

    def warnings(self) -> list[Notice]:
        """Steps without launches."""
        if not self._unmatched:
            return []
        names = ", ".join(self._unmatched[:10]) + (" ..." if len(self._unmatched) > 10 else "")
        return [Notice(code="N004", message=f"no launch belongs to {names}: profile them within NVTX ranges of these names, or give --map")]


def patterns_of(words: Sequence[str], steps: Sequence[str]) -> dict[str, re.Pattern[str]]:
    """``STEP=REGEX`` words as patterns by step.

    Raises:
        UsageError: no such step, or no regular expression; all of them at once.
    """
    found: dict[str, re.Pattern[str]] = {}
    wrong = []
    for word in words:
        step, sign, text = word.partition("=")
        if not sign or not text:
            wrong.append(f"--map '{word}' is not STEP=REGEX")
        elif step not in steps:
            wrong.append(f"--map names no step '{step}'; {did_you_mean(step, list(steps))}")
        else:
            try:
                found[step] = re.compile(text)
            except re.error as err:
                wrong.append(f"--map '{text}' is no regular expression: {err}")
    if wrong:
        raise UsageError("\n".join(wrong))
    return found


def amplification(
    moved: Mapping[str, float | None], flop: Mapping[str, float | None], counted: CountedWork | None
) -> dict[str, float | None]:
    """Measured over counted; null where one of them is not known or nothing is counted."""
    pairs = {
        "hbm_read": (moved["hbm_read"], counted.hbm_read_bytes if counted else None),
        "hbm_write": (moved["hbm_write"], counted.hbm_write_bytes if counted else None),
        "hbm": (moved["hbm"], counted.hbm_bytes if counted else None),
        "hbm_over_cached": (moved["hbm"], counted.cached_hbm_bytes if counted else None),
        "l2": (moved["l2"], counted.l2_bytes if counted else None),
        "l2_over_tiled": (moved["l2"], counted.tiled_l2_bytes if counted else None),
        "tensor_flop": (flop["tensor"], counted.flop["tensor"] if counted else None),
        "vector_flop": (flop["vector"], counted.flop["vector"] if counted else None),
    }
    return {name: a / b if a is not None and b else None for name, (a, b) in pairs.items()}
