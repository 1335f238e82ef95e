"""Rows out of everything that a grid of plans was worked out into: the same values with their arrays indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np

_Kind = TypeVar("_Kind")


def taken(value: _Kind, rows: Any) -> _Kind:
    """The value with each array in it, however deep, at those rows; a mask or indices. Numbers and words stay."""
    return cast(_Kind, _taken(value, rows))


def _taken(value: Any, rows: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value[rows]
    if isinstance(value, Mapping):
        return {name: _taken(inner, rows) for name, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(_taken(inner, rows) for inner in value)
    if is_dataclass(value):
        kind: Any = type(value)
        return kind(**{name: _taken(getattr(value, name), rows) for name in _names(kind)})
    return value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))
