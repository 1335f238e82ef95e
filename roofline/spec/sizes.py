"""Jobs in words: a phase and sizes such as ``batch=64``, read like values of a file, problems at their column, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roofline.dtypes import cache_dtype, dtype
from roofline.errors import InputError, Problem, UsageError, did_you_mean
from roofline.models.memory_states import optimizer_of
from roofline.numeric import scalar
from roofline.plan.job import OPTIMIZER, OPTIONAL, SIZES, Job
from roofline.spec.scalars import as_int
from roofline.spec.source import Mark, Scalar, Source

MOST = 2**40
"""Largest size: what stays exact in every product of a few of them."""
SAME = {
    "batch": (("batch", "global_batch", "decode_batch"), "sequences"),
    "chunk": (("chunk", "global_chunk"), "prompt tokens"),
}
"""Sizes of a step on all devices together: the names that each has, the first of which is a job's, and what it counts."""
ENCODE = (
    "a plan and its memory are of layers of text, and a tower runs by itself: 'roofline import hf CONFIG --phase encode --plan PLAN' "
    "writes the steps of a rank, whose time and memory 'roofline analyze' has"
)
"""Why nothing is planned of an encoder alone, and what answers in its place."""
FORMATS = ("weight_dtype", "kv_dtype", "gradient_dtype", "dispatch_dtype")


class NamedTwice(UsageError):
    """Two names of one size at once; ``name`` is the second of them, which is one too many."""

    def __init__(self, size: str, first: str, second: str) -> None:
        super().__init__(twice(size, first, second))
        self.name = second


def read_job(
    phase: str,
    words: Iterable[str],
    *,
    where: str = "--set",
    phases: Sequence[str] = tuple(SIZES),
    usual: Mapping[str, int] | None = None,
    **choices: Any,
) -> Job:
    """The job of a phase with these sizes, and ``usual`` ones for those not given; ``choices`` are other fields of the job.

    ``where`` is the option, or the argument of the library, that holds the words.

    Raises:
        UsageError: a phase that is not among ``phases``, an unknown format or optimizer, or sizes that are missing.
        InputError: sizes that cannot be, as `read_sizes`.

    >>> read_job("decode", ["global_batch=64", "context=8192"]).batch
    64
    """
    if phase == "encode":
        raise UsageError(f"phase encode: {ENCODE}")
    if phase not in phases:
        raise UsageError(f"unknown phase '{phase}'; {did_you_mean(phase, phases)}" if phase else f"which phase? add --phase {phases[0]}")
    for name in FORMATS:
        if choices.get(name) is not None:
            (cache_dtype if name == "kv_dtype" else dtype)(choices[name])
    optimizer_of(choices.get("optimizer", OPTIMIZER))
    found: dict[str, Any] = {**(usual or {}), **read_sizes(words, phase, where)}
    missing = [name for name in SIZES[phase] if name not in found]
    if missing:
        raise UsageError(f"a {phase} step needs {', '.join(missing)}: add {' '.join(f'{where} {name}=...' for name in missing)}")
    return Job(phase=phase, **found, **choices)


def job_words(job: Job, attention: str = "flash") -> tuple[str, ...]:
    """The options with which `roofline memory` asks for a job, other than of what is taken unless said.

    What only workload files say has no option: guessed tokens, modules of the model's own for them, the targets of adapters. What a step
    sends to its experts in another format is not kept.

    >>> " ".join(job_words(Job(phase="mixed", batch=64, context=4096, chunk=512, cached=128, kv_dtype="fp8")))
    '--phase mixed --set batch=64 --set context=4096 --set chunk=512 --set cached=128 --kv-dtype fp8'
    """
    names = ("weight_dtype", "kv_dtype", "gradient_dtype", "page")
    said = {f"--{name.replace('_', '-')}": getattr(job, name) for name in names}
    said |= {"--optimizer": "" if job.optimizer == OPTIMIZER else job.optimizer, "--lora": job.lora_rank}
    said["--attention"] = "" if attention == "flash" else attention
    sizes = [word for name, size in job.sizes.items() for word in ("--set", f"{name}={scalar(size):.0f}")]
    return ("--phase", job.phase, *sizes, *(word for option, value in said.items() if value for word in (option, str(value))))


def read_sizes(words: Iterable[str], phase: str, where: str = "--set") -> dict[str, int]:
    """Whole numbers from 1 by their names in a `Job`, a cached prefix from 0.

    Raises:
        InputError: a name that a step of the phase does not have, two names of one size, a number that is not whole or out of range, a
            prefix that leaves nothing to compute; all of them.

    >>> read_sizes(["batch=64", "context=8192"], "decode")
    {'batch': 64, 'context': 8192}
    """
    found: dict[str, int] = {}
    said: dict[str, tuple[str, Source, Mark]] = {}
    wrong: list[Problem] = []
    known = [*SIZES[phase], *OPTIONAL.get(phase, ())]
    others = {name: size for size in SAME if size in known for name in names_of(size, phase)}
    for word in words:
        written, equals, text = word.partition("=")
        source, mark, name = Source(where, word), Mark(1, len(written) + 2), others.get(written, written)
        if not equals or name not in known:
            given = f"'{written}' is no size of a {phase} step; {did_you_mean(written, known)}"
            wrong.append(source.problem(Mark(1, 1), given if equals else "write name=number, such as batch=8"))
            continue
        if name in said and said[name][0] != written:
            wrong.append(source.problem(Mark(1, 1), twice(name, said[name][0], written)))
            continue
        said[name] = (written, source, mark)
        try:
            found[name] = _size(Scalar(source, mark, text.strip(), False), 0 if name == "cached" else 1)
        except ValueError as error:
            wrong.append(source.problem(mark, f"{written}: {error}"))
    if phase == "prefill" and found.get("cached", 0) >= found.get("seq", MOST + 1):
        _, source, mark = said["cached"]
        wrong.append(source.problem(mark, nothing_left(found["cached"], found["seq"])))
    if wrong:
        raise InputError(wrong)
    return found


def names_of(size: str, phase: str) -> tuple[str, ...]:
    """The names of a size of all devices in a phase: ``decode_batch`` are the sequences beside the chunk of a mixed step alone."""
    return tuple(name for name in SAME[size][0] if name != "decode_batch" or phase == "mixed")


def twice(size: str, first: str, second: str) -> str:
    """Why two names of one size cannot stand beside each other."""
    return f"'{first}' and '{second}' are one size, the {SAME[size][1]} of a step on all devices together: give one of them"


def nothing_left(cached: int, seq: int) -> str:
    """Why a cached prefix is too long."""
    return f"cached: {cached} leaves no token of a prompt of {seq} to compute; it is at most {seq - 1}"


def _size(node: Scalar, least: int) -> int:
    value = as_int(node)
    if not least <= value <= MOST:
        raise ValueError(f"{value} is out of range; write a whole number from {least} to 2**40")
    return value
