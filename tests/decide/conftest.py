"""Sweeps of shipped workloads and of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofline.decide.sweep import Asked
from roofline.spec.axes import read_axes
from roofline.spec.find import find_workload
from roofline.spec.source import Source, read_source
from tests.commands import report as report
from tests.commands import run as run

Ask = Callable[..., Asked]


@pytest.fixture
def ask() -> Ask:
    """What is swept, from the name of a workload or from its text, and ``--set`` words."""

    def made(workload: str, *settings: str, **more: Any) -> Asked:
        fixed, axes = read_axes(settings)
        source = Source("w.yaml", workload) if "\n" in workload else read_source(str(find_workload(workload)))
        return Asked(source=source, overrides=tuple(fixed), axes=tuple(axes), **more)

    return made
