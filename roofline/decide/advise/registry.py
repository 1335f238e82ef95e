"""All sorts of changes. A new one is one function `Rule` in one file and one line here."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.decide.advise import attention, attention_parts, batch, device, execution, formats, fusion, links, logits, padding, recompute
from roofline.decide.advise.situation import Change, Rule, Situation

RULES: tuple[Rule, ...] = (
    attention.flash,
    attention_parts.flash_of_parts,
    execution.executions,
    fusion.residual_norms,
    fusion.elementwise_chains,
    fusion.one_kernel_each,
    fusion.activations,
    fusion.losses,
    logits.last_position,
    batch.larger_batch,
    formats.weights,
    formats.caches,
    formats.products,
    formats.halves,
    padding.padded,
    recompute.recompute,
    links.faster_links,
    links.overlapped,
    device.devices,
)
"""Changes that keep results come before those that do not: of equally good ones the first is advised."""


def changes(now: Situation) -> Iterator[Change]:
    """Every change that applies, in the order of the rules."""
    for rule in RULES:
        yield from rule(now)
