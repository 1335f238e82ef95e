"""Bytes and binding levels of our kernels by hardware counters (Nsight Compute), beside what dataflows and operators predict.

    python benchmarks/dataflow_counters.py -o results/h200/dataflow_counters.csv
    python benchmarks/dataflow_counters.py --from results/h200/dataflow_counters.csv      # the tables again, without a GPU

The script starts ``ncu`` on itself twice. The first run counts bytes with few enough counters for one pass, so that no kernel is replayed
and what one kernel of a case leaves in L2 is there for the next; before it L2 is filled with clean lines, after it a kernel that only reads
drives out what the case left dirty, and its writes count as the case's. The second run counts work of each resource, in several passes.
Kernels are compiled before that by several processes, and tuned in the first run while nothing is profiled; the second takes those tiles.
The file is long: a row for each counter of each launch, and for each tile size (run ``tile``) and failure (run ``failed``).
"""

from __future__ import annotations

import argparse
import ast
import csv
import gc
import glob
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the project, which may not be installed

HEADER = ("run", "case", "launch", "kernel", "metric", "value", "unit")
Row = dict[str, str]
BYTES = ("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum")
PEAK = ".avg.pct_of_peak_sustained_elapsed"
LEVELS = (
    *BYTES, "sm__cycles_elapsed.max", "lts__t_sectors_srcunit_tex.sum", "lts__t_sectors_srcunit_ltcfabric.sum", f"lts__t_sectors{PEAK}",
    f"lts__throughput{PEAK}", f"dram__throughput{PEAK}", f"l1tex__throughput{PEAK}", f"sm__throughput{PEAK}",
    "l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum", "lts__t_sectors_op_write.sum",
    f"l1tex__m_xbar2l1tex_read_sectors{PEAK}", "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", f"l1tex__data_bank_reads{PEAK}", f"l1tex__data_bank_writes{PEAK}",
    f"sm__pipe_tensor_cycles_active{PEAK}", "sm__ops_path_tensor_src_bf16_dst_fp32.sum", "smsp__inst_executed_pipe_fma.sum",
    "smsp__inst_executed_pipe_alu.sum", "smsp__inst_executed_pipe_xu.sum", "smsp__inst_executed.sum",
)  # fmt: skip
SEEN = ("gpu__", "dram__", "lts__t_bytes", "lts__throughput", "l1tex__throughput", "sm__throughput", "sm__cycles_elapsed",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared", "sm__ops_path_tensor", "smsp__inst_executed_pipe_xu")  # fmt: skip
"""What is asked for even where ncu does not say which counters there are."""
KEPT = ("launch__grid_size", "launch__block_size", "launch__registers_per_thread", "launch__shared_mem_per_block_dynamic")
DRAIN = "~drain"
"""Ends the name of the range of the kernel that drives out dirty lines."""
FLUSH_BYTES = 2**28
IN_FILES = {"s": (1e9, "ns"), "1": (1.0, "")}
"""Factor and unit that a row has where it is not the base unit of the reader."""


@dataclass(frozen=True)
class Counted:
    """A case: a kernel at a shape, the dataflow of it where the catalogue names none, and kernels that this dataflow leaves out."""

    name: str
    kernel: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    dataflow: str = ""
    apart: str = ""


def _gemm(group: str, kernel: str, size: int) -> Counted:
    dataflow = "gemm:pipelined" if kernel == "gemm" else ""
    return Counted(f"{group}/{kernel}/{size}", kernel, {"dtype": "bf16", "m": size, "n": size, "k": size}, dataflow)


def _conv(order: int, seq: int) -> Counted:
    shape = {"dtype": "bf16", "batch": 64, "channels": 768, "seq": seq, "padding": "circular", "gated": True}
    more = {"order": order, "real_packing": True}
    return Counted(f"fft_conv/order{order}/{seq}", "fft_conv_triton", {**shape, **more}, apart="spectrum")


def cases() -> list[Counted]:
    """In the order of what matters most, should the time run out."""
    heads = {"dtype": "bf16", "batch": 4, "heads": 16, "q_len": 4096, "kv_len": 4096, "head_dim": 128, "causal": True}
    rows = {"dtype": "bf16", "rows": 16384, "cols": 8192}
    rungs = ("gemm_coalesced", "gemm_shared", "gemm_tiled", "gemm_tensor", "gemm_pipelined", "gemm_persistent", "gemm")
    return [
        *(_gemm("ladder", k, 4096) for k in rungs),
        Counted("flash/triton/4096", "flash_triton", heads),
        Counted("flash/torch/4096", "flash", heads, "attention:flash2"),
        Counted("softmax/triton", "softmax_triton", rows),
        Counted("softmax/torch", "softmax", rows, "softmax:safe"),
        _conv(2, 4096),
        _conv(3, 16384),
        Counted("monarch/triton/4096", "monarch_triton", {"dtype": "bf16", "rows": 16384, "n": 4096}),
        _gemm("ladder", "gemm_naive", 2048),
        *(_gemm("gemm", k, 8192) for k in ("gemm", "gemm_pipelined", "gemm_persistent")),
        _conv(2, 16384),
    ]


def operator(case: Counted) -> Any:
    """What the case executes, as its kernel runs it."""
    from roofline.measure.registry import KERNELS
    from roofline.ops.registry import OPERATORS

    spec = KERNELS[case.kernel]
    return OPERATORS[spec.op](**{**spec.fields, **case.fields})


def said(err: BaseException) -> str:
    """An error in a line."""
    return " ".join(f"{type(err).__name__}: {err}".split())[:300]


# --------------------------------------------------------------------------- under the profiler
def inner(run: str, chosen: Sequence[Counted], notes: Path, seconds: float) -> None:
    """Runs each case once in a range of its name; what it finds out goes to ``notes`` line by line. Run ``compile`` only builds."""
    import torch

    from roofline.measure.device import open_device
    from roofline.measure.kernels import tuning

    until = time.monotonic() + seconds
    device = open_device("cuda")
    tuning._FASTEST.update({ast.literal_eval(key): index for key, index in _noted(notes, "fastest")})
    for case in chosen:
        if time.monotonic() > until:
            _note(notes, case=case.name, failed=f"{run}: left out, the time is up")
            continue
        try:
            _one(run, case, device, notes)
        except Exception as err:  # one kernel that fails must not take the others with it
            _note(notes, case=case.name, failed=f"{run}: {said(err)}")
        gc.collect()
        torch.cuda.empty_cache()
    for key, index in tuning._FASTEST.items() if run == "bytes" else ():
        _note(notes, fastest=[repr(key), index])


def _one(run: str, case: Counted, device: Any, notes: Path) -> None:
    import torch

    from roofline.measure.allocate import copies
    from roofline.measure.kernels import gemm_ladder, tuning
    from roofline.measure.registry import KERNELS, prepare
    from roofline.measure.run import place

    fixed = {"gemm_naive": gemm_ladder.LINE, "gemm_coalesced": gemm_ladder.LINE, "gemm_shared": gemm_ladder.SHARED,
             "gemm_tensor": gemm_ladder.UNPIPELINED}  # fmt: skip
    op, known = operator(case), len(tuning.TRIED)
    tensors = copies(op, place(device), 1)[0]
    call = prepare(KERNELS[case.kernel], op, tensors, device=place(device))
    call()
    torch.cuda.synchronize()
    if run == "compile":
        return
    if case.kernel in fixed:
        _note(notes, case=case.name, tile=dict(fixed[case.kernel][0]))
    elif len(tuning.TRIED) > known:
        found = [(took, i, config) for i, (config, took) in enumerate(list(tuning.TRIED.values())[-1]) if isinstance(took, float)]
        _note(notes, case=case.name, tile=dict(min(found)[2]))
    scratch = torch.empty(FLUSH_BYTES // 4, dtype=torch.float32, device=place(device)).fill_(1.0)
    torch.max(scratch)  # lines that were read are clean: none of them is written back while the case runs
    torch.cuda.synchronize()
    _profiled(case.name, call)
    if run == "bytes":
        _profiled(case.name + DRAIN, lambda: torch.max(scratch))


def _profiled(name: str, call: Any) -> None:
    import torch

    torch.cuda.nvtx.range_push(name)
    torch.cuda.profiler.start()
    try:
        call()
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
        torch.cuda.nvtx.range_pop()


def _note(notes: Path, **what: Any) -> None:
    with notes.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(what) + "\n")


def _noted(notes: Path, key: str) -> Iterator[Any]:
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    for line in lines:
        found = json.loads(line)
        if key in found:
            yield found[key] if "case" not in found else (found["case"], found[key])


# --------------------------------------------------------------------------- starting the profiler
def outer(options: argparse.Namespace) -> list[Row]:
    """Compiles, profiles twice, and writes all rows so far after each step."""
    began = time.monotonic()
    ncu = shutil.which("ncu") or next(iter(glob.glob("/usr/local/cuda*/bin/ncu") + glob.glob("/opt/nvidia/nsight-compute/*/ncu")), "")
    if not ncu:
        raise SystemExit("ncu (Nsight Compute) is not on the PATH, nor where it is installed by default")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        there = subprocess.Popen([ncu, "--query-metrics"], stdout=(Path(folder) / "there").open("w"), stderr=subprocess.STDOUT)
        if options.jobs:
            _compile(options, options.seconds / 2.5)
        try:
            there.wait(30)
        except subprocess.TimeoutExpired:
            there.kill()
        known = set(re.findall(r"^(\w+__\w+)", (Path(folder) / "there").read_text(), re.M))
        print(f"# {time.monotonic() - began:.0f} s: compiled; ncu knows {len(known)} counters", flush=True)
        for run, asked, share in (("bytes", BYTES, 0.6), ("levels", LEVELS, 1.0)):
            metrics = [m for m in asked if m.startswith(SEEN) or m.split(".")[0] in known]
            if missing := sorted(set(asked) - set(metrics)):
                print(f"# {run}: not asked for, since ncu does not know: {', '.join(missing)}")
            left = max(10.0, options.seconds - (time.monotonic() - began))
            rows += _profile(ncu, run, metrics, options, notes, left * share)
            print(f"# {time.monotonic() - began:.0f} s: {run}, {len({(r['case'], r['launch']) for r in rows if r['run'] == run})} launches")
            write(options.output, [*rows, *_from_notes(notes)])
        return [*rows, *_from_notes(notes)]


def _inner_command(run: str, notes: Path | str, seconds: float, only: str) -> list[str]:
    return [sys.executable, __file__, "--inner", run, "--notes", str(notes), "--seconds", f"{seconds:.0f}", "--cases", only]


def _compile(options: argparse.Namespace, seconds: float) -> None:
    names = [c.name for c in selected(options.cases) if c.kernel not in ("gemm", "flash", "softmax")]
    shares = [names[i :: options.jobs] for i in range(min(options.jobs, len(names)))]
    commands = [_inner_command("compile", "/dev/null", seconds, ",".join(s)) for s in shares]
    running = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands]
    until = time.monotonic() + seconds
    for each in running:
        try:
            each.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.kill()


def _profile(ncu: str, run: str, metrics: list[str], options: argparse.Namespace, notes: Path, seconds: float, tries: int = 3) -> list[Row]:
    """The counters of one run; counters that ncu refuses are left out and the run is begun again."""
    log = notes.with_name(f"{run}.log")
    command = [
        ncu, "--target-processes", "all", "--profile-from-start", "off", "--nvtx", "--clock-control", "none", "--cache-control", "none",
        "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log), "--metrics", ",".join(metrics),
        *_inner_command(run, notes, seconds - 5, options.cases),
    ]  # fmt: skip
    log.unlink(missing_ok=True)
    try:
        done = subprocess.run(command, timeout=seconds + 30, capture_output=True, text=True, check=False)
        printed = done.stdout + done.stderr
    except (subprocess.TimeoutExpired, OSError) as err:
        printed = said(err)
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    passes = sorted(set(re.findall(r"- (\d+) pass(?:es)?", text + printed)), key=int)
    print(f"# {run}: {', '.join(passes) or '?'} passes a kernel")
    errors = list(dict.fromkeys(line for line in (text + "\n" + printed).splitlines() if "ERROR" in line or "NVGPUCTRPERM" in line))
    print(*errors[:10], sep="\n", end="\n" if errors else "")
    rows = long_rows(run, log)
    refused = [m for m in metrics if any("metric" in e and m.split(".")[0] in e for e in errors)]
    if not rows and refused and tries > 1:
        return _profile(ncu, run, [m for m in metrics if m not in refused], options, notes, seconds, tries - 1)
    if not rows:
        print(*[line for line in (text + printed).splitlines() if line.strip()][-20:], sep="\n")
    return rows


# --------------------------------------------------------------------------- tables of ncu and of ours
def long_rows(run: str, log: Path) -> list[Row]:
    """What ncu wrote as a row for each counter of each launch, those that were asked for; none, and why, where there is no table."""
    from roofline.errors import InputError
    from roofline.ingest.ncu_read import read_table

    asked = (*KEPT, *LEVELS)
    try:
        launches = read_table(str(log), asked).launches
    except InputError as err:
        print(err)
        return []
    found = []
    for launch in launches:
        about = {"run": run, "case": next(iter(launch.ranges), "?"), "launch": launch.id, "kernel": launch.kernel[:80]}
        for name, value in launch.counters.items():
            if name in asked:  # ncu adds what it knows of the device, and the least, mean and largest of each counter
                factor, unit = IN_FILES.get(value.unit, (1.0, value.unit))
                found.append({**about, "metric": name, "value": f"{value.value * factor:.15g}", "unit": unit})
    return found


def _from_notes(notes: Path) -> list[Row]:
    def row(run: str, case: str, metric: str, value: Any) -> Row:
        return {"run": run, "case": case, "launch": "", "kernel": "", "metric": metric, "value": str(value), "unit": ""}

    tiles = dict(_noted(notes, "tile"))
    found = [row("tile", case, name, int(value)) for case, tile in tiles.items() for name, value in tile.items()]
    return [*found, *(row("failed", case, "why", why) for case, why in _noted(notes, "failed"))]


def write(path: Path, rows: Iterable[Row]) -> None:
    """All rows so far."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, HEADER)
        table.writeheader()
        table.writerows(rows)


def read(path: Path) -> list[Row]:
    """The rows of such a file."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def selected(names: str) -> list[Counted]:
    """The cases whose names begin with one of those given, separated by commas; all for an empty text."""
    wanted = tuple(filter(None, names.split(",")))
    return [c for c in cases() if not wanted or c.name.startswith(wanted)]


def main() -> None:
    """Profile and show, or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("dataflow_counters.csv"))
    parser.add_argument("--from", dest="source", type=Path, help="a file of -o: only show it, which needs no GPU")
    parser.add_argument("--cases", default="", help="beginnings of names, separated by commas; all of them if not given")
    parser.add_argument("--hardware", default="h200-sxm", help="the profile that the predictions are of")
    parser.add_argument("--jobs", type=int, default=12, help="processes that compile first; 0 where Triton's cache is warm")
    parser.add_argument("--seconds", type=float, default=75, help="after which no further case is begun")
    parser.add_argument("--inner", help=argparse.SUPPRESS)
    parser.add_argument("--notes", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inner:
        inner(options.inner, selected(options.cases), options.notes, options.seconds)
        return
    from benchmarks.dataflow_counters_shown import shown

    rows = read(options.source) if options.source else outer(options)
    print(shown(rows, selected(options.cases), options.hardware))


if __name__ == "__main__":
    main()
