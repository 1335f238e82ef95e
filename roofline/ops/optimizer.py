"""Optimizer steps as one fused pass over all parameters: AdamW, and stochastic gradient descent with momentum or without.

AdamW: m and v decay towards g and g^2, p decays by the weight decay and moves by m / (sqrt(v) + eps); both bias corrections are
scalars, folded into the step size and eps. Source: Loshchilov and Hutter, arXiv 1711.05101. Descent: p moves by the step size times
g, or times m, which decays and takes g in (Sutskever et al. 2013, as torch.optim.SGD has it).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number
from roofline.ops.base import Counts, Op, Pass, TensorSpec, dim, flag, number_format, operator
from roofline.ops.launched import Launched

ADAMW_FLOP = 12
"""m + (1 - b1) (g - m) 3, b2 v + (1 - b2) g g 4, + eps 1, quotient 1, decay 1 and step 2; the root is a special function."""
STEP_FLOP = 2
"""p - step g; the same again for m = decay m + g."""


@dataclass(frozen=True, kw_only=True)
class OptimizerStep(Op):
    """p and its states <- step(p, states, g), over every parameter in one kernel."""

    parameters: Number = dim("parameters to update")
    dtype: str = number_format("format of the model's parameters; with master weights that of the copy, if it has 2 bytes")
    master: bool = flag("update fp32 master weights and write a 2-byte copy for the model")
    param_dtype: str | None = number_format("format of p; fp32 with master weights, else that of the model", default=None)
    state_dtype: str | None = number_format("format of the states; that of p when not given", default=None)
    grad_dtype: str | None = number_format("format of g; that of the model when not given", default=None)

    def states(self) -> tuple[str, ...]:
        """Names of what is kept of each parameter from step to step."""
        raise NotImplementedError

    @property
    def copy_dtype(self) -> str:
        """Format of the copy that the model computes with."""
        return self.dtype if find_dtype(self.dtype).bits == 16 else "bf16"

    def tensors(self) -> tuple[TensorSpec, ...]:
        """p and the states, which are read and written, g, and the copy."""
        weights = self.param_dtype or ("fp32" if self.master else self.dtype)
        state, shape = self.state_dtype or weights, (self.parameters,)
        copy = (TensorSpec("copy", shape, self.copy_dtype, "out"),) if self.master else ()
        return (
            TensorSpec("p", shape, weights, "inout"),
            *(TensorSpec(name, shape, state, "inout") for name in self.states()),
            TensorSpec("g", shape, self.grad_dtype or self.dtype, "in"),
            *copy,
        )

    def passes(self) -> tuple[Pass, ...]:
        """One, which reads p, the states and g and writes p, the states and the copy."""
        tensors = self.tensors()
        reads = tuple(t for t in tensors if t.role != "out")
        return (Pass(self.name, reads, tuple(t for t in tensors if t.role != "in"), self.counts()),)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """The fused step; gradients of another format are converted before it, the copy for the model is written after it."""
        found = {t.name: t for t in self.tensors()}
        p, g = found["p"], found["g"]
        kept, same = tuple(found[name] for name in ("p", *self.states())), replace(g, dtype=p.dtype)
        step = Pass(self.name, (*kept, same), kept, self.counts()).stream(self.name, p.dtype)
        before = () if g.dtype == p.dtype else (Pass("cast", (g,), (same,)).stream("elementwise", g.dtype),)
        after = tuple(Pass("copy", (p,), (c,)).stream("elementwise", p.dtype) for name, c in found.items() if name == "copy")
        return (*before, step, *after)


@operator(
    "adamw",
    family="optimizer",
    title="AdamW step",
    formula="12 FLOP and 1 root a parameter; bytes of p, m, v read and written, g read: 28 in fp32, 30 with a 2-byte copy",
    source="arXiv 1711.05101",
)
@dataclass(frozen=True, kw_only=True)
class AdamW(OptimizerStep):
    """p, m, v <- step(p, m, v, g), over every parameter in one kernel."""

    def states(self) -> tuple[str, ...]:
        """Both moments."""
        return ("m", "v")

    def counts(self) -> Counts:
        """12 FLOP and a root for each parameter."""
        return Counts(vector=ADAMW_FLOP * self.parameters, sfu=self.parameters)


@operator(
    "sgd",
    family="optimizer",
    title="stochastic gradient descent",
    formula="2 FLOP a parameter, 4 with momentum; bytes of p (and m) read and written, g read: 12 in fp32, 20 with momentum",
    source="definition; Sutskever et al. 2013",
)
@dataclass(frozen=True, kw_only=True)
class Sgd(OptimizerStep):
    """p <- p - step g, or with momentum m <- decay m + g and p <- p - step m, over every parameter in one kernel."""

    momentum: bool = flag("keep a momentum of each parameter")

    def states(self) -> tuple[str, ...]:
        """The momentum, where there is one."""
        return ("m",) if self.momentum else ()

    def counts(self) -> Counts:
        """A product and a sum for each parameter, and for its momentum."""
        return Counts(vector=STEP_FLOP * (2 if self.momentum else 1) * self.parameters)
