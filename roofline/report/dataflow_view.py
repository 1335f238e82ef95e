"""The tables of `roofline dataflow`, within 80 columns, from the data of `roofline.report.dataflow`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from roofline.report.columns import Column, number, seconds
from roofline.report.text import print_columns, styled
from roofline.units import Dimension, format_quantity

Data = Mapping[str, Any]
WIDTH = 80


def size(value: float) -> str:
    """Bytes with a decimal prefix; a dash for none."""
    return format_quantity(value, Dimension.BYTES) if value else "-"


def flop(value: float) -> str:
    """FLOP with a prefix."""
    return format_quantity(value, Dimension.FLOP).removesuffix("FLOP").rstrip() if value else "-"


def kib(value: float) -> str:
    """Bytes in KiB."""
    return f"{value / 1024:.4g}"


def pairs(values: Mapping[str, Any]) -> str:
    """``a=1 b=2``."""
    return " ".join(f"{n}={v}" for n, v in values.items())


def column(heading: str, rows: Sequence[Data], cell: Any, *, right: bool = True, priority: int = 0) -> Column:
    """A column of a table whose rows are maps."""
    return Column(heading, tuple(cell(r) for r in rows), right, priority)


def wrapped(text: str, console: Console, style: str = "") -> None:
    """A sentence, broken at spaces."""
    # A number stays with the sign or the unit after it.
    kept = re.sub(r"(?<=\d) (?=%|[kMGTP]?i?B\b)", "\0", text)
    for line in textwrap.wrap(kept, min(console.width, WIDTH), break_on_hyphens=False) or [""]:
        console.print(styled(line.replace("\0", " "), style))


def print_dataflow(data: Data, console: Console) -> None:
    """What ``show`` prints."""
    wrapped(f"{data['dataflow']} on {data['hardware']}: {data['title']}", console, "bold")
    wrapped(pairs(data["params"]), console)
    if data["tiles"]:
        wrapped("tiles: " + pairs(data["tiles"]), console)
    kernels = data["kernels"]
    rows = [*kernels, {"name": "total", **data["totals"]}] if len(kernels) > 1 else kernels
    console.print()
    print_columns(_work(rows), console, last_is_total=len(kernels) > 1)
    console.print()
    print_columns(_times(rows), console, last_is_total=len(kernels) > 1)
    console.print()
    print_columns(_room(kernels), console)
    for kernel in kernels:
        steps = [s for s in kernel["steps"] if any(s["cycles"].values())]
        if steps and any(kernel["flop"].values()):
            console.print()
            console.print(styled(f"{kernel['name']}: cycles of a processor in one iteration"))
            print_columns(_steps(steps), console)
    console.print()
    for sentence in closing(data):
        wrapped(sentence, console)


def _work(rows: Sequence[Data]) -> list[Column]:
    return [
        column("kernel", rows, lambda r: r["name"], right=False),
        column("tensor", rows, lambda r: flop(r["flop"]["tensor"])),
        column("vector", rows, lambda r: flop(r["flop"]["vector"])),
        column("exp", rows, lambda r: flop(r["flop"]["sfu"])),
        column("HBM once", rows, lambda r: size(r["bytes"]["hbm_once"])),
        column("HBM", rows, lambda r: size(r["bytes"]["hbm"])),
        column("L2", rows, lambda r: size(r["bytes"]["l2"])),
        column("SMEM", rows, lambda r: size(r["bytes"]["smem"] + r["bytes"]["smem_fill"])),
    ]


def _times(rows: Sequence[Data]) -> list[Column]:
    def least(row: Data) -> str:
        times = row["per_resource_s"]
        return (max(times, key=lambda r: times[r]) if any(times.values()) else "-") if "limiter" not in row else row["limiter"] or "-"

    return [
        column("kernel", rows, lambda r: r["name"], right=False),
        column("blocks", rows, lambda r: number(r.get("blocks"))),
        column("waves", rows, lambda r: number(r.get("waves"))),
        column("bound", rows, lambda r: seconds(r["bound_s"])),
        column("binds", rows, least, right=False),
        column("scheduled", rows, lambda r: seconds(r["scheduled_s"])),
        column("no overlap", rows, lambda r: seconds(r["no_overlap_s"])),
    ]


def _room(kernels: Sequence[Data]) -> list[Column]:
    rows = [{"name": k["name"], **k["room"]} for k in kernels]
    return [
        column("kernel", rows, lambda r: r["name"], right=False),
        column("SMEM KiB", rows, lambda r: kib(r["smem_bytes"])),
        column("of", rows, lambda r: kib(r["smem_limit_bytes"])),
        column("accum", rows, lambda r: number(r["accumulators_per_thread"])),
        column("registers", rows, lambda r: number(r["registers_per_thread"])),
        column("of", rows, lambda r: number(r["register_limit"])),
        column("threads", rows, lambda r: number(r["threads"])),
        column("blocks/SM", rows, lambda r: number(r["blocks_per_processor"])),
        column("fits", rows, lambda r: "yes" if r["fits"] else "NO", right=False),
    ]


def _steps(steps: Sequence[Data]) -> list[Column]:
    def binds(step: Data) -> str:
        return "=".join([step["binds"], *step["tied"]]) if step["binds"] else "-"

    return [
        column("loop", steps, lambda s: s["loop"], right=False),
        column("times", steps, lambda s: number(s["iterations"])),
        *(column(r, steps, lambda s, r=r: number(round(s["cycles"][r], 1)) if s["cycles"][r] else "-") for r in steps[0]["cycles"]),
        column("step", steps, lambda s: number(round(s["scheduled_cycles"], 1))),
        column("binds", steps, binds, right=False),
    ]


def closing(data: Data) -> list[str]:
    """What the tables mean."""
    said = []
    moved = [(k["name"], t) for k in data["kernels"] for t in k["tensors"] if t["visits"] > 1.05]
    for name, tensor in sorted(moved, key=lambda p: p[1]["once_bytes"] - p[1]["l2_bytes"])[:3]:
        times = f"{number(tensor['visits'])} times ({size(tensor['once_bytes'])} once, {size(tensor['l2_bytes'])} in all)"
        said.append(f"{name} moves {tensor['tensor']} {times}.")
    totals = data["totals"]
    if totals["extra_memory_bytes"]:
        said.append(
            f"It needs {size(totals['extra_memory_bytes'])} of memory between its kernels, beside {size(totals['io_bytes'])} of operands."
        )
    said += fit_sentences(data)
    if data["missing"]:
        said.append("Not counted, since no rate is published: " + ", ".join(sorted(data["missing"])) + ".")
    said.append("Times are of published rates: bound, what nothing beats; scheduled, the least with these tiles; neither is an estimate.")
    return said


def fit_sentences(data: Data) -> list[str]:
    """Whether it fits, why not, and what would."""
    if data["fits"]:
        return []
    said = [f"DOES NOT FIT: {why}." for why in data["why"]]
    if data["change"]:
        said.append("Smallest change that fits: " + ", ".join(f"{n} {c['from']} -> {c['to']}" for n, c in data["change"].items()) + ".")
    else:
        said.append("No choice of its tiles fits.")
    return said


# --------------------------------------------------------------------------- comparison
QUANTITIES = (
    ("matrix FLOP", ("flop", "tensor"), flop),
    ("vector FLOP", ("flop", "vector"), flop),
    ("exponentials", ("flop", "sfu"), flop),
    ("kernels", ("kernels",), number),
    ("HBM, each tensor once", ("bytes", "hbm_once"), size),
    ("HBM, through L2", ("bytes", "hbm"), size),
    ("L2 (HBM without a cache)", ("bytes", "l2"), size),
    ("shared memory, filled", ("bytes", "smem_fill"), size),
    ("shared memory, used", ("bytes", "smem"), size),
    ("memory between kernels", ("extra_memory_bytes",), size),
    ("bound", ("bound_s",), seconds),
    ("binds", ("limiter",), lambda v: v or "-"),
    ("scheduled, at least", ("scheduled_s",), seconds),
    ("without overlap", ("no_overlap_s",), seconds),
)
"""Lines of a comparison: what, where it lies in the data, how it is written."""


def _at(row: Data, path: tuple[str, ...]) -> Any:
    found: Any = row
    for key in path:
        found = found[key]
    return found


def print_comparison(data: Data, console: Console) -> None:
    """What ``compare`` prints."""
    rows = data["dataflows"]
    console.print(styled(f"{' and '.join(r['dataflow'] for r in rows)} on {data['hardware']}", "bold"))
    columns = [Column("", tuple(q[0] for q in QUANTITIES), right=False)]
    for i, row in enumerate(rows):
        columns.append(Column(row["dataflow"], tuple(write(_at(row, path)) for _, path, write in QUANTITIES)))
        if i:
            columns.append(Column("ratio", tuple(_ratio(_at(rows[0], path), _at(row, path)) for _, path, _ in QUANTITIES)))
    print_columns(columns, console)
    console.print()
    for row, ratios, why in zip(rows[1:], data["ratios"][1:], data["why"], strict=True):
        wrapped(verdict(rows[0], row, ratios), console)
        for sentence in why:
            wrapped(sentence, console)
    for row in rows:
        for sentence in fit_sentences(row):
            wrapped(f"{row['dataflow']}: {sentence}", console)


def _ratio(first: Any, other: Any) -> str:
    if isinstance(first, str) or isinstance(other, str) or not first or other is None:
        return ""
    return f"{other / first:.3g}"


def percent(ratio: float | None) -> str:
    """A ratio as a change."""
    if ratio is None:
        return "no longer comparable"
    change = (ratio - 1) * 100
    return "unchanged" if abs(change) < 0.05 else f"{change:+.1f} %"


def verdict(first: Data, other: Data, ratios: Data) -> str:
    """The comparison in a sentence."""
    faster = f"bound {1 / ratios['bound_s']:.2f}x as fast, scheduled {1 / ratios['scheduled_s']:.2f}x"
    flops = f"matrix FLOP {percent(ratios['flop.tensor'])}, " if first["flop"]["tensor"] else ""
    return f"{other['dataflow']} against {first['dataflow']}: {flops}HBM bytes {percent(ratios['bytes.hbm'])}, {faster}."


# --------------------------------------------------------------------------- tuning
def print_tuning(data: Data, console: Console) -> None:
    """What ``tune`` prints."""
    console.print(styled(f"{data['dataflow']} on {data['hardware']}: tiles", "bold"))
    wrapped(pairs(data["params"]), console)
    wrapped(f"{data['fitting']} of {data['tried']} combinations of tiles have room.", console)
    if data["best"]:
        console.print()
        if not _apart(data["best"]):
            wrapped("tiles: " + " ".join(data["best"][0]["tiles"]), console)
        print_columns(_choices(data["best"]), console)
    if data["worth"]:
        console.print()
        wrapped("Twice the part, and the tiles that are then best, take the scheduled time to:", console)
        rows = data["worth"]
        print_columns(
            [
                column("part", rows, lambda r: r["part"], right=False),
                column("scheduled", rows, lambda r: seconds(r["scheduled_s"])),
                column("worth", rows, lambda r: f"{r['speedup']:.3f}x"),
                column("best tiles then", rows, lambda r: pairs(r["tiles"]), right=False, priority=1),
            ],
            console,
        )
    if data["sweep"]:
        console.print()
        wrapped("Shared memory of a block, and the tiles that move the fewest bytes in it:", console)
        print_columns(_sweep(data["sweep"]), console)


def _choices(rows: Sequence[Data]) -> list[Column]:
    return [
        *_tile_columns(rows),
        column("scheduled", rows, lambda r: seconds(r["scheduled_s"])),
        column("no overlap", rows, lambda r: seconds(r["no_overlap_s"]), priority=1),
        column("L2", rows, lambda r: size(r["bytes"]["l2"]), priority=2),
        column("KiB", rows, lambda r: kib(r["smem_bytes"]), priority=3),
        column("regs", rows, lambda r: number(r["registers_per_thread"]), priority=4),
        column("binds", rows, lambda r: "=".join([r["binds"] or "-", *r["tied"]]), right=False),
    ]


def _sweep(rows: Sequence[Data]) -> list[Column]:
    return [
        column("SRAM", rows, lambda r: f"{r['sram_bytes'] / 1024:g} KiB"),
        *_tile_columns(rows),
        column("HBM once", rows, lambda r: size(r["bytes"]["hbm_once"]) if r["bytes"] else "-", priority=3),
        column("HBM", rows, lambda r: size(r["bytes"]["hbm"]) if r["bytes"] else "-"),
        column("L2", rows, lambda r: size(r["bytes"]["l2"]) if r["bytes"] else "-"),
        column("re-reads x SRAM", rows, lambda r: size(r["reread_bytes"] * r["sram_bytes"]) if r["bytes"] else "-", priority=1),
        column("least time", rows, lambda r: seconds(r["scheduled_s"])),
    ]


def _apart(rows: Sequence[Data]) -> bool:
    """Whether each tile gets a column of its own; many get one together, in the order of a line above it."""
    return sum(len(name) + 2 for name in _tile_names(rows)) <= WIDTH / 2


def _tile_columns(rows: Sequence[Data]) -> list[Column]:
    names = _tile_names(rows)
    if _apart(rows):
        return [column(name, rows, lambda r, name=name: str(r["tiles"][name]) if r["tiles"] else "-") for name in names]
    return [column("tiles", rows, lambda r: " ".join(str(v) for v in r["tiles"].values()) if r["tiles"] else "-", right=False)]


def _tile_names(rows: Sequence[Data]) -> list[str]:
    return next((list(r["tiles"]) for r in rows if r["tiles"]), [])
