"""Steps as the text of a workload file, one step a line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from roofline.errors import UsageError, did_you_mean
from roofline.models.description import Model
from roofline.models.expansion import PHASES, Expansion, Fields
from roofline.models.steps import params_of, steps_of, written_parameters

_PLAIN = re.compile(r"[A-Za-z0-9_(][A-Za-z0-9_ ()*/+.<>=-]*")
EXECUTION = {"prefill": "engine", "decode": "engine", "train": "eager"}


def workload_text(expansion: Expansion, settings: Mapping[str, int]) -> str:
    """The workload file of a model in a phase; ``settings`` change its params.

    Raises:
        UsageError: a phase or a param that does not exist.
    """
    model, phase = expansion.model, expansion.phase
    if phase not in PHASES:
        raise UsageError(f"unknown phase '{phase}'; known: {', '.join(PHASES)}")
    params = params_of(model, phase)
    changeable = [name for name, value in params.items() if isinstance(value, int)]
    for name, value in settings.items():
        if name not in changeable:
            raise UsageError(f"'{name}' is no param of a {phase} workload; {did_you_mean(name, changeable)}")
        params[name] = value
    steps = steps_of(expansion)
    head = [
        "schema: 1",
        f"name: {json.dumps(f'{model.name}, {phase}')}",
        f"dtype: {model.dtype}",
        f"execution: {EXECUTION[phase]}",
        f"params: {_flow(params)}",
        "steps:",
    ]
    return "\n".join([*_comments(model), *head, *(f"  - {_flow(s)}" for s in steps)]) + "\n"


def _comments(model: Model) -> list[str]:
    said = [
        f"Written by 'roofline import hf' from a configuration of type {model.model_type}.",
        f"Parameters in these steps: {written_parameters(model)}.",
        "Layers of one sort stand once, with repeat; residual additions are part of the norms behind them.",
        *model.notes,
    ]
    return [f"# {_line(text)}" for text in said]


def _line(text: str) -> str:
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


def _flow(values: Fields | Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items()) + "}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if isinstance(value, int) or _PLAIN.fullmatch(text) else json.dumps(text)
