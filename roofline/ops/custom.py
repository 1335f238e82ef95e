"""Work that no other operator describes, given as plain totals."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Number, anywhere
from roofline.ops.base import Counts, Op, TensorSpec, amount, dim, number_format, operator, whole


@operator(
    "custom",
    family="custom",
    title="work given by its totals",
    formula="as given",
    source="the workload",
)
@dataclass(frozen=True, kw_only=True)
class Custom(Op):
    """FLOP by engine and bytes, all zero unless given; nothing at all is valid, as for a marker or a fixed cost."""

    dtype: str = number_format("format of the matrix FLOP, which picks the engine's rate")
    tensor_flop: Number = amount("FLOP on matrix units", "FLOP", default=0)
    vector_flop: Number = amount("FLOP on vector lanes", "FLOP", default=0)
    sfu_ops: Number = dim("special-function operations (exp, rsqrt, tanh ...)", default=0, minimum=0)
    read: Number = amount("bytes read from device memory", "B", default=0)
    write: Number = amount("bytes written to device memory", "B", default=0)
    weights: Number = dim("parameters of its own, in the format above, read once", default=0, minimum=0)
    cache: Number = amount("resident state that it reads, such as that of a recurrent layer", "B", default=0)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """Raw bytes in and out, parameters and resident state where it has some."""
        own = (TensorSpec("weights", (self.weights,), self.dtype, "weight"),) if anywhere(self.weights > 0) else ()
        state = (TensorSpec("state", (self.cache,), "int8", "cache"),) if anywhere(self.cache > 0) else ()
        return TensorSpec("read", (self.read,), "int8", "in"), *own, *state, TensorSpec("written", (self.write,), "int8", "out")

    def counts(self) -> Counts:
        """As given."""
        return Counts(tensor=whole(self.tensor_flop), vector=whole(self.vector_flop), sfu=whole(self.sfu_ops))
