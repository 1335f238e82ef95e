"""Measuring: real kernels on a real device, timed honestly. The only room, with `ingest`, that imports torch and NVML.

The package can be called: ``roofline.measure(...)`` is `roofline.measure.session.measure`.
"""

import sys
from types import ModuleType
from typing import Any


class _Measure(ModuleType):
    """The name of the room is that of what it is for, and an imported package would hide a function beside it."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        """`roofline.measure.session.measure`."""
        from roofline.measure.session import measure

        return measure(*given, **named)


sys.modules[__name__].__class__ = _Measure
