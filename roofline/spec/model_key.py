"""The key ``model`` of a workload file: a model by its configuration in place of steps, expanded into those that ``import hf`` writes.

A model is a shipped name, a map of configuration keys, or the path of a configuration beside or below the workload's own file; any other
path is refused, so that a file from elsewhere cannot make the tool open what its sender chose. Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from roofline.dtypes import DTYPES
from roofline.errors import InputError, RooflineError, did_you_mean
from roofline.hardware.cluster import Cluster
from roofline.models.description import Experts, Model
from roofline.models.expansion import PHASES, Expansion, Lora
from roofline.models.phases import NO_EXPERTS, params_of, refuse
from roofline.models.quantised import Quantisation
from roofline.models.shape import shape_of
from roofline.models.training import TARGETS
from roofline.models.write import workload_text
from roofline.plan.job import Job
from roofline.plan.validate import Case
from roofline.spec.cluster import load_cluster
from roofline.spec.find import SUFFIXES, cluster_names, find_model, model_names
from roofline.spec.model import config_of, load_model, model_of
from roofline.spec.model_keys import MODEL_KEYS, MODEL_NAMES
from roofline.spec.plan import WrittenPlan, checked, plan_node, read_plan, with_unsaid
from roofline.spec.planned import Carrier, as_named, planned_case, planned_params, planned_text
from roofline.spec.reader import Reader
from roofline.spec.scalars import as_int
from roofline.spec.schema import Record
from roofline.spec.sizes import ENCODE, SAME, NamedTwice, nothing_left
from roofline.spec.source import Entry, MapNode, Mark, Scalar, Source, parse

Found = TypeVar("Found")
CHOICES = ("kv_dtype", "attention", "draft", "mtp", "page", "gradient_dtype", "dispatch_dtype", "optimizer")
"""Keys that an expansion has under the same name."""


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
    written: WrittenPlan
    cluster: Cluster | None
    execution: str | None
    hardware: Scalar | None


def asked(
    root: MapNode,
    overrides: Sequence[str],
    options: Mapping[str, str] | None = None,
    plan: WrittenPlan | None = None,
    devices: int | None = None,
) -> AskedOfModel:
    """The model, the job and the plan of such a workload; one device where it has no plan.

    ``options`` are keys that the command line gives by options of their own, ``plan`` one in place of the file's, and ``devices`` what
    a plan without ``dp`` spreads over.

    Raises:
        InputError: all that is wrong with these keys, each at its place.
    """
    for key, word in (options or {}).items():
        option = Source(f"--{key.replace('_', '-')}", word)
        root = _put(root, Entry(Scalar(option, Mark(1, 1), key, False), Scalar(option, Mark(1, 1), word, False)))
    root, rest = _given(root, overrides)
    return _Reading(root, plan, devices).question(rest)


def plan_of_file(source: Source, overrides: Sequence[str]) -> Case | None:
    """The job and the plan of a workload with a model, whose rules it obeys; None for other workloads, and without a plan.

    Raises:
        InputError: all that is wrong with its keys, each at its place.
    """
    root = parse(source)
    if not isinstance(root, MapNode) or "model" not in root.entries:
        return None
    return _Reading(_given(root, overrides)[0]).case()


def job_of_file(source: Source, overrides: Sequence[str]) -> tuple[Model, Job, Cluster | None] | None:
    """The model of a workload, what it does, and the cluster that the file names; None for workloads of steps.

    Raises:
        InputError: all that is wrong with its keys, each at its place.
    """
    root = parse(source)
    if not isinstance(root, MapNode) or "model" not in root.entries:
        return None
    reading = _Reading(_given(root, overrides)[0])
    return reading.model_and_job()


def _given(root: MapNode, overrides: Sequence[str]) -> tuple[MapNode, list[str]]:
    """Overrides of params and of the model's keys, put in; others are left. The device is both, since a cluster must have it."""
    from roofline.spec.overrides import SETTINGS

    rest = []
    for text in overrides:
        key, equals, value = (part.strip() for part in text.partition("="))
        setting = key in SETTINGS and key != "dtype"
        if not equals or not key.isidentifier() or setting:
            rest.append(text)
        if equals and key.isidentifier() and (not setting or key == "hardware"):
            source = Source(f"--set {key}", f"{key}={value}")
            new = Entry(Scalar(source, Mark(1, 1), key, False), Scalar(source, Mark(1, len(key) + 2), value, False))
            root = _put(root, new)
    return root, rest


def _put(root: MapNode, new: Entry) -> MapNode:
    key = new.key.text
    if key in (*MODEL_NAMES, "dtype", "hardware"):
        return replace(root, entries={**root.entries, key: new})
    params = root.entries.get("params")
    own = params.value if params is not None and isinstance(params.value, MapNode) else MapNode(root.source, root.mark, {})
    others = next((names for names, _ in SAME.values() if key in names), ())  # in a file they give way to the command line's
    kept = {k: e for k, e in own.entries.items() if k not in others or e.key.source.path.startswith("--")}
    inner = replace(own, entries={**kept, key: new})
    entry = replace(params, value=inner) if params is not None else Entry(Scalar(root.source, root.mark, "params", False), inner)
    return replace(root, entries={**root.entries, "params": entry})


def another_device(name: str, cluster: Cluster) -> str | None:
    """Why a device is none of a cluster, None where it is: the steps of a rank and the exchanges between ranks are of one machine."""
    if name in (cluster.name, cluster.device.name):
        return None
    return f"hardware '{name}' is not of cluster {cluster.name}, whose devices are {cluster.device.name}: leave one of them out"


class _Reading:
    """One workload being read: its keys that speak of a model."""

    def __init__(self, root: MapNode, plan: WrittenPlan | None = None, devices: int | None = None) -> None:
        self.root, self.reader, self.plan, self.devices = root, Reader(), plan, devices
        own = {k: e for k, e in root.entries.items() if k in MODEL_NAMES}
        self.top: dict[str, Any] = Record("a workload", MODEL_KEYS).read(replace(root, entries=own), self.reader)
        if "steps" in root.entries:
            self.reader.fail(root.entries["steps"].key, "'steps' and 'model' exclude each other: a model has its own steps")
        if "phase" not in own:
            self.reader.fail(root.entries["model"].value, f"a model needs 'phase': {', '.join(PHASES)}")
        self.settings = self._settings()
        plain = self.top.get("phase") == "prefill" and self.settings.get("cached") == 0
        self.unread = self._param("cached") if plain else None  # a prefix of no tokens is none: a number that no step reads
        if plain:
            del self.settings["cached"]
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
                least = 0 if name == "cached" else 1
                if not least <= found[name] < 2**53:
                    raise ValueError(f"{found[name]} is out of range: from {least} to 2**53")
            except ValueError as error:
                self.reader.fail(param.value, f"{name}: {error}; beside a model params are numbers")
        return found

    def workload(self) -> MapNode:
        """The map with params and steps as if they had been written."""
        device, cluster = self.root.entries.get("hardware"), self.carrier.cluster
        named = device.value.text if device is not None and isinstance(device.value, Scalar) else None
        if device is not None and named and cluster is not None and (said := another_device(named, cluster)):
            self.reader.fail(device.value, said)
        model, how = self._tried("model", self._model)
        self.reader.finish()
        written = self._plan(model)
        expansion = self._expansion(model, how, written)
        self._known(planned_params(expansion) if expansion.parallel else params_of(expansion))
        self.reader.finish()
        if written is not None:
            checked(written, planned_case(expansion, self.settings, self.carrier.cluster))
        text = self._tried("phase", lambda: self._text(expansion))
        made = parse(Source(f"{self.root.source.path} (steps of {model.name})", text))
        assert isinstance(made, MapNode)
        made = _put(made, self.unread) if self.unread is not None else made
        kept = {k: e for k, e in self.root.entries.items() if k not in (*MODEL_NAMES, "params", "steps")}
        if "cluster" in self.root.entries:  # whose device is meant, unless another is named
            kept.setdefault("hardware", self.root.entries["cluster"])
        return replace(self.root, entries={**made.entries, **kept})

    def case(self) -> Case | None:
        """What the rules of plans are asked about, None without a plan."""
        model, how = self._tried("model", self._model)
        self.reader.finish()
        written = self._plan(model)
        expansion = self._expansion(model, how, written)
        self.reader.finish()
        return None if written is None else planned_case(expansion, self.settings, self.carrier.cluster)

    def model_and_job(self) -> tuple[Model, Job, Cluster | None]:
        """The model and its job, on one device where there is no plan."""
        model, how = self._tried("model", self._model)
        self.reader.finish()
        expansion = self._expansion(model, how, self._plan(model) or read_plan(""))
        self.reader.finish()
        return model, planned_case(expansion, self.settings, self.carrier.cluster).job, self.carrier.cluster

    def question(self, rest: Sequence[str]) -> AskedOfModel:
        """What is asked, with the rules of plans not yet applied; ``rest`` are overrides of what is no param and no key of a model."""
        others = self._others(rest)
        model, how = self._tried("model", self._model)
        self.reader.finish()
        written = self._plan(model) or read_plan("", devices=self.devices)
        expansion = self._expansion(model, how, written)
        self._tried("phase", lambda: refuse(expansion))
        if expansion.phase == "encode":
            self.reader.fail(self.root.entries["phase"].value, ENCODE)
        self._known(planned_params(expansion))
        self.reader.finish()
        case = planned_case(expansion, self.settings, self.carrier.cluster)
        execution, hardware = others.get("execution"), others.get("hardware")
        return AskedOfModel(
            expansion=expansion, case=case, written=written, cluster=self.carrier.cluster, execution=execution, hardware=hardware
        )  # fmt: skip

    def _others(self, rest: Sequence[str]) -> dict[str, Any]:
        """The keys of the workload that are no model's, read as where steps are made; those that a plan cannot heed are refused."""
        from roofline.spec.overrides import overridden
        from roofline.spec.workload import workload_record

        own = {k: e for k, e in self.root.entries.items() if k not in (*MODEL_NAMES, "params", "steps")}
        root = overridden(replace(self.root, entries=own), rest)
        keys = tuple(k for k in workload_record().keys if k.name not in ("steps", "params"))
        found: dict[str, Any] = Record("a workload", keys).read(root, self.reader)
        if found.get("traffic", "compulsory") != "compulsory":
            said = f"a plan takes its times from compulsory bytes, and traffic {found['traffic']} is of 'roofline analyze'"
            self.reader.fail(root.entries["traffic"].value, said)
        if "hardware" in found:  # with its place, since who asks has the cluster that it must be of
            found["hardware"] = root.entries["hardware"].value
        return found

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
        model, how = self._as_stored()
        dtype = self.root.entries.get("dtype")
        if dtype is not None and isinstance(dtype.value, Scalar) and dtype.value.text in DTYPES:  # others are refused where they are read
            model = replace(model, dtype=dtype.value.text)
        return model, how

    def _as_stored(self) -> tuple[Model, Quantisation | None]:
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
        entry, written = self.root.entries.get("plan"), self.plan
        if written is None:
            if entry is None:
                return None
            written = self._tried("plan", lambda: plan_node(entry.value, devices=self.devices))
        spread = with_unsaid(written, shape_of(model), str(self.top.get("phase")))
        return self._with_microbatch(replace(written, plan=spread))

    def _with_microbatch(self, written: WrittenPlan) -> WrittenPlan:
        """The plan with the param ``microbatch``, of training and of a prefill through stages, which is the plan's in another place."""
        given, phase = self.settings.get("microbatch"), self.top.get("phase")
        if given is None or not (phase == "train" or (phase == "prefill" and written.plan.pp != 1)):
            return written
        entry = self._param("microbatch")
        if not written.says("microbatch"):
            nodes = {**written.nodes, "microbatch": entry.value}
            return replace(written, plan=replace(written.plan, microbatch=given), nodes=nodes)
        if given != written.plan.microbatch and self.plan is not None and not entry.key.source.path.startswith("--"):
            self.settings["microbatch"] = int(written.plan.microbatch)  # that of the command line stands
        elif given != written.plan.microbatch:
            self.reader.fail(entry.value, f"microbatch {given} here and {written.plan.microbatch} in the plan: give it in one place")
        return written

    def _expansion(self, model: Model, how: Quantisation | None, written: WrittenPlan | None) -> Expansion:
        top, plan = self.top, written.plan if written is not None else None
        lora = None
        if top.get("trainable") == "lora":
            if "lora_rank" not in top:
                self.reader.fail(self.root.entries["trainable"].value, "trainable: lora needs 'lora_rank'")
            lora = Lora(rank=top.get("lora_rank", 1), targets=top.get("lora_targets", TARGETS))
        elif "lora_rank" in top or "lora_targets" in top:
            said = self.root.entries["lora_rank" if "lora_rank" in top else "lora_targets"]
            self.reader.fail(said.key, "lora_rank and lora_targets are of 'trainable: lora'")
        plain = {k: top[k] for k in CHOICES if k in top}
        if "dispatch_dtype" in top and not any(isinstance(layer.feed, Experts) for layer in model.layers):
            self.reader.fail(self.root.entries["dispatch_dtype"].value, f"dispatch_dtype: {NO_EXPERTS.format(model.name)}")
            del plain["dispatch_dtype"]
        cached = top.get("phase") == "prefill" and self.settings.get("cached", 0) > 0
        images = top.get("phase") == "prefill" and "images" in self.settings
        return Expansion(
            model=model, phase=top.get("phase", "prefill"), how=how, plan=plan, lora=lora, cached=cached, images=images, **plain
        )

    def _param(self, name: str) -> Entry:
        params = self.root.entries["params"].value
        assert isinstance(params, MapNode)
        return params.entries[name]

    def _known(self, params: dict[str, Any]) -> None:
        """Every param that is given exists and may be changed; the sequences of all devices have two names."""
        changeable = [name for name, value in params.items() if isinstance(value, int)]
        phase = self.top.get("phase", "")
        try:
            self.settings = as_named(self.settings, params, phase)
        except NamedTwice as error:
            self.reader.fail(self._param(error.name).key, str(error))
            return
        for name in self.settings:
            if name not in changeable:
                said = f"a {phase} step of this model has no param '{name}'; {did_you_mean(name, changeable)}"
                self.reader.fail(self._param(name).key, said)
        cached, seq = self.settings.get("cached", 0), self.settings.get("seq", params.get("seq"))
        if phase == "prefill" and isinstance(seq, int) and cached >= seq:
            self.reader.fail(self._param("cached").value, nothing_left(cached, seq))

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
