"""Story 9: which layout trains Llama-3.1-405B, what a step takes at a reached rate, its bubble, and the plan whose product is wrong.

The story counts 6 N D with the input embedding in N, and half of attention on top: 12.1 s at 430 TFLOP/s. A lookup multiplies nothing, so
that the tool's causal model FLOP are half a percent below, 12.0 s; its rule ``six_nd`` has the story's 11.6 s without attention.
"""

from __future__ import annotations

from typing import Any

import pytest

JOB = ("plan", "llama-3.1-405b", "--phase", "train", "-C", "dgx-h100", "--set", "batch=2048", "--set", "seq=8192")
MESH = "tp=8,pp=16,dp=64,uneven,zero=1"
STORY = (*JOB, "--devices", "8192", "--plan", MESH)


@pytest.fixture
def reached(report: Any) -> Any:
    """At 430 TFLOP/s a device, gradients in fp32."""
    return report(*STORY, "--achieved", "430 TFLOP/s", "--gradient-dtype", "fp32")


def test_the_mesh_is_8192_devices_and_16_million_tokens(reached: Any) -> None:
    assert reached["devices"] == 8192
    assert reached["rates"]["tokens_per_step"] == 2048 * 8192 == 16 * 2**20
    assert reached["schedule"]["stage_layers"] == [7, *[8] * 14, 7]


def test_a_step_takes_12_1_s_and_11_6_without_attention(reached: Any) -> None:
    assert reached["time"]["step_s"] == pytest.approx(12.1, rel=1e-2)
    flop = reached["utilisation"]["model_flop"]
    assert flop["six_nd"] / (8192 * 430e12) == pytest.approx(11.6, abs=0.05)
    assert flop["six_nd"] == pytest.approx(6 * 405.85e9 * 2048 * 8192, rel=1e-3)


def test_mfu_is_43_5_percent(reached: Any) -> None:
    assert reached["utilisation"]["mfu"]["causal"] == pytest.approx(0.435, abs=1e-3)
    assert reached["time"]["kind"] == "rate"
    assert reached["time"]["parts_s"] == {}
    assert reached["utilisation"]["hfu"] is None
    assert "stated rate" in reached["unavailable"]["hfu"]


def test_a_device_holds_6_3_gb_of_weights_0_6_of_states_and_12_7_of_fp32_gradients(reached: Any) -> None:
    parts = reached["memory"]["parts_bytes"]
    assert parts["weights"] == pytest.approx(6.3e9, rel=2e-2)
    assert parts["optimizer"] == pytest.approx(0.6e9, rel=1e-2)
    assert parts["gradients"] == pytest.approx(12.7e9, rel=1e-2)


def test_the_bubble_is_47_percent_and_with_eight_chunks_5_9(reached: Any, report: Any) -> None:
    assert reached["schedule"]["microbatches"] == 32
    assert reached["schedule"]["bubble_fraction"] == pytest.approx(0.47, abs=0.005)
    chunked = report(*JOB, "--devices", "8192", "--plan", f"{MESH},virtual=8")
    assert chunked["schedule"]["bubble_fraction"] == pytest.approx(0.059, abs=0.0005)
    assert chunked["degrees"]["schedule"] == "interleaved"


def test_the_copied_row_with_dp_4_is_refused_with_its_product(run: Any) -> None:
    said = run(*JOB, "--devices", "16384", "--plan", "tp=8,cp=16,pp=16,dp=4,uneven", code=2)
    assert said.stdout == ""
    first, text, caret = said.stderr.splitlines()
    assert first == "--plan:1:1: tp 8 x cp 16 x pp 16 x dp 4 is 8,192 devices, not 16,384; dp=8 would use them all"
    assert text.strip() == "tp=8,cp=16,pp=16,dp=4,uneven"
    assert caret.strip() == "^"


def test_126_layers_over_16_stages_need_the_word_that_llama_3_used(run: Any) -> None:
    said = run(*JOB, "--devices", "8192", "--plan", "tp=8,pp=16,dp=64,zero=1", code=2).stderr
    assert "--plan:1:9: 126 layers do not divide by pp 16 = 16; 'uneven' lets the first and last hold 2 fewer together" in said


def test_the_first_line_answers(run: Any) -> None:
    first = run(*STORY).stdout.splitlines()[0]
    assert first.startswith("llama-3.1-405b on 8,192 x h100-sxm: step at least ")
    assert "; MFU at most " in first
    assert "; DOES NOT FIT, " in first
    assert first.endswith("compute (tensor) binds 56.2 %, next bubble.")
