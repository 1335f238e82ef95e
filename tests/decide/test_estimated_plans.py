"""An estimated plan of one device is what `analyze` estimates of the file of the same steps; what it is made of is counted."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from roofline.decide.costs import EstimateCoster
from roofline.decide.evaluate import Evaluator, Subject
from roofline.decide.judge import Asked, judge
from roofline.decide.layers import Issued
from roofline.decide.search import search
from roofline.decide.space import space_of
from roofline.models.description import Attention, Layer, Mlp, Model
from roofline.models.expansion import Expansion
from roofline.models.quantised import Quantisation
from roofline.models.shape import shape_of
from roofline.models.write import workload_text
from roofline.numeric import scalar
from roofline.ops.launched import EXECUTIONS
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from roofline.predict.estimate.estimator import Estimator
from roofline.predict.estimate.timeline import launch
from roofline.report.build import analyze
from roofline.report.model import EstimateResult
from roofline.report.plan import StepTime
from roofline.spec.cluster import load_cluster
from roofline.spec.model import load_model
from roofline.spec.planned import Carrier, planned_text
from roofline.spec.source import Source
from roofline.spec.workload import read_workload
from roofline.workload.packed import fed
from roofline.workload.workload import Workload
from tests.decide.models import DENSE, MIXED, model

CLUSTER = load_cluster("dgx-h200")
SIZES: dict[str, dict[str, int]] = {
    "prefill": {"batch": 2, "seq": 512},
    "decode": {"batch": 4, "context": 2048},
    "mixed": {"batch": 4, "context": 2048, "chunk": 256, "cached": 128},
    "train": {"batch": 2, "seq": 512},
}
WINDOWED = Layer(mixer=Attention(heads=16, kv_heads=4, head_dim=64, v_head_dim=64, rotary=64, window=256), feed=Mlp(width=4096))
PLAIN = Layer(mixer=Attention(heads=16, kv_heads=16, head_dim=64, v_head_dim=64), feed=Mlp(width=4096, gated=False))
SMALL = {
    "dense": model((DENSE,) * 6),
    "experts behind a dense layer": model((DENSE, MIXED, MIXED, MIXED)),
    "two sorts in turn": model((WINDOWED, DENSE) * 3),
    "no gates": model((PLAIN,) * 4, norm="layernorm"),
}


def job_of(phase: str) -> Job:
    return Job(phase=phase, **SIZES[phase])


def file_of(made: Model, how: Quantisation | None, phase: str, execution: str) -> Workload:
    """The steps as `roofline import hf` writes them, read again."""
    sizes = {("decode_batch" if phase == "mixed" and name == "batch" else name): size for name, size in SIZES[phase].items()}
    text = workload_text(Expansion(model=made, phase=phase, how=how), sizes)
    return replace(read_workload(Source("w.yaml", text)), execution=execution)


def analyzed(workload: Workload) -> EstimateResult:
    found = analyze(workload, CLUSTER.device).totals.estimate
    assert found is not None
    return found


def planned(made: Model, how: Quantisation | None, phase: str, execution: str, plan: Plan | None = None) -> StepTime:
    asked = Subject(model=made, how=how, job=job_of(phase), cluster=CLUSTER, stated_execution=execution)
    alone = Plan(microbatch=SIZES[phase]["batch"] if phase == "train" else 1)
    found = judge(asked, plan or alone, Asked(kind="estimate", execution=execution)).time
    assert found is not None
    return found


def same(found: StepTime, expected: EstimateResult) -> None:
    assert (found.step_s, found.low_s, found.high_s) == pytest.approx((expected.time_s, expected.low_s, expected.high_s), rel=1e-9)
    assert sum(found.parts_s.values()) == pytest.approx(found.step_s, rel=1e-9)


# --------------------------------------------------------------------------- one definition
@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("phase", list(SIZES))
@pytest.mark.parametrize("name", list(SMALL))
def test_one_device_takes_what_analyze_estimates_of_the_same_file(name: str, phase: str, execution: str) -> None:
    same(planned(SMALL[name], None, phase, execution), analyzed(file_of(SMALL[name], None, phase, execution)))


@pytest.mark.parametrize("execution", ["engine", "eager"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", ["llama-3-8b", "gpt-oss-20b", "deepseek-v3"])
def test_shipped_models_too(name: str, phase: str, execution: str) -> None:
    made, how, _ = load_model(name)
    same(planned(made, how, phase, execution), analyzed(file_of(made, how, phase, execution)))


@pytest.mark.parametrize("tp", [2, 8])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("execution", ["engine", "eager"])
def test_a_rank_among_others_takes_what_analyze_estimates_of_its_file(execution: str, phase: str, tp: int) -> None:
    """Exchanges that are waited for are kernels like others, whoever adds."""
    made, how, _ = load_model("llama-3-8b")
    expansion = Expansion(model=made, phase=phase, how=how, plan=Plan(tp=tp))
    text = planned_text(expansion, SIZES[phase], Carrier(cluster=CLUSTER))
    workload = replace(read_workload(Source("w.yaml", text)), execution=execution)
    same(planned(made, how, phase, execution, Plan(tp=tp)), analyzed(workload))


def test_what_no_device_can_do_is_raised_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no step could take less than a millisecond."""
    monkeypatch.setattr("roofline.predict.estimate.issue.warm_floor_s", lambda *_: 1e-3)
    for phase in ("decode", "train"):
        expected = analyzed(file_of(SMALL["dense"], None, phase, "graph"))
        assert expected.raised
        same(planned(SMALL["dense"], None, phase, "graph"), expected)


# --------------------------------------------------------------------------- independent counts
def test_the_time_between_kernels_is_counted_for_each_of_them() -> None:
    """A layer decoded by an engine launches two norms, four products, a rotation, an activation, and an attention that keeps new keys
    with a kernel of its own; around the layers stand the embedding, a norm and the head."""
    estimator = Estimator(CLUSTER.device, "engine")
    workload = file_of(SMALL["dense"], None, "decode", "engine")
    kernels = [(k, s.repeat) for s in fed(workload.steps) for op in s.ops() for k in estimator.op(op).kernels]
    calls = sum(k.kernel.calls * repeat for k, repeat in kernels)
    assert calls == 6 * 10 + 3
    each = CLUSTER.device.fitted["host.torch"].values["chain_s"]
    alone = sum(scalar(k.time_s) * repeat for k, repeat in kernels)
    assert planned(SMALL["dense"], None, "decode", "engine").step_s == pytest.approx(alone + calls * each, rel=1e-12)
    assert calls * each > 0.02 * alone


def test_halves_of_one_product_are_read_as_such() -> None:
    """In eager torch an activation that reads halves of rows takes longer than one of whole tensors; an engine's does not."""
    workload = file_of(SMALL["dense"], None, "prefill", "graph")
    step = next(s for s in workload.steps if s.op.name == "swiglu")
    whole, packed = (
        scalar(Estimator(CLUSTER.device, "graph").op(op).time_s) for op in (step.op, replace(step.op, packed=True))  # type: ignore[call-arg]
    )  # fmt: skip
    assert packed > 1.2 * whole
    asked = Subject(model=SMALL["dense"], how=None, job=job_of("prefill"), cluster=CLUSTER, stated_execution="graph")
    coster = EstimateCoster(CLUSTER.hardware(), "graph")
    seen: list[Any] = []
    take = coster.ops
    coster.ops = lambda ops: seen.extend(ops) or take(ops)  # type: ignore[func-returns-value, method-assign]
    Evaluator(asked, coster).evaluate(Plan())
    assert [op.packed for op in seen if op.name == "swiglu"] == [True]


def simulated(kernels: list[tuple[float, float]]) -> float:
    """From when the first kernel is issued until host and device are done, kernel by kernel."""
    host = device = 0.0
    for issue, busy in kernels:
        host += issue
        device = max(host, device) + busy
    return max(device - kernels[0][0], host)


@pytest.mark.parametrize("name", ["dense", "no gates", "experts behind a dense layer"])
@pytest.mark.parametrize(("phase", "count"), [("prefill", 1), ("decode", 1), ("train", 1), ("train", 3)])
def test_a_host_that_launches_kernel_by_kernel_is_simulated(name: str, phase: str, count: int) -> None:
    """Microbatches one after the other, each with its layers one after the other, then the optimizer."""
    made = SMALL[name]
    estimator = Estimator(CLUSTER.device, "eager")

    def launched(steps: Any) -> list[tuple[float, float]]:
        found = []
        for step in steps:
            for k in (k for op in step.ops() for k in estimator.op(op).kernels):
                host, calls = estimator.host(k.kernel), k.kernel.calls
                found += [(host.host_s / calls, (scalar(k.time_s) + host.between_s(True)) / calls)] * calls
        return found

    steps = fed(file_of(made, None, phase, "eager").steps)
    blocks = groupby((s for s in steps if s.id != "optimizer"), key=lambda s: (s.id.rpartition("/")[0], s.repeat))
    inner = [kernel for (_, layers), block in blocks for kernel in launched(block) * layers]
    expected = simulated(inner * count + launched(s for s in steps if s.id == "optimizer"))
    asked = Subject(model=made, how=None, job=replace(job_of(phase), batch=count * SIZES[phase]["batch"]), cluster=CLUSTER)
    found = Evaluator(asked, EstimateCoster(CLUSTER.hardware(), "eager")).evaluate(Plan(microbatch=SIZES[phase]["batch"]))
    assert found.step_s == pytest.approx(expected, rel=1e-9)


def test_the_optimizer_is_issued_behind_all_microbatches() -> None:
    """Two of (10, 1), then (5, 30): issued at 10, 20 and 25, done at 11, 21 and 55, 45 after the first was issued; 32 are busy. With four
    of them and an optimizer of (5, 3) the host is done at 45, later than 48 - 10."""
    issued = Issued(microbatch=launch(10, 1), optimizer=launch(5, 30), first_s=10)
    assert issued.idle_s(2) == 45 - 32
    assert replace(issued, optimizer=launch(5, 3)).idle_s(4) == 45 - 7


def test_all_parameters_are_updated_by_one_step() -> None:
    """Not layer by layer: what a kernel costs whatever it updates is paid once. Parameters by hand."""
    layer = 1024 * (1024 + 2 * 256) + 1024 * 1024 + 3 * 1024 * 4096 + 2 * 1024
    update = next(s.op for s in file_of(SMALL["dense"], None, "train", "graph").steps if s.id == "optimizer")
    one = replace(update, parameters=6 * layer + 2 * 32000 * 1024 + 1024)  # type: ignore[call-arg]
    estimator = Estimator(CLUSTER.device, "graph")
    kernels = estimator.op(one).kernels
    expected = sum(scalar(k.time_s) + estimator.host(k.kernel).between_s(True) for k in kernels)
    assert planned(SMALL["dense"], None, "train", "graph").parts_s["optimizer"] == pytest.approx(expected, rel=1e-12)
    halves = planned(SMALL["dense"], None, "train", "graph", Plan(microbatch=2, pp=2))  # the stage with the head holds more than half
    assert 0.5 * expected < halves.parts_s["optimizer"] < 0.75 * expected


def test_stages_need_the_longer_of_their_two_sides() -> None:
    """A host that needs longer than the device for everything: each of two stages holds half of the launches, and none idles for less."""
    asked = Subject(model=SMALL["dense"], how=None, job=job_of("decode"), cluster=CLUSTER, stated_execution="eager")
    coster = EstimateCoster(CLUSTER.hardware(), "eager")
    alone, staged = (Evaluator(asked, coster).evaluate(plan) for plan in (Plan(), Plan(pp=2)))
    timed = Evaluator(asked, coster).timed(Plan(microbatch=4))
    assert timed.issued is not None
    assert alone.step_s == pytest.approx(timed.issued.microbatch.host_s, rel=0.02)
    assert alone.step_s > 2 * (scalar(alone.step_s) - scalar(alone.parts.exposed["host"]))
    assert staged.step_s > 2 * (3 * scalar(timed.layer.forward.host)) > 0.8 * alone.step_s
    assert staged.parts.exposed["host"] > 0


@pytest.mark.parametrize("phase", ["prefill", "decode", "train"])
@pytest.mark.parametrize("execution", ["engine", "eager"])
def test_plans_of_a_search_take_what_each_takes_by_itself(phase: str, execution: str) -> None:
    """Arrays and single numbers, with stages and without, by hosts and by devices."""
    asked = Subject(model=SMALL["experts behind a dense layer"], how=None, job=job_of(phase), cluster=CLUSTER, stated_execution=execution)
    coster = EstimateCoster(CLUSTER.hardware(), execution)
    space = space_of(asked.job, shape_of(asked.model), "flash")
    found = search(asked, (2, 4), coster, space, top=300).best
    assert {c.plan.pp for c in found} >= {1, 2}
    for c in found:
        one = Evaluator(asked, coster).evaluate(c.plan)
        assert c.step_s == pytest.approx(scalar(one.step_s), rel=1e-9)
        assert c.parts_s == pytest.approx({n: scalar(s) for n, s in one.parts.named().items()}, rel=1e-9, abs=1e-12)
    assert any(c.parts_s.get("exposed_host", 0.0) > 0 for c in found) is (execution == "eager")
