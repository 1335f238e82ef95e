"""The keys of a dataflow file."""

from __future__ import annotations

from roofline.dataflow.form import ENGINES, ORDERS, PLACES, RESOURCES, ROLES
from roofline.spec.formula import Amount
from roofline.spec.schema import Bool, Choice, DtypeName, Integer, Key, ListOf, MapOf, Quantity, Record, Text
from roofline.spec.workload import Anything
from roofline.units import Dimension

SCHEMA = 1
_AMOUNT = Amount().json_schema()
NAMED = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}

TENSOR = Record(
    "a tensor",
    (
        Key("shape", ListOf(Amount(1)), "elements of each dimension", required=True),
        Key("dtype", DtypeName(), "number format; that of the dataflow when not given"),
        Key("role", Choice(ROLES), "in, out, weight, or scratch for what one kernel hands to the next; in when not given"),
        Key("held", Amount(), "scratch: bytes of it between being written and read, where kernels take turns over its parts"),
        Key("note", Text(), "free text"),
    ),
)
TILE = Record(
    "a tile",
    (
        Key("value", Amount(1), "its size", required=True),
        Key("choices", ListOf(Integer(1)), "sizes that 'tune' may try"),
        Key("note", Text(), "free text"),
    ),
)
TILES = {"type": "object", "additionalProperties": {"anyOf": [_AMOUNT, TILE.json_schema()]}}
LOOP = Record(
    "a loop",
    (
        Key("over", Amount(1), "elements it walks over", required=True),
        Key("tile", Amount(1), "elements of a piece; 1 when not given"),
        Key("parallel", Bool(), "spread over thread blocks"),
        Key("inside", Text("a loop"), "the loop around it; the one before it when not given"),
        Key("share", Amount(), "mean part of its iterations that run at all, such as half under a causal mask"),
    ),
)
_AT = Key("at", Text("a loop"), "the loop in each iteration of which it happens", required=True)
ACCESS = Record(
    "an access",
    (
        Key("tensor", Text("a tensor"), "which tensor", required=True),
        Key("index", ListOf(Text("a loop")), "for each dimension the loop that walks over it, loops as i.j, or all", required=True),
        _AT,
        Key("to", Choice(PLACES), "where the tile lies; smem when not given"),
        Key("buffers", Amount(), "copies of the tile in shared memory, such as the stages of a pipeline"),
        Key("in_place_of", Text("a tensor"), "tensor whose space it takes over"),
        Key("when", Amount(-1e30), "takes place where this is above 0"),
        Key("note", Text(), "free text"),
    ),
)
WORK = Record(
    "an item of work",
    (
        _AT,
        Key("vector", Amount(), "FLOP on the vector lanes"),
        Key("sfu", Amount(), "special functions"),
        Key("smem", Amount(), "bytes that units read and write in shared memory besides the operands of products"),
        Key("register", Amount(), "bytes at the registers besides the operands of vector FLOP"),
        Key("lines", Amount(), "lines of L1 that warps touch; one a cycle in the schedule, where that takes longer than the bytes"),
        Key("note", Text(), "free text"),
    ),
)


def product_record(loops: tuple[str, ...]) -> Record:
    """The keys of a matrix product; its sizes may be names of these loops."""
    size = Amount(0, words=loops)
    return Record(
        "a product",
        (
            _AT,
            Key("m", size, "rows of the result: a loop (its tile) or an amount", required=True),
            Key("n", size, "columns of the result", required=True),
            Key("k", size, "contracted length", required=True),
            Key("a", Choice(PLACES), "where the left operand is read; smem when not given"),
            Key("b", Choice(PLACES), "where the right operand is read; smem when not given"),
            Key("engine", Choice(ENGINES), "tensor or vector"),
            Key("dtype", DtypeName(), "format of the operands; that of the dataflow when not given"),
            Key("thread_m", Amount(1), "vector: rows of the result a thread"),
            Key("thread_n", Amount(1), "vector: columns of the result a thread"),
            Key("split_n", Amount(1), "tensor: groups of columns, each of which reads the left operand"),
            Key("pair", Amount(1), "tensor: processors that share the right operand (2-CTA)"),
            Key("count", Amount(), "how many such products in a step"),
            Key("note", Text(), "free text"),
        ),
    )


def kernel_record(loops: tuple[str, ...]) -> Record:
    """The keys of a kernel with these loops."""
    accesses = ListOf(ACCESS)
    return Record(
        "a kernel",
        (
            Key("name", Text(), "what it is called", required=True),
            Key("when", Amount(-1e30), "it is launched where this is above 0"),
            Key("loops", MapOf(LOOP), "its loops by name, outermost first", required=True),
            Key("reads", accesses, "tiles loaded"),
            Key("writes", accesses, "tiles written, each once"),
            Key("updates", accesses, "tiles written in each visit and read back in each but the first"),
            Key("products", ListOf(product_record(loops)), "matrix products of its steps"),
            Key("work", ListOf(WORK), "other work of its steps"),
            Key("space", MapOf(Amount()), "further bytes of shared memory, by name"),
            Key("accumulators", MapOf(Amount()), "fp32 results kept in registers by all workers together, by name"),
            Key("workers", Amount(1), "threads that compute; 128 when not given"),
            Key("producers", Amount(), "threads that only copy"),
            Key("overhead", Amount(), "registers of a worker besides its accumulators; 32 when not given"),
            Key("stages", Amount(1), "copies in flight; above 1 they run ahead of the arithmetic"),
            Key("overlap", ListOf(ListOf(Choice(RESOURCES))), "groups of resources used together; the groups follow one another"),
            Key("cluster", MapOf(Amount(1)), "by parallel loop, neighbouring blocks that share what they load"),
            Key("order", Choice(ORDERS), "how blocks are numbered"),
            Key("group", Amount(), "grouped: tiles of the last but one parallel loop in a group; 0: near-square waves"),
            Key("note", Text(), "free text"),
        ),
    )


LIMITS = Record(
    "limits",
    (
        Key("smem", Quantity(Dimension.BYTES), "shared memory of a block"),
        Key("registers", Integer(1), "registers of a worker"),
    ),
)


def dataflow_record() -> Record:
    """The top-level keys of a dataflow file."""
    return Record(
        "a dataflow",
        (
            Key("schema", Integer(SCHEMA, SCHEMA), "version of this format", required=True),
            Key("name", Text(), "family:variant", required=True),
            Key("also", ListOf(Text()), "other names by which it is found"),
            Key("title", Text(), "what it is, in a line"),
            Key("source", Text(), "where it comes from"),
            Key("note", Text(), "free text"),
            Key("dtype", DtypeName(), "number format of tensors and products that give none", required=True),
            Key("params", Anything(NAMED), "names for expressions"),
            Key("tiles", Anything(TILES), "sizes that may be tuned"),
            Key("let", Anything(NAMED), "names derived from params, tiles and the device"),
            Key("tensors", Anything(MapOf(TENSOR).json_schema()), "tensors in memory, by name", required=True),
            Key("kernels", Anything({**ListOf(kernel_record(())).json_schema(), "minItems": 1}), "the launches, in order", required=True),
            Key("limits", Anything(LIMITS.json_schema()), "what a block may take at most, by the file itself: smem, registers"),
        ),
    )
