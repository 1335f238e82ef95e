"""Our Triton kernels beside what they have to keep up with, in turns on one GPU: a table, and CSV.

    python benchmarks/dataflow_kernels.py -o results/h200/dataflow_kernels.csv
    python benchmarks/dataflow_kernels.py --groups gemm,flash

Each group holds one reference kernel, the first, and others at the same shape; they are checked against float64, tuned, and timed sample by
sample in turn. What goes wrong with a kernel is a row with the reason, and the others go on. Kernels are compiled before that by several
processes at once, into Triton's cache. What is not begun before the time is up is said to be left out.
"""

from __future__ import annotations

import argparse
import csv
import gc
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from roofline.measure.allocate import copies
from roofline.measure.base import Device, Procedure
from roofline.measure.check import check, small_op
from roofline.measure.device import open_device
from roofline.measure.kernels import tuning
from roofline.measure.registry import KERNELS, prepare
from roofline.measure.run import Case, measure_in_turns, place
from roofline.numeric import scalar
from roofline.ops.base import work_of
from roofline.ops.registry import OPERATORS

HEADER = ("group", "shape", "kernel", "fields", "us", "reference_over_this", "goal", "met", "tflop_per_s", "gb_per_s", "extra_mib",
          "error", "apart", "sm_mhz", "tile", "note")  # fmt: skip
QUICK = Procedure(
    cache="warm", launch="graph", warmup_s=0.06, shortest_sample_s=2e-3, fewest_samples=24, shortest_s=0.0, blocks=6, longest_s=3
)


@dataclass(frozen=True)
class Entry:
    """A kernel in a group with fields of its own; ``least`` is the goal for the reference's time over this one's."""

    kernel: str
    fields: dict[str, Any] = field(default_factory=dict)
    least: float | None = None
    operator: str = ""

    @property
    def label(self) -> str:
        """What the table shows."""
        return self.kernel


@dataclass(frozen=True)
class Group:
    """Kernels at one shape, the reference first."""

    name: str
    shape: str
    fields: dict[str, Any]
    entries: tuple[Entry, ...]


def _gemm(size: int) -> Group:
    ours = tuple(Entry(k, {}, 0.85) for k in ("gemm_pipelined", "gemm_persistent"))
    return Group("gemm", f"{size}^3 bf16", {"dtype": "bf16", "m": size, "n": size, "k": size}, (Entry("gemm"), *ours))


def _ladder(size: int) -> Group:
    rungs = ("gemm_naive", "gemm_coalesced", "gemm_shared", "gemm_tiled", "gemm_tensor", "gemm_pipelined", "gemm_persistent")
    fields = {"dtype": "bf16", "m": size, "n": size, "k": size}
    return Group(
        "ladder", f"{size}^3 bf16", fields, tuple(Entry(k, {}, 20.0 if k == "gemm_persistent" else None) for k in (*rungs, "gemm"))
    )


def _flash(length: int, causal: bool, width: int = 128) -> Group:
    fields = {
        "dtype": "bf16",
        "batch": max(1, 16384 // length),
        "heads": 2048 // width,
        "q_len": length,
        "kv_len": length,
        "head_dim": width,
    }
    shape = f"{length} d{width} {'causal' if causal else 'full'}"
    return Group("flash", shape, {**fields, "causal": causal}, (Entry("flash"), Entry("flash_triton", {}, 0.85), Entry("cudnn")))


def _conv(seq: int, gated: bool, batch: int = 64, channels: int = 768) -> Group:
    fields = {"dtype": "bf16", "batch": batch, "channels": channels, "seq": seq, "padding": "circular", "gated": gated}
    orders = [n for n in (2, 3) if (n == 2 and 512 <= seq <= 16384) or (n == 3 and 8192 <= seq <= 32768)]
    ours = tuple(Entry("fft_conv_triton", {"order": n, "real_packing": True}, 4.0) for n in orders)
    return Group("fft_conv", f"{seq} {batch}x{channels}{' gated' if gated else ''}", fields, (Entry("fft_conv"), *ours))


def _monarch(n: int, rows: int) -> Group:
    dense = Entry("gemm", {"m": rows, "n": n, "k": n}, None, "gemm")
    fields = {"dtype": "bf16", "rows": rows, "n": n}
    return Group("monarch", f"{rows}x{n}", fields, (Entry("monarch"), Entry("monarch_triton", {}, 1.5), dense))


def groups() -> list[Group]:
    """In the order of what matters most, should the time run out."""
    rows = [
        _gemm(4096),
        _gemm(8192),
        _flash(4096, True),
        _flash(8192, True),
        _flash(16384, True),
        *[_conv(n, True) for n in (1024, 4096, 8192, 16384, 32768)],
        _monarch(4096, 16384),
        _monarch(16384, 8192),
        _ladder(4096),
        _conv(2048, True),
        *[_conv(n, False) for n in (1024, 4096, 32768)],
        _flash(4096, False),
        _flash(4096, True, 64),
    ]
    shape = {"dtype": "bf16", "rows": 16384, "cols": 8192}
    layer = {"dtype": "bf16", "batch": 32, "seq": 1024, "hidden": 768, "ffn": 3072}
    return [
        *rows,
        Group("softmax", "16384x8192", shape, (Entry("softmax"), Entry("softmax_triton"))),
        Group(
            "rmsnorm",
            "16384x8192 residual",
            {**shape, "residual": True},
            (Entry("rmsnorm"), Entry("rmsnorm_triton"), Entry("rmsnorm_compiled")),
        ),
        Group("m2", "32x1024x768", layer, (Entry("m2"), Entry("m2_triton"))),
    ]


# --------------------------------------------------------------------------- one group
def case_of(group: Group, entry: Entry) -> Case:
    """The kernel on the group's shape."""
    spec = KERNELS[entry.kernel]
    shape = {"dtype": group.fields["dtype"]} if entry.operator else group.fields
    return Case(id=entry.kernel, spec=spec, op=OPERATORS[spec.op](**{**shape, **spec.fields, **entry.fields}))


def first_run(case: Case, device: Device) -> tuple[float, float, torch.Tensor]:
    """Checks the kernel, builds it (which tunes it) and runs it; error, MiB that it took beside its tensors, and its last result."""
    where = place(device)
    found = check(case.spec, small_op(case.spec, case.op), where)
    if not found.passed:
        raise ArithmeticError(f"off by {found.error:.3g}, allowed {found.tolerance:.3g} ({found.against})")
    tensors = copies(case.op, where, 1)[0]
    call = prepare(case.spec, case.op, tensors, device=where)
    call()
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    results = call()
    torch.cuda.synchronize()
    extra = (torch.cuda.max_memory_allocated() - held) / 2**20
    return found.error, extra, results[-1] if isinstance(results, tuple) else results


def said(err: BaseException) -> str:
    """An error in a line."""
    return " ".join(f"{type(err).__name__}: {err}".split())[:300]


def tile_of(case: Case) -> str:
    """The configuration that was chosen last, and what the others took."""
    if case.spec.name in ("gemm", "flash") or not tuning.TRIED:
        return ""
    tried = list(tuning.TRIED.values())[-1]
    return "; ".join(f"{_short(c)} {took * 1e6:.0f}us" if isinstance(took, float) else f"{_short(c)} {took[:80]}" for c, took in tried)


def _short(config: Any) -> str:
    return ",".join(f"{''.join(w[0] for w in k.split('_')).lower()}{v}" for k, v in config.items())


def rows_of(group: Group, device: Device) -> Iterator[dict[str, Any]]:
    """A row a kernel of the group."""
    alive: list[tuple[Entry, Case, dict[str, Any]]] = []
    first: tuple[str, torch.Tensor] | None = None
    for entry in group.entries:
        known = len(tuning.TRIED)
        try:
            case = case_of(group, entry)
            error, extra, result = first_run(case, device)
            tile = tile_of(case) if len(tuning.TRIED) > known else ""
            first = first or (case.op.name, result)
            alive.append(
                (entry, case, {"error": f"{error:.1e}", "extra_mib": round(extra), "tile": tile, "apart": apart(first, case, result)})
            )
            del result
        except Exception as err:  # one kernel that fails must not take the others with it
            yield row(group, entry, note=said(err))
        release()
    if not alive:
        return
    first = None
    results = measure_in_turns([c for _, c, _ in alive], device, QUICK, group.name)
    release()
    reference = results[0].time_s if alive[0][0] is group.entries[0] else 0.0
    for (entry, case, about), result in zip(alive, results, strict=True):
        ratio = reference / result.time_s if result.time_s and reference else None
        work = work_of(case.op, None)
        speed = {
            "us": round(result.time_s * 1e6, 2),
            "tflop_per_s": round(float(scalar(work.counts.tensor)) / result.time_s / 1e12, 1) if result.time_s else "",
            "gb_per_s": round(float(scalar(work.compulsory.hbm)) / result.time_s / 1e9) if result.time_s else "",
            "sm_mhz": round(result.clocks.get("sm_mhz_median") or 0),
        }
        note = "" if result.status == "ok" else f"{result.status}: {'; '.join(result.notes)}"
        yield row(group, entry, ratio, note=note[:300], **about, **speed)


def apart(first: tuple[str, torch.Tensor], case: Case, result: torch.Tensor) -> str:
    """How far the result lies from that of the group's first kernel, on the same inputs at the full shape, in its largest value."""
    name, reference = first
    if name != case.op.name:
        return ""
    return f"{float((result.float() - reference.float()).abs_().max() / reference.abs().max().float()):.1e}"


def release() -> None:
    """Memory of the last kernel; an error that the device kept comes up here and not in the next kernel."""
    gc.collect()
    torch.cuda.empty_cache()


def row(group: Group, entry: Entry, ratio: float | None = None, **more: Any) -> dict[str, Any]:
    """A line of the table."""
    goal = "" if entry.least is None else f">={entry.least:g}"
    met = "" if entry.least is None or ratio is None else ("yes" if ratio >= entry.least else "no")
    fields = " ".join(f"{k}={v}" for k, v in entry.fields.items())
    found = {"group": group.name, "shape": group.shape, "kernel": entry.label, "fields": fields, "goal": goal, "met": met}
    return {**found, "reference_over_this": "" if ratio is None else f"{ratio:.3f}", **more}


# --------------------------------------------------------------------------- compiling before
def compile_all(chosen: Sequence[Group], jobs: int, seconds: float) -> None:
    """Each kind of group in a process of its own, as many at once as given; what they find stays in Triton's cache."""
    kinds = list(dict.fromkeys((g.name, g.shape) for g in chosen))
    shares = [kinds[i::jobs] for i in range(min(jobs, len(kinds)))]
    until = time.monotonic() + seconds
    command = [sys.executable, __file__, "--compile-only", "--shapes"]
    running = [
        subprocess.Popen([*command, "|".join(f"{a}/{b}" for a, b in share)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for share in shares
    ]
    for each in running:
        try:
            each.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.kill()


def compile_only(chosen: Sequence[Group], device: Device) -> None:
    """Build our kernels of the groups and run them once."""
    for group in chosen:
        for entry in group.entries:
            if "triton" not in KERNELS[entry.kernel].needs:
                continue
            try:
                first_run(case_of(group, entry), device)
            except Exception as err:
                print(group.name, entry.kernel, said(err))
            release()


# --------------------------------------------------------------------------- all of them
def shown(found: dict[str, Any]) -> str:
    """A row for people."""
    cells = [f"{found.get(k, '')!s:<{w}}" for k, w in (("group", 9), ("shape", 22), ("kernel", 16), ("fields", 26))]
    widths = {
        "us": 10,
        "reference_over_this": 8,
        "goal": 7,
        "met": 4,
        "tflop_per_s": 7,
        "gb_per_s": 6,
        "extra_mib": 7,
        "error": 8,
        "apart": 8,
    }
    numbers = [f"{found.get(k, '')!s:>{w}}" for k, w in widths.items()]
    return " ".join((*cells, *numbers, str(found.get("note", ""))))


def main() -> None:
    """Compile, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", default="", help="names, separated by commas; all of them if not given")
    parser.add_argument("--shapes", default="", help=argparse.SUPPRESS)
    parser.add_argument("--compile-only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=8, help="processes that compile before anything is measured; 0 for none")
    parser.add_argument("--seconds", type=float, default=225, help="after which no further group is begun")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    wanted = set(filter(None, options.groups.split(",")))
    chosen = [g for g in groups() if not wanted or g.name in wanted]
    if options.shapes:
        chosen = [g for g in chosen if f"{g.name}/{g.shape}" in options.shapes.split("|")]
    if options.compile_only:
        compile_only(chosen, open_device("cuda"))
        return
    if options.jobs:
        compile_all(chosen, options.jobs, options.seconds / 3)
        print(f"# compiled after {time.monotonic() - began:.0f} s", flush=True)
    device = open_device("cuda")
    print(f"# {device.info.name}, torch {torch.__version__}, Triton {device.info.facts.get('triton')}")
    print(
        shown(
            {**{k: k for k in HEADER}, "reference_over_this": "ref/this", "tflop_per_s": "TFLOP/s", "gb_per_s": "GB/s", "extra_mib": "MiB"}
        )
    )
    found: list[dict[str, Any]] = []
    for group in chosen:
        if time.monotonic() - began > options.seconds:
            found.append({"group": group.name, "shape": group.shape, "note": "left out: the time is up"})
        else:
            found.extend(contained(group, device))
        if options.output:
            write(options.output, found)
    print(f"# {time.monotonic() - began:.0f} s")


def contained(group: Group, device: Device) -> list[dict[str, Any]]:
    """The rows of a group, printed as they come; what goes wrong with all of it is a row."""
    rows = []
    try:
        for each in rows_of(group, device):
            rows.append(each)
            print(shown(each), flush=True)
    except Exception as err:
        rows.append({"group": group.name, "shape": group.shape, "note": said(err)})
        print(shown(rows[-1]), flush=True)
    return rows


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """All rows so far: a run that is cut short leaves what it found."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, HEADER, restval="")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
