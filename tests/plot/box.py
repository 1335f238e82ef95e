"""Reports of a device whose numbers can be worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.report.model import (
    BoundResult,
    EstimateResult,
    Headline,
    MeasuredResult,
    Memory,
    ParameterShare,
    Report,
    Row,
    TotalBound,
    Totals,
)

HBM, SMEM, TENSOR, VECTOR = 1e12, 1e13, 1e14, 1e13
"""B/s and FLOP/s of the device of these tests: ridges at 100 and 10 FLOP/B."""

HARDWARE: dict[str, Any] = {
    "name": "box",
    "product": "A box",
    "levels": {
        "register": {"label": "registers", "bandwidth": {"reason": "nobody says"}},
        "smem": {"label": "SMEM", "bandwidth": {"value": SMEM}},
        "l2": {"label": "L2", "bandwidth": {"reason": "nobody says"}},
        "hbm": {"label": "HBM", "bandwidth": {"value": HBM}},
    },
}
TERMS = {"fixed": 1e-6, "memory": 4e-6, "compute": 9e-6, "power": 7e-6}


def estimate(time_s: float, terms: dict[str, float] | None = None, **more: Any) -> EstimateResult:
    """An estimate of one kernel of one parameter set."""
    found = TERMS if terms is None else terms
    share = ParameterShare(kernels=1, time_s=time_s, terms=found, device="box", kind="fitted", source="a fit", prior=False)
    values: dict[str, Any] = {"device_s": time_s, "kernels": 1, "parameters": {"product.gemm.torch.bf16": share}, **more}
    return EstimateResult(time_s=time_s, low_s=time_s * 0.9, high_s=time_s * 1.2, terms=found, **values)


def row(name: str, flop: float, moved: float, **more: Any) -> Row:
    """A step with that many FLOP on the tensor engine and bytes of HBM; its bound follows from the box's rates."""
    times = {"tensor": flop / TENSOR, "hbm": moved / HBM}
    limiter = more.pop("limiter", max(times, key=lambda name: times[name]))
    bound = BoundResult(
        time_s=max(times.values()), no_overlap_s=sum(times.values()), limiter=limiter, next=None, tied=False, headroom=None,
        per_resource_s=times,
    )  # fmt: skip
    values: dict[str, Any] = {
        "op": "gemm", "direction": "forward", "dtype": "bf16", "fields": {}, "repeat": 1, "kernels": 1, "useful_flop": flop,
        "flop": {"tensor": flop, "vector": 0.0, "sfu": 0.0}, "bytes": {"register": 0.0, "smem": moved * 2, "l2": moved, "hbm": moved},
        "traffic": {}, "link_bytes": {}, "parameters": 0, "weight_bytes": 0, "cache_bytes": 0, "extra_memory_bytes": 0, "saved_bytes": 0,
        "intensity_flop_per_byte": {"hbm": flop / moved if moved else None}, "ridge_flop_per_byte": {"hbm": TENSOR / HBM},
        "bound": bound, "estimate": None, "measured": None, "share": None, **more,
    }  # fmt: skip
    return Row(id=name, **values)


def report(*rows: Row, **more: Any) -> Report:
    """The report of these rows one after the other."""
    whole = sum(r.bound.time_s * r.repeat for r in rows if r.bound)
    shared = tuple(replace(r, share=r.bound.time_s * r.repeat / whole) if r.bound and whole else r for r in rows)
    zero = {"tensor": 0.0, "vector": 0.0, "sfu": 0.0}
    memory = Memory(
        needed_bytes=1, weight_bytes=1, cache_bytes=0, activation_bytes=0, available_bytes=None, shortfall_bytes=None, fits=None
    )
    bound = TotalBound(
        time_s=whole, no_overlap_s=whole, limiter="hbm", by_limiter_s={"hbm": whole}, critical_path=(), lane_s={}, overlapped=False
    )
    largest = max(shared, key=lambda r: r.share or 0).id if shared else ""
    headline = Headline(
        resource="hbm", share=1.0, best_speedup=None, next_resource=None, step=largest, step_share=1.0, step_limit_speedup=None,
        next_step=None,
    )  # fmt: skip
    totals = Totals(
        kernels=1, flop=zero, useful_flop=0, bytes={"hbm": 0.0}, link_bytes={}, intensity_flop_per_byte={"hbm": None}, parameters=0,
        memory=memory, bound=more.pop("bound", bound), estimate=more.pop("estimate", None), measured=more.pop("measured", None),
        headline=headline,
    )  # fmt: skip
    values: dict[str, Any] = {
        "schema": 1, "tool": "roofline 0", "workload": "work", "inputs": (), "hardware": HARDWARE, "params": {},
        "conventions": {"execution": "eager", "units": "SI"}, "rows": shared, "totals": totals, "warnings": (), **more,
    }  # fmt: skip
    return Report(**values)


def measured(time_s: float, **more: Any) -> MeasuredResult:
    """A measured time."""
    return MeasuredResult(time_s=time_s, source="a run", **more)
