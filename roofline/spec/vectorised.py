"""Steps of an expansion to operators, for one plan or for thousands at once: dimensions are expressions over numbers or float64 arrays.

A workload file is read with places, limits and messages; here the steps come from our own expansion, so that nothing is located, and
each distinct step is compiled once. What an expression means is the same (`roofline.spec.formula`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from roofline.models.expansion import META, Fields, Language
from roofline.numeric import Number, is_array
from roofline.ops import OPERATORS
from roofline.ops.base import Op, whole
from roofline.spec.formula import Formula
from roofline.units import Dimension, parse_quantity

AMOUNTS = {"B": Dimension.BYTES, "FLOP": Dimension.FLOP}
NO_FIELDS = ("id", "op", "repeat", "pass", "after", "tied_to", *META)
_NUMBER = re.compile(r"\d+")

Value = Callable[[Mapping[str, Number]], Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A step with its expressions parsed: the operator's class, and each of its fields as a value or a formula."""

    cls: type[Op]
    fixed: dict[str, Any]
    formulas: dict[str, Value]


def operator_of(step: Fields, names: Mapping[str, Number], dtype: str = "bf16") -> Op:
    """The operator of a step under these names; a collective's link is called as its axis.

    ``dtype`` is that of a step that states none: the model's.

    Raises:
        KeyError: a name that an expression uses is not given.
    """
    compiled = _compiled(tuple((k, v) for k, v in step.items() if k not in NO_FIELDS or k in ("op", "axis")), dtype)
    return compiled.cls(**compiled.fixed, **{name: value(names) for name, value in compiled.formulas.items()})


def ops_of(step: Fields, names: Mapping[str, Number], dtype: str = "bf16") -> tuple[Op, ...]:
    """The operators of one execution of a step: forward, backward or both, as its ``pass`` says."""
    op, direction = operator_of(step, names, dtype), step.get("pass", "forward")
    forward = (op,) if direction != "backward" else ()
    return (*forward, *(op.backward() if direction != "forward" else ()))


def repeat_of(step: Fields, names: Mapping[str, Number]) -> Number:
    """How often a step runs; 0 where an axis of one rank leaves nothing to do."""
    return value_of(step.get("repeat", 1), names)


def value_of(text: int | str, names: Mapping[str, Number]) -> Number:
    """The value of a number or an expression."""
    return text if isinstance(text, int) else _formula(text)(names)


LANGUAGE = Language(operator_of, value_of)
"""What `roofline.models` reads the steps with that it writes."""


@lru_cache(maxsize=4096)
def _formula(text: str) -> Formula:
    return Formula(text)


@lru_cache(maxsize=4096)
def _compiled(items: tuple[tuple[str, Any], ...], dtype: str) -> _Compiled:
    given = dict(items)
    cls = OPERATORS[given.pop("op")]
    axis = given.pop("axis", None)
    fixed: dict[str, Any] = {}
    formulas: dict[str, Value] = {}
    for f in fields(cls):  # type: ignore[arg-type]
        if f.name == "over" and axis is not None:
            fixed["over"] = axis
        elif f.name == "dtype" and "dtype" not in given and not isinstance(f.default, str):
            fixed["dtype"] = dtype
        elif f.name in given:
            value = given.pop(f.name)
            kind = f.metadata["kind"]
            if kind == "amount":
                formulas[f.name] = _amount(str(value), AMOUNTS[f.metadata["unit"]])
            elif kind == "dim" and isinstance(value, str):
                formulas[f.name] = _dimension(value)
            else:
                fixed[f.name] = value
    if given:
        raise TypeError(f"{cls.name} has no {', '.join(given)}")
    return _Compiled(cls, fixed, formulas)


def _dimension(text: str) -> Value:
    """A whole number as an integer, so that counts of a single plan are those of a file."""
    if _NUMBER.fullmatch(text):
        number = int(text)
        return lambda names: number
    formula = _formula(text)
    return lambda names: whole(formula(names))


def _amount(text: str, dimension: Dimension) -> Value:
    """A quantity whose number is an expression."""
    number, _, unit = text.rpartition(" ")
    scale = parse_quantity(f"1 {unit}", dimension)
    formula = _formula(number)

    def amount(names: Mapping[str, Number]) -> Number:
        value = formula(names) * scale
        return value if is_array(value) else whole(value)

    return amount
