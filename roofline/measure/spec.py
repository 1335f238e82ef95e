"""What is known of a kernel before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.ops.base import Op

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """One kernel that can be measured.

    ``build`` and ``build_backward`` are ``module:function``; the function takes (op, tensors) and returns a callable that
    runs the kernel once, on those tensors. ``fields`` are the operator fields it fixes, and with them what it is. ``needs``:
    ``cuda`` or ``cpu`` (the kind of device), ``sm80`` and the like (if a GPU, then at least that), ``triton``; further ones
    for a dtype in ``needs_by_dtype``. ``example`` is a shape for a GPU, ``small`` one for a check. ``dataflow`` is the shipped
    description of what it moves where, if there is one.
    """

    name: str
    op: str
    title: str
    build: str
    build_backward: str | None = None
    needs: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    needs_by_dtype: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    capture_backward: bool = True
    dataflow: str = ""

    @property
    def directions(self) -> tuple[str, ...]:
        """Which passes it can run."""
        return DIRECTIONS if self.build_backward else DIRECTIONS[:1]

    def needed(self, dtype: str) -> tuple[str, ...]:
        """All that it needs to run in this dtype."""
        return (*self.needs, *self.needs_by_dtype.get(dtype, ()))

    def captured(self, direction: str) -> bool:
        """Whether the pass can be captured in a graph; one that goes through autograd cannot."""
        return direction == "forward" or self.capture_backward

    def fits(self, op: Op) -> bool:
        """Whether it is a kernel of this operator with these fields."""
        return op.name == self.op and all(getattr(op, name, None) == value for name, value in self.fields.items())


def kernel(name: str, op: str, title: str, build: str, **rest: Any) -> KernelSpec:
    """A kernel of ours: ``build`` is ``module:forward`` or ``module:forward+backward`` under `roofline.measure.kernels`."""
    module, _, functions = build.partition(":")
    forward, _, backward = functions.partition("+")
    place = f"roofline.measure.kernels.{module}"
    return KernelSpec(
        name=name,
        op=op,
        title=title,
        build=f"{place}:{forward}",
        build_backward=f"{place}:{backward}" if backward else None,
        **rest,
    )
