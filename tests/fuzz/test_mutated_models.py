"""Spoiled workloads with a model in place of steps: each is analysed or refused, and never ends in a traceback.

``ROOFLINE_FUZZ_SCALE`` tries others, and more, as for the other files.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from .mutations import mutated
from .test_mutated_files import examples, folder, survives, use_workload

__all__ = ["folder"]

SERVED = """\
schema: 1
name: a model, served
model: llama-3-8b
phase: decode
kv_dtype: fp8
page: 16
draft: 2
plan: {tp: 2, pp: 2, order: tp-cp-pp-dp}
cluster: dgx-h100
hardware: h100-sxm
params: {batch: 8, context: 1000}
expect: {total.memory.fits: true}
"""
TRAINED = """\
schema: 1
model: {model_type: mixtral, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 4, num_attention_heads: 8,
  num_key_value_heads: 4, num_local_experts: 8, num_experts_per_tok: 2, vocab_size: 1000}
phase: train
attention: naive
plan: "tp=2,dp=4,ep=4,sp,zero=1,recompute=full"
link: nvlink
gradient_dtype: fp32
dispatch_dtype: fp8
params: {global_batch: 8, seq: 64}
"""
ADAPTED = """\
schema: 1
model: qwen3-8b
phase: train
trainable: lora
lora_rank: 16
lora_targets: [qkv_proj, o_proj]
params: {batch: 2, seq: 128}
"""
MIXED = "schema: 1\nmodel: deepseek-v3\nphase: mixed\nparams: {chunk: 128, cached: 256, decode_batch: 4, context: 512}\n"


@pytest.mark.parametrize("text", [SERVED, TRAINED, ADAPTED, MIXED])
def test_each_is_sound_before_it_is_spoiled(text: str, folder: Path) -> None:
    (folder / "w.yaml").write_text(text, encoding="utf-8")
    use_workload(str(folder / "w.yaml"))


@given(data=mutated([SERVED, TRAINED, ADAPTED, MIXED]))
@examples(300)
def test_a_spoiled_model_is_analyzed_or_refused(folder: Path, data: bytes) -> None:
    survives(folder / "w.yaml", data, use_workload)
