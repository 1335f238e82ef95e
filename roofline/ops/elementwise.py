"""Element-by-element operators: one pass that reads each input and writes the result.

What a function costs is in `roofline.ops.functions`. Bytes are (inputs + 1) e.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.numeric import Number, anywhere, product, total, where
from roofline.ops.base import (
    EAGER_CHAINS,
    Counts,
    Kernel,
    Op,
    Pass,
    TensorSpec,
    choice,
    dim,
    flag,
    number_format,
    operator,
    probability,
)
from roofline.ops.functions import FUNCTIONS, Function
from roofline.ops.launched import Launched, Stream, fuses
from roofline.records import dataclass


@operator(
    "elementwise",
    family="elementwise",
    title="one function of each element",
    formula="FLOP and special-function operations as in the table of functions; bytes (inputs + 1) e elements",
    source="definition; costs in FUNCTIONS",
)
@dataclass(frozen=True, kw_only=True)
class Elementwise(Op):
    """y[i] = f(x[0, i], x[1, i], ...); the inputs are the rows of one tensor ``x[inputs, elements]``."""

    function: str = choice("what is computed of each element", tuple(FUNCTIONS))
    elements: Number = dim("elements of the result")
    dtype: str = number_format("format of the inputs")
    out_dtype: str | None = number_format("format of the result; that of the inputs when not given", default=None)
    inputs: Number = dim("inputs read in full, fewer where one is broadcast; 0 for all of the function", default=0, minimum=0)

    def check(self) -> str | None:
        """A cast has a target; a constant has no inputs."""
        if self.function == "cast" and self.out_dtype is None:
            return "a cast needs out_dtype, the format to convert to"
        if self.function == "fill" and anywhere(self.inputs > 0):
            return "fill writes a constant and reads no inputs"
        return None

    @property
    def _costs(self) -> Function:
        return FUNCTIONS[self.function]

    def _stack(self, name: str, role: str, count: int) -> TensorSpec:
        """``count`` tensors of the operator's elements, or as many as ``inputs`` says."""
        return TensorSpec(name, (where(self.inputs > 0, self.inputs, count), self.elements), self.dtype, role)

    def _mask(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("mask", (self.elements,), "bool", "in"),) if self._costs.mask else ()

    def _result(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.elements,), self.out_dtype or self.dtype, role)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[inputs, elements], for selections a mask of one byte an element, and y."""
        inputs = (self._stack("x", "in", self._costs.inputs),) if self._costs.inputs else ()
        return (*inputs, *self._mask(), self._result("y", "out"))

    def counts(self) -> Counts:
        """The function's cost times the elements."""
        return _times(self._costs.cost, self.elements)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel; eager torch copies and fills by kernels of their own sort."""
        own = self.function == "fill" or (self.function == "copy" and self.out_dtype in (None, self.dtype))
        kind = "fused" if fuses(execution) else self.function if own else "elementwise"
        return (_along(self.passes()[0].stream(kind, self.dtype), self.elements),)

    def saved(self) -> tuple[TensorSpec, ...]:
        """The inputs, the result or the mask: what the gradient is formed from."""
        kept = tuple(t for t in self.tensors() if t.name == self._costs.keeps)
        return kept + (self._mask() if self._costs.gradients else ())

    def backward(self) -> tuple[Op, ...]:
        """One kernel that reads what was kept and dy and writes each gradient; none where dy is the gradient."""
        if not self._costs.gradients:
            return ()
        return (
            Kernel(
                label=f"{self.function}_backward",
                dtype=self.dtype,
                reads=(*self.saved(), self._result("dy", "in")),
                writes=(self._stack("dx", "out", self._costs.gradients),),
                arithmetic=_times(self._costs.backward, self.elements),
            ),
        )


def _along(kernel: Stream, elements: Number) -> Stream:
    """The kernel as one long row, since rows make no difference to a function of each element."""
    return replace(kernel, rows=1, cols=elements)


def _times(cost: Counts, elements: Number) -> Counts:
    """The cost of so many elements."""
    return Counts(vector=cost.vector * elements, sfu=cost.sfu * elements)


SWIGLU_BACKWARD = Counts(vector=11, sfu=1)
"""s = sigmoid(gate) 3 and 1 exp, dup = dy gate s 2, dgate = dy up s (1 + gate (1 - s)) 6."""


@operator(
    "swiglu",
    family="elementwise",
    title="gated activation silu(gate) * up",
    formula="5 FLOP and 1 exp an element; bytes 3 e rows cols, 5 e backward",
    source="Shazeer, arXiv 2002.05202",
)
@dataclass(frozen=True, kw_only=True)
class Swiglu(Op):
    """y = silu(gate) up: the silu 4, the product 1."""

    rows: Number = dim("rows, such as tokens")
    cols: Number = dim("columns of gate, of up and of the result")
    dtype: str = number_format("format of gate, up and y")
    packed: bool = flag("gate and up are halves of one tensor, as one product for both gives them; true after such a step")

    def _matrix(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.rows, self.cols), self.dtype, role)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """gate, up and y."""
        return self._matrix("gate", "in"), self._matrix("up", "in"), self._matrix("y", "out")

    def counts(self) -> Counts:
        """Those of silu and a product."""
        return _times(FUNCTIONS["silu"].cost + FUNCTIONS["mul"].cost, self.rows * self.cols)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """Eager torch takes a kernel for silu and one for the product."""
        gate, up, y = self.tensors()
        if fuses(execution):
            return (_along(self.passes()[0].stream("fused", self.dtype), gate.elements),)
        silu = Pass("silu", (gate,), (y,), _times(FUNCTIONS["silu"].cost, gate.elements))
        product_ = Pass("mul", (y, up), (y,), _times(FUNCTIONS["mul"].cost, gate.elements))
        kind = "broadcast" if self.packed else "elementwise"  # halves of a row are not read in vectors
        first, second = (_along(p.stream(kind, self.dtype), gate.elements) for p in (silu, product_))
        return first, replace(second, fresh_bytes=y.bytes)

    def saved(self) -> tuple[TensorSpec, ...]:
        """gate and up."""
        return self.tensors()[:2]

    def backward(self) -> tuple[Op, ...]:
        """Reads gate, up and dy, writes dgate and dup."""
        return (
            Kernel(
                label="swiglu_backward",
                dtype=self.dtype,
                reads=(*self.saved(), self._matrix("dy", "in")),
                writes=(self._matrix("dgate", "out"), self._matrix("dup", "out")),
                arithmetic=_times(SWIGLU_BACKWARD, self.rows * self.cols),
            ),
        )


@operator(
    "dropout",
    family="elementwise",
    title="dropout",
    formula="2 FLOP an element; bytes 2 e + 1 for the mask, 2 e when the mask is regenerated from a seed",
    source="Srivastava et al., JMLR 15 (2014)",
)
@dataclass(frozen=True, kw_only=True)
class Dropout(Op):
    """y = x mask / (1 - p): a comparison and a product. The integer work of the random numbers is not counted."""

    elements: Number = dim("elements")
    dtype: str = number_format("format of x and y")
    p: float = probability("chance that an element is dropped; it changes no count", default=0.1)
    seeded: bool = flag("keep the seed in place of the mask")

    def _vector(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.elements,), self.dtype, role)

    def _mask(self, role: str) -> tuple[TensorSpec, ...]:
        return () if self.seeded else (TensorSpec("mask", (self.elements,), "bool", role),)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x, y and a mask of one byte an element."""
        return (self._vector("x", "in"), *self._mask("out"), self._vector("y", "out"))

    def counts(self) -> Counts:
        """Compare the random number, multiply."""
        return Counts(vector=2 * self.elements)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel that also draws the random numbers."""
        return (_along(self.passes()[0].stream("fused" if fuses(execution) else "dropout", self.dtype), self.elements),)

    def saved(self) -> tuple[TensorSpec, ...]:
        """The mask, or nothing."""
        return self._mask("out")

    def backward(self) -> tuple[Op, ...]:
        """dx = dy mask / (1 - p), with the same mask read or generated."""
        return (
            Kernel(
                label="dropout_backward",
                dtype=self.dtype,
                reads=(self._vector("dy", "in"), *self._mask("in")),
                writes=(self._vector("dx", "out"),),
                arithmetic=self.counts(),
            ),
        )


@operator(
    "rotary",
    family="elementwise",
    title="rotary position embedding of queries and keys",
    formula="6 FLOP a pair of elements of q and k; bytes 2 e tokens (heads + kv_heads) head_dim + e positions head_dim",
    source="Su et al., arXiv 2104.09864",
)
@dataclass(frozen=True, kw_only=True)
class Rotary(Op):
    """(a, b) -> (a cos - b sin, a sin + b cos) for each pair of q and k, with cosines and sines read from a table."""

    tokens: Number = dim("tokens, over all sequences")
    heads: Number = dim("query heads")
    head_dim: Number = dim("elements of a head, an even number", minimum=2)
    dtype: str = number_format("format of q, k and the table")
    kv_heads: Number = dim("key heads, 0 for as many as query heads", default=0, minimum=0)
    positions: Number = dim("distinct positions, each a row of the table, 0 for as many as tokens", default=0, minimum=0)
    in_place: bool = flag("write over q and k: the same traffic, but no new tensors")

    def check(self) -> str | None:
        """Elements are rotated in pairs."""
        return "head_dim must be even, since elements are rotated in pairs" if anywhere(self.head_dim % 2 > 0) else None

    def _heads(self, names: tuple[str, str], role: str) -> tuple[TensorSpec, ...]:
        keys = where(self.kv_heads > 0, self.kv_heads, self.heads)
        counts = zip(names, (self.heads, keys), strict=True)
        return tuple(TensorSpec(name, (self.tokens, heads, self.head_dim), self.dtype, role) for name, heads in counts)

    def _table(self) -> TensorSpec:
        positions = where(self.positions > 0, self.positions, self.tokens)
        return TensorSpec("cos_sin", (positions, self.head_dim), self.dtype, "in")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """q and k, the table (half a row cosines, half sines), and the results unless in place."""
        if self.in_place:
            return (*self._heads(("q", "k"), "inout"), self._table())
        return (*self._heads(("q", "k"), "in"), self._table(), *self._heads(("q_out", "k_out"), "out"))

    def counts(self) -> Counts:
        """Four products, an addition and a subtraction a pair: 3 an element."""
        q, k = self._heads(("q", "k"), "in")
        return Counts(vector=3 * (q.elements + k.elements))

    def passes(self) -> tuple[Pass, ...]:
        """One, which reads and writes q and k even when in place."""
        tensors = self.tensors()
        reads = tuple(t for t in tensors if t.role != "out")
        return (Pass(self.name, reads, tuple(t for t in tensors if t.role in ("out", "inout")), self.counts()),)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """Eager torch takes seven kernels for q and seven for k: four products, difference, sum, concatenation."""
        both = self._heads(("q", "k"), "in")
        if fuses(execution):
            return (_along(self.passes()[0].stream(self.name, self.dtype), total(t.elements for t in both)),)
        return tuple(kernel for t in both for kernel in self._eager(t))

    def _eager(self, x: TensorSpec) -> tuple[Stream, ...]:
        """Kernels over the halves of each head: products with a table spread over heads, which is read once for each."""
        half, table = TensorSpec("half", (*x.shape[:-1], self.head_dim / 2), self.dtype, "scratch"), self._table()
        angles = TensorSpec("angles", (table.shape[0], self.head_dim / 2), self.dtype, "in")
        one = _times(FUNCTIONS["mul"].cost, half.elements)
        rows = product(x.shape[:-1])
        products = Pass("mul", (half, angles), (half,), one).stream("broadcast", self.dtype)
        sums = Pass("add", (half, half), (half,), one).stream("elementwise", self.dtype)
        joined = Pass("cat", (half, half), (x,)).stream("concatenate", self.dtype)
        return (
            replace(products, rows=rows, cols=half.shape[-1], calls=4),
            replace(_along(sums, half.elements), fresh_bytes=2 * half.bytes, calls=2),
            replace(joined, rows=rows, cols=self.head_dim, fresh_bytes=2 * half.bytes),
        )

    def backward(self) -> tuple[Op, ...]:
        """The rotation by the opposite angle, of dq and dk."""
        return (self,)


# --------------------------------------------------------------------------- backward passes as eager torch launches them
def _swiglu_chain(kernel: Kernel) -> tuple[Pass, ...]:
    """ds = dy up, dup = dy silu(gate), dgate: the silu that autograd kept is read as if it were gate."""
    gate, up, dy = kernel.reads
    dgate, dup = kernel.writes
    one = Counts(vector=gate.elements)
    return (
        Pass("elementwise", (dy, up), (dgate,), one),
        Pass("elementwise", (dy, gate), (dup,), one),
        Pass("elementwise", (dgate, gate), (dgate,), _times(FUNCTIONS["silu"].backward, gate.elements)),
    )


BACKWARD_KERNELS = {
    "mul": 2, "div": 5, "fma": 4, "maximum": 10, "minimum": 10, "abs": 2, "square": 3, "sqrt": 2, "rsqrt": 3, "where": 2,
}  # fmt: skip
"""Kernels that autograd launches for the gradients of a function, each of two inputs and one output; one for all others."""


def _chain(kernel: Kernel) -> tuple[Pass, ...]:
    """As many kernels as the function takes; a single one moves all that it was given."""
    count = BACKWARD_KERNELS.get(kernel.label.removesuffix("_backward"), 1)
    if count == 1:
        return (Pass("elementwise", kernel.reads, kernel.writes, kernel.arithmetic),)
    dy = kernel.reads[-1]
    share = Counts(vector=kernel.arithmetic.vector / count, sfu=kernel.arithmetic.sfu / count)
    return (Pass("elementwise", (dy, dy), (dy,), share),) * count


EAGER_CHAINS["swiglu_backward"] = _swiglu_chain
EAGER_CHAINS.update({f"{name}_backward": _chain for name in (*FUNCTIONS, "dropout")})
