"""A module of torch as a workload: run without contents, recognised, merged, written, and checked against torch's own counter."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.errors import UsageError
from roofline.ingest.aten import Scalar, base_name
from roofline.ingest.module_capture import capture
from roofline.ingest.module_check import Check, check
from roofline.ingest.module_load import Loaded, load
from roofline.ingest.module_steps import Draft, ids, merged, recognised
from roofline.models.write import file_text
from roofline.units import Dimension, format_quantity


@dataclass(frozen=True, slots=True)
class Unknown:
    """An operator that was not recognised: how often it ran, why, and its share of torch's count of FLOP (None where torch has none)."""

    name: str
    count: int
    why: str
    share: float | None


@dataclass(frozen=True, slots=True)
class Ingested:
    """The workload's text, what is missing from it, and the comparison with torch's counter (or why there is none)."""

    text: str
    steps: int
    operators: int
    unknown: tuple[Unknown, ...]
    check: Check | None
    no_check: str = ""


def ingest_module(target: str, inputs: Sequence[str] = (), *, backward: bool = False, meta: bool = False) -> Ingested:
    """The workload of ``package:function``.

    Raises:
        UsageError: the user's code raised something or is not what the contract asks for, or nothing of it was recognised.
        MissingCapabilityError: torch is not installed.
    """
    loaded = load(target, inputs, meta=meta)
    noted = capture(loaded, backward=backward)
    found = recognised(noted)
    if not found.drafts:
        raise UsageError(
            f"{target}: none of the {len(noted.calls)} operators that ran does work that is known here: {_listed(found.unknown)}"
        )
    drafts = merged(found.drafts)
    compared, why, shares = _compared(loaded, backward, drafts, found.unknown)
    missing = tuple(Unknown(name, count, said, shares.get(name)) for name, (count, said) in sorted(found.unknown.items()))
    comments = [f"Written by 'roofline ingest module' from {target}{', forward and backward' if backward else ''}."]
    comments += [f"Not recognised and not in these steps: {u.name} ({u.count} times): {u.why}." for u in missing]
    return Ingested(_text(target, drafts, comments), len(drafts), len(found.drafts), missing, compared, why)


def _listed(unknown: Mapping[str, tuple[int, str]]) -> str:
    return ", ".join(f"{name} ({why})" for name, (_, why) in sorted(unknown.items())) or "views only"


def _compared(
    loaded: Loaded, backward: bool, drafts: Sequence[Draft], unknown: Mapping[str, tuple[int, str]]
) -> tuple[Check | None, str, dict[str, float]]:
    """The check, or why torch's counter could not run, and the share of its FLOP by operator."""
    try:
        counted = capture(loaded, backward=backward, whole=False, count=True)
    except UsageError as err:
        return None, str(err).splitlines()[0], {}
    total = sum(counted.torch_flop.values())
    shares = {base_name(name): flop / total for name, flop in counted.torch_flop.items() if total}
    return check(drafts, counted, unknown), "", shares


# --------------------------------------------------------------------------- writing
def _text(target: str, drafts: Sequence[Draft], comments: Sequence[str]) -> str:
    formats = Counter(str(d.mapped.fields["dtype"]) for d in drafts for _ in range(d.repeat) if "dtype" in d.mapped.fields)
    usual = max(formats, key=lambda f: (formats[f], f)) if formats else "fp32"
    names = ids(drafts)
    steps = [_step(draft, name, names, usual) for draft, name in zip(drafts, names, strict=True)]
    return file_text(target, {"dtype": usual, "execution": "eager"}, steps, comments)


def _step(draft: Draft, name: str, names: Sequence[str], usual: str) -> dict[str, Any]:
    """A step as keys of a workload file."""
    units = {f.name: f.metadata.get("unit") for f in dataclasses.fields(draft.mapped.build())}  # type: ignore[arg-type]
    fields = {key: _value(value, units.get(key)) for key, value in draft.mapped.fields.items() if (key, value) != ("dtype", usual)}
    found: dict[str, Any] = {"id": name, "op": draft.mapped.op, **fields}
    if draft.repeat > 1:
        found["repeat"] = draft.repeat
    if draft.mapped.direction != "forward":
        found["pass"] = draft.mapped.direction
    if draft.tied is not None:
        found["tied_to"] = names[draft.tied]
    return found


def _value(value: Scalar, unit: str | None) -> Scalar:
    return f"{value} {unit}" if unit and not isinstance(value, str) else value


# --------------------------------------------------------------------------- saying
def lines(found: Ingested) -> list[str]:
    """What is said on stderr: how much was recognised, what was not, and how the FLOP compare."""
    said = [f"{found.operators} operators in {found.steps} steps"]
    for u in found.unknown:
        share = "torch counts no FLOP for it" if u.share is None else f"{100 * u.share:.3g} % of the FLOP that torch counts"
        said.append(f"not recognised: {u.name}, {u.count} times ({u.why}); {share}")
    if found.check is None:
        return [*said, f"torch's FLOP counter could not run: {found.no_check}"]
    c = found.check
    said.append(
        f"matrix FLOP: {_flop(c.ours)} here, {_flop(c.torch)} by torch.utils.flop_counter"
        + ("" if c.reasons or c.unexplained else ", the same")
    )
    for r in c.reasons:
        said.append(f"  torch has {_flop(abs(r.flop))} {'more' if r.flop > 0 else 'less'}: {r.why}")
    if abs(c.unexplained) > 1e-9 * max(c.ours, c.torch):
        more = "more" if c.unexplained > 0 else "less"
        said.append(f"  torch has {_flop(abs(c.unexplained))} {more} that nothing explains: one of both counts is wrong")
    if c.vector:
        said.append(f"  FLOP of element-wise work are counted here ({_flop(c.vector)}, vector lanes) and not in torch")
    return said


def _flop(value: float) -> str:
    return format_quantity(value, Dimension.FLOP)
