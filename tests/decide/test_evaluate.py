"""Plans judged: one device is what `analyze` says of the same workload, work is kept when it is spread, exchanges by closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofline.decide.costs import Cost, RateCoster, coster_of
from roofline.decide.evaluate import Evaluation, Evaluator
from roofline.decide.utilisation import model_flop
from roofline.models.expansion import Expansion
from roofline.models.memory_states import OPTIMIZERS
from roofline.models.write import workload_text
from roofline.numeric import scalar
from roofline.plan.network import collective
from roofline.plan.placement import Group
from roofline.plan.plan import Plan
from roofline.plan.routed import Routed
from roofline.report.build import analyze
from roofline.spec.source import Source
from roofline.spec.workload import read_workload
from tests.decide.models import DENSE, MIXED, STATED, cluster, subject


def judged(plan: Plan, *arguments: Any, kind: str = "bound", **sizes: Any) -> Evaluation:
    asked = subject(*arguments, **sizes)
    return Evaluator(asked, coster_of(kind, cluster(), shares=STATED if kind == "efficiency" else None)).evaluate(plan)


# --------------------------------------------------------------------------- independent counts
@pytest.mark.parametrize("phase", ["prefill", "decode", "train"])
@pytest.mark.parametrize("layers", [(DENSE,) * 4, (DENSE, MIXED, MIXED)])
def test_one_device_takes_what_analyze_says_of_the_same_workload(phase: str, layers: Any) -> None:
    asked = subject(phase, layers, batch=2)
    text = workload_text(Expansion(model=asked.model, phase=phase), {"batch": 2, "context" if phase == "decode" else "seq": 2048})
    asked = replace(asked, job=replace(asked.job, seq=2048, context=2048))
    report = analyze(read_workload(Source("w.yaml", text)), cluster().device)
    found = Evaluator(asked, coster_of("bound", cluster())).evaluate(Plan(microbatch=2))
    assert report.totals.bound is not None
    rest = sum(r.bound.time_s * r.repeat for r in report.rows if r.bound and r.id != "optimizer")
    assert found.parts.compute_s == pytest.approx(rest, rel=1e-12)
    assert found.step_s == pytest.approx(report.totals.bound.time_s, rel=1e-12)
    assert found.flop == pytest.approx(report.totals.flop["tensor"], rel=1e-12)


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("gradient_dtype", [None, "fp32"])
def test_the_optimizer_of_a_plan_is_that_of_a_written_workload(optimizer: str, gradient_dtype: str | None) -> None:
    """Under a plan each part of the model has a step of its own, in a file all of it together: the same bytes."""
    asked = subject("train", batch=2, optimizer=optimizer, gradient_dtype=gradient_dtype)
    expansion = Expansion(model=asked.model, phase="train", optimizer=optimizer, gradient_dtype=gradient_dtype)
    report = analyze(read_workload(Source("w.yaml", workload_text(expansion, {"batch": 2}))), cluster().device)
    written = next(r.bound.time_s for r in report.rows if r.id == "optimizer" and r.bound)
    found = Evaluator(asked, coster_of("bound", cluster())).evaluate(Plan(microbatch=2))
    assert found.parts.optimizer_s == pytest.approx(written, rel=1e-12)
    assert written > 0


def test_executed_flop_of_naive_attention_are_the_model_flop_of_full_attention() -> None:
    """Materialised scores are a full square: executed and counted by PaLM's rule are the same."""
    asked = subject(attention="naive")
    found = Evaluator(asked, coster_of("bound", cluster())).evaluate(Plan())
    assert found.flop == pytest.approx(scalar(model_flop(asked.model, asked.job, "full")))


@pytest.mark.parametrize(
    "plan", [Plan(tp=4), Plan(tp=2, pp=4, dp=2), Plan(cp=4, context_kind="ulysses"), Plan(tp=2, sequence_parallel=True, dp=4)]
)
def test_flop_are_kept_when_they_are_spread(plan: Plan) -> None:
    """All devices together execute what one would."""
    assert judged(plan, attention="naive").flop == pytest.approx(judged(Plan(), attention="naive").flop)


def test_exchanges_of_tensor_parallelism_by_megatrons_closed_form() -> None:
    """8 b h e (t - 1) / t a layer in training for b tokens of a replica (cost models, section 4), over the link's rate."""
    asked, tp, layers = subject(), 4, 8
    found = Evaluator(asked, coster_of("bound", cluster())).evaluate(Plan(tp=tp))
    tokens, link = 64 * 2048, cluster().tiers[0].bandwidth.value  # type: ignore[union-attr]
    of_layers = layers * 8 * tokens * 1024 * 2 * (tp - 1) / tp / link
    # NVLink SHARP adds in its switches, which sends less; embedding and loss come on top.
    switched = of_layers * (tp + 1) / (2 * (tp - 1))
    assert found.parts.exposed["tp"] > 0
    assert min(of_layers, switched) * (1 - 1e-9) <= found.parts.exposed["tp"] <= max(of_layers, switched) * 1.2


def test_gradients_of_data_parallelism_are_twice_the_parameters() -> None:
    """An all-reduce of 2 bytes a parameter over the replicas of one node: 2 g P (n - 1) / n sent, all of it waited for without overlap."""
    asked = subject()
    plan = Plan(dp=8, overlap=())
    found = Evaluator(asked, coster_of("bound", cluster())).evaluate(plan)
    count = 32000 * 1024 * 2 + 1024 + 8 * (1024 * (16 + 2 * 4) * 64 + 16 * 64 * 1024 + 3 * 1024 * 4096 + 2 * 1024)
    link = cluster().tiers[0].bandwidth.value  # type: ignore[union-attr]
    rings, switch = 2 * 2 * count * 7 / 8 / link, 2 * count * 9 / 8 / link
    assert found.parts.exposed["data"] == pytest.approx(min(rings, switch) if cluster().tiers[0].in_network_reduction else rings, rel=1e-6)


# --------------------------------------------------------------------------- what plans change
def test_a_pipeline_waits_as_its_schedule_says() -> None:
    """Stages equal but for their ends: 8 microbatches over 4 stages idle 3 / 8 of their time at most, half with two chunks."""
    layers = (DENSE,) * 64
    found = judged(Plan(pp=4, microbatch=8), "train", layers)
    assert found.count == 8
    busy = found.parts.compute_s
    assert 0.75 * 3 / 8 < found.parts.bubble_s / busy < 3 / 8  # the head makes the last stage the slowest
    halved = judged(Plan(pp=4, microbatch=8, virtual=2, schedule="interleaved"), "train", layers)
    assert halved.parts.bubble_s == pytest.approx(found.parts.bubble_s / 2)
    assert halved.parts.compute_s == busy


def test_gradients_of_weights_fill_the_bubble_of_a_zero_bubble_schedule() -> None:
    """Of a product's backward pass half is the gradient of its weights, so that (F + B - 2 W) is far less than F + B."""
    layers = (DENSE,) * 64
    asked = subject("train", layers)
    layer = Evaluator(asked, coster_of("bound", cluster())).timed(Plan(microbatch=8)).layer
    products = layer.forward.compute - layer.forward.attention
    assert 0.5 * products < layer.backward.weight < products
    plain, filled = (judged(Plan(pp=4, microbatch=8, schedule=s), "train", layers).parts.bubble_s for s in ("1f1b", "zero_bubble"))
    assert filled < 0.75 * plain


def test_full_recomputation_executes_a_third_more_of_the_layers() -> None:
    plain, again = judged(Plan(), attention="naive"), judged(Plan(recompute="full"), attention="naive")
    assert again.parts.compute_s == plain.parts.compute_s
    of_layers = plain.flop - 6 * 64 * 2048 * 32000 * 1024  # the head is not computed again
    assert again.flop - plain.flop == pytest.approx(of_layers / 3)
    assert 0 < again.parts.recompute_s < plain.parts.compute_s / 2


def test_more_replicas_of_the_same_batch_take_less_time_each() -> None:
    steps = [judged(Plan(dp=n)).step_s for n in (1, 2, 4)]
    assert steps[0] > steps[1] > steps[2] > steps[0] / 4


def test_serving_spreads_sequences_over_stages() -> None:
    """A replica's 64 sequences in two halves: each token reads all weights, on one stage after the other, and half of the caches."""
    one, two = judged(Plan(), "decode"), judged(Plan(pp=2), "decode")
    assert (one.count, two.count) == (1, 2)
    assert one.step_s / 2 < two.step_s < one.step_s
    assert judged(Plan(pp=2), "decode", batch=1).count == 1


def test_parts_of_answers_over_shared_keys_are_waited_for_by_hand() -> None:
    """8 layers, 64 tokens, 16 heads 64 wide on 4 ranks of a node: sums of 4 B gathered from 3 others, 12,288 B; answers of 131,072 B added
    up by the switch, (4 + 1) / 4 of them sent."""
    found = judged(Plan(cp=4), "decode")
    rate = cluster().tiers[0].bandwidth.value  # type: ignore[union-attr]
    assert found.parts.exposed["cp"] == pytest.approx(8 * (3 * 64 * 16 * 4 + 64 * 16 * 64 * 2 * 5 / 4) / rate)
    assert judged(Plan(cp=4, overlap=("cp",)), "decode").parts.exposed["cp"] == found.parts.exposed["cp"]
    assert judged(Plan(cp=1), "decode").parts.exposed.get("cp", 0) == 0


@pytest.mark.parametrize("kind", ["bound", "efficiency"])
@pytest.mark.parametrize("batch", [12, 16])
def test_the_open_parts_of_a_prefill_are_the_quickest(kind: str, batch: int) -> None:
    """Of all equal parts; a bound of any is at most what stated efficiencies make of it. Without stages the batch is whole."""
    steps = {n: judged(Plan(pp=4, microbatch=n), "prefill", kind=kind, batch=batch).step_s for n in range(1, batch + 1) if batch % n == 0}
    found = judged(Plan(pp=4, microbatch=0), "prefill", kind=kind, batch=batch)
    assert found.step_s == min(steps.values()) == steps[int(scalar(found.plan.microbatch))]
    assert found.count == batch / found.plan.microbatch
    assert judged(Plan(pp=4, microbatch=0), "prefill", batch=batch).step_s <= found.step_s
    whole = [judged(Plan(microbatch=n), "prefill", kind=kind, batch=batch) for n in (0, 1)]
    assert [w.count for w in whole] == [1, 1]


def test_parts_too_small_for_their_weights_are_not_the_quickest() -> None:
    """Prompts of a single token: each part takes as long as the weights of a stage, so that all 64 at once pass in 4 turns and one by one
    in 64 + 3; the head makes the turns of the last stage a little longer."""
    found, ones = (judged(Plan(pp=4, microbatch=n), "prefill", (DENSE,) * 64, seq=1) for n in (0, 1))
    assert found.plan.microbatch == 64
    assert ones.step_s / found.step_s == pytest.approx(67 / 4, rel=0.1)


@pytest.mark.parametrize("plan", [Plan(pp=4, microbatch=2), Plan(tp=2, pp=2, dp=2, microbatch=1), Plan(pp=8, microbatch=64)])
def test_flop_of_a_prefill_are_kept_in_any_parts(plan: Plan) -> None:
    assert judged(plan, "prefill", attention="naive").flop == pytest.approx(judged(Plan(), "prefill", attention="naive").flop)


def test_a_mixed_step_is_that_of_its_parts() -> None:
    """Over two replicas of one stage each device works on half of the sequences and of the chunk, as one device would alone."""
    halves = judged(Plan(dp=2), "mixed", chunk=512)
    assert halves.step_s == pytest.approx(judged(Plan(), "mixed", batch=32, chunk=256).step_s, rel=1e-12)
    staged = judged(Plan(pp=2), "mixed", chunk=512)
    assert staged.count == 2
    assert staged.flop == pytest.approx(2 * judged(Plan(), "mixed", batch=32, chunk=256).flop)
    assert halves.step_s < staged.step_s * (1 + 1e-9) < 2 * halves.step_s


def test_experts_that_overlap_hide_behind_compute() -> None:
    layers = (MIXED,) * 4
    plan = Plan(dp=8, ep=8)
    waited, hidden = judged(plan, "train", layers), judged(replace(plan, overlap=("ep", "data")), "train", layers)
    assert hidden.parts.exposed["ep"] < waited.parts.exposed["ep"]
    assert hidden.parts.compute_s == waited.parts.compute_s
    loaded = judged(replace(plan, imbalance=1.5), "train", layers)
    assert loaded.parts.compute_s > waited.parts.compute_s
    assert loaded.parts.exposed["ep"] == pytest.approx(1.5 * waited.parts.exposed["ep"])
    # Four of eight ranks in either node: half of the mean goes over its rails, which the others of a node share with the fullest.
    apart = Plan(dp=16, ep=8, etp=2)
    even, uneven = judged(apart, "train", layers), judged(replace(apart, imbalance=1.5), "train", layers)
    assert uneven.parts.exposed["ep"] == pytest.approx(even.parts.exposed["ep"], rel=1e-12)
    assert even.parts.exposed["ep"] > 0
    assert uneven.parts.exposed["tp"] == pytest.approx(1.5 * even.parts.exposed["tp"])


@pytest.mark.parametrize(("kind", "least"), [("bound", True), ("efficiency", False)])
def test_over_rails_a_bound_has_the_least_of_the_fullest_node_and_nothing_else_does(kind: str, least: bool) -> None:
    """Dispatch and combine, there and back, of 8,192 tokens of 1,024 elements to 2 of 16 ranks of an expert each, in two nodes."""
    plan, imbalance = Plan(dp=16, ep=16, microbatch=4), 1.5
    layers = tuple(replace(layer, feed=replace(layer.feed, experts=16)) for layer in (MIXED,) * 4)
    found = judged(replace(plan, imbalance=imbalance), "train", layers, kind=kind)
    legs = collective("all_to_all", imbalance * 2 * 1024 * 2 * 4 * 2048, Group(size=16, stride=1), cluster(), copies=Routed(16, 2),
                      imbalance=imbalance, least=least)  # fmt: skip
    one = coster_of(kind, cluster(), shares=STATED if kind == "efficiency" else None).legs(legs).time_s
    assert found.parts.exposed["ep"] == pytest.approx(4 * 4 * one, rel=1e-12)


@pytest.mark.parametrize(("tp", "pp", "sent_s"), [(8, 2, 1 / 8 / 50e9), (2, 2, (1 / 2 + 1 / 2) / 450e9)])
def test_stages_send_shares_and_gather_them_inside_by_hand(tp: int, pp: int, sent_s: float) -> None:
    """2,048 tokens of 1,024 elements: between nodes an eighth a rank, slower than gathering the rest inside at 450 GB/s (7/8 of it); stages
    of one node send and gather a half over the same ports. With sequence parallelism nothing is gathered."""
    size = 2048 * 1024 * 2
    whole, shared = (judged(Plan(tp=tp, pp=pp, sequence_parallel=sp, microbatch=1), "prefill", batch=2).parts for sp in (False, True))
    assert whole.exposed["pp"] == pytest.approx(size * sent_s)
    assert shared.exposed["pp"] == pytest.approx(size / tp / (50e9 if tp == 8 else 450e9))
    assert judged(Plan(tp=tp), "prefill", batch=2).parts.exposed["pp"] == 0


@pytest.mark.parametrize("phase", ["prefill", "train"])
def test_a_single_stage_waits_for_no_hop_though_its_ranks_exchange_for_ever(phase: str) -> None:
    class Endless(RateCoster):
        def legs(self, legs: Any) -> Cost:
            return Cost(math.inf)

    found = Evaluator(subject(phase, batch=2), Endless(cluster().device)).evaluate(Plan(tp=2)).parts.exposed
    assert (found["pp"], found["tp"]) == (0, math.inf)


def test_stated_efficiencies_take_longer_than_the_bound() -> None:
    plan = Plan(tp=2, pp=2, dp=2)
    for name, least in judged(plan).parts.named().items():
        assert judged(plan, kind="efficiency").parts.named()[name] >= least


def test_an_optimizer_step_moves_the_bytes_of_its_states() -> None:
    """28 bytes a parameter for 16-bit weights, gradients and fp32 masters, m and v: 2 + 12 read, 12 + 2 written; ZeRO 1 shares them."""
    rate = cluster().device.levels["hbm"].bandwidth.value  # type: ignore[union-attr]
    count = 32000 * 1024 * 2 + 1024 + 8 * (1024 * 24 * 64 + 1024 * 1024 + 3 * 1024 * 4096 + 2048)
    assert judged(Plan()).parts.optimizer_s == pytest.approx(28 * count / rate)
    assert judged(Plan(dp=8, zero=1)).parts.optimizer_s == pytest.approx(28 * count / 8 / rate, rel=1e-6)
    assert judged(Plan(), gradient_dtype="fp32").parts.optimizer_s == pytest.approx(30 * count / rate)
    assert judged(Plan(), optimizer="adamw_bf16").parts.optimizer_s == pytest.approx(14 * count / rate)
    assert judged(Plan(), optimizer="sgd").parts.optimizer_s == pytest.approx(12 * count / rate)
    assert judged(Plan(), optimizer="sgd_momentum").parts.optimizer_s == pytest.approx(20 * count / rate)


# --------------------------------------------------------------------------- arrays
@pytest.mark.parametrize(
    "words",
    [
        {},
        {"sequence_parallel": True, "zero": 3, "recompute": "full"},
        {"zero": 1, "schedule": "interleaved", "virtual": 2},
        {"order": "tp-cp-dp-pp", "zero": 2, "context_kind": "all_gather"},
    ],
)
@pytest.mark.parametrize("layers", [(DENSE,) * 8, (DENSE, DENSE, MIXED, MIXED) * 2])
def test_an_array_of_plans_gives_what_each_of_them_gives(words: dict[str, Any], layers: Any) -> None:
    rows = [(1, 1, 2, 4, 1), (2, 2, 2, 2, 2), (4, 1, 4, 1, 4), (2, 1, 2, 16, 1), (1, 4, 4, 2, 2)]
    names = ("tp", "cp", "pp", "dp", "microbatch")
    asked = subject("train", layers, batch=128)
    judge = Evaluator(asked, coster_of("efficiency", cluster(), shares=STATED))
    many = judge.evaluate(Plan(**{n: np.array([r[i] for r in rows], dtype=np.float64) for i, n in enumerate(names)}, **words))
    for at, row in enumerate(rows):
        one = judge.evaluate(Plan(**dict(zip(names, row, strict=True)), **words))
        for name, value in one.parts.named().items():
            assert np.broadcast_to(many.parts.named()[name], len(rows))[at] == pytest.approx(value, rel=1e-12), name
