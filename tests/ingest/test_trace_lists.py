"""Lists of tensors that were too long to record: what the launch grids say of them, and when they say too little."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roofline.ingest.trace_lists import CHUNK, MOST_TENSORS, launched
from roofline.ingest.trace_report import ingest_trace
from roofline.ingest.trace_steps import workload_of
from roofline.report.trace import TraceReport, TraceRow
from tests.ingest.traces import Made, scalar, tensor

LONG = ([], "TensorList", "")
STARTS = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
ADAM = STARTS + "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<c10::BFloat16, 4> >"
SGD = STARTS + "FusedOptimizerTensorListMetadata<{}>, at::native::(anonymous namespace)::FusedSgdMathFunctor<float, 2> >"
ADD = STARTS + "TensorListMetadata<{}>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0> >"


def report(folder: Path, name: str, args: list[Any], kernels: list[str], blocks: list[Any]) -> TraceReport:
    made = Made()
    owner = made.operator(name, 0, 50, *args)
    for i, (kernel, grid) in enumerate(zip(kernels, blocks, strict=True)):
        more = {} if grid is None else {"grid": [grid, 1, 1] if isinstance(grid, int) else grid}
        made.kernel(kernel, 100 + 20 * i, 5, launched=2 + i, owner=owner, **more)
    return ingest_trace(made.write(folder))


def row(*how: Any) -> TraceRow:
    (found,) = report(*how).rows
    return found


def adam_arguments() -> list[Any]:
    """Parameters, gradients, means, squares, no maxima, counts of steps; and numbers."""
    return [LONG] * 6 + [scalar("0.1")] * 7


# --------------------------------------------------------------------------- the count
RECORDED = [
    ([[25755648], [512], [25755648]], [320, 320, 147]),
    ([[512], [512], [1572864], [524288], [2097152], [2097152]], [98]),
    ([[131334144], [1024], [131334144]], [320] * 12 + [169]),
    ([[1024], [1024], [3145728], [2097152], [16777216], [8388608]], [320, 146]),
    ([[2048], [2048], [12582912], [8388608], [58720256], [29360128]], [320] * 5 + [66]),
]
"""``_foreach_copy_`` as torch 2.11 ran it on an H200: shapes and grids, which the same trace has where lists are short."""


@pytest.mark.parametrize(("shapes", "grids"), RECORDED, ids=[str(len(g)) for _, g in RECORDED])
def test_a_block_is_a_chunk_of_one_tensor(shapes: list[list[int]], grids: list[int]) -> None:
    """Real launches: the blocks are those of 65,536 numbers each, and the numbers lie between the two counts."""
    assert sum(grids) == sum(-(-prod(s) // CHUNK) for s in shapes)
    found = launched([(ADD.format(2), g) for g in grids])
    assert found is not None
    assert found.least <= sum(map(prod, shapes)) <= found.most


@pytest.mark.parametrize(
    ("parameters", "grids", "error"),
    [
        (1_498_482_688, [320] * 71 + [177], 0.0014),
        (405_062_656, [320] * 19 + [149], 0.0079),
        (8_030_261_248 // 2, [320] * 191 + [209], 0.0011),
    ],
    ids=["llama3.2-1b", "gpt2-medium-like", "half of llama3-8b"],
)
def test_parameters_of_models_by_their_optimizers_grids(parameters: int, grids: list[int], error: float) -> None:
    """Real launches of fused AdamW on an H200, models whose parameters are known: too many by less than what is stated."""
    found = launched([(ADAM, g) for g in grids])
    assert found is not None
    assert found.least <= parameters <= found.most
    assert found.most / parameters - 1 == pytest.approx(error, abs=1e-4)
    assert error < found.unsure < 0.13


@example(sizes=[1] * 400, lists=5, large=True)
@example(sizes=[1] * 400, lists=1, large=False)
@given(sizes=st.lists(st.integers(1, 900_000), min_size=1, max_size=400), lists=st.integers(1, 5), large=st.booleans())
def test_the_numbers_lie_between_both_counts(sizes: list[int], lists: int, large: bool) -> None:
    """Launches as torch makes them: one is full at 320 blocks or at a number of tensors, seven times both with large arguments."""
    grids, tensors, blocks = [], 0, 0
    most_tensors, most_blocks = (n * (7 if large else 1) for n in (MOST_TENSORS[lists - 1], 320))
    for size in sizes:
        chunks = -(-size // CHUNK)
        tensors += 1
        for chunk in range(chunks):
            blocks += 1
            whole = chunk == chunks - 1
            if blocks == most_blocks or (tensors == most_tensors and whole):
                grids.append(blocks)
                tensors, blocks = (0 if whole else 1), 0
    grids += [blocks] if blocks else []
    found = launched([(ADD.format(f"{lists}, true" if large else lists), g) for g in grids])
    assert found is not None
    assert found.least <= sum(sizes) <= found.most == CHUNK * sum(grids)
    assert found.lists == lists


# --------------------------------------------------------------------------- the row
def test_an_optimizer_over_a_long_list_is_counted_and_marked(tmp_path: Path) -> None:
    """320 + 100 blocks: 27,525,120 parameters at most, 28 B each in bf16 with gradients and two states; both in the row and in a file."""
    found = report(tmp_path, "aten::_fused_adamw_", adam_arguments(), [ADAM, ADAM], [320, 100])
    (only,) = found.rows
    assert only.work[0].fields == {"parameters": 420 * 65536, "dtype": "bf16"}
    assert only.hbm_bytes == 2 * (4 + 3) * 420 * 65536  # four read and three written, 2 B each
    assert only.note is not None
    assert "27525120 numbers are counted from the grids of its launches, 65536 a block, at most 17 % too many" in only.note
    assert only.note in workload_of(found, "w")
    assert found.coverage == 1


def test_shapes_are_taken_where_they_are_recorded(tmp_path: Path) -> None:
    """Exact, and not marked, whatever the grid; an empty list beside others (no ``amsgrad``) is empty and was not left out."""
    some = ([[1000], [24]], "TensorList", "")
    args = [some, some, some, some, LONG, ([[], []], "TensorList", "")]
    found = row(tmp_path, "aten::_fused_adamw_", args, [ADAM], [2])
    assert (found.work[0].fields["parameters"], found.note) == (1024, None)


@pytest.mark.parametrize(("lists", "moved"), [(2, 3), (3, 5)])
def test_the_kernel_says_which_lists_there_are(tmp_path: Path, lists: int, moved: int) -> None:
    """SGD over parameters and gradients, and with momenta: both record three empty lists."""
    found = row(tmp_path, "aten::_fused_sgd_", [LONG, LONG, LONG, scalar("0.1")], [SGD.format(lists)], [2000 // 7])
    assert found.hbm_bytes == moved * 4 * (2000 // 7) * 65536


@pytest.mark.parametrize(
    ("kernels", "blocks"),
    [
        ([ADD.format(2)], [None]),
        ([ADD.format(2)], [[320, 2, 1]]),
        ([ADD.format(2)], ["320"]),
        ([ADD.format(2)], [0]),
        ([ADD.format(9)], [320]),
        ([ADD.format(2), ADD.format(3)], [320, 320]),
        (["void multi_tensor_apply_kernel<TensorListMetadata<2>, AdamFunctor<float> >"], [320]),
        ([ADD.format(2)], [99]),
    ],
    ids=["none", "two dimensions", "text", "no block", "nine lists", "two sorts", "of another library", "small tensors"],
)
def test_what_the_launches_do_not_tell_stays_unknown(tmp_path: Path, kernels: list[str], blocks: list[Any]) -> None:
    """No grid, one that torch does not make, chunks of another size (apex), or so few that tensors of one number would fill them."""
    found = row(tmp_path, "aten::_foreach_add_", [LONG, LONG, scalar("1")], kernels, blocks)
    assert found.flop is found.hbm_bytes is found.note is None
    assert "too long to record" in str(found.unknown)


# --------------------------------------------------------------------------- sharded training
def test_the_copies_of_fsdp_have_the_format_of_their_tensor(tmp_path: Path) -> None:
    """Kernels that copy bytes name no format: the tensor beside the list has it. One that converts names that of the list."""
    x, parts = tensor(2, 30), ([[2, 10], [2, 20]], "TensorList", "")
    split = row(tmp_path, "aten::split_with_sizes_copy", [x, scalar("[10, 20]"), scalar("1"), parts], ["split_kernel(char**, char**)"], [1])
    assert split.hbm_bytes == 2 * 2 * 60
    args = [([[5, 4], [10]], "TensorList", ""), scalar("0"), scalar("2"), tensor(2, 17)]
    same = row(tmp_path, "aten::_chunk_cat", args, ["void at::native::detail::chunk_cat_cuda_kernel<char, char>(char**)"], [1])
    assert same.hbm_bytes == 2 * (30 + 34)
    wide = [*args[:3], tensor(2, 17, dtype="float")]
    other = row(tmp_path, "aten::_chunk_cat", wide, ["void at::native::detail::chunk_cat_cuda_kernel<float, c10::BFloat16>(char**)"], [1])
    assert other.hbm_bytes == 2 * 30 + 4 * 34
