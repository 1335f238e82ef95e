"""The key ``model`` of a workload file: a model by its configuration in place of steps, expanded into those that ``import hf`` writes.

A model is a shipped name, a map of configuration keys, or the path of a configuration beside or below the workload's own file; any other
path is refused, so that a file from elsewhere cannot make the tool open what its sender chose. Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from roofline.dtypes import DTYPES
from roofline.errors import InputError, RooflineError, did_you_mean
from roofline.hardware.cluster import Cluster
from roofline.models.description import Model
from roofline.models.expansion import PHASES, Expansion, Lora
from roofline.models.phases import params_of, refuse
from roofline.models.quantised import Quantisation
from roofline.models.shape import shape_of
from roofline.models.training import TARGETS
from roofline.models.write import workload_text
from roofline.plan.plan import Plan
from roofline.plan.validate import Case
from roofline.spec.cluster import load_cluster
from roofline.spec.find import SUFFIXES, cluster_names, find_model, model_names
from roofline.spec.model import config_of, load_model, model_of
from roofline.spec.model_keys import MODEL_KEYS, MODEL_NAMES
from roofline.spec.plan import WrittenPlan, checked, plan_node, with_experts
from roofline.spec.planned import Carrier, planned_case, planned_params, planned_text
from roofline.spec.reader import Reader
from roofline.spec.scalars import as_int
from roofline.spec.schema import Record
from roofline.spec.source import Entry, MapNode, Mark, Scalar, Source, parse

Found = TypeVar("Found")


def expanded(root: MapNode, overrides: Sequence[str]) -> tuple[MapNode, list[str]]:
    """The workload with steps and params in place of its model, and the overrides that are still to be applied.

    Overrides of params and of the model's own keys come first, since steps follow from them.

    Raises:
        InputError: all that is wrong with these keys, each at its place.
    """
    root, rest = _given(root, overrides)
    return _Reading(root).workload(), rest


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOfModel:
    """What a workload with a model asks, before any steps are written: the cluster only where it names one."""

    expansion: Expansion
    case: Case
    written: WrittenPlan | None
    cluster: Cluster | None


def asked(root: MapNode, overrides: Sequence[str]) -> AskedOfModel:
    """The model, the job and the plan of such a workload; one device where it has no plan.

    Raises:
        InputError: all that is wrong with these keys, each at its place.
    """
    root, _ = _given(root, overrides)
    return _Reading(root).question()


def _given(root: MapNode, overrides: Sequence[str]) -> tuple[MapNode, list[str]]:
    """Overrides of params and of the model's keys, put in; others are left."""
    from roofline.spec.overrides import SETTINGS

    rest = []
    for text in overrides:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key.isidentifier() or (key in SETTINGS and key != "dtype"):
            rest.append(text)
            continue
        source = Source(f"--set {key}", f"{key}={value}")
        new = Entry(Scalar(source, Mark(1, 1), key, False), Scalar(source, Mark(1, len(key) + 2), value, False))
        root = _put(root, new)
    return root, rest


def _put(root: MapNode, new: Entry) -> MapNode:
    key = new.key.text
    if key in (*MODEL_NAMES, "dtype"):
        return replace(root, entries={**root.entries, key: new})
    params = root.entries.get("params")
    own = params.value if params is not None and isinstance(params.value, MapNode) else MapNode(root.source, root.mark, {})
    inner = replace(own, entries={**own.entries, key: new})
    entry = replace(params, value=inner) if params is not None else Entry(Scalar(root.source, root.mark, "params", False), inner)
    return replace(root, entries={**root.entries, "params": entry})


class _Reading:
    """One workload being read: its keys that speak of a model."""

    def __init__(self, root: MapNode) -> None:
        self.root, self.reader = root, Reader()
        own = {k: e for k, e in root.entries.items() if k in MODEL_NAMES}
        self.top: dict[str, Any] = Record("a workload", MODEL_KEYS).read(replace(root, entries=own), self.reader)
        if "steps" in root.entries:
            self.reader.fail(root.entries["steps"].key, "'steps' and 'model' exclude each other: a model has its own steps")
        if "phase" not in own:
            self.reader.fail(root.entries["model"].value, f"a model needs 'phase': {', '.join(PHASES)}")
        self.settings = self._settings()
        self.carrier = self._carrier()

    def _settings(self) -> dict[str, int]:
        """The params that are given, each a whole number."""
        entry = self.root.entries.get("params")
        found: dict[str, int] = {}
        if entry is None:
            return found
        if not isinstance(entry.value, MapNode):
            self.reader.fail(entry.value, "expected params as a map of names to whole numbers")
            return found
        for name, param in entry.value.entries.items():
            try:
                if not isinstance(param.value, Scalar):
                    raise ValueError("expected a whole number")
                found[name] = as_int(param.value)
                if not (0 if name == "cached" else 1) <= found[name] < 2**53:
                    raise ValueError(f"{found[name]} is out of range: from 1 to 2**53")
            except ValueError as error:
                self.reader.fail(param.value, f"{name}: {error}; beside a model params are numbers")
        return found

    def workload(self) -> MapNode:
        """The map with params and steps as if they had been written."""
        model, how = self._tried("model", self._model)
        self.reader.finish()
        dtype = self.root.entries.get("dtype")
        if dtype is not None and isinstance(dtype.value, Scalar) and dtype.value.text in DTYPES:  # others are refused where they are read
            model = replace(model, dtype=dtype.value.text)
        written = self._plan(model)
        expansion = self._expansion(model, how, written)
        self._known(planned_params(expansion) if expansion.parallel else params_of(expansion))
        self.reader.finish()
        if written is not None:
            checked(written, planned_case(expansion, self.settings, self.carrier.cluster))
        text = self._tried("phase", lambda: self._text(expansion))
        made = parse(Source(f"{self.root.source.path} (steps of {model.name})", text))
        assert isinstance(made, MapNode)
        kept = {k: e for k, e in self.root.entries.items() if k not in (*MODEL_NAMES, "params", "steps")}
        if "cluster" in self.root.entries:  # whose device is meant, unless another is named
            kept.setdefault("hardware", self.root.entries["cluster"])
        return replace(self.root, entries={**made.entries, **kept})

    def question(self) -> AskedOfModel:
        """What is asked, with the rules of plans not yet applied."""
        model, how = self._tried("model", self._model)
        self.reader.finish()
        written = self._plan(model)
        expansion = replace(self._expansion(model, how, written), plan=written.plan if written is not None else Plan())
        self._tried("phase", lambda: refuse(expansion))
        self._known(planned_params(expansion))
        self.reader.finish()
        case = planned_case(expansion, self.settings, self.carrier.cluster)
        return AskedOfModel(expansion=expansion, case=case, written=written, cluster=self.carrier.cluster)

    def _tried(self, key: str, call: Callable[[], Found]) -> Found:
        """What a call gives; what it refuses without a place is said at the key."""
        try:
            return call()
        except InputError as error:
            raise InputError([*self.reader.problems, *error.problems]) from None
        except RooflineError as error:
            entry = self.root.entries.get(key) or self.root.entries["model"]
            raise InputError([*self.reader.problems, entry.value.problem(str(error))]) from None

    # ---------------------------------------------------------------- the model
    def _model(self) -> tuple[Model, Quantisation | None]:
        node = self.root.entries["model"].value
        if isinstance(node, MapNode):
            return model_of(config_of(node), "model")[:2]
        if not isinstance(node, Scalar) or not node.text:
            raise InputError([node.problem("expected the name of a model, the path of a config.json, or a map of its keys")])
        if node.text in model_names():
            return load_model(str(find_model(node.text)))[:2]
        if not node.text.endswith(SUFFIXES):
            hint = did_you_mean(node.text, model_names())
            raise InputError([node.problem(f"unknown model '{node.text}'; {hint}; or the path of a config.json beside this file")])
        return load_model(str(_beside(node)))[:2]

    def _carrier(self) -> Carrier:
        """The cluster or the link, by name only: a workload must not make the tool open other files."""
        entries = self.root.entries
        for key in ("cluster", "link"):
            if "plan" not in entries and key in entries:
                self.reader.fail(entries[key].key, f"'{key}' carries the collectives of a plan, and there is no 'plan'")
        if "cluster" in entries and "link" in entries:
            self.reader.fail(entries["link"].key, "'cluster' and 'link' exclude each other")
        name = self.top.get("cluster")
        if name is None:
            return Carrier(link=self.top.get("link"))
        if name in cluster_names():
            return Carrier(cluster=load_cluster(name))
        self.reader.fail(entries["cluster"].value, f"unknown cluster '{name}'; {did_you_mean(name, cluster_names())}")
        return Carrier()

    def _plan(self, model: Model) -> WrittenPlan | None:
        entry = self.root.entries.get("plan")
        if entry is None:
            return None
        written = self._tried("plan", lambda: plan_node(entry.value))
        return replace(written, plan=with_experts(written, shape_of(model)))

    def _expansion(self, model: Model, how: Quantisation | None, written: WrittenPlan | None) -> Expansion:
        top, plan = self.top, written.plan if written is not None else None
        lora = None
        if top.get("trainable") == "lora":
            if "lora_rank" not in top:
                self.reader.fail(self.root.entries["trainable"].value, "trainable: lora needs 'lora_rank'")
            lora = Lora(rank=top.get("lora_rank", 1), targets=top.get("lora_targets", TARGETS))
        elif "lora_rank" in top or "lora_targets" in top:
            self.reader.fail(self.root.entries["model"].value, "lora_rank and lora_targets are of 'trainable: lora'")
        plain = {k: top[k] for k in ("kv_dtype", "attention", "draft", "mtp", "page", "gradient_dtype", "dispatch_dtype") if k in top}
        cached = top.get("phase") == "prefill" and self.settings.get("cached", 0) > 0
        images = top.get("phase") == "prefill" and "images" in self.settings
        return Expansion(
            model=model, phase=top.get("phase", "prefill"), how=how, plan=plan, lora=lora, cached=cached, images=images, **plain
        )

    def _known(self, params: dict[str, Any]) -> None:
        """Every param that is given exists and may be changed."""
        changeable = [name for name, value in params.items() if isinstance(value, int)]
        entry = self.root.entries.get("params")
        for name, param in entry.value.entries.items() if entry is not None and isinstance(entry.value, MapNode) else ():
            if name not in changeable:
                said = f"a {self.top.get('phase', '')} step of this model has no param '{name}'; {did_you_mean(name, changeable)}"
                self.reader.fail(param.key, said)

    def _text(self, expansion: Expansion) -> str:
        if expansion.plan is None:
            return workload_text(expansion, self.settings)
        return planned_text(expansion, self.settings, self.carrier)


def _beside(node: Scalar) -> Path:
    """The file of a relative path beside or below the workload's own, links followed.

    Raises:
        InputError: an absolute path, or one that leads elsewhere.
    """
    name = node.source.path
    folder = Path.cwd() if name.startswith(("<", "--set")) else Path(name).parent
    path = folder / node.text
    if Path(node.text).is_absolute() or not path.resolve().is_relative_to(folder.resolve()):
        raise InputError([node.problem("a model's file lies beside the workload or below it; import others with 'roofline import hf'")])
    return path
