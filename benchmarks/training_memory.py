"""Peak memory of training steps, prefills and decoding steps in plain torch; `training_memory_predicted.py` sets predictions beside it.

    python benchmarks/training_memory.py -o results/h200/memory.csv
    torchrun --standalone --nproc-per-node 2 benchmarks/training_memory.py --way fsdp -o results/h200-x2/memory_fsdp.csv

The decoders are those of `decoder.py` with flash attention; a training step is forward, cross entropy of fp32 logits, backward and fused
AdamW whose moments are bf16 like the weights. Figures are of torch's allocator, which knows nothing of the CUDA context and of NCCL:
what is live after the model, the first step's optimizer states, the forward pass and the backward pass, and the peaks of the third
step, or of another `--step`: in the second DDP lays its buckets out anew, which is over by the fifth. Gradients are freed after each
step, so that at the loss there are none, unless `--keep-gradients` leaves them in place as accumulation does. On CPUs (`--device cpu`)
tiny shapes run, whose bytes nobody counts.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]
from whole_models import MODELS, Dims  # noqa: E402

ASKED = ("way", "ranks", "model", "phase", "batch", "seq", "recompute", "gradients", "step")
COUNTED = ("weights", "caches", "optimizer", "saved", "grown", "peak_forward", "peak_backward", "peak_step", "peak", "reserved")
"""Bytes, each behind its name: live after the model (and its caches) and after the first step; what a forward pass and what a backward
pass of the step that is counted leave behind; the peaks of its three parts, and of all; and what the allocator holds."""
HEADER = (*ASKED, *(f"{name}_bytes" for name in COUNTED))
TINY = Dims(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128, vocab=512)
BLOCK = 32 << 20
"""What libraries may hold between two cases, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of one rank: ``seq`` are the tokens of a sequence, in a cache while decoding; ``batch`` is that of the rank."""

    model: str
    phase: str
    batch: int
    seq: int
    recompute: str = "none"


@dataclass(frozen=True, kw_only=True)
class Loop:
    """How a step is run: spread by ``way``, with gradients kept or freed, and which step is counted."""

    device: str
    way: str = ""
    keep: bool = False
    step: int = 3


CASES = (
    *(Case(model="llama3.2-1b", phase="train", batch=b, seq=2048) for b in (1, 4, 8)),
    *(Case(model="llama3.2-1b", phase="train", batch=b, seq=2048, recompute="full") for b in (1, 8)),
    *(Case(model="gpt2-medium-like", phase="train", batch=b, seq=1024) for b in (8, 32)),
    Case(model="gpt2-medium-like", phase="train", batch=32, seq=1024, recompute="full"),
    *(Case(model="llama3.2-1b", phase="prefill", batch=b, seq=s) for b, s in ((1, 8192), (8, 2048))),
    *(Case(model="llama3.2-1b", phase="decode", batch=b, seq=4096) for b in (1, 32)),
    Case(model="llama3-8b", phase="prefill", batch=4, seq=4096),
    Case(model="llama3-8b", phase="decode", batch=64, seq=4096),
)


# --------------------------------------------------------------------------- measured
class Watch:
    """Bytes of torch's allocator; nothing on a device that counts none."""

    def __init__(self, device: str) -> None:
        import torch

        self.cuda = torch.cuda if device == "cuda" else None
        self.found: dict[str, int] = {}
        self.base = 0

    def begin(self) -> None:
        """Forget all that was, and count from what is live now."""
        gc.collect()
        if self.cuda:
            self.cuda.synchronize()
            self.cuda.empty_cache()
            self.cuda.reset_peak_memory_stats()
            self.base = self.cuda.memory_allocated()
            if self.base > BLOCK:
                print(f"{self.base} B are still held by what ran before; run this case alone with --only", file=sys.stderr)

    def live(self) -> int:
        """Bytes of all tensors, those of before left out."""
        return self.cuda.memory_allocated() - self.base if self.cuda else 0

    def mark(self, name: str, amount: int) -> None:
        """Note an amount."""
        if self.cuda:
            self.found[f"{name}_bytes"] = amount

    def peak(self, name: str) -> None:
        """Note the peak since the last one."""
        if self.cuda:
            self.cuda.synchronize()
            self.found[f"{name}_bytes"] = self.cuda.max_memory_allocated() - self.base
            self.cuda.reset_peak_memory_stats()


def measured(case: Case, d: Dims, loop: Loop) -> dict[str, Any]:
    """The row of a case."""
    import torch
    import torch.distributed as dist

    watch, training = Watch(loop.device), case.phase == "train"
    watch.begin()
    if training:
        _trained(case, d, loop, watch)
    else:
        _served(case, d, loop.device, watch)
    found = watch.found
    peaks = [amount for name, amount in found.items() if name.startswith("peak_")]
    if peaks:
        found |= {"peak_bytes": max(peaks), "reserved_bytes": torch.cuda.max_memory_reserved()}
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    said = {"way": loop.way, "ranks": ranks, "model": case.model, "phase": case.phase, "batch": case.batch, "seq": case.seq}
    stepped = {"gradients": "kept" if loop.keep else "freed", "step": loop.step} if training else {"gradients": "", "step": ""}
    return {**said, "recompute": case.recompute, **stepped, **_of_fullest(found, loop.device)}


def _of_fullest(found: dict[str, int], device: str) -> dict[str, int]:
    """Of several ranks the figures of the one with the largest peak."""
    import torch
    import torch.distributed as dist

    if not dist.is_initialized() or not found:
        return found
    own = torch.tensor(list(found.values()), dtype=torch.int64, device=device)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    at = list(found).index("peak_bytes")
    return dict(zip(found, max((amounts.tolist() for amounts in every), key=lambda amounts: amounts[at]), strict=True))


def _trained(case: Case, d: Dims, loop: Loop, watch: Watch) -> None:
    """Steps up to the one that is counted."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from decoder import Decoder

    model = Decoder(d, device=loop.device)
    if case.recompute == "full":
        _computed_again(model)
    called = _spread(model, loop.way)
    watch.mark("weights", watch.live())
    tokens = torch.randint(0, d.vocab, (case.batch, case.seq), device=loop.device)
    cos, sin = model.tables(0, case.seq)
    optimizer = torch.optim.AdamW(called.parameters(), lr=1e-4, fused=loop.device == "cuda" or None)

    def loss() -> torch.Tensor:
        return F.cross_entropy(called(tokens, cos, sin).float().view(-1, d.vocab), tokens.flatten())

    for before in range(1, loop.step):
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not loop.keep)
        if watch.cuda and before == 1:
            watch.cuda.synchronize()
            watch.mark("optimizer", watch.live() - watch.found["weights_bytes"])
    _stepped(loss, optimizer, watch)


def _stepped(loss: Callable[[], Any], optimizer: Any, watch: Watch) -> None:
    """One step in its three parts."""
    if watch.cuda:
        watch.cuda.reset_peak_memory_stats()
    before = watch.live()
    value = loss()
    watch.peak("peak_forward")
    watch.mark("saved", watch.live() - before)
    value.backward()
    watch.peak("peak_backward")
    watch.mark("grown", watch.live() - before)
    optimizer.step()
    watch.peak("peak_step")


def _computed_again(model: Any) -> None:
    """Each layer keeps its input and runs its forward pass again in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    for layer in model.layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)


def _spread(model: Any, way: str) -> Any:
    """As `sharded_decoder` spreads it: a unit of FSDP2 for each layer and one for the rest."""
    from torch import nn

    if way == "ddp":
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if way == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)
    return model


def _served(case: Case, d: Dims, device: str, watch: Watch) -> None:
    """A prefill beside the caches that it would fill, or one decoded token."""
    import torch
    from decoder import Decoder

    with torch.no_grad():
        model, decoding = Decoder(d, device=device), case.phase == "decode"
        watch.mark("weights", watch.live())
        caches = model.caches(case.batch, case.seq)
        watch.mark("caches", watch.live() - watch.found.get("weights_bytes", 0))
        tokens = torch.randint(0, d.vocab, (case.batch, 1 if decoding else case.seq), device=device)
        cos, sin = model.tables(case.seq - 1, 1) if decoding else model.tables(0, case.seq)
        for _ in range(2):
            watch.peak("peak_forward")
            model(tokens, cos, sin, caches=caches if decoding else None, last=True)
        watch.peak("peak_forward")


def rows(cases: list[Case], loop: Loop) -> Iterator[dict[str, Any]]:
    """Every case; what cannot be run for want of memory has no figures."""
    import torch

    for case in cases:
        d = TINY if loop.device == "cpu" else MODELS[case.model]
        try:
            yield measured(case, d, loop)
        except torch.OutOfMemoryError as error:
            print(f"{case}: {str(error).splitlines()[0]}", file=sys.stderr)


# --------------------------------------------------------------------------- the command line
def measure(options: argparse.Namespace) -> None:
    """Measure, and write on the first rank."""
    import torch
    import torch.distributed as dist

    torch.manual_seed(0)
    if options.way:
        if options.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    cases = [c for c in CASES if f"{c.model}/{c.phase}/{c.batch}/{c.recompute}".startswith(tuple(options.only.split(",")))]
    if options.way:
        cases = [c for c in cases if c.phase == "train"]
    if options.device == "cpu":
        cases = [Case(model="tiny", phase=c.phase, batch=2, seq=32, recompute=c.recompute) for c in cases]
    first = not options.way or dist.get_rank() == 0
    with open(options.output if first else os.devnull, "a" if options.append else "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, HEADER)
        if not options.append:
            name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
            stream.write(f"# {name}, torch {torch.__version__}, bytes of torch's allocator; command: benchmarks/training_memory.py")
            way, keep = f" --way {options.way}" if options.way else "", " --keep-gradients" if options.keep_gradients else ""
            stream.write(f"{way}{keep} --step {options.step}\n")
            writer.writeheader()
        for found in rows(cases, Loop(device=options.device, way=options.way, keep=options.keep_gradients, step=options.step)):
            writer.writerow(found)
            stream.flush()
            if first:
                print(", ".join(f"{key} {value}" for key, value in found.items() if value != ""), flush=True)
    if options.way:
        dist.destroy_process_group()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="table to write")
    parser.add_argument("--append", action="store_true", help="add to a table: buckets of DDP outlive their case")
    parser.add_argument("--way", default="", choices=("", "ddp", "fsdp"), help="spread over the ranks of torchrun; training only")
    parser.add_argument("--keep-gradients", action="store_true", help="zero them after a step instead of freeing them")
    parser.add_argument("--step", type=int, default=3, help="the step that is counted, from 2 on")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", default="", help="beginnings of model/phase/batch/recompute, separated by commas; all cases if not given")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
