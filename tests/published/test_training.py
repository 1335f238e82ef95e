"""Published figures on training, pipelines and experts come out of the code: parameters, model FLOP by rule, MFU, HFU, days, bubbles."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofline.decide.costs import matrix_rate
from roofline.decide.optimal import training_flop
from roofline.decide.utilisation import attention_flop, model_flop
from roofline.errors import Problem
from roofline.hardware.cluster import Cluster, Tier
from roofline.hardware.profile import Absent, Figure
from roofline.models.config import Config, Value
from roofline.models.count import all_weights, parameters
from roofline.models.description import Model
from roofline.models.families import describe
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.plan.links import Exchange, ExpertLinks, expert_links
from roofline.plan.pipeline import bubble_fraction
from roofline.plan.plan import Plan
from roofline.spec.hardware import load_hardware
from roofline.spec.model import load_model

FILE = Path(__file__).parent.parent / "data" / "published" / "training.yaml"
FACTS: dict[str, dict[str, Any]] = {fact["id"]: fact for fact in yaml.safe_load(FILE.read_text(encoding="utf-8"))["facts"]}
UNITS = {
    "%": 0.01,
    "billion": 1e9,
    "B": 1e9,
    "TFLOP/s/GPU": 1e12,
    "PFLOP/s": 1e15,
    "days": 86400.0,
    "GFLOP/token": 1e9,
    "us": 1e-6,
    "ms": 1e-3,
}


# --------------------------------------------------------------------------- models of the papers
def config_of(**keys: Any) -> Config:
    """A configuration as a file would give it."""

    def problem(message: str) -> Problem:
        return Problem("inline", 1, 1, message)

    return Config({name: Value(value, problem, problem) for name, value in keys.items()}, problem)


def gpt(given: dict[str, Any]) -> Model:
    """A GPT as Megatron trained it: learned positions as long as the sequence, a tied head."""
    sizes = {"n_embd": given["hidden"], "n_head": given.get("heads", 64), "n_layer": given["layers"]}
    return describe(config_of(model_type="gpt2", n_positions=given["seq"], vocab_size=given["vocab"], **sizes), "gpt").model


def llama(given: dict[str, Any], *, tied: bool = False) -> Model:
    """A Llama of the book's sizes."""
    ffn = given.get("ffn") or round(given["ffn_mult"] * given["hidden"])
    heads = given["heads"]
    sizes = {"hidden_size": given["hidden"], "num_attention_heads": heads, "num_key_value_heads": given.get("kv_heads", heads)}
    rest = {"num_hidden_layers": given["layers"], "intermediate_size": ffn, "head_dim": given["head_dim"], "vocab_size": given["vocab"]}
    return describe(config_of(model_type="llama", tie_word_embeddings=tied, rms_norm_eps=1e-5, **sizes, **rest), "llama").model


def count(model: Model) -> float:
    return parameters(model, list(all_weights(model))).total


def trained(given: dict[str, Any]) -> Job:
    return Job(phase="train", batch=given["batch"], seq=given["seq"])


# --------------------------------------------------------------------------- one function a kind of fact
def share_of_a_peak(given: dict[str, Any]) -> float:
    """The A100's 312 and the H100's 989 TFLOP/s are those of the profiles, unless the fact states one."""
    rate = given.get("rate") or given["tflops"] * 1e12
    name = "h100-sxm" if given["peak"] == 989 else "a100-sxm"
    peak = matrix_rate(load_hardware(name), "bf16")
    assert peak is not None
    assert peak.value == pytest.approx(given["peak"] * (1 if given["peak"] > 1e6 else 1e12), rel=1e-3)
    return rate / peak.value


def days(given: dict[str, Any]) -> float:
    """Four forward passes of everything, since all of it is computed again: 8 T P."""
    rate = given.get("rate") or given["tflops"] * 1e12
    return 4 * 2 * given["params"] * given["tokens"] / (given["gpus"] * rate)


def mfu(given: dict[str, Any]) -> float:
    peak = given.get("peak", 312e12)
    return scalar(model_flop(gpt(given), trained(given), "full")) / (given["gpus"] * peak * given["iter_s"])


def hfu(given: dict[str, Any]) -> float:
    """By the paper's equation 8, which adds attention's forward and backward pass (s / 6h) for what is computed again.

    What runs again is a third of that, its forward pass; the tool's own HFU counts so.
    """
    model, job = gpt(given), trained(given)
    full, products = (scalar(model_flop(model, job, rule)) for rule in ("full", "products"))
    return (full + (full - products)) / (given["gpus"] * given["peak"] * given["iter_s"])


def published_model(name: str) -> Callable[[dict[str, Any]], float]:
    """FLOP a token in training, attention causal."""

    def flop(given: dict[str, Any]) -> float:
        model, _, _ = load_model(name)
        return scalar(model_flop(model, Job(phase="train", batch=1, seq=given["seq"]), "causal")) / given["seq"]

    return flop


def palm(given: dict[str, Any]) -> float:
    """6 N and three times attention over all keys, which a model of PaLM's heads gives."""
    sizes = {
        "hidden": 18432,
        "heads": given["heads"],
        "head_dim": given["head_dim"],
        "layers": given["layers"],
        "ffn": 73728,
        "vocab": 256000,
    }
    attention = 3 * attention_flop(llama({**sizes, "kv_heads": 1}), given["seq"])
    return given["tokens_per_s"] * (6 * given["params"] + scalar(attention)) / (given["chips"] * given["peak"])


def experts(given: dict[str, Any]) -> ExpertLinks:
    """The paper's decoding step: 32 tokens to nine experts each, a copy of which all leave the device at 50 GB/s."""
    figure = Figure(given.get("bw", 50e9), "B/s", "derived", "fact")
    tier = Tier(name="infiniband", ranks=2, bandwidth=figure, latency=Absent("left out in the paper"), topology="switch")
    network = Cluster(name="paper", device=load_hardware("h100-sxm"), tiers=(tier,))
    sent = Exchange(tokens=32, copies=9, hidden=7000, dispatch_bytes=1, combine_bytes=2)
    return expert_links(sent, network, layers=given.get("layers", 61), halves=2)


COMPUTED: dict[str, Callable[[dict[str, Any]], float]] = {
    "megatron-params-*": lambda given: count(gpt(given)),
    "sb-params-18b": lambda given: count(llama(given, tied=True)),
    "sb-params-13b": lambda given: count(llama(given)),
    "megatron-peakpct-*": share_of_a_peak,
    "llama3-mfu-*": share_of_a_peak,
    "fa2-mfu72": share_of_a_peak,
    "megatron-agg-*": lambda given: given["tflops"] * 1e12 * given["gpus"],
    "megatron-days-*": days,
    "megatron-tab2-*": days,
    "megatron-bubble": lambda given: scalar(bubble_fraction(Plan(pp=given["p"], virtual=given["v"]), given["m"])),
    "kor-mfu-*": mfu,
    "kor-dp8-530b": mfu,
    "kor-hfu-*": hfu,
    "kor-throughput-*": lambda given: given["full_s"] / given["now_s"] - 1,
    "llama3-mesh-*": lambda given: scalar(Plan(**given).devices),
    "llama3-flops": lambda given: training_flop(given["params"], given["tokens"]),
    "sb-70b-total-flops": lambda given: training_flop(given["params"], given["tokens"]),
    "sb-70b-days": lambda given: given["flops"] / (given["chips"] * given["peak"] * given["mfu"]),
    "ds-train-flops-v3": published_model("deepseek-v3"),
    "ds-train-flops-405b": published_model("llama-3.1-405b"),
    "ds-v3-fp8-mfu": lambda given: training_flop(given["active_params"], given["tokens"]) / (given["gpu_hours"] * 3600 * given["peak"]),
    "ds-ep-comm": lambda given: experts(given).exchange_s,
    "ds-ep-tpot": lambda given: experts(given).token_s,
    "ds-ep-tps": lambda given: experts(given).tokens_per_s_per_user or 0.0,
    "palm-mfu": palm,
    "fa2-tab1-*": lambda given: given["peak_flops"],
}


def computed(fact: dict[str, Any]) -> float:
    (function,) = [f for pattern, f in COMPUTED.items() if fnmatchcase(fact["id"], pattern)]
    return function(fact["inputs"]) / UNITS.get(fact["unit"], 1.0)


def allowed(fact: dict[str, Any]) -> float:
    return float(fact["tolerance"].get("abs", 0) + fact["tolerance"].get("rel", 0) * fact["expected"])


EXACT = [name for name, fact in FACTS.items() if fact["check"] == "equals"]


@pytest.mark.parametrize("name", EXACT)
def test_the_published_figure_comes_out(name: str) -> None:
    fact = FACTS[name]
    assert abs(computed(fact) - fact["expected"]) <= allowed(fact) * (1 + 1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_the_code_agrees_with_the_formula_stated_beside_the_figure(name: str) -> None:
    """Within what rounding of its inputs and value makes."""
    assert computed(FACTS[name]) == pytest.approx(FACTS[name]["computed"], rel=0.01)


@pytest.mark.parametrize("name", [n for n, fact in FACTS.items() if fact["check"] == "upper_bound_rate"])
def test_no_published_rate_beats_the_peak(name: str) -> None:
    fact = FACTS[name]
    low, high = fact["tolerance"]["efficiency"]
    assert 0 < low <= fact["expected"] / computed(fact) <= high < 1


def test_every_fact_is_reproduced_and_every_function_is_used() -> None:
    assert {fact["topic"] for fact in FACTS.values()} == {"training", "pipeline", "moe"}
    used = {name: [p for p in COMPUTED if fnmatchcase(name, p)] for name in FACTS}
    assert all(len(patterns) == 1 for patterns in used.values())
    assert {p for patterns in used.values() for p in patterns} == set(COMPUTED)


def test_mfu_and_hfu_of_korthikanti_lie_within_0_3_points() -> None:
    """The goal of the project, whatever the tolerances of the file say."""
    for name in FACTS:
        if name.startswith(("kor-mfu", "kor-hfu")):
            assert abs(computed(FACTS[name]) - FACTS[name]["expected"]) <= 0.3


def test_the_copied_row_of_llama_3_is_refused() -> None:
    """One copy of the paper's table has DP 4 in the row of 128K tokens: 8,192 devices, half of what it says."""
    assert scalar(Plan(tp=8, cp=16, pp=16, dp=4).devices) == 8192
