"""Running a module on tensors without contents, and noting every aten operator with its shapes.

A dispatch mode below autograd sees what would run on the device, forward and backward, after torch has taken composite operators apart.
Attention and RMS norm are noted whole (`roofline.ingest.module_whole`): below, their parts depend on the device that this machine
happens to have, which says nothing of the one that will run them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import UsageError
from roofline.ingest.aten import Call, Tensor, number_format
from roofline.ingest.module_load import Loaded, users_code
from roofline.ingest.module_whole import whole_mode


@dataclass(frozen=True, slots=True)
class Noted:
    """One operator: the call, the module it ran in (without the root's name), backward or not, and the parameters among its arguments."""

    call: Call
    module: str
    backward: bool
    parameters: tuple[int, ...]


@dataclass(slots=True)
class Capture:
    """All operators of one run in order, and torch's own count of FLOP by operator where it was asked for."""

    calls: list[Noted] = field(default_factory=list)
    torch_flop: dict[str, int] = field(default_factory=dict)


def capture(loaded: Loaded, *, backward: bool, whole: bool = True, count: bool = False) -> Capture:
    """One forward pass, and a backward pass behind it where asked for.

    ``count`` runs torch's counter as well, for which nothing may be taken ``whole``.

    Raises:
        UsageError: the module raised something, needs the contents of a tensor, or has nothing to differentiate.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode
    from torch.utils.module_tracker import ModuleTracker

    found = Capture()
    counter = FlopCounterMode(display=False) if count else None
    grad = torch.enable_grad() if backward else torch.no_grad()
    with _no_fast_paths(torch), FakeTensorMode(allow_non_fake_inputs=True) as fake, grad:
        run = _with_fake_parameters(torch, fake, loaded, backward)
        tracker = ModuleTracker()
        recorder = _recorder(torch, found, run.storages, tracker)
        kept_whole = whole_mode(torch, recorder) if whole else contextlib.nullcontext()
        with users_code(f"{loaded.name}: the module"), tracker, counter or contextlib.nullcontext(), recorder, kept_whole:
            outputs = run.forward()
            if backward:
                recorder.in_backward = True
                _differentiate(torch, outputs, recorder)
    if counter is not None:
        counts = counter.get_flop_counts().get("Global", {})
        found.torch_flop = {str(getattr(op, "__name__", op)): int(flop) for op, flop in counts.items()}
    return found


@contextlib.contextmanager
def _no_fast_paths(torch: Any) -> Iterator[None]:
    """Fused encoder and recurrent layers that run on CPUs only, as one operator that hides what it does."""
    encoder, recurrent = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)  # torch.backends.mkldnn.flags sets more than this, and warns of it
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(encoder)
        torch._C._set_mkldnn_enabled(recurrent)


# --------------------------------------------------------------------------- the run
@dataclass(slots=True)
class _Run:
    forward: Any
    storages: dict[int, int]
    kept: list[Any]


def _with_fake_parameters(torch: Any, fake: Any, loaded: Loaded, backward: bool) -> _Run:
    """The module called with parameters, buffers and inputs without contents."""
    storages: dict[int, int] = {}
    kept: list[Any] = []

    def emptied(value: Any) -> Any:
        return fake.from_tensor(value) if isinstance(value, torch.Tensor) else value

    args, kwargs = torch.utils._pytree.tree_map(emptied, (loaded.args, loaded.kwargs))
    if not isinstance(loaded.module, torch.nn.Module):
        return _Run(lambda: loaded.module(*args, **kwargs), storages, kept)
    state = {}
    for number, (name, parameter) in enumerate(loaded.module.named_parameters()):
        state[name] = emptied(parameter)
        storages[_storage(state[name])] = number
    state |= {name: emptied(buffer) for name, buffer in loaded.module.named_buffers()}
    kept += state.values()
    if backward and not any(p.requires_grad for p in loaded.module.parameters()):
        raise UsageError(f"{loaded.name}: no parameter of the module requires a gradient, so that it has no backward pass")
    return _Run(lambda: torch.func.functional_call(loaded.module, state, args, kwargs), storages, kept)


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _differentiate(torch: Any, outputs: Any, recorder: Any) -> None:
    """Backward from the scalar among the outputs, which is the loss, else from all that have a gradient."""
    leaves = torch.utils._pytree.tree_leaves(dict(outputs) if hasattr(outputs, "items") else outputs)
    found = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    scalars = [t for t in found if t.numel() == 1]
    found = scalars[:1] or found
    if not found:
        raise UsageError("the module's outputs do not depend on a parameter that requires a gradient, so that it has no backward pass")
    with recorder.silent():
        gradients = [torch.empty_like(t) for t in found]
    torch.autograd.backward(found, gradients)


# --------------------------------------------------------------------------- the modes
def _recorder(torch: Any, found: Capture, storages: dict[int, int], tracker: Any) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):  # type: ignore[misc, no-untyped-call, unused-ignore]
        """Notes operators as they pass; a cast of a parameter counts as the parameter."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
            self.in_backward = False
            self.quiet = 0
            self.kept: list[Any] = []
            self.places: dict[int, str] = {}

        @contextlib.contextmanager
        def silent(self) -> Iterator[None]:
            self.quiet += 1
            try:
                yield
            finally:
                self.quiet -= 1

        def note(self, name: str, args: tuple[Any, ...], out: Any, backward: bool) -> None:
            given = [t for t in torch.utils._pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
            used = tuple(dict.fromkeys(storages[_storage(t)] for t in given if _storage(t) in storages))
            mine = {} if backward else storages
            values = tuple(_argument(torch, a, mine) for a in args)
            results = tuple(_argument(torch, t, {}) for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor))
            found.calls.append(Noted(Call(name, values, results), self.place(), backward, used))

        def place(self) -> str:
            """The module; backward that of the operator whose node runs, by autograd's own numbers."""
            if not self.in_backward:
                here = _module(tracker)
                self.places.setdefault(torch.autograd._get_sequence_nr() - 1, here)
                return here
            node = torch._C._current_autograd_node()
            return self.places.get(node._sequence_nr(), "") if node is not None else ""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if not self.quiet:
                schema, named = func._schema, kwargs or {}
                ordered = [
                    args[i] if i < len(args) else named.get(a.name, a.default_value if a.has_default_value() else None)
                    for i, a in enumerate(schema.arguments)
                ]
                self.note(schema.name, tuple(ordered), out, self.in_backward)
                if schema.name == "aten::_to_copy" and _storage(args[0]) in storages:
                    storages[_storage(out)] = storages[_storage(args[0])]
                    self.kept.append(out)
            return out

    return Recorder()


def _argument(torch: Any, value: Any, parameters: dict[int, int]) -> Any:
    """An argument without torch: tensors by shape and format, formats by name."""
    if isinstance(value, torch.Tensor):
        shape = tuple(int(n) for n in value.shape)
        return Tensor(shape, number_format(str(value.dtype)), _storage(value) in parameters)
    if isinstance(value, (list, tuple)):
        return tuple(_argument(torch, v, parameters) for v in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _module(tracker: Any) -> str:
    """The innermost module, without the root's name: ``layers.0.attn``; empty for the root itself."""
    names = [n for n in tracker.parents if n != "Global"]
    return max(names, key=lambda n: (n.count("."), len(n)), default="").partition(".")[2]
