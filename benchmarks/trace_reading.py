"""How long a trace of a gigabyte takes to read, and how much memory, beside HolisticTraceAnalysis and TraceLens.

    python benchmarks/trace_reading.py [--gigabytes 1] [--others PYTHON] [--output benchmarks/trace_reading.txt]

The trace is a real one, repeated: times, external ids and correlation numbers move on with every repetition, so that it is as
one long recording. Each reader runs in a process of its own, pinned to one core; its peak memory is that of the process. Ours is run
as the command that users run, to the end of its JSON report, with each of its two decoders. The others, where ``--others`` names
an interpreter that has them, are run up to their table of operators or kernels.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
REAL = ROOT / "tests/data/traces/b200_vllm_eager.pt.trace.json.gz"
NUMBER = re.compile(r'("(?:ts|External id|correlation|id|Ev Idx)": )(\d+(?:\.\d+)?)')
PERIOD_US, IDS = 100_000, 1_000_000
LIMIT_S = 900

OURS = "import sys; from roofline.cli.app import run; run()"
DECODE = "from roofline.ingest.trace_events import read_trace; import sys; read_trace(sys.argv[1], library=sys.argv[2])"
HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=".")
analysis.get_gpu_kernel_breakdown(visualize=False)
"""
TRACELENS = """
import sys
from TraceLens import TreePerfAnalyzer
TreePerfAnalyzer.from_file(sys.argv[1]).get_df_gpu_timeline()
"""


def repeated(target: Path, size: float) -> int:
    """Write the trace of at least that many bytes; how often the real one stands in it."""
    text = gzip.decompress(REAL.read_bytes()).decode()
    start = text.index("[", text.index('"traceEvents"')) + 1
    end = text.rindex("]", 0, text.rindex('"traceName"'))
    parts = NUMBER.split(text[start:end].rstrip())
    written, times = 0, 0
    with target.open("w", encoding="utf-8") as file:
        file.write(text[:start])
        while written < size:
            for i in range(2, len(parts), 3):
                moved = PERIOD_US if parts[i - 1].startswith('"ts"') else IDS
                if times:
                    whole, _, rest = parts[i].partition(".")
                    parts[i] = f"{int(whole) + moved}{'.' if rest else ''}{rest}"
            piece = ("," if times else "") + "".join(parts)
            file.write(piece)
            written += len(piece)
            times += 1
        file.write(text[end:])
    return times


def timed(label: str, command: list[str], environment: dict[str, str] | None = None) -> str:
    """A line about one run: processor and wall seconds and peak memory of the process alone."""
    code = "import resource as r, subprocess as s, sys; d = s.run(sys.argv[1:], stdout=s.DEVNULL, stderr=s.PIPE, text=True);"
    code += " u = r.getrusage(r.RUSAGE_CHILDREN); print(d.returncode, u.ru_maxrss, u.ru_utime + u.ru_stime); print(d.stderr[-300:])"
    begin = time.perf_counter()
    try:
        run = [sys.executable, "-c", code, *command]
        done = subprocess.run(run, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=True)
    except subprocess.TimeoutExpired:
        return f"{label:42} not done after {LIMIT_S} s"
    took = time.perf_counter() - begin
    first, *rest = done.stdout.splitlines()
    status, memory, processor = first.split()
    if status != "0":
        said = [line for line in rest if line.strip()]
        return f"{label:42} failed: {said[-1][:120] if said else status}"
    return f"{label:42} {float(processor):9.1f} s {took:9.1f} s {int(memory) / 1024:9.0f} MiB"


def main() -> None:
    """Make the trace, run the readers, print and write what they took."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gigabytes", type=float, default=1.0)
    options.add_argument("--others", help="an interpreter with HolisticTraceAnalysis and TraceLens")
    options.add_argument("--output")
    chosen = options.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "long.pt.trace.json"
        times = repeated(trace, chosen.gigabytes * 1e9)
        size = trace.stat().st_size
        lines = [f"{REAL.name} {times} times: {size / 1e9:.2f} GB of JSON, one core; whole processes", ""]
        lines.append(f"{'':42} {'processor':>11} {'wall':>11} {'peak memory':>13}")
        report = [sys.executable, "-c", OURS, "ingest", "trace", str(trace), "--format", "json", "-q"]
        runs = [
            ("roofline ingest trace, to its report", report, environment),
            ("  of which reading, by msgspec", [sys.executable, "-c", DECODE, str(trace), "msgspec"], environment),
            ("  reading by the standard library", [sys.executable, "-c", DECODE, str(trace), "json"], environment),
        ]
        if chosen.others:
            clean = {**os.environ, "PYTHONPATH": ""}
            runs.append(("HolisticTraceAnalysis, kernel breakdown", [chosen.others, "-c", HTA, str(trace)], clean))
            runs.append(("TraceLens, tree and GPU timeline", [chosen.others, "-c", TRACELENS, str(trace)], clean))
            lines.append("TraceLens is not in the package index (the package of that name there is another tool): from its sources only")
            lines.append("")
        else:
            lines.append("HolisticTraceAnalysis and TraceLens: not asked for (--others PYTHON)")
        for label, command, given in runs:
            line = timed(label, command, given)
            print(line, flush=True)
            lines.append(line)
    if chosen.output:
        Path(chosen.output).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
