"""Vision towers as steps: weights by closed forms, FLOP of an image by hand, images in the sequences of a prefill; CLIP's two towers."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError, RooflineError, UsageError
from roofline.models.count import summary
from roofline.models.expansion import Expansion
from roofline.models.whole import parameters_in
from roofline.models.write import workload_text
from roofline.plan.plan import Plan
from roofline.report.build import analyze
from roofline.spec.model import load_model
from roofline.spec.source import Source
from roofline.spec.workload import read_workload
from tests.models.conftest import CONFIGS
from tests.models.test_refusals import STRANGE

QWEN25, QWEN3, GEMMA, LLAMA, KIMI = (
    "qwen2.5-vl-7b-instruct", "qwen3-vl-8b-instruct", "gemma-3-27b-it", "llama-4-scout-fp8-dynamic", "kimi-k2.5",
)  # fmt: skip
CLIP = "clip-vit-large-patch14"


def layer(h: int, f: int) -> int:
    """A layer with biases everywhere and two layer norms with beta: 4 h^2 + 4 h, 2 h f + h + f, 4 h."""
    return 4 * h * h + 4 * h + 2 * h * f + h + f + 4 * h


def merger(wide: int, out: int) -> int:
    """Two products with biases."""
    return wide * (wide + 1) + (wide + 1) * out


WEIGHTS = {
    QWEN25: 1280 * 1176 + 32 * (4 * 1280**2 + 4 * 1280 + 3 * 1280 * 3420 + 2 * 3420 + 1280 + 2 * 1280) + 1280 + merger(5120, 3584),
    QWEN3: 1152 * 1537 + 2304 * 1152 + 27 * layer(1152, 4304) + 2304 + merger(4608, 4096) + 3 * (2 * 4608 + merger(4608, 4096)),
    GEMMA: 1152 * 589 + 4096 * 1152 + 27 * layer(1152, 4304) + 2 * 1152 + 1152 + 1152 * 5376,
    LLAMA: 1408 * 588 + 1408 + 577 * 1408 + 34 * layer(1408, 5632) + 4 * 1408 + 5632 * 4096 + 4096**2 + 4096 * 5120,
    KIMI: 1152 * 589 + 4096 * 1152 + 27 * layer(1152, 4304) + 2 * 1152 + 2 * 1152 + merger(4608, 7168),
    "qwen3-vl-30b-a3b-instruct": 1152 * 1537 + 2304 * 1152 + 27 * layer(1152, 4304) + 2304 + 4 * merger(4608, 2048) + 3 * 2 * 4608,
    "qwen3.5-27b": 1152 * 1537 + 2304 * 1152 + 27 * layer(1152, 4304) + 2304 + merger(4608, 5120),
}
"""Patches, positions, layers, norms, and what leads to the text."""


def workload(name: str, phase: str, given_: dict[str, int] | None = None, **options: Any) -> Any:
    """The workload of a published model."""
    model, how, _ = load_model(str(CONFIGS / f"{name}.json"))
    return read_workload(Source("w.yaml", workload_text(Expansion(model=model, phase=phase, how=how, **options), given_ or {})))


def steps(name: str, phase: str, given_: dict[str, int] | None = None, **options: Any) -> dict[str, Any]:
    """Its operators by id."""
    return {s.id: s.op for s in workload(name, phase, given_, **options).steps}


def totals(name: str, phase: str, given_: dict[str, int] | None = None, **options: Any) -> Any:
    """Its totals."""
    return analyze(workload(name, phase, given_, **options), None).totals


# --------------------------------------------------------------------------- weights
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_by_closed_form(name):
    """As counted, and as the steps of the tower alone hold them."""
    model, how, _ = load_model(str(CONFIGS / f"{name}.json"))
    assert summary(model, how).parameters.by_part["vision"] == totals(name, "encode").parameters == WEIGHTS[name]


@pytest.mark.parametrize("name", WEIGHTS)
def test_with_images_a_prefill_holds_every_weight(name):
    """Of which those without are the text's."""
    model, how, _ = load_model(str(CONFIGS / f"{name}.json"))
    total = summary(model, how).parameters.total
    assert totals(name, "prefill", {"images": 1, "seq": 64}, images=True).parameters == total
    assert totals(name, "prefill", {"seq": 64}).parameters == total - WEIGHTS[name]


def test_the_published_count_of_qwen():
    """Qwen2.5-VL-7B: 8,292,166,656 parameters with its tower."""
    assert totals(QWEN25, "prefill", {"images": 1}, images=True).parameters == 8_292_166_656


# --------------------------------------------------------------------------- FLOP of an image
def test_flop_of_an_image_by_hand():
    """SigLIP: 4096 patches of 588 numbers, 27 layers that see all, 256 rows projected."""
    h, f, n = 1152, 4304, 4096
    layers = 27 * (2 * n * (4 * h * h + 2 * h * f) + 4 * n * n * h)
    assert totals(GEMMA, "encode").useful_flop == 2 * n * h * 588 + layers + 2 * 256 * h * 5376


@settings(deadline=None, max_examples=10)
@given(down=st.integers(1, 8), across=st.integers(1, 8), images=st.integers(1, 5))
def test_flop_of_windows_by_closed_form(down, across, images):
    """Qwen2.5-VL, sides of whole windows of 112 pixels: 64 patches see each other in 28 layers, all do in 4; rows of 4 for the text."""
    h, f, n = 1280, 3420, 64 * down * across
    products = 2 * n * (h * 1176 + 32 * (4 * h * h + 3 * h * f))
    scores = 4 * n * h * (28 * 64 + 4 * n)
    joined = 2 * (n // 4) * (5120 * 5120 + 5120 * 3584)
    given_ = {"images": images, "image_height": 112 * down, "image_width": 112 * across}
    assert totals(QWEN25, "encode", given_).useful_flop == images * (products + scores + joined)


def test_flop_of_further_mergers():
    """Qwen3-VL: the merger and three more, each 2 x 4608 x (4608 + 4096) FLOP a row, which are added to states of the text."""
    found = workload(QWEN3, "encode", {"image_height": 640, "image_width": 320})
    rows = (640 // 32) * (320 // 32)
    flop = sum(s.op.counts().tensor * s.repeat for s in found.steps if s.id.startswith(("vision/merger", "vision/deepstack")))
    assert flop == 4 * 2 * rows * 4608 * (4608 + 4096)
    added = next(s for s in found.steps if s.id == "vision/deepstack_add")
    assert (added.repeat, added.op.elements) == (3, rows * 4096)


def test_llama_sees_a_quarter_of_the_patches():
    """336 pixels: 24 x 24 patches and a class token inside, 144 rows of 4 patches outside."""
    found = steps(LLAMA, "encode", {"images": 5})
    assert found["vision/attention"].q_len == found["vision/positions"].vocab == 577
    assert found["vision/qkv_proj"].m == 5 * 577
    assert (found["vision/adapter_in"].m, found["vision/adapter_in"].k) == (5 * 144, 5632)


def test_a_tower_keeps_its_format():
    """Also beside a text whose every product is fp8."""
    model, _, _ = load_model(str(CONFIGS / f"{QWEN3}.json"))
    _, how, _ = load_model(str(CONFIGS / "qwen3-32b-fp8.json"))
    assert how is not None
    text = workload_text(Expansion(model=model, phase="prefill", how=how, images=True), {})
    found = {s.id: s.op for s in read_workload(Source("w.yaml", text)).steps}
    assert found["qkv_proj"].dtype == "fp8"
    assert {op.dtype for name, op in found.items() if name.startswith("vision/") and op.name == "gemm"} == {"bf16"}


@pytest.mark.parametrize(("name", "blended", "table"), [(QWEN3, 4, 2304), (KIMI, 16, 4096)])
def test_positions_between_those_of_the_table(name, blended, table):
    """2 FLOP for each of 4 neighbours (bilinear) or 16 (bicubic) an element; the table is read once."""
    found = steps(name, "encode", {"image_height": 448, "image_width": 448})
    positions, patches = found["vision/positions"], found["vision/patch_embedding"].m
    assert positions.counts().vector == 2 * blended * patches * 1152
    assert sum(t.elements for t in positions.tensors() if t.role == "weight") == table * 1152


def test_sides_are_scaled_to_whole_squares():
    """1000 x 700 pixels are 36 x 25 squares of 28, each of 4 patches."""
    found = steps(QWEN25, "encode", {"image_height": 1000, "image_width": 700})
    assert found["vision/full_dense/attention"].q_len == 36 * 25 * 4
    assert found["vision/merger_in"].m == 36 * 25


# --------------------------------------------------------------------------- images in a prefill
@settings(deadline=None, max_examples=8)
@given(name=st.sampled_from([QWEN25, QWEN3, GEMMA, KIMI]), batch=st.integers(1, 3), images=st.integers(1, 4), seq=st.integers(1, 500))
def test_a_prefill_is_the_tower_and_a_longer_text(name, batch, images, seq):
    """FLOP: those of the images alone, and of a text as long as both."""
    last = {GEMMA: "projection", KIMI: "projector_out"}.get(name, "merger_out")
    image = steps(name, "encode")[f"vision/{last}"].m
    both = totals(name, "prefill", {"batch": batch, "images": images, "seq": seq}, images=True).useful_flop
    alone = totals(name, "encode", {"batch": batch, "images": images}).useful_flop
    assert both == pytest.approx(alone + totals(name, "prefill", {"batch": batch, "seq": seq + images * image}).useful_flop, rel=1e-12)


def test_rows_of_images_are_part_of_each_sequence():
    """2 sequences with 3 images of 256 rows and 100 words: 868 tokens each."""
    found = steps(GEMMA, "prefill", {"batch": 2, "images": 3, "seq": 100}, images=True)
    assert found["images_into_text"].elements == 2 * 3 * 256 * 5376
    assert found["embedding"].tokens == 2 * 868
    assert found["full_dense/attention"].kv_len == 868
    assert found["vision/attention"].batch == 6


def test_without_images_nothing_changes():
    """Steps of the text alone, and the note that says so."""
    model, how, _ = load_model(str(CONFIGS / f"{GEMMA}.json"))
    text = workload_text(Expansion(model=model, phase="prefill", how=how), {})
    assert "vision/" not in text
    assert "# the vision tower is counted among the parameters and no step of the import" in text
    assert "no step of the import" not in workload_text(Expansion(model=model, phase="prefill", how=how, images=True), {})


# --------------------------------------------------------------------------- CLIP
def test_clip_has_both_towers():
    """ViT-L/14 and its text tower: 427,616,513 parameters, the scale included."""
    assert totals(CLIP, "prefill").parameters == 427_616_513
    alone = 1024 * 588 + 1024 + 257 * 1024 + 24 * layer(1024, 4096) + 4 * 1024 + 1024 * 768
    assert totals(CLIP, "encode").parameters == alone


@pytest.mark.parametrize(
    ("name", "phase"), [*((n, p) for n in (GEMMA, QWEN3) for p in ("prefill", "encode")), (CLIP, "prefill"), (CLIP, "encode")]
)
@pytest.mark.parametrize("images", [False, True])
def test_the_file_says_how_many_parameters_its_steps_hold(name, phase, images):
    """In its second line."""
    model, how, _ = load_model(str(CONFIGS / f"{name}.json"))
    text = workload_text(Expansion(model=model, phase=phase, how=how, images=images), {})
    assert text.splitlines()[1] == f"# Parameters in these steps: {totals(name, phase, images=images).parameters}."


@settings(deadline=None, max_examples=8)
@given(texts=st.integers(1, 50), images=st.integers(1, 50), seq=st.integers(2, 77))
def test_flop_of_clip_by_closed_form(texts, images, seq):
    """257 rows an image that all see each other, ``seq`` words that see those before; a product of all images with all texts."""

    def tower(rows: int, h: int, f: int, layers: int, seen: float) -> float:
        return layers * (2 * rows * (4 * h * h + 2 * h * f) + 4 * rows * seen * h)

    image = 2 * 256 * 1024 * 588 + tower(257, 1024, 4096, 24, 257) + 2 * 1024 * 768
    text = tower(seq, 768, 3072, 12, seq / 2) + 2 * 768 * 768
    found = totals(CLIP, "prefill", {"batch": texts, "images": images, "seq": seq}).useful_flop
    assert found == pytest.approx(images * image + texts * text + 2 * images * texts * 768, rel=1e-12)


def test_clip_texts_are_as_long_as_its_positions():
    """77 words."""
    found = steps(CLIP, "prefill")
    assert found["attention"].q_len == found["positions"].vocab == 77
    assert steps(CLIP, "encode", {"images": 4})["vision/attention"].batch == 4


# --------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("name", "phase", "options", "said"),
    [
        (GEMMA, "prefill", {"images": True, "cached": True}, "images behind a cached prefix"),
        (GEMMA, "decode", {"images": True}, "images are of a prefill"),
        (GEMMA, "train", {"images": True}, "the images of a training step are not described: whether"),
        ("llama-4-scout-17b-16e-instruct", "prefill", {"images": True}, "'llama4' has no vision tower in its configuration"),
        ("llama-3-8b", "encode", {}, "'llama' has no encoder beside its layers"),
        (CLIP, "prefill", {"plan": Plan(tp=2)}, "'clip' has two towers"),
        (CLIP, "train", {}, "clip is trained by a loss over the pairs"),
    ],
)
def test_what_does_not_go_together(name, phase, options, said):
    """In a sentence."""
    with pytest.raises(UsageError, match=said):
        workload(name, phase, **options)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (GEMMA, {"image_size": 8}, "an image of 8 holds no patch of 14"),
        (GEMMA, {"image_size": 900 - 28 * 5}, "2916 patches cannot be pooled to 256 rows"),
        (QWEN25, {"num_heads": 5000}, "vision: 5000 heads are more than the hidden size has elements"),
        (QWEN3, {"hidden_size": 48, "num_heads": 16}, "vision: 3 rotated elements of a head must be even"),
        (QWEN25, {"spatial_merge_size": 2**20}, "squares of 14 x 1048576 pixels a side are larger than images are"),
        (KIMI, {"merge_kernel_size": [2, 3]}, "'merge_kernel_size' must be two equal whole numbers"),
        (KIMI, {"vt_num_hidden_layers": 10**6}, "1000000 layers; at most 2000"),
        (QWEN25, {"num_memory_heads": 3}, "'vision_config.num_memory_heads' may change the architecture"),
    ],
)
def test_towers_that_cannot_be(name, change, said, written):
    """Refused when the file is read."""
    config = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    with pytest.raises(InputError, match=said):
        load_model(written({**config, "vision_config": {**config["vision_config"], **change}}))


@pytest.mark.parametrize("name", [*WEIGHTS, CLIP])
def test_strange_values_are_errors_or_towers(name, written):
    """Any value anywhere in the keys of a tower: steps with the parameters that are counted, or an error for a person."""
    rng = random.Random(name)
    whole = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    for _ in range(10):
        seen = {**whole["vision_config"], rng.choice(list(whole["vision_config"])): rng.choice(STRANGE)}
        try:
            model, how, _ = load_model(written({**whole, "vision_config": seen}))
        except RooflineError:
            continue
        expansion = Expansion(model=model, phase="encode", how=how)
        found = read_workload(Source("w.yaml", workload_text(expansion, {})))
        assert analyze(found, None).totals.parameters == parameters_in(expansion)


def test_an_image_for_a_model_without_eyes(run):
    """Exit 2 with a sentence, by name."""
    result = run("import", "hf", str(CONFIGS / "llama-3-8b.json"), "--set", "images=2", code=2)
    assert "'llama' has no vision tower" in result.stderr


def test_a_search_does_not_forget_the_images(run, tmp_path):
    """A file's images are part of its job."""
    (tmp_path / "m.json").write_text((CONFIGS / f"{QWEN25}.json").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "w.yaml").write_text("schema: 1\nmodel: m.json\nphase: prefill\nparams: {images: 2}\n", encoding="utf-8")
    words = ("--cluster", "dgx-h100", "--devices", "8", "--set", "batch=8", "--format", "json")
    assert json.loads(run("search", str(tmp_path / "w.yaml"), *words).stdout)["job"]["images"] == 2


def test_from_a_workload_with_images_to_a_report(report, tmp_path):
    """A model in place of steps."""
    (tmp_path / "m.json").write_text((CONFIGS / f"{QWEN25}.json").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "w.yaml").write_text("schema: 1\nmodel: m.json\nphase: prefill\nparams: {images: 2, seq: 100}\n", encoding="utf-8")
    found = report("analyze", str(tmp_path / "w.yaml"), "-H", "h100-sxm")["totals"]
    assert found["parameters"] == 8_292_166_656
    assert found["bound"]["time_s"] > 0
