"""A compute-optimal budget: how large a model, on how many tokens.

Training takes about 6 N D FLOP (2 N forward and 4 N backward a token; attention scores are not in it). How D should grow with N is no
law of nature but a choice: Hoffmann et al. found about 20 tokens a parameter to give the lowest loss for the FLOP of training. Whoever
serves the model for long takes more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.errors import UsageError

FLOP_PER_PARAMETER_TOKEN = 6
CHINCHILLA = 20.0
"""Tokens a parameter."""
CHINCHILLA_SOURCE = (
    "Hoffmann et al. 2022, Training Compute-Optimal Large Language Models, arXiv 2203.15556, table 3: about 20 tokens a parameter"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Parameters and tokens of a training run of ``flop``."""

    flop: float
    parameters: float
    tokens: float
    tokens_per_parameter: float


def training_flop(parameters: float, tokens: float) -> float:
    """FLOP of training, 6 N D.

    >>> training_flop(70e9, 1.4e12)
    5.88e+23
    """
    return FLOP_PER_PARAMETER_TOKEN * parameters * tokens


def optimal(flop: float, tokens_per_parameter: float = CHINCHILLA) -> Budget:
    """The model that uses up ``flop`` at that many tokens a parameter: N = sqrt(C / (6 r)), D = r N.

    Raises:
        UsageError: a budget or a ratio that is not above 0.
    """
    if not (flop > 0 and tokens_per_parameter > 0):
        raise UsageError("a budget and the tokens a parameter are above 0")
    parameters = math.sqrt(flop / (FLOP_PER_PARAMETER_TOKEN * tokens_per_parameter))
    return Budget(flop=flop, parameters=parameters, tokens=tokens_per_parameter * parameters, tokens_per_parameter=tokens_per_parameter)


def flop_of(devices: float, time_s: float, flop_per_s: float, useful_share: float = 1.0) -> float:
    """FLOP that a fleet gives to training: devices x time x the rate that each reaches x the share of the time that is useful."""
    return devices * time_s * flop_per_s * useful_share
