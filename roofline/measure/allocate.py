"""Tensors for a kernel: those of the operator, filled with what makes a fair measurement.

Inputs are standard normal, since power, and with it the clock, depends on the data (zeros run faster). Ids are all different as
long as the vocabulary lasts, which is what the operator counts. Gradients of the results, for a backward pass, are named
``d`` and the name of the result. A copy over a link has its host side as ``host``, in pinned memory where there is a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import torch

from roofline.dtypes import dtype as find_dtype
from roofline.errors import UsageError
from roofline.measure.spectra import spectra_of
from roofline.numeric import product
from roofline.ops.base import Op, TensorSpec

TORCH_DTYPES: dict[str, torch.dtype] = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int64": torch.int64,
    "int32": torch.int32,
    "int8": torch.int8,
    "bool": torch.bool,
}
"""torch's dtype of each of our names; fp6, fp4 and int4 have none."""

POSITIVE = {("elementwise", "log"), ("elementwise", "sqrt"), ("elementwise", "rsqrt"), ("elementwise", "div")}
"""Functions whose inputs must keep away from zero, or the results are no numbers."""

NO_GRADIENT = {("rotary", "cos_sin")}
"""Inputs that are constants of the operator."""

Tensors = MutableMapping[str, torch.Tensor]


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype for one of our names.

    Raises:
        UsageError: torch has none.
    """
    found = TORCH_DTYPES.get(find_dtype(name).name)
    if found is None:
        raise UsageError(f"torch has no tensors of {name}, so that no kernel can be measured with them")
    return found


def is_real(spec: TensorSpec) -> bool:
    """Whether its numbers are floating point."""
    return torch_dtype(spec.dtype).is_floating_point


def results(op: Op) -> list[TensorSpec]:
    """What a forward kernel returns: the tensors it writes, in order."""
    return [t for t in op.tensors() if t.role in ("out", "inout")]


def differentiable(op: Op) -> list[TensorSpec]:
    """What a backward kernel returns the gradients of: inputs and weights, in order."""
    inputs = [t for t in op.tensors() if t.role in ("in", "weight", "cache")]
    return [t for t in inputs if is_real(t) and (op.name, t.name) not in NO_GRADIENT]


def _specs(op: Op, direction: str) -> list[TensorSpec]:
    """All that is allocated: the operator's tensors, and for a backward pass the gradients of its results."""
    gradients = [TensorSpec(f"d{t.name}", t.shape, t.dtype, "in") for t in results(op) if is_real(t)]
    return [*op.tensors(), *(gradients if direction == "backward" else ())]


def allocated_bytes(op: Op, direction: str = "forward") -> int:
    """Device memory that `allocate` takes."""
    return sum(int(product(t.shape)) * int(torch_dtype(t.dtype).itemsize) for t in _specs(op, direction))


def allocate(op: Op, device: str, seed: int = 0, direction: str = "forward") -> dict[str, torch.Tensor]:
    """The operator's tensors by name, filled from ``seed``.

    Raises:
        UsageError: torch has no such dtype.
        torch.OutOfMemoryError: they do not fit.
    """
    made = {t.name: torch.empty(_shape(t), dtype=torch_dtype(t.dtype), device=device) for t in _specs(op, direction)}
    if getattr(op, "over", ""):
        pinned = device.startswith("cuda")
        made["host"] = torch.empty(made["payload"].shape, dtype=torch.int8, pin_memory=pinned)
    refill(op, made, seed, direction)
    return made


def copies(op: Op, device: str, sets: int, seed: int = 0, direction: str = "forward") -> list[dict[str, torch.Tensor]]:
    """So many sets of tensors with different values, to rotate over so that none is found in a cache."""
    return [allocate(op, device, seed + i, direction) for i in range(sets)]


def refill(op: Op, tensors: Tensors, seed: int, direction: str = "forward") -> None:
    """Write new values into the tensors, where and as they lie; what kernels write to is made unusable instead.

    A kernel that does not write its result is then seen at once.
    """
    generators: dict[str, torch.Generator] = {}
    for spec in _specs(op, direction):
        tensor = tensors[spec.name]
        if spec.role == "out":
            spoil(tensor)
        else:
            _fill(op, spec, tensor, _generator(generators, tensor.device, seed))
    if "host" in tensors:
        tensors["host"].random_(-128, 128, generator=torch.Generator().manual_seed(seed + 1))


def spoil(tensor: torch.Tensor) -> None:
    """Fill with what no kernel computes: not-a-number, or the largest integer."""
    if tensor.is_floating_point():
        tensor.copy_(torch.full((), torch.nan, device=tensor.device))
    else:
        tensor.fill_(True if tensor.dtype is torch.bool else torch.iinfo(tensor.dtype).max)


def _generator(known: dict[str, torch.Generator], device: torch.device, seed: int) -> torch.Generator:
    """One stream of random numbers a device."""
    if str(device) not in known:
        known[str(device)] = torch.Generator(device=device).manual_seed(seed)
    return known[str(device)]


def _shape(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(int(size) for size in spec.shape)


# --------------------------------------------------------------------------- values
def _fill(op: Op, spec: TensorSpec, tensor: torch.Tensor, random: torch.Generator) -> None:
    """In place where torch can, since a large tensor has no room beside it for its values."""
    special = _SPECIAL.get((op.name, spec.name))
    if special is not None:
        tensor.copy_(special(op, spec, random))
    elif tensor.dtype is torch.bool:
        tensor.random_(0, 2, generator=random)
    elif not tensor.is_floating_point():
        tensor.random_(-128, 128, generator=random)
    elif tensor.itemsize == 1:
        tensor.copy_(torch.randn(_shape(spec), generator=random, device=random.device))
    else:
        tensor.normal_(generator=random)
    if (op.name, getattr(op, "function", "")) in POSITIVE and tensor.is_floating_point():
        tensor.abs_().add_(0.25)


def _ids(op: Any, spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """A permutation of the vocabulary, again and again until there are enough."""
    (tokens,), vocab = _shape(spec), int(op.vocab)
    rounds = [torch.randperm(vocab, generator=random, device=random.device) for _ in range(-(-tokens // vocab))]
    return torch.cat(rounds)[:tokens].to(torch_dtype(spec.dtype))


def _targets(op: Any, spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """Uniform over the classes."""
    return torch.randint(0, int(op.vocab), _shape(spec), generator=random, device=random.device)


def _second_moment(op: Op, spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """Squares, away from zero, where the quotient would turn rounding into error."""
    values = torch.randn(_shape(spec), generator=random, device=random.device)
    return values.square_().add_(0.25)


def _angles(op: Op, spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """Cosines in the first half of each row, sines of the same angles in the second."""
    positions, width = _shape(spec)
    angles = torch.rand((positions, width // 2), generator=random, device=random.device) * 6.25
    return torch.cat((angles.cos(), angles.sin()), -1)


def _filters(op: Any, spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """Real filters, or their spectra, which no random numbers are."""
    filters = torch.randn((int(op.channels), int(op.filter_len)), generator=random, device=random.device)
    return spectra_of(op, filters) if op.spectrum else filters


def _layer_filters(op: Any, spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """Spectra of filters that keep the size of what they mix."""
    conv = op.convolution()
    filters: torch.Tensor = _filters(conv, spec, random) / math.sqrt(conv.filter_len)
    return filters


def _layer_weights(op: Op, spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """Divided by the root of what they add up, or the products of a whole layer leave the range of fp16."""
    shape = _shape(spec)
    return torch.randn(shape, generator=random, device=random.device) / math.sqrt(shape[-2])


_SPECIAL: Mapping[tuple[str, str], Callable[[Op, TensorSpec, torch.Generator], torch.Tensor]] = {
    ("embedding", "ids"): _ids,
    ("cross_entropy", "targets"): _targets,
    ("adamw", "v"): _second_moment,
    ("rotary", "cos_sin"): _angles,
    ("fft_conv", "k"): _filters,
    ("m2", "k"): _layer_filters,
    **{("m2", f"w_{name}"): _layer_weights for name in ("project_in", "project_out", "up", "down")},
}
