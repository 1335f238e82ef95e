"""The runs of `sharded_decoder.py` predicted, beside what was measured of them; needs no GPU.

    python benchmarks/sharded_predicted.py results/h200-x2/sharded.csv -H results/h200-x2/h200-x2.yaml

Steps are those of `whole_models`, divided as the ranks divide them. Tensor parallelism: heads and feed-forward over the ranks, two
all-reduces a layer in line with the kernels, the logits gathered. DDP: gradients copied into buckets of 25 MiB as backward makes them, each
bucket's all-reduce beside what follows. FSDP2: the weights of a layer gathered one layer ahead in both passes, its gradients reduced and
scattered beside the next layer's backward, each rank's share of the optimizer; weights are copied into and out of the buffers of each
gather, gradients into those of each scatter. A collective beside kernels keeps processors from them: NCCL's kernels have `--processors`
blocks, as a trace of these runs shows, and what runs meanwhile has the others. Left out: the memory bandwidth that a collective takes.
Pipelines (`decoder_stages.py`): as many layers on each rank, as `roofline plan` judges a plan with pp: the slowest stage sets the pace, the
others fill and drain the pipeline, and a rank waits for what it takes in.

What FSDP2's wrappers cost the host decides small steps, and differs by host: it is read off one run of the table, as milliseconds a unit
and step, and used for the others; that run is no test then.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]
from whole_models import MODELS, Dims, inference, layer, op  # noqa: E402

from roofline.decide.costs import coster_of  # noqa: E402
from roofline.decide.evaluate import Evaluator, Subject, pipeline_of  # noqa: E402
from roofline.hardware.profile import Figure, Hardware  # noqa: E402
from roofline.models.description import Attention, Layer, Mlp, Model  # noqa: E402
from roofline.numeric import scalar  # noqa: E402
from roofline.ops.base import Op  # noqa: E402
from roofline.plan.job import Job  # noqa: E402
from roofline.plan.plan import Plan  # noqa: E402
from roofline.report.build import analyze  # noqa: E402
from roofline.spec.cluster import one_link  # noqa: E402
from roofline.spec.hardware import load_hardware  # noqa: E402
from roofline.workload.workload import Step, Workload  # noqa: E402

BYTES = 2
BUCKET = 25 * 2**20
"""DDP's bucket_cap_mb; its first bucket holds 1 MiB."""
LINK = "nvlink"
READ_OFF = ("fsdp", "gpt2-medium-like", "8")
"""Way, model and batch of the run that the host's cost of a unit is read off: kernels are less than half of it."""


def share(d: Dims, ranks: int) -> Dims:
    """What one rank of a tensor-parallel group holds of heads and feed-forward."""
    return replace(d, heads=d.heads // ranks, kv_heads=d.kv_heads // ranks, ffn=d.ffn // ranks)


def collective(name: str, size: float, ranks: int) -> Op:
    """A collective over the link; ``size`` in bytes as nccl-tests counts."""
    return op(name, size=size, ranks=ranks, over=LINK)


# --------------------------------------------------------------------------- tensor parallelism
def split_inference(d: Dims, ranks: int, batch: int, q_len: int, kv_len: int) -> Iterator[Step]:
    """Prefill or one decoded token; ``q_len`` below ``kv_len`` is decoding."""
    own, size = share(d, ranks), BYTES * batch * q_len * d.hidden
    for step in inference(own, batch, q_len, kv_len, "flash"):
        if step.id == "head":
            yield replace(step, op=op("gemm", m=batch, n=d.vocab // ranks, k=d.hidden))
            yield Step(id="logits", op=collective("all_gather", BYTES * batch * d.vocab, ranks))
            return
        yield step
        if step.id in ("output", "down"):
            yield Step(id=f"{step.id}_sum", op=collective("all_reduce", size, ranks), repeat=d.layers)


# --------------------------------------------------------------------------- pipelines
def decoder(name: str) -> Model:
    """The decoder as a plan takes it."""
    d = MODELS[name]
    mixer = Attention(heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=d.head_dim, rotary=d.head_dim)
    layers = (Layer(mixer=mixer, feed=Mlp(width=d.ffn, gated=d.gated)),) * d.layers
    return Model(name=name, model_type="llama", hidden=d.hidden, vocab=d.vocab, layers=layers)


# --------------------------------------------------------------------------- data parallelism
@dataclass
class Trace:
    """Steps while they are put together; ``last`` is the last of the kernels, ``grads`` the weights in the order of their gradients."""

    steps: list[Step] = field(default_factory=list)
    last: str = ""
    grads: list[tuple[str, int]] = field(default_factory=list)

    def compute(self, name: str, what: Op, direction: str = "forward", also: tuple[str, ...] = ()) -> None:
        """A step after the last of the kernels, and after ``also``."""
        after = tuple(i for i in (self.last, *also) if i)
        self.steps.append(Step(id=name, op=what, direction=direction, after=after))
        self.last = name

    def beside(self, name: str, what: Op, after: tuple[str, ...]) -> None:
        """A collective that kernels do not wait for."""
        self.steps.append(Step(id=name, op=what, after=tuple(i for i in after if i)))


def weights(d: Dims) -> dict[str, int]:
    """Elements by the step of a layer whose product they are in."""
    wide = 2 if d.gated else 1
    return {"qkv": d.qkv * d.hidden, "output": d.heads * d.head_dim * d.hidden, "up": wide * d.ffn * d.hidden, "down": d.ffn * d.hidden}


def copied(elements: int) -> Op:
    """Weights or gradients into another buffer."""
    return op("elementwise", function="copy", elements=elements)


def forward(t: Trace, d: Dims, batch: int, seq: int, ahead: dict[int, str], out: tuple[int, int] | None = None) -> None:
    """The forward pass; ``ahead`` names the collective that a layer waits for, ``out`` what is copied out of its buffer then."""
    tokens = batch * seq
    if out:
        t.compute("out/outer", copied(out[0]), also=(ahead[-1],))
    t.compute("embedding", op("embedding", tokens=tokens, vocab=d.vocab, hidden=d.hidden))
    for i in range(d.layers):
        if out:
            t.compute(f"out/f{i}", copied(out[1]), also=(ahead[i],))
        for name, what in layer(d, batch, seq, seq, "flash"):
            t.compute(f"f{i}/{name}", what)
    t.compute("final_norm", op("rmsnorm", rows=tokens, cols=d.hidden))
    t.compute("head", op("gemm", m=tokens, n=d.vocab, k=d.hidden))
    t.compute("loss", op("cross_entropy", tokens=tokens, vocab=d.vocab))


def backward(t: Trace, d: Dims, batch: int, seq: int, ahead: dict[int, str], out: int = 0) -> Iterator[tuple[str, int]]:
    """The backward pass, which stops at each weight whose gradient is there, with its elements, and at the end of each layer, with 0."""
    tokens = batch * seq
    t.compute("b/loss", op("cross_entropy", tokens=tokens, vocab=d.vocab), "backward")
    t.compute("b/head", op("gemm", m=tokens, n=d.vocab, k=d.hidden), "backward")
    yield "head", d.vocab * d.hidden
    t.compute("b/final_norm", op("rmsnorm", rows=tokens, cols=d.hidden), "backward")
    sizes = weights(d)
    for i in reversed(range(d.layers)):
        if out:
            t.compute(f"out/b{i}", copied(out), also=(ahead[i],))
        for name, what in reversed(list(layer(d, batch, seq, seq, "flash"))):
            if what.backward():  # a sum hands its gradient on and launches nothing
                t.compute(f"b{i}/{name}", what, "backward")
            if name in sizes:
                yield f"b{i}/{name}", sizes[name]
        yield f"layer {i}", 0
    t.compute("b/embedding", op("embedding", tokens=tokens, vocab=d.vocab, hidden=d.hidden), "backward")
    yield "embedding", d.vocab * d.hidden


def ddp(d: Dims, ranks: int, batch: int, seq: int) -> list[Step]:
    """A step under DDP."""
    t = Trace()
    forward(t, d, batch, seq, {})
    held, cap, number = 0, 2**20, 0
    for name, elements in backward(t, d, batch, seq, {}):
        if elements:
            t.compute(f"{name}/in", copied(elements))
            held += BYTES * elements
        if held >= cap or (held and name == "embedding"):
            number += 1
            t.beside(f"bucket{number}", collective("all_reduce", held, ranks), (t.last,))
            held, cap = 0, BUCKET
    t.compute("optimizer", op("adamw", parameters=d.parameters), also=(f"bucket{number}",))
    return t.steps


def fsdp(d: Dims, ranks: int, batch: int, seq: int) -> list[Step]:
    """A step under FSDP2 with a unit for each layer and one for the rest."""
    t = Trace()
    layer_elements, outer_elements = sum(weights(d).values()), 2 * d.vocab * d.hidden

    def gathered(name: str, elements: int, after: tuple[str, ...]) -> None:
        t.compute(f"{name}/in", copied(elements // ranks))
        t.beside(name, collective("all_gather", BYTES * elements, ranks), after)

    def scattered(name: str, elements: int) -> None:
        t.compute(f"{name}/in", copied(elements))
        t.beside(name, collective("reduce_scatter", BYTES * elements, ranks), (t.last,))

    gathered("g/outer", outer_elements, ())
    for i in range(d.layers):
        gathered(f"g{i}", layer_elements, ())
    forward(t, d, batch, seq, {-1: "g/outer", **{i: f"g{i}" for i in range(d.layers)}}, out=(outer_elements, layer_elements))
    for i in reversed(range(d.layers)):
        gathered(f"h{i}", layer_elements, ("head",) if i == d.layers - 1 else ())
    for name, elements in backward(t, d, batch, seq, {i: f"h{i}" for i in range(d.layers)}, out=layer_elements):
        if not elements:
            scattered(f"s/{name.split()[1]}", layer_elements)
        elif name == "embedding":
            scattered("s/outer", outer_elements)
    t.compute("optimizer", op("adamw", parameters=d.parameters // ranks), also=("s/outer",))
    return t.steps


# --------------------------------------------------------------------------- all rows
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A run beside its prediction, and the same without communication."""

    row: dict[str, str]
    bound_s: float
    estimate_s: float
    host_s: float = 0.0
    slowed_s: float = 0.0
    wrapped_s: float = 0.0
    alone_s: float | None = None
    limiter: str = "-"

    @property
    def predicted_s(self) -> float:
        """The slower of two sides: kernels, with what collectives keep from them, and the host with its wrappers."""
        return max(self.estimate_s + self.slowed_s, self.host_s + self.wrapped_s)

    @property
    def exposed_ms(self) -> tuple[float, float] | None:
        """What the run takes longer than without communication or, in training, without being spread: measured, and predicted."""
        if self.alone_s is None:
            return None
        return float(self.row["ms"]) - float(self.row["alone_ms"]), 1e3 * (self.predicted_s - self.alone_s)

    @property
    def read_off(self) -> bool:
        """Whether a figure of the prediction was taken from this very run."""
        return (self.row["way"], self.row["model"], self.row["batch"]) == READ_OFF

    @property
    def measured_s(self) -> float:
        """Seconds of the run."""
        return float(self.row["ms"]) / 1e3

    @property
    def error(self) -> float:
        """Of the estimate, as a fraction of the measured time."""
        return self.predicted_s / self.measured_s - 1


def steps_of(row: dict[str, str], ranks: int) -> list[Step]:
    """The steps of a run on so many ranks."""
    d, batch = MODELS[row["model"]], int(row["batch"])
    if row["phase"] == "train":
        return (ddp if row["way"] == "ddp" else fsdp)(d, ranks, batch, int(row["seq"]))
    length = int(row["context"] or row["seq"])
    return list(split_inference(d, ranks, batch, 1 if row["phase"] == "decode" else length, length))


def without_links(steps: list[Step]) -> list[Step]:
    """The same with no collective: what is left runs in order."""
    return [replace(s, after=None) for s in steps if s.op.lane != "link" and not s.id.endswith("/in") and not s.id.startswith("out/")]


def slowed_s(steps: list[Step], row: dict[str, str], hardware: Hardware, whole_s: float, processors: int) -> float:
    """What kernels beside collectives take longer: hidden seconds of collectives times the share of processors that these hold."""
    kernels = _totals(row, [replace(s, after=None) for s in steps if s.op.lane != "link"], hardware).estimate
    links = [replace(s, after=None) for s in steps if s.op.lane == "link"]
    sent = _totals(row, links, hardware).estimate if links else None
    if kernels is None or sent is None:
        return 0.0
    hidden = max(0.0, kernels.time_s + sent.device_s - whole_s)
    held = hardware.processors
    assert isinstance(held, Figure)
    return hidden * processors / held.value


def outcomes(table: Path, hardware: Hardware, processors: int) -> list[Outcome]:
    """Every run of a table."""
    with table.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(line for line in stream if not line.startswith("#")))
    found = [in_stages(row, hardware) if row["way"] == "pp" else spread(row, hardware, processors) for row in rows]
    return [replace(o, wrapped_s=unit * units(o.row)) for unit in [unit_host_s(found)] for o in found]


def in_stages(row: dict[str, str], hardware: Hardware) -> Outcome:
    """A run in a pipeline, as `roofline plan` judges it, but for the number of parts: a plan decodes in as many as there are stages."""
    cluster, count = one_link(hardware, LINK, None), int(row["microbatches"])
    sizes: dict[str, Any] = {name: int(row[name]) for name in ("batch", "seq", "context") if row[name]}
    job = Job(phase=row["phase"], **sizes)
    asked = Subject(model=decoder(row["model"]), how=None, job=job, cluster=cluster, stated_execution=row["mode"])
    plan = Plan(pp=int(row["ranks"]), microbatch=int(row["batch"]) // count, overlap=())

    def judged(kind: str) -> tuple[float, float]:
        judge = Evaluator(asked, coster_of(kind, cluster, execution=row["mode"]))
        pipeline, _ = pipeline_of(judge.timed(plan), plan, len(asked.model.layers), count)
        return scalar(judge.parts(pipeline, plan).step_s), count * scalar(pipeline.slowest.forward_s)

    step_s, alone_s = judged("estimate")
    return Outcome(row=row, bound_s=judged("bound")[0], estimate_s=step_s, alone_s=alone_s)


def spread(row: dict[str, str], hardware: Hardware, processors: int) -> Outcome:
    """A run of ranks that all do the same."""
    steps = steps_of(row, int(row["ranks"]))
    totals = _totals(row, steps, hardware)
    alone = _totals(row, without_links(steps), hardware).estimate if row["alone_ms"] else None
    e = totals.estimate
    assert e, totals.unavailable
    return Outcome(
        row=row,
        bound_s=totals.bound.time_s,
        estimate_s=e.time_s,
        host_s=e.host_s,
        slowed_s=slowed_s(steps, row, hardware, e.time_s, processors),
        alone_s=alone.time_s if alone else None,
        limiter=str(e.limiter),
    )


def label_of(row: dict[str, str]) -> str:
    """A run in words."""
    parts = f" in {row['microbatches']} parts" if row.get("microbatches") else ""
    return f"{row['way']} {row['phase']}, {row['model']}, batch {row['batch']}{parts}, {row['seq'] or row['context']}"


def units(row: dict[str, str]) -> int:
    """Modules that FSDP2 wraps: each layer, and the rest."""
    return MODELS[row["model"]].layers + 1 if row["way"] == "fsdp" else 0


def unit_host_s(found: list[Outcome]) -> float:
    """Seconds of the host for a unit and step, from the run that says it; 0 where that run is not in the table."""
    run = next((o for o in found if o.read_off), None)
    return (run.measured_s - run.host_s) / units(run.row) if run else 0.0


def _totals(row: dict[str, str], steps: list[Step], hardware: Hardware) -> Any:
    return analyze(Workload(name=row["model"], steps=tuple(steps), dtype="bf16", execution=row["mode"]), hardware).totals


def main() -> None:
    """Print the table, and the error by way and phase."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("-H", "--hardware", required=True)
    parser.add_argument("--processors", type=int, default=24, help="blocks of NCCL's kernels: 24 in traces of two H200s")
    options = parser.parse_args()
    found = outcomes(options.table, load_hardware(options.hardware), options.processors)
    print("run; measured ms; bound ms; estimate ms; error; exposed communication measured ms, estimated ms; limited by")
    for o in found:
        exposed = "-; -" if o.exposed_ms is None else "{:.2f}, {:.2f}".format(*o.exposed_ms)
        times = f"{float(o.row['ms']):.2f}; {1e3 * o.bound_s:.2f}; {1e3 * o.predicted_s:.2f}"
        print(f"{label_of(o.row)}; {times}; {'read off' if o.read_off else f'{o.error:+.1%}'}; {exposed}; {o.limiter}")
    for group in dict.fromkeys((o.row["way"], o.row["phase"]) for o in found):
        errors = [o.error for o in found if (o.row["way"], o.row["phase"]) == group and not o.read_off]
        mean, middle, worst = sum(map(abs, errors)) / len(errors), median(map(abs, errors)), max(errors, key=abs)
        said = f"mean absolute error {mean:.1%}, median {middle:.1%}, worst {worst:+.1%}"
        print(f"# {' '.join(group)}: {len(errors)} runs, {said}")


if __name__ == "__main__":
    main()
