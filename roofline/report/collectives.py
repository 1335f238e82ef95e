"""The two bandwidths that a collective is known by."""

from __future__ import annotations

from roofline.numeric import scalar
from roofline.ops.base import Op
from roofline.report.model import Row
from roofline.units import Dimension, format_quantity

FAMILY = "collective"
ALGORITHM = "algorithm"
"""Key of the algorithm bandwidth among what was achieved; that of the link is the bus bandwidth."""


def moved_bytes(op: Op, direction: str) -> dict[str, float]:
    """Of a collective, the bytes that its bandwidths are made from, known without a device; empty for others.

    The algorithm bandwidth is the size of the array over the time, whatever of it was sent.
    """
    if op.family != FAMILY or direction != "forward":
        return {}
    return {ALGORITHM: scalar(getattr(op, "size", 0)), **{link: scalar(sent) for link, sent in op.link_bytes().items() if scalar(sent)}}


def bandwidths(row: Row) -> list[str]:
    """Both bandwidths of a measured collective in words; nothing for other rows."""
    algorithm = row.measured.achieved_per_s.get(ALGORITHM) if row.measured else None
    if row.measured is None or algorithm is None:
        return []
    said = [f"algorithm bandwidth {rate(algorithm)} (size / time)"]
    said += [f"bus bandwidth {rate(row.measured.achieved_per_s[link])} (x {sent / size_of(row):.4g})" for link, sent in sent_over(row)]
    return ["  " + ", ".join(said)]


def sent_over(row: Row) -> list[tuple[str, float]]:
    """The link of a collective, with the bytes that each rank sends; nothing for a single rank."""
    return [(link, sent) for link, sent in row.link_bytes.items() if sent]


def size_of(row: Row) -> float:
    """Bytes of the full array."""
    size = row.fields["size"]
    return size if isinstance(size, (int, float)) else 0.0


def rate(value: float) -> str:
    """A bandwidth with its unit."""
    return format_quantity(value, Dimension.BYTES_PER_S)
