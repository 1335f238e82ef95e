"""Kernels of one operator side by side: as ``--implementation`` names them, each with what its dataflow says that binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roofline.dataflow.account import account, device_of
from roofline.errors import MissingCapabilityError, RooflineError, UsageError, did_you_mean
from roofline.hardware.profile import Hardware
from roofline.measure.base import Device
from roofline.measure.catalog_triton import FAMILIES, Family
from roofline.measure.plan import Plan, plan_of_specs
from roofline.measure.registry import KERNELS, find, require
from roofline.measure.run import Case, place
from roofline.numeric import Number, scalar
from roofline.ops.base import Op
from roofline.report.dataflow import limiter
from roofline.report.model import MeasuredResult, Measurements
from roofline.spec.dataflow import load_dataflow, setting_names


# --------------------------------------------------------------------------- a family as a plan
def family_of(kernel: str, name: str) -> Family:
    """The family of that name of the operator that the kernel runs.

    Raises:
        UsageError: there is none, with what there is.
    """
    op = kernel if any(f.op == kernel for f in FAMILIES) else find(kernel).op
    known = {f.name: f for f in FAMILIES if f.op == op}
    if name in known:
        return known[name]
    there_is = did_you_mean(name, list(known)) if known else f"families are of {', '.join(dict.fromkeys(f.op for f in FAMILIES))}"
    raise UsageError(f"--implementation '{name}': {op} has no such family; {there_is}")


def plan_of_family(
    kernels: Sequence[str], name: str, overrides: Sequence[str], direction: str | None, device: Device
) -> tuple[Plan, list[str]]:
    """The kernels of a family that can run here, in its order, at one shape; and of each of the others why it cannot.

    Raises:
        UsageError: not one kernel is given, there is no such family, or none of it runs here.
    """
    if len(kernels) != 1:
        raise UsageError("--implementation names a family of one operator: give one --kernel, such as --kernel gemm")
    family = family_of(kernels[0], name)
    cuda = device.info.kind == "cuda"
    shape = family.example if cuda else family.small
    specs = [(each, KERNELS[each]) for each in family.kernels]
    plan = plan_of_specs(specs, overrides, direction, shape=shape, title=f"{family.op} {family.name}: {family.title}")
    runs, left_out = [], []
    for case, step in zip(plan.cases, plan.workload.steps, strict=True):
        try:
            for each in case.passes:
                require(case.spec, case.op, each, place(device))
            runs.append((case, step))
        except (UsageError, MissingCapabilityError) as err:
            left_out.append(f"left out {case.id}: {err}")
    if not runs:
        raise UsageError("; ".join(left_out))
    workload = replace(plan.workload, steps=tuple(step for _, step in runs))
    return replace(plan, workload=workload, cases=tuple(case for case, _ in runs)), left_out


# --------------------------------------------------------------------------- what should bind
def _attention(op: Any) -> dict[str, Number]:
    heads = {"batch": op.batch, "heads": op.heads, "kv_heads": op.kv_heads or op.heads}
    return {**heads, "q_len": op.q_len, "kv_len": op.kv_len, "seen": op.seen_keys(), "head_dim": op.head_dim}


def _fft_conv(op: Any) -> dict[str, Number]:
    found = {"batch": op.batch, "hidden": op.channels, "n": op.transform_len, "seq": op.seq, "gated": int(op.gated)}
    if op.implementation == "cufft":
        return {**found, "spectrum": int(op.spectrum)}
    from roofline.measure.spectra import flash_factors

    factors = flash_factors(op)
    return {**found, "order": len(factors), **{f"n{i}": n for i, n in enumerate(factors, 1)}}


PARAMS: Mapping[str, Callable[[Any], dict[str, Number]]] = {
    "gemm": lambda op: {"m": op.m, "n": op.n, "k": op.k},
    "attention": _attention,
    "softmax": lambda op: {"rows": op.rows, "cols": op.cols},
    "fft_conv": _fft_conv,
    "monarch": lambda op: {"batch": op.rows, "n": op.n},
}
"""Sizes of an operator as the shipped dataflows of it call them."""


def binding(name: str, op: Op, profile: Hardware) -> dict[str, str | float]:
    """What the dataflow of that name says of the operator: the resource that binds, and the least time that it takes as written.

    Raises:
        RooflineError: the dataflow does not take these sizes, or the profile lacks what it needs.
    """
    sizes = {k: scalar(v) for k, v in PARAMS[op.name](op).items()}
    for key, value in sizes.items():
        name = name.replace(f"{{{key}}}", f"{value}")
    known = setting_names(name)
    overrides = [f"{k}={v:.12g}" for k, v in sizes.items() if k in known]
    device = device_of(profile, op.dtype)
    flow = load_dataflow(name, [*overrides, f"dtype={op.dtype}"], device.names)
    found = account(flow, device)
    return {"dataflow": flow.name, "dataflow_binds": str(limiter(found)), "dataflow_s": float(found.scheduled_s)}


def with_bindings(measured: Measurements, cases: Sequence[Case], profile: Hardware | None) -> Measurements:
    """The results, each with what the dataflow of its kernel says, as far as there is one for its sizes."""
    said = {case.id: _said(case, profile) for case in cases}
    steps = {name: _noted(result, said.get(name, {})) for name, result in measured.steps.items()}
    return replace(measured, steps=steps)


def _said(case: Case, profile: Hardware | None) -> dict[str, str | float]:
    if profile is None or not case.spec.dataflow or case.direction != "forward" or case.op.name not in PARAMS:
        return {}
    try:
        return binding(case.spec.dataflow, case.op, profile)
    except RooflineError:  # a shape that the shipped dataflow cannot tile: nothing is predicted then
        return {}


def _noted(result: MeasuredResult, said: Mapping[str, str | float]) -> MeasuredResult:
    return replace(result, conditions={**result.conditions, **said}) if said else result
