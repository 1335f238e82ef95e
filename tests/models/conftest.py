"""Configurations as they are published, and those written in a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline.models.count import Summary, summary
from roofline.spec.model import load_model
from tests.commands import report, run

__all__ = ["report", "run"]

CONFIGS = Path(__file__).parent.parent / "data" / "hf_configs"


@pytest.fixture
def configs() -> Path:
    """The folder of published configurations."""
    return CONFIGS


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """A configuration as a file."""

    def write(config: dict[str, Any], name: str = "m.json") -> str:
        (tmp_path / name).write_text(json.dumps(config, indent=1), encoding="utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture
def counted(written: Callable[..., str]) -> Callable[..., Summary]:
    """A configuration in numbers."""

    def count(config: dict[str, Any], **options: Any) -> Summary:
        model, how, ignored = load_model(written(config))
        return summary(model, how, ignored=ignored, **options)

    return count
