"""What holds for all advice: Amdahl's law on the real path, bounds that nothing beats, gains that multiply, equal bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.decide.advise.advise import Asked, advise
from roofline.decide.advise.batch import of_batch
from roofline.decide.advise.effects import Outcome, advice_of, evaluated, state_of
from roofline.decide.advise.measured import Measured
from roofline.decide.advise.registry import changes
from roofline.decide.advise.rewrite import without
from roofline.decide.advise.situation import Batch, Situation
from roofline.predict.amdahl import Part, amdahl
from roofline.report.advice import Tried
from roofline.report.build import analyze
from roofline.report.store import to_json
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Workload
from tests.advise.conftest import change_of, step

BARE = replace(load_hardware("h200-sxm"), fitted={}, priors={})
FULL = load_hardware("h200-sxm")


@st.composite
def decoders(draw):
    """A few layers with naive attention, a residual and a norm, a gated or plain feed-forward, or one step of decoding."""
    heads, layers, batch, dim = (draw(st.sampled_from(s)) for s in ((1, 4, 12), (1, 2, 7), (1, 3, 16), (64, 128)))
    queries = draw(st.sampled_from((1, 65, 512)))
    keys = queries if queries > 1 else draw(st.sampled_from((128, 5000)))
    hidden, tokens = heads * dim, batch * queries
    how = {"implementation": "naive"} if queries > 1 else {"cache": True}
    steps = [
        step("norm", "rmsnorm", rows=tokens, cols=hidden, repeat=layers),
        step("qkv", "gemm", m=tokens, n=3 * hidden, k=hidden, repeat=layers),
        step("attention", "attention", batch=batch, heads=heads, q_len=queries, kv_len=keys, head_dim=dim, repeat=layers, **how),
        step("out", "gemm", m=tokens, n=hidden, k=hidden, repeat=layers),
        step("add", "elementwise", function="add", elements=tokens * hidden, repeat=layers),
        step("final", "rmsnorm", rows=tokens, cols=hidden),
        step("head", "gemm", m=batch, n=draw(st.sampled_from((1000, 50257))), k=hidden),
    ]
    return Workload(name="decoder", steps=tuple(steps), execution=draw(st.sampled_from(("eager", "graph", "compiled"))))


def outcomes(now: Situation, basis: str) -> list[Outcome]:
    """All changes that have a number."""
    state = state_of(now)
    return [o for c in changes(now) if not isinstance(o := evaluated(c, state, basis), Tried)]


@settings(max_examples=25, deadline=None)
@given(decoders())
def test_no_gain_beyond_amdahls_limit(workload):
    """A change of some steps cannot give more than the whole without them, nor less time than the bound of what it leaves alone."""
    now = Situation(workload=workload, hardware=BARE)
    for found in outcomes(now, "bound"):
        one = advice_of(found)
        left = analyze(replace(workload, steps=without(workload.steps, found.old)), BARE)
        assert one.bound is not None
        assert one.bound.after_s >= left.totals.bound.time_s * (1 - 1e-12)
        if one.bound.limit_speedup is not None:
            assert one.speedup <= one.bound.limit_speedup * (1 + 1e-12)
            assert one.bound.limit_speedup == pytest.approx(one.bound.before_s / left.totals.bound.time_s)


@settings(max_examples=8, deadline=None)
@given(decoders())
def test_no_estimate_below_that_of_what_is_left(workload):
    """The same by estimate, the host's time to issue what is left included."""
    for found in outcomes(Situation(workload=workload, hardware=FULL), "estimate"):
        one = advice_of(found)
        if one.estimate is not None and one.estimate.limit_speedup is not None:
            assert one.estimate.speedup <= one.estimate.limit_speedup * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(decoders())
def test_the_whole_gain_is_amdahls_of_the_local_one(workload):
    """Steps in order: the share of the changed steps and their own gain give the whole one, by the law alone."""
    now = Situation(workload=workload, hardware=BARE)
    for found in outcomes(now, "bound"):
        gain = found.gain
        if gain.local_speedup and gain.local_before_s:
            law = amdahl([Part(min(1.0, gain.local_before_s / gain.before_s), gain.local_speedup)])
            assert gain.speedup == pytest.approx(law.speedup)


@settings(max_examples=15, deadline=None)
@given(decoders())
def test_disjoint_changes_combine_as_amdahl_says(workload):
    """Two changes of different steps, one after the other: the time falls by what each saves."""
    now = Situation(workload=workload, hardware=BARE)
    first = next((o for o in outcomes(now, "bound") if o.change.key in ("flash", "kv-fp8")), None)
    second = next((o for o in outcomes(now, "bound") if o.change.key == "products-fp8"), None)
    assert first
    assert second
    assert not set(first.old) & set(second.old)
    both = evaluated(change_of(first.after.now, "products-fp8"), first.after, "bound")
    assert not isinstance(both, Tried)
    saved = sum(o.gain.before_s - o.gain.after_s for o in (first, second))
    assert both.gain.after_s == pytest.approx(first.gain.before_s - saved)


@settings(max_examples=8, deadline=None)
@given(decoders(), st.sampled_from(("estimate", "bound")))
def test_a_path_multiplies_and_gains_at_every_step(workload, by):
    """Each step at least ``least``; the product is the total, and the time that of the total where the work stays the same."""
    found = advise(Situation(workload=workload, hardware=FULL), Asked(by=by))
    total = 1.0
    for one in found.path:
        total *= one.speedup
        assert one.speedup >= found.least
        assert one.total_speedup == pytest.approx(total)
        assert found.time_s[by] / one.time_s == pytest.approx(total)
    assert list(found.advice) == sorted(found.advice, key=lambda a: (a.basis != by, -a.speedup))
    assert all(a.speedup >= found.least for a in found.advice)


@settings(max_examples=2, deadline=None)
@given(decoders())
def test_equal_input_gives_equal_bytes(workload):
    """Nothing depends on order in memory, time or host."""
    now = Situation(workload=workload, hardware=FULL)
    assert to_json(advise(now)) == to_json(advise(now))


def test_estimates_and_bounds_are_never_mixed():
    """A change without an estimate is ranked behind, by its bound, and is no step of the path."""
    sets = {name: s for name, s in FULL.fitted.items() if not name.startswith("attention")}
    only = replace(FULL, fitted=sets, priors={})
    naive = step("a", "attention", batch=4, heads=8, q_len=2048, kv_len=2048, head_dim=128, implementation="naive", repeat=9)
    found = advise(Situation(workload=Workload(name="w", steps=(naive,), execution="graph"), hardware=only))
    one = next(a for a in found.advice if a.key == "flash")
    assert (found.basis, one.basis, one.estimate) == ("estimate", "bound", None)
    assert "attention" in one.unavailable["estimate"]
    assert found.advice[0].basis == "estimate", "ranked before what has a bound alone, though that gains more"
    assert one.speedup > found.advice[0].speedup
    assert one.key not in [p.key for p in found.path]


def test_measured_times_follow_amdahl_on_measured_shares():
    """Attention takes 60 % of a measured second, whatever share of the estimate it has, and the rest is not touched."""
    naive = step("a", "attention", batch=1, heads=8, q_len=1024, kv_len=1024, head_dim=64, implementation="naive")
    workload = Workload(name="w", steps=(naive, step("g", "gemm", m=64, n=64, k=64)), execution="graph")
    measured = Measured(whole_s=1.0, steps_s={"a": 0.6, "g": 0.1})
    found = advise(Situation(workload=workload, hardware=FULL), measured=measured)
    one = next(a for a in found.advice if a.key == "flash")
    local = one.estimate.local_speedup
    assert one.measured.after_s == pytest.approx(0.4 + 0.6 / local)
    assert one.measured.limit_speedup == pytest.approx(1 / 0.4)
    assert found.coverage == pytest.approx(0.7)
    state = state_of(Situation(workload=workload, hardware=FULL), measured)
    after = evaluated(change_of(state.now, "flash"), state, "estimate").after.measured
    assert after.steps_s == pytest.approx({"a": 0.6 / local, "g": 0.1})
    assert one.speedup == one.measured.speedup


def test_a_workload_that_does_not_fit_is_first_made_to():
    """Recomputation is slower, and comes first where nothing runs without it."""
    both = {"direction": "forward+backward", "repeat": 120, "m": 2**16}
    functions = tuple(step(n, "elementwise", function="scale", elements=2**33) for n in ("one", "two"))
    steps = (step("up", "gemm", n=8192, k=2048, **both), step("down", "gemm", n=2048, k=8192, **both), *functions)
    found = advise(Situation(workload=Workload(name="w", steps=steps), hardware=BARE), Asked(least=1.001))
    assert (found.fits, found.advice[0].key, found.advice[0].fits) == (None, "recompute", None)
    assert "what its rows name and keep is" in found.unavailable["fits"]
    assert "what its rows" not in found.advice[0].unavailable["fits"]
    assert found.advice[0].speedup < 1
    assert found.advice[1].speedup > 1, "faster, and no help"


@pytest.mark.parametrize(
    ("repeat", "direction", "fits"), [(2, "forward", True), (2, "forward+backward", None), (9, "forward+backward", False)]
)
def test_a_training_step_is_never_said_to_fit(repeat, direction, fits):
    """Weights of 20 GB a layer, on 141 GB: nine of them do not fit, whatever else there is; of two nobody knows what else there is."""
    layer = step("up", "gemm", m=64, n=100_000, k=100_000, direction=direction, repeat=repeat)
    now = Situation(workload=Workload(name="w", steps=(layer,)), hardware=FULL)
    found = advise(now)
    assert found.fits is fits is state_of(now).report.totals.memory.fits
    assert ("fits" in found.unavailable) == (fits is None)
    assert all((a.fits is None) == ("fits" in a.unavailable) for a in found.advice)


def test_a_fused_workload_still_grows():
    """A batch after a fusion is the same as a fusion after a batch."""
    n = 2**20
    steps = (step("gelu", "elementwise", function="gelu", elements=n), step("mul", "elementwise", function="mul", elements=n))
    more = Batch(param="batch", size=1, fields={"gelu": ("elements",), "mul": ("elements",)})
    now = Situation(workload=Workload(name="w", steps=steps), hardware=FULL, batch=more)
    fused = change_of(now, "fuse-elementwise").result
    again = change_of(of_batch(now, 8), "fuse-elementwise").result
    assert of_batch(fused, 8).workload.steps == again.workload.steps
    assert of_batch(fused, 8).workload.steps != of_batch(fused, 4).workload.steps
