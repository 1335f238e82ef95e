"""Operators by YAML name, each imported when it is first asked for.

A workload uses a few operators, and defining a dataclass costs a millisecond, so that importing all of them is a tenth
of a short run. Ours are found by the table below, which the contract tests hold against the code; a name that is not
in it is looked for in other packages (`roofline.ops.plugins`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline.ops.base import Op

MODULES = {
    "gemm": "gemm",
    "batched_gemm": "gemm",
    "grouped_gemm": "grouped",
    "attention": "attention",
    "latent_attention": "latent",
    "softmax": "softmax",
    "layernorm": "norm",
    "rmsnorm": "norm",
    "elementwise": "elementwise",
    "swiglu": "elementwise",
    "dropout": "elementwise",
    "rotary": "elementwise",
    "embedding": "embedding",
    "cross_entropy": "loss",
    "reduction": "memory",
    "transpose": "memory",
    "copy": "memory",
    "conv2d": "conv",
    "fft_conv": "fft_conv",
    "monarch": "monarch",
    "m2": "m2",
    "adamw": "optimizer",
    "sgd": "optimizer",
    "all_reduce": "collective",
    "all_gather": "collective",
    "reduce_scatter": "collective",
    "all_to_all": "collective",
    "broadcast": "collective",
    "send_recv": "collective",
    "custom": "custom",
}
"""The module of each of our operators, in the order of the docs."""


class Registry(Mapping[str, "type[Op]"]):
    """Our operators and those of other packages. Only going through all of them imports all of them."""

    def __init__(self) -> None:
        self._classes: dict[str, type[Op]] = {}
        self._foreign: dict[str, type[Op]] = {}

    def add(self, name: str, cls: type[Op]) -> None:
        """Register a class.

        Raises:
            ValueError: another class has that name, or it is one of ours and the class is not.
        """
        if name in MODULES and cls.__module__ != f"{__package__}.{MODULES[name]}":
            raise ValueError(f"operator '{name}' is one of roofline's own")
        classes = self._classes if name in MODULES else self._foreign
        known = classes.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise ValueError(f"operator '{name}' is defined twice")
        classes[name] = cls

    def __getitem__(self, name: str) -> type[Op]:
        if name in self._classes:
            return self._classes[name]
        if name in MODULES:
            import_module(f"{__package__}.{MODULES[name]}")
            return self._classes[name]
        from roofline.ops.plugins import load

        return load(name, self._foreign)

    def __iter__(self) -> Iterator[str]:
        from roofline.ops.plugins import names

        return iter(dict.fromkeys([*MODULES, *names(), *self._foreign]))

    def __len__(self) -> int:
        return len(list(iter(self)))


OPERATORS = Registry()
"""All operators by YAML name."""
