"""The keys of a workload file that stand beside ``model``: their types, for reading and for the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.dtypes import CACHE
from roofline.spec.reader import Reader
from roofline.spec.schema import Bool, Choice, DtypeName, Integer, Key, ListOf, Record, Text
from roofline.spec.source import MapNode, Node

ATTENTION = ("flash", "naive")
TRAINABLE = ("full", "lora")


class _Kept:
    """A node that is read later, with its place."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def read(self, node: Node, reader: Reader) -> Node:
        """The node itself."""
        return node

    def json_schema(self) -> dict[str, Any]:
        """What was given."""
        return self.schema


class _Known:
    """One of the words that another room lists. It is asked when a word is read: a workload with steps has none, and starts without."""

    def __init__(self, words: Callable[[], tuple[str, ...]]) -> None:
        self.words = words

    def read(self, node: Node, reader: Reader) -> Any:
        """The word."""
        return Choice(self.words()).read(node, reader)

    def json_schema(self) -> dict[str, Any]:
        """The words."""
        return Choice(self.words()).json_schema()


def _phases() -> tuple[str, ...]:
    from roofline.plan.job import PHASES

    return PHASES


def _optimizers() -> tuple[str, ...]:
    from roofline.models.memory_states import OPTIMIZERS

    return tuple(OPTIMIZERS)


MODEL_KEYS = (
    Key("model", _Kept({"type": ["string", "object"]}), "in place of steps: a shipped name, a config.json beside this file, or its keys"),
    Key("phase", _Known(_phases), "what the model does in this step"),
    Key("kv_dtype", DtypeName(CACHE), "format of cached keys and values; the model's when not given"),
    Key("attention", Choice(ATTENTION), "implementation of attention; flash when not given"),
    Key("page", Integer(0), "keys of a page of the cache, of which whole ones are kept; 0 for none, as when not given"),
    Key("draft", Integer(1, 64), "tokens guessed and then verified in a decoding step"),
    Key("mtp", Bool(), "the model's own modules guess the draft tokens, as steps of their own"),
    Key("trainable", Choice(TRAINABLE), "what training changes: all weights, or low-rank adapters; full when not given"),
    Key("lora_rank", Integer(1, 2**20), "rank of the adapters"),
    Key(
        "lora_targets",
        ListOf(Text("a step"), lone=True),
        "products with adapters; qkv_proj, o_proj, gate_up_proj and down_proj when not given",
    ),
    Key("plan", _Kept({"type": ["string", "object"]}), "how the work is spread, such as tp=8,pp=4; steps are then those of one device"),
    Key("cluster", Text("a cluster"), "shipped cluster whose tiers carry the collectives of the plan"),
    Key("link", Text("a link"), "the one link that carries the collectives of the plan"),
    Key("optimizer", _Known(_optimizers), "what a training step runs; adamw when not given"),
    Key("gradient_dtype", DtypeName(), "format in which gradients are exchanged; the model's when not given"),
    Key("dispatch_dtype", DtypeName(), "format in which tokens travel to their experts; the model's when not given"),
)
MODEL_NAMES = tuple(k.name for k in MODEL_KEYS)


class WorkloadRecord(Record):
    """The keys of a workload, which has steps or a model. When it is read, a model has been replaced by its steps."""

    def read(self, node: Node, reader: Reader) -> Any:
        """The values by key; keys of a model are refused where there is none."""
        values = super().read(node, reader)
        for name in MODEL_NAMES:
            if isinstance(node, MapNode) and name in node.entries:
                reader.fail(node.entries[name].key, f"'{name}' is of a model, and there is no 'model' here")
        return values

    def json_schema(self) -> dict[str, Any]:
        """An object with steps, or with a model and its phase."""
        found = super().json_schema()
        found["required"] = [name for name in found["required"] if name != "steps"]
        either = [{"required": ["steps"], "not": {"required": ["model"]}}, {"required": ["model", "phase"], "not": {"required": ["steps"]}}]
        return {**found, "oneOf": either}
