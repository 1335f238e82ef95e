"""The few functions that formulas need beyond operators, for scalars and for float64 arrays alike.

A formula written with these gives the same bits for a scalar and for an array element, so that a sweep is the
same formula with arrays in place of numbers. numpy is imported only when an array is met: counting on scalars
starts no heavier than typer and yaml. Integers stay integers (Python's never overflow); arrays must be float64,
since int64 wraps silently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
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
    """The square root, to the last bit, which `power` with a half is not.

    >>> root(9.0)
    3.0
    """
    if is_array(value):
        import numpy as np

        return np.sqrt(value)
    return math.sqrt(value)


def power(base: Number, exponent: Number) -> Number:
    """A ``base`` of at least 0 to the ``exponent``, as 2^(exponent log2 base): off by some 4e-16 for each power of 2 that it lies from 1.

    >>> power(0.25, 1.5)
    0.125
    """
    there = base > 0
    return where(there, exp2(exponent * log2(where(there, base, 1))), where(exponent == 0, 1.0, 0.0))


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


def each_where(
    condition: Any, function: Callable[..., tuple[int, ...]], values: Sequence[Number], otherwise: Sequence[Number]
) -> tuple[Number, ...]:
    """The numbers that a function makes of whole numbers where the condition holds, each combination once; elsewhere the others.

    >>> each_where(True, lambda n, m: divmod(n, m), (42, 10), (0, 0))
    (4, 2)
    """
    if not is_array(condition):
        return function(*(int(v) for v in values)) if condition else tuple(otherwise)
    import numpy as np

    columns = [np.broadcast_to(np.asarray(value, dtype=np.float64), condition.shape)[condition] for value in values]
    different, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    counted = np.array([function(*(int(v) for v in row)) for row in different], dtype=np.float64)[which.reshape(-1)]
    found = [np.array(np.broadcast_to(value, condition.shape), dtype=np.float64) for value in otherwise]
    for at, column in enumerate(found):
        column[condition] = counted[:, at]
    return tuple(found)


ROUND = 1.5 * 2.0**52
"""Adding and subtracting it rounds a number below 2^51 to the nearest whole one."""
LN2 = math.log(2)
STEPS = 32
STEP = tuple(2.0 ** (j / STEPS) for j in range(STEPS))
"""Powers of 2 between 1 and 2."""
EXP2 = tuple(LN2**n / math.factorial(n) for n in range(7))
"""2^x = sum of (x ln 2)^n / n!: the first that is left out is below 2^-57 for x up to half a step."""
LOG2 = tuple(2 / (2 * n + 1) / LN2 for n in range(11))
"""log2(m) = sum of these times s^(2n+1), s = (m - 1) / (m + 1): what is left out is below 2^-57 of it for m from sqrt(1/2) to sqrt(2)."""
LEAST = -1080.0
"""2 to this is 0: the least double is 2^-1074."""


def log2(value: Number) -> Number:
    """The logarithm to base 2 of a number above 0, or of each element: by sums and products alone, since libraries differ in the last bit.

    >>> log2(8)
    3.0
    """
    mantissa, exponent = _parts(value)
    low = mantissa < 0.7071067811865476
    mantissa = mantissa + mantissa * low  # doubled: choosing would take arrays longer than all else here
    s = (mantissa - 1) / (mantissa + 1)
    found: Number = (exponent - low * 1.0) + s * _series(LOG2, s * s)
    return found


def exp2(value: Number) -> Number:
    """2 to the power of a number below 1024, or of each element: by sums and products alone, as `log2`.

    >>> exp2(-1), exp2(0.5) == 2**0.5
    (0.5, True)
    """
    value = maximum(value, LEAST)
    steps = value * STEPS + ROUND - ROUND
    rest = _series(EXP2, value - steps / STEPS)
    if isinstance(steps, float):
        count = int(steps)
        return math.ldexp(rest * STEP[count & STEPS - 1], count // STEPS)
    import numpy as np

    counts = steps.astype(np.int32)
    found: Number = np.ldexp(rest * np.take(STEP, counts & STEPS - 1), counts // STEPS)
    return found


def _parts(value: Number) -> tuple[Any, Any]:
    """The mantissa, from a half up to 1, and the exponent of 2."""
    if isinstance(value, (int, float)):
        return math.frexp(value)
    import numpy as np

    return np.frexp(value)


def _series(terms: Sequence[float], x: Number) -> Number:
    """The sum of terms[n] x^n, from the last; in place, which halves the time of arrays."""
    result = terms[-1] * x
    for term in reversed(terms[1:-1]):
        result += term
        result *= x
    return result + terms[0]


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


def divisors(n: int) -> list[int]:
    """All whole numbers that divide ``n``, in order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def total(values: Iterable[Number]) -> Number:
    """The sum of the values, in order; 0 of nothing."""
    result: Number = 0
    for value in values:
        result = result + value
    return result


def largest(values: Iterable[Number]) -> Number:
    """The largest of the values, element by element; 0 of nothing, and never less.

    >>> largest([3, 5, 4])
    5
    """
    result: Number = 0
    for value in values:
        result = maximum(result, value)
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
