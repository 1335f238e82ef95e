"""Ctrl-C and SIGTERM while something is measured: the first ends it in good order, the second ends the process at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Work = Callable[[], None]
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether the user, or the machine's keeper, asked for the end."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._armed = False

    @property
    def exit_code(self) -> int:
        """That of a process which the signal ended: 130 for Ctrl-C, 143 for SIGTERM; 0 without one."""
        return 128 + self.signal if self.signal else 0

    def during(self, work: Work) -> bool:
        """Do the work; whether it was interrupted. A signal at any other time only lets it end, so that nothing is lost."""
        try:
            self._armed = True
            self.check()
            work()
            self._armed = False
        except KeyboardInterrupt:
            self._armed = False
            self.signal = self.signal or signal.SIGINT
        return self.signal is not None

    def check(self) -> None:
        """Raise what was asked for: Python loses an exception that a signal raises inside a destructor."""
        if self.signal:
            raise KeyboardInterrupt

    def receive(self, number: int, frame: Any = None) -> None:
        """The handler of the first signal."""
        for each in SIGNALS:
            if signal.getsignal(each) == self.receive:
                signal.signal(each, signal.SIG_DFL)
        self.signal = number
        if self._armed:
            self._armed = False
            raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Handle signals while the block runs; what is ignored stays so, as under nohup. Only the main thread can."""
    found = Interruption()
    before: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    before[number] = signal.signal(number, found.receive)
        yield found
    finally:
        for each, handler in before.items():
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
