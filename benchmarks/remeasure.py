"""Measure shapes of a published table again, and say how far the new times lie from the old.

    python benchmarks/remeasure.py tests/data/measurements/h200-sxm --count 60 -o results/h200/remeasured.csv

Tables are CSV files named after operators, with the operator's fields as columns and ``time_us``: the time of one call in a
captured graph whose calls rotate over inputs larger than L2. Rows are taken evenly from each table, in order, without regard to
their times. Two kernels are left out since the table's do more work than ours:
causal naive attention copies the scores before it masks them, and cross entropy averages over tokens in one block.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from roofline.errors import RooflineError
from roofline.measure.base import Procedure
from roofline.measure.device import open_device
from roofline.measure.registry import find
from roofline.measure.run import Case, measure_op
from roofline.ops.registry import OPERATORS

KERNELS = {"gemm": "gemm", "batched_gemm": "batched_gemm", "softmax": "softmax", "layernorm": "layernorm", "rmsnorm": "rmsnorm",
           "transpose": "transpose", "elementwise": "elementwise", "attention": "flash"}  # fmt: skip
SHARES = {"gemm": 3, "attention": 2, "elementwise": 2}
"""Tables that give more rows than the others: their kernels are most of a model's time."""
NOT_FIELDS = {"time_us", "eager_us", "sm_mhz", "watt", "pass", "implementation", "layout"}


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table that have a graph time."""
    with path.open(encoding="utf-8") as stream:
        return [r for r in csv.DictReader(line for line in stream if not line.startswith("#")) if r.get("time_us")]


def value(text: str) -> Any:
    """A cell as a field's value."""
    return text == "True" if text in ("True", "False") else int(text) if text.isdigit() else text


def case_of(name: str, row: dict[str, str]) -> Case | None:
    """The kernel and operator of a row, or None where it is none of ours."""
    if row.get("pass", "forward") != "forward" or row.get("function") == "sum":
        return None
    kernel = row.get("implementation", KERNELS[name])
    if kernel == "naive" and row["causal"] == "True":
        return None
    spec = find(kernel if name == "attention" else KERNELS[name])
    fields = {k: value(v) for k, v in row.items() if k not in NOT_FIELDS and v != ""}
    if name == "attention" and fields.get("heads") == fields.get("kv_heads"):
        fields["kv_heads"] = 0
    scale = {"scale_pass": True} if kernel == "naive" else {}
    return Case(id=name, spec=spec, op=OPERATORS[spec.op](**{**spec.fields, **fields, **scale}))


def chosen(folder: Path, count: int) -> list[tuple[str, dict[str, str], Case]]:
    """So many rows, evenly from the tables and from each table's length."""
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        if path.stem in KERNELS:
            tables[path.stem] = [(path.stem, r, c) for r in rows_of(path) if (c := case_of(path.stem, r))]
    found: list[tuple[str, dict[str, str], Case]] = []
    share = max(3, count // max(1, len(tables)))
    for name, rows in tables.items():
        wanted = min(len(rows), share * SHARES.get(name, 1))
        step = max(1, len(rows) / wanted)
        found += [rows[int(i * step)] for i in range(wanted)]
    return found[:count]


def main() -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=3.0, help="longest time for one shape")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    device = open_device("cuda")
    # As the table was made: back to back, over input sets a little larger than L2 and not many of them.
    procedure = Procedure(longest_s=options.seconds, mode="sustained", shortest_s=1.0, blocks=5, caches=1.0, most_sets=32)
    lines = ["operator,kernel,fields,table_us,measured_us,difference,sm_mhz,status"]
    gaps = []
    for name, row, case in chosen(options.folder, options.count):
        try:
            result = measure_op(case, device, procedure)
        except RooflineError as err:
            print(f"{name} {row}: {err}", file=sys.stderr)
            continue
        table_us, here_us = float(row["time_us"]), result.time_s * 1e6
        if not here_us:
            print(f"{name} {row}: {result.status} {result.notes}", file=sys.stderr)
            continue
        gaps.append(here_us / table_us - 1)
        fields = " ".join(f"{k}={v}" for k, v in row.items() if k not in ("time_us", "eager_us", "sm_mhz", "watt"))
        clock = result.clocks.get("sm_mhz_median") or 0
        lines.append(f"{name},{case.spec.name},{fields},{table_us:.3f},{here_us:.3f},{gaps[-1]:+.4f},{clock:.0f},{result.status}")
        print(lines[-1], flush=True)
    sizes = sorted(abs(g) for g in gaps)
    summary = (
        f"# {len(gaps)} shapes on {device.info.name}: median difference {median(sizes):.2%}, "
        f"90th percentile {quantiles(sizes, n=10)[-1]:.2%}, median signed {median(gaps):+.2%}"
    )
    print(summary)
    if options.output:
        options.output.write_text("\n".join([summary, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
