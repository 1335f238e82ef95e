"""How long whole processes take: `roofline amdahl`, `analyze --format json` and commands of whole models, against importing typer and yaml.

    python benchmarks/startup.py [--rounds 25] > benchmarks/startup.txt

The commands are run in turn, each once a round, so that a slow moment of the machine falls on all of them; medians are
compared. Compiled bytecode is kept in a folder of its own and written before the first round, as it is after an installation.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parent.parent
LAYERS = 6
HEAD = """schema: 1
name: thirty steps
hardware: h100-sxm
params: {batch: 8, seq: 1024, d_model: 1024, heads: 16}
dtype: bf16
steps:
"""
LAYER = """  - {{id: norm{i}, op: layernorm, rows: batch * seq, cols: d_model}}
  - {{id: qkv{i}, op: gemm, m: batch * seq, n: 3 * d_model, k: d_model}}
  - {{id: attention{i}, op: attention, batch: batch, heads: heads, q_len: seq, kv_len: seq, head_dim: d_model / heads, causal: true}}
  - {{id: up{i}, op: gemm, m: batch * seq, n: 4 * d_model, k: d_model}}
  - {{id: down{i}, op: gemm, m: batch * seq, n: d_model, k: 4 * d_model}}
"""
BASE = "import typer, yaml"
DECODE = "--phase decode --set batch=64 --set context=8192"
WHOLE_MODELS = (
    f"memory qwen3-8b {DECODE} -H h100-sxm",
    f"plan llama-3-70b {DECODE} -C dgx-h100 --plan tp=8",
    f"search llama-3-70b {DECODE} -C dgx-h100 --devices 8 --plan cp=1",
)
"""Shown for comparison: each reads a model's steps and looks at one plan, or at all of eight devices."""
COMMANDS = {
    "empty interpreter": ["-c", ""],
    f'python -c "{BASE}"': ["-c", BASE],
    "roofline amdahl --fraction 0.2 --speedup 2": ["-m", "roofline", "amdahl", "--fraction", "0.2", "--speedup", "2"],
    "roofline analyze thirty.yaml --format json": ["-m", "roofline", "analyze", "thirty.yaml", "--format", "json"],
    **{f"roofline {words}": ["-m", "roofline", *words.split()] for words in WHOLE_MODELS},
}
TARGETS = {"roofline amdahl --fraction 0.2 --speedup 2": 1.6, "roofline analyze thirty.yaml --format json": 2.5}


def timed(arguments: list[str], folder: Path) -> float:
    """Seconds that the process takes from start to end."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def rounds(count: int, folder: Path) -> dict[str, list[float]]:
    """Times of each command, interleaved, after one round that is thrown away."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for i in range(count + 1):
        for name, arguments in COMMANDS.items():
            seconds = timed(arguments, folder)
            if i:
                found[name].append(seconds)
    return found


def report(found: dict[str, list[float]]) -> bool:
    """Print the table; whether every target is met."""
    base = median(found[f'python -c "{BASE}"'])
    held, width = True, max(map(len, found))
    for name, times in found.items():
        low, _, high = quantiles(times, n=4)
        ratio, target = median(times) / base, TARGETS.get(name)
        held &= target is None or ratio <= target
        verdict = "" if target is None else f"  target {target}x: {'met' if ratio <= target else 'MISSED'}"
        print(f"{name:<{width}} {median(times) * 1e3:7.1f} ms  ({low * 1e3:.1f}-{high * 1e3:.1f})  {ratio:.2f}x{verdict}")
    return held


def main() -> None:
    """Measure and print; exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    count = parser.parse_args().rounds
    print(f"python benchmarks/startup.py --rounds {count}")
    print(f"CPython {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    print("whole processes, interleaved; median (quartiles), ratio of medians to importing typer and yaml")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "thirty.yaml").write_text(HEAD + "".join(LAYER.format(i=i) for i in range(LAYERS)), encoding="utf-8")
        sys.exit(0 if report(rounds(count, folder)) else 1)


if __name__ == "__main__":
    main()
