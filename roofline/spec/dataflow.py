"""Dataflow files: YAML or JSON text to `Dataflow`, with every inconsistency reported at its place.

Params may be expressions over those before them; tiles, derived names (``let``) and all amounts are expressions over
params, tiles and what the device is known by. Overrides from the command line replace nodes before anything is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from roofline.dataflow.check import Complaint, Stated, complaints
from roofline.dataflow.form import Access, Dataflow, Kernel, Loop, Product, Tensor, Tile, Work, amount
from roofline.dtypes import dtype as find_dtype
from roofline.errors import InputError, UsageError, did_you_mean
from roofline.numeric import Number
from roofline.spec.dataflow_keys import LIMITS, TENSOR, TILE, dataflow_record, kernel_record
from roofline.spec.find import find_dataflow
from roofline.spec.formula import Amount
from roofline.spec.kind import require
from roofline.spec.reader import INVALID, Reader, kind
from roofline.spec.source import Entry, ListNode, MapNode, Mark, Node, Scalar, Source, parse, read_source
from roofline.spec.workload import _params

STAND_IN: dict[str, Number] = {"sram": 232448, "processors": 132, "l2_bytes": 52428800, "mma_rows": 64}
"""What expressions are checked with where no device is given; no figure that is shown comes from these."""


# --------------------------------------------------------------------------- loading
def load_dataflow(name: str, overrides: Sequence[str] = (), machine: Mapping[str, Number] | None = None) -> Dataflow:
    """The dataflow in that file or shipped under that name; ``overrides`` are ``key=value`` for params, tiles and dtype.

    ``machine`` is what expressions may know of the device (`roofline.dataflow.form.MACHINE_NAMES`).

    Raises:
        InputError: problems in the file, all of them.
        UsageError: no such dataflow, or an override that is not ``key=value``.
    """
    return read_dataflow(read_source(str(find_dataflow(name))), overrides, machine)


def read_dataflow(source: Source, overrides: Sequence[str] = (), machine: Mapping[str, Number] | None = None) -> Dataflow:
    """`load_dataflow` from text already read."""
    root = overridden(require(parse(source), "a dataflow"), overrides)
    reader = Reader()
    top = dataflow_record().read(root, reader)
    reading = _Reading(root, reader, top, dict(machine or STAND_IN))
    flow = reading.flow()
    reader.finish()
    assert flow is not None
    problems = [reading.place(c).problem(c.message) for c in complaints(flow, reading.machine, reading.limits)]
    if problems:
        raise InputError(problems)
    return flow


def setting_names(name: str) -> list[str]:
    """What ``--set`` may change in the dataflow of that name, whatever else is wrong with it."""
    return settings_of(require(parse(read_source(str(find_dataflow(name)))), "a dataflow"))


def settings_of(root: MapNode) -> list[str]:
    """What ``--set`` may change: params, tiles and the dtype."""
    found = ["dtype"]
    for part in ("params", "tiles"):
        entry = root.entries.get(part)
        if entry is not None and isinstance(entry.value, MapNode):
            found += entry.value.entries
    return found


def overridden(root: MapNode, overrides: Sequence[str]) -> MapNode:
    """The dataflow with ``key=value`` put in.

    Raises:
        UsageError: an override that is not ``key=value``.
        InputError: overrides that name nothing, all of them.
    """
    problems = []
    for text in overrides:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise UsageError(f"--set {text}: write key=value, such as tile_m=128")
        source = Source(f"--set {key}", f"{key}={value}")
        new = Entry(Scalar(source, Mark(1, 1), key, False), Scalar(source, Mark(1, len(key) + 2), value, False))
        if key not in (known := settings_of(root)):
            problems.append(new.key.problem(f"the dataflow has no param or tile '{key}'; {did_you_mean(key, known)}"))
            continue
        root = _with(root, key, new)
    if problems:
        raise InputError(problems)
    return root


def _with(root: MapNode, key: str, new: Entry) -> MapNode:
    for part in ("params", "tiles"):
        entry = root.entries.get(part)
        if entry is not None and isinstance(entry.value, MapNode) and key in entry.value.entries:
            old = entry.value.entries[key].value
            if part == "tiles" and isinstance(old, MapNode):
                new = replace(new, value=replace(old, entries={**old.entries, "value": Entry(new.key, new.value)}))
            inner = replace(entry.value, entries={**entry.value.entries, key: new})
            return replace(root, entries={**root.entries, part: replace(entry, value=inner)})
    return replace(root, entries={**root.entries, key: new})


# --------------------------------------------------------------------------- reading
class _Reading:
    """One file being read: its values, and where each part stands."""

    def __init__(self, root: MapNode, reader: Reader, top: Mapping[str, Any], machine: dict[str, Number]) -> None:
        self.root, self.reader, self.top, self.machine = root, reader, top, machine
        self.nodes: dict[tuple[Any, ...], Node] = {}
        self.limits = Stated()

    def flow(self) -> Dataflow | None:
        """The dataflow, or None where its parts could not be read."""
        top, reader = self.top, self.reader
        params = _params(top.get("params"), reader)
        dtype = top.get("dtype")
        reader.names = {**params, "element": find_dtype(dtype).bytes if dtype else 2, **self.machine}
        tiles = self._tiles(top.get("tiles"))
        let = self._named("let", top.get("let"), Amount(-1e30))
        tensors = self._map("tensors", top.get("tensors"))
        built = [self._tensor(n, v) for n, v in tensors.items()]
        kernels = self._kernels(top.get("kernels"))
        if (limits := top.get("limits")) is not None:
            values = LIMITS.read(limits, reader)
            self.limits = Stated(**values) if values is not INVALID else Stated()
            self._keep(("limits",), limits)
        if reader.problems or dtype is None:
            return None
        return Dataflow(
            name=top["name"], dtype=dtype, tensors=tuple(t for t in built if t), kernels=tuple(k for k in kernels if k), params=params,
            tiles=tiles, let=let, title=top.get("title", ""), source=top.get("source", ""), note=top.get("note", ""),
            also=top.get("also", ()),
        )  # fmt: skip

    def _keep(self, path: tuple[Any, ...], node: Node) -> None:
        self.nodes[path] = node
        if isinstance(node, MapNode):
            for name, entry in node.entries.items():
                self._keep((*path, name), entry.value)
        elif isinstance(node, ListNode):
            for i, item in enumerate(node.items):
                self._keep((*path, i), item)

    def place(self, complaint: Complaint) -> Node:
        """Where a complaint belongs: its path, or as much of it as stands in the file."""
        path = complaint.path
        while path and path not in self.nodes:
            path = path[:-1]
        return self.nodes.get(path, self.root)

    def _map(self, part: str, node: Node | None) -> dict[str, Node]:
        if node is None:
            return {}
        if not isinstance(node, MapNode):
            self.reader.fail(node, f"expected {part} as a map of names, found {kind(node)}")
            return {}
        self._keep((part,), node)
        return {n: e.value for n, e in node.entries.items() if not n.startswith("x-")}

    def _named(self, part: str, node: Node | None, type_: Amount) -> dict[str, Any]:
        """Names with amounts, each usable in those after it."""
        found: dict[str, Any] = {}
        for name, value_node in self._map(part, node).items():
            value = type_.read(value_node, self.reader)
            if value is INVALID:
                self.reader.unknown.add(name)
                continue
            found[name] = value
            self.reader.names = {**self.reader.names, name: amount(value, self.reader.names)}
        return found

    def _tiles(self, node: Node | None) -> tuple[Tile, ...]:
        found = []
        for name, tile in self._map("tiles", node).items():
            values = {"value": Amount(1).read(tile, self.reader)} if isinstance(tile, Scalar) else TILE.read(tile, self.reader)
            value = INVALID if values is INVALID else values.get("value", INVALID)
            if value is INVALID:
                self.reader.unknown.add(name)
                continue
            found.append(Tile(name, value, values.get("choices", ())))
            self.reader.names = {**self.reader.names, name: amount(value, self.reader.names)}
        return tuple(found)

    def _tensor(self, name: str, node: Node) -> Tensor | None:
        values = TENSOR.read(node, self.reader)
        if values is INVALID or "shape" not in values:
            return None
        return Tensor(name, values["shape"], values.get("dtype"), values.get("role", "in"), values.get("held"))

    # ---- kernels
    def _kernels(self, node: Node | None) -> list[Kernel | None]:
        if node is None:
            return []
        if not isinstance(node, ListNode) or not node.items:
            self.reader.fail(node, "expected kernels as a list with at least one kernel")
            return []
        return [self._kernel(i, item) for i, item in enumerate(node.items)]

    def _kernel(self, i: int, node: Node) -> Kernel | None:
        loops_node = node.entries["loops"].value if isinstance(node, MapNode) and "loops" in node.entries else None
        names = tuple(loops_node.entries) if isinstance(loops_node, MapNode) else ()
        before = self.reader.failures
        values = kernel_record(names).read(node, self.reader)
        if self.reader.failures > before:
            return None
        self._keep(("kernels", i), node)
        loops = self._loops(values.pop("loops"))
        accesses: list[Access] = []
        for part, mode in (("reads", "read"), ("writes", "write"), ("updates", "update")):
            for j, access in enumerate(values.pop(part, ())):
                self._keep(("kernels", i, "accesses", len(accesses)), node.entries[part].value.items[j])  # type: ignore[attr-defined]
                access.pop("note", None)
                index = tuple(() if word == "all" else tuple(word.split(".")) for word in access.pop("index"))
                accesses.append(Access(index=index, mode=mode, **access))
        values.pop("note", None)
        products = tuple(Product(**_without_note(p)) for p in values.pop("products", ()))
        works = tuple(Work(**_without_note(w)) for w in values.pop("work", ()))
        return Kernel(loops=loops, accesses=tuple(accesses), products=products, works=works, **values)

    @staticmethod
    def _loops(found: Mapping[str, Mapping[str, Any]]) -> tuple[Loop, ...]:
        """Loops nest in the order written, unless one says what it is inside of."""
        loops: list[Loop] = []
        for name, values in found.items():
            outer = values.get("inside", loops[-1].name if loops else None)
            loops.append(Loop(name, **{**values, "inside": outer}))
        return tuple(loops)


def _without_note(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if k != "note"}
