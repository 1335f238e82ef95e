"""What `roofline memory` says of the rows of `training_memory.py`, beside what was measured; needs no GPU.

python benchmarks/training_memory_predicted.py results/h200/memory.csv
python benchmarks/training_memory_predicted.py --table results/h200/memory.csv results/h200-x2/memory_fsdp.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]
from training_memory import COUNTED, TINY  # noqa: E402
from whole_models import MODELS, Dims  # noqa: E402

from roofline.models.description import Attention, Layer, Mlp, Model  # noqa: E402
from roofline.models.memory import PARTS, Memory, memory  # noqa: E402
from roofline.numeric import scalar  # noqa: E402
from roofline.plan.job import Job  # noqa: E402
from roofline.plan.plan import Plan  # noqa: E402
from roofline.spec.vectorised import LANGUAGE  # noqa: E402

GB = 1e9


def model_of(name: str, d: Dims) -> Model:
    """The decoder as a description: no biases, an untied head, rms norms."""
    mixer = Attention(heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=d.head_dim, rotary=d.head_dim)
    feed = Mlp(width=d.ffn, gated=d.gated, activation="silu" if d.gated else "gelu")
    return Model(name=name, model_type="llama", hidden=d.hidden, vocab=d.vocab, layers=(Layer(mixer=mixer, feed=feed),) * d.layers)


def dims(row: dict[str, str]) -> Dims:
    """The sizes of a row's decoder."""
    return MODELS.get(row["model"], TINY)


def predicted(row: dict[str, str]) -> Memory:
    """What `roofline memory` counts of a row."""
    ranks, batch, seq = int(row["ranks"]), int(row["batch"]), int(row["seq"])
    plan = Plan(dp=ranks, zero=3 if row["way"] == "fsdp" else 0, microbatch=batch, recompute=row["recompute"])
    trained = {"optimizer": "adamw_bf16"} if row["phase"] == "train" else {}
    job = Job(phase=row["phase"], batch=batch * ranks, seq=seq, context=seq, **trained)
    return memory(model_of(row["model"], dims(row)), None, job, plan, LANGUAGE)


def needed(row: dict[str, str]) -> float:
    """Bytes at the peak: those of `predicted`, without gradients where a loop has freed them before the loss. DDP's stay in its buckets."""
    found = predicted(row)
    freed = row["gradients"] == "freed" and row["way"] != "ddp"
    return scalar(found.needed) - (scalar(found.gradients) if freed else 0)


def beyond(row: dict[str, str]) -> float:
    """Bytes of tensors that these loops have at the peak and `predicted` has not, since a fused kernel or a wrapped embedding does without.

    In training, of every layer that is not computed again: silu(gate), which its product with up keeps; queries and keys before
    rotation, since values are a view of the product that all three came from; and attention's result by heads, of which the next
    product keeps a copy by tokens. In a prefill silu(gate), and the input of the layer, which its caller still has. FSDP2 keeps the
    embedding whole, which is in one unit with the head.
    """
    d = dims(row)
    tokens, gate = int(row["batch"]) * int(row["seq"]), 2 * d.ffn if d.gated else 0
    table = 2 * d.vocab * d.hidden if row["way"] == "fsdp" else 0
    if row["phase"] == "prefill":
        return tokens * (gate + 2 * d.hidden)
    if row["phase"] == "train" and row["recompute"] == "none":
        unrotated, by_heads = 2 * (d.heads + d.kv_heads) * d.head_dim, 2 * d.heads * d.head_dim
        return tokens * d.layers * (gate + unrotated + by_heads) + table
    return table


def beside(row: dict[str, str]) -> str:
    """A row: the peak, what is predicted of it, alone and with `beyond`, and each part beside what was seen of it."""
    found = predicted(row)
    parts = {name: scalar(getattr(found, name)) / GB for name in PARTS}
    seen = {name: float(row[f"{name}_bytes"] or "nan") / GB for name in COUNTED}
    least, peak = needed(row) / GB, seen["peak"]
    both = least + beyond(row) / GB
    label = f"{row['way'] or 'one'} {row['model']} {row['phase']}, batch {row['batch']}, {row['seq']}, recompute {row['recompute']}"
    shown = ", ".join(f"{name} {amount:.3f}" for name, amount in parts.items() if amount)
    live = ", ".join(f"{name} {amount:.3f}" for name, amount in seen.items() if amount == amount)
    ahead = f"{label}: measured {peak:.3f} GB, predicted {least:.3f} GB, {least / peak - 1:+.1%}"
    return f"{ahead}; with what is named {both:.3f} GB, {both / peak - 1:+.1%}\n    {shown}\n    {live}"


def work(row: dict[str, str]) -> str:
    """The sort of work of a row."""
    if row["phase"] != "train":
        return row["phase"]
    gradients = f"gradients {row['gradients']}" if row["way"] != "ddp" else "second step" if row["step"] == "2" else "fifth step"
    way = {"": "one device", "ddp": "DDP", "fsdp": "FSDP2"}[row["way"]]
    return f"train, {way}, {gradients}, `recompute={row['recompute']}`"


def table(rows: list[dict[str, str]]) -> str:
    """Markdown: for each sort of work the peaks, and how far from them the prediction is, alone and with `beyond`."""
    sorts: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        sorts.setdefault(work(row), []).append(row)
    lines = ["| work | cases | measured, GB | counted | with what is named |", "| --- | --- | --- | --- | --- |"]
    for name, of in sorts.items():
        peaks = [float(row["peak_bytes"]) for row in of]
        alone = [needed(row) / peak - 1 for row, peak in zip(of, peaks, strict=True)]
        both = [(needed(row) + beyond(row)) / peak - 1 for row, peak in zip(of, peaks, strict=True)]
        cells = (name, str(len(of)), span([p / GB for p in peaks], ".1f"), span(alone, "+.1%"), span(both, "+.1%"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def span(values: list[float], form: str) -> str:
    """The least and the most of some figures, or the one that both are."""
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith("#")))


def main() -> None:
    """Print measured beside predicted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="tables of training_memory.py")
    parser.add_argument("--table", action="store_true", help="a table in Markdown of all of them")
    options = parser.parse_args()
    found = [row for path in options.files for row in rows_of(path)]
    print(table(found) if options.table else "\n".join(beside(row) for row in found))


if __name__ == "__main__":
    main()
