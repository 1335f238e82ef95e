"""Readings of a device while it works: taken in the background, or, where time is scripted, between the samples."""

from __future__ import annotations

import threading
from typing import Protocol

from roofline.measure.base import Device, Reading

PERIOD_S = 0.04
"""25 readings a second: twenty are enough to see a clock fall, more would disturb what is watched."""


class Watch(Protocol):
    """Collects readings from `start` to `stop`."""

    readings: list[Reading]

    def start(self) -> None:
        """Begin; one reading is taken at once."""

    def tick(self) -> None:
        """Called between samples."""

    def look(self) -> None:
        """Take a reading now."""

    def stop(self) -> None:
        """End; may be called twice."""


class ThreadWatch:
    """Reads in a thread of its own, so that samples follow each other without a gap."""

    def __init__(self, device: Device, period_s: float = PERIOD_S) -> None:
        self.readings: list[Reading] = []
        self._device, self._period_s = device, period_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="roofline-readings", daemon=True)

    def start(self) -> None:
        """Begin; one reading is taken at once."""
        self.look()
        self._thread.start()

    def tick(self) -> None:
        """Nothing: the thread does it."""

    def look(self) -> None:
        """Take a reading now."""
        self.readings.append(self._device.reading())

    def stop(self) -> None:
        """End, with patience for a reading that hangs: it must not hold up the result."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._done.wait(self._period_s):
            self.look()


class InlineWatch:
    """Reads between samples when the device's own clock says that it is time; for devices whose time is scripted."""

    def __init__(self, device: Device, period_s: float = PERIOD_S) -> None:
        self.readings: list[Reading] = []
        self._device, self._period_s = device, period_s

    def start(self) -> None:
        """Take the first reading."""
        self.look()

    def tick(self) -> None:
        """A reading, if the last is old enough."""
        if self._device.now() - self.readings[-1].time_s >= self._period_s:
            self.look()

    def look(self) -> None:
        """Take a reading now."""
        self.readings.append(self._device.reading())

    def stop(self) -> None:
        """Nothing runs."""
