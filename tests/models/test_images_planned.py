"""Images on several devices: what a rank of a vision tower computes, exchanges and keeps, by hand and against one device."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.decide.costs import coster_of
from roofline.decide.evaluate import Evaluator, Subject
from roofline.decide.utilisation import model_flop
from roofline.errors import UsageError
from roofline.models.description import Model
from roofline.models.phases import names_of, params_of
from roofline.models.shape import case_of
from roofline.models.tower_params import with_towers
from roofline.models.write import workload_text
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from roofline.plan.validate import problems
from roofline.report.build import analyze
from roofline.spec.planned import numbers, planned_params
from roofline.spec.source import Source
from roofline.spec.vectorised import LANGUAGE
from roofline.spec.workload import read_workload
from tests.models.conftest import CONFIGS
from tests.models.test_encoder_decoder import LARGE, SMALL, TINY
from tests.models.test_encoder_decoder import model as of_keys
from tests.models.test_vision import GEMMA, KIMI, LLAMA, QWEN3, QWEN25, WEIGHTS
from tests.models.towers import H100, expansion, flop, kept, published, steps, totals

SEERS = (QWEN25, QWEN3, GEMMA, LLAMA, KIMI)


def odd(heads: int = 12, name: str = GEMMA) -> Model:
    """Gemma 3 (or Qwen3-VL) with a vision tower whose heads eight ranks cannot share: its text's 32 heads they can."""
    own = published(name)
    eyes = own.towers[0]
    mixer = replace(eyes.model.layers[0].mixer, heads=heads, kv_heads=heads, head_dim=1152 // heads, v_head_dim=1152 // heads)
    layer = replace(eyes.model.layers[0], mixer=mixer)
    return replace(own, towers=(replace(eyes, model=replace(eyes.model, layers=(layer,) * len(eyes.model.layers))),))


# --------------------------------------------------------------------------- one device


@pytest.mark.parametrize("name", SEERS)
def test_one_rank_does_what_one_device_does(name: str) -> None:
    """FLOP, bytes and parameters of a plan of one device and of none."""
    given_ = {"batch": 2, "seq": 100, "images": 3}
    plain, planned = (totals(published(name), given_, plan=plan) for plan in (None, Plan()))
    assert (planned.flop, planned.bytes, planned.parameters) == (plain.flop, plain.bytes, plain.parameters)


@pytest.mark.parametrize("model", [published(QWEN25), of_keys(LARGE)], ids=["qwen", "whisper"])
def test_the_plan_of_one_device_takes_what_its_steps_take(model: Model) -> None:
    """The time of `plan`, and that of every step of the file one after the other."""
    sizes = {"batch": 2, "seq": 64, **({"images": 2} if model.eyes else {})}
    report = analyze(read_workload(Source("w.yaml", workload_text(expansion(model), sizes))), H100.device)
    found = Evaluator(Subject(model=model, how=None, job=Job(phase="prefill", **sizes), cluster=H100), coster_of("bound", H100)).evaluate(
        Plan()
    )
    assert scalar(found.step_s) == pytest.approx(sum(r.bound.time_s * r.repeat for r in report.rows if r.bound), rel=1e-12)


# --------------------------------------------------------------------------- shared products


@pytest.mark.parametrize("name", SEERS)
@pytest.mark.parametrize("tp", [2, 4])
def test_ranks_share_the_layers_of_a_tower_and_the_pairs_behind_it(name: str, tp: int) -> None:
    """All ranks together compute the FLOP of one device; patches and a single projection each rank computes for itself."""
    given_ = {"batch": 2, "seq": 64, "images": 1}
    one, many = (steps(published(name), Plan(tp=n), given_) for n in (1, tp))
    own = ("vision/patch_embedding", "vision/projection")
    assert sum(flop(many, n) for n in own) == sum(flop(one, n) for n in own)
    shared = [flop(found, "vision/") - sum(flop(found, n) for n in own) for found in (one, many)]
    assert shared[1] * tp == shared[0]


def test_the_tower_of_a_rank_by_hand() -> None:
    """Qwen2.5-VL on four ranks, an image of 448 x 448 pixels: 1024 patches of width 1280, 256 rows of the text; sums of 2 bytes each."""
    found = steps(published(QWEN25), Plan(tp=4), {"images": 1, "seq": 64, "image_height": 448, "image_width": 448})
    layer = found["vision/full_dense/qkv_proj"].op
    assert (layer.m, layer.n, layer.k) == (1024, 3 * 1280 // 4, 1280)
    assert found["vision/full_dense/attention"].op.heads == 4
    assert found["vision/full_dense/o_proj"].op.k == 320
    assert found["vision/full_dense/mlp_reduce"].op.size == 2 * 1024 * 1280
    merger = [found[f"vision/merger_{end}"].op for end in ("in", "out")]
    assert [(op.m, op.n, op.k) for op in merger] == [(256, 1280, 5120), (256, 3584, 1280)]
    assert found["vision/merger_out_reduce"].op.size == 2 * 256 * 3584
    assert "vision/images_gather" not in found
    assert found["images_into_text"].op.elements == 256 * 3584
    assert found["attention"].op.kv_len == 64 + 256


def test_a_tower_alone_is_the_same_on_each_rank() -> None:
    """Its steps in a prefill, without the text."""
    alone = steps(published(QWEN3), Plan(tp=2, dp=2), {"global_batch": 4, "images": 3}, "encode")
    both = steps(published(QWEN3), Plan(tp=2, dp=2), {"global_batch": 4, "images": 3}, "prefill")
    assert alone == {name: step for name, step in both.items() if name.startswith("vision/")}
    assert alone["vision/qkv_proj"].op.m == 2 * 3 * 64 * 64


def test_norms_of_a_tower_see_all_its_rows() -> None:
    """Sequence parallelism splits those of the text."""
    found = steps(published(GEMMA), Plan(tp=4, sequence_parallel=True), {"images": 1, "seq": 64})
    assert found["vision/mlp_norm"].op.rows == 4096
    assert found["full_dense/mlp_norm"].op.rows == (64 + 256) // 4
    assert {"vision/mlp_reduce", "full_dense/mlp_scatter"} <= set(found)


def test_further_mergers_are_pairs_too() -> None:
    """Qwen3-VL: three more, each with its sum over ranks."""
    found = steps(published(QWEN3), Plan(tp=2), {"images": 1})
    assert (found["vision/deepstack_out_reduce"].repeat, found["vision/deepstack_in"].op.n) == (3, 2304)
    assert found["vision/deepstack_add"].op.elements == 1024 * 4096  # 1024 x 1024 pixels: 32 x 32 squares


# --------------------------------------------------------------------------- shared images


def test_heads_that_do_not_divide_share_the_images_instead() -> None:
    """12 heads on 8 ranks: 11 images are 2 a rank, computed whole; rows of all of them are gathered, and no layer has a sum."""
    found = steps(odd(), Plan(tp=8), {"batch": 11, "images": 1, "seq": 64})
    assert found["vision/attention"].op.batch == 2
    assert found["vision/attention"].op.heads == 12
    assert found["vision/qkv_proj"].op.n == 3 * 1152
    assert not [name for name in found if name.startswith("vision/") and name.endswith("_reduce")]
    gather = found["vision/images_gather"].op
    assert (gather.size, gather.ranks) == (2 * 11 * 256 * 5376, 8)
    assert found["images_into_text"].op.elements == 11 * 256 * 5376


def test_layers_add_what_they_see_to_states_of_all_images() -> None:
    """Qwen3-VL with 12 heads on 8 ranks: rows for the text and for three of its layers are gathered, and added on each rank."""
    found = steps(odd(name=QWEN3), Plan(tp=8), {"batch": 8, "images": 1, "image_height": 320, "image_width": 320})
    assert found["vision/deepstack_in"].op.m == 100
    assert found["vision/images_gather"].op.size == 4 * 2 * 8 * 100 * 4096
    assert found["vision/deepstack_add"].op.elements == 8 * 100 * 4096


def test_the_exchange_of_images_is_waited_for_once() -> None:
    """Beside those of a text as long: an all-gather of 2 x 11 x 256 x 5376 bytes, 7/8 of which come over the link."""
    job = Job(phase="prefill", batch=11, seq=64, images=1)
    text, seen = (
        Evaluator(Subject(model=odd(), how=None, job=own, cluster=H100), coster_of("bound", H100)).evaluate(Plan(tp=8)).parts
        for own in (replace(job, images=0, seq=64 + 256), job)
    )
    link = H100.tiers[0].bandwidth.value  # type: ignore[union-attr]
    waited = scalar(seen.exposed["tp"]) - scalar(text.exposed["tp"])
    assert waited == pytest.approx(2 * 11 * 256 * 5376 * 7 / 8 / link)


def test_where_heads_do_not_divide_each_rank_keeps_the_whole_tower() -> None:
    """Four ranks share the tower of 12 heads, eight have it whole."""
    text = {tp: kept(published(GEMMA), Plan(tp=tp), phase="decode", context=100).weights for tp in (4, 8)}
    mine = {tp: kept(odd(), Plan(tp=tp), phase="decode", context=100).weights for tp in (4, 8)}
    layers = 27 * (4 * 1152**2 + 3 * 1152 + 2 * 1152 * 4304 + 4304)
    assert mine[4] == text[4]
    assert mine[8] - text[8] == pytest.approx(2 * layers * 7 / 8)


def test_an_inner_width_that_does_not_divide_is_not_shared_either() -> None:
    """Qwen2.5-VL: 3420 inner elements are a whole number on four ranks, and on eight no more than heads of its text are."""
    job = {"phase": "decode", "context": 100}
    blind = replace(published(QWEN25), towers=(), extras=tuple(e for e in published(QWEN25).extras if e.part != "vision"))
    seen = {tp: kept(published(QWEN25), Plan(tp=tp), **job).weights - kept(blind, Plan(tp=tp), **job).weights for tp in (4, 8)}
    assert seen[8] == 2 * WEIGHTS[QWEN25] > 3 * seen[4]


@settings(deadline=None, max_examples=20)
@given(
    name=st.sampled_from([QWEN25, GEMMA, LLAMA]), heads=st.sampled_from([16, 12]), tp=st.integers(1, 9), batch=st.integers(1, 9),
    images=st.integers(1, 5), side=st.integers(20, 2000), seq=st.integers(1, 99),
)  # fmt: skip
def test_values_of_the_params_are_those_of_their_expressions(
    name: str, heads: int, tp: int, batch: int, images: int, side: int, seq: int
) -> None:
    """As a file works them out from its own params, with those of the job and what `with_towers` says of it, for memory too."""
    model, plan = odd(heads) if name == GEMMA else published(name), Plan(tp=tp)
    sizes = {"image_height": side, "image_width": side + 31} if name == QWEN25 else {}
    job = with_towers(model, Job(phase="prefill", batch=batch, seq=seq, images=images, **sizes))
    asked = expansion(model, plan=plan)
    written = numbers({**planned_params(asked), "batch": batch, "images": images, "seq": seq, **sizes}, asked)
    found = names_of(params_of(asked), model, job, plan, batch, LANGUAGE)
    assert found == {key: written[key] for key in found}
    assert (found["image_tokens"], found["length"]) == (job.image_tokens, job.length)
    assert {"image_rows", "tokens"} <= set(found)


@pytest.mark.parametrize("model", [odd(), published(QWEN3)], ids=["gemma", "qwen"])
def test_plans_in_arrays_are_plans_one_by_one(model: Model) -> None:
    """Also where some of them share products and others images."""
    job = Job(phase="prefill", batch=16, seq=100, images=3)
    evaluator = Evaluator(Subject(model=model, how=None, job=job, cluster=H100), coster_of("bound", H100))
    degrees = np.array([1.0, 2.0, 4.0, 8.0])
    many = Plan(tp=degrees, dp=8 / degrees)
    time, needed = evaluator.evaluate(many).step_s, kept(model, many, phase="prefill", batch=16, seq=100, images=3).needed
    for i, tp in enumerate((1, 2, 4, 8)):
        one = Plan(tp=tp, dp=8 // tp)
        assert np.asarray(time)[i] == pytest.approx(scalar(evaluator.evaluate(one).step_s), rel=1e-12)
        assert np.asarray(needed)[i] == scalar(kept(model, one, phase="prefill", batch=16, seq=100, images=3).needed)


# --------------------------------------------------------------------------- model FLOP, and what is kept


@pytest.mark.parametrize("name", SEERS)
def test_model_flop_of_images_are_those_of_the_tower(name: str) -> None:
    """Counted from the weights; as executed by its steps alone."""
    model = published(name)
    with_, without = (Job(phase="prefill", batch=2, seq=10, images=n, image_tokens=0) for n in (3, 0))
    seen = with_towers(model, with_)
    more = scalar(model_flop(model, seen, "full")) - scalar(model_flop(model, replace(without, seq=int(scalar(seen.length))), "full"))
    sides = {"image_height": 896, "image_width": 896}  # whole windows of Qwen2.5-VL
    if name == QWEN25:
        seen = with_towers(model, replace(with_, **sides))
        more = scalar(model_flop(model, seen, "full")) - scalar(model_flop(model, replace(without, seq=int(scalar(seen.length))), "full"))
    images = {"batch": 2, "images": 3, **(sides if name == QWEN25 else {})}
    assert more == pytest.approx(totals(model, images, "encode").flop["tensor"], rel=1e-12)


def test_the_tower_is_resident_while_decoding() -> None:
    """Gemma 3 on two ranks: half of what they share, all of stem, positions, norms, biases behind sums, and the single projection."""
    model, plan = published(GEMMA), Plan(tp=2)
    blind = replace(model, towers=(), extras=tuple(e for e in model.extras if e.part != "vision"))
    shared = 27 * (4 * 1152**2 + 3 * 1152 + 2 * 1152 * 4304 + 4304)
    seen = kept(model, plan, phase="decode", context=100).weights - kept(blind, plan, phase="decode", context=100).weights
    assert seen == 2 * (shared / 2 + WEIGHTS[GEMMA] - shared)
    assert kept(model, plan, phase="decode", context=100).kv_cache == kept(blind, plan, phase="decode", context=100).kv_cache


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("model", [odd(), *map(published, (GEMMA, QWEN3, LLAMA))], ids=["odd", "gemma", "qwen", "llama"])
def test_a_rank_keeps_what_its_steps_hold(model: Model, tp: int) -> None:
    """Two counts: weights by how each is split, and those of the operators."""
    job = {"batch": 2, "seq": 64, "images": 1}
    assert kept(model, Plan(tp=tp), phase="prefill", **job).weights == 2 * totals(model, job, plan=Plan(tp=tp)).parameters


def test_the_first_stage_has_the_tower() -> None:
    """Two stages of Qwen2.5-VL without images: it makes the first the fuller one by as much as the tower, less head and final norm."""
    model = published(QWEN25)
    blind = replace(model, towers=(), extras=tuple(e for e in model.extras if e.part != "vision"))
    seen, unseen = (kept(m, Plan(pp=2), phase="decode", batch=2, context=100) for m in (model, blind))
    assert (seen.stage, unseen.stage) == (0, 1)
    assert seen.weights - unseen.weights == 2 * (WEIGHTS[QWEN25] - 3584)


def test_images_are_part_of_the_cache() -> None:
    """A sequence of 100 words and 3 images of 256 rows is one of 868."""
    with_ = kept(published(GEMMA), Plan(tp=2), phase="prefill", batch=2, seq=100, images=3)
    assert with_.kv_cache == kept(published(GEMMA), Plan(tp=2), phase="prefill", batch=2, seq=868).kv_cache


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("model", "plan", "job", "said"),
    [
        (published(GEMMA), Plan(cp=2), {"phase": "prefill", "seq": 64, "images": 1}, "how ranks of context parallelism share images"),
        (of_keys(SMALL), Plan(cp=2), {"phase": "decode", "context": 64}, "the source of an encoder, is not described"),
        (of_keys(SMALL), Plan(pp=2), {"phase": "decode", "context": 64}, "how stages share an encoder"),
        (of_keys({**TINY, "encoder_attention_heads": 4}), Plan(tp=4), {"phase": "decode", "context": 64}, "2 heads do not divide by tp 4"),
    ],
)
def test_plans_that_do_not_go_with_a_tower(model: Model, plan: Plan, job: dict[str, Any], said: str) -> None:
    """A rule of plans, so that a search counts what it leaves out."""
    assert [p for p in problems(case_of(model, plan, Job(**job))) if said in p.message]
    assert not problems(case_of(model, Plan(), Job(**job)))


@pytest.mark.parametrize(
    ("model", "job", "said"),
    [
        (published(GEMMA), {"phase": "prefill", "images": 1, "image_height": 300}, "images of 'gemma3' are 896 pixels a side"),
        (published(QWEN25), {"phase": "prefill", "image_width": 300}, "image_height and image_width are those of images"),
        (published(QWEN25), {"phase": "prefill", "source": 300}, "'qwen2_5_vl' has no encoder, and no source"),
        (published(QWEN25), {"phase": "decode", "images": 1}, "images are of a prefill"),
        (of_keys(SMALL), {"phase": "prefill", "images": 1}, "'t5' has no vision tower"),
        (of_keys(SMALL), {"phase": "train"}, "'t5' has an encoder, the exchange of whose gradients"),
        (published("clip-vit-large-patch14"), {"phase": "prefill"}, "'clip' has two towers, which plans"),
    ],
)
def test_jobs_that_are_refused(model: Model, job: dict[str, Any], said: str) -> None:
    """In a sentence, for whatever asks."""
    with pytest.raises(UsageError, match=said):
        kept(model, Plan(), **job)


# --------------------------------------------------------------------------- the commands


SIZES = ("--set", "batch=8", "--set", "seq=1000", "--set", "images=2")


def test_plan_and_search_count_images(run: Any) -> None:
    """More tokens than words, one of them that a user can see; the best plan of eight devices obeys."""
    config = str(CONFIGS / f"{QWEN25}.json")
    found = json.loads(run("plan", config, "--phase", "prefill", "-C", "dgx-h100", "--plan", "tp=2", *SIZES, "--format", "json").stdout)
    assert found["job"]["images"] == 2
    assert found["rates"]["tokens_per_step"] == 8 * (1000 + 2 * (1008 // 28) ** 2)
    best = json.loads(run("search", config, "--phase", "prefill", "-C", "dgx-h100", "--devices", "8", *SIZES, "--format", "json").stdout)
    assert best["infeasible"]["images or a source under cp"] > 0


def test_a_workload_with_images_under_a_plan(run: Any, tmp_path: Any) -> None:
    """The params of its file are those of the job; cp is refused at its place."""
    (tmp_path / "m.json").write_text((CONFIGS / f"{QWEN25}.json").read_text(encoding="utf-8"), encoding="utf-8")
    asked = "schema: 1\nmodel: m.json\nphase: prefill\nplan: {tp: 2, cp: CP}\ncluster: dgx-h100\n"
    text = asked + "params: {images: 2, seq: 1000, image_height: 448}\n"
    for cp in (1, 2):
        (tmp_path / f"{cp}.yaml").write_text(text.replace("CP", str(cp)), encoding="utf-8")
    found = json.loads(run("plan", str(tmp_path / "1.yaml"), "--format", "json").stdout)
    assert found["rates"]["tokens_per_step"] == 1000 + 2 * 16 * 36
    assert "2.yaml:4:19: how ranks of context parallelism share images" in run("plan", str(tmp_path / "2.yaml"), code=2).stderr
