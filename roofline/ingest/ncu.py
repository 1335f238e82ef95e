"""Counters of Nsight Compute to a report: measured bytes and FLOP, points on rooflines, limiter, and counted work beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline import __version__
from roofline.hardware.profile import Hardware, si
from roofline.ingest.ncu_causes import causes
from roofline.ingest.ncu_compare import Beside, amplification
from roofline.ingest.ncu_group import Group, grouped
from roofline.ingest.ncu_limiter import limit_of, peak_of
from roofline.ingest.ncu_read import Table
from roofline.predict.bound import machine_of
from roofline.report.counters import CONVENTIONS, LEVELS, SCHEMA, CounterReport, CounterRow, Point
from roofline.report.model import Input, Notice


def counter_report(table: Table, *, by: str | None = None, hardware: Hardware | None = None, beside: Beside | None = None) -> CounterReport:
    """The report of a table, ``by`` range, kernel or launch: ranges where the file has some, else kernels."""
    by = by or ("range" if any(launch.ranges for launch in table.launches) else "kernel")
    groups = beside.groups(table.launches) if beside else grouped(table.launches, by)
    times = [g.get("time_s") for g in groups]
    total = None if any(t is None for t in times) else sum(t or 0.0 for t in times)
    rows = tuple(_row(g, hardware, beside, total) for g in groups)
    missing = {"time_s": "gpu__time_duration was not collected for every launch"} if total is None else {}
    return CounterReport(
        schema=SCHEMA,
        kind="counters",
        tool=f"roofline {__version__}",
        inputs=(Input(role="counters", path=table.path, sha256=table.sha256), *(beside.inputs if beside else ())),
        form=table.form,
        by="step" if beside else by,
        hardware=hardware.name if hardware else None,
        candidates=() if hardware else candidates(table),
        launches=sum(launch.count for launch in table.launches),
        time_s=total,
        conventions=CONVENTIONS,
        rows=rows,
        warnings=tuple(_warnings(table, rows, beside)),
        unavailable=missing,
    )


# --------------------------------------------------------------------------- a row
def _row(group: Group, hardware: Hardware | None, beside: Beside | None, total: float | None) -> CounterRow:
    why: dict[str, str] = {}
    moved = _bytes(group, why)
    flop = _flop(group, why)
    time = group.get("time_s")
    if time is None:
        why["time_s"] = group.missing["time_s"]
    counted = beside.counted(group) if beside else None
    if counted is None:
        why["counted"] = beside.why_not(group) if beside else "no workload is given (--workload)"
    points = {level: _point(moved[level], flop, group, time, hardware, level) for level in LEVELS}
    limit = limit_of(group, points, flop, hardware)
    if limit.name is None:
        why["limiter"] = limit.why
    l2 = machine_of(hardware) if hardware else None
    return CounterRow(
        id=group.id,
        kernels=tuple(dict.fromkeys(launch.kernel for launch in group.launches)),
        launches=group.count,
        time_s=time,
        share=time / total if time is not None and total else None,
        bytes=moved,
        flop=flop,
        tensor_flop_by_dtype=group.tensor_flop,
        points=points,
        utilisation=group.utilisation,
        limiter=limit.name,
        busiest=limit.busiest,
        busiest_share=limit.share,
        limiter_source=limit.source,
        counted=counted,
        amplification=amplification(moved, flop, counted),
        causes=causes(group, moved, counted, l2.l2_bytes if l2 else None),
        unavailable=why,
    )


def _bytes(group: Group, why: dict[str, str]) -> dict[str, float | None]:
    """Bytes by level; those of memory from reads and writes, from their sum, or from rate and time."""
    read, written = group.get("dram_read_bytes"), group.get("dram_write_bytes")
    hbm = read + written if read is not None and written is not None else group.get("dram_bytes")
    rate, time = group.get("dram_bytes_per_s"), group.get("time_s")
    if hbm is None and rate is not None and time is not None:
        hbm = rate * time
    found = {"hbm_read": read, "hbm_write": written, "hbm": hbm}
    names = {"hbm_read": "dram_read_bytes", "hbm_write": "dram_write_bytes", "hbm": "dram_bytes"}
    for level in ("l2", "l1", "smem"):
        found[level], names[level] = group.get(f"{level}_bytes"), f"{level}_bytes"
    why.update({f"bytes.{key}": group.missing[names[key]] for key, value in found.items() if value is None})
    return found


def _flop(group: Group, why: dict[str, str]) -> dict[str, float | None]:
    """FLOP by engine, null where a part of them was not collected."""
    tensor: float | None = sum(group.tensor_flop.values()) if group.tensor_flop else None
    if tensor is None and group.get("tensor_instructions") == 0:
        tensor = 0.0
    fp32 = group.get("fp32_flop")
    if fp32 is None:
        fp32 = group.add(("fadd", 1), ("fmul", 1), ("ffma", 2))
    fp64 = group.add(("dadd", 1), ("dmul", 1), ("dfma", 2))
    vector = None if fp32 is None and fp64 is None else (fp32 or 0.0) + (fp64 or 0.0)
    if tensor is None:
        why["flop.tensor"] = "no sm__ops_path_tensor_src_... was collected; instructions of tensor cores differ in size and say no FLOP"
    if vector is None:
        why["flop.vector"] = "fadd, fmul and ffma (smsp__sass_thread_inst_executed_op_..._pred_on.sum) were not all collected"
    if fp32 is not None and fp64 is None:
        why["flop.vector_fp64"] = "dadd, dmul and dfma were not all collected; FLOP of vector lanes are those of fp32"
    if group.get("xu_ops") is None:
        why["flop.sfu"] = group.missing["xu_ops"]
    return {"tensor": tensor, "vector": vector, "sfu": group.get("xu_ops")}


def _point(
    moved: float | None, flop: Mapping[str, float | None], group: Group, time: float | None, hardware: Hardware | None, level: str
) -> Point | None:
    """The kernel on a level's roofline; None where the level's bytes are not known."""
    if moved is None:
        return None
    engine = "tensor" if flop["tensor"] else "vector"
    work = flop[engine]
    intensity = work / moved if work is not None and moved else None
    rate, done = (moved / time if time else None), (work / time if work is not None and time else None)
    width = si(hardware.levels[level].bandwidth) if hardware and level in hardware.levels else None
    peak = peak_of(hardware, group, engine) if hardware else None
    roof = min(peak, intensity * width) if peak and width and intensity is not None else None
    return Point(
        bytes=moved,
        bytes_per_s=rate,
        intensity_flop_per_byte=intensity,
        flop_per_s=done,
        roof_flop_per_s=roof,
        share_of_roof=done / roof if roof and done is not None else None,
        share_of_bandwidth=rate / width if rate is not None and width else None,
    )


# --------------------------------------------------------------------------- what to say
_ARCHITECTURES = {"7.0": "volta", "7.5": "turing", "8.0": "ampere", "8.6": "ampere", "8.9": "ada", "9.0": "hopper", "10.0": "blackwell",
                  "10.3": "blackwell", "12.0": "blackwell"}  # fmt: skip
"""Architectures of profiles by compute capability."""


def candidates(table: Table) -> tuple[str, ...]:
    """Names of profiles that fit the device of the file: by its name, else by compute capability and processors."""
    from roofline.errors import RooflineError
    from roofline.spec.find import hardware_names
    from roofline.spec.hardware import load_hardware

    launch = table.launches[0]
    value = launch.counters.get("launch__sm_count") or launch.counters.get("device__attribute_multiprocessor_count")
    architecture = _ARCHITECTURES.get(launch.capability)
    if not launch.device and not (value and architecture):
        return ()
    found = []
    for name in hardware_names():
        try:
            profile = load_hardware(name)
        except RooflineError:
            continue
        if launch.device:
            fits = _matches(profile.match, launch.device)
        else:
            fits = (
                bool(value and architecture) and profile.architecture == architecture and si(profile.processors) == (value and value.value)
            )
        if fits:
            found.append(name)
    return tuple(found)


def _matches(patterns: Sequence[str], device: str) -> bool:
    import re

    return any(re.fullmatch(pattern, device) for pattern in patterns)


def _warnings(table: Table, rows: Sequence[CounterRow], beside: Any) -> list[Notice]:
    found = []
    if not table.locale.certain:
        said = "no number in the file tells whether ',' or '.' is decimal; it was read in English, so that 1,234 is one thousand"
        found.append(Notice(code="N001", message=said))
    if table.skipped_lines:
        found.append(Notice(code="N002", message=f"{table.skipped_lines} lines within the table are no rows of it and were passed over"))
    over = [r.id for r in rows for p in r.points.values() if p and p.share_of_bandwidth is not None and p.share_of_bandwidth > 1.02]
    if over:
        said = f"{', '.join(sorted(set(over))[:5])}: more bytes a second than the profile's bandwidth: another device, or another clock"
        found.append(Notice(code="N003", message=said))
    if beside:
        found += beside.warnings()
    return found
