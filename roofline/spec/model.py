"""A model's configuration file to values with their places: JSON text through the same located reading as all files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofline.errors import InputError
from roofline.models.config import Config, Value
from roofline.models.description import Model
from roofline.models.families import describe
from roofline.models.quantised import Quantisation, quantisation
from roofline.spec.find import find_model
from roofline.spec.source import Entry, ListNode, MapNode, Node, Scalar, parse, read_source

SIDE = "hf_quant_config.json"
"""What some tools write beside a configuration to say how weights are quantised."""


def load_model(path: str) -> tuple[Model, Quantisation | None, tuple[str, ...]]:
    """The model of that file or shipped under that name, its quantisation, and the keys that were ignored.

    Nothing is fetched and nothing is run.

    Raises:
        InputError: what cannot be read or is not understood, all at once, each at its place.
        UsageError: no such name.
    """
    path = path if path == "-" else str(find_model(path))
    return model_of(load_config(path), "model" if path == "-" else _name(Path(path)), path)


def model_of(config: Config, name: str, path: str = "-") -> tuple[Model, Quantisation | None, tuple[str, ...]]:
    """`load_model` from a configuration already read; ``path`` is its file, beside which others may lie.

    Raises:
        InputError: what is not understood, all at once, each at its place.
    """
    nested = config.entries.get("text_config")
    found = describe(config, name)
    side = _side(path)
    holder = config
    if "quantization_config" not in config.entries and nested is not None and isinstance(nested.data, dict):
        holder = config.within(nested, "text_config")
    how = quantisation(holder, side)
    if side is not None:
        side.finish()
    config.finish()
    return found.model, how, tuple(found.ignored)


def load_config(path: str) -> Config:
    """The file's top map."""
    return config_of(parse(read_source(path)))


def config_of(root: Node) -> Config:
    """A map of keys, wherever it stands.

    Raises:
        InputError: it is no map.
    """
    if not isinstance(root, MapNode):
        raise InputError([root.problem("expected a model configuration as a map of keys to values")])
    value = _value(root, None)
    return Config(value.data, value.problem)


def _name(path: Path) -> str:
    """The file's stem, or its folder's where the file has the usual name."""
    return path.resolve().parent.name if path.stem == "config" else path.stem


def _side(path: str) -> Config | None:
    if path == "-":
        return None
    given = Path(path)
    beside = (given.with_name(f"{given.stem}.{SIDE}"), given.with_name(SIDE)) if given.stem != "config" else (given.with_name(SIDE),)
    return next((load_config(str(p)) for p in beside if p.is_file()), None)


def _value(node: Node, entry: Entry | None) -> Value:
    """A node with its meaning in JSON."""
    key = entry.key if entry else node
    data: Any
    if isinstance(node, MapNode):
        data = {name: _value(e.value, e) for name, e in node.entries.items()}
    elif isinstance(node, ListNode):
        data = [_value(item, None) for item in node.items]
    else:
        assert isinstance(node, Scalar)
        data = _scalar(node)
    return Value(data, node.problem, key.problem)


_WORDS = {"null": None, "true": True, "false": False, "": None, "~": None}


def _scalar(node: Scalar) -> Any:
    if node.quoted:
        return node.text
    if node.text in _WORDS:
        return _WORDS[node.text]
    digits = node.text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 40:
        return int(node.text)
    try:
        number = float(node.text)
    except ValueError:
        return node.text
    return number if number - number == 0 else node.text  # not a number, and infinity, stay the words they are
