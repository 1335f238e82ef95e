"""Columns of measured tables as fields of operators: which mean the same under another name, and which are extra.

Tables come from several collectors. Most columns are the operator's own fields; the rest of what is known is here, so that
a table is read as it lies and a misspelt column is still refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any

from roofline.fit.calls import CALLS, NAMED, call_of
from roofline.ops.base import Op
from roofline.ops.registry import OPERATORS

TIMES: Mapping[str, float] = {"time_us": 1e-6, "time_s": 1.0, "latency_us": 1e-6, "eager_us": 1e-6}
"""Columns that hold a time, in seconds a unit."""

EXTRA = frozenset(
    {
        *("op", "execution", "pass"),
        *("eager_us", "low_us", "high_us", "sm_mhz", "watt", "status", "regime"),
        *("layout", "implementation", "library", "device", "version", "source", "note"),
    }
)
"""Columns that a table may have beside the operator's fields and the time."""

Cell = tuple[str, str]
"""A text and the column that it comes from."""
Cells = dict[str, Cell]


@cache
def fields_of(operator: str) -> Mapping[str, Field[Any]]:
    """The operator's fields by name."""
    return {f.name: f for f in fields(OPERATORS[operator])}  # type: ignore[arg-type]


def named_operator(stem: str) -> str | None:
    """The operator in a file's name: all of it, or what stands before one of its underscores; a table of calls has a name of its own.

    >>> named_operator("batched_gemm_fp8_mine"), named_operator("moe_vllm")
    ('batched_gemm', 'grouped_gemm')
    """
    words = stem.split("_")
    if words[0] in NAMED:
        return NAMED[words[0]]
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    return next((name for name in names if name in OPERATORS), None)


def known_columns(operator: str) -> frozenset[str]:
    """Every column that a table of the operator may have."""
    of_calls = CALLS[operator].columns if operator in CALLS else frozenset()
    return EXTRA | TIMES.keys() | fields_of(operator).keys() | RENAMED.get(operator, {}).keys() | of_calls


def translated(operator: str, row: Mapping[str, str]) -> tuple[str, Cells]:
    """The operator that ran and its fields as texts, from a row by column; empty cells are left out."""
    call = call_of(operator, row)
    if call:
        name, told = call.operators(row)[0]
        return name, {key: (text, call.numbers[0]) for key, text in told.items()}
    cells: Cells = {}
    renamed = RENAMED.get(operator, {})
    for column, text in row.items():
        name = renamed.get(column, column)
        if text and (column in renamed or name in fields_of(operator)):
            cells[name] = (text, column)
    return COMPLETED[operator](row, cells) if operator in COMPLETED else (operator, cells)


def beside(operator: str, row: Mapping[str, str]) -> tuple[tuple[str, Cells], ...]:
    """The operators that a call ran beside the one that its row is about, as `translated` gives that one."""
    call = call_of(operator, row)
    told = call.operators(row)[1:] if call else ()
    return tuple((name, {key: (text, call.numbers[0]) for key, text in fields.items()}) for name, fields in told) if call else ()


RENAMED: Mapping[str, Mapping[str, str]] = {
    "cross_entropy": {"rows": "tokens", "cols": "vocab"},
    "embedding": {"rows": "tokens", "cols": "hidden"},
}
"""Columns of an operator that say the same as a field of another name."""


# --------------------------------------------------------------------------- what a table leaves unsaid
def _attention(row: Mapping[str, str], cells: Cells) -> tuple[str, Cells]:
    """Backends of one fused algorithm are that algorithm; naive scales the scores in a pass of its own."""
    text, column = cells.get("implementation", ("", ""))
    if text in FUSED and text not in fields_of("attention")["implementation"].metadata["options"]:
        cells["implementation"] = ("flash", column)
    if text == "naive":
        cells.setdefault("scale_pass", ("true", column))
    return "attention", cells


FUSED = ("cudnn", "efficient")
"""Backends that keep the scores on chip, as flash does."""


def _elementwise(row: Mapping[str, str], cells: Cells) -> tuple[str, Cells]:
    """A sum over all elements is a reduction of one row."""
    text, column = cells.get("function", ("", ""))
    if text != "sum":
        return "elementwise", cells
    kept = {name: cell for name, cell in cells.items() if name in ("dtype", "out_dtype")}
    if "elements" in cells:
        kept["cols"] = cells["elements"]
    return "reduction", {**kept, "function": ("sum", column), "rows": ("1", column)}


def _cross_entropy(row: Mapping[str, str], cells: Cells) -> tuple[str, Cells]:
    """By rows and columns: in the format of the logits throughout, and their mean, as it was measured."""
    if "rows" in row and "scratch_dtype" not in row and "dtype" in cells:
        cells["scratch_dtype"] = cells["dtype"]
        cells["mean"] = ("true", "rows")
    return "cross_entropy", cells


def _embedding(row: Mapping[str, str], cells: Cells) -> tuple[str, Cells]:
    """The size of the table was not recorded: as many rows as are looked up."""
    if "vocab" not in row and "tokens" in cells:
        cells["vocab"] = cells["tokens"]
    return "embedding", cells


def _conv2d(row: Mapping[str, str], cells: Cells) -> tuple[str, Cells]:
    """Padding was not recorded: the usual one, which keeps the size at stride 1."""
    text, column = cells.get("kernel", ("", ""))
    if "padding" not in row and text.isascii() and text.isdigit():
        cells["padding"] = (str(int(text[:9]) // 2), column)
    return "conv2d", cells


def _fft_conv(row: Mapping[str, str], cells: Cells) -> tuple[str, Cells]:
    """The filters were transformed before, unless a column tells."""
    if "spectrum" not in row and "implementation" in cells:
        cells["spectrum"] = ("true", cells["implementation"][1])
    return "fft_conv", cells


COMPLETED: Mapping[str, Callable[[Mapping[str, str], Cells], tuple[str, Cells]]] = {
    "attention": _attention,
    "conv2d": _conv2d,
    "cross_entropy": _cross_entropy,
    "elementwise": _elementwise,
    "embedding": _embedding,
    "fft_conv": _fft_conv,
}
"""Operators whose tables leave something unsaid."""


def directions(op: Op, direction: str) -> tuple[Op, ...]:
    """The operators that run in a pass: ``forward``, ``backward`` or ``forward+backward``."""
    forward = () if direction == "backward" else (op,)
    return forward if direction == "forward" else (*forward, *op.backward())
