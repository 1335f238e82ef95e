"""Every configuration in every phase under a plan: an answer or a refusal in words, and what of it follows from the model alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import InputError, UsageError
from roofline.models.tower_params import own_length
from roofline.plan.job import SIZES
from roofline.spec.find import find_model, model_names
from roofline.spec.model import load_model
from tests.models.conftest import CONFIGS

JOBS: dict[str, dict[str, int]] = {
    "train": {"batch": 16, "seq": 256},
    "prefill": {"batch": 16, "seq": 256},
    "decode": {"batch": 16, "context": 256},
    "mixed": {"batch": 16, "context": 256, "chunk": 64},
}
ALL = sorted({*map(find_model, model_names()), *(p for p in CONFIGS.glob("*.json") if "quant_config" not in p.name)})
VIT, BERT, CLIP = (CONFIGS / f"{name}.json" for name in ("vit-base-patch16-224-in21k", "bert-large", "clip-vit-large-patch14"))


def planned(config: Path, phase: str, sizes: dict[str, int], plan: str = "tp=1") -> Any:
    return roofline.plan_step(config, "dgx-h100", phase, sizes, plan=plan)


def refused(config: Path, phase: str, sizes: dict[str, int]) -> str | None:
    """Why no plan is judged; anything else that is raised is a fault of ours."""
    try:
        assert planned(config, phase, sizes).time.step_s > 0
    except (InputError, UsageError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("phase", SIZES)
def test_every_configuration_is_judged_or_refused_in_words(phase: str) -> None:
    """As memory does: a phase that a rank has no memory of has no time either, and the other way round."""
    answered = 0
    for config in ALL:
        try:
            model = load_model(str(config))[0]
        except InputError:
            continue
        sizes = {**JOBS[phase], **({} if phase in ("decode", "mixed") else own_length(model))}
        said = refused(config, phase, sizes)
        answered += said is None
        if said is None:
            assert roofline.memory(config, phase, sizes).needed_bytes > 0
        else:
            with pytest.raises((InputError, UsageError)) as error:
                roofline.memory(config, phase, sizes)
            assert str(error.value) == said
    assert answered > len(ALL) / 2


@pytest.mark.parametrize(
    ("name", "phase", "why"),
    [
        ("qwen3-next-80b-a3b", "mixed", "keep a state, not keys"),
        ("nemotron-3-nano-30b-a3b", "mixed", "keep a state, not keys"),
        ("bert-large", "mixed", "decodes nothing"),
        ("clip-vit-large-patch14", "prefill", "has two towers"),
        ("clip-vit-large-patch14", "train", "has two towers"),
    ],
)
def test_a_phase_that_a_model_lacks_is_refused_with_the_reason(name: str, phase: str, why: str) -> None:
    assert why in (refused(CONFIGS / f"{name}.json", phase, JOBS[phase]) or "")


def test_an_encoder_keeps_nothing_of_what_it_met_and_generates_nothing() -> None:
    found = planned(BERT, "prefill", {"batch": 8, "seq": 512})
    assert found.memory.parts_bytes["kv_cache"] == 0
    assert roofline.memory(BERT, "prefill", {"batch": 8, "seq": 512}).parts_bytes["kv_cache"] == 0
    assert found.rates.ttft_s is None
    assert "generates no tokens" in found.unavailable["ttft_s"]
    with pytest.raises(UsageError, match="keeps none"):
        roofline.memory(BERT, "prefill", {"batch": 8, "seq": 512}, kv_dtype="fp8_e4m3")


def test_the_patches_of_an_image_are_its_tokens_unsaid_and_nothing_else_is_taken() -> None:
    """224 / 16 = 14 a side: 196, and a class token."""
    unsaid, said = planned(VIT, "prefill", {"batch": 8}), planned(VIT, "prefill", {"batch": 8, "seq": 197})
    assert unsaid == said
    assert unsaid.job["seq"] == 14**2 + 1
    assert unsaid.rates.tokens_per_step == 8 * 197
    for ask in (lambda: planned(VIT, "prefill", {"batch": 8, "seq": 196}), lambda: roofline.memory(VIT, "train", {"batch": 8, "seq": 1})):
        with pytest.raises(UsageError, match="197 positions"):
            ask()
