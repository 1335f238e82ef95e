"""The few functions that formulas need beyond operators, for scalars and for float64 arrays alike.

A formula written with these gives the same bits for a scalar and for an array element, so that a sweep is the
same formula with arrays in place of numbers. numpy is imported only when an array is met: counting on scalars
starts no heavier than typer and yaml. Integers stay integers (Python's never overflow); arrays must be float64,
since int64 wraps silently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):  # first, and without a call: asked tens of times a kernel
        return a if a >= b else b
    import numpy as np

    return np.maximum(a, b)


def minimum(a: Number, b: Number) -> Number:
    """The smaller of two, element by element."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):  # first, and without a call: asked tens of times a kernel
        return a if a <= b else b
    import numpy as np

    return np.minimum(a, b)


def where(condition: Any, yes: Number, no: Number) -> Number:
    """``yes`` where the condition holds, else ``no``; both are evaluated."""
    if not isinstance(condition, bool) and is_array(condition, yes, no):
        import numpy as np

        return np.where(condition, yes, no)
    return yes if condition else no


def root(value: Number) -> Number:
    """The square root, the same bits for a number and an array element; a power with any other exponent is not.

    >>> root(9.0)
    3.0
    """
    if is_array(value):
        import numpy as np

        return np.sqrt(value)
    return math.sqrt(value)


def power(base: Number, exponent: Number) -> Number:
    """``base`` to the ``exponent``, the same bits for a number and an array element.

    >>> power(0.75, 3)
    0.421875
    """
    if is_array(base, exponent):
        import numpy as np

        pairs = np.broadcast_arrays(np.asarray(base, dtype=np.float64), np.asarray(exponent, dtype=np.float64))
        flat = [math.pow(b, e) for b, e in zip(*(np.ravel(p) for p in pairs), strict=True)]
        return np.array(flat, dtype=np.float64).reshape(pairs[0].shape)
    return math.pow(base, exponent)


def each(function: Callable[[int], tuple[int, ...]], value: Number) -> tuple[Number, ...]:
    """The numbers that a function makes of a whole number, each an array where that is one; for what formulas cannot say.

    >>> each(lambda n: (n // 10, n % 10), 42)
    (4, 2)
    """
    if not is_array(value):
        return function(int(value))
    import numpy as np

    found = np.array([function(int(v)) for v in np.ravel(value)], dtype=np.float64)
    return tuple(column.reshape(np.shape(value)) for column in found.T)


def log2(value: Number) -> Number:
    """The logarithm to base 2, of a number or of each element.

    >>> log2(8)
    3.0
    """
    if is_array(value):
        import numpy as np

        return np.log2(value)
    return math.log2(value)


ROUND = 1.5 * 2.0**52
"""Adding and subtracting it rounds a number below 2^51 to the nearest whole one."""


def up(value: Number) -> Number:
    """The next whole number, without a division or a branch: 1e-9 above a whole number counts as that number.

    >>> up(2.0), up(2.25)
    (2.0, 3.0)
    """
    return (value + (0.5 - 1e-9)) + ROUND - ROUND


def fourth(value: Number) -> Number:
    """The fourth power by two products, the same bits for a number and an array element.

    >>> fourth(3.0)
    81.0
    """
    square = value * value
    return square * square


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
