"""Which kernels exist, which one runs an operator, and how one is made ready to run. Imports no torch until one is.

Ours are in `roofline.measure.catalog`. Another package adds some with an entry point of the group ``roofline.kernels``, and a user
with ``--kernel module:function``. Both name a function that takes the operator and its tensors and returns a callable
without arguments that runs the kernel once and returns its results in the order of the operator's outputs::

    def my_gemm(op, tensors):          # tensors["a"], ["w"], ["c"], as in op.tensors()
        return lambda: torch.mm(tensors["a"], tensors["w"], out=tensors["c"])

    my_gemm.operator = "gemm"          # unless the command line says it
    my_gemm.needs = ("cuda",)          # if it does not run everywhere, see `roofline.measure.spec`
    my_gemm.dataflow = "my_gemm.yaml"  # if a dataflow file describes it

The callable must read ``tensors`` whenever it is called, since new values are written into them to see that it does. Tensors
laid out anew when it is built belong back into ``tensors``. User code is named on the command line, never in a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from roofline.errors import MissingCapabilityError, UsageError, did_you_mean
from roofline.measure.catalog import CATALOG
from roofline.measure.collective_catalog import COLLECTIVES, command
from roofline.measure.spec import KernelSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from roofline.ops.base import Op

__all__ = ["GROUP", "KERNELS", "KernelSpec", "default_kernel", "find", "kernels_for", "names", "prepare", "require", "resolve"]

GROUP = "roofline.kernels"

KERNELS: dict[str, KernelSpec] = {spec.name: spec for spec in CATALOG}
"""Our kernels by the name that users type."""


# --------------------------------------------------------------------------- finding one
def _entry_points() -> dict[str, EntryPoint]:
    """Kernels of other packages by name; a name of ours cannot be taken, and the first package of a name has it."""
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value), reverse=True)
    return {p.name: p for p in points if p.name not in KERNELS and p.name not in COLLECTIVES}


def names() -> list[str]:
    """Names of all kernels, ours first."""
    return [*KERNELS, *COLLECTIVES, *sorted(_entry_points())]


def find(name: str, op_name: str | None = None) -> KernelSpec:
    """The kernel of that name, be it ours, another package's, or a ``module:function``, whose operator may be given.

    Raises:
        UsageError: no such kernel (the message names the nearest), or its code cannot be used.
    """
    if name in KERNELS or name in COLLECTIVES:
        return KERNELS.get(name) or COLLECTIVES[name]
    point = _entry_points().get(name)
    if point is not None:
        return _foreign(name, point.value, op_name)
    if ":" in name:
        return _foreign(name, name, op_name)
    raise UsageError(f"unknown kernel '{name}'; {did_you_mean(name, names())} (or give your own as module:function)")


def kernels_for(op_name: str) -> list[KernelSpec]:
    """Our kernels of an operator, the default one first."""
    return [spec for spec in KERNELS.values() if spec.op == op_name]


def default_kernel(op: Op) -> KernelSpec:
    """The kernel that runs this operator when none is named: of those that fit its fields the one that fixes most of them.

    Raises:
        UsageError: none fits.
    """
    fitting = [spec for spec in kernels_for(op.name) if spec.fits(op)]
    if fitting:
        return max(fitting, key=lambda spec: len(spec.fields))  # the first among equals
    if op.name in COLLECTIVES:
        raise UsageError(f"{op.name} runs between processes: measure it by itself, with {command([op.name])}")
    known = [f"{spec.name} ({_described(spec)})" for spec in kernels_for(op.name)]
    listed = f"there is {', '.join(known)}" if known else "there is none for this operator"
    raise UsageError(f"no kernel runs this {op.name or type(op).__name__}; {listed}; name your own with --kernel module:function")


def _described(spec: KernelSpec) -> str:
    return ", ".join(f"{k}: {v!r}" for k, v in spec.fields.items()) or "any"


# --------------------------------------------------------------------------- code of other people
def _foreign(name: str, reference: str, op_name: str | None) -> KernelSpec:
    """A kernel of a user or of another package; what the function does not say is that of our kernel of its operator."""
    from roofline.ops.registry import OPERATORS

    target = resolve(reference)
    if isinstance(target, KernelSpec):
        return target
    op = op_name or getattr(target, "operator", None)
    if op is None:
        raise UsageError(f"kernel '{name}' does not say which operator it runs; give the operator, or set {reference}.operator = 'gemm'")
    if op not in OPERATORS:
        raise UsageError(f"kernel '{name}' runs an unknown operator '{op}'; {did_you_mean(str(op), list(OPERATORS))}")
    ours = next(iter(kernels_for(op)), None)
    return KernelSpec(
        name=name,
        op=op,
        title=((target.__doc__ or "").strip().splitlines() or [f"{reference}, given by the user"])[0],
        build=reference,
        example=getattr(target, "example", ours.example if ours else {}),
        small=getattr(target, "small", ours.small if ours else {}),
        needs=tuple(getattr(target, "needs", ())),
        dataflow=str(getattr(target, "dataflow", "")),
    )


def resolve(reference: str) -> Any:
    """What ``module:function`` names.

    Raises:
        UsageError: it cannot be imported, has no such name, or is nothing that can be called.
    """
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise UsageError(f"kernel '{reference}' is not of the form module:function")
    target = _imported(module_name, reference)
    for part in path.split("."):
        if not hasattr(target, part):
            known = [n for n in dir(target) if not n.startswith("_")]
            raise UsageError(f"kernel '{reference}': {module_name} has no '{part}'; {did_you_mean(part, known)}")
        target = getattr(target, part)
    if not callable(target) and not isinstance(target, KernelSpec):
        raise UsageError(f"kernel '{reference}' is no function but a {type(target).__name__}")
    return target


def _imported(module_name: str, reference: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)  # at the end: a json.py of the user's must not take the place of the library's
    try:
        return import_module(module_name)
    except (Exception, SystemExit) as err:  # whatever a foreign module does while it is imported
        raise UsageError(f"kernel '{reference}' cannot be imported: {type(err).__name__}: {err}") from err


# --------------------------------------------------------------------------- making one ready
def prepare(
    spec: KernelSpec, op: Op, tensors: MutableMapping[str, Any], direction: str = "forward", device: str = "cpu"
) -> Callable[[], Any]:
    """A callable that runs the kernel once on ``tensors`` (as `roofline.measure.allocate` makes them) and returns its results.

    It may put tensors back into ``tensors`` in another layout. A backward pass alone: what the forward pass leaves to it is
    computed here, so that new values in ``tensors`` call for a new callable.

    Raises:
        UsageError: the kernel does not run this operator, dtype, direction or shape.
        MissingCapabilityError: the device or an installed package lacks what it needs.
    """
    require(spec, op, direction, device)
    build = resolve(spec.build if direction == "forward" else str(spec.build_backward))
    call = build(op, tensors)
    if not callable(call):
        raise UsageError(f"kernel '{spec.name}': {spec.build} must return a function without arguments, not {type(call).__name__}")
    return call  # type: ignore[no-any-return]


def require(spec: KernelSpec, op: Op, direction: str, device: str) -> None:
    """Refuse what cannot run, before anything is made for it.

    Raises:
        UsageError, MissingCapabilityError: as `prepare` does.
    """
    _refuse_misfit(spec, op, direction)
    from roofline.measure.needs import missing

    lacking = missing(spec.needed(op.dtype), device)
    if lacking:
        raise MissingCapabilityError(f"kernel '{spec.name}' in {op.dtype} cannot run on {device}: {'; '.join(lacking)}")
    if direction == "backward":
        _refuse_integers(op)


def _refuse_misfit(spec: KernelSpec, op: Op, direction: str) -> None:
    if op.name != spec.op:
        raise UsageError(f"kernel '{spec.name}' runs {spec.op}, not {op.name}")
    wrong = [f"{k} = {getattr(op, k, None)!r}, not {v!r}" for k, v in spec.fields.items() if getattr(op, k, None) != v]
    if wrong:
        raise UsageError(f"kernel '{spec.name}' does not run this {op.name}: {', '.join(wrong)}")
    if spec.dtypes and op.dtype not in spec.dtypes:
        raise UsageError(f"kernel '{spec.name}' does not run in {op.dtype}; it runs in {', '.join(spec.dtypes)}")
    if direction not in spec.directions:
        raise UsageError(f"kernel '{spec.name}' has no {direction} pass")
    if direction == "backward" and not op.backward():
        raise UsageError(f"{op.name} with these fields has no backward kernel: the gradient passes through")


def _refuse_integers(op: Op) -> None:
    from roofline.measure.allocate import differentiable

    if not differentiable(op):
        raise UsageError(f"{op.name} in {op.dtype} has no gradients")
