"""Which rows are fitted, which choose between models, and which are only reported: by what a row measures, and nothing else.

The part of a row follows from a hash of its operator and fields, so that it is the same in every run, in whatever order or file
the row stands, and on every device: a shape that was fitted on one is never reported as unseen on another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from roofline.fit.tables import Row

SHARES = {"fit": 0.6, "select": 0.2, "report": 0.2}
"""Parts and how many of the rows they get."""
FIT = "fit"


PARTS = (FIT, "held-out")
"""What a command may be asked for: the rows that are fitted, or all others."""


def part_of(row: Row) -> str:
    """``fit``, ``select`` or ``report``."""
    said = " ".join(f"{name}={value}" for name, value in sorted(row.fields.items()))
    return part_of_text(f"{row.operator} {row.direction} {said}")


def part_of_text(text: str) -> str:
    """The part of what has this description.

    >>> part_of_text("gemm forward dtype=bf16 k=4096 m=4096 n=4096")
    'select'
    """
    at = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
    for part, share in SHARES.items():
        if at < share:
            return part
        at -= share
    return part


def divided(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows to fit, and the others."""
    parts = [part_of(row) == FIT for row in rows]
    return [r for r, fit in zip(rows, parts, strict=True) if fit], [r for r, fit in zip(rows, parts, strict=True) if not fit]
