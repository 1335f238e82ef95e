"""What each named function of an element costs.

Conventions of the costs: add, multiply, compare and divide are 1 FLOP each, a multiply-add 2; exp, log, tanh and roots are one
special-function operation and no FLOP. The extra reciprocal instruction behind a division is left out, so that the count stays
a lower bound; integer work (random numbers, addresses) is not counted.
"""

from __future__ import annotations

from roofline.ops.base import Counts
from roofline.records import dataclass


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the table: what an element costs, forward and backward.

    ``keeps`` says what the gradient needs: the inputs (``x``), the result (``y``) or neither. ``gradients`` is how many
    are written; 0 means that dy itself is the gradient and no kernel runs. ``mask`` is one more input of a byte.
    """

    inputs: int
    cost: Counts
    why: str
    gradients: int = 1
    keeps: str = ""
    backward: Counts = Counts()
    mask: bool = False


def _cost(vector: int, sfu: int = 0) -> Counts:
    return Counts(vector=vector, sfu=sfu)


_ONE = _cost(1)

FUNCTIONS: dict[str, Function] = {
    "add": Function(2, _ONE, "a + b; dy is the gradient of both", 0),
    "sub": Function(2, _ONE, "a - b; one gradient is -dy", 1, "", _ONE),
    "mul": Function(2, _ONE, "a b; gradients dy b and dy a", 2, "x", _cost(2)),
    "div": Function(2, _ONE, "a / b; gradients dy / b and -dy a / b^2", 2, "x", _cost(4)),
    "maximum": Function(2, _ONE, "a comparison; dy goes to the larger", 2, "x", _cost(2)),
    "minimum": Function(2, _ONE, "a comparison; dy goes to the smaller", 2, "x", _cost(2)),
    "fma": Function(3, _cost(2), "a b + c; the gradient of c is dy", 2, "x", _cost(2)),
    "scale": Function(1, _ONE, "c x", 1, "", _ONE),
    "neg": Function(1, _ONE, "-x", 1, "", _ONE),
    "abs": Function(1, _ONE, "|x|; gradient sign(x) dy", 1, "x", _ONE),
    "relu": Function(1, _ONE, "a comparison with 0; the result tells where", 1, "y", _ONE),
    "square": Function(1, _ONE, "x x; gradient 2 x dy", 1, "x", _cost(2)),
    "exp": Function(1, _cost(0, 1), "one exponential; gradient y dy", 1, "y", _ONE),
    "log": Function(1, _cost(0, 1), "one logarithm; gradient dy / x", 1, "x", _ONE),
    "sqrt": Function(1, _cost(0, 1), "one root; gradient dy / 2 y", 1, "y", _cost(2)),
    "rsqrt": Function(1, _cost(0, 1), "one root; gradient -dy y^3 / 2", 1, "y", _cost(4)),
    "tanh": Function(1, _cost(0, 1), "one tanh; gradient dy (1 - y^2)", 1, "y", _cost(3)),
    "sigmoid": Function(1, _cost(3, 1), "1 / (1 + exp(-x)): negate, add, divide; gradient dy y (1 - y)", 1, "y", _cost(3)),
    "silu": Function(1, _cost(4, 1), "x sigmoid(x); gradient dy s (1 + x (1 - s))", 1, "x", _cost(8, 1)),
    "gelu": Function(1, _cost(8, 1), "the form with erf, counted as that with tanh; 1 exp as measured", 1, "x", _cost(17, 1)),
    "gelu_tanh": Function(1, _cost(8, 1), "x (1 + tanh(a (x + b x^3))) / 2: 5 inside the tanh, 3 outside", 1, "x", _cost(17, 1)),
    "cast": Function(1, Counts(), "a conversion is no FLOP"),
    "copy": Function(1, Counts(), "moves bytes; dy is the gradient", 0),
    "fill": Function(0, Counts(), "writes a constant, which has no gradient", 0),
    "masked_fill": Function(1, _ONE, "x or a constant: a selection; dy or 0", 1, "", _ONE, mask=True),
    "where": Function(2, _ONE, "a or b: a selection; dy or 0 to each", 2, "", _cost(2), mask=True),
}
"""What an element of each function costs."""
