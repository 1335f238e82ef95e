"""Every convention has tests that exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from .table import CONVENTIONS, Convention

TESTS = Path(__file__).resolve().parents[1]


@cache
def names(file: str) -> frozenset[str]:
    """Test functions of a file, those of classes as ``Class::name``."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for cls in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        found |= {f"{cls.name}::{node.name}" for node in cls.body if isinstance(node, ast.FunctionDef)}
    return frozenset(found)


def test_there_are_25_in_order() -> None:
    assert [c.number for c in CONVENTIONS] == list(range(1, 26))


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda c: str(c.number))
def test_each_has_its_tests(convention: Convention) -> None:
    assert convention.tests
    for test in convention.tests:
        file, _, name = test.partition("::")
        assert name in names(file), test
        assert name.rpartition("::")[2].startswith("test_")
