"""What collectives are measured with, piece by piece: sizes, exact values, ranks that agree, the clock of a GPU, the view."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from roofline.cli.collectives import NAMES
from roofline.errors import InputError, MissingCapabilityError, Problem, RooflineError, UsageError
from roofline.measure import collective_timing, ranks
from roofline.measure.collective_catalog import COLLECTIVES
from roofline.measure.collectives import NO_LINK, Request, fastest_link, ladder, planned
from roofline.measure.ranks import RankFailedError, Ranks, agreed, finished, launched
from roofline.measure.registry import KERNELS, default_kernel, find, names, resolve
from roofline.ops import OPERATORS
from roofline.ops.collective import AllReduce, Collective
from roofline.report.build import analyze
from roofline.report.model import MeasuredResult, Measurements
from roofline.report.sweep_view import print_collectives
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step, Workload

torch = pytest.importorskip("torch")
every = pytest.mark.parametrize("name", NAMES)


def made(name: str, size: int = 960, count: int = 4, **fields: Any) -> Collective:
    found = OPERATORS[name](size=size, ranks=count, over="nvlink", **{"dtype": "fp32", **fields})  # type: ignore[call-arg]
    assert isinstance(found, Collective)
    return found


# --------------------------------------------------------------------------- names
def test_the_collectives_are_the_same_everywhere() -> None:
    from roofline.measure.kernels.collective import CALLS

    family = [name for name, cls in OPERATORS.items() if cls.family == "collective"]
    assert list(NAMES) == list(COLLECTIVES) == list(CALLS) == family
    assert set(NAMES) < set(names())
    assert not set(NAMES) & set(KERNELS)


@every
def test_each_is_found_with_its_need(name: str) -> None:
    assert find(name).needs == ("torchrun",)
    assert callable(resolve(find(name).build))


def test_a_workload_with_one_says_how_it_is_measured() -> None:
    with pytest.raises(UsageError, match="torchrun --nproc-per-node 2 -m roofline measure --kernel all_reduce"):
        default_kernel(made("all_reduce"))


# --------------------------------------------------------------------------- sizes
def steps(*settings: str, count: int = 2, kind: str = "cpu", named: tuple[str, ...] = ("all_gather",)) -> list[Step]:
    return planned(Request(names=named, settings=settings), count, kind, "nvlink")


def test_sizes_rise_by_four_to_64_mib_on_a_cpu_and_4_gib_on_a_gpu() -> None:
    assert ladder("cpu") == [4**k * 1024 for k in range(9)]
    assert (ladder("cuda")[-1], len(ladder("cuda"))) == (2**32, 12)
    assert [s.id for s in steps()][:2] == ["all_gather/1KiB", "all_gather/4KiB"]


@pytest.mark.parametrize(("count", "given", "size"), [(3, "1 KiB", 1020), (2, "1 KiB", 1024), (7, "100 B", 84), (2, "9 B", 8)])
def test_a_size_is_cut_so_that_shares_are_equal(count: int, given: str, size: int) -> None:
    (step,) = steps(f"size={given}", count=count)
    assert step.op.size == size  # type: ignore[attr-defined]
    assert all(float(t.elements).is_integer() for t in step.op.tensors())


def test_formats_are_those_of_the_device_unless_given() -> None:
    assert {s.op.dtype for s in steps()} == {"fp32"}
    assert {s.op.dtype for s in steps(kind="cuda")} == {"bf16"}
    assert {s.op.dtype for s in steps("dtype=int8", kind="cuda")} == {"int8"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("ranks=4", "torchrun started 2"),
        ("size=7 B", "at least 8 B, one element of fp32 for each of 2 ranks"),
        ("size=0 B", "at least 8 B"),
        ("dtype=fp8", "collectives are measured in bf16"),
        ("size=3", "give a unit|unit"),
        ("elements=3", "unknown key 'elements'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(setting: str, words: str) -> None:
    with pytest.raises(RooflineError, match=words):
        steps(setting)


def test_the_link_is_the_fastest_of_the_profile() -> None:
    assert fastest_link(load_hardware("h100-sxm")) == "nvlink"
    assert fastest_link(load_hardware("l4")) == "pcie"
    assert fastest_link(None) == NO_LINK


# --------------------------------------------------------------------------- exact values
def outputs(op: Collective, inputs: list[Any]) -> list[Any]:
    """What every rank must have, by the plain meaning of the collective."""
    count, share = len(inputs), len(inputs[0]) // len(inputs)
    if op.name == "all_gather":
        return [torch.cat(inputs)] * count
    if op.name == "all_to_all":
        return [torch.cat([x[r * share : (r + 1) * share] for x in inputs]) for r in range(count)]
    if op.name == "broadcast":
        return [inputs[0]] * count
    if op.name == "send_recv":
        return [inputs[r - 1] for r in range(count)]
    whole = torch.stack(inputs).double().sum(0).to(inputs[0].dtype)
    return [whole] * count if op.name == "all_reduce" else [whole[r * share : (r + 1) * share] for r in range(count)]


def filled(op: Collective, rank: int) -> dict[str, Any]:
    from roofline.measure.kernels.collective import buffers, fill

    tensors = buffers(op, "cpu")
    fill(op, tensors, rank)
    return tensors


def with_outputs(op: Collective) -> list[dict[str, Any]]:
    """The tensors of every rank after the collective."""
    all_ = [filled(op, rank) for rank in range(int(op.ranks))]
    for tensors, out in zip(all_, outputs(op, [t["x"].clone() for t in all_]), strict=True):
        tensors.get("y", tensors["x"]).copy_(out)
    return all_


@every
@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("dtype", ["bf16", "int8", "fp32"])
def test_the_expected_values_are_those_of_the_collective(name: str, count: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken in pieces, of which the last is short, and exactly, in formats of few digits too."""
    from roofline.measure.kernels import collective

    monkeypatch.setattr(collective, "CHUNK", 50)
    op = made(name, size=count * 4 * 60, count=count, dtype=dtype)
    assert [collective.wrong(op, tensors, rank) for rank, tensors in enumerate(with_outputs(op))] == [0.0] * count


@every
def test_shares_of_other_ranks_and_shifts_are_noticed(name: str) -> None:
    """Each rank has what the next one should have, and what should stand one place further."""
    from roofline.measure.kernels.collective import wrong

    op = made(name, count=4)
    same_on_all = name in ("all_reduce", "all_gather", "broadcast")
    for rank, tensors in enumerate(with_outputs(op)):
        out = tensors.get("y", tensors["x"])
        assert same_on_all or wrong(op, tensors, (rank + 1) % 4) > 0.5
        out.copy_(out.roll(1))
        assert wrong(op, tensors, rank) > 0.5


@every
def test_an_output_that_was_not_written_is_noticed(name: str) -> None:
    from roofline.measure.kernels.collective import wrong

    op = made(name)
    assert max(wrong(op, filled(op, rank), rank) for rank in range(4)) > 0.5


def test_one_wrong_element_is_noticed() -> None:
    from roofline.measure.kernels.collective import wrong

    op = made("all_gather")
    tensors = with_outputs(op)[1]
    tensors["y"][17] += 1
    assert wrong(op, tensors, 1) == pytest.approx(1 / 240)


@pytest.mark.parametrize(
    ("name", "dtype", "said"), [("all_reduce", "fp32", "zeros"), ("all_gather", "bf16", "normal"), ("send_recv", "int8", "uniform")]
)
def test_sums_in_place_are_timed_on_zeros_and_the_rest_on_noise(name: str, dtype: str, said: str) -> None:
    from roofline.measure.kernels.collective import buffers, fill_for_timing

    op = made(name, dtype=dtype)
    tensors = buffers(op, "cpu")
    assert fill_for_timing(op, tensors, 0) == said
    assert bool((tensors["x"] != 0).any()) == (said != "zeros")


# --------------------------------------------------------------------------- ranks
GOOD = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


def test_what_torchrun_sets_is_read() -> None:
    assert launched(GOOD) == (1, 4, 1)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"WORLD_SIZE": None}, MissingCapabilityError, r"WORLD_SIZE not set"),
        ({"RANK": "x"}, UsageError, "not those of torchrun"),
        ({"RANK": "4"}, UsageError, "does not lie below"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, UsageError, "start at least two"),
    ],
)
def test_what_torchrun_cannot_have_set_is_refused(change: dict[str, str | None], error: type[Exception], words: str) -> None:
    values = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    with pytest.raises(error, match=words):
        launched(values)


def among_others(monkeypatch: pytest.MonkeyPatch, *others: object) -> None:
    monkeypatch.setattr(ranks, "gathered", lambda mine, count: [mine, *others])


def fail(error: Exception) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def test_without_errors_each_has_its_own_result(monkeypatch: pytest.MonkeyPatch) -> None:
    among_others(monkeypatch, None)
    assert agreed(lambda: 7, 2) == 7


def test_an_error_of_another_rank_is_everyones(monkeypatch: pytest.MonkeyPatch) -> None:
    among_others(monkeypatch, (MissingCapabilityError, "no GPU"))
    with pytest.raises(MissingCapabilityError, match=r"^rank 1: no GPU$"):
        agreed(lambda: 7, 2)


def test_the_same_error_of_all_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    error = InputError([Problem("arguments", 1, 1, "no such key")])
    among_others(monkeypatch, (InputError, str(error)))
    with pytest.raises(InputError) as raised:
        agreed(fail(error), 2)
    assert raised.value is error


def test_a_mistake_in_a_file_of_one_rank_keeps_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    among_others(monkeypatch, (InputError, "profile.yaml:1:1: broken"))
    with pytest.raises(UsageError, match=r"rank 1: profile\.yaml:1:1: broken") as raised:
        agreed(lambda: 7, 2)
    assert raised.value.exit_code == InputError.exit_code


def test_of_each_sample_the_slowest_rank_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    among_others(monkeypatch, [3.0, 2.0])
    device: Any = SimpleNamespace(info=SimpleNamespace(kind="cpu"))
    pair = Ranks(rank=0, count=2, device=device, group=None, backend="gloo", patience_s=1.0)
    assert pair.slowest([1.0, 5.0]) == [3.0, 5.0]


def test_waiting_for_the_device_has_an_end() -> None:
    answers = iter([False, False, True])
    finished(lambda: next(answers), 10)
    with pytest.raises(RankFailedError, match=r"did not end within 0\.01 s"):
        finished(lambda: False, 0.01)


# --------------------------------------------------------------------------- the clock of a GPU
class Recorded:
    """torch and torch.distributed as far as the clock uses them, which write down what they are asked for."""

    def __init__(self) -> None:
        self.log: list[str] = []
        event = lambda **_: SimpleNamespace(record=lambda: self.log.append("event"), query=lambda: True, elapsed_time=lambda end: 0.5)  # noqa: E731
        self.cuda = SimpleNamespace(Event=event, _sleep=lambda cycles: self.log.append("sleep"))

    def zeros(self, *size: int, device: str) -> str:
        return "flag"


def on_gpu(monkeypatch: pytest.MonkeyPatch) -> tuple[Recorded, Ranks]:
    fake = Recorded()
    monkeypatch.setattr(collective_timing, "import_module", lambda name: fake)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor, group: fake.log.append("together"))
    device: Any = SimpleNamespace(info=SimpleNamespace(kind="cuda", name="GPU"))
    return fake, Ranks(rank=0, count=2, device=device, group="g", backend="nccl", patience_s=1.0)


def test_calls_are_timed_behind_a_collective_that_all_leave_together(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, together = on_gpu(monkeypatch)
    clock = collective_timing.GpuClock(together, lambda: fake.log.append("call"), 3)
    assert clock.run() == 0.5e-3
    assert fake.log == ["sleep", "together", "event", "call", "call", "call", "event"]


def test_a_rank_that_cannot_capture_makes_all_launch_from_python(monkeypatch: pytest.MonkeyPatch) -> None:
    _, together = on_gpu(monkeypatch)
    monkeypatch.setattr(Ranks, "all_of", lambda self, mine: [mine, "cannot be captured"])
    monkeypatch.setattr(collective_timing, "GraphClock", lambda *_: SimpleNamespace(launch="graph", close=lambda: None))
    clock, notes = collective_timing._prepared(together, lambda: None, 2, "graph")
    assert (clock.launch, notes) == ("eager", ("launched from Python: cannot be captured",))


def test_a_library_that_cannot_is_told_from_a_rank_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    device: Any = SimpleNamespace(info=SimpleNamespace(kind="cpu"))
    pair = Ranks(rank=0, count=2, device=device, group=None, backend="gloo", patience_s=1.0)
    monkeypatch.setattr(Ranks, "all_of", lambda self, mine: [mine, "not supported"])
    with pytest.raises(MissingCapabilityError, match="gloo cannot run all_to_all: not there"):
        collective_timing.connected(pair, fail(RuntimeError("not there")), "all_to_all")
    with pytest.raises(RankFailedError, match="rank 1 in all_to_all: not supported"):
        collective_timing.connected(pair, lambda: None, "all_to_all")


@pytest.mark.gpu
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("launch", ["graph", "eager"])
def test_nccl_is_captured_and_timed(launch: str, tmp_path: Path) -> None:
    """One rank: its all-gather is a copy, but goes the way of any other."""
    from roofline.measure.kernels.collective import CALLS, buffers, fill, wrong

    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        torch.cuda.set_device(0)
        group = dist.new_group(backend="nccl", timeout=datetime.timedelta(seconds=60))
        device: Any = SimpleNamespace(info=SimpleNamespace(kind="cuda", name="GPU"))
        alone = Ranks(rank=0, count=1, device=device, group=group, backend="nccl", patience_s=60.0, holds=ExitStack())
        op = made("all_gather", size=2**28, count=1, dtype="bf16")
        tensors = buffers(op, "cuda:0")
        call = CALLS[op.name](op, tensors, group)
        collective_timing.connected(alone, call, op.name)
        fill(op, tensors, 0)
        found = collective_timing.sampled(alone, call, launch, 5.0)
        assert (found.launch, found.notes, len(found.times_s)) == (launch, (), collective_timing.SAMPLES)
        assert 2**29 / 8e12 < min(found.times_s) < 2**29 / 1e12
        assert wrong(op, tensors, 0) == 0
    finally:
        dist.destroy_process_group()


# --------------------------------------------------------------------------- the view
def shown(conditions: dict[str, Any], **result: Any) -> str:
    op = AllReduce(size=2**28, ranks=4, dtype="bf16", over="nvlink")
    measured = MeasuredResult(**{"time_s": 1.2e-3, "source": "x", "interval_s": (1.1e-3, 1.3e-3), **result})
    whole = MeasuredResult(time_s=1.2e-3, source="sum of the sizes", conditions=conditions)
    report = analyze(
        Workload(name="all_reduce on 4 ranks", steps=(Step(id="all_reduce/256MiB", op=op),)),
        load_hardware("h100-sxm"),
        measured=Measurements(steps={"all_reduce/256MiB": measured}, whole=whole, environment={"device": "H100", "library": "nccl 2.27.5"}),
    )
    stream = io.StringIO()
    print_collectives(report, Console(file=stream, width=200, no_color=True))
    return stream.getvalue()


def test_a_line_a_size_with_both_bandwidths_and_the_share_of_the_link() -> None:
    text = shown({})
    assert text.splitlines()[0] == "all_reduce on 4 ranks, H100, nccl 2.27.5"
    assert "223.7 GB/s  335.5 GB/s   74.6 %" in text
    assert "+-8.3 %" in text


def test_the_fit_is_said_with_the_sizes_it_holds_for() -> None:
    fit = {"from_bytes": 1024, "to_bytes": 2**20, "alpha_s": 7e-6, "bytes_per_s": 20e9, "worst": 0.04, "half_bytes": 140000}
    text = shown({f"all_reduce.1.{key}": value for key, value in fit.items()})
    assert (
        "all_reduce, 1.000 KiB to 1.000 MiB sent by each rank: 7.000 us + sent / 20.00 GB/s, half of it from 136.7 KiB (worst error 4.0 %)"
        in text
    )


def test_a_time_below_the_link_is_refused() -> None:
    assert "invalid" in shown({}, time_s=0.5e-3)
