"""The memory of a model for a person: the answer first, then of what it consists, then what would fit. Sizes in GB and in GiB."""

from __future__ import annotations

from roofline.report.columns import Column
from roofline.report.memory import MemoryReport
from roofline.report.memory_question import Change, Limit
from roofline.report.sentences import percent

NAMES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer states",
    "activations": "activations",
    "recomputed": "layer computed again",
    "gathered": "whole layers",
    "logits": "logits and loss",
    "kv_cache": "keys and values",
    "states": "recurrent states",
    "reserve": "reserve",
}
MOST_CHANGES = 5
"""Changes shown; JSON has all."""


def both(value: float) -> str:
    """A size in both units, each with its own number: 10.69 GB (9.957 GiB)."""
    return f"{_digits(value / 1e9)} GB ({_digits(value / 2**30)} GiB)"


def _digits(value: float) -> str:
    """Four digits, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}".rstrip(".")


def answer(found: MemoryReport) -> str:
    """The first line: whether it fits, and by how much not."""
    where = f" on {found.hardware}" if found.hardware else ""
    head = f"{found.model}, {found.phase}{where}: "
    if found.available_bytes is None:
        return f"{head}needs at least {both(found.needed_bytes)} a device."
    if found.fits:
        return f"{head}fits, {both(found.needed_bytes)} of {both(found.available_bytes)} a device."
    return (
        f"{head}DOES NOT FIT, {both(found.shortfall_bytes or 0)} short: needs {both(found.needed_bytes)} of {both(found.available_bytes)}."
    )


def table(found: MemoryReport) -> list[Column]:
    """Each part that is there, and the sum."""
    rows = [(NAMES[name], amount) for name, amount in found.parts_bytes.items() if amount] + [("total", found.needed_bytes)]
    names, amounts = zip(*rows, strict=True)
    return [
        Column("a device keeps", names, right=False),
        Column("GB", tuple(_digits(a / 1e9) for a in amounts)),
        Column("GiB", tuple(_digits(a / 2**30) for a in amounts)),
        Column("share", tuple(percent(a / found.needed_bytes) if found.needed_bytes else "-" for a in amounts), priority=1),
    ]


def lines(found: MemoryReport) -> list[str]:
    """What is said below the table."""
    said = [_stated(found)]
    if found.stages > 1:
        held = f"{found.microbatches_in_flight:.4g} microbatches in flight"
        said.append(f"The fullest stage is {found.stage} of 0 to {found.stages - 1}, with {held}.")
    if found.fits is False:
        said += _changes(found.changes)
    said += [s for s in (_limit(limit) for limit in found.largest) if s]
    return [*said, *(f"Note: {note}." for note in found.notes)]


def _stated(found: MemoryReport) -> str:
    """What was asked: plan and settings."""
    settings = ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in found.settings.items())
    return f"Plan {found.plan} on {found.devices:,} device{'s' if found.devices != 1 else ''}" + (f"; {settings}." if settings else ".")


def _changes(found: tuple[Change, ...]) -> list[str]:
    if not found:
        return ["No change of the plan, of the sizes or of up to 64 times the devices makes it fit."]
    first, *others = found
    said = [f"Smallest change that fits: {_change(first)}."]
    if others:
        said.append("Also: " + "; ".join(_change(c) for c in others[: MOST_CHANGES - 1]) + ".")
    return said


def _change(found: Change) -> str:
    return f"{found.said} ({both(found.needed_bytes)}, {found.devices:,} device{'s' if found.devices != 1 else ''})"


def _limit(found: Limit) -> str:
    if found.value is None:
        return f"No {found.setting} fits: {found.reason}." if found.reason and "fits" in found.reason else ""
    return f"Largest {found.setting} that fits: {found.value:,} ({both(found.needed_bytes or 0)})."
