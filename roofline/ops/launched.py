"""What is launched: the kernels an operator becomes, described by what decides their time.

An operator counts work; what the device runs are kernels, and which ones depends on the execution: a rotary embedding is
fourteen kernels in eager torch and one in an engine. `Op.launched` gives them, by default one `Stream` for each pass, so a
new operator is estimated without a line of its own. Dimensions may be float64 arrays, as in operators.
"""

from __future__ import annotations

from typing import TypeAlias

from roofline.numeric import Number, where
from roofline.records import dataclass

EXECUTIONS = ("eager", "compiled", "graph", "engine")
"""eager: torch from Python; graph: the same kernels replayed from a captured graph; compiled: elementwise chains fused by a
compiler, replayed from a graph; engine: the fused kernels of an inference engine, replayed from a graph."""


def library_of(execution: str) -> str:
    """Whose kernels run: ``engine`` for an inference engine's, ``torch`` for all others.

    >>> library_of("graph")
    'torch'
    """
    return "engine" if execution == "engine" else "torch"


def fuses(execution: str) -> bool:
    """Whether a chain of elementwise functions is one kernel.

    >>> fuses("compiled"), fuses("graph")
    (True, False)
    """
    return execution in ("compiled", "engine")


def alignment(row_bytes: Number) -> Number:
    """The share of 16 bytes that rows of so many bytes start at a multiple of, at least 0.125.

    >>> alignment(4096), alignment(2 * 50257)
    (1.0, 0.125)
    """
    return where(row_bytes % 16 == 0, 1.0, where(row_bytes % 8 == 0, 0.5, where(row_bytes % 4 == 0, 0.25, 0.125)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A matrix product C[m, n] = A[m, k] B[k, n], ``batch`` times; bytes are those of each operand once, all batches.

    ``kind`` is ``gemm``, ``quantised_gemm`` (A is quantised in the same call), ``batched_gemm`` or ``conv2d`` (as an implicit
    product). ``dtype`` is that of the operands. ``aligned`` is the share of 16 bytes that every row starts at a multiple of: 1
    (or true), 0.5, 0.25, and 0.125 (or false) for 2 bytes and less.
    """

    kind: str
    batch: Number
    m: Number
    n: Number
    k: Number
    dtype: str
    read_bytes: Number
    write_bytes: Number
    aligned: Number | bool = True
    calls: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedProduct:
    """Products of rows with one of many matrices each, C[row, n] = A[row, k] W[its matrix, k, n], in one kernel.

    ``experts`` matrices lie here, of which ``chosen`` get rows: ``rows`` together, ``fullest`` that with most. ``weight_bytes`` are,
    among the bytes read, those of the matrices chosen. ``aligned``: rows of A and W hold a multiple of 16 elements.
    """

    experts: Number
    chosen: Number
    rows: Number
    fullest: Number
    n: Number
    k: Number
    dtype: str
    weight_bytes: Number
    read_bytes: Number
    write_bytes: Number
    aligned: Number | bool = True
    calls: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedAttention:
    """Attention streamed through on-chip memory. ``direction`` is forward or backward; ``keys`` are those a query sees at most.

    ``implementation`` is ``flash``, ``cudnn`` or ``efficient`` (backends of torch), ``engine`` (what an inference engine runs) or
    ``latent`` (all heads over one row a key, of which the first ``v_head_dim`` elements are the value); ``kv_len`` counts cached keys.
    """

    batch: Number
    heads: Number
    kv_heads: Number
    q_len: Number
    kv_len: Number
    head_dim: Number
    v_head_dim: Number
    dtype: str
    kv_dtype: str
    causal: bool
    window: Number = 0
    direction: str = "forward"
    implementation: str = "flash"
    calls: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A kernel that reads and writes memory row by row: norms, softmax, elementwise functions, gathers, copies.

    ``kind`` is the sort of kernel (``elementwise``, ``softmax``, ``layernorm``, ``transpose``, ``gather`` ...); ``rows`` and
    ``cols`` are its shape where the rows matter, else 1 and the elements. ``flop`` are of the vector lanes, ``sfu``
    special functions; ``tensor_flop`` of the matrix engine, for kernels that do some of each. ``fresh_bytes`` are those among
    the bytes read that the kernel before has just written: they may still be in L2.
    """

    kind: str
    rows: Number
    cols: Number
    read_bytes: Number
    write_bytes: Number
    dtype: str
    flop: Number = 0
    sfu: Number = 0
    tensor_flop: Number = 0
    fresh_bytes: Number = 0
    calls: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Bytes over a link, one way. ``kind`` is ``copy`` or a collective, among ``ranks``; the link of a copy joins two ends."""

    link: str
    bytes: Number
    kind: str = "copy"
    ranks: Number = 2
    calls: int = 1


Launched: TypeAlias = Product | GroupedProduct | FusedAttention | Stream | Transfer
