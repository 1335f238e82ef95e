"""Traces of a small Llama-style decoder, and how much of them is recognised: coverage, and FLOP against the accountant's own.

    PYTHONPATH=. python benchmarks/decoder_trace.py --output results/h200/traces
    PYTHONPATH=. python benchmarks/decoder_trace.py --from results/h200/traces --output results/h200/traces   # read them again, no GPU

A decoder of four layers of Llama 3 8B is run in plain torch: prefill with flash and with naive attention, decoding, and training steps
with fused AdamW. torch.profiler records two steps of each with shapes. Each trace is read by `roofline ingest trace`; its FLOP on the
matrix engine are held against those of the same run described as a workload (`whole_models`), which knows nothing of the trace.
Traces are written with the fields alone that are read, so that they are small and hold nothing of the machine. Ends with 1 where the
coverage of a trace is below ``--least``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from decoder import Decoder, causal_mask
from torch.profiler import ProfilerActivity, profile, schedule
from whole_models import MODELS, Dims, inference, training

from roofline.hardware.profile import Hardware
from roofline.ingest.trace_decode import ARGUMENTS, KINDS
from roofline.ingest.trace_report import ingest_trace
from roofline.ops.base import work_of
from roofline.report.trace import TraceReport
from roofline.report.trace_view import closing_lines, coverage_line, summary_lines
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step

DIMS = replace(MODELS["llama3-8b"], layers=4, vocab=32000)
SMALL = Dims(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128, vocab=256)
WARM, STEPS = 3, 2
Case = tuple[str, Callable[[Dims, str], Callable[[], None]], Callable[[Dims], Iterable[Step]]]


def prefill(batch: int, seq: int, attention: str) -> Callable[[Dims, str], Callable[[], None]]:
    """A step that computes logits of the last position of ``seq`` tokens."""

    def made(d: Dims, device: str) -> Callable[[], None]:
        net = Decoder(d, attention=attention, device=device).eval()
        tokens = torch.randint(d.vocab, (batch, seq), device=device)
        cos, sin = net.tables(0, seq)
        mask = causal_mask(seq, device) if attention == "naive" else None

        @torch.no_grad()
        def step() -> None:
            net(tokens, cos, sin, mask, last=True)

        return step

    return made


def decode(batch: int, context: int) -> Callable[[Dims, str], Callable[[], None]]:
    """A step that decodes one token for each of ``batch`` sequences."""

    def made(d: Dims, device: str) -> Callable[[], None]:
        net = Decoder(d, device=device).eval()
        tokens = torch.randint(d.vocab, (batch, 1), device=device)
        caches, (cos, sin) = net.caches(batch, context), net.tables(context - 1, 1)

        @torch.no_grad()
        def step() -> None:
            net(tokens, cos, sin, caches=caches)

        return step

    return made


def train(batch: int, seq: int) -> Callable[[Dims, str], Callable[[], None]]:
    """A training step: forward, cross entropy in fp32, backward, fused AdamW."""

    def made(d: Dims, device: str) -> Callable[[], None]:
        net = Decoder(d, device=device)
        tokens = torch.randint(d.vocab, (batch, seq + 1), device=device)
        cos, sin = net.tables(0, seq)
        update = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

        def step() -> None:
            update.zero_grad(set_to_none=True)
            logits = net(tokens[:, :-1], cos, sin)
            torch.nn.functional.cross_entropy(logits.view(-1, d.vocab).float(), tokens[:, 1:].reshape(-1)).backward()
            update.step()

        return step

    return made


def cases(small: bool) -> list[Case]:
    """Names, how each is run, and what the accountant says of it."""
    long, short, context = (64, 32, 64) if small else (2048, 1024, 4096)
    return [
        ("prefill-flash", prefill(1, long, "flash"), lambda d: inference(d, 1, long, long, "flash")),
        ("prefill-naive", prefill(1, short, "naive"), lambda d: inference(d, 1, short, short, "naive")),
        ("decode-flash", decode(8, context), lambda d: inference(d, 8, 1, context, "flash")),
        ("train-flash", train(1, short), lambda d: training(d, 1, short)),
    ]


def recorded(step: Callable[[], None], device: str, path: Path) -> None:
    """Record two steps with shapes."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=activities, record_shapes=True, schedule=schedule(wait=WARM, warmup=1, active=STEPS)) as prof:
        for _ in range(WARM + 1 + STEPS):
            step()
            if device == "cuda":
                torch.cuda.synchronize()
            prof.step()
    prof.export_chrome_trace(str(path))


def trimmed(source: Path, target: Path) -> None:
    """The trace with nothing but what is read of it, packed."""
    found = json.loads(source.read_text(encoding="utf-8"))
    keys, arguments = ("ph", "cat", "name", "pid", "tid", "ts", "dur"), set(ARGUMENTS.values())
    processes: dict[Any, int] = {}
    events = []
    for event in found["traceEvents"]:
        if event.get("ph") != "X" or str(event.get("cat")).lower() not in KINDS:
            continue
        kept = {key: event[key] for key in keys if key in event}
        if event["cat"] not in ("kernel", "gpu_memcpy", "gpu_memset"):  # a process number is of the machine
            kept["pid"] = 1
            kept["tid"] = processes.setdefault(event.get("tid"), len(processes) + 1)
        kept["args"] = {key: value for key, value in event.get("args", {}).items() if key in arguments}
        events.append(kept)
    names = [{"id": d.get("id"), "name": d.get("name")} for d in found.get("deviceProperties", [])[:1]]
    text = json.dumps({"schemaVersion": 1, "deviceProperties": names, "traceEvents": events}, separators=(",", ":"))
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def accounted(steps: Iterable[Step]) -> float:
    """FLOP on the matrix engine of one run, by the accountant."""
    return sum(float(work_of(op, None).counts.tensor) * step.repeat for step in steps for op in step.ops())


def flop_ratio(report: TraceReport, counted: float) -> float:
    """FLOP on the matrix engine of a marked step of a trace over those that the accountant counts for it."""
    return (report.known_flop or {}).get("tensor", 0.0) / max(len(report.steps), 1) / counted


def lines_of(name: str, report: TraceReport, counted: float) -> list[str]:
    """What a trace says, its warnings, and how far its FLOP lie from the accountant's."""
    ratio = flop_ratio(report, counted)
    lines = [f"== {name}", coverage_line(report), *summary_lines(report), *closing_lines(report)]
    lines += [f"{w.code}: {w.message}" for w in report.warnings]
    return [*lines, f"FLOP of products a step: {ratio * counted:.6g} in the trace, {counted:.6g} by the workload, ratio {ratio:.6f}", ""]


def main() -> int:
    """Record, read, compare, write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--output", default="traces", help="folder for traces and the summary")
    options.add_argument("--from", dest="source", help="folder of traces made before, to read them again instead of running anything")
    options.add_argument("--device", default="cuda")
    options.add_argument("--hardware", default="h200-sxm")
    options.add_argument("--least", type=float, default=0.95, help="coverage that each trace must have")
    options.add_argument("--small", action="store_true", help="tiny sizes, to try this without a GPU")
    chosen = options.parse_args()
    torch.manual_seed(0)
    folder = Path(chosen.output)
    folder.mkdir(parents=True, exist_ok=True)
    d = SMALL if chosen.small else DIMS
    profile_: Hardware = load_hardware(chosen.hardware)
    lines, low = [], []
    for name, make, steps in cases(chosen.small):
        trace = Path(chosen.source or folder) / f"{name}.pt.trace.json.gz"
        if chosen.source is None:
            with tempfile.TemporaryDirectory() as scratch:
                raw = Path(scratch) / "raw.json"
                recorded(make(d, chosen.device), chosen.device, raw)
                trimmed(raw, trace)
        report = ingest_trace(str(trace), profile_)
        lines += lines_of(name, report, accounted(steps(d)))
        if report.coverage is None or report.coverage < chosen.least:
            low.append(name)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    text = "\n".join(line.rstrip() for line in lines)
    print(text)
    (folder / "summary.txt").write_text(text, encoding="utf-8")
    if low:
        print(f"coverage below {chosen.least}: {', '.join(low)}", file=sys.stderr)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
