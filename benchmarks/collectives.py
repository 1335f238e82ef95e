"""How well the model of collectives meets times that it has not seen: benchmarks/collectives.txt, from tests/data/collectives.

    python benchmarks/collectives.py            # prints the table
    python benchmarks/collectives.py --sets     # prints the fitted sets of each system too

For each system the sets are fitted to three fifths of the rows (by a hash of operator, size and ranks, so that no size is on both sides)
and held against the others. The sets of the shipped profiles are fitted to the same table.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from roofline.fit.accuracy import accuracy  # noqa: E402
from roofline.fit.fitting import Fitting, fit  # noqa: E402
from roofline.fit.tables import Table, read_table  # noqa: E402
from roofline.hardware.profile import ParameterSet  # noqa: E402
from roofline.report.accuracy import Errors, Group  # noqa: E402
from roofline.spec.hardware import load_hardware  # noqa: E402

SOURCE = ROOT / "tests" / "data" / "collectives" / "nccl_systems.csv"
SYSTEMS = {
    "a100_sxm": ("a100-sxm", "nvlink"),
    "h100_sxm": ("h100-sxm", "nvlink"),
    "h200_sxm": ("h200-sxm", "nvlink"),
    "b200_sxm": ("b200-sxm", "nvlink"),
    "l40s": ("l40s", "pcie"),
}
"""The profile of each system of the table, and the link that its collectives went over."""
NAMES = {"alltoall": "all_to_all"}


@dataclass(frozen=True)
class Held:
    """One collective on one system: rows that were not fitted, and how far the estimate lies off them."""

    system: str
    operator: str
    rows: int
    errors: Errors


def table_of(system: str, folder: Path) -> Table:
    """The rows of one system as a table of roofline."""
    profile, link = SYSTEMS[system]
    lines = (line for line in SOURCE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    path = folder / f"{profile}.csv"
    with path.open("w", encoding="utf-8") as out:
        out.write("op,size,ranks,over,time_us\n")
        for row in csv.DictReader(lines):
            if row["system"] == system:
                name = NAMES.get(row["op_name"], row["op_name"])
                out.write(f"{name},{row['bytes']} B,{row['num_gpus']},{link},{row['latency_us']}\n")
    return read_table(str(path))


def held_out(system: str) -> tuple[Fitting, list[Held]]:
    """What is fitted to a part of the rows, and its errors on the others by collective."""
    hardware = load_hardware(SYSTEMS[system][0])
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(system, Path(folder))
        found = fit(table.rows, hardware)
    sets = {
        s.name: ParameterSet(
            name=s.name, values=s.values, device=hardware.name, kind="fitted", source="", date="", rows=s.rows, band=s.band
        )
        for s in found.sets
    }
    groups = accuracy([table], replace(hardware, fitted=sets, priors={}), "held-out").groups
    return found, [_held(system, g) for g in groups if g.regime is None]


def _held(system: str, group: Group) -> Held:
    return Held(SYSTEMS[system][0], group.operator, group.rows, group.estimate)


def lines(found: Sequence[Held]) -> list[str]:
    """The table as text."""
    head = f"{'system':10} {'collective':15} {'rows':>5} {'mean':>7} {'median':>7} {'90th':>7} {'in band':>8}"
    rows = []
    for h in found:
        values = (h.errors.mape, h.errors.median_ape, h.errors.p90_ape, h.errors.in_band)
        mean, median, worst, inside = (f"{v:.1%}" if v is not None else "-" for v in values)
        rows.append(f"{h.system:10} {h.operator:15} {h.rows:5} {mean:>7} {median:>7} {worst:>7} {inside:>8}")
    return [head, *rows]


def main() -> None:
    """Print the table, and the sets where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", action="store_true", help="the fitted sets too")
    wanted = parser.parse_args()
    results = [held_out(system) for system in SYSTEMS]
    print("\n".join(lines([h for _, held in results for h in held])))
    if wanted.sets:
        for fitting, _ in results:
            for s in fitting.sets:
                values = ", ".join(f"{k}: {v:.6g}" for k, v in s.values.items())
                band = ", ".join(f"{k}: [{low:.4f}, {high:.4f}]" for k, (low, high) in s.band.items())
                print(f"{s.name} ({s.rows} rows, {s.held} held out, {s.held_error or 0:.1%})\n  {{{values}}}\n  {{{band}}}")


if __name__ == "__main__":
    main()
