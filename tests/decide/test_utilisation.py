"""Model FLOP by rule: by hand, beside closed forms of the literature, and the batch from which matrix units need longer than memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.decide.utilisation import RULES, attention_flop, leaves_memory_roof, model_flop
from roofline.models.description import Attention, Layer, Mlp
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.spec.model import load_model
from tests.decide.models import DENSE, model

HIDDEN, HEADS, KEYS, WIDTH, FEED, VOCAB, LAYERS = 1024, 16, 4, 64, 4096, 32000, 8
PRODUCTS = LAYERS * (HIDDEN * (HEADS + 2 * KEYS) * WIDTH + HEADS * WIDTH * HIDDEN + 3 * HIDDEN * FEED) + VOCAB * HIDDEN
NORMS = (2 * LAYERS + 1) * HIDDEN


def flop(rule: str, **job: object) -> float:
    return scalar(model_flop(model(), Job(**{"phase": "train", "batch": 2, "seq": 128, "context": 512, **job}), rule))  # type: ignore[arg-type]


def test_training_by_hand() -> None:
    """6 FLOP a weight of the products, 12 L H d s a token for full attention, half of it (and a little) for causal."""
    tokens = 2 * 128
    assert flop("products") == 6 * PRODUCTS * tokens
    assert flop("full") == (6 * PRODUCTS + 12 * LAYERS * HEADS * WIDTH * 128) * tokens
    assert flop("causal") == (6 * PRODUCTS + 12 * LAYERS * HEADS * WIDTH * 129 / 2) * tokens
    assert flop("six_nd") == 6 * (PRODUCTS + VOCAB * HIDDEN + NORMS) * tokens


def test_serving_by_hand() -> None:
    """Decode meets its whole context; a prefill, and the chunk of a mixed step, multiply the head with the last token of each sequence."""
    attention = 4 * LAYERS * HEADS * WIDTH
    assert flop("causal", phase="decode") == flop("full", phase="decode") == (2 * PRODUCTS + attention * 512) * 2
    head = 2 * VOCAB * HIDDEN
    assert flop("full", phase="prefill") == (2 * PRODUCTS + attention * 128) * 256 - head * (256 - 2)
    assert flop("products", phase="decode") == 2 * PRODUCTS * 2
    assert flop("six_nd", phase="decode") == 2 * (PRODUCTS + VOCAB * HIDDEN + NORMS) * 2
    mixed = flop("causal", phase="mixed", chunk=64)
    assert mixed == (2 * PRODUCTS + attention * 512) * 2 + (2 * PRODUCTS + attention * 65 / 2) * 64 - head * 63


def test_a_cached_prefix_is_met_as_keys_and_computed_by_nobody() -> None:
    """Of prompts of 128 tokens 96 are there: 32 queries meet 96 + 33 / 2 keys under a causal mask and 128 under none."""
    attention, head = 4 * LAYERS * HEADS * WIDTH, 2 * VOCAB * HIDDEN
    words = {"phase": "prefill", "cached": 96}
    assert flop("causal", **words) == (2 * PRODUCTS + attention * (96 + 33 / 2)) * 64 - head * (64 - 2)
    assert flop("full", **words) == (2 * PRODUCTS + attention * 128) * 64 - head * (64 - 2)
    assert flop("six_nd", **words) == 2 * (PRODUCTS + VOCAB * HIDDEN + NORMS) * 64
    chunk = flop("causal", phase="mixed", chunk=64, cached=100) - flop("causal", phase="mixed", chunk=64)
    assert chunk == attention * 100 * 64
    assert flop("causal", phase="prefill") == flop("causal", **words) + flop("causal", phase="prefill", seq=96) - head * 2


def test_guessed_tokens_are_as_many_more() -> None:
    """Three guesses: four queries a sequence, which meet 512 - 3 / 2 keys in the mean."""
    attention = 4 * LAYERS * HEADS * WIDTH
    assert flop("causal", phase="decode", draft=3) == (2 * PRODUCTS + attention * (512 - 3 / 2)) * 8


@pytest.mark.parametrize(("name", "layers", "hidden"), [("gpt-22b", 48, 6144), ("gpt3-175b", 96, 12288), ("gpt-1t", 128, 25600)])
def test_megatrons_closed_form(name: str, layers: int, hidden: int) -> None:
    """72 B L s h^2 (1 + s / 6h + V / 12 h L), Narayanan et al. 2021, for models of which it speaks."""
    seq, vocab, batch = 2048, 51200, 4
    said = 72 * batch * layers * seq * hidden**2 * (1 + seq / (6 * hidden) + vocab / (12 * hidden * layers))
    found = model_flop(load_model(name)[0], Job(phase="train", batch=batch, seq=seq), "full")
    assert found == pytest.approx(said, rel=1e-12)


def test_windows_bound_the_keys_and_half_keys_lie_between() -> None:
    window = Layer(mixer=Attention(heads=2, kv_heads=2, head_dim=8, v_head_dim=8, window=4), feed=Mlp(width=8))
    small = model((window,))
    assert [attention_flop(small, keys) for keys in (3, 4, 5, 100)] == [64 * 3, 64 * 4, 64 * 4, 64 * 4]
    assert attention_flop(small, 3.5) == 64 * 3.5


def test_an_encoder_meets_all_keys_under_any_rule() -> None:
    encoder = replace(model(), kind="encoder")
    job = Job(phase="train", batch=1, seq=64)
    assert model_flop(encoder, job, "causal") == model_flop(encoder, job, "full")


@given(seq=st.integers(1, 4096), batch=st.integers(1, 64))
def test_the_rules_are_ordered(seq: int, batch: int) -> None:
    by = {rule: flop(rule, seq=seq, batch=batch) for rule in RULES}
    assert by["products"] < by["causal"] <= by["full"]
    assert by["products"] < by["six_nd"]


# --------------------------------------------------------------------------- leaving the memory roof
@given(weights=st.floats(1, 1e4), each=st.floats(0, 1), matrix=st.floats(0.01, 10))
def test_the_batch_is_the_first_of_all_batches(weights: float, each: float, matrix: float) -> None:
    """Memory needs weights + b x each, matrix units b x matrix: found by halving, beside looking at every batch."""

    def seconds(batch: int) -> tuple[float, float]:
        return batch * matrix, weights + batch * each

    found = leaves_memory_roof(seconds, most=4096)
    looked = next((b for b in range(1, 4097) if seconds(b)[0] >= seconds(b)[1]), None)
    assert found == looked


def test_sorts_of_layers_are_counted_each() -> None:
    job = Job(phase="train", batch=1, seq=16)
    assert model_flop(model((DENSE, DENSE)), job, "products") > model_flop(model((DENSE,)), job, "products")
