"""What a command line means: which cases, in what order, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline.measure.plan
from roofline.errors import InputError, MissingCapabilityError, UsageError
from roofline.measure.base import Procedure
from roofline.measure.plan import WHOLE, Plan, _id, environment, plan_of, require_kernels, run_plan
from roofline.measure.registry import KERNELS
from roofline.report.model import Measurements
from roofline.testing import FakeDevice, InlineWatch

from .conftest import fake_device

QUICK = Procedure(blocks=3, warmup_s=0.01, fewest_samples=9, shortest_s=0.01, longest_s=0.5, cache="warm")


def kernels(*names: str, given: tuple[str, ...] = (), direction: str | None = None, kind: str = "cpu", op: str | None = None) -> Plan:
    return plan_of(None, names, given, direction, kind, op)


def run(plan: Plan, device: FakeDevice | None = None, step: Callable[[str, float], None] = lambda name, share: None) -> Measurements:
    return run_plan(plan, device or fake_device(), QUICK, step, watch=InlineWatch)


class TestKernels:
    @pytest.mark.parametrize("name", KERNELS)
    def test_every_kernel_has_a_plan_for_both_kinds_of_device(self, name: str) -> None:
        small, large = (kernels(name, kind=kind).cases[0].op for kind in ("cpu", "cuda"))
        assert all(getattr(small, k) == v for k, v in {**KERNELS[name].small, **KERNELS[name].fields}.items() if v != "")
        assert all(getattr(large, k) == v for k, v in {**KERNELS[name].example, **KERNELS[name].fields}.items() if v != "")

    def test_fields_given_replace_those_of_the_example(self) -> None:
        op: Any = kernels("gemm", given=("m=5", "dtype=bf16")).cases[0].op
        assert (op.m, op.n, op.dtype) == (5, 64, "bf16")

    def test_the_pass_is_that_of_the_option_or_of_the_field(self) -> None:
        assert kernels("gemm", direction="backward").cases[0].direction == "backward"
        assert kernels("gemm", given=("pass=forward+backward",)).cases[0].passes == ("forward", "backward")

    def test_the_same_kernel_twice_has_two_names(self) -> None:
        plan = kernels("gemm", "softmax", "gemm", kind="cpu")
        assert plan.names == ["gemm", "softmax", "gemm_2"]

    @given(st.lists(st.sampled_from(["a", "a_2", "a:b", "a_b", "ä", "a.b"]), max_size=9))
    def test_names_of_steps_are_all_different_and_plain(self, names: list[str]) -> None:
        taken: list[str] = []
        for name in names:
            taken.append(_id(name, taken))
        assert len(set(taken)) == len(taken)
        assert all(c.isascii() and (c.isalnum() or c in "_-") for name in taken for c in name)

    def test_kernels_alone_have_no_whole(self) -> None:
        assert not kernels("gemm", "softmax").whole

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (("m",), "--set 'm' is not key=value"),
            (("m=",), "--set 'm=' is not key=value"),
            (("=4",), "--set '=4' is not key=value"),
            (("m=4", "m=5"), "--set m is given twice"),
            (("repeat=3",), "--set repeat: set fields of the kernel's operator"),
            (("op=softmax",), "--set op:"),
            (("id=x",), "--set id:"),
            (("measured=1 ms",), "--set measured:"),
        ],
    )
    def test_fields_that_are_none_are_refused(self, given: tuple[str, ...], said: str) -> None:
        with pytest.raises(UsageError) as caught:
            kernels("gemm", given=given)
        assert said in str(caught.value)

    @pytest.mark.parametrize(
        ("given", "said"), [(("k_=4",), "did you mean 'k'"), (("m=-1",), "arguments"), (("m=4.5",), "arguments"), (("dtype=bf17",), "bf16")]
    )
    def test_wrong_fields_and_values_are_shown_where_they_stand(self, given: tuple[str, ...], said: str) -> None:
        with pytest.raises(InputError) as caught:
            kernels("gemm", given=given)
        assert said in str(caught.value)

    def test_what_a_kernel_is_cannot_be_set(self) -> None:
        with pytest.raises(UsageError, match="kernel 'flash' is what it is by implementation = flash"):
            kernels("flash", given=("implementation=naive",))

    def test_an_unknown_kernel_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(UsageError, match="unknown kernel 'flesh'; did you mean 'flash'"):
            kernels("flesh")


class TestWorkload:
    def test_each_step_gets_the_default_kernel_of_its_operator_and_the_whole_is_run(self, place: Path) -> None:
        plan = plan_of("w.yaml", [], [], None, "cpu")
        assert [(c.id, c.spec.name) for c in plan.cases] == [("up", "gemm"), ("soft", "softmax"), ("down", "gemm")]
        assert plan.names == ["up", "soft", "down", WHOLE]
        assert plan.inputs[0].path == "w.yaml"

    def test_neither_and_both_are_refused(self, place: Path) -> None:
        for workload, names in ((None, []), ("w.yaml", ["gemm"])):
            with pytest.raises(UsageError, match="either a workload or --kernel"):
                plan_of(workload, names, [], None, "cpu")

    def test_a_pass_for_all_steps_is_refused(self, place: Path) -> None:
        with pytest.raises(UsageError, match="--pass goes with --kernel"):
            plan_of("w.yaml", [], [], "backward", "cpu")

    def test_a_step_without_a_kernel_is_named(self, place: Path) -> None:
        text = "schema: 1\nname: x\ndtype: fp32\nsteps:\n  - {id: mystery, op: custom, vector_flop: 5 FLOP, read: 7 B}\n"
        (place / "c.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="step 'mystery': no kernel runs this custom"):
            plan_of("c.yaml", [], [], None, "cpu")


class TestRequirements:
    def test_what_this_device_lacks_is_said_before_anything_is_measured(self) -> None:
        with pytest.raises(MissingCapabilityError, match=r"^kernel 'cudnn' in bf16 cannot run on cpu: it needs a CUDA device"):
            require_kernels(kernels("cudnn", given=("dtype=bf16",)), fake_device())

    def test_of_several_steps_the_one_is_named(self) -> None:
        with pytest.raises(MissingCapabilityError, match=r"^step 'cudnn': kernel 'cudnn'"):
            require_kernels(kernels("flash", "cudnn", given=("dtype=bf16",)), fake_device())

    def test_both_passes_are_looked_at(self) -> None:
        plan = kernels("gemm", direction="forward+backward")
        cases = (replace(plan.cases[0], spec=replace(KERNELS["gemm"], build_backward=None)),)
        with pytest.raises(UsageError, match="has no backward pass"):
            require_kernels(replace(plan, cases=cases), fake_device())


class TestRunning:
    def test_equal_steps_are_measured_once(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real, measured = roofline.measure.plan.measure_op, list[str]()

        def measure_op(case: Any, *args: Any, **options: Any) -> Any:
            measured.append(case.id)
            return real(case, *args, **options)

        monkeypatch.setattr(roofline.measure.plan, "measure_op", measure_op)
        found = run(plan_of("w.yaml", [], [], None, "cpu"), fake_device(call_s=lambda i: 1e-6))
        assert measured == ["up", "soft"]
        assert found.steps["up"] is found.steps["down"]
        assert found.whole
        assert found.whole.time_s == pytest.approx(5e-6)

    def test_another_shape_dtype_or_pass_is_not_equal(self) -> None:
        one = kernels("gemm", "gemm")
        others = [kernels("gemm", given=("m=16",)), kernels("gemm", given=("dtype=bf16",)), kernels("gemm", direction="backward")]
        for other in others:
            cases = (one.cases[0], replace(other.cases[0], id="b"))
            found = run(replace(one, cases=cases))
            assert found.steps["b"] is not found.steps["gemm"]

    def test_progress_names_every_part_and_ends_at_one(self, place: Path) -> None:
        seen: dict[str, float] = {}
        run(plan_of("w.yaml", [], [], None, "cpu"), step=lambda name, share: seen.update({name: share}))
        assert seen == {"up": 1.0, "soft": 1.0, "down": 1.0, WHOLE: 1.0}

    def test_the_environment_is_the_devices_and_nothing_else(self) -> None:
        device = fake_device(info={"facts": {"driver": "580.1"}})
        assert environment(device) == {
            "device": "Fake device",
            "device_kind": "fake",
            "device_uuid": "fake-0",
            "driver": "580.1",
        }
