"""What each sort of change is worth, by a number worked by hand from the rates of the device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline.decide.advise.advise import Asked, advise
from roofline.decide.advise.combine import Wanted, refusal
from roofline.decide.advise.effects import evaluated, state_of
from roofline.decide.advise.memory import needed_bytes
from roofline.decide.advise.registry import changes
from roofline.decide.advise.situation import EXACTNESS, Batch
from roofline.decide.advise.workload_source import of_workload
from roofline.report.advice import Tried
from roofline.report.build import analyze
from roofline.spec.hardware import load_hardware
from roofline.spec.workload import load_workload
from tests.advise.conftest import BF16, HBM, LANES, change_of, outcome, step

N = 4096 * 4096
"""Elements of a tensor of 4096 tokens by 4096."""


def test_flash_for_naive(bounded):
    """1024 x 1024 scores of one head: naive moves them four times (2 B each) and Q, K, V, O; flash is left with 4 x 64 FLOP a score."""
    naive = step("attention", "attention", batch=1, heads=1, q_len=1024, kv_len=1024, head_dim=64, implementation="naive")
    gain = outcome(bounded(naive), "flash").gain
    assert gain.local_before_s == pytest.approx((4 * 2 * 1024**2 + 4 * 2 * 1024 * 64) / HBM)
    assert gain.local_after_s == pytest.approx(4 * 64 * 1024**2 / BF16)


def test_flash_takes_the_copies_of_the_naive_form_with_it(bounded):
    """Q laid together before it and the heads after it; a copy of another size stays."""
    naive = step("attention", "attention", batch=2, heads=4, q_len=256, kv_len=256, head_dim=64, implementation="naive")
    copies = [step(n, "elementwise", function="copy", elements=2 * 4 * 256 * 64) for n in ("query", "heads")]
    other = step("other", "elementwise", function="copy", elements=7)
    now = bounded(other, copies[0], naive, copies[1])
    found = change_of(now, "flash").result
    assert found is not None
    assert [s.id for s in found.workload.steps] == ["other", "attention"]
    assert found.settings is None, "no override takes a step out"


def test_a_mask_needs_the_kernel_that_takes_one(bounded):
    """Flash has none for a mask that is not causal."""
    naive = step("a", "attention", batch=1, heads=1, q_len=64, kv_len=64, head_dim=64, implementation="naive", mask=True)
    found = change_of(bounded(naive), "flash").result
    assert found is not None
    assert found.workload.steps[0].op.implementation == "efficient"


def test_flash_for_its_parts(bounded):
    """Two batches of products with a scale and a softmax between them: 6 passes over the scores go, Q, K, V, O stay."""
    parts = (
        step("qk", "batched_gemm", batch=16, m=2048, n=2048, k=128),
        step("scale", "elementwise", function="scale", elements=16 * 2048**2),
        step("softmax", "softmax", rows=16 * 2048, cols=2048),
        step("pv", "batched_gemm", batch=16, m=2048, n=128, k=2048),
    )
    found = outcome(bounded(*parts), "flash-parts")
    assert [s.id for s in found.after.now.workload.steps] == ["pv"]
    assert found.gain.after_s == pytest.approx(4 * 16 * 2048**2 * 128 / BF16)
    other = (parts[0], step("norm", "rmsnorm", rows=4, cols=4), *parts[2:])
    assert not [c for c in changes(bounded(*other)) if c.key == "flash-parts"]


def test_a_residual_in_the_norm_behind_it(bounded):
    """Five passes over the tokens become four, and the gain vector is read as before."""
    now = bounded(step("add", "elementwise", function="add", elements=N), step("norm", "rmsnorm", rows=4096, cols=4096))
    gain = outcome(now, "fuse-residual").gain
    assert gain.speedup == pytest.approx((5 * 2 * N + 8192) / (4 * 2 * N + 8192))


def test_a_residual_across_layers_saves_one_read_a_layer(bounded):
    """Each of three layers ends in an addition: two are the next layer's, one is the final norm's, the first norm has none."""
    layer = [
        step("norm", "rmsnorm", rows=4096, cols=4096, repeat=3),
        step("product", "gemm", m=4096, n=4096, k=4096, repeat=3),
        step("add", "elementwise", function="add", elements=N, repeat=3),
    ]
    now = bounded(*layer, step("final", "rmsnorm", rows=4096, cols=4096))
    found = outcome(now, "fuse-residual")
    assert [(s.id, s.repeat) for s in found.after.now.workload.steps] == [("norm_of_first", 1), ("norm", 2), ("product", 3), ("final", 1)]
    before, after = (s.report.totals for s in (found.before, found.after))
    assert before.bytes["hbm"] - after.bytes["hbm"] == 3 * 2 * N
    assert before.flop["vector"] == after.flop["vector"], "the same arithmetic"
    alone = bounded(*layer)
    assert not [c for c in changes(alone) if c.key == "fuse-residual"], "who reads the last sum is not known"


def test_elementwise_functions_in_one_pass(bounded):
    """Two passes of a read and a write each become one."""
    now = bounded(step("gelu", "elementwise", function="gelu", elements=N), step("scale", "elementwise", function="scale", elements=N))
    assert outcome(now, "fuse-elementwise").gain.speedup == pytest.approx(2)


def test_a_fused_function_reads_its_other_operand(bounded):
    """gelu (2 passes) and a product with another tensor (3) become one kernel that reads two and writes one."""
    now = bounded(step("gelu", "elementwise", function="gelu", elements=N), step("mul", "elementwise", function="mul", elements=N))
    assert outcome(now, "fuse-elementwise").gain.speedup == pytest.approx(5 / 3)


@pytest.mark.parametrize("first", ["add", "copy"])
def test_a_result_that_others_read_is_not_fused_away(bounded, first):
    """A residual sum is the next addition's operand, and a copy is made to be kept."""
    now = bounded(step("one", "elementwise", function=first, elements=N), step("two", "elementwise", function="gelu", elements=N))
    assert not [c for c in changes(now) if c.key == "fuse-elementwise"]


def test_one_kernel_for_a_rotary_embedding(estimated):
    """Fourteen kernels in eager torch, one of a compiler; the bound, which counts operands once, is the same."""
    now = estimated(step("rotary", "rotary", tokens=4096, heads=32, kv_heads=8, head_dim=128, positions=4096))
    found = outcome(now, "one-kernel", "estimate")
    kernels = [s.report.totals.estimate.kernels for s in (found.before, found.after)]
    assert kernels == [14, 1]
    assert found.gains["bound"].speedup == 1
    assert found.gain.speedup > 3


def test_an_activation_in_the_epilogue(bounded):
    """The product's result is not written and read once more; the arithmetic is the same."""
    now = bounded(step("up", "gemm", m=64, n=4096, k=64), step("gelu", "elementwise", function="gelu", elements=64 * 4096))
    found = outcome(now, "fuse-activation")
    gain = found.gain
    assert found.before.report.totals.flop == found.after.report.totals.flop
    product = 2 * (64 * 64 + 64 * 4096 + 64 * 4096)
    assert gain.speedup == pytest.approx((product + 2 * 2 * 64 * 4096) / product)


def test_a_loss_in_one_sweep(bounded):
    """(2 + 12) bytes a logit become 2; targets, losses and the pick of one value a token remain."""
    tokens, vocab = 8192, 128256
    gain = outcome(bounded(step("loss", "cross_entropy", tokens=tokens, vocab=vocab)), "fused-loss").gain
    assert gain.speedup == pytest.approx((14 * tokens * vocab + 16 * tokens) / (2 * tokens * vocab + 12 * tokens), rel=1e-4)


def test_a_graph_takes_away_the_host(estimated):
    """Small products that the host cannot issue fast enough: the time is the host's, then the device's alone."""
    now = estimated(step("product", "gemm", m=16, n=256, k=256, repeat=100), step("other", "gemm", m=16, n=256, k=256, repeat=100))
    found = outcome(now, "graph", "estimate")
    before, after = (s.report.totals.estimate for s in (found.before, found.after))
    assert before.time_s == pytest.approx(before.host_s, rel=0.02)
    assert (after.host_s, after.time_s) == (0, after.device_s)
    assert found.gains["bound"].speedup == 1


def test_a_batch_as_long_as_it_pays(bounded):
    """Weights of 134.2 MB are read in 28 us, in which 206 rows are multiplied: 256 rows pay, 512 only take twice as long."""
    product = step("product", "gemm", m=1, n=8192, k=8192)
    now = bounded(product, batch=Batch(param="batch", size=1, fields={"product": ("m",)}))
    found = outcome(now, "batch-256")
    assert found.gain.speedup == pytest.approx(256 * (2 * 8192**2 + 4 * 8192) / HBM / (2 * 256 * 8192**2 / BF16), rel=1e-9)
    assert found.after.now.work == 256
    reason = next(c for c in changes(bounded(product, without_batch="no param")) if c.rule == "batch").reason
    assert reason == "no param"


def test_a_batch_as_long_as_it_fits(bounded):
    """A cache of 68.7 GB at batch 1 leaves room for no second one of 141 GB with the weights of 10 GB."""
    kv = {"heads": 64, "kv_heads": 64, "q_len": 1, "kv_len": 2**21, "head_dim": 128, "cache": True}
    steps = (step("w", "gemm", m=1, n=50_000, k=100_000), step("a", "attention", batch=1, **kv))
    now = bounded(*steps, batch=Batch(param="batch", size=1, fields={"w": ("m",), "a": ("batch",)}))
    reason = next(c for c in changes(now) if c.rule == "batch").reason
    assert reason == "at 2 memory ends (batch 1)"


def test_weights_in_four_bits(bounded):
    """Half a byte a weight and 2 bytes for each 128 of them."""
    gain = outcome(bounded(step("p", "gemm", m=1, n=8192, k=8192)), "weights-int4").gain
    vectors = 2 * 8192 * 2
    assert gain.speedup == pytest.approx((2 * 8192**2 + vectors) / (8192**2 / 2 + 2 * 8192 * 64 + vectors))


def test_a_cache_in_eight_bits(bounded):
    """268.4 MB of keys and values become half; Q, O and the row sums stay."""
    kv = {"batch": 8, "heads": 32, "kv_heads": 8, "q_len": 1, "kv_len": 8192, "head_dim": 128}
    gain = outcome(bounded(step("a", "attention", cache=True, **kv)), "kv-fp8").gain
    cache, rest = 2 * 2 * 8 * 8 * 8192 * 128, 2 * 2 * 8 * 32 * 128 + 4 * 8 * 32
    assert gain.speedup == pytest.approx((cache + rest) / (cache / 2 + rest))
    assert not [c for c in changes(bounded(step("a", "attention", **kv))) if c.key == "kv-fp8"], "no cache"


@pytest.mark.parametrize(
    ("dtype", "key", "speedup"), [("bf16", "products-fp8", 1978.9 / 989.4), ("fp32", "tf32", 494.7 / 66.9), ("fp32", "bf16", 989.4 / 66.9)]
)
def test_products_in_fewer_bits(bounded, dtype, key, speedup):
    """A product bound by arithmetic gains the ratio of the rates."""
    assert outcome(bounded(step("p", "gemm", m=8192, n=8192, k=8192, dtype=dtype)), key).gain.speedup == pytest.approx(speedup)


def test_no_fewer_bits_while_training(bounded):
    """Formats are advised for inference alone."""
    both = step("p", "gemm", m=8192, n=8192, k=8192, direction="forward+backward")
    assert not [c for c in changes(bounded(both)) if c.rule in ("weight format", "KV format", "activation format")]


def test_a_padded_vocabulary(estimated):
    """50257 columns of 2 bytes start at odd places; 50304 do not, which is worth more than the 0.1 % of work that they add."""
    steps = (step("head", "gemm", m=4096, n=50257, k=1024), step("loss", "cross_entropy", tokens=4096, vocab=50257))
    found = outcome(estimated(*steps), "pad-nk-64", "estimate")
    assert [s.op.n if s.id == "head" else s.op.vocab for s in found.after.now.workload.steps] == [50304, 50304]
    assert found.gains["bound"].speedup < 1 < found.gain.speedup


MODEL = "{schema: 1, model: llama-3-8b, phase: decode, execution: eager, params: {batch: 300, context: 1024}}"


@pytest.mark.parametrize("batch", [300, 1000])
def test_a_padded_product_feeds_what_follows_as_before(batch, tmp_path, h200):
    """Rows beyond 300 make no activation read its halves in vectors: no other step gains, and neither does the whole."""
    (tmp_path / "w.yaml").write_text(MODEL, encoding="utf-8")
    given = (str(tmp_path / "w.yaml"), [f"batch={batch}"])
    now, _ = of_workload(*given, load_workload(*given), h200)
    padded = [evaluated(c, state_of(now), "estimate") for c in changes(now) if c.rule == "padding"]
    for found in padded:
        rows = [{r.id: r.estimate.time_s for r in s.report.rows if r.id not in found.new} for s in (found.before, found.after)]
        assert rows[0] == rows[1]
        assert set(found.new) == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj", "lm_head"}
        said = analyze(load_workload(given[0], found.after.now.settings), h200)
        assert said.totals.estimate == found.after.report.totals.estimate, "the command that is named runs what was judged"
    assert padded
    assert "padding" not in {a.rule for a in advise(now, Asked(least=1.0)).advice}


def test_padding_gains_where_it_is_made_or_not_at_all(estimated):
    """A multiple that makes the product itself no faster is not advised, whatever the whole seems to gain."""
    now = estimated(step("p", "gemm", m=4096, n=1032, k=1024), step("loss", "cross_entropy", tokens=4096, vocab=50257))
    found = outcome(now, "pad-nk-64", "estimate")
    assert found.gain.local_speedup <= 1
    told = replace(found, gains={"estimate": replace(found.gain, speedup=1.03)})
    wanted = Wanted(basis="estimate", least=1.02, allow=EXACTNESS[0])
    assert "take no less" in refusal(told, found.before, wanted)
    assert refusal(replace(told, change=replace(found.change, rule="fuse")), found.before, wanted) is None


def test_logits_of_the_last_position(bounded):
    """Two prompts of 2048 tokens: 2 rows of logits instead of 4096."""
    steps = (
        step("table", "embedding", tokens=4096, vocab=32000, hidden=1024),
        step("a", "attention", batch=2, heads=8, q_len=2048, kv_len=2048, head_dim=128),
        step("head", "gemm", m=4096, n=32000, k=1024),
    )
    gain = outcome(bounded(*steps), "last-logits").gain
    assert gain.local_before_s == pytest.approx(2 * 4096 * 32000 * 1024 / BF16)
    assert gain.local_after_s == pytest.approx(2 * (2 * 1024 + 1024 * 32000 + 2 * 32000) / HBM)


def test_recomputation_trades_memory_for_time(bounded):
    """Four layers of two products keep A1 + A2 each; then A1 each, and A1 + A2 of one layer. A forward pass is a third of the work."""
    both = {"direction": "forward+backward", "repeat": 4, "m": 8192}
    now = bounded(step("one", "gemm", n=8192, k=4096, **both), step("two", "gemm", n=4096, k=8192, **both))
    found = outcome(now, "recompute")
    a1, a2 = 2 * 8192 * 4096, 2 * 8192 * 8192
    assert needed_bytes(found.before.report) - needed_bytes(found.after.report) == 4 * (a1 + a2) - (4 * a1 + a1 + a2)
    assert found.gain.speedup == pytest.approx(3 / 4)
    assert analyze(found.after.now.workload, None).totals.parameters == 4 * 2 * 8192 * 4096, "no weights twice"


def test_recomputed_steps_keep_how_they_are_fed(estimated):
    """Gate and up as halves of one tensor cost an eager activation more; the copy of a step between them must not hide that."""
    both = {"direction": "forward+backward", "repeat": 4}
    now = estimated(step("up", "gemm", m=8192, n=8192, k=2048, **both), step("act", "swiglu", rows=8192, cols=4096, **both))
    found = outcome(now, "recompute", "estimate")
    rows = [s.report.row("act").estimate.time_s for s in (found.before, found.after)]
    assert rows[0] == rows[1]


def test_a_faster_link(bounded):
    """450 GB/s one way instead of 64."""
    now = bounded(step("p", "gemm", m=128, n=128, k=128), step("sum", "all_reduce", size=2**30, ranks=8, over="pcie"))
    gain = outcome(now, "link-pcie-nvlink").gain
    assert gain.local_speedup == pytest.approx(450 / 64)


def test_a_transfer_beside_the_step_behind_it(bounded):
    """One after the other it is the sum, beside each other the longer of the two behind the first."""
    steps = (
        step("one", "gemm", m=8192, n=8192, k=8192),
        step("sum", "all_reduce", size=2**28, ranks=8, over="nvlink"),
        step("two", "gemm", m=8192, n=8192, k=8192),
    )
    found = outcome(bounded(*steps), "overlap").gain
    product, link = 2 * 8192**3 / BF16, 2 * 2**28 * 7 / 8 / 450e9
    assert found.before_s == pytest.approx(2 * product + link)
    assert found.after_s == pytest.approx(product + max(product, link))


def test_another_device(bounded):
    """A vector addition gains the ratio of the memory bandwidths, 4.8 over 3.352 TB/s, and is no step of a path."""
    h100 = load_hardware("h100-sxm")
    now = bounded(step("add", "elementwise", function="add", elements=2**28))
    change = change_of(replace(now, others=(h100,)), "on-h100-sxm")
    found = evaluated(change, state_of(now), "bound")
    assert not isinstance(found, Tried)
    assert found.gain.speedup == pytest.approx(3.352 / 4.8)
    assert not change.combines


def test_every_change_says_what_it_does_to_results(bounded):
    """In one of the few words."""
    now = bounded(
        step("a", "attention", batch=1, heads=1, q_len=64, kv_len=64, head_dim=64, implementation="naive"),
        step("g", "gemm", m=1, n=8192, k=8192),
    )
    found = [c for c in changes(now) if c.result]
    assert {c.exactness for c in found} <= set(EXACTNESS)
    assert all(c.check for c in found if c.rule == "flash")


def test_rates_are_those_of_the_tests(bare):
    """Else all of the numbers above are of another device."""
    assert (bare.levels["hbm"].bandwidth.value, bare.tensor["bf16"].value, bare.vector["fp32"].value) == (HBM, BF16, LANES)
