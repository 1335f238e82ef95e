"""Decoders over several GPUs in plain torch: prefill and decode by tensor parallelism and in a pipeline, training by DDP and by FSDP2.

    torchrun --standalone --nproc-per-node 2 benchmarks/sharded_decoder.py --only tp,ddp,fsdp -o results/h200-x2/sharded.csv
    torchrun --standalone --nproc-per-node 2 benchmarks/sharded_decoder.py --only pp -o results/h200-x2/pipeline.csv

Each case is timed as it is and with its communication left out, rank against rank the slowest of each round, so that what of the
communication is exposed stands apart; of a pipeline that is the way between stages and what a stage waits for the others.
`sharded_predicted.py` predicts the same cases, and needs no GPU. On CPUs (`--device cpu`) it runs tiny shapes over gloo, to see that it
works.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from decoder import Decoder, Exchange
from decoder_stages import ROUNDS, Hops, Stage, decode, prefill
from whole_models import MODELS, Dims

HEADER = ("way", "model", "phase", "ranks", "batch", "microbatches", "seq", "context", "mode", "ms", "min", "max", "alone_ms", "rounds")
TINY = Dims(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128, vocab=512)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run: prefill or decode by tp or, in so many ``microbatches``, by pp; ddp or fsdp training, whose ``batch`` is that of a rank."""

    way: str
    model: str
    phase: str
    batch: int
    seq: int = 0
    context: int = 0
    microbatches: int = 0


CASES = (
    *(Case(way="tp", model="llama3-8b", phase="prefill", batch=b, seq=s) for b, s in ((1, 2048), (1, 8192), (4, 4096))),
    *(Case(way="tp", model="llama3-8b", phase="decode", batch=b, context=c) for b, c in ((1, 4096), (16, 4096), (64, 4096), (32, 16384))),
    *(Case(way="tp", model="llama3.2-1b", phase="prefill", batch=b, seq=s) for b, s in ((1, 8192), (8, 2048))),
    *(Case(way="tp", model="llama3.2-1b", phase="decode", batch=b, context=4096) for b in (1, 32)),
    *(Case(way=w, model="llama3.2-1b", phase="train", batch=b, seq=2048) for w in ("ddp", "fsdp") for b in (1, 4)),
    *(Case(way=w, model="gpt2-medium-like", phase="train", batch=8, seq=1024) for w in ("ddp", "fsdp")),
    *(Case(way="fsdp", model="llama3-8b", phase="train", batch=b, seq=2048) for b in (2, 4)),
    *(Case(way=w, model="llama3.2-1b", phase="train", batch=8, seq=2048) for w in ("ddp", "fsdp")),
    *(Case(way=w, model="gpt2-medium-like", phase="train", batch=32, seq=1024) for w in ("ddp", "fsdp")),
    *(Case(way="pp", model="llama3.2-1b", phase="prefill", batch=8, seq=2048, microbatches=n) for n in (1, 2, 4, 8)),
    *(Case(way="pp", model="llama3-8b", phase="prefill", batch=8, seq=2048, microbatches=n) for n in (1, 2, 4, 8)),
    *(Case(way="pp", model="llama3.2-1b", phase="decode", batch=32, context=4096, microbatches=n) for n in (1, 2, 4)),
    *(Case(way="pp", model="llama3-8b", phase="decode", batch=32, context=4096, microbatches=n) for n in (1, 2, 4)),
)


# --------------------------------------------------------------------------- timing
class Timer:
    """Seconds of a callable on all ranks: in each round the slowest rank."""

    def __init__(self, device: str, rounds: int) -> None:
        self.cuda, self.rounds = device == "cuda", rounds

    def times(self, run: Callable[[], object], calls: int) -> list[float]:
        """One time a round, of ``calls`` calls back to back."""
        for _ in range(2):
            run()
        return [self._slowest(self._once(run, calls) / calls) for _ in range(self.rounds)]

    def _once(self, run: Callable[[], object], calls: int) -> float:
        dist.barrier()
        self._wait()
        if not self.cuda:
            start = time.perf_counter()
            for _ in range(calls):
                run()
            return time.perf_counter() - start
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        self._wait()
        return begin.elapsed_time(end) / 1e3

    def _wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def _slowest(self, seconds: float) -> float:
        found = torch.tensor(seconds, dtype=torch.float64, device="cuda" if self.cuda else "cpu")
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return float(found)


# --------------------------------------------------------------------------- inference
def inference(case: Case, d: Dims, timer: Timer, device: str) -> tuple[list[float], list[float]]:
    """Times with communication and without."""
    exchange = Exchange(dist.group.WORLD, dist.get_world_size())
    with torch.no_grad():
        model = Decoder(d, exchange, device=device)
        decoding = case.phase == "decode"
        tokens = torch.randint(0, d.vocab, (case.batch, 1 if decoding else case.seq), device=device)
        cos, sin = model.tables(case.context - 1, 1) if decoding else model.tables(0, case.seq)
        caches = model.caches(case.batch, case.context) if decoding else None

        def run() -> Tensor:
            return model(tokens, cos, sin, caches=caches, last=True)

        found = []
        for off in (False, True):
            exchange.off = off
            found.append(timer.times(*((graphed(run), 5) if decoding and device == "cuda" else (run, 1))))
    return found[0], found[1]


def graphed(run: Callable[[], object]) -> Callable[[], object]:
    """A captured graph of it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        run()
    return graph.replay


# --------------------------------------------------------------------------- pipelines
def pipelined(case: Case, d: Dims, hops: Hops, timer: Timer, device: str) -> tuple[list[float], list[float]]:
    """Times of a step over the stages, and of the same where no rank waits for another; of decode a token, the mean of many."""
    rounds = 1 if case.phase == "prefill" else ROUNDS if device == "cuda" else 3
    found = []
    with torch.no_grad():
        stage = Stage(d, hops, device)
        if case.phase == "prefill":
            run = prefill(stage, case.batch, case.seq, case.microbatches)
        else:
            captured = graphed if device == "cuda" else lambda run: run
            run = decode(stage, case.batch, case.context, case.microbatches, rounds, captured)
        for off in (False, True):
            hops.off = off
            found.append([seconds / rounds for seconds in timer.times(run, 1)])
    return found[0], found[1]


# --------------------------------------------------------------------------- training
def training(case: Case, d: Dims, timer: Timer, device: str, traces: Path | None = None) -> tuple[list[float], list[float]]:
    """Times of a step, and of the same step of a model that is not spread; a step of the first rank is traced into ``traces``."""
    tokens = torch.randint(0, d.vocab, (case.batch, case.seq), device=device)
    alone = _alone(case, d, timer, tokens, device)
    model = Decoder(d, device=device)
    if case.way == "ddp":
        spread: Any = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    else:
        from torch.distributed.fsdp import fully_shard

        for layer in model.layers:
            fully_shard(layer)
        spread = fully_shard(model)
    step = stepper(spread, model, tokens, device)
    found = timer.times(step, 1)
    if traces is not None:
        traced(step, traces / f"{case.way}_{case.model}_b{case.batch}.json.gz")
    return found, alone


def traced(step: Callable[[], object], path: Path) -> None:
    """One step of all ranks under torch.profiler, the trace of the first one kept."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    with profile(activities=kinds, record_shapes=True) as found:
        step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    if dist.get_rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        found.export_chrome_trace(str(path))


def _alone(case: Case, d: Dims, timer: Timer, tokens: Tensor, device: str) -> list[float]:
    """The same step on each rank for itself, where one rank can hold it."""
    if d.parameters * 8 > 60e9:
        return []
    model = Decoder(d, device=device)
    return timer.times(stepper(model, model, tokens, device), 1)


def stepper(called: nn.Module, model: Decoder, tokens: Tensor, device: str) -> Callable[[], object]:
    """One step: forward, cross entropy of fp32 logits, backward, fused AdamW."""
    cos, sin = model.tables(0, tokens.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda" or None)
    labels = tokens.flatten()

    def step() -> None:
        logits = called(tokens, cos, sin)
        loss = F.cross_entropy(logits.float().view(-1, model.d.vocab), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


# --------------------------------------------------------------------------- all cases
def rows(cases: list[Case], device: str, rounds: int, seconds: float, traces: Path | None = None) -> Iterator[dict[str, Any]]:
    """Every case; what cannot be run is said and left out. After ``seconds`` no further one is begun, on all ranks alike."""
    begun = time.monotonic()
    timer = Timer(device, rounds)
    hops = Hops() if any(case.way == "pp" for case in cases) else None
    for case in cases:
        late = torch.tensor(float(time.monotonic() - begun > seconds), device=device)
        dist.all_reduce(late, op=dist.ReduceOp.MAX)
        if float(late):
            say(f"out of time before {case}")
            return
        d = TINY if device == "cpu" else MODELS[case.model]
        if case.phase == "train":
            times, alone = training(case, d, timer, device, traces)
        elif case.way == "pp" and hops:
            times, alone = pipelined(case, d, hops, timer, device)
        else:
            times, alone = inference(case, d, timer, device)
        yield row(case, times, alone, "graph" if case.phase == "decode" and device == "cuda" else "eager")
        if device == "cuda":
            torch.cuda.empty_cache()


def row(case: Case, times: list[float], alone: list[float], mode: str) -> dict[str, Any]:
    """The row of a case, in milliseconds."""
    ms = [1e3 * t for t in times]
    return {
        "way": case.way, "model": case.model, "phase": case.phase, "ranks": dist.get_world_size(), "batch": case.batch,
        "microbatches": case.microbatches or "", "seq": case.seq or "", "context": case.context or "", "mode": mode,
        "ms": f"{statistics.median(ms):.4f}", "min": f"{min(ms):.4f}", "max": f"{max(ms):.4f}",
        "alone_ms": f"{1e3 * statistics.median(alone):.4f}" if alone else "", "rounds": len(ms),
    }  # fmt: skip


def say(text: str) -> None:
    """On the first rank."""
    if dist.get_rank() == 0:
        print(text, flush=True)


def main() -> None:
    """Measure, and write on the first rank."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=150, help="after which no further case is begun")
    parser.add_argument("--only", default="", help="beginnings of way/model/phase/batch, separated by commas; all cases if not given")
    parser.add_argument("--traces", type=Path, help="folder for a trace of a step of each training case")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    wanted = tuple(options.only.split(","))
    cases = [c for c in CASES if f"{c.way}/{c.model}/{c.phase}/{c.batch}".startswith(wanted)]
    if options.device == "cpu":
        cases = [replace(c, model="tiny", batch=max(2, c.microbatches), seq=c.seq and 32, context=c.context and 32) for c in cases]
    lines = open(options.output, "w", newline="", encoding="utf-8") if dist.get_rank() == 0 else nullcontext(None)  # noqa: SIM115
    with lines as stream:
        writer = csv.DictWriter(stream, HEADER) if stream else None
        if stream and writer:
            name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
            stream.write(f"# {name} x{dist.get_world_size()}, torch {torch.__version__}, ms a step, the slowest rank of each round; ")
            stream.write("alone_ms: communication left out (tp, pp), not spread (training); command: ")
            stream.write("torchrun --standalone --nproc-per-node N benchmarks/sharded_decoder.py -o FILE\n")
            writer.writeheader()
        for found in rows(cases, options.device, options.rounds, options.seconds, options.traces):
            say(", ".join(f"{k} {v}" for k, v in found.items() if v != ""))
            if stream and writer:
                writer.writerow(found)
                stream.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
