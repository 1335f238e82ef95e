"""Operators of other packages, by the entry-point group ``roofline.operators``.

The entry point has the operator's YAML name and points to its class (or its module), which registers itself with
`roofline.ops.base.operator` like one of ours; its keys, docs, schema and counts then come from the same definitions::

    [project.entry-points."roofline.operators"]
    fft_conv = "my_package.fft:FftConv"

Installed packages are looked at only when a name is not one of ours or when all are listed. A name of ours cannot be
taken. A package that fails is an error where its operator is used and where operators are listed, never silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from roofline.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from roofline.ops.base import Op

GROUP = "roofline.operators"


def _entry_points() -> dict[str, list[EntryPoint]]:
    """All entry points of the group by name; several where packages disagree."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        others = found.setdefault(point.name, [])
        if point.value not in [o.value for o in others]:  # a package may be on the path twice
            others.append(point)
    return found


def names() -> list[str]:
    """Names that other packages give operators, sorted."""
    return list(_entry_points())


def load(name: str, registered: Mapping[str, type[Op]]) -> type[Op]:
    """The operator of that name, imported so that it is among the ``registered`` if it was not yet.

    Raises:
        KeyError: no package has it.
        UsageError: several packages have it, or the one that does cannot be used.
    """
    points = _entry_points().get(name, [])
    if not points and name not in registered:
        raise KeyError(name)
    if len(points) > 1:
        raise UsageError(f"operator '{name}' comes from several packages: {', '.join(_origin(p) for p in points)}; keep one")
    origin = f" of {_origin(points[0])}" if points else ""
    try:
        for point in points:
            point.load()
    except Exception as err:  # whatever a foreign package does while it is imported
        raise UsageError(f"operator '{name}'{origin} cannot be imported: {type(err).__name__}: {err}") from err
    cls = registered.get(name)
    wrong = _wrong(cls)
    if cls is None or wrong:
        raise UsageError(f"operator '{name}'{origin} cannot be used: {wrong}")
    return cls


def _origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist else "an unknown package"
    return f"{package} ({point.value})"


def _wrong(cls: type[Any] | None) -> str | None:
    """What keeps a class from being an operator."""
    from roofline.ops.base import Op

    if cls is None:
        return "nothing of that name is registered with roofline.ops.base.operator"
    if not (issubclass(cls, Op) and hasattr(cls, "__dataclass_fields__")):
        return "it is not a dataclass derived from roofline.ops.base.Op"
    plain = [f.name for f in fields(cast(Any, cls)) if "kind" not in f.metadata]
    if plain:
        return f"fields not declared with dim(), choice() or the like of roofline.ops.base: {', '.join(plain)}"
    return None
