"""Steps as the text of a workload file, one step a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from roofline.errors import UsageError, did_you_mean
from roofline.models.expansion import META, PHASES, Expansion, Fields
from roofline.models.phases import params_of, refuse
from roofline.models.tower_params import beside, require_length
from roofline.models.vision import UNSEEN
from roofline.models.whole import parameters_in, steps_of

_PLAIN = re.compile(r"[A-Za-z0-9_(][A-Za-z0-9_ ()*/+.<>=-]*")
EXECUTION = {"prefill": "engine", "decode": "engine", "train": "eager", "mixed": "engine", "encode": "engine"}


def workload_text(expansion: Expansion, settings: Mapping[str, int]) -> str:
    """The workload file of a model in a phase on one device; ``settings`` change its params.

    Raises:
        UsageError: a phase or a param that does not exist.
    """
    require_phase(expansion.phase)
    refuse(expansion)
    params = checked_settings(params_of(expansion), settings, expansion.phase)
    if "seq" in settings:
        require_length(expansion.model, settings["seq"])
    return document(expansion, params, steps_of(expansion), ())


def require_phase(phase: str) -> None:
    """Refuse a phase that is none.

    Raises:
        UsageError: with those that are.
    """
    if phase not in PHASES:
        raise UsageError(f"unknown phase '{phase}'; known: {', '.join(PHASES)}")


def checked_settings(params: Mapping[str, int | str], settings: Mapping[str, int], phase: str) -> dict[str, int | str]:
    """The params with these changed.

    Raises:
        UsageError: a name that is no param, or one that follows from others.
    """
    changeable = [name for name, value in params.items() if isinstance(value, int)]
    for name in settings:
        if name not in changeable:
            raise UsageError(f"'{name}' is no param of a {phase} workload; {did_you_mean(name, changeable)}")
    return {**params, **settings}


def document(expansion: Expansion, params: Mapping[str, int | str], steps: Iterable[Fields], said: Iterable[str]) -> str:
    """The text of a workload file; ``said`` are further comments."""
    model, phase = expansion.model, expansion.phase
    settings = {"dtype": model.dtype, "execution": EXECUTION[phase], "params": _flow(params)}
    return file_text(f"{model.name}, {phase}", settings, steps, _comments(expansion, said))


def file_text(name: str, settings: Mapping[str, str], steps: Iterable[Fields | Mapping[str, Any]], said: Iterable[str]) -> str:
    """A workload file of that name: comments, settings, and one step a line."""
    comments = [f"# {_line(text)}" for text in said]
    head = ["schema: 1", f"name: {json.dumps(name)}", *(f"{key}: {value}" for key, value in settings.items()), "steps:"]
    return "\n".join([*comments, *head, *(f"  - {_flow(s)}" for s in steps)]) + "\n"


def _comments(expansion: Expansion, said: Iterable[str]) -> list[str]:
    model = expansion.model
    counted = [] if expansion.parallel else [f"Parameters in these steps: {parameters_in(expansion)}."]
    return [
        f"Written by 'roofline import hf' from a configuration of type {model.model_type}.",
        *counted,
        *said,
        "Layers of one sort stand once, with repeat; residual additions are part of the norms behind them.",
        *(n for n in model.notes if n != UNSEEN or beside(model, expansion.phase, expansion.images) is None),
    ]


def _line(text: str) -> str:
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


def _flow(values: Fields | Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items() if key not in META) + "}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if isinstance(value, int) or _PLAIN.fullmatch(text) else json.dumps(text)
