"""What the tests of dataflows share: a dataflow on a device in numbers, and the commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofline.dataflow.account import Account, account, device_of
from roofline.spec.dataflow import load_dataflow
from roofline.spec.hardware import load_hardware
from tests.commands import report, row, run  # noqa: F401  (fixtures)

Counted = Callable[..., Account]


@pytest.fixture
def counted() -> Counted:
    """A dataflow, shipped or as a file, on a device, with params and tiles as keywords."""

    def call(name: str, hardware: str, **settings: Any) -> Account:
        device = device_of(load_hardware(hardware), "bf16")
        flow = load_dataflow(name, [f"{k}={v}" for k, v in settings.items()], device.names)
        return account(flow, device_of(load_hardware(hardware), flow.dtype))

    return call
