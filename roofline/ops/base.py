"""What an operator is: tensors, arithmetic per engine, and the bytes that follow from them.

An operator is one frozen dataclass in one file. It states its tensors and its arithmetic; compulsory traffic, YAML
keys, the docs table, the JSON Schema, the measured kernel's inputs and the contract tests follow from those. An
operator knows no device: where its traffic depends on tiling it sees a small `Machine` (capacities, processors).
Dimensions may be float64 arrays, so formulas use operators and `roofline.numeric`, never ``if`` on a dimension.
FLOP = 2 x multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields, replace
from typing import Any, ClassVar, TypeVar

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, maximum, product, total, where
from roofline.ops.launched import Launched, Stream, fuses
from roofline.ops.registry import OPERATORS
from roofline.records import dataclass

VECTOR_REGISTER_BYTES_PER_FLOP = 6
"""A fused multiply-add reads three 4-byte operands for 2 FLOP; the same width the register roof is derived from."""


# --------------------------------------------------------------------------- declaring fields
def dim(doc: str, *, default: Any = MISSING, minimum: int = 1) -> Any:
    """A whole-number dimension of an operator, at least ``minimum``."""
    return field(default=default, metadata={"doc": doc, "kind": "dim", "minimum": minimum})


def choice(doc: str, options: tuple[str, ...], *, default: Any = MISSING) -> Any:
    """One of a few words."""
    return field(default=default, metadata={"doc": doc, "kind": "choice", "options": options})


def flag(doc: str, *, default: bool = False) -> Any:
    """True or false."""
    return field(default=default, metadata={"doc": doc, "kind": "flag"})


def number_format(doc: str, *, default: Any = MISSING) -> Any:
    """A dtype by name; an operator's own ``dtype`` is taken from the workload when the step gives none."""
    return field(default=default, metadata={"doc": doc, "kind": "dtype"})


def probability(doc: str, *, default: float = 0.0) -> Any:
    """A number from 0 to 1."""
    return field(default=default, metadata={"doc": doc, "kind": "probability"})


def amount(doc: str, unit: str, *, default: Any = MISSING) -> Any:
    """A quantity with a unit (``B`` or ``FLOP``), zero allowed."""
    return field(default=default, metadata={"doc": doc, "kind": "amount", "unit": unit})


def word(doc: str, *, default: Any = MISSING) -> Any:
    """A free name, such as that of a link."""
    return field(default=default, metadata={"doc": doc, "kind": "word"})


# --------------------------------------------------------------------------- what an operator states
@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor of an operator.

    ``role``: ``in`` and ``out`` are activations, ``weight`` is resident and counted as parameters, ``cache`` is
    resident state such as keys and values, ``scratch`` is an intermediate that the operator itself materialises.
    ``touched`` is how many elements move when that is not the whole tensor (an embedding table, a cache slot).
    ``scale_bytes`` are the block scales that travel with a quantised tensor.
    """

    name: str
    shape: tuple[Number, ...]
    dtype: str
    role: str
    touched: Number | None = None
    scale_bytes: Number = 0

    @property
    def elements(self) -> Number:
        """How many numbers it holds."""
        return product(self.shape)

    @property
    def bytes(self) -> Number:
        """Bytes it occupies, block scales included."""
        return whole(self.elements * find_dtype(self.dtype).bytes) + self.scale_bytes

    @property
    def moved_bytes(self) -> Number:
        """Bytes of one pass over what is touched of it."""
        if self.touched is None:
            return self.bytes
        return whole(self.touched * find_dtype(self.dtype).bytes)


def whole(value: Number) -> Number:
    """A float that is a whole number as an integer, so that counts print exactly; arrays as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class Counts:
    """Arithmetic by engine: matrix FLOP, vector FLOP, special-function operations (exp, rsqrt ...)."""

    tensor: Number = 0
    vector: Number = 0
    sfu: Number = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.tensor + other.tensor, self.vector + other.vector, self.sfu + other.sfu)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read and written at each memory level."""

    register: Number = 0
    smem: Number = 0
    l2: Number = 0
    hbm: Number = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.register + other.register, self.smem + other.smem, self.l2 + other.l2, self.hbm + other.hbm)


@dataclass(frozen=True, slots=True)
class Pass:
    """One sweep of an operator over memory, as one kernel: what it reads, writes and computes."""

    name: str
    reads: tuple[TensorSpec, ...]
    writes: tuple[TensorSpec, ...]
    counts: Counts = Counts()

    @property
    def hbm_bytes(self) -> Number:
        """Each operand once."""
        return total(t.moved_bytes for t in (*self.reads, *self.writes))

    def stream(self, kind: str, dtype: str) -> Stream:
        """The pass as a kernel that streams its tensors, shaped like the first one that it reads, or writes."""
        shape = (*self.reads, *self.writes)[0].shape if (*self.reads, *self.writes) else (1,)
        return Stream(
            kind=kind,
            rows=product(shape[:-1]),
            cols=shape[-1],
            read_bytes=total(t.moved_bytes for t in self.reads),
            write_bytes=total(t.moved_bytes for t in self.writes),
            dtype=dtype,
            flop=self.counts.vector,
            sfu=self.counts.sfu,
            tensor_flop=self.counts.tensor,
        )


@dataclass(frozen=True, slots=True)
class Machine:
    """What an operator may know of a device: capacities in bytes, processors, and which dtypes have matrix units.

    ``mma_rows`` is how many rows of the left operand share one read of the right one from shared memory: 64 for a
    warpgroup instruction (and for the warp tiles used before), 128 for fifth-generation tensor cores.
    """

    processors: float
    smem_bytes: float
    l2_bytes: float
    matrix_dtypes: frozenset[str]
    mma_rows: float = 64

    def has_matrix(self, dtype_name: str) -> bool:
        """Whether products in this dtype run on matrix units."""
        return find_dtype(dtype_name).matrix in self.matrix_dtypes


class Op:
    """Base of all operators. Subclasses are frozen keyword-only dataclasses registered with `operator`."""

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""
    title: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    source: ClassVar[str] = ""
    dtype: str

    @property
    def lane(self) -> str:
        """What it occupies while it runs: ``compute``, ``copy`` or ``link``; steps of different lanes may overlap."""
        return "compute"

    def check(self) -> str | None:
        """A sentence when the fields contradict each other, else None."""
        return None

    def tensors(self) -> tuple[TensorSpec, ...]:
        """Tensors that live outside the operator: inputs, outputs, weights, caches."""
        raise NotImplementedError

    def counts(self) -> Counts:
        """Arithmetic of one execution, as executed."""
        raise NotImplementedError

    def useful_flop(self) -> Number:
        """Matrix FLOP that the mathematics needs; less than executed where an implementation computes masked parts."""
        return self.counts().tensor

    def passes(self) -> tuple[Pass, ...]:
        """The kernels it consists of; one that reads and writes its tensors once, unless it says otherwise."""
        reads = tuple(t for t in self.tensors() if t.role != "out")
        writes = tuple(t for t in self.tensors() if t.role == "out")
        return (Pass(self.name, reads, writes, self.counts()),)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """The kernels that run under an execution (see `roofline.ops.launched`); one for each pass, unless it says otherwise."""
        return tuple(p.stream(self.name, self.dtype) for p in self.passes())

    def compulsory(self, machine: Machine | None) -> Traffic:
        """Bytes that no execution of these passes can avoid: each operand of each pass once."""
        moved = total(p.hbm_bytes for p in self.passes())
        register = self.counts().vector * VECTOR_REGISTER_BYTES_PER_FLOP
        return Traffic(register=register, l2=moved, hbm=moved)

    def tiled(self, machine: Machine) -> Traffic:
        """Bytes with the re-reads of the operator's own tiling and no cache above it."""
        return self.compulsory(machine)

    def cached(self, machine: Machine) -> Traffic:
        """`tiled`, with HBM filtered by L2: intermediates that fit there never reach HBM."""
        traffic = self.tiled(machine)
        return replace(traffic, hbm=traffic.hbm - self.resident_bytes(machine))

    def resident_bytes(self, machine: Machine) -> Number:
        """HBM bytes saved since an intermediate, written by one pass and read by another, stays in L2."""
        touched = [t for p in self.passes() for t in (*p.reads, *p.writes) if t.role == "scratch"]
        return total(where(t.bytes <= machine.l2_bytes, t.moved_bytes, 0) for t in touched)

    def link_bytes(self) -> Mapping[str, Number]:
        """Bytes over each link, one way."""
        return {}

    def extra_memory_bytes(self) -> Number:
        """Memory it needs beyond its inputs and outputs while it runs."""
        scratch = {t.name: t.bytes for p in self.passes() for t in (*p.reads, *p.writes) if t.role == "scratch"}
        return total(scratch.values())

    def saved(self) -> tuple[TensorSpec, ...]:
        """Tensors kept from the forward pass for `backward`."""
        return ()

    def backward(self) -> tuple[Op, ...]:
        """The operators of the backward pass; empty where none exists."""
        return ()


_OpClass = TypeVar("_OpClass", bound=type[Op])


def operator(name: str, *, family: str, title: str, formula: str, source: str) -> Callable[[_OpClass], _OpClass]:
    """Register an operator under its YAML name, with its formula and where that comes from."""

    def register(cls: _OpClass) -> _OpClass:
        cls.name, cls.family, cls.title, cls.formula, cls.source = name, family, title, formula, source
        OPERATORS.add(name, cls)
        return cls

    return register


@dataclass(frozen=True, kw_only=True)
class Kernel(Op):
    """A single kernel given by its tensors and arithmetic; backward passes of simple operators are these."""

    label: str
    dtype: str
    reads: tuple[TensorSpec, ...]
    writes: tuple[TensorSpec, ...]
    arithmetic: Counts

    def tensors(self) -> tuple[TensorSpec, ...]:
        """What it reads and writes."""
        return (*self.reads, *self.writes)

    def counts(self) -> Counts:
        """The arithmetic it was given."""
        return self.arithmetic

    def passes(self) -> tuple[Pass, ...]:
        """One."""
        return (Pass(self.label, self.reads, self.writes, self.arithmetic),)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """A fused kernel, or those that eager torch launches: one under its label unless `EAGER_CHAINS` has others."""
        if fuses(execution) and not anywhere(self.arithmetic.tensor > 0):
            return (self.passes()[0].stream("fused", self.dtype),)
        chain = EAGER_CHAINS.get(self.label)
        return tuple(p.stream(p.name, self.dtype) for p in (chain(self) if chain else self.passes()))


EAGER_CHAINS: dict[str, Callable[[Kernel], tuple[Pass, ...]]] = {}
"""By label, the kernels that eager torch launches for a `Kernel`; each file of operators adds its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """All that one execution does; works add up. ``tiled`` and ``cached`` need a machine and are None without."""

    counts: Counts
    dtype: str
    useful_flop: Number
    compulsory: Traffic
    tiled: Traffic | None
    cached: Traffic | None
    link_bytes: Mapping[str, Number]
    kernels: Number
    extra_memory_bytes: Number

    def __add__(self, other: Work) -> Work:
        links = {k: self.link_bytes.get(k, 0) + other.link_bytes.get(k, 0) for k in {*self.link_bytes, *other.link_bytes}}
        return Work(
            counts=self.counts + other.counts,
            dtype=self.dtype,
            useful_flop=self.useful_flop + other.useful_flop,
            compulsory=self.compulsory + other.compulsory,
            tiled=self.tiled + other.tiled if self.tiled is not None and other.tiled is not None else None,
            cached=self.cached + other.cached if self.cached is not None and other.cached is not None else None,
            link_bytes=dict(sorted(links.items())),
            kernels=self.kernels + other.kernels,
            extra_memory_bytes=maximum(self.extra_memory_bytes, other.extra_memory_bytes),
        )


def work_of(op: Op, machine: Machine | None) -> Work:
    """Everything one execution of ``op`` does, on a machine of these capacities or, without one, what any does."""
    return Work(
        counts=op.counts(),
        dtype=op.dtype,
        useful_flop=op.useful_flop(),
        compulsory=op.compulsory(machine),
        tiled=op.tiled(machine) if machine is not None else None,
        cached=op.cached(machine) if machine is not None else None,
        link_bytes=op.link_bytes(),
        kernels=len(op.passes()),
        extra_memory_bytes=op.extra_memory_bytes(),
    )


def field_values(op: Op) -> dict[str, Any]:
    """The operator's fields by name, in order."""
    return {f.name: getattr(op, f.name) for f in fields(op)}  # type: ignore[arg-type]
