"""A model in numbers, as tables: parameters by part, bytes by format, cache and FLOP a token."""

from __future__ import annotations

from roofline.models.count import Summary
from roofline.report.columns import Column
from roofline.units import Dimension, format_quantity


def model_columns(found: Summary) -> list[list[Column]]:
    """Parameters by part, then bytes by format."""
    p = found.parameters
    rows = [(part, count) for part, count in p.by_part.items() if count]
    rows += [("total", p.total), ("active", p.active), ("active without input embedding", p.active_without_embedding)]
    rows += [("MTP modules, apart", p.mtp)] if p.mtp else []
    names, counts = zip(*rows, strict=True)
    shares = tuple(f"{100 * n / p.total:.1f} %" if name in p.by_part else "" for name, n in rows)
    sizes = found.weight_bytes_by_dtype
    return [
        [Column("parameters", names, right=False), Column("count", tuple(f"{n:,}" for n in counts)), Column("share", shares)],
        [
            Column("weights", (*sizes, "total"), right=False),
            Column("bytes", tuple(format_quantity(n, Dimension.BYTES) for n in (*sizes.values(), found.weight_bytes))),
        ],
    ]


def model_lines(found: Summary) -> list[str]:
    """What is said below the tables."""
    kv, flop = found.kv_bytes_per_token, found.flop_per_token
    cached = f"Cache: {kv:,} B a token ({found.kv_dtype})"
    if found.kv_bytes_per_token_unbounded != kv:
        cached += f", {found.kv_bytes_per_token_unbounded:,} B beyond the windows"
    if found.kv_bytes_per_source_token:
        cached += f", {found.kv_bytes_per_source_token:,} B a token of the source"
    if found.state_bytes_per_sequence:
        cached += f"; state {format_quantity(found.state_bytes_per_sequence, Dimension.BYTES)} a sequence"
    parts = [format_quantity(n, Dimension.FLOP) for n in (flop.total, flop.weights, flop.attention)]
    return [
        cached + ".",
        f"FLOP a token at {flop.context} keys, forward: {parts[0]} ({parts[1]} products with weights, {parts[2]} attention).",
        *(f"Note: {note}." for note in found.notes),
    ]
