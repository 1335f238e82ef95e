"""The figures of docs/algorithms: what the dataflow accountant says on `h200-sxm`, and what an H200 measured.

    PYTHONPATH=. python benchmarks/figures.py

writes docs/algorithms/figures/*.svg; a test fails when one of them is not current. Measured are the rows of
results/h200/dataflow_kernels.csv; everything else is counted here and now. Filled marks are measured, hollow ones predicted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from roofline.dataflow.account import Account, Device, account, device_of
from roofline.dataflow.form import Dataflow
from roofline.dataflow.tune import fewest_bytes
from roofline.numeric import scalar
from roofline.ops.base import work_of
from roofline.ops.registry import OPERATORS
from roofline.report.dataflow import limiter
from roofline.report.plot.scale import log_scale
from roofline.report.plot.svg import Drawing
from roofline.spec.dataflow import load_dataflow
from roofline.spec.hardware import load_hardware

ROOT = Path(__file__).parent.parent
MEASURED = ROOT / "results" / "h200" / "dataflow_kernels.csv"
FIGURES = ROOT / "docs" / "algorithms" / "figures"
PROFILE = "h200-sxm"
WIDTH = 760.0
STYLE = """
svg{color:#1f2328;font-size:12px;font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif}
text{fill:currentColor} .head{font-weight:600} .quiet{opacity:.75}
line,path{stroke:currentColor;fill:none} .grid{opacity:.18} .join{opacity:.5}
.a{fill:#0072b2} .b{fill:#d55e00} .c{fill:#009e73}
.la{stroke:#0072b2;stroke-width:2} .lb{stroke:#d55e00;stroke-width:2} .lc{stroke:#009e73;stroke-width:2} .ld{stroke-width:1.5}
.hollow{fill:none;stroke:currentColor;stroke-width:1.5} .dash{stroke-dasharray:5 4}
@media (prefers-color-scheme:dark){svg{color:#e6edf3} .a{fill:#56b4e9} .b{fill:#e69f00} .c{fill:#2bbd93}
.la{stroke:#56b4e9} .lb{stroke:#e69f00} .lc{stroke:#2bbd93}}
"""
"""Blue, vermilion and green of Okabe and Ito, lighter on a dark page; shapes and labels say the same without them."""


# --------------------------------------------------------------------------- drawing
def drawing(title: str, height: float) -> Drawing:
    """An empty page with the style sheet of these figures."""
    return Drawing(title, height, width=WIDTH, style=STYLE)


def duration(seconds: float) -> str:
    """Three digits of it.

    >>> duration(0.00018), duration(0.271261)
    ('180 µs', '271 ms')
    """
    return f"{seconds * 1e6:.0f} µs" if seconds < 0.9995e-3 else f"{float(f'{seconds * 1e3:.3g}'):g} ms"


# --------------------------------------------------------------------------- numbers
def measured(group: str, shape: str, kernel: str, fields: str = "") -> dict[str, str]:
    """The row of the table; of several with other fields the fastest."""
    with MEASURED.open(encoding="utf-8", newline="") as stream:
        rows = [r for r in csv.DictReader(stream) if (r["group"], r["shape"], r["kernel"]) == (group, shape, kernel)]
    return min((r for r in rows if fields in r["fields"]), key=lambda r: float(r["us"]))


def seconds(group: str, shape: str, kernel: str) -> float:
    """Time of that row."""
    return float(measured(group, shape, kernel)["us"]) * 1e-6


def _loaded(name: str, settings: dict[str, float | str], sram: float | None = None) -> tuple[Dataflow, Device]:
    hardware = load_hardware(PROFILE)
    flow = load_dataflow(name, [f"{k}={v}" for k, v in settings.items()], device_of(hardware, "fp32", sram).names)
    return flow, device_of(hardware, flow.dtype, sram)


def counted(name: str, **settings: float | str) -> Account:
    """The dataflow on the profile."""
    return account(*_loaded(name, settings))


def least_moved(name: str, sram: float, **settings: float | str) -> float:
    """Bytes that go to blocks when the shared memory of one is ``sram``, with the tiles that move the fewest."""
    found = fewest_bytes(*_loaded(name, settings, sram))
    assert found is not None, f"{name} has no tiles for {sram:g} B"
    return float(scalar(found.account.sum("l2_bytes")))


def moving(op: str, **fields: float | str | bool) -> float:
    """Seconds in which HBM moves what an operator must move."""
    nothing = work_of(OPERATORS[op](**fields), None)
    return float(scalar(nothing.compulsory.hbm)) / _hbm_bytes_per_s()


def _hbm_bytes_per_s() -> float:
    rates = device_of(load_hardware(PROFILE), "bf16").rates
    return float(rates.per_clock["hbm"] * rates.clock_hz * rates.processors)


# --------------------------------------------------------------------------- the figures
RUNGS = {
    "gemm_naive": ("naive", "gemm:naive"),
    "gemm_coalesced": ("coalesced", "gemm:coalesced"),
    "gemm_shared": ("shared-memory tiles", "gemm:smem"),
    "gemm_tiled": ("register tiles", "gemm:tile2d"),
    "gemm_tensor": ("tensor cores", "gemm:tensor"),
    "gemm_pipelined": ("pipelined", "gemm:pipelined"),
    "gemm_persistent": ("persistent, TMA", "gemm:pipelined"),
    "gemm": ("cuBLAS", ""),
}


def ladder() -> Drawing:
    """TFLOP/s of each rung, measured and scheduled."""
    page = drawing("Matmul ladder, 4096 x 4096 x 4096, bf16, H200", 40.0 + 28 * len(RUNGS) + 46)
    left, right, flop = 170.0, 480.0, 2 * 4096**3
    place = log_scale(0.3, 1000, left, right)
    bottom = page.height - 46
    for x, said, at in ((8.0, "kernel", "start"), (572, "measured", "end"), (662, "scheduled", "end"), (688, "binds", "start")):
        page.text(x, 22, said, at=at, style="head")
    for tick in (1, 10, 100, 1000):
        page.line(place(tick), 32, place(tick), bottom, "grid")
        page.text(place(tick), bottom + 16, f"{tick}", at="middle", style="quiet")
    page.text((left + right) / 2, bottom + 34, "TFLOP/s: filled measured, hollow scheduled", at="middle", style="quiet")
    for i, (kernel, (label, dataflow)) in enumerate(RUNGS.items()):
        y, rate = 50.0 + 28 * i, flop / seconds("ladder", "4096^3 bf16", kernel) / 1e12
        page.text(8, y + 4, label)
        if dataflow:
            found = counted(dataflow, dtype="bf16")
            could = flop / float(scalar(found.scheduled_s)) / 1e12
            page.line(place(rate), y, place(could), y, "join")
            page.dot(place(could), y, "hollow")
            page.text(662, y + 4, f"{could:.3g}", at="end", style="quiet")
            page.text(688, y + 4, str(limiter(found)), style="quiet")
        page.dot(place(rate), y, "a")
        page.text(572, y + 4, f"{rate:.3g}", at="end")
        page.about.append(f"{label}: {rate:.3g} TFLOP/s")
    return page


ATTENTION = {"batch": 4, "q_len": 4096, "kv_len": 4096}
SRAM = (32, 64, 128, 256, 512)


def attention() -> Drawing:
    """Bytes to the blocks by shared memory."""
    page = drawing("Bytes of attention by the shared memory of a block", 360)
    across, down = log_scale(32, 512, 70, 490), log_scale(0.1, 40, 300, 20)
    for gigabytes in (0.1, 1, 10):
        page.line(70, down(gigabytes), 490, down(gigabytes), "grid")
        page.text(62, down(gigabytes) + 4, f"{gigabytes:g} GB", at="end", style="quiet")
    for kib in SRAM:
        page.line(across(kib), 20, across(kib), 300, "grid")
        page.text(across(kib), 318, f"{kib}", at="middle", style="quiet")
    page.text(280, 340, "shared memory of a block, KiB", at="middle", style="quiet")
    once = float(scalar(counted("attention:flash2", **ATTENTION).sum("once_bytes"))) / 1e9
    naive = float(scalar(counted("attention:naive", **ATTENTION).sum("once_bytes"))) / 1e9
    lines = [("scores in memory: HBM", "lb", [naive] * len(SRAM)), ("Q, K, V, O once: HBM", "ld dash", [once] * len(SRAM))]
    for name, label, style in (("flash1", "Flash 1: O and Q again", "la"), ("flash2", "Flash 2: K and V from L2", "lc")):
        lines.append((label, style, [least_moved(f"attention:{name}", kib * 1024, **ATTENTION) / 1e9 for kib in SRAM]))
    for label, style, values in lines:
        points = [(across(x), down(y)) for x, y in zip(SRAM, values, strict=True)]
        page.curve(points, style)
        if "dash" not in style and len(set(values)) > 1:
            for x, y in points:
                page.dot(x, y, style[1:2], square=style == "lc")
        nudge = {"la": 18.0, "lc": -2.0}.get(style, 4.0)
        page.text(502, points[-1][1] + nudge, f"{label}, {values[-1]:.2f} GB")
        page.about.append(f"{label}: {values[0]:.2f} GB at {SRAM[0]} KiB, {values[-1]:.2f} GB at {SRAM[-1]} KiB")
    return page


def softmax_and_norms() -> Drawing:
    """Accesses of memory an element, and times."""
    page = drawing("Softmax and norms: memory accesses and times", 424)
    long, short = {"rows": 512, "cols": 262144}, {"rows": 16384, "cols": 8192}
    cases = [
        *((f"softmax:{kind}", f"{kind} softmax, long rows", long, "b") for kind in ("naive", "safe", "online")),
        ("softmax:safe", "softmax, row on chip", short, "a"),
        ("layernorm:unfused", "residual and norm, 4 kernels", short, "b"),
        ("layernorm:fused", "residual and norm, 1 kernel", short, "a"),
    ]
    page.text(8, 20, "memory accesses an element, counted (blue: in one pass)", style="head")
    for i, (name, label, shape, style) in enumerate(cases):
        moved = float(scalar(counted(name, **shape).sum("hbm_bytes")))
        accesses, y = moved / (shape["rows"] * shape["cols"] * 2), 32.0 + 26 * i
        page.text(8, y + 14, label)
        page.bar(230, y, accesses * 60, 18, style)
        page.text(238 + accesses * 60, y + 14, f"{accesses:.2g}")
        page.about.append(f"{label}: {accesses:.2g} accesses")
    page.text(8, 222, "16384 rows of 8192, bf16: time, measured (blue: ours, line: bound)", style="head")
    kernels = [
        *(("softmax", "16384x8192", k, f"softmax, {who}") for k, who in (("softmax", "torch"), ("softmax_triton", "ours"))),
        *(
            ("rmsnorm", "16384x8192 residual", k, f"residual and rmsnorm, {who}")
            for k, who in (("rmsnorm", "torch"), ("rmsnorm_compiled", "compiled"), ("rmsnorm_triton", "ours"))
        ),
    ]
    bounds = {
        "softmax": moving("softmax", **short, dtype="bf16"),
        "rmsnorm": moving("rmsnorm", **short, residual=True, dtype="bf16"),
    }
    for i, (group, shape_name, kernel, label) in enumerate(kernels):
        took, y = seconds(group, shape_name, kernel), 234.0 + 30 * i + (14 if group == "rmsnorm" else 0)
        page.text(8, y + 14, label)
        page.bar(230, y, took * 6e5, 18, "a" if kernel.endswith("triton") else "b")
        page.text(238 + took * 6e5, y + 14, f"{duration(took)}, {took / bounds[group]:.1f}x its bound")
        page.about.append(f"{label}: {duration(took)}, bound {duration(bounds[group])}")
        page.line(230 + bounds[group] * 6e5, y - 4, 230 + bounds[group] * 6e5, y + 22, "ld")
    return page


LENGTHS = {1024: (32, 32), 2048: (64, 32), 4096: (64, 64), 8192: (32, 16, 16), 16384: (32, 32, 16), 32768: (32, 32, 32)}
"""Factors of the transforms that our kernel took."""


def _fused_bound(n: int) -> float:
    factors = {f"n{i}": width for i, width in enumerate(LENGTHS[n], 1)}
    return float(scalar(counted(f"fft_conv:order{len(factors)}", gated=1, **factors).bound_s))


def fft_convolution() -> Drawing:
    """Times of gated convolutions by length."""
    page = drawing("Gated convolution of 64 x 768 sequences, bf16, H200", 400)
    across, down = log_scale(1024, 32768, 80, 540), log_scale(0.05, 60, 340, 20)
    for ms in (0.1, 1, 10):
        page.line(80, down(ms), 540, down(ms), "grid")
        page.text(72, down(ms) + 4, f"{ms:g} ms", at="end", style="quiet")
    for n in LENGTHS:
        page.text(across(n), 358, f"{n // 1024}K", at="middle", style="quiet")
    page.text(310, 380, "elements of a sequence (ratio of the two measured times above the lower one)", at="middle", style="quiet")
    shape = "{} 64x768 gated"
    slow = {n: seconds("fft_conv", shape.format(n), "fft_conv") * 1e3 for n in LENGTHS}
    fast = {n: seconds("fft_conv", shape.format(n), "fft_conv_triton") * 1e3 for n in LENGTHS}
    fields = {"batch": 64, "channels": 768, "dtype": "bf16", "padding": "circular", "gated": True}
    least = {n: moving("fft_conv", seq=n, **fields) * 1e3 for n in LENGTHS}
    lines = [
        (slow, "lb", "by cuFFT"),
        (least, "lb dash", "its bytes over HBM"),
        (fast, "la", "fused"),
        ({n: _fused_bound(n) * 1e3 for n in LENGTHS}, "la dash", "its bound"),
    ]
    for values, style, label in lines:
        points = [(across(n), down(ms)) for n, ms in values.items()]
        page.curve(points, style)
        nudge = {"lb": -2.0, "lb dash": 12.0}.get(style, 4.0)
        page.text(554, points[-1][1] + nudge, f"{label}, {duration(values[32768] / 1e3)}")
        if "dash" not in style:
            for x, y in points:
                page.dot(x, y, style[1:], square=style == "la")
    for n, ms in fast.items():
        page.text(across(n), down(ms) - 12, f"{slow[n] / ms:.1f}x", at="middle")
        page.about.append(
            f"{n} elements: cuFFT {duration(slow[n] / 1e3)}, fused {duration(ms / 1e3)}, its bound {duration(_fused_bound(n))}"
        )
    return page


def monarch() -> Drawing:
    """Times of products with a Monarch matrix and with a dense one."""
    page = drawing("Products with a Monarch matrix and with a dense one, bf16, H200", 352)
    for panel, (rows, n) in enumerate(((16384, 4096), (8192, 16384))):
        top, shape = 20.0 + 166 * panel, f"{rows}x{n}"
        page.text(8, top, f"n = {n}, {rows} rows", style="head")
        dense = seconds("monarch", shape, "gemm")
        two, one = (counted(f"monarch:{which}", batch=rows, n=n) for which in ("factors", "order2"))
        rows_of = [
            ("dense product, cuBLAS", dense, "b"),
            ("two bmm and two copies, torch", seconds("monarch", shape, "monarch"), "c"),
            ("a kernel a factor, ours", seconds("monarch", shape, "monarch_triton"), "a"),
            ("a kernel a factor, scheduled", float(scalar(two.scheduled_s)), "hollow"),
            ("in one kernel, scheduled", float(scalar(one.scheduled_s)), "hollow"),
        ]
        for i, (label, took, style) in enumerate(rows_of):
            y = top + 10 + 26 * i
            page.text(8, y + 14, label)
            if style == "hollow" and not bool((two if "factor" in label else one).fits):
                page.text(238, y + 14, "a block has no room on this device")
                continue
            page.bar(230, y, took / dense * 280, 18, style)
            page.about.append(f"n = {n}, {label}: {duration(took)}")
            page.text(238 + took / dense * 280, y + 14, f"{duration(took)}, {dense / took:.2g}x as fast as dense" if i else duration(took))
    return page


ALL: dict[str, Callable[[], Drawing]] = {
    "matmul-ladder": ladder,
    "attention": attention,
    "softmax-and-norms": softmax_and_norms,
    "fft-convolution": fft_convolution,
    "monarch": monarch,
}
"""A figure a page of docs/algorithms."""


def main() -> None:
    """Write them."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, draw in ALL.items():
        (FIGURES / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
