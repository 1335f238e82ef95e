"""Overrides of a workload as values of Python, for who calls and types no command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from roofline.errors import UsageError

Overrides: TypeAlias = "Mapping[str, str | int | float | bool] | Sequence[str]"
"""``{"batch": 16, "attention.implementation": "flash"}``, or the words of ``--set``: ``["batch=16"]``."""


def words(overrides: Overrides) -> list[str]:
    """Overrides as the words of ``--set``.

    Raises:
        UsageError: one text instead of several.

    >>> words({"batch": 16, "attention.causal": True})
    ['batch=16', 'attention.causal=true']
    """
    if isinstance(overrides, str):
        raise UsageError(f"overrides are a mapping or a list of texts: write ['{overrides}']")
    if isinstance(overrides, Mapping):
        return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in overrides.items()]
    return list(overrides)
