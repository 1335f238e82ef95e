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

from benchmarks.sharded_predicted import Outcome as Sharded  # noqa: E402
from benchmarks.sharded_predicted import label_of, unit_host_s  # noqa: E402
from benchmarks.sharded_predicted import outcomes as sharded_outcomes  # noqa: E402
from benchmarks.whole_models import Outcome, outcomes  # noqa: E402
from roofline.fit.accuracy import Predicted, accuracy, predict  # noqa: E402
from roofline.fit.split import divided  # noqa: E402
from roofline.fit.tables import Table, read_tables  # noqa: E402
from roofline.hardware.profile import Hardware  # noqa: E402
from roofline.report.accuracy import Accuracy, Group  # noqa: E402
from roofline.report.model import Report  # noqa: E402
from roofline.report.store import load_report  # noqa: E402
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
PAIR = ROOT / "results" / "h200-x2"
SEVERAL = """Two H200s of one host over NVLink (18 links), NCCL without NVLink multicast, each process under torchrun.
`roofline calibrate --links -o h200-x2.yaml` measured five collectives from 2 KiB to 4 GiB and fitted their parameters; then, in the same
session, `roofline measure --kernel all_reduce ... -H h200-x2.yaml` measured sizes between those, 1 KiB to 4 GiB.
"""
SHARDED = """`benchmarks/sharded_decoder.py` ran decoders in plain torch: tensor-parallel prefill and decode, training steps under DDP and
FSDP2 (a batch for each rank). `benchmarks/sharded_predicted.py` predicts them from kernels measured on one GPU and the collectives above;
nothing was fitted to these runs, but which copies FSDP2 makes and that NCCL holds 24 processors was read off their traces. Exposed: what
the run takes longer than the same without communication (tensor parallelism) or on one GPU (training).
"""
STAGED = """In a pipeline (pp) each GPU holds half of the layers; a prefill of 8 prompts, or a token of 32 sequences (64 back to back),
passes in so many parts. Predicted as `roofline plan` composes stages, from the same kernels and hops. Exposed: what the step takes
longer than a stage that waits for nobody, which is the filling of the pipeline and the way between its stages.
"""
HOST_BOUND = """Small steps are decided by the host, whose cost no profile knows. FSDP2's wrappers take {unit:.1f} ms a unit and step on
this host, read off one run ("read off" above), and explain the other; in a second run on another loan of such a machine they took
6.1 ms. Under torchrun plain eager steps of small models are slower than in a process by itself (gpt2-medium 66 to 72 ms, alone 61 ms):
the DDP step of that model, {ddp:+.1%}, is that.
"""
NOT_MODELLED = """## What is not modelled

- Which of its kernels a library picks: the estimate takes the best of a few tiles, the library now and then takes a worse one.
- Clocks: one sustained state of the power limit is in the parameters; a cooler, a shorter or a locked run differs (8192 x 8192 x 8192
  in bf16 reached 789 TFLOP/s in bursts and 671 sustained).
- Contents: random normal inputs were measured. Zeros or structured data draw less power and run faster.
- Kernels that run at the same time on one device; beside communication only the processors that it holds, not the memory it uses.
- Which tile an engine's tables pick for experts, whose few shapes with 80 to 130 rows an expert take 1.5 times the estimate; how a router
  really loads them: rows of a `power_law` are random draws of which only the law is known, so that one with few tokens can beat its bound.
- Calls of latent attention were issued from Python: nothing below 500 MB and 150 GFLOP is in the `mla` rows, and the fixed cost of its
  kernels follows from longer ones. They have outliers of two and three times their neighbours. fp8 experts were not measured.
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


def collectives(report: Report) -> Iterator[str]:
    """Collectives that were measured after their calibration, by operator."""
    for name in dict.fromkeys(r.op for r in report.rows):
        rows = [r for r in report.rows if r.op == name and r.measured and r.measured.time_s and r.estimate]
        errors = np.array([r.estimate.time_s / r.measured.time_s - 1 for r in rows if r.estimate and r.measured])
        inside = [r.estimate.low_s <= r.measured.time_s <= r.estimate.high_s for r in rows if r.estimate and r.measured]
        worst = rows[int(np.abs(errors).argmax())]
        mean, middle = float(np.abs(errors).mean()), float(np.median(np.abs(errors)))
        said = f"{errors[np.abs(errors).argmax()]:+.1%} ({worst.id})"
        yield line(name, str(len(rows)), percent(mean), percent(middle), said, percent(sum(inside) / len(inside)))


def sharded(found: Sequence[Sharded]) -> Iterator[str]:
    """Decoders over two GPUs, a line a run."""
    for o in found:
        exposed = (f"{ms:.2f}" for ms in o.exposed_ms) if o.exposed_ms else ("-", "-")
        error = "read off" if o.read_off else f"{o.error:+.1%}"
        yield line(label_of(o.row), f"{1e3 * o.measured_s:.2f}", f"{1e3 * o.predicted_s:.2f}", error, *exposed)
    yield ""
    for way, phase in dict.fromkeys((o.row["way"], o.row["phase"]) for o in found):
        errors = [abs(o.error) for o in found if (o.row["way"], o.row["phase"]) == (way, phase) and not o.read_off]
        yield f"- {way} {phase}: {len(errors)} runs, mean error {percent(sum(errors) / len(errors))}, largest {percent(max(errors))}"


SHARDED_HEAD = (line("run", "measured ms", "estimate ms", "error", "exposed ms", "estimated"), line(*["---"] * 6))


def several() -> Iterator[str]:
    """What was measured over several GPUs."""
    yield from ("", "## Several GPUs\n", SEVERAL)
    yield from (line("collective", "rows", "estimate error", "median", "worst", "in band"), line(*["---"] * 6))
    yield from collectives(load_report(str(PAIR / "collectives.json")))
    hardware = load_hardware(str(PAIR / "h200-x2.yaml"))
    found = sharded_outcomes(PAIR / "sharded.csv", hardware, 24)
    yield from ("", SHARDED, *SHARDED_HEAD, *sharded(found))
    ddp = next(o for o in found if (o.row["way"], o.row["model"], o.row["batch"]) == ("ddp", "gpt2-medium-like", "8"))
    yield from ("", HOST_BOUND.format(unit=1e3 * unit_host_s(found), ddp=ddp.error))
    yield from (STAGED, *SHARDED_HEAD, *sharded(sharded_outcomes(PAIR / "pipeline.csv", hardware, 24)))


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
    parts += several()
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
