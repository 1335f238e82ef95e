"""Tokens beyond the positions learnt: by the tables of OPT and Whisper as published, at the first token too many, in every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.models.positions import beyond, learnt
from roofline.plan.job import Job
from roofline.spec.model import load_model
from tests.commands import report, run  # noqa: F401  (fixtures)

OPT = {
    "model_type": "opt", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 256, "vocab_size": 512,
    "max_position_embeddings": 2048, "word_embed_proj_dim": 64, "do_layer_norm_before": True, "torch_dtype": "float16",
}  # fmt: skip
WHISPER = {
    "model_type": "whisper", "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "vocab_size": 512, "num_mel_bins": 80,
    "max_source_positions": 1500, "max_target_positions": 448, "torch_dtype": "float16",
}  # fmt: skip
SIZES = ("--set", "batch=8", "--set", "context=2049")


def of(tmp_path: Path, config: dict[str, Any]) -> str:
    path = tmp_path / f"{config['model_type']}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("config", "most"), [(OPT, 2048), (WHISPER, 448)], ids=["opt", "whisper"])
@pytest.mark.parametrize(("phase", "size"), [("decode", "context"), ("prefill", "seq"), ("train", "seq"), ("mixed", "context")])
def test_the_last_position_is_one_and_the_next_is_none(tmp_path: Path, config: dict[str, Any], most: int, phase: str, size: str) -> None:
    """OPT's table has two rows more than it has positions (Zhang et al., arXiv 2205.01068; the offset of the published code)."""
    model = load_model(of(tmp_path, config))[0]
    assert learnt(model) == most
    assert beyond(model, Job(phase=phase, **{size: most})) == ()
    (said,) = beyond(model, Job(phase=phase, **{size: most + 1}))
    assert said.startswith(f"{size} {most + 1} goes beyond the {most} positions")


def test_a_source_has_the_positions_of_its_encoder(tmp_path: Path) -> None:
    model = load_model(of(tmp_path, WHISPER))[0]
    assert beyond(model, Job(phase="decode", context=448, source=1500)) == ()
    assert beyond(model, Job(phase="decode", context=448, source=1501))[0].startswith("source 1501 goes beyond the 1500 positions")


def test_rotated_positions_have_no_end() -> None:
    assert beyond(load_model("llama-3-8b")[0], Job(phase="decode", context=2**20)) == ()


def test_every_command_says_it(run: Any, tmp_path: Path) -> None:  # noqa: F811
    config, said = of(tmp_path, OPT), "context 2049 goes beyond the 2048 positions that opt has learnt"
    file = tmp_path / "served.yaml"
    file.write_text("schema: 1\nmodel: opt.json\nphase: decode\nhardware: h100-sxm\nparams: {batch: 8, context: 2049}\n", encoding="utf-8")
    on = ("--phase", "decode", *SIZES, "-C", "dgx-h100")
    for words in (("plan", config, *on), ("search", config, *on, "--devices", "2"), ("analyze", str(file))):
        assert f"warning W024: {said}" in run(*words, code=0).stderr
    for words in (("memory", config, *SIZES), ("memory", str(file)), ("import", "hf", config, "--phase", "decode", *SIZES)):
        assert f"warning: {said}" in run(*words, code=0).stderr
    assert "W024" not in run("analyze", str(file), "--set", "context=2048", code=0).stderr
