"""AdamW as one fused pass over all parameters.

m and v decay towards g and g^2, p decays by the weight decay and moves by m / (sqrt(v) + eps); both bias corrections are
scalars, folded into the step size and eps. Source: Loshchilov and Hutter, arXiv 1711.05101.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number
from roofline.ops.base import Counts, Op, Pass, TensorSpec, dim, flag, number_format, operator
from roofline.ops.launched import Launched

ADAMW_FLOP = 12
"""m + (1 - b1) (g - m) 3, b2 v + (1 - b2) g g 4, + eps 1, quotient 1, decay 1 and step 2; the root is a special function."""


@operator(
    "adamw",
    family="optimizer",
    title="AdamW step",
    formula="12 FLOP and 1 root a parameter; bytes of p, m, v read and written, g read: 28 in fp32, 30 with a 2-byte copy",
    source="arXiv 1711.05101",
)
@dataclass(frozen=True, kw_only=True)
class AdamW(Op):
    """p, m, v <- step(p, m, v, g), over every parameter in one kernel."""

    parameters: Number = dim("parameters to update")
    dtype: str = number_format("format of the model's parameters; with master weights that of the copy, if it has 2 bytes")
    master: bool = flag("update fp32 master weights and write a 2-byte copy for the model")
    param_dtype: str | None = number_format("format of p; fp32 with master weights, else that of the model", default=None)
    state_dtype: str | None = number_format("format of m and v; that of p when not given", default=None)
    grad_dtype: str | None = number_format("format of g; that of the model when not given", default=None)

    @property
    def copy_dtype(self) -> str:
        """Format of the copy that the model computes with."""
        return self.dtype if find_dtype(self.dtype).bits == 16 else "bf16"

    def tensors(self) -> tuple[TensorSpec, ...]:
        """p, m, v, which are read and written, g, and the copy."""
        weights = self.param_dtype or ("fp32" if self.master else self.dtype)
        state, shape = self.state_dtype or weights, (self.parameters,)
        copy = (TensorSpec("copy", shape, self.copy_dtype, "out"),) if self.master else ()
        return (
            TensorSpec("p", shape, weights, "inout"),
            TensorSpec("m", shape, state, "inout"),
            TensorSpec("v", shape, state, "inout"),
            TensorSpec("g", shape, self.grad_dtype or self.dtype, "in"),
            *copy,
        )

    def counts(self) -> Counts:
        """12 FLOP and a root for each parameter."""
        return Counts(vector=ADAMW_FLOP * self.parameters, sfu=self.parameters)

    def passes(self) -> tuple[Pass, ...]:
        """One, which reads p, m, v, g and writes p, m, v and the copy."""
        tensors = self.tensors()
        reads = tuple(t for t in tensors if t.role != "out")
        return (Pass(self.name, reads, tuple(t for t in tensors if t.role != "in"), self.counts()),)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """The fused step; gradients of another format are converted before it, the copy for the model is written after it."""
        p, m, v, g, *copy = self.tensors()
        same = replace(g, dtype=p.dtype)
        step = Pass(self.name, (p, m, v, same), (p, m, v), self.counts()).stream(self.name, p.dtype)
        before = () if g.dtype == p.dtype else (Pass("cast", (g,), (same,)).stream("elementwise", g.dtype),)
        after = tuple(Pass("copy", (p,), (c,)).stream("elementwise", p.dtype) for c in copy)
        return (*before, step, *after)
