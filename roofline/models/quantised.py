"""Which weights are stored in which format: ``quantization_config`` blocks and files beside a configuration.

Patterns are those of the tools that wrote them: a name, a name with ``*``, or after ``re:`` a regular expression, of which only the
harmless part is understood (text, ``.*``, one level of alternatives), since a file from elsewhere must not stall the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

from roofline.models.config import Config, Value
from roofline.models.weights import Weight

_SAFE = re.compile(r"\^?(?:[\w\-]|\\\.|\.\*|\.|\((?:[\w]+)(?:\|[\w]+)*\)){1,200}\$?")
MOST_STARS = 3
METHODS = ("fp8", "mxfp4", "compressed-tensors", "modelopt", "gptq", "awq")
SAME = {"gate": "router", "feed_forward": "mlp", "block_sparse_moe": "mlp"}
"""Names of checkpoints that are called otherwise here."""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How weights are stored. ``block`` weights share a scale of ``scale_bytes``: rows and columns of a block, 0 for a whole column."""

    name: str
    dtype: str
    block: tuple[int, int]
    scale_bytes: int
    kept: Callable[[str], bool]
    only_experts: bool = False
    computes: str | None = None
    kv_dtype: str | None = None

    def takes(self, weight: Weight) -> bool:
        """Whether a weight is stored in this format."""
        if not weight.linear or self.kept(weight.path):
            return False
        return not self.only_experts or ".experts." in weight.path

    def scale_bytes_of(self, weight: Weight) -> int:
        """Bytes of the scales of a weight."""
        rows, columns = self.block
        down = -(-weight.rows // rows) if rows else 1
        across = -(-weight.columns // columns) if columns else 1
        return down * across * self.scale_bytes * weight.copies


def quantisation(config: Config, side: Config | None = None) -> Quantisation | None:
    """What ``quantization_config`` (or the file beside the configuration) says; None where weights are as computed."""
    found = config.section("quantization_config") or side
    if found is None:
        return None
    inner = found.section("quantization") if "quantization" in found.entries else found
    assert inner is not None
    method = inner.word("quant_method", "quant_algo").lower()
    if "quant_algo" in inner.entries or method == "modelopt":
        return _modelopt(inner)
    readers = {"fp8": _fp8, "mxfp4": _mxfp4, "compressed-tensors": _compressed, "gptq": _four_bits, "awq": _four_bits}
    if method not in readers:
        config.fail(inner.find("quant_method"), f"quantisation '{method}' is not supported; supported: {', '.join(METHODS)}")
        return None
    return readers[method](inner)


def _fp8(q: Config) -> Quantisation:
    """fp8 with fp32 scales of blocks; without blocks one scale a matrix."""
    q.word("fmt", default="e4m3", options=("e4m3", "float8_e4m3fn", "e5m2"))
    sizes = [v.data for v in q.items("weight_block_size") or []]
    block = (sizes[0], sizes[1]) if len(sizes) == 2 and all(isinstance(s, int) and s > 0 for s in sizes) else (0, 0)
    kept = _names(q, "modules_to_not_convert", "ignored_layers")
    return Quantisation("fp8", "fp8_e4m3", block, 4, kept, computes="fp8")


def _mxfp4(q: Config) -> Quantisation:
    """fp4 experts, a scale of a byte for 32."""
    kept = _names(q, "modules_to_not_convert")
    return Quantisation("mxfp4", "fp4", (32, 1), 1, kept, only_experts=True)


def _four_bits(q: Config) -> Quantisation:
    """int4 with a 2-byte scale for a group."""
    bits = q.integer("bits", "w_bit", default=4)
    group = q.integer("group_size", "q_group_size", default=128, minimum=-1)
    if bits not in (4, 8):
        q.fail(q.find("bits", "w_bit"), f"{bits} bits are not supported; 4 or 8")
    return Quantisation("int4", "int8" if bits == 8 else "int4", (max(group, 0), 1), 2, _names(q, "modules_to_not_convert"))


def _compressed(q: Config) -> Quantisation | None:
    """The first group of a compressed-tensors block, which must be the only one."""
    groups = q.section("config_groups")
    kept = _names(q, "ignore")
    if groups is None or len(groups.entries) != 1:
        q.fail(None, "compressed-tensors with one group of weights is supported")
        return None
    group = groups.section(next(iter(groups.entries)))
    weights = group.section("weights") if group else None
    if weights is None:
        return None
    bits, kind = weights.integer("num_bits"), weights.word("type", default="int")
    size = weights.integer("group_size", default=0, minimum=-1)
    dtype = {(8, "float"): "fp8_e4m3", (4, "float"): "fp4", (8, "int"): "int8", (4, "int"): "int4"}.get((bits, kind))
    if dtype is None:
        q.fail(weights.find("num_bits"), f"{bits}-bit {kind} weights are not supported")
        return None
    whole = weights.word("strategy", default="group") == "tensor"
    by_activations = group is not None and group.find("input_activations") is not None
    computes = {"fp8_e4m3": "fp8", "int8": "int8", "fp4": "fp4"}.get(dtype) if by_activations else None
    return Quantisation(dtype, dtype, (max(size, 0), int(not whole)), 2, kept, computes=computes, kv_dtype=_cache(q))


def _cache(q: Config) -> str | None:
    scheme = q.section("kv_cache_scheme")
    return "fp8" if scheme is not None and scheme.integer("num_bits", default=8) == 8 else None


def _modelopt(q: Config) -> Quantisation | None:
    """A file beside the configuration: FP8 with one scale a matrix, or NVFP4 with a scale of a byte for 16."""
    algorithm = q.word("quant_algo").upper()
    kept, cache = _names(q, "exclude_modules", "ignore"), {"FP8": "fp8"}.get(q.word("kv_cache_quant_algo").upper())
    if algorithm == "FP8":
        return Quantisation("fp8", "fp8_e4m3", (0, 0), 4, kept, computes="fp8", kv_dtype=cache)
    if algorithm == "NVFP4":
        return Quantisation("nvfp4", "fp4", (16, 1), 1, kept, computes="fp4", kv_dtype=cache)
    q.fail(q.find("quant_algo"), f"quantisation '{algorithm}' is not supported; FP8 or NVFP4")
    return None


# --------------------------------------------------------------------------- names
def _names(q: Config, *keys: str) -> Callable[[str], bool]:
    """Whether the path of a weight is among the names that stay as they are; the head always does where nothing is said."""
    given: list[Value] = [v for key in keys for v in q.items(key) or []]
    exact: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    for value in given:
        text: Any = value.data
        if not isinstance(text, str):
            q.fail(value, "expected the name of a module")
        elif text.startswith("re:"):
            if not _SAFE.fullmatch(text[3:]) or text.count("*") > MOST_STARS:
                q.fail(value, "this pattern is not understood; use names, '.*' and one level of alternatives")
            else:
                patterns.append(re.compile(text[3:]))
        elif "*" in text:
            if text.count("*") > MOST_STARS:
                q.fail(value, "too many '*' in this pattern")
            else:
                patterns.append(re.compile(translate(_here(text) + ("" if text.endswith("*") else "*"))))
        else:
            exact.add(_here(text))
    named = bool(given)

    def kept(path: str) -> bool:
        short = _here(path)
        if not named and short == "lm_head":
            return True
        last = short.split(".")[2:] if short.startswith("layers.") else [short]
        if short in exact or any(".".join(last[: i + 1]) in exact or last[i] in exact for i in range(len(last))):
            return True
        return any(p.match(short) or p.match(path) for p in patterns)

    return kept


def _here(path: str) -> str:
    """A module's name without the prefixes of its checkpoint, its parts called as here."""
    bare = re.sub(r"^(?:language_model\.)?(?:model\.)?(?:language_model\.)?", "", path)
    return ".".join(SAME.get(part, part) for part in bare.split("."))


def stored(weights: Iterable[Weight], how: Quantisation | None, dtype: str) -> Iterable[tuple[Weight, str, int]]:
    """Each weight with the format it is stored in and the bytes of its scales."""
    for weight in weights:
        taken = how is not None and how.takes(weight)
        yield weight, (how.dtype if taken and how else dtype), (how.scale_bytes_of(weight) if taken and how else 0)
