"""Published configurations give the published counts: exact where golden.json has an integer, else to the publisher's digits.

Every entry of golden.json is here, and none passes for being absent. Deviations, all explained in its notes:
- DeepSeek-V4 is refused: its compressed attention and hyper-connections are not described here.
- gpt-oss-20b's active parameters leave out the input embedding, the publisher's convention, which is a key of its own.
- Llama 4 Scout and Maverick have no vision_config in two of the files, so that the text tower alone is counted.
"""

from __future__ import annotations

import json

import pytest

from roofline.errors import InputError
from roofline.models.count import Summary, summary
from roofline.spec.model import load_model
from tests.models.conftest import CONFIGS

GOLDEN = json.loads((CONFIGS / "golden.json").read_text(encoding="utf-8"))
REFUSED = ("deepseek-v4-flash", "deepseek-v4-pro")
EXACT = [name for name, entry in GOLDEN.items() if "total_params" in entry]
CLOSED_FORM = {
    "llama-4-scout-17b-16e-instruct": (107_769_861_120, 17_172_894_720),
    "llama-4-maverick-17b-128e-instruct": (400_711_848_960, 17_184_691_200),
}
"""Text towers, from the notes of golden.json."""

ROUNDED = {
    "llama-4-scout-fp8-dynamic": (109, 17, 1e9),
    "deepseek-v3.2": (671, None, 1e9),
    "qwen3-next-80b-a3b": (80, 3, 1e9),
    "qwen3-vl-8b-instruct": (8, None, 1e9),
    "qwen3-vl-30b-a3b-instruct": (30, 3, 1e9),
    "qwen2.5-vl-7b-instruct": (7, None, 1e9),
    "kimi-k2.5": (1, 32, 1e12),
    "nemotron-3-nano-30b-a3b": (30, 3, 1e9),
    "nemotron-super-49b-v1": (49, None, 1e9),
}
"""Total and active as in the name or on the card, in billions (the total of Kimi in trillions)."""

UNCHECKED = {"glm-5": 743_911_218_432, "minimax-m2.5": 228_689_764_864, "mimo-v2-flash": 308_778_780_864}
"""No count is published beside the file: held as they come out, so that a change is seen: no independent count."""


def numbers(name: str) -> Summary:
    """A published configuration in numbers."""
    model, how, ignored = load_model(str(CONFIGS / f"{name}.json"))
    return summary(model, how, ignored=ignored)


def test_every_entry_is_tested():
    """By one of the tables here."""
    assert set(GOLDEN) == {*REFUSED, *EXACT, *CLOSED_FORM, *ROUNDED, *UNCHECKED}
    assert len(EXACT) == 31


@pytest.mark.parametrize("name", EXACT)
def test_total_is_the_published_integer(name):
    """Grades A, A* and B with a closed form."""
    assert numbers(name).parameters.total == GOLDEN[name]["total_params"]


@pytest.mark.parametrize("name", [n for n in EXACT if "active_params" in GOLDEN[n]])
def test_active_is_the_published_integer(name):
    """Under the convention that the publisher uses."""
    found = numbers(name).parameters
    without = "NOT counted" in GOLDEN[name]["active_note"]
    assert (found.active_without_embedding if without else found.active) == GOLDEN[name]["active_params"]


@pytest.mark.parametrize("name", CLOSED_FORM)
def test_text_towers_by_closed_form(name):
    """Grade B without a vision tower in the file."""
    found = numbers(name).parameters
    assert (found.total, found.active) == CLOSED_FORM[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_rounds_to_what_is_stated(name):
    """Names cut or round: within 3 %, or 1.6 billion, as far as 31.6 is from 30B and 8.29 from 7B."""
    total, active, unit = ROUNDED[name]
    found = numbers(name).parameters
    assert found.total / unit == pytest.approx(total, rel=0.03, abs=1.6)
    if active is not None:
        text = found.active_without_embedding - found.by_part.get("vision", 0)
        assert text / 1e9 == pytest.approx(active, abs=1.0)


@pytest.mark.parametrize("name", UNCHECKED)
def test_what_nobody_publishes_stays(name):
    """A change of these numbers is meant, or a mistake."""
    assert numbers(name).parameters.total == UNCHECKED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_for_a_stated_reason(name):
    """By the name of the architecture and by each key that makes it another, all at their places."""
    with pytest.raises(InputError, match=r"json:21:17: architecture 'deepseek_v4' is not supported; it differs") as found:
        numbers(name)
    text = "\n".join(str(problem) for problem in found.value.problems)
    for key in ("compress_ratios", "hc_mult", "o_groups", "num_hash_layers"):
        assert f"'{key}' changes the architecture and is not supported" in text


@pytest.mark.parametrize("name", [n for n in GOLDEN if n not in REFUSED])
def test_parts_add_up(name):
    """To the total; and bytes by format to all bytes."""
    found = numbers(name)
    assert sum(found.parameters.by_part.values()) == found.parameters.total
    assert sum(found.weight_bytes_by_dtype.values()) == found.weight_bytes
    assert found.parameters.active <= found.parameters.total


def test_further_tokens_are_apart():
    """DeepSeek-V3: one module of a sparse layer, a product of 2 h x h and three norms, stated as 11.5 billion, is not in 671."""
    found = numbers("deepseek-v3").parameters
    layer = 187_107_328 + 257 * 3 * 7168 * 2048 + 7168 * 256 + 256 + 2 * 7168
    assert found.mtp == layer + 2 * 7168 * 7168 + 3 * 7168
    assert found.mtp / 1e9 == pytest.approx(11.5, abs=0.15)
