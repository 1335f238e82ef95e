"""How many ranks, or nodes, a token goes to: fewer than it has experts, since some of these lie together.

A token goes once to a rank however many of its experts that holds, over rails once to a node, and what comes back is summed there first:
DeepSeek-V3 (arXiv 2412.19437, section 3.2.2) and its kernels (DeepEP, github.com/deepseek-ai/DeepEP) do so.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Number, maximum, minimum


@dataclass(frozen=True, slots=True)
class Routed:
    """A token's ``active`` different ones of so many ``experts``, all sets of them as likely; domains hold equal shares of the experts."""

    experts: int
    active: int

    def reached(self, domains: Number, share: Number = 1) -> Number:
        """Of so many domains those that a token goes to in the mean: m (1 - C(E - E / m, k) / C(E, k)), of which (m - 1) / m are others.

        Where its experts lie in a ``share`` of all domains only, as likely any of those there.

        >>> Routed(experts=8, active=2).reached(8), round(Routed(experts=128, active=8).reached(2), 3)
        (2.0, 1.994)
        """
        open_, held = domains * share, self.experts * share
        missed = open_
        for i in range(self.active):
            missed = missed * maximum(held - i - self.experts / domains, 0) / maximum(held - i, 1)
        return open_ - missed

    def loaded(self, imbalance: Number, ranks: Number) -> Number:
        """An ``imbalance`` of the rows that experts compute, as one of the rows that arrive: a rank takes in each token once at most.

        >>> round(Routed(experts=128, active=8).loaded(1.5, 2), 4), Routed(experts=8, active=2).loaded(1.5, 8)
        (1.0031, 1.5)
        """
        return minimum(imbalance, ranks / self.reached(ranks))

    def text(self, domains: str) -> str:
        """The same as an expression of steps, in the name of a degree that divides the experts.

        >>> Routed(experts=8, active=2).text("ep")
        '(ep - ep * (8 - 8 / ep) / 8 * (7 - 8 / ep) / 7)'
        """
        factors = (f"({self.experts - i} - {self.experts} / {domains}) / {self.experts - i}" for i in range(self.active))
        return f"({domains} - {' * '.join((domains, *factors))})"
