"""Tokens beyond the positions that a model has learnt: its table of them has no row for more, so that it runs no such step.

Positions that are rotated, or a bias of scores, go on for ever, however well the model does there: of those nothing is said.
"""

from __future__ import annotations

from roofline.models.description import Model
from roofline.numeric import scalar
from roofline.plan.job import Job

BEYOND = "W024"
"""Code of the warning."""


def learnt(model: Model) -> int:
    """Tokens that the table of positions has rows for, less those that OPT and its like keep for padding; 0 where there is no table."""
    return min(model.positions, model.context or model.positions) if model.positions and not model.image[0] else 0


def beyond(model: Model, job: Job) -> tuple[str, ...]:
    """What is said of a prompt, a context or a source that is longer than the positions learnt for it; nothing of others."""
    source = learnt(model.encoder.model) if model.encoder else 0
    sizes = (
        ("seq", scalar(job.seq), learnt(model)),
        ("context", scalar(job.context), learnt(model)),
        ("source", scalar(job.source), source),
    )
    return tuple(
        f"{name} {size:g} goes beyond the {most} positions that {model.name} has learnt: it has none for the tokens behind them"
        for name, size, most in sizes
        if most and size > most
    )
