"""Workload files of one rank under a plan: the busiest stage, every microbatch, and collectives over the tiers of a cluster."""

from __future__ import annotations

from math import comb
from typing import Any

import pytest

from roofline.decide.costs import RateCoster
from roofline.decide.evaluate import Evaluator, Subject
from roofline.errors import UsageError
from roofline.models.count import summary
from roofline.models.expansion import Expansion
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from roofline.report.build import analyze
from roofline.spec.cluster import load_cluster
from roofline.spec.hardware import load_hardware
from roofline.spec.model import load_model
from roofline.spec.planned import Carrier, planned_text
from roofline.spec.source import Source
from roofline.spec.workload import read_workload

LAYER = 855_654_400
"""Parameters of a layer of Llama-3-70B."""


def written(name: str, phase: str, plan: Plan, settings: dict[str, int], cluster: str = "dgx-h100", **options: Any) -> Any:
    """The workload of one rank."""
    model, how, _ = load_model(name)
    carrier = Carrier(cluster=load_cluster(cluster))
    text = planned_text(Expansion(model=model, phase=phase, how=how, plan=plan, **options), settings, carrier)
    return read_workload(Source("w.yaml", text))


def flop(workload: Any) -> float:
    """Matrix FLOP of all steps."""
    return float(analyze(workload, None).totals.flop["tensor"])


def test_the_fullest_rank_of_experts_exchanges_more_by_hand():
    """DeepSeek-V3, 64 tokens a rank to 8 of 256 experts each, 7168 wide in bf16: 917,504 B a row. On 64 ranks a token goes to 7.676 of them
    and to 5.295 of their 8 nodes: twice the former to the fullest, all of it inside its node, and over rails what its node takes in, of
    which no more than the mean is known. Of 8 ranks the fullest has every token, which is less than twice 5.295 / 8 of them."""
    row = 64 * 7168 * 2
    ranks, nodes = (m * (1 - comb(256 - 256 // m, 8) / comb(256, 8)) for m in (64, 8))
    for ep, sizes in ((64, {"nvlink": 2 * ranks, "infiniband": nodes}), (8, {"nvlink": 8})):
        found = written("deepseek-v3", "decode", Plan(dp=64, ep=ep, imbalance=2.0), {"global_batch": 64 * 64})
        steps = [s.op for s in found.steps if s.op.name == "all_to_all"]
        assert [(op.over, op.ranks) for op in steps] == [(tier, 8) for tier in sizes] * 2
        assert [op.size for op in steps] == pytest.approx([size * row for size in sizes.values()] * 2, rel=1e-6)


def test_a_mixed_step_of_a_rank_is_that_of_one_part():
    """64 sequences and 2048 tokens over two replicas of two stages: 16 sequences and a chunk of 512."""
    found = written("llama-3-70b", "mixed", Plan(tp=4, pp=2, dp=2), {"global_batch": 64, "global_chunk": 2048, "context": 4096})
    steps = {s.id: s for s in found.steps}
    assert steps["qkv_proj"].op.m == 512 + 16
    assert steps["qkv_proj"].repeat == 40
    assert (steps["attention_prefill"].op.q_len, steps["attention_decode"].op.batch) == (512, 16)


@pytest.mark.parametrize(("plan", "parts"), [(Plan(tp=2, pp=4, dp=2, microbatch=4), 4), (Plan(pp=4, dp=2, microbatch=16), 1)])
@pytest.mark.parametrize("settings", [{}, {"cached": 512}])
def test_a_prefill_of_a_rank_is_that_of_all_its_parts(plan: Plan, parts: int, settings: dict[str, int]):
    """32 prompts: each part reads the weights again, the attention of all is that of the parts, and the weights are held once. The
    seconds of compute are those that the plan counts of its slowest stage."""
    found = written("llama-3-70b", "prefill", plan, {"batch": 32, "seq": 2048, **settings}, cached=bool(settings))
    steps = {s.id: s for s in found.steps}
    layers = 80 // plan.pp
    assert sum(steps[name].repeat for name in ("qkv_proj", "qkv_proj_more") if name in steps) == layers * parts
    assert (steps["attention"].repeat, steps["attention"].op.batch) == (layers * parts, plan.microbatch)
    assert analyze(found, None).totals.parameters == layers * (LAYER - 16384) / plan.tp + layers * 16384 + 128_256 / plan.tp * 8192 + 8192
    cluster = load_cluster("dgx-h100")
    report = analyze(found, load_hardware("dgx-h100"))
    compute = sum(r.bound.time_s * r.repeat for r in report.rows if r.bound and not r.link_bytes)
    job = Job(phase="prefill", batch=32, seq=2048, **settings)
    subject = Subject(model=load_model("llama-3-70b")[0], how=None, job=job, cluster=cluster)
    whole = Evaluator(subject, RateCoster(cluster.device)).evaluate(plan)
    assert whole.count == parts
    assert compute == pytest.approx(float(whole.parts.compute_s), rel=1e-12)


def test_a_prefill_whose_parts_are_left_open_is_whole_and_says_so():
    model, how, _ = load_model("llama-3-8b")
    said = {}
    for microbatch in (0, 2):
        asked = Expansion(model=model, phase="prefill", how=how, plan=Plan(pp=2, microbatch=microbatch))
        said[microbatch] = planned_text(asked, {"global_batch" if microbatch else "batch": 8}, Carrier(link="nvlink"))
    assert "params: {batch: 8," in said[0]
    assert "microbatch= states parts" in said[0]
    assert "params: {global_batch: 8, microbatch: 2, batch: microbatch," in said[2]
    assert "in parts of microbatch=" in said[2]


# --------------------------------------------------------------------------- stages
def test_the_stage_with_the_head_is_the_busiest_of_equal_ones():
    """80 layers on 4 stages: 20 and the vocabulary on the last; its weights and the optimizer's are those of the rank."""
    found = written("llama-3-70b", "train", Plan(tp=8, pp=4, dp=2), {"global_batch": 8, "seq": 512})
    steps = {s.id: s for s in found.steps}
    assert steps["qkv_proj"].repeat == 20
    assert "lm_head" in steps
    assert "embedding" not in steps
    held = 20 * ((LAYER - 16384) / 8 + 16384) + 128_256 / 8 * 8192 + 8192
    assert analyze(found, None).totals.parameters == held
    assert sum(s.op.parameters * s.repeat for i, s in steps.items() if i.endswith("optimizer")) == held


def test_a_stage_between_is_busiest_where_the_ends_hold_fewer_layers():
    """Llama 3: 126 layers on 16 stages, 7 on the first and the last and 8 between."""
    found = written("llama-3.1-405b", "train", Plan(tp=8, pp=16, dp=1, uneven=True), {"global_batch": 16})
    steps = {s.id: s for s in found.steps}
    assert steps["qkv_proj"].repeat == 8
    assert "lm_head" not in steps
    assert (steps["to_next_stage"].op.over, steps["to_next_stage"].op.ranks) == ("infiniband", 2)


def test_a_hop_between_stages_over_one_link_is_a_share_sent_and_the_rest_gathered():
    """No param is called pp: the file is of one stage."""
    plan = Plan(tp=8, pp=4)
    model, how, _ = load_model("llama-3-70b")
    text = planned_text(Expansion(model=model, phase="train", how=how, plan=plan), {"global_batch": 4}, Carrier(link="nvlink"))
    hop = {s.id: s.op for s in read_workload(Source("w.yaml", text)).steps if s.id in ("to_next_stage", "stage_gather")}
    assert hop["to_next_stage"].size * 8 == hop["stage_gather"].size > 0
    assert (hop["to_next_stage"].ranks, hop["stage_gather"].ranks) == (4, 8)


def test_a_tied_head_on_another_stage_has_weights_of_its_own():
    """GPTs share one table, of which the first and the last stage hold a copy each."""
    found = {s.id: s for s in written("gpt-22b", "decode", Plan(pp=2), {"batch": 1}).steps}
    assert found["lm_head"].tied_to is None
    together = {s.id: s for s in written("gpt-22b", "decode", Plan(tp=2), {"batch": 1}).steps}
    assert together["lm_head"].tied_to == "embedding"


# --------------------------------------------------------------------------- microbatches
@pytest.mark.parametrize("count", [1, 2, 16])
def test_all_microbatches_run_and_their_weights_are_held_once(count):
    """FLOP grow with the number, parameters and optimizer steps do not."""
    one, many = (written("llama-3-8b", "train", Plan(tp=2, dp=2), {"global_batch": 2 * n, "seq": 256}) for n in (1, count))
    assert flop(many) == count * flop(one)
    assert analyze(many, None).totals.parameters == analyze(one, None).totals.parameters
    updates = [sum(s.repeat for s in w.steps if s.id.endswith(("optimizer", "gradients_reduce"))) for w in (one, many)]
    assert updates[0] == updates[1] == 2 * (32 + 2)


def test_tokens_that_do_not_divide_are_refused():
    """By replicas and microbatches."""
    with pytest.raises(UsageError, match="global_batch 7 is no multiple of dp 2 x microbatch 1"):
        written("llama-3-8b", "train", Plan(dp=2), {"global_batch": 7})


# --------------------------------------------------------------------------- tiers
def test_gradients_of_eight_nodes_go_out_in_shares():
    """64 ranks in nodes of 8: a reduce-scatter inside, an all-reduce of an eighth between, an all-gather inside."""
    found = {s.id: s.op for s in written("llama-3-8b", "train", Plan(dp=64), {"global_batch": 64, "seq": 128}).steps}
    legs = {i: op for i, op in found.items() if i.startswith("gradients_reduce")}
    size = 2 * (summary(load_model("llama-3-8b")[0]).parameters.total - 2 * 128_256 * 4096 - 4096) / 32
    assert [(op.name, op.over, op.ranks, op.size) for op in legs.values()] == [
        ("reduce_scatter", "nvlink", 8, size),
        ("all_reduce", "infiniband", 8, size / 8),
        ("all_gather", "nvlink", 8, size),
    ]


def test_a_switch_that_adds_is_said_to():
    """NVLink SHARP within a node of H100, a ring between A100."""
    for cluster, algorithm in (("dgx-h100", "switch"), ("dgx-a100", "ring")):
        found = {s.id: s.op for s in written("llama-3-8b", "decode", Plan(tp=8), {"batch": 1}, cluster).steps}
        assert found["mlp_reduce"].algorithm == algorithm


def test_experts_of_other_nodes_are_reached_over_the_network():
    """64 ranks on 8 nodes: a row to each of 5.295 nodes that a token's 8 of 256 experts lie in, 7/8 of them others."""
    plan = Plan(ep=64, dp=64)
    found = {s.id: s.op for s in written("deepseek-v3", "decode", plan, {"global_batch": 64 * 32, "context": 128}).steps}
    legs = {i: op for i, op in found.items() if "latent_moe/dispatch" in i}
    assert [op.over for op in legs.values()] == ["nvlink", "infiniband"]
    nodes = 8 * (1 - comb(224, 8) / comb(256, 8))
    assert legs["latent_moe/dispatch/infiniband"].sent_bytes() == pytest.approx(32 * nodes * 7168 * 2 * 7 / 8, rel=1e-6)


# --------------------------------------------------------------------------- the command
def test_import_under_a_plan(run, report, tmp_path):
    """From a shipped name to a report with links; problems of the plan at their column."""
    out = str(tmp_path / "w.yaml")
    run("import", "hf", "mixtral-8x7b", "--phase", "decode", "--plan", "tp=8", "--cluster", "dgx-h100", "--set", "batch=32", "-o", out)
    links = {r["id"]: r["link_bytes"] for r in report("analyze", out, "-H", "h100-sxm")["rows"] if r["link_bytes"]}
    assert set(links) == {"embedding_reduce", "attention_reduce", "experts_scatter", "experts_gather_tokens", "logits_gather"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--plan", "tp=3", "--link", "nvlink"], "--plan:1:4: 32 heads do not divide by tp 3"),
        (["--plan", "tq=8", "--link", "nvlink"], "--plan:1:1"),
        (["--plan", "tp=8"], "nothing carries the collective"),
        (["--cluster", "dgx-h100"], "add --plan"),
        (["--plan", "tp=8", "--cluster", "dgx-h100", "--link", "nvlink"], "exclude each other"),
        (
            ["--plan", "dp=2", "--link", "nvlink", "--set", "batch=8", "--set", "global_batch=8"],
            "'batch' and 'global_batch' are one size, the sequences of a step on all devices together",
        ),
        (["--lora-targets", "o_proj"], "--lora-targets needs --lora-rank"),
        (["--attention", "flsh"], "did you mean 'flash'"),
    ],
)
def test_refused_by_the_command(options, said, run):
    """Exit 2 and the repair."""
    result = run("import", "hf", "llama-3-8b", *options, code=2)
    assert said in result.stderr
    assert result.stdout == ""
