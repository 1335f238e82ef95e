"""Measure kernels at random shapes: tables that an estimate is fitted to, or held against.

    python benchmarks/random_shapes.py --count 100 --seed 7 -o held_out/
    roofline validate held_out/*.csv -H h200-sxm

Shapes are drawn from the ranges that models use, logarithmically, most of them round numbers as in models and some not. Every shape is
timed as the tables of the project are: back to back in a captured graph, over input sets a little larger than L2. A list is the same
for the same seed, and the same in front whatever its length.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from math import log2
from typing import Any

from roofline.measure.base import Procedure
from roofline.measure.calibration_shapes import Regime
from roofline.measure.device import open_device
from roofline.measure.regimes import Timed, time_cases, write_tables

Fields = dict[str, Any]
LONGEST_FLOP = 3e12
LONGEST_BYTES = 6e9


def log_size(rng: random.Random, low: float, high: float, step: int = 1) -> int:
    """A size drawn logarithmically, rounded to a multiple of ``step``."""
    value = low * (high / low) ** rng.random()
    return max(step, round(value / step) * step)


def round_size(rng: random.Random, low: float, high: float, *, least: int = 1) -> int:
    """As models have them: mostly powers of two and multiples of 64 or 128, sometimes any multiple of ``least``."""
    kind = rng.random()
    if kind < 0.4:
        return int(2 ** round(rng.uniform(log2(low), log2(high))))
    return log_size(rng, low, high, 128 if kind < 0.7 else 64 if kind < 0.85 else max(least, 8) if kind < 0.95 else least)


def gemm(rng: random.Random) -> Fields:
    """Products of every dtype, bf16 most often."""
    dtype = rng.choices(("bf16", "fp16", "fp8", "tf32", "fp32", "int8"), (45, 10, 15, 12, 9, 9))[0]
    least = 16 if dtype in ("fp8", "int8") else 1
    m = round_size(rng, 32 if dtype == "int8" else 1, 16384, least=least)
    if dtype == "fp8":
        m = max(16, m // 16 * 16)
    return {"m": m, "n": round_size(rng, 64, 65536, least=least), "k": round_size(rng, 32, 32768, least=least), "dtype": dtype}


def batched_gemm(rng: random.Random) -> Fields:
    """As in attention and in experts."""
    sizes = [2 ** rng.randint(5, 12) if rng.random() < 0.6 else log_size(rng, 32, 4096, 8) for _ in range(3)]
    return {"batch": log_size(rng, 2, 512), "m": sizes[0], "n": sizes[1], "k": sizes[2], "dtype": "bf16"}


def conv2d(rng: random.Random) -> Fields:
    """As in residual networks."""
    size = rng.choice((7, 14, 28, 56, 112))
    kernel, stride = rng.choice(((1, 1), (1, 2), (3, 1), (3, 2)))
    channels = [rng.choice((64, 128, 256, 512, 1024)) for _ in range(2)]
    if rng.random() < 0.1:
        size, kernel, stride, channels = 224, rng.choice((3, 7)), 2, [3, 64]
    shape = {"batch": rng.choice((8, 16, 32, 64, 128)), "in_channels": channels[0], "out_channels": channels[1]}
    return {**shape, "height": size, "width": size, "kernel": kernel, "stride": stride, "padding": kernel // 2, "dtype": "bf16"}


def attention(rng: random.Random, *, grouped: bool = True) -> Fields:
    """Whole sequences."""
    heads = rng.choice((8, 12, 16, 25, 32, 40, 64))
    groups = [g for g in (1, 2, 4, 8) if heads % g == 0 and heads // g >= 1] if grouped else [1]
    length = log_size(rng, 128, 16384, rng.choice((1, 64, 128, 512)))
    shape = {"batch": rng.choice((1, 2, 4, 8, 16, 32)), "heads": heads, "kv_heads": heads // rng.choice(groups)}
    return {
        **shape,
        "q_len": length,
        "kv_len": length,
        "head_dim": rng.choice((64, 128, 128, 256)),
        "causal": rng.random() < 0.6,
        "dtype": "bf16",
    }


def square_attention(rng: random.Random) -> Fields:
    """Whole sequences with as many key heads as query heads."""
    return attention(rng, grouped=False)


def decode(rng: random.Random) -> Fields:
    """One new query a sequence."""
    heads = rng.choice((8, 12, 16, 25, 32, 40, 64))
    group = rng.choice([g for g in (1, 4, 8) if heads % g == 0])
    shape = {"batch": rng.choice((1, 2, 4, 8, 16, 32, 64, 128)), "heads": heads, "kv_heads": heads // group, "q_len": 1}
    return {
        **shape,
        "kv_len": log_size(rng, 128, 65536, rng.choice((1, 64, 512))),
        "head_dim": rng.choice((64, 128, 128)),
        "causal": False,
        "dtype": "bf16",
    }


def rows(rng: random.Random) -> Fields:
    """Rows and columns of a norm or a softmax."""
    return {"rows": log_size(rng, 16, 65536, rng.choice((1, 16, 128))), "cols": round_size(rng, 128, 131072, least=2), "dtype": _dtype(rng)}


def table(rng: random.Random) -> Fields:
    """Rows and columns of a transpose or a reduction."""
    return {"rows": round_size(rng, 64, 32768), "cols": round_size(rng, 64, 32768), "dtype": _dtype(rng)}


def elementwise(rng: random.Random) -> Fields:
    """One function."""
    function = rng.choice(("gelu", "add", "silu", "exp", "scale", "relu", "mul", "fill", "cast"))
    return {"function": function, "elements": log_size(rng, 2**10, 2**30, rng.choice((1, 1024))), "dtype": _dtype(rng)}


def elements(rng: random.Random) -> Fields:
    """Elements alone."""
    return {"elements": log_size(rng, 2**10, 2**29, 1024), "dtype": _dtype(rng)}


def copy(rng: random.Random) -> Fields:
    """A copy within device memory."""
    return {"elements": log_size(rng, 2**10, 2**30, 1024), "dtype": _dtype(rng)}


def cross_entropy(rng: random.Random) -> Fields:
    """Logits of a language model, in their own format throughout."""
    return {
        "tokens": log_size(rng, 64, 32768, 8),
        "vocab": rng.choice((1000, 32000, 50257, 128256, 151936)),
        "dtype": "bf16",
        "scratch_dtype": "bf16",
    }


def embedding(rng: random.Random) -> Fields:
    """A look-up."""
    return {"tokens": log_size(rng, 16, 65536), "vocab": 128256, "hidden": rng.choice((768, 1024, 2048, 4096, 8192)), "dtype": "bf16"}


def swiglu(rng: random.Random) -> Fields:
    """The gate of a transformer's feed-forward part."""
    return {"rows": log_size(rng, 1, 32768), "cols": rng.choice((2048, 5632, 8192, 11008, 14336, 28672)), "dtype": "bf16"}


def rotary(rng: random.Random) -> Fields:
    """Rotated queries and keys."""
    heads = rng.choice((8, 16, 32, 64))
    shape = {"tokens": log_size(rng, 1, 32768), "positions": 0, "heads": heads, "kv_heads": heads // rng.choice((1, 4, 8))}
    return {**shape, "head_dim": rng.choice((64, 128)), "dtype": "bf16"}


def adamw(rng: random.Random) -> Fields:
    """Parameters of one tensor."""
    return {"parameters": log_size(rng, 2**12, 2**29, 256), "dtype": rng.choice(("fp32", "bf16"))}


def _dtype(rng: random.Random) -> str:
    return rng.choices(("bf16", "fp32", "fp16"), (7, 2, 1))[0]


DRAWN: dict[str, tuple[float, Callable[[random.Random], Fields]]] = {
    "gemm": (30, gemm),
    "batched_gemm": (6, batched_gemm),
    "conv2d": (5, conv2d),
    "flash": (9, attention),
    "cudnn": (4, attention),
    "efficient": (2, square_attention),
    "naive": (4, square_attention),
    "decode": (8, decode),
    "softmax": (5, rows),
    "layernorm": (4, rows),
    "rmsnorm": (4, rows),
    "elementwise": (6, elementwise),
    "copy": (2, copy),
    "dropout": (1, elements),
    "reduction": (3, table),
    "transpose": (3, table),
    "cross_entropy": (3, cross_entropy),
    "embedding": (2, embedding),
    "swiglu": (2, swiglu),
    "rotary": (1.5, rotary),
    "adamw": (1.5, adamw),
}
"""How often a kernel is drawn, and how its shape is."""


def drawn(seed: int, only: Sequence[str] = (), backward: float = 0.1) -> Iterator[Regime]:
    """Shapes without end, each small enough for a moment's run; a share of them of backward passes, where a kernel has one."""
    from roofline.measure.registry import find
    from roofline.ops.base import work_of
    from roofline.ops.registry import OPERATORS

    rng = random.Random(seed)
    names = [name for name in DRAWN if not only or name in only]
    weights = [DRAWN[name][0] for name in names]
    while True:
        name = rng.choices(names, weights)[0]
        fields = DRAWN[name][1](rng)
        spec = find(name)
        op = OPERATORS[spec.op](**{**spec.fields, **fields})
        work = work_of(op, None)
        cores = 16 if fields["dtype"] == "fp32" and spec.op in ("gemm", "batched_gemm") else 1
        if op.check() is None and work.counts.tensor * cores < LONGEST_FLOP and work.compulsory.hbm < LONGEST_BYTES:
            back = rng.random() < backward and spec.build_backward is not None and fields["dtype"] not in ("fp8", "int8")
            yield Regime(kernel=name, regime="random", fields=fields, direction="backward" if back else "forward")


def main() -> None:
    """Draw, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0, help="stop drawing after so long")
    parser.add_argument("--seconds", type=float, default=0.4, help="longest time for one shape")
    parser.add_argument("--only", nargs="+", default=[], choices=list(DRAWN), help="these kernels alone")
    parser.add_argument("--backward", type=float, default=0.1, help="share of backward passes, where a kernel has one")
    parser.add_argument("-o", "--output", required=True, help="folder for one CSV an operator")
    options = parser.parse_args()
    device = open_device(options.device)
    cuda = device.info.kind != "cpu"
    procedure = Procedure(
        launch="graph" if cuda else "eager", mode="sustained", warmup_s=0.1, fewest_samples=12, shortest_s=options.seconds / 3,
        longest_s=options.seconds, blocks=3, caches=1.0, most_sets=32, retries=0,
    )  # fmt: skip
    end = time.monotonic() + 60 * options.minutes
    found: list[Timed] = []
    shapes = drawn(options.seed, options.only, options.backward)
    while len(found) < options.count and time.monotonic() < end:
        found += time_cases([next(shapes)], device, procedure)
        last = found[-1]
        print(
            f"{len(found):4d} {last.case.label}: {last.result.time_s * 1e6:.2f} us" if last.result else f"{last.case.label}: {last.why}",
            file=sys.stderr,
        )
    provenance = (
        f"roofline benchmarks/random_shapes.py --seed {options.seed}, {device.info.name}",
        "time_us: median of a call in a captured graph, back to back, over input sets a little larger than L2",
    )
    for path in write_tables(options.output, found, provenance):
        print(path)


if __name__ == "__main__":
    main()
