"""What to do: `advise` and `sweep` on workloads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roofline.errors import UsageError
from roofline.hardware.profile import Hardware
from roofline.library.files import Path, hardware_of, needed, workload_of
from roofline.report.model import Input
from roofline.spec.words import Overrides, words

if TYPE_CHECKING:
    from roofline.report.advice import AdviceReport
    from roofline.report.sweep import SweepReport


def advise(
    workload: Path,
    hardware: Hardware | Path | None = None,
    *,
    overrides: Overrides = (),
    also: Sequence[Hardware | Path] = (),
    by: str = "auto",
    least: float = 1.02,
    allow: str = "approximate",
    top: int = 10,
) -> AdviceReport:
    """Changes that would help, each analysed again: its gain where it is made, end to end, and what binds afterwards.

    ``also`` are other devices to consider; ``by`` ranks by estimate or bound (auto: by estimate where every step has one); ``least``
    is the smallest gain advised; ``allow`` the most that results may suffer: exact, rounding, approximate, 'changes the model'.

    Raises:
        UsageError: no device, a word that is not known, or ``by='estimate'`` where there is none.
        InputError: all problems in the files, each with its place.

    >>> found = advise("gpt2_medium", "h200-sxm", top=1)
    >>> found.advice[0].title
    'flash attention instead of materialised scores'
    """
    from roofline.decide.advise.advise import Asked
    from roofline.decide.advise.advise import advise as of
    from roofline.decide.advise.workload_source import of_workload

    asked = Asked(by=by, least=least, top=top, allow=allow)
    asked.check()
    read, named = workload_of(workload, overrides)
    device, of_device = hardware_of(needed(read, hardware))
    others = tuple(hardware_of(h)[0] for h in also)
    now, measured = of_workload(os.fspath(workload), words(overrides), read, device, others)
    return of(now, asked, measured=measured, source="workload", inputs=(named, of_device))


def sweep(
    workload: Path,
    hardware: Path | None = None,
    *,
    over: Mapping[str, str | Sequence[int | float | str]],
    overrides: Overrides = (),
    step: str | None = None,
    tokens: str | None = None,
) -> SweepReport:
    """Bound, estimate and memory at every combination of values, and at which value the limiter changes.

    ``over`` has the values by key: a sequence, or a range such as ``"1..512:x2"``. ``step`` is followed as well; ``tokens`` is an
    expression over params for the tokens of one execution.

    Raises:
        UsageError: no axis, no device, or no such step.
        InputError: all problems in the workload or in a value.

    >>> found = sweep("qwen3_8b_decode", over={"batch": [1, 64]}, tokens="batch")
    >>> [point.params["batch"] for point in found.points]
    [1, 64]
    """
    from roofline.decide.sweep import Asked, devices, first_of
    from roofline.decide.sweep import sweep as of
    from roofline.decide.sweep_report import report_of
    from roofline.spec.axes import read_axes
    from roofline.spec.find import find_workload
    from roofline.spec.source import read_source

    if not over:
        raise UsageError("a sweep varies something: over={'batch': [1, 8, 64]} or over={'batch': '1..512:x2'}")
    varied = [f"{key}={v if isinstance(v, str) else ','.join(map(str, v))}" for key, v in over.items()]
    fixed, axes = read_axes([*words(overrides), *varied])
    source = read_source(str(find_workload(os.fspath(workload))))
    device = None if hardware is None else os.fspath(hardware)
    asked = Asked(source=source, overrides=tuple(fixed), axes=tuple(axes), hardware=device, step=step, tokens=tokens)
    first, grid, profiles = first_of(asked), of(asked), devices(asked)
    inputs = [Input(role="workload", path=source.path, sha256=first.sha256)]
    inputs += [Input.of_text("hardware", n, t) for n, t in profiles.items()]
    return report_of(asked, grid, first.name, tuple(profiles), tuple(inputs))
