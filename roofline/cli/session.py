"""What the commands that measure share: the time they may take, the profile beside the device, the device to themselves,
and when a run has failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from roofline.cli.outcome import note, settings

if TYPE_CHECKING:
    from roofline.hardware.profile import Hardware
    from roofline.measure.base import Device
    from roofline.report.model import MeasuredResult

REFUSED = ("invalid", "failed")
"""How a result ends that must not be believed."""


def seconds_of(time_limit: str) -> float:
    """The seconds of ``--time-limit``.

    Raises:
        UsageError: it is no time with a unit.
    """
    from roofline.errors import UsageError
    from roofline.units import Dimension, QuantityError, parse_quantity

    try:
        return float(parse_quantity(time_limit, Dimension.SECONDS))
    except QuantityError as err:
        raise UsageError(f"--time-limit: {err}") from None


def profile_of(name: str, device: Device) -> Hardware | None:
    """The profile asked for with ``-H``: ``auto`` is the device's own by its name, ``none`` is none.

    Raises:
        MissingCapabilityError: no profile matches the device.
        UsageError, InputError: no such profile, or problems in it.
    """
    from roofline.measure.match import profile_for
    from roofline.spec.hardware import load_hardware

    if name == "none":
        return None
    return profile_for(device.info) if name == "auto" else load_hardware(name)


@contextmanager
def locked(device: Device, wanted: bool) -> Iterator[None]:
    """The device to ourselves, if wanted; a lock that cannot be taken at all is said and no obstacle."""
    from roofline.measure.lock import device_lock

    if not wanted:
        yield
        return
    with device_lock(device.info.uuid) as warning:
        if warning and not settings.quiet:
            note(f"note: {warning}")
        yield


def refuse(results: Sequence[tuple[str, MeasuredResult]], nothing: str, hint: Callable[[Sequence[str]], str] = lambda refused: "") -> None:
    """Results by name that must not be believed, or none at all, are an error of the run; ``hint`` follows what was refused.

    Raises:
        MeasurementInvalidError: some are refused, or all ran out of memory, which ``nothing`` says.
    """
    from roofline.errors import MeasurementInvalidError

    refused = [f"{name}: {m.status}: {'; '.join(m.notes)}" for name, m in results if m.status in REFUSED]
    if refused:
        raise MeasurementInvalidError("\n".join(refused) + hint(refused))
    if all(m.status == "oom" for _, m in results):
        raise MeasurementInvalidError(nothing)
