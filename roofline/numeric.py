"""The few functions that formulas need beyond operators, for scalars and for float64 arrays alike.

A formula written with these gives the same bits for a scalar and for an array element, so that a sweep is the
same formula with arrays in place of numbers. numpy is imported only when an array is met: counting on scalars
starts no heavier than typer and yaml. Integers stay integers (Python's never overflow); arrays must be float64,
since int64 wraps silently.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Number: TypeAlias = int | float | np.ndarray[Any, np.dtype[np.float64]]
else:
    Number = Any


def is_array(*values: Any) -> bool:
    """Whether any value is an array rather than a Python number."""
    for value in values:  # noqa: SIM110  (asked thousands of times in a run; a generator takes three times as long)
        if not isinstance(value, (int, float)):
            return True
    return False


def maximum(a: Number, b: Number) -> Number:
    """The larger of two, element by element."""
    if is_array(a, b):
        import numpy as np

        return np.maximum(a, b)
    return a if a >= b else b


def minimum(a: Number, b: Number) -> Number:
    """The smaller of two, element by element."""
    if is_array(a, b):
        import numpy as np

        return np.minimum(a, b)
    return a if a <= b else b


def where(condition: Any, yes: Number, no: Number) -> Number:
    """``yes`` where the condition holds, else ``no``; both are evaluated."""
    if is_array(condition, yes, no) and not isinstance(condition, bool):
        import numpy as np

        return np.where(condition, yes, no)
    return yes if condition else no


def ceil_div(a: Number, b: Number) -> Number:
    """How many pieces of size ``b`` cover ``a``.

    >>> ceil_div(130, 128)
    2
    """
    return -(-a // b)


def total(values: Iterable[Number]) -> Number:
    """The sum of the values, in order; 0 of nothing."""
    result: Number = 0
    for value in values:
        result = result + value
    return result


def product(values: Iterable[Number]) -> Number:
    """The product of the values, in order; 1 of nothing."""
    result: Number = 1
    for value in values:
        result = result * value
    return result


def scalar(value: Number) -> float:
    """The value as a Python number, where arrays have no place.

    Raises:
        TypeError: it is an array.
    """
    if isinstance(value, (int, float)):
        return value
    raise TypeError("an array where a single number is needed")


def anywhere(condition: Any) -> bool:
    """Whether a condition on dimensions holds, for arrays in any element.

    >>> anywhere(3 % 2 > 0)
    True
    """
    return bool(condition.any()) if is_array(condition) else bool(condition)
