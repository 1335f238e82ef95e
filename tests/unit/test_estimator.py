"""Estimates of kernels and steps: which parameters serve, how wide the band is, and how a report composes them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.hardware.profile import Absent, Hardware
from roofline.ops.base import Op
from roofline.ops.elementwise import Elementwise
from roofline.ops.gemm import Gemm
from roofline.ops.launched import FusedAttention, Product, Stream, Transfer
from roofline.ops.memory import Copy
from roofline.predict.estimate.catalog import MODELS, model_named
from roofline.predict.estimate.estimator import FOREIGN_WIDENING, RELATED_WIDENING, Estimator, KernelEstimate, NoParameters
from roofline.report.build import analyze
from roofline.report.estimated import execution_of
from roofline.report.model import EstimateResult, MeasuredResult, Measurements, Report
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step, Workload
from tests.estimates import HOST, SETS, estimating, host, parameters

PROFILE = load_hardware("h100-sxm")
HBM = PROFILE.levels["hbm"].bandwidth.value  # type: ignore[union-attr]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Hardware:
    """An H100 with plain parameters."""
    return estimating(PROFILE, monkeypatch)


def stream(megabytes: float, calls: int = 1) -> Stream:
    """A kernel that reads and writes as much together."""
    return Stream(kind="copy", rows=1, cols=1, read_bytes=megabytes * 5e5, write_bytes=megabytes * 5e5, dtype="bf16", calls=calls)


def launching(monkeypatch: pytest.MonkeyPatch, *kernels: Stream | Product) -> Op:
    """An operator of these kernels, with hardly any work by its own count."""
    monkeypatch.setattr(Elementwise, "launched", lambda self, execution: kernels)
    return Elementwise(function="relu", elements=8, dtype="bf16")


def steps(*ops: Op, **changes: object) -> Workload:
    """A workload of these operators, each once."""
    return Workload(name="w", steps=tuple(Step(id=f"s{i}", op=op) for i, op in enumerate(ops)), **changes)  # type: ignore[arg-type]


def total(report: Report) -> EstimateResult:
    assert report.totals.estimate is not None, report.totals.unavailable
    return report.totals.estimate


def row(report: Report, at: int = 0) -> EstimateResult:
    found = report.rows[at].estimate
    assert found is not None, report.rows[at].unavailable
    return found


class TestKernel:
    def test_time_terms_and_band_by_hand(self, device: Hardware) -> None:
        """100 MB at 0.8 of 3.352 TB/s are 37.3 us, and 2 us fixed; memory decides, whose band is 0.9 to 1.2."""
        found = Estimator(device, "graph").kernel(stream(100))
        expected = 2e-6 + 1e8 / (0.8 * HBM)
        assert found.time_s == pytest.approx(expected)
        assert (found.low_s, found.high_s) == (pytest.approx(0.9 * expected), pytest.approx(1.2 * expected))
        assert found.terms == {"fixed": 2e-6, "memory": pytest.approx(expected - 2e-6), "compute": 0.0}
        assert found.regime == "memory"
        assert (found.parameters.name, found.prior) == ("stream.torch", False)

    def test_calls_multiply_time_and_terms(self, device: Hardware) -> None:
        one, three = (Estimator(device, "graph").kernel(stream(1, calls)) for calls in (1, 3))
        assert three.time_s == pytest.approx(3 * one.time_s)
        assert three.terms == {name: pytest.approx(3 * part) for name, part in one.terms.items()}
        assert three.regime == one.regime == "launch"

    def test_the_band_follows_the_regime(self, device: Hardware) -> None:
        found = Estimator(device, "graph").kernel(stream(0.01))
        assert (found.low_s / found.time_s, found.high_s / found.time_s) == (pytest.approx(0.8), pytest.approx(1.25))

    def test_arrays_give_what_scalars_give(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        """The plain model takes scalars only; this one is the same with `numeric`."""

        class Many(type(MODELS["Stream"])):  # type: ignore[misc]
            def terms(self, kernel, device, p):  # type: ignore[no-untyped-def]
                from roofline.predict.estimate.base import Terms

                memory = (kernel.read_bytes + kernel.write_bytes) / device.hbm_bytes_per_s
                compute = kernel.flop / 1e12
                return Terms(p["fixed_s"] + memory + compute, {"fixed": p["fixed_s"], "memory": memory, "compute": compute})

        monkeypatch.setitem(MODELS, "Stream", Many("stream"))
        sizes, flop = np.array([1e3, 1e8, 1e3]), np.array([0.0, 0.0, 1e9])
        base = stream(0)
        many = Estimator(device, "graph").kernel(replace(base, read_bytes=sizes, flop=flop))
        for i, regime in enumerate(("launch", "memory", "compute")):
            one = Estimator(device, "graph").kernel(replace(base, read_bytes=float(sizes[i]), flop=float(flop[i])))
            assert one.regime == regime == many.regime[i]
            assert (one.time_s, one.low_s, one.high_s) == (many.time_s[i], many.low_s[i], many.high_s[i])  # type: ignore[index]


class TestChoice:
    @pytest.mark.parametrize(
        ("architecture", "power"), [("hopper", RELATED_WIDENING), ("ampere", FOREIGN_WIDENING), (None, FOREIGN_WIDENING)]
    )
    def test_a_set_of_another_device_is_a_prior_with_a_wider_band(self, device: Hardware, architecture: str, power: float) -> None:
        """The wider, the less alike they are: 1 < 1.5 for one architecture < 4 for another, in the logarithm."""
        own = Estimator(device, "graph").kernel(stream(100))
        elsewhere = replace(parameters("stream.torch", "other"), architecture=architecture, product="another")
        found = Estimator(replace(device, fitted={}, priors={"stream.torch": elsewhere}), "graph").kernel(stream(100))
        assert found.prior
        assert found.time_s == own.time_s
        assert (found.low_s / found.time_s, found.high_s / found.time_s) == (pytest.approx(0.9**power), pytest.approx(1.2**power))
        assert 1 < RELATED_WIDENING < FOREIGN_WIDENING

    def test_a_set_of_another_profile_of_the_same_product_is_its_own(self, device: Hardware) -> None:
        """A calibrated profile extends that of its product, and is the same device."""
        same = replace(parameters("stream.torch", "h100-sxm-mine"), product=device.product, architecture="hopper")
        found = Estimator(replace(device, fitted={}, priors={"stream.torch": same}), "graph").kernel(stream(100))
        assert not found.prior
        assert (found.low_s / found.time_s, found.high_s / found.time_s) == (pytest.approx(0.9), pytest.approx(1.2))

    def test_the_own_set_precedes_the_prior_of_the_same_name(self, device: Hardware) -> None:
        prior = {"stream.torch": parameters("stream.torch", "a100-sxm", efficiency=0.4)}
        assert not Estimator(replace(device, priors=prior), "graph").kernel(stream(100)).prior

    @pytest.mark.parametrize(("architecture", "expected"), [("hopper", "stream.copy"), ("ampere", "stream.torch")])
    def test_a_better_name_precedes_a_worse_own_one_within_an_architecture(
        self, device: Hardware, monkeypatch: pytest.MonkeyPatch, architecture: str, expected: str
    ) -> None:
        """Another architecture runs other code under the same name."""
        monkeypatch.setattr(type(MODELS["Stream"]), "sets", lambda self, kernel, library: ("stream.copy", "stream.torch"))
        prior = {"stream.copy": replace(parameters("stream.copy", "other", efficiency=0.4), architecture=architecture)}
        assert Estimator(replace(device, priors=prior), "graph").kernel(stream(100)).parameters.name == expected

    def test_of_other_architectures_the_first_prior_serves(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever the name: a profile names the more alike first."""
        monkeypatch.setattr(type(MODELS["Stream"]), "sets", lambda self, kernel, library: ("stream.copy", "stream.torch"))
        priors = {"stream.torch": parameters("stream.torch", "a100-sxm"), "stream.copy": parameters("stream.copy", "b200-sxm")}
        found = Estimator(replace(device, fitted={}, priors=priors), "graph").kernel(stream(100))
        assert found.parameters.device == "a100-sxm"

    @pytest.mark.parametrize(
        ("own", "expected"),
        [
            (("stream.worse", "stream.better"), ("stream.better", "h100-sxm")),
            (("stream.worse",), ("stream.worse", "h100-sxm")),
            ((), ("stream.worse", "a100-sxm")),
        ],
    )
    def test_hardware_may_decide_before_the_name(
        self, device: Hardware, monkeypatch: pytest.MonkeyPatch, own: tuple[str, ...], expected: tuple[str, str]
    ) -> None:
        """Own sets in order of their names, then those of the first prior, although a farther one has the better name."""
        plain = type(MODELS["Stream"])
        monkeypatch.setattr(plain, "sets", lambda self, kernel, library: ("stream.better", "stream.worse"))
        priors = {
            name: replace(parameters(name, f"{other}-sxm"), architecture="hopper")
            for name, other in (("stream.worse", "a100"), ("stream.better", "h200"))
        }
        known = replace(device, fitted={name: parameters(name) for name in own}, priors=priors)

        def chosen() -> tuple[str, str]:
            found = Estimator(known, "graph").kernel(stream(100))
            assert found.prior == (found.parameters.device != "h100-sxm")
            return found.parameters.name, found.parameters.device

        monkeypatch.setattr(plain, "nearest_device", True)
        assert chosen() == expected
        monkeypatch.setattr(plain, "nearest_device", False)
        assert chosen() == ("stream.better", "h100-sxm" if "stream.better" in own else "h200-sxm")

    def test_of_the_models_those_of_products_alone_are_decided_by_hardware(self) -> None:
        assert {name for name, model in MODELS.items() if model.nearest_device} == {"Product", "GroupedProduct"}

    def test_an_engine_has_kernels_of_its_own(self, device: Hardware) -> None:
        assert Estimator(device, "engine").kernel(stream(1)).parameters.name == "stream.engine"

    def test_a_set_without_a_band_is_not_trusted(self, device: Hardware) -> None:
        bare = replace(device, fitted={"stream.torch": parameters("stream.torch", band={})})
        found = Estimator(bare, "graph").kernel(stream(100))
        assert (found.low_s / found.time_s, found.high_s / found.time_s) == (0.5, 2.0)

    def test_no_parameters_are_said_with_the_set_that_was_looked_for(self, device: Hardware) -> None:
        with pytest.raises(NoParameters, match=r"no fitted parameters for stream\.torch.*roofline fit"):
            Estimator(replace(device, fitted={}), "graph").kernel(stream(1))

    def test_no_model(self, device: Hardware) -> None:
        kernel = FusedAttention(
            batch=1, heads=1, kv_heads=1, q_len=1, kv_len=1, head_dim=64, v_head_dim=64, dtype="bf16", kv_dtype="bf16", causal=False
        )
        with pytest.raises(NoParameters, match="FusedAttention"):
            Estimator(device, "graph").kernel(kernel)


class TestHost:
    def test_each_sort_of_kernel_costs_its_own(self, device: Hardware) -> None:
        product = Product(kind="gemm", batch=1, m=1, n=1, k=1, dtype="bf16", read_bytes=1, write_bytes=1, calls=3)
        found = Estimator(device, "eager").host(product)
        assert (found.host_s, found.gap_s) == (pytest.approx(3 * HOST["host_product_s"]), pytest.approx(3 * HOST["gap_s"]))
        assert Estimator(device, "eager").host(stream(1)).host_s == HOST["host_stream_s"]

    @pytest.mark.parametrize("execution", ["graph", "compiled", "engine"])
    def test_a_graph_costs_nothing(self, device: Hardware, execution: str) -> None:
        found = Estimator(device, execution).host(stream(1))
        assert (found.host_s, found.gap_s, found.chain_s, found.chosen) == (0, 0, 0, None)

    @pytest.mark.parametrize("own", [True, False])
    def test_a_graph_of_different_kernels_has_time_between_them(self, device: Hardware, own: bool) -> None:
        """By the profile's own set, or that of a relative; kernels launched one by one have their gap instead."""
        sets = {"host.torch": host("h100-sxm" if own else "h200-sxm", chain_s=5e-7)}
        known = replace(device, fitted={**device.fitted, **sets} if own else {"stream.torch": parameters("stream.torch")}, priors=sets)
        found = Estimator(known, "graph").host(stream(1, calls=3))
        assert (found.host_s, found.gap_s, found.chain_s) == (0, 0, pytest.approx(1.5e-6))
        assert (found.between_s(False), found.between_s(True)) == (0, found.chain_s)
        eager = Estimator(known, "eager").host(stream(1))
        assert (eager.chain_s, eager.between_s(True)) == (0, HOST["gap_s"])

    def test_without_a_set_of_the_host_a_graph_has_none(self, device: Hardware) -> None:
        bare = replace(device, fitted={"stream.torch": parameters("stream.torch")})
        assert Estimator(bare, "graph").host(stream(1)).chain_s == 0

    def test_the_profile_reader_knows_its_parameters(self) -> None:
        model = model_named("host")
        assert model is not None
        assert {p.name for p in model.parameters} == set(HOST)
        assert model.sets(stream(1), "torch") == ("host.torch",)
        assert all(p.low < p.start < p.high for p in model.parameters)


class TestRow:
    def test_in_eager_execution_the_slower_side_sets_the_pace(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two kernels of 2 us and a little, 8 us of host each: 16 us, of which the device idles 16 less its time and two gaps."""
        op = launching(monkeypatch, stream(0.001), stream(0.001))
        found = row(analyze(steps(op), device))
        busy = 2 * (2e-6 + 1e3 / (0.8 * HBM)) + 2 * HOST["gap_s"]
        assert (found.time_s, found.host_s, found.device_s) == (pytest.approx(16e-6), pytest.approx(16e-6), pytest.approx(busy))
        assert found.limiter == "host"
        assert found.by_limiter_s == {"host": pytest.approx(16e-6 - busy), "fixed": pytest.approx(busy)}
        assert found.idle_share == pytest.approx(1 - busy / 16e-6)
        assert (found.low_s, found.high_s) == (pytest.approx(0.9 * 16e-6), pytest.approx(1.1 * 16e-6))
        assert found.kernels == 2
        assert found.terms["gap"] == pytest.approx(2e-6)

    def test_under_a_graph_it_is_the_sum_of_its_kernels(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        op = launching(monkeypatch, stream(0.001), stream(100))
        found = row(analyze(steps(op, execution="graph"), device))
        assert found.time_s == pytest.approx(4e-6 + (1e8 + 1e3) / (0.8 * HBM))
        assert (found.host_s, found.limiter, found.execution) == (0, "memory", "graph")
        assert list(found.by_limiter_s) == ["memory", "fixed"]

    def test_parameters_say_whose_they_are(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        product = Product(kind="gemm", batch=1, m=64, n=64, k=64, dtype="bf16", read_bytes=1, write_bytes=1)
        op = launching(monkeypatch, stream(100, calls=2), product)
        found = row(analyze(steps(op), device)).parameters
        assert {name: share.kernels for name, share in found.items()} == {"stream.torch": 2, "host.torch": 3, "product.torch": 1}
        assert found["host.torch"].time_s == pytest.approx(26e-6)
        assert found["stream.torch"].terms["fixed"] == pytest.approx(4e-6)
        assert (found["stream.torch"].device, found["stream.torch"].source, found["stream.torch"].prior) == ("h100-sxm", "a test", False)


class TestWhole:
    def test_repetitions_and_steps_add_up(self, device: Hardware) -> None:
        big = Elementwise(function="relu", elements=10**8, dtype="bf16")
        workload = Workload(name="w", execution="graph", steps=(Step(id="a", op=big, repeat=3), Step(id="b", op=big)))
        found = analyze(workload, device)
        assert total(found).time_s == pytest.approx(4 * row(found).time_s)
        assert total(found).kernels == 4

    def test_different_steps_of_a_graph_have_time_between_their_kernels(self, device: Hardware) -> None:
        """Half a microsecond for each of the four kernels of the whole; none in a row, which repeats one kernel."""
        chained = replace(device, fitted={**device.fitted, "host.torch": host(chain_s=5e-7)})
        big = Elementwise(function="relu", elements=10**8, dtype="bf16")
        made = (Step(id="a", op=big, repeat=3), Step(id="b", op=big))
        found, without = (analyze(Workload(name="w", execution="graph", steps=made), d) for d in (chained, device))
        assert row(found).time_s == row(without).time_s
        assert total(found).time_s == pytest.approx(4 * row(found).time_s + 4 * 5e-7)
        assert total(found).device_s == pytest.approx(total(found).time_s)
        assert total(found).terms["gap"] == pytest.approx(2e-6)
        assert "gap" not in total(without).terms
        assert "gap" not in row(found).terms
        one = analyze(Workload(name="w", execution="graph", steps=made[:1]), chained)
        assert total(one).time_s == pytest.approx(3 * row(one).time_s)
        eager, apart = (total(analyze(Workload(name="w", execution="eager", steps=made), d)) for d in (chained, device))
        assert eager.time_s == apart.time_s

    def test_launch_bound_is_a_verdict(self, device: Hardware) -> None:
        """1,000 kernels at 8 us of host take 8 ms, whatever the device does in its 3 us each."""
        small = Elementwise(function="relu", elements=64, dtype="bf16")
        found = total(analyze(Workload(name="w", steps=(Step(id="a", op=small, repeat=1000),)), device))
        assert found.time_s == pytest.approx(8e-3)
        assert found.limiter == "host"
        assert found.idle_share == pytest.approx(1 - 3 / 8, abs=1e-3)
        assert (found.low_s, found.high_s) == (pytest.approx(7.2e-3), pytest.approx(8.8e-3))

    def test_one_step_is_its_row(self, device: Hardware) -> None:
        for execution in ("eager", "graph"):
            report = analyze(steps(Elementwise(function="relu", elements=64, dtype="bf16"), execution=execution), device)
            assert total(report).time_s == row(report).time_s

    def test_one_set_errs_as_one_and_two_sets_independently(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        """Half-widths of one set add up, 10 % of all; those of two equal times in two sets are 10 % / sqrt(2)."""
        op = launching(monkeypatch, stream(100), stream(100))
        same = row(analyze(steps(op, execution="graph"), device))
        assert same.low_s / same.time_s == pytest.approx(0.9)
        assert same.high_s / same.time_s == pytest.approx(1.2)
        monkeypatch.setattr(type(MODELS["Stream"]), "sets", lambda self, kernel, library: (f"stream.{kernel.kind}",))
        two = replace(device, fitted={**device.fitted, "stream.a": parameters("stream.a"), "stream.b": parameters("stream.b")})
        op = launching(monkeypatch, replace(stream(100), kind="a"), replace(stream(100), kind="b"))
        apart = row(analyze(steps(op, execution="graph"), two))
        assert apart.low_s / apart.time_s == pytest.approx(1 - 0.1 / math.sqrt(2))
        assert apart.high_s / apart.time_s == pytest.approx(1 + 0.2 / math.sqrt(2))

    def test_overlapped_steps_explain_only_the_path_that_decides(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        """A short copy over a link runs beside a long kernel, which takes all the time; both are launched."""
        monkeypatch.setitem(MODELS, "Transfer", MODELS["Stream"])
        monkeypatch.setattr(Copy, "launched", lambda self, execution: (Transfer(link="nvlink", bytes=8),))
        big = Step(id="big", op=Elementwise(function="relu", elements=10**9, dtype="bf16"), after=())
        short = Step(id="short", op=Copy(elements=1000, dtype="bf16", over="nvlink"), after=())
        report = analyze(Workload(name="w", execution="graph", steps=(big, short)), device)
        whole, longest = total(report), row(report)
        assert (whole.time_s, whole.low_s, whole.high_s) == (longest.time_s, longest.low_s, longest.high_s)
        assert (whole.terms, whole.by_limiter_s) == (longest.terms, longest.by_limiter_s)
        assert (whole.kernels, longest.kernels) == (2, 1)


class TestNoEstimate:
    def test_without_a_device(self) -> None:
        report = analyze(steps(Gemm(m=8, n=8, k=8, dtype="bf16")), None)
        assert report.totals.estimate is report.rows[0].estimate is None
        assert "-H NAME" in report.rows[0].unavailable["estimate"]
        assert "-H NAME" in report.totals.unavailable["estimate"]

    def test_without_parameters_the_reason_names_what_is_missing_and_the_rest_stands(self, device: Hardware) -> None:
        poor = replace(device, fitted={n: s for n, s in device.fitted.items() if n != "host.torch"})
        report = analyze(steps(Elementwise(function="relu", elements=64, dtype="bf16")), poor)
        assert report.rows[0].estimate is None
        assert "host.torch" in report.rows[0].unavailable["estimate"]
        assert report.totals.unavailable["estimate"].startswith("s0 has no estimate: ")
        assert report.rows[0].bound is not None
        graph = analyze(steps(Elementwise(function="relu", elements=64, dtype="bf16"), execution="graph"), poor)
        assert graph.totals.estimate is not None

    def test_a_profile_without_a_figure_that_models_need(self, device: Hardware) -> None:
        found = analyze(steps(Elementwise(function="relu", elements=64, dtype="bf16")), replace(device, sfu=Absent("nobody says")))
        assert "engines.sfu" in found.rows[0].unavailable["estimate"]
        assert "engines.sfu" in found.totals.unavailable["estimate"]

    @pytest.mark.parametrize("time", [float("nan"), float("inf"), -1.0])
    def test_a_model_that_gives_no_time(self, device: Hardware, monkeypatch: pytest.MonkeyPatch, time: float) -> None:
        from roofline.predict.estimate.base import Terms

        parts = {"fixed": 1e-6, "memory": 0.0, "compute": 0.0}
        monkeypatch.setattr(type(MODELS["Stream"]), "terms", lambda *_: Terms(time, parts))
        report = analyze(steps(Elementwise(function="relu", elements=64, dtype="bf16"), execution="graph"), device)
        assert report.rows[0].estimate is None
        assert "finite" in report.rows[0].unavailable["estimate"]

    def test_a_model_that_divides_by_nothing(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(MODELS["Stream"]), "terms", lambda *_: 1 // 0)
        report = analyze(steps(Elementwise(function="relu", elements=64, dtype="bf16"), execution="graph"), device)
        assert "finite" in report.totals.unavailable["estimate"]


class TestPossible:
    def test_an_estimate_that_no_device_could_reach_is_raised_and_said(self, device: Hardware) -> None:
        """1 GB at five times the bandwidth: raised to what is left after a full L2, and far from the bound's own time."""
        wrong = replace(device, fitted={**device.fitted, "stream.torch": parameters("stream.torch", efficiency=5.0)})
        big = Elementwise(function="relu", elements=250_000_000, dtype="bf16")
        report = analyze(steps(big, execution="graph"), wrong)
        found = row(report)
        l2 = PROFILE.levels["l2"].size.value  # type: ignore[union-attr]
        assert found.time_s == pytest.approx((1e9 - l2) / HBM)
        assert found.raised
        assert found.low_s == pytest.approx(0.9 * found.time_s)
        (notice,) = (w for w in report.warnings if w.code == "W006")
        assert "s0" in notice.message
        assert "stream.torch" in notice.message
        assert "host" not in notice.message

    def test_bytes_that_a_fused_kernel_does_not_move_are_not_asked_of_it(self, device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
        """The operator counts 1 GB in a pass; what was launched moves 100 MB, and its time holds for those."""
        monkeypatch.setattr(Elementwise, "launched", lambda self, execution: (stream(100),))
        report = analyze(steps(Elementwise(function="relu", elements=250_000_000, dtype="bf16"), execution="engine"), device)
        assert row(report).time_s == pytest.approx(2e-6 + 1e8 / (0.8 * HBM))
        assert not row(report).raised

    def test_what_stays_in_the_cache_may_lie_below_the_bound(self, device: Hardware) -> None:
        """10 MB fit L2, so that no bandwidth of the memory holds: the estimate stands, and nothing is warned of."""
        fast = replace(device, fitted={**device.fitted, "stream.torch": parameters("stream.torch", efficiency=5.0, fixed_s=1e-7)})
        report = analyze(steps(Elementwise(function="relu", elements=2_500_000, dtype="bf16"), execution="graph"), fast)
        assert report.rows[0].bound is not None
        assert row(report).time_s < report.rows[0].bound.time_s
        assert not row(report).raised
        assert [w.code for w in report.warnings] == []


class TestMeasured:
    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            ({"launch": "graph"}, "graph"),
            ({"launch": "eager"}, "eager"),
            ({"launch": "graph", "kernel": "rmsnorm_compiled"}, "compiled"),
            ({}, "engine"),
        ],
    )
    def test_the_estimate_is_of_how_it_was_launched(self, conditions: dict[str, str], expected: str) -> None:
        assert execution_of(MeasuredResult(time_s=1.0, source="x", conditions=conditions), "engine") == expected

    def test_a_row_measured_in_a_graph_is_estimated_in_one(self, device: Hardware) -> None:
        run = MeasuredResult(time_s=5e-6, source="x", conditions={"launch": "graph"})
        workload = steps(Elementwise(function="relu", elements=64, dtype="bf16"))
        report = analyze(workload, device, measured=Measurements(steps={"s0": run}))
        assert (row(report).execution, row(report).host_s) == ("graph", 0)
        assert total(report).execution == "eager"
        whole = analyze(workload, device, measured=Measurements(steps={"s0": run}, whole=run))
        assert total(whole).execution == "graph"


DIMS = st.lists(st.tuples(st.integers(1, 10**8), st.integers(1, 40)), min_size=1, max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(drawn=DIMS)
def test_laws_of_every_whole(drawn: list[tuple[int, int]], device: Hardware) -> None:
    ops = [Elementwise(function="relu", elements=n, dtype="bf16") for n, _ in drawn]
    made = tuple(Step(id=f"s{i}", op=op, repeat=repeat) for i, (op, (_, repeat)) in enumerate(zip(ops, drawn, strict=True)))
    chained = replace(device, fitted={**device.fitted, "host.torch": host(chain_s=5e-7)})
    eager, graph = (analyze(Workload(name="w", execution=e, steps=made), chained) for e in ("eager", "graph"))
    for report in (eager, graph):
        whole = total(report)
        assert whole.low_s <= whole.time_s <= whole.high_s
        assert whole.time_s >= max(row(report, i).time_s * r.repeat for i, r in enumerate(report.rows)) * (1 - 1e-12)
        assert sum(whole.by_limiter_s.values()) == pytest.approx(whole.time_s)
        assert math.fsum(s.time_s for n, s in whole.parameters.items() if n != "host.torch") == pytest.approx(
            whole.device_s - whole.terms.get("gap", 0.0)
        )
    assert total(graph).time_s <= total(eager).time_s


def test_the_snapshot_keeps_the_sets_that_were_used(device: Hardware) -> None:
    found = analyze(steps(Elementwise(function="relu", elements=64, dtype="bf16"), execution="graph"), device).hardware
    assert found is not None
    assert set(device.fitted) == {*SETS, "host.torch"}
    assert set(found["fitted"]) == {"stream.torch"}


def test_host_sets_may_be_priors(device: Hardware) -> None:
    elsewhere = replace(
        device, fitted={n: s for n, s in device.fitted.items() if n != "host.torch"}, priors={"host.torch": host("h200-sxm")}
    )
    found = row(analyze(steps(Elementwise(function="relu", elements=64, dtype="bf16")), elsewhere))
    assert found.prior
    assert (found.low_s, found.high_s) == (pytest.approx(8e-6 * 0.9**FOREIGN_WIDENING), pytest.approx(8e-6 * 1.1**FOREIGN_WIDENING))


def test_an_estimate_knows_its_kernel(device: Hardware) -> None:
    kernel = stream(1)
    found = Estimator(device, "graph").kernel(kernel)
    assert isinstance(found, KernelEstimate)
    assert found.kernel is kernel
