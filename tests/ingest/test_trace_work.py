"""Kernels to operators: who launched what, what work that is, and that no work is counted twice or guessed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.ingest.trace_collectives import OPERATORS, is_communication
from roofline.ingest.trace_report import ingest_trace
from roofline.ingest.trace_steps import steps_of
from roofline.ops.base import work_of
from roofline.report.store import to_json
from roofline.report.trace import TraceReport, TraceRow
from roofline.spec.hardware import load_hardware
from tests.ingest.traces import Made, product, scalar, tensor


def rows(folder: Path, made: Made, **how: Any) -> dict[str, TraceRow]:
    """Rows by the recorded name."""
    return {r.name: r for r in report(folder, made, **how).rows}


def report(folder: Path, made: Made, **how: Any) -> TraceReport:
    return ingest_trace(made.write(folder), **how)


# --------------------------------------------------------------------------- who launched it
def test_a_kernel_belongs_to_the_operator_of_its_external_id(tmp_path: Path) -> None:
    """And without one to the innermost operator on the thread that launched it, at that time."""
    made = Made()
    outer = made.operator("aten::unknown_outer", 0, 100)
    made.operator("aten::mm", 10, 20, tensor(4, 8), tensor(8, 2))
    made.operator("aten::mm", 40, 20, tensor(4, 8), tensor(8, 64))
    made.operator("aten::mm", 10, 80, tensor(4, 8), tensor(8, 128), thread=2)
    made.operator("custom::elsewhere", 12, 10, thread=3)
    made.kernel("inside_first", 200, 1, launched=15)
    made.kernel("inside_second", 210, 1, launched=45)
    made.kernel("on_the_other_thread", 220, 1, launched=45.5, thread=2)
    made.kernel("behind_both", 230, 1, launched=90, owner=None)
    made.kernel("by_id", 240, 1, launched=45.2, owner=outer)
    made.kernel("while_others_run", 250, 1, launched=14, thread=3)
    found = [(r.work[0].fields["n"] if r.work else r.name, r.kernels) for r in report(tmp_path, made).rows]
    assert set(found) == {(2, 1), (64, 1), (128, 1), ("aten::unknown_outer", 2), ("custom::elsewhere", 1)}


def test_who_delegates_counts_nothing_of_its_own(tmp_path: Path) -> None:
    """``linear`` calls ``addmm``: the product is counted once, and a stray kernel of the former is not a second product."""
    made = Made()
    made.operator("aten::linear", 0, 50, tensor(4, 8), tensor(16, 8), tensor(16))
    inner = made.operator("aten::addmm", 10, 10, tensor(16), tensor(4, 8), tensor(8, 16), scalar("1"), scalar("1"))
    odd = made.operator("custom::transpose_weights", 25, 5, tensor(16, 8))
    made.kernel("gemm", 100, 10, launched=12, owner=inner)
    made.kernel("splitk_reduce", 110, 2, launched=14, owner=inner)
    made.kernel("odd", 120, 3, launched=26, owner=odd)
    found = report(tmp_path, made)
    by_name = {r.name: r for r in found.rows}
    assert by_name["aten::addmm"].kernels == 2
    assert by_name["aten::addmm"].time_s == pytest.approx(12e-6)
    assert found.known_flop is not None
    assert found.known_flop["tensor"] == 2 * 4 * 8 * 16
    assert "part of an operator of which other kernels are counted" in str(by_name["custom::transpose_weights"].unknown)


def test_an_operator_whose_parts_are_unknown_stands_for_them(tmp_path: Path) -> None:
    """The same stray kernel alone: then nothing else counted ``linear``, which does."""
    made = Made()
    made.operator("aten::linear", 0, 50, tensor(4, 8), tensor(16, 8), tensor(16))
    odd = made.operator("custom::gemm", 25, 5, tensor(16, 8))
    made.kernel("odd", 120, 3, launched=26, owner=odd)
    row = rows(tmp_path, made)["aten::linear"]
    assert row.flop is not None
    assert row.flop["tensor"] == 2 * 4 * 8 * 16


@pytest.mark.parametrize(("call", "count"), [("cudaGraphLaunch", 1), ("hipGraphLaunch", 2), ("a_call_of_a_later_driver", 2)])
def test_kernels_of_one_call_are_a_graph(tmp_path: Path, call: str, count: int) -> None:
    """By the call's name, or by its having launched several; whatever ran around it did not launch them one by one."""
    made = Made()
    owner = made.operator("aten::mm", 0, 20, tensor(4, 8), tensor(8, 2))
    number = made.kernel("kernel", 100, 5, launched=5, call=call, owner=owner)
    for i in range(1, count):
        made.kernel("kernel", 100 + 10 * i, 5, correlation=number, owner=owner)
    found = report(tmp_path, made)
    assert found.coverage == 0
    assert all("graph" in str(r.unknown) for r in found.rows)
    assert found.idle.by_cause_s == ({"graph": pytest.approx(5e-6)} if count > 1 else {})


def test_phases_and_gradients(tmp_path: Path) -> None:
    """Backward by autograd's engine, optimizer by its own mark, the forward operator by the sequence number."""
    made = Made()
    made.operator("aten::linear", 0, 20, tensor(4, 8), tensor(16, 8), **{"Sequence number": 7, "Fwd thread id": 0})
    forward = made.operator("aten::mm", 5, 10, tensor(4, 8), tensor(8, 16), **{"Sequence number": 7, "Fwd thread id": 0})
    engine = "autograd::engine::evaluate_function: MmBackward0"
    made.operator(engine, 100, 50, thread=2, **{"Sequence number": 7, "Fwd thread id": 1})
    backward = made.operator("aten::mm", 110, 10, tensor(16, 4), tensor(4, 8), thread=2)
    made.event("user_annotation", "Optimizer.step#SGD.step", 200, 50, 1)
    update = made.operator("aten::add_", 210, 10, tensor(4, 8), tensor(4, 8), scalar("1"))
    for i, owner in enumerate((forward, backward, update)):
        made.kernel("k", 300 + 10 * i, 5 + i, launched=(6, 111, 211)[i], owner=owner, thread=(1, 2, 1)[i])
    found = [(r.name, r.phase, r.gradient_of) for r in sorted(report(tmp_path, made).rows, key=lambda r: r.order)]
    assert found == [("aten::mm", "forward", None), ("aten::mm", "backward", "aten::linear"), ("aten::add_", "optimizer", None)]


# --------------------------------------------------------------------------- what it does
def test_equal_calls_are_one_row_and_others_are_not(tmp_path: Path) -> None:
    made = Made()
    for i, n in enumerate((16, 16, 32)):
        product(made, 8, n, 64, 100.0 * i, length=10.0 + i)
    found = report(tmp_path, made)
    assert [(r.calls, r.work[0].fields["n"], r.id) for r in found.rows] == [(2, 16, "mm"), (1, 32, "mm-2")]
    assert found.rows[0].time_s == pytest.approx(21e-6)
    assert found.known_hbm_bytes == sum(2 * (8 * 64 + 64 * n + 8 * n) for n in (16, 16, 32))


def test_share_of_roof_by_hand(tmp_path: Path) -> None:
    """4096^3 in bf16 on an H200 needs 2 x 4096^3 / 989.4e12 s at least; in 200 us, the mean of two, that is 69.5 % of the roof."""
    made = Made()
    product(made, 4096, 4096, 4096, 100, length=190.0)
    product(made, 4096, 4096, 4096, 300, length=210.0)
    row = report(tmp_path, made, hardware=load_hardware("h200-sxm")).rows[0]
    assert row.limiter == "tensor"
    assert row.bound_s == pytest.approx(2 * 4096**3 / 989.4e12, rel=1e-3)
    assert row.share_of_roof == pytest.approx(0.6946, abs=2e-3)


def test_faster_than_the_bound_is_said(tmp_path: Path) -> None:
    made = Made()
    product(made, 4096, 4096, 4096, 100, length=50.0)
    found = report(tmp_path, made, hardware=load_hardware("h200-sxm"))
    assert found.rows[0].share_of_roof is not None
    assert found.rows[0].share_of_roof > 1
    assert "W105" in {w.code for w in found.warnings}


def test_faster_than_hbm_and_small_enough_for_l2_is_no_mistake(tmp_path: Path) -> None:
    """24 MB in 4 us are 6 TB/s, out of an L2 of 50 MiB; 240 MB in 40 us are not."""
    for elements, time, code in ((4_000_000, 4.0, "W106"), (40_000_000, 40.0, "W105")):
        made = Made()
        owner = made.operator("aten::add", 0, 5, tensor(elements), tensor(elements))
        made.kernel("vectorized_elementwise_kernel", 10, time, launched=1, owner=owner)
        found = report(tmp_path, made, hardware=load_hardware("h200-sxm"))
        assert [w.code for w in found.warnings] == [code]


def test_tf32_runs_on_tensor_cores(tmp_path: Path) -> None:
    """A product of fp32 numbers whose kernel says tf32 is held against that rate, in 4-byte numbers."""
    made = Made()
    for i, kernel in enumerate(("ampere_sgemm_128x64_nn", "sm80_xmma_gemm_f32f32_tf32f32_f32_nn")):
        owner = made.operator("aten::mm", 20.0 * i, 10, tensor(64, 64, dtype="float"), tensor(64, 64, dtype="float"))
        made.kernel(kernel, 100 + 20 * i, 5 + i, launched=20 * i + 2, owner=owner)
    assert {r.work[0].fields["dtype"]: r.hbm_bytes for r in report(tmp_path, made).rows} == {"fp32": 12 * 64 * 64, "tf32": 12 * 64 * 64}


@pytest.mark.parametrize(
    ("name", "kind", "moved"),
    [
        ("Memcpy DtoD (Device -> Device)", "gpu_memcpy", 2),
        ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 1),
        ("Memset (Device)", "gpu_memset", 1),
    ],
)
def test_copies_state_their_bytes(tmp_path: Path, name: str, kind: str, moved: int) -> None:
    """Device memory is read and written within the device, and only one of both otherwise; they are no kernels."""
    made = Made()
    made.kernel(name, 10, 5, launched=1, cat=kind, bytes=4096)
    found = report(tmp_path, made)
    assert (found.kernels, found.copies, found.coverage) == (0, 1, None)
    assert found.rows[0].hbm_bytes == moved * 4096


def test_copies_from_the_host_are_bound_by_its_link(tmp_path: Path) -> None:
    """64 MB over PCIe 5 at 64 GB/s need 1 ms at least, whatever the memory could do; without a profile no link is known."""
    made = Made()
    made.kernel("Memcpy HtoD (Pinned -> Device)", 10, 2000, launched=1, cat="gpu_memcpy", bytes=64_000_000)
    row = report(tmp_path, made, hardware=load_hardware("b200-sxm")).rows[0]
    assert (row.limiter, row.bound_s, row.share_of_roof) == ("pcie", pytest.approx(1e-3), pytest.approx(0.5))
    without = report(tmp_path, made)
    assert without.rows[0].hbm_bytes == 64_000_000
    assert steps_of(without) == ()


def test_a_copy_of_unknown_size_is_unknown(tmp_path: Path) -> None:
    made = Made()
    made.kernel("Memset (Device)", 10, 5, launched=1, cat="gpu_memset")
    assert report(tmp_path, made).rows[0].unknown == "its bytes are not recorded"


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_collectives_by_their_message(tmp_path: Path, name: str) -> None:
    """1024 elements in, 8192 out (or the other way round) of bf16 among 8 ranks, over a link that the user names."""
    made = Made()
    out = OPERATORS[name][1] == "out"
    counts = {"In msg nelems": 1024 if out else 8192, "Out msg nelems": 8192 if out else 1024}
    made.kernel("ncclDevKernel", 10, 5, launched=1, **{"Collective name": name, "Group size": 8, "dtype": "BFloat16", **counts})
    found = report(tmp_path, made, link_name="nvlink", hardware=load_hardware("h200-sxm"))
    row = found.rows[0]
    assert row.work[0].op == OPERATORS[name][0]
    assert (row.work[0].fields["size"], row.lane, row.limiter) == (2 * 8192, "communication", "nvlink")
    assert row.link_bytes == work_of(steps_of(found)[0].op, None).link_bytes["nvlink"]


def test_a_collective_needs_a_link_for_a_bound(tmp_path: Path) -> None:
    """None is recorded: without one there is no bound, the reason, and no step."""
    made = Made()
    made.kernel("nccl", 10, 5, launched=1, **{"Collective name": "allreduce", "In msg nelems": 64, "Group size": 8, "dtype": "Float"})
    found = report(tmp_path, made, hardware=load_hardware("h200-sxm"))
    assert found.rows[0].bound_s is None
    assert "add --link" in found.rows[0].unavailable["bound_s"]
    assert found.rows[0].link_bytes == 2 * 256 * 7 / 8
    assert steps_of(found) == ()


@pytest.mark.parametrize(
    ("missing", "said"), [("Group size", "size of the group"), ("In msg nelems", "message's size"), ("dtype", "message's size")]
)
def test_messages_that_say_too_little_are_unknown(tmp_path: Path, missing: str, said: str) -> None:
    message: dict[str, Any] = {"Collective name": "allreduce", "In msg nelems": 64, "Group size": 8, "dtype": "Float"}
    made = Made()
    made.kernel("nccl", 10, 5, launched=1, **{k: v for k, v in message.items() if k != missing})
    assert said in str(report(tmp_path, made).rows[0].unknown)


def test_names_of_communication() -> None:
    assert is_communication("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)")
    assert is_communication("void multimem_all_reduce_kernel<c10::BFloat16, 8>()")
    assert not is_communication("void at::native::reduce_kernel<512, 1>()")


def test_a_message_of_an_operator_stands_for_all_its_kernels(tmp_path: Path) -> None:
    """Older profilers put it there alone; a collective of two kernels is one message."""
    message: dict[str, Any] = {"Collective name": "allreduce", "In msg nelems": 64, "Group size": 8, "dtype": "Float"}
    made = Made()
    owner = made.operator("record_param_comms", 0, 10, **message)
    for i in range(2):
        made.kernel("ncclKernel", 100 + 10 * i, 5, launched=2 + i, owner=owner)
    row = report(tmp_path, made).rows[0]
    assert (row.name, row.calls, row.kernels, row.link_bytes) == ("allreduce", 1, 2, 2 * 256 * 7 / 8)


# --------------------------------------------------------------------------- kernels that a compiler fused
def fused(folder: Path, name: str, *args: Any) -> TraceRow:
    made = Made()
    owner = made.operator(name, 0, 10, *args, kernel_backend="triton", kernel_file="/home/somebody/secret.py")
    made.kernel(name, 100, 5, launched=2, owner=owner)
    return report(folder, made).rows[0]


def test_a_fused_kernel_by_its_name_and_arguments(tmp_path: Path) -> None:
    """add, mul and silu of 1024 x 64 elements: 1 + 1 + 4 FLOP and one exponential each, and each tensor once."""
    x = tensor(1024, 64)
    row = fused(tmp_path, "triton_poi_fused_add_mul_silu_3", x, x, tensor(64), scalar("65536"))
    assert row.flop == {"tensor": 0, "vector": 6 * 65536, "sfu": 65536}
    assert row.hbm_bytes == 2 * (2 * 65536 + 64)


@pytest.mark.parametrize(
    "name", ["triton_poi_fused_add_slice_1", "triton_poi_fused_embedding_0", "triton_tem_fused_mm_2", "triton_red_fused_index_add_1"]
)
def test_fused_kernels_that_may_touch_less_are_unknown(tmp_path: Path, name: str) -> None:
    """A slice or a gather reads a part of an argument: its shape is no lower bound."""
    row = fused(tmp_path, name, tensor(1024, 64), tensor(1024, 64))
    assert row.flop is row.hbm_bytes is None
    assert row.unknown


# --------------------------------------------------------------------------- lists of tensors
def test_formats_of_lists_come_from_the_kernel(tmp_path: Path) -> None:
    """The profiler records the shapes of a list and not its format, which the kernel's name states."""
    made = Made()
    listed = ([[4, 8], [4, 8]], "TensorList", "")
    for i, kernel in enumerate(("CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 2>", "cat_of_whatever")):
        owner = made.operator("aten::cat", 20.0 * i, 10, listed, scalar("1"))
        made.kernel(kernel, 100 + 20 * i, 5 + i, launched=20 * i + 2, owner=owner)
    known, unknown = sorted(report(tmp_path, made).rows, key=lambda r: r.order)
    assert known.hbm_bytes == 2 * 2 * 2 * 32
    assert unknown.unknown == "the format of a list's tensors is not recorded"


def test_lists_that_were_too_long_to_record_are_unknown(tmp_path: Path) -> None:
    made = Made()
    owner = made.operator("aten::_foreach_add_", 0, 10, ([], "TensorList", ""), scalar("1"))
    made.kernel("multi_tensor_apply_kernel<TensorListMetadata<1>, UnaryOpFunctor<float> >", 100, 5, launched=2, owner=owner)
    assert "too long to record" in str(report(tmp_path, made).rows[0].unknown)


# --------------------------------------------------------------------------- arguments of any sort
def recorded_operators() -> list[tuple[str, Any, Any, Any]]:
    """Operators of real traces as recorded: name, dims, types, values."""
    found = {}
    for name in ("b200_vllm_eager", "mi300x_norm_layers_fwd_bwd"):
        path = Path(__file__).parent.parent / "data/traces" / f"{name}.pt.trace.json.gz"
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
            args = event.get("args", {})
            if event.get("cat") == "cpu_op" and args.get("Input Dims"):
                shapes = tuple(args[key] for key in ("Input Dims", "Input type", "Concrete Inputs"))
                found[event["name"]] = (event["name"], *shapes)
    return sorted(found.values(), key=lambda o: o[0])


CALLS = recorded_operators()
LARGE = st.sampled_from([[], None, "", [2**50], [2**20] * 9, [[4], [2, 3]]])
ODD_DIMS = st.one_of(LARGE, st.lists(st.integers(-2, 5), max_size=5))
ODD_TYPES = st.sampled_from(["float", "long int", "c10::BFloat16", "c10::complex<float>", "Scalar", "TensorList", "", "bool", 3, None])
ODD_VALUES = st.one_of(st.sampled_from(["", "[1, 0]", "[" * 50, "1e999", "True"]), st.text(max_size=4), st.integers())


@given(call=st.sampled_from(CALLS), at=st.integers(0, 12), dims=ODD_DIMS, kind=ODD_TYPES, value=ODD_VALUES, keep=st.integers(0, 12))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arguments_of_any_sort_are_counted_or_unknown(
    tmp_path: Path, call: Any, at: int, dims: Any, kind: Any, value: Any, keep: int
) -> None:
    """One argument is replaced, some are dropped: never an exception, and JSON at the end."""
    name, *shapes = call
    args = [list(a) for a in zip(*shapes, strict=True)]
    args[at % len(args)] = [dims, kind, value]
    made = Made()
    owner = made.operator(name, 0, 10, *[tuple(a) for a in args[: max(keep, 1)]])  # type: ignore[misc]
    made.kernel("void kernel<float>()", 100, 5, launched=2, owner=owner)
    found = report(tmp_path, made, hardware=load_hardware("h200-sxm"))
    assert found.rows[0].work or found.rows[0].unknown
    assert to_json(found)


def test_a_handler_that_stumbles_over_a_damaged_trace_makes_the_work_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace may hold anything; what no handler foresaw is no traceback."""

    def stumbles(_call: Any) -> Any:
        raise IndexError

    monkeypatch.setattr("roofline.ingest.trace_pieces.recognise", stumbles)
    made = Made()
    product(made, 4, 4, 4, 10)
    assert report(tmp_path, made).rows[0].unknown == "its arguments are none that such an operator takes"


@pytest.mark.parametrize("shape", [[2**20] * 9, [2**50], [-1, 4], [True, 4], "4", [[4]]], ids=str)
def test_shapes_that_no_device_holds_are_none(tmp_path: Path, shape: Any) -> None:
    made = Made()
    owner = made.operator("aten::relu", 0, 10, (shape, "float", ""))
    made.kernel("k", 100, 5, launched=2, owner=owner)
    assert report(tmp_path, made).rows[0].unknown == "a shape that is none"
