"""Dataclasses to plain JSON values and back, and the JSON Schema of both, all from the type annotations."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from roofline.errors import RooflineError


class ShapeError(RooflineError):
    """A JSON value that does not have the shape of the class; the message names the place."""


def encode(value: Any) -> Any:
    """The value as JSON types, in the order of the fields. Whole floats become integers; NaN is an error.

    Raises:
        ValueError: a number that JSON cannot hold.
    """
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} cannot be written as JSON")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


@lru_cache(maxsize=64)
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def decode(kind: Any, value: Any, place: str = "report") -> Any:
    """The JSON value as an instance of ``kind``.

    Raises:
        ShapeError: a key is missing, or a value is of another type.
    """
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _decode_class(kind, value, place)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return _decode_union(args, value, place)
    if origin is tuple:
        return tuple(decode(args[0], v, f"{place}[{i}]") for i, v in enumerate(_typed(value, list, place)))
    if origin is not None and issubclass(origin, Mapping):
        return {k: decode(args[1], v, f"{place}.{k}") for k, v in _typed(value, dict, place).items()}
    if kind is Any:
        return value
    return _typed(value, (int, float) if kind is float else kind, place)


def _decode_class(kind: type, value: Any, place: str) -> Any:
    found = _typed(value, dict, place)
    hints = _hints(kind)
    arguments = {}
    for field in dataclasses.fields(kind):
        if field.name in found:
            arguments[field.name] = decode(hints[field.name], found[field.name], f"{place}.{field.name}")
        elif type(None) in get_args(hints[field.name]):
            arguments[field.name] = None
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ShapeError(f"{place} lacks '{field.name}'")
    return kind(**arguments)


def _decode_union(options: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and type(None) in options:
        return None
    refusals = []
    for option in options:
        if option is type(None):
            continue
        try:
            return decode(option, value, place)
        except ShapeError as err:
            refusals.append(err)
    raise refusals[0]


def _typed(value: Any, kind: Any, place: str) -> Any:
    wanted = kind if isinstance(kind, tuple) else (kind,)
    if (isinstance(value, bool) and bool not in wanted) or not isinstance(value, wanted):
        names = " or ".join(_WORDS.get(k, k.__name__) for k in wanted)
        raise ShapeError(f"{place}: expected {names}, found {_WORDS.get(type(value), type(value).__name__)}")
    return value


_WORDS = {dict: "an object", list: "an array", str: "text", int: "an integer", float: "a number", bool: "a boolean", type(None): "null"}


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of what `decode` accepts and `encode` gives."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return {
            "type": "object",
            "description": (kind.__doc__ or "").split("\n")[0],
            "properties": {f.name: json_schema(hints[f.name]) for f in dataclasses.fields(kind)},
            "required": [f.name for f in dataclasses.fields(kind)],
            "additionalProperties": False,
        }
    origin, args = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return {"anyOf": [json_schema(a) for a in args]}
    if origin is tuple:
        return {"type": "array", "items": json_schema(args[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": json_schema(args[1])}
    return {} if kind is Any else {"type": _JSON_TYPES[kind]}


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
