"""How far bound and estimate lie off measured times: docs/accuracy.md, written from the tables under results/.

    python benchmarks/accuracy.py            # writes docs/accuracy.md
    python benchmarks/accuracy.py --check    # says whether it is current

Only rows that no fit has seen are reported, except where a device's parameters are tried on another.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.whole_models import Outcome, outcomes  # noqa: E402
from roofline.fit.accuracy import Predicted, accuracy, predict  # noqa: E402
from roofline.fit.split import divided  # noqa: E402
from roofline.fit.tables import Table, read_tables  # noqa: E402
from roofline.hardware.profile import Hardware  # noqa: E402
from roofline.report.accuracy import Accuracy, Group  # noqa: E402
from roofline.spec.hardware import load_hardware  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
TABLES = ROOT / "results" / "tables"
MODELS = TABLES / "h200-sxm" / "models.csv"
RANDOM = ROOT / "results" / "h200" / "random"
WHOLE = {"models.csv"}
"""Tables that hold whole models instead of kernels."""
TRANSFERS = (("h100-sxm", "h200-sxm"), ("h100-sxm", "b200-sxm"), ("a100-sxm", "h100-sxm"), ("h100-sxm", "a100-sxm"))
"""Whose parameters are tried on which other device."""

HEAD = """# Accuracy

How far the bound and the estimate lie off measured times. Written by `python benchmarks/accuracy.py` from the tables under `results/`;
`roofline validate results/tables/h100-sxm/*.csv -H h100-sxm --part held-out` prints a device's part of it, with the worst rows and
their terms.

- **error** is the mean of |predicted - measured| / measured; **in band** the share of rows inside the stated 90 % band.
- The bound is what the published peaks allow: it is meant to be below the time, and its error says what a datasheet roofline leaves out.
- Three fifths of the rows of each table were fitted (`roofline fit`, by a hash of the row); every figure here is of the others,
  which no fit has seen. Whole models were in no fit at all; which kernels they launch was settled with their errors in view.
- `*_vllm` tables are a public database's collection of an inference engine's kernels (see their heads for source and licence), all
  others were measured for this project on one H200 (`results/README.md`). Collections of the same shapes by other people differ by
  4 to 8 %: a smaller error than that is not to be had, or not worth having.
"""

FRESH = """`roofline calibrate -H h200-sxm -o h200-fresh.yaml` (140 s: ceilings, 167 kernels, fit) and then, in the same session,
`python benchmarks/random_shapes.py --count 100 --seed 77 --seconds 0.25 --backward 0 -o shapes`: shapes that nothing was fitted to.
"""
NOT_MODELLED = """## What is not modelled

- Which of its kernels a library picks: the estimate takes the best of a few tiles, the library now and then takes a worse one.
- Clocks: one sustained state of the power limit is in the parameters; a cooler, a shorter or a locked run differs (8192 x 8192 x 8192
  in bf16 reached 789 TFLOP/s in bursts and 671 sustained).
- Contents: random normal inputs were measured. Zeros or structured data draw less power and run faster.
- Kernels that run at the same time, on one device or beside communication.
- Mixture-of-experts and latent-attention kernels have no operator yet; `moe` and `mla` tables are not in the list.
"""


def tables_of(device: str, names: Sequence[Path] | None = None) -> list[Table]:
    """The device's tables of kernels, paths as seen from the root."""
    paths = names or sorted(p for p in (TABLES / device).glob("*.csv") if p.name not in WHOLE)
    return read_tables([str(p.relative_to(ROOT)) for p in paths if _has_times(p)])


def _has_times(path: Path) -> bool:
    """Whether a table has device times: copies over the host's link were only timed from Python."""
    return path.stem not in ("memcpy",)


def percent(value: float | None) -> str:
    """A fraction for a table."""
    return "-" if value is None else f"{value:.1%}".replace("%", " %")


def line(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def group_line(device: str, group: Group) -> str:
    """A file and operator of a device."""
    e, b = group.estimate, group.bound
    file = Path(group.file).stem if "random" not in group.file else f"random/{Path(group.file).stem}"
    return line(device, file, group.operator, str(group.rows), *(percent(v) for v in (b.mape, e.mape, e.median_ape, e.p90_ape, e.in_band)))


def kernels(device: str, found: Accuracy) -> Iterator[str]:
    """All groups of a device, over all regimes."""
    yield from (group_line(device, g) for g in found.groups if g.regime is None)


def by_operator(tables: Sequence[Table], hardware: Hardware, part: str | None) -> Iterator[str]:
    """The operators of tables of ours, products by dtype and attention by implementation, and all of them."""
    rows = [row for table in tables if not Path(table.file).stem.endswith("_vllm") for row in table.rows]
    found = predict(divided(rows)[1] if part == "held-out" else rows, hardware)
    groups: dict[str, list[int]] = {}
    for at, row in enumerate(found.rows):
        more = row.fields["dtype"] if row.operator == "gemm" else row.fields["implementation"] if row.operator == "attention" else ""
        groups.setdefault(f"{row.operator} {more}".strip(), []).append(at)
    for name, members in [*sorted(groups.items()), ("**all**", list(range(len(found.rows))))]:
        yield _line_of(name, found, members)


def _line_of(name: str, found: Predicted, members: Sequence[int]) -> str:
    measured, at = found.measured_s[members], list(members)
    bound, estimate = (np.abs(times[at] / measured - 1) for times in (found.bound_s, found.estimate_s))
    inside = (found.low_s[at] <= measured) & (measured <= found.high_s[at])
    values = (bound.mean(), estimate.mean(), np.median(estimate), inside.mean())
    return line(name, str(len(at)), *(percent(float(v)) for v in values))


def transfer(source: Hardware, target: str) -> Iterator[str]:
    """The target's tables under another device's parameters, all rows: none of them was fitted."""
    device = replace(load_hardware(target), fitted=source.fitted, priors={})
    tables = [t for t in tables_of(target) if "_vllm" in t.file]
    for group in accuracy(tables, device).groups:
        if group.regime is None and group.estimate.mape is not None:
            e = group.estimate
            yield line(source.name, target, Path(group.file).stem, str(e.count), percent(e.mape), percent(e.median_ape), percent(e.in_band))


def whole(found: Sequence[Outcome]) -> Iterator[str]:
    """Whole models by phase."""
    for name in dict.fromkeys(o.group for o in found):
        runs = [o for o in found if o.group == name]
        worst = max(runs, key=lambda o: abs(o.error))
        mean, bound = (sum(abs(getattr(o, key)) for o in runs) / len(runs) for key in ("error", "bound_error"))
        inside = sum(o.inside for o in runs) / len(runs)
        yield line(name, str(len(runs)), percent(bound), percent(mean), f"{worst.error:+.1%} ({worst.label})", percent(inside))


def page() -> str:
    """The whole page."""
    devices = ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm")
    found = {name: accuracy(tables_of(name), load_hardware(name), "held-out") for name in devices}
    h200 = load_hardware("h200-sxm")
    own = [*tables_of("h200-sxm"), *tables_of("h200-sxm", sorted(RANDOM.glob("*.csv")))]
    head = ("device", "table", "operator", "rows", "bound error", "estimate error", "median", "90th percentile", "in band")
    parts = [HEAD, "## Kernels\n", line(*head), line(*["---"] * len(head))]
    for name in devices:
        parts += kernels(name, found[name])
    parts += ["", "## Own H200 measurements by operator\n", "Own tables and 1,617 random shapes together.\n"]
    columns = (line("operator", "rows", "bound error", "estimate error", "median", "in band"), line(*["---"] * 6))
    parts += [*columns, *by_operator(own, h200, "held-out")]
    parts += ["", "## A calibration from scratch\n", FRESH]
    shapes = tables_of("h200-sxm", sorted((ROOT / "results" / "h200" / "fresh" / "shapes").glob("*.csv")))
    parts += [*columns, *by_operator(shapes, load_hardware(str(ROOT / "results" / "h200" / "fresh" / "h200-fresh.yaml")), None)]
    parts += ["", "## Whole models on one H200\n", "Plain torch, random bf16 weights; `python benchmarks/whole_models.py`.\n"]
    parts += [line("phase", "runs", "bound error", "estimate error", "worst", "in band"), line(*["---"] * 6)]
    parts += whole(outcomes(MODELS, h200))
    parts += [
        "",
        "## Parameters of one device on another\n",
        "No row was fitted. The band of a set is 1.5 times as wide (in the logarithm) on another device of its architecture,\n"
        "else 4 times.\n",
    ]
    parts += [line("parameters of", "on", "table", "rows", "estimate error", "median", "in band"), line(*["---"] * 7)]
    for source, target in TRANSFERS:
        parts += transfer(load_hardware(source), target)
    return "\n".join([*parts, "", NOT_MODELLED])


def main() -> None:
    """Write the page, or say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare with what is there")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{PAGE} is not what the tables and the profiles say; run benchmarks/accuracy.py")


if __name__ == "__main__":
    main()
