"""Matrix products: C[m, n] = A[m, k] B[k, n], one or a batch of them.

FLOP 2 m n k. With a tile of ``tile_m x tile_n`` of C per block, each panel of A is read n / tile_n times and each
panel of B m / tile_m times from L2; a wave of blocks that runs together shares what it reads, so that HBM sees one
wave's union of panels (measured within 15 % on an H200 for matrices larger than L2). Sources: the tiling analysis of
CUTLASS and of the fast.cu and SGEMM_CUDA worklogs.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, ceil_div, maximum, minimum, total, where
from roofline.ops.base import (
    VECTOR_REGISTER_BYTES_PER_FLOP,
    Counts,
    Machine,
    Op,
    Pass,
    TensorSpec,
    Traffic,
    choice,
    dim,
    flag,
    number_format,
    operator,
    whole,
)
from roofline.ops.functions import FUNCTIONS
from roofline.ops.launched import Launched, Product, Stream, alignment, fuses, library_of
from roofline.records import dataclass

ACTIVATIONS = ("none", "relu", "gelu", "silu")
EIGHT_BITS = ("fp8", "fp8_e4m3", "fp8_e5m2", "int8")


@dataclass(frozen=True, kw_only=True)
class _Product(Op):
    """What gemm and batched_gemm share. ``batch`` products of one shape; B differs in each."""

    m: Number = dim("rows of A and C")
    n: Number = dim("columns of B and C")
    k: Number = dim("columns of A, rows of B: the contracted dimension")
    dtype: str = number_format("format of A and of the products")
    out_dtype: str | None = number_format("format of C; that of A when not given, bf16 for fp8 and fp4, int32 for int8", default=None)
    tile_m: Number = dim("rows of the block tile of C", default=128)
    tile_n: Number = dim("columns of the block tile of C", default=256)
    thread_m: Number = dim("rows of C per thread, for kernels on vector lanes", default=8)
    thread_n: Number = dim("columns of C per thread, for kernels on vector lanes", default=8)

    @property
    def products(self) -> Number:
        """How many products of this shape."""
        return 1

    @property
    def output_dtype(self) -> str:
        """The format of C."""
        return self.out_dtype or {"fp8": "bf16", "fp8_e4m3": "bf16", "fp8_e5m2": "bf16", "fp4": "bf16", "int8": "int32"}.get(
            self.dtype, self.dtype
        )

    def counts(self) -> Counts:
        """2 m n k on the matrix engine."""
        return Counts(tensor=2 * self.m * self.n * self.k * self.products)

    def _operands(self) -> tuple[TensorSpec, TensorSpec]:
        a, b = self.tensors()[:2]
        return a, b

    def compulsory(self, machine: Machine | None) -> Traffic:
        """Operands once; the accumulators leave the registers once, or feed every FLOP where no matrix unit does."""
        traffic = super().compulsory(machine)
        return replace(traffic, smem=0, register=self._register_bytes(machine))

    def _register_bytes(self, machine: Machine | None) -> Number:
        counts = self.counts()
        if machine is not None and not machine.has_matrix(self.dtype):
            return (counts.vector + counts.tensor) * VECTOR_REGISTER_BYTES_PER_FLOP
        return counts.vector * VECTOR_REGISTER_BYTES_PER_FLOP + 4 * self.m * self.n * self.products

    def tiled(self, machine: Machine) -> Traffic:
        """Panels re-read from L2 for each tile of C, operands re-read from shared memory for each thread or MMA tile."""
        a, b = self._operands()
        rest = self.compulsory(machine).hbm - a.moved_bytes - b.moved_bytes
        reads = a.moved_bytes * ceil_div(self.n, self.tile_n) + b.moved_bytes * ceil_div(self.m, self.tile_m)
        if machine.has_matrix(self.dtype):
            share_a, share_b = minimum(self.tile_n, self.n), minimum(machine.mma_rows, self.m)
        else:
            share_a, share_b = self.thread_n, self.thread_m
        feeds = a.moved_bytes * ceil_div(self.n, share_a) + b.moved_bytes * ceil_div(self.m, share_b)
        return Traffic(register=self._register_bytes(machine), smem=reads + feeds, l2=reads + rest, hbm=reads + rest)

    def cached(self, machine: Machine) -> Traffic:
        """HBM sees each wave's union of panels once; operands that fit in L2 together are read once."""
        tiled, compulsory = self.tiled(machine), self.compulsory(machine)
        a, b = self._operands()
        rest = compulsory.hbm - a.moved_bytes - b.moved_bytes
        rows, columns = ceil_div(self.m, self.tile_m), ceil_div(self.n, self.tile_n)
        wave_rows, wave_columns, waves = _wave(rows, columns, self.tile_m, self.tile_n, machine.processors)
        reads = waves * (a.moved_bytes * wave_rows / rows + b.moved_bytes * wave_columns / columns)
        resident = a.moved_bytes + b.moved_bytes <= machine.l2_bytes
        hbm = where(resident, compulsory.hbm, minimum(maximum(reads + rest, compulsory.hbm), tiled.hbm))
        return replace(tiled, hbm=hbm)


def _wave(rows: Number, columns: Number, tile_m: Number, tile_n: Number, blocks: float) -> tuple[Number, Number, Number]:
    """The wave of ``blocks`` tiles whose panels of A and B are smallest together: its rows, columns, and how many waves."""
    wave_rows = minimum(maximum((blocks * tile_n / tile_m) ** 0.5, 1), rows)
    wave_columns = minimum(blocks / wave_rows, columns)
    wave_rows = minimum(maximum(blocks / wave_columns, 1), rows)
    return wave_rows, wave_columns, rows * columns / (wave_rows * wave_columns)


@operator(
    "gemm",
    family="matrix",
    title="matrix product",
    formula="2 m n k FLOP; bytes e (m k + k n + m n)",
    source="definition of the product; tiling as in CUTLASS",
)
@dataclass(frozen=True, kw_only=True)
class Gemm(_Product):
    """C[m, n] = activation(A[m, k] W[k, n] + bias); W is a weight and may be quantised on its own."""

    weight_dtype: str | None = number_format("format of W when it is quantised on its own", default=None)
    group_size: Number = dim("weights that share a 2-byte scale, for a quantised W; 0 is one scale a column", default=0, minimum=0)
    bias: bool = flag("add a bias vector in the epilogue")
    activation: str = choice("function applied in the epilogue", ACTIVATIONS, default="none")
    accumulate: bool = flag("add to C (beta = 1), which reads it")
    frozen: bool = flag("W is not trained, so that backward forms no gradient of it")

    def tensors(self) -> tuple[TensorSpec, ...]:
        """A[m, k], W[k, n], bias[n], C[m, n]."""
        weight = self.weight_dtype or self.dtype
        quantised = find_dtype(weight).bits < find_dtype(self.dtype).bits
        scales = 2 * self.n * where(self.group_size > 0, ceil_div(self.k, maximum(self.group_size, 1)), 1) if quantised else 0
        bias = (TensorSpec("bias", (self.n,), self.output_dtype, "weight"),) if self.bias else ()
        return (
            TensorSpec("a", (self.m, self.k), self.dtype, "in"),
            TensorSpec("w", (self.k, self.n), weight, "weight", scale_bytes=scales),
            *bias,
            TensorSpec("c", (self.m, self.n), self.output_dtype, "inout" if self.accumulate else "out"),
        )

    def counts(self) -> Counts:
        """2 m n k, and m n of each epilogue operation on the vector lanes."""
        elements = self.m * self.n
        cost = FUNCTIONS[self.activation].cost if self.activation != "none" else Counts()
        additions = int(self.bias) + int(self.accumulate)
        return Counts(tensor=2 * elements * self.k, vector=elements * (cost.vector + additions), sfu=elements * cost.sfu)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel with bias and accumulation; an activation is part of it in an engine and a kernel behind it in torch.

        An engine quantises the activations of an 8-bit product by rows within the call.
        """
        a, w, *bias, c = self.tensors()
        engine = library_of(execution) == "engine"
        again = c.moved_bytes if self.accumulate else 0
        product = Product(
            kind="quantised_gemm" if engine and self.dtype in EIGHT_BITS else "gemm",
            batch=1,
            m=self.m,
            n=self.n,
            k=self.k,
            dtype=self.dtype,
            read_bytes=a.moved_bytes + w.moved_bytes + total(b.moved_bytes for b in bias) + again,
            write_bytes=c.moved_bytes,
            aligned=minimum(alignment(self.k * find_dtype(w.dtype).bytes), alignment(self.n * find_dtype(c.dtype).bytes)),
        )
        if engine or self.activation == "none":
            return (product,)
        return (product, behind(c, FUNCTIONS[self.activation].cost, execution))

    def compulsory(self, machine: Machine | None) -> Traffic:
        """C is read as well where the product is added to it."""
        traffic = super().compulsory(machine)
        again = self.tensors()[-1].moved_bytes if self.accumulate else 0
        return replace(traffic, l2=traffic.l2 + again, hbm=traffic.hbm + again)

    def saved(self) -> tuple[TensorSpec, ...]:
        """A, for the gradient of W."""
        return () if self.frozen else self.tensors()[:1]

    def backward(self) -> tuple[Op, ...]:
        """dA[m, k] = dC W^T and, unless W is frozen, dW[k, n] = A^T dC: products of the same size."""
        plain = replace(self, out_dtype=None, bias=False, activation="none", accumulate=False, frozen=False)
        gradient = replace(plain, n=self.k, k=self.n)
        return (gradient,) if self.frozen else (gradient, replace(plain, m=self.k, k=self.m, weight_dtype=None, group_size=0))


@operator(
    "batched_gemm",
    family="matrix",
    title="batch of matrix products with a different B each",
    formula="2 batch m n k FLOP; bytes batch e (m k + k n + m n)",
    source="definition of the product",
)
@dataclass(frozen=True, kw_only=True)
class BatchedGemm(_Product):
    """C[b, m, n] = A[b, m, k] B[b, k, n]; both operands are activations."""

    batch: Number = dim("number of products")

    @property
    def products(self) -> Number:
        """One for each element of the batch."""
        return self.batch

    def tensors(self) -> tuple[TensorSpec, ...]:
        """A[batch, m, k], B[batch, k, n], C[batch, m, n]."""
        return (
            TensorSpec("a", (self.batch, self.m, self.k), self.dtype, "in"),
            TensorSpec("b", (self.batch, self.k, self.n), self.dtype, "in"),
            TensorSpec("c", (self.batch, self.m, self.n), self.output_dtype, "out"),
        )

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel."""
        a, b, c = self.tensors()
        rows = minimum(alignment(self.k * find_dtype(a.dtype).bytes), alignment(self.n * find_dtype(b.dtype).bytes))
        return (
            Product(
                kind="batched_gemm",
                batch=self.batch,
                m=self.m,
                n=self.n,
                k=self.k,
                dtype=self.dtype,
                read_bytes=a.moved_bytes + b.moved_bytes,
                write_bytes=c.moved_bytes,
                aligned=minimum(rows, alignment(self.n * find_dtype(c.dtype).bytes)),
            ),
        )

    def cached(self, machine: Machine) -> Traffic:
        """Products run one after the other, so re-reads within one product hit L2 when its operands fit there."""
        one = Gemm(m=self.m, n=self.n, k=self.k, dtype=self.dtype, out_dtype=self.out_dtype, tile_m=self.tile_m, tile_n=self.tile_n)
        return replace(self.tiled(machine), hbm=one.cached(machine).hbm * self.batch)

    def saved(self) -> tuple[TensorSpec, ...]:
        """Both operands."""
        return self.tensors()[:2]

    def backward(self) -> tuple[Op, ...]:
        """dA = dC B^T and dB = A^T dC."""
        plain = replace(self, out_dtype=None)
        return (replace(plain, n=self.k, k=self.n), replace(plain, m=self.k, k=self.m))


def behind(result: TensorSpec, cost: Counts, execution: str) -> Stream:
    """A kernel that changes each element of a product's result in place, for ``cost`` an element."""
    kind = "fused" if fuses(execution) else "elementwise"
    once = Pass(kind, (result,), (result,), Counts(vector=cost.vector * result.elements, sfu=cost.sfu * result.elements))
    return replace(once.stream(kind, result.dtype), rows=1, cols=result.elements)


def tile_bytes(tile_m: Number, tile_n: Number, tile_k: Number, dtype: str, stages: Number = 1) -> Number:
    """Shared memory of one block: the A and B tiles of each pipeline stage."""
    return whole((tile_m + tile_n) * tile_k * find_dtype(dtype).bytes * stages)
