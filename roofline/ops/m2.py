"""A Monarch Mixer layer: attention replaced by a gated long convolution, the MLP by a block-diagonal one.

Along the sequence x goes through a projection to three tensors, u and two gates, a gated convolution by FFT (a Monarch
matrix, the spectrum, and the inverse matrix) and a projection back; along the channels through two block-diagonal products
with a GELU between. Norms, residuals and the short convolution of three taps are steps of their own. Products write the layout
that the next kernel reads, so that no transposition is counted. Source: Fu et al., arXiv 2310.12109, and its M2-BERT.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.numeric import Number, anywhere, maximum, total, where
from roofline.ops.base import Counts, Machine, Op, Pass, TensorSpec, Traffic, choice, dim, flag, number_format, operator
from roofline.ops.elementwise import Elementwise
from roofline.ops.fft_conv import IMPLEMENTATIONS, PADDINGS, FftConv, total_counts
from roofline.ops.gemm import BatchedGemm
from roofline.ops.launched import Launched
from roofline.ops.live import peak_scratch_bytes


@operator(
    "m2",
    family="mixer",
    title="Monarch Mixer layer: gated long convolution and block-diagonal MLP",
    formula="fft_conv over the sequence + 8 t hidden^2 / projection_blocks + 4 t hidden ffn / blocks FLOP, t = batch seq",
    source="Fu et al. 2023 (arXiv 2310.12109)",
)
@dataclass(frozen=True, kw_only=True)
class MonarchMixer(Op):
    """y = MLP(W_out (post k * (pre u))) with u, pre, post = W_in x; x and y are [batch, seq, hidden]."""

    batch: Number = dim("sequences")
    seq: Number = dim("elements of a sequence")
    hidden: Number = dim("channels of x and y")
    dtype: str = number_format("format of x, the weights and y")
    ffn: Number = dim("channels within the MLP; 0 for 4 hidden", default=0, minimum=0)
    blocks: Number = dim("blocks of each matrix of the MLP", default=4)
    projections: bool = flag("W_in and W_out; without them u and the gates are inputs", default=True)
    projection_blocks: Number = dim("blocks of W_in and W_out, 1 for dense ones", default=1)
    implementation: str = choice("how the convolution is computed", IMPLEMENTATIONS, default="flash")
    padding: str = choice("as of fft_conv", PADDINGS, default="causal")
    order: Number = dim("as of fft_conv, for flash", default=0, minimum=0)

    # ---------------------------------------------------------------- parts
    @property
    def tokens(self) -> Number:
        """Rows of the products."""
        return self.batch * self.seq

    @property
    def inner(self) -> Number:
        """Channels within the MLP."""
        return where(self.ffn > 0, self.ffn, 4 * self.hidden)

    def convolution(self) -> FftConv:
        """Over the sequence, with filters that come as spectra."""
        return FftConv(
            batch=self.batch,
            channels=self.hidden,
            seq=self.seq,
            dtype=self.dtype,
            implementation=self.implementation,
            padding=self.padding,
            order=self.order,
            gated=True,
            spectrum=True,
        )

    def _blocks(self, blocks: Number, wide: Number, deep: Number) -> BatchedGemm:
        """A block-diagonal product from ``deep`` to ``wide`` channels."""
        return BatchedGemm(
            batch=blocks, m=self.tokens, n=maximum(wide // blocks, 1), k=maximum(deep // blocks, 1), dtype=self.dtype, out_dtype=self.dtype
        )

    def products(self) -> dict[str, BatchedGemm]:
        """By name, in the order in which they run, the convolution between the first two."""
        around = {
            "project_in": self._blocks(self.projection_blocks, 3 * self.hidden, self.hidden),
            "project_out": self._blocks(self.projection_blocks, self.hidden, self.hidden),
        }
        mlp = {"up": self._blocks(self.blocks, self.inner, self.hidden), "down": self._blocks(self.blocks, self.hidden, self.inner)}
        return {**(around if self.projections else {}), **mlp}

    def activation(self) -> Elementwise:
        """Between the products of the MLP."""
        return Elementwise(function="gelu", elements=self.tokens * self.inner, dtype=self.dtype)

    def check(self) -> str | None:
        """Blocks divide the channels, and the sequence can be transformed."""
        if anywhere(self.hidden % self.blocks > 0) or anywhere(self.inner % self.blocks > 0):
            return "blocks must divide hidden and ffn"
        if self.projections and anywhere(self.hidden % self.projection_blocks > 0):
            return "projection_blocks must divide hidden"
        return self.convolution().check()

    # ---------------------------------------------------------------- tensors
    def _activations(self, name: str, channels: Number, role: str) -> TensorSpec:
        return TensorSpec(name, (self.batch, self.seq, channels), self.dtype, role)

    def _weight(self, name: str) -> TensorSpec:
        return replace(self.products()[name].tensors()[1], name=f"w_{name}", role="weight")

    def _inputs(self) -> tuple[TensorSpec, ...]:
        """x, or u and the gates."""
        conv = self.convolution()
        return (self._activations("x", self.hidden, "in"),) if self.projections else (conv.sequence("u", "in"), *conv.gates())

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x (or u and two gates), the filters' spectra, the weights of each product, y."""
        weights = tuple(self._weight(name) for name in self.products())
        return (*self._inputs(), self.convolution().filter_tensor(), *weights, self._activations("y", self.hidden, "out"))

    # ---------------------------------------------------------------- work
    def passes(self) -> tuple[Pass, ...]:
        """Projection, the kernels of the convolution, projection, product, GELU, product."""
        conv = self.convolution()
        inside = tuple(replace(p, reads=self._renamed(p.reads), writes=self._renamed(p.writes)) for p in conv.passes())
        mixed, h = self._renamed((conv.sequence("y", "out"),))[0], self._activations("h", self.inner, "scratch")
        found = list(inside)
        if self.projections:
            into = self._renamed((conv.sequence("u", "in"), *conv.gates()))
            out = self._activations("mixed", self.hidden, "scratch")
            found = [self._product("project_in", self._inputs(), into), *inside, self._product("project_out", (mixed,), (out,))]
            mixed = out
        found.append(self._product("up", (mixed,), (h,)))
        found.append(Pass("gelu", (h,), (h,), self.activation().counts()))
        return (*found, self._product("down", (h,), (self._activations("y", self.hidden, "out"),)))

    def _renamed(self, tensors: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        """Tensors of the convolution as this layer sees them: its result, and with projections its inputs, lie within."""
        within = ("y", "u", "pre_gate", "post_gate") if self.projections else ("y",)
        return tuple(replace(t, name=f"conv_{t.name}", role="scratch") if t.name in within else t for t in tensors)

    def _product(self, name: str, reads: tuple[TensorSpec, ...], writes: tuple[TensorSpec, ...]) -> Pass:
        return Pass(name, (*reads, self._weight(name)), writes, self.products()[name].counts())

    def counts(self) -> Counts:
        """Those of all passes."""
        return total_counts(self.passes())

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """Batched products, the kernels of the convolution, and the GELU."""
        products, conv = self.products(), self.convolution()
        around: tuple[Op, ...] = (products["project_in"], conv, products["project_out"]) if self.projections else (conv,)
        return tuple(k for part in (*around, products["up"], self.activation(), products["down"]) for k in part.launched(execution))

    # ---------------------------------------------------------------- traffic
    def _parts(self) -> tuple[Op, ...]:
        return (*self.products().values(), self.convolution())

    def compulsory(self, machine: Machine | None) -> Traffic:
        """Each operand of each pass once; registers as in the parts."""
        register = total(p.compulsory(machine).register for p in (*self._parts(), self.activation()))
        return replace(super().compulsory(machine), register=register)

    def tiled(self, machine: Machine) -> Traffic:
        """What the tiling of each part reads again."""
        once = self.compulsory(machine)
        found = [(p.tiled(machine), p.compulsory(machine)) for p in self._parts()]
        again = total(tiled.hbm - compulsory.hbm for tiled, compulsory in found)
        return replace(once, smem=total(tiled.smem for tiled, _ in found), l2=once.l2 + again, hbm=once.hbm + again)

    def extra_memory_bytes(self) -> Number:
        """What lies between the passes, as long as it is used."""
        return peak_scratch_bytes(self.passes())

    # ---------------------------------------------------------------- backward
    def saved(self) -> tuple[TensorSpec, ...]:
        """What each product and the convolution were given, and what the GELU was."""
        kept = {t.name: t for p in self.passes() for t in p.reads if p.name in (*self.products(), "gelu") and t.role != "weight"}
        conv = self._renamed((self.convolution().sequence("u", "in"), *self.convolution().gates()))
        return tuple({**kept, **{t.name: t for t in conv}}.values())

    def backward(self) -> tuple[Op, ...]:
        """Those of the parts, the last first."""
        products = self.products()
        parts: list[Op] = [products["down"], self.activation(), products["up"]]
        parts += [products["project_out"]] if self.projections else []
        parts.append(self.convolution())
        parts += [products["project_in"]] if self.projections else []
        return tuple(gradient for part in parts for gradient in part.backward())
