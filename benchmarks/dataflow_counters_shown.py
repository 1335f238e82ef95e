"""Tables of `benchmarks.dataflow_counters`: counters beside what dataflows and operators predict. No GPU and no torch is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.dataflow_counters import DRAIN, PEAK, Counted, Row, operator
from roofline.dataflow.account import Account, Device, account, device_of
from roofline.dataflow.form import Dataflow, Kernel, Names, amount
from roofline.errors import RooflineError
from roofline.hardware.profile import Hardware
from roofline.measure.families import PARAMS
from roofline.measure.registry import KERNELS
from roofline.numeric import Number, scalar, total
from roofline.ops.base import Work, work_of
from roofline.predict.bound import machine_of
from roofline.report.dataflow import limiter
from roofline.spec.dataflow import load_dataflow, setting_names
from roofline.spec.hardware import load_hardware

RESOURCES = ("tensor", "vector", "sfu", "smem", "l2", "hbm")
SECTOR, LINE, WARP = 32, 128, 32
WITHIN = 0.2
"""The goal: predicted bytes lie so close to the counters."""
NEAR = 0.9
"""A predicted resource that is used so much of the most used one is confirmed: they tie."""
BUSY = 0.6
"""Where no resource is used that much, latencies bind rather than a level."""
SHARED, RESERVED = 233472, 1024
"""Shared memory of a Hopper processor, and what it takes of that for each block."""
LANES = {"fma": 128, "alu": 64, "xu": 16}
"""Of the pipes of a Hopper processor."""
BYTES_NOTE = (
    "Bytes. 'flow' is what the dataflow says, 'op' the operator; quotients are said over counted, * within 20 %. HBM counts what was left",
    "dirty in L2 as written. L2 to SMs: what processors received, written: what they sent. L2 sectors: what was left to do for L2 after",
    "requests of neighbouring processors for the same sector were joined. L2 all: with the way between both halves of L2. SMEM: wavefronts",
    "at 128 bytes of loads, stores and operands of wgmma, without what asynchronous copies write.",
)
BYTES_HEADER = ("case", "HBM MB", "of it left", "flow MB", "flow/", "flow once/", "op cached/", "op once/", "L2 to SMs MB", "flow MB",
                "flow/", "written MB", "flow/", "L2 sectors MB", "L2 all MB", "SMEM GB", "flow/")  # fmt: skip
LEVELS_NOTE = ("Levels. Percent of each resource: counted over published rates (L2: of ncu's peak); 'says' is what binds by the dataflow.",)
LEVELS_HEADER = ("case", "us", "flow us", "says", *(f"{r} %" for r in (*RESOURCES, "issue")), "counted", "verdict")


# --------------------------------------------------------------------------- counters of a case
@dataclass(frozen=True)
class Launches:
    """The launches of one case in one run: counters by launch."""

    of: tuple[Mapping[str, float], ...]

    def sum(self, metric: str) -> float | None:
        """Over all launches; None where one lacks it."""
        found = [launch.get(metric) for launch in self.of]
        return None if not found or None in found else sum(v for v in found if v is not None)

    def share(self, metric: str) -> float | None:
        """A percentage as a share, weighted with the time of each launch."""
        times = [launch.get("gpu__time_duration.sum", 0.0) for launch in self.of]
        found = [launch.get(metric) for launch in self.of]
        if not found or None in found or not sum(times):
            return None
        return sum(t * v for t, v in zip(times, found, strict=True) if v is not None) / sum(times) / 100


def launches(rows: Sequence[Row], run: str, case: str, apart: str = "") -> Launches:
    """Those of a case, without kernels whose name begins with ``apart``."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if (row["run"], row["case"]) == (run, case) and not (apart and row["kernel"].startswith(apart)):
            found.setdefault(row["launch"], {})[row["metric"]] = float(row["value"])
    return Launches(tuple(found.values()))


@dataclass(frozen=True)
class Measured:
    """Bytes of a case: HBM with what was left dirty in L2 at its end; what processors received from L2 and sent to it; sectors that
    L2 served them, and all that L2 moved."""

    hbm: float | None
    left: float
    received: float | None
    sent: float | None
    l2_served: float | None
    l2: float | None


def measured(rows: Sequence[Row], case: str, apart: str = "") -> Measured:
    """From the run in one pass; from that of levels where there is no other."""
    one, levels = launches(rows, "bytes", case, apart), launches(rows, "levels", case, apart)
    left = launches(rows, "bytes", case + DRAIN).sum("dram__bytes_write.sum") or 0.0
    first = one if one.of else levels
    read, written = first.sum("dram__bytes_read.sum"), first.sum("dram__bytes_write.sum")
    hbm = None if read is None or written is None else read + written + left
    sectors = levels.sum("lts__t_sectors_srcunit_tex.sum")
    received, sent = levels.sum("l1tex__m_xbar2l1tex_read_bytes.sum"), levels.sum("l1tex__m_l1tex2xbar_write_bytes.sum")
    return Measured(hbm, left, received, sent, None if sectors is None else sectors * SECTOR, first.sum("lts__t_bytes.sum"))


def used(found: Launches, device: Device, fast: Launches | None = None) -> dict[str, float]:
    """How much of each resource is used: counters over published rates in the cycles that passed; of L2 what ncu calls its peak.

    HBM is taken from ``fast``, a run in one pass, where there is one: what is replayed finds L2 warm.
    """
    first = fast if fast is not None and fast.of else found
    cycles, time_ns = found.sum("sm__cycles_elapsed.max"), first.sum("gpu__time_duration.sum")
    rates, said = device.rates.per_clock, {}
    clocks = (cycles or 0.0) * device.rates.processors

    def rate(metric: str, per_clock: float, scale: float = 1.0) -> float | None:
        count = found.sum(metric)
        return None if count is None or not clocks else count * scale / (clocks * per_clock)

    dram = [first.sum(f"dram__bytes_{way}.sum") for way in ("read", "write")]
    hbm = rates["hbm"] * device.rates.processors * device.rates.clock_hz
    said["tensor"] = [
        rate("sm__ops_path_tensor_src_bf16_dst_fp32.sum", rates["tensor"]),
        found.share(f"sm__pipe_tensor_cycles_active{PEAK}"),
    ]
    said["vector"] = [rate(f"smsp__inst_executed_pipe_{p}.sum", LANES[p], WARP) for p in ("fma", "alu")]
    said["sfu"] = [rate("smsp__inst_executed_pipe_xu.sum", LANES["xu"], WARP)]
    said["smem"] = [
        rate("l1tex__data_pipe_lsu_wavefronts.sum", 1),
        *(found.share(f"l1tex__data_bank_{way}{PEAK}") for way in ("reads", "writes")),
    ]
    said["l2"] = [found.share(f"lts__t_sectors{PEAK}"), found.share(f"lts__throughput{PEAK}")]
    said["hbm"] = [sum(d for d in dram if d is not None) / (time_ns * 1e-9 * hbm) if time_ns and None not in dram else None]
    said["issue"] = [rate("smsp__inst_executed.sum", 4)]
    return {name: max(v for v in values if v is not None) for name, values in said.items() if any(v is not None for v in values)}


# --------------------------------------------------------------------------- predictions
def _gemm(tile: Mapping[str, int]) -> dict[str, float]:
    if "BLOCK" in tile:  # a line of results a program; along which dimension, the caller knows
        return {"tile_m": tile["BLOCK"], "tile_n": 1}
    sides = {"tile_m": tile["BLOCK_M"], "tile_n": tile["BLOCK_N"], "tile_k": tile["BLOCK_K"]}
    each = tile["BLOCK_M"] * tile["BLOCK_N"] // (WARP * tile["num_warps"])
    thread = {"thread_m": 8, "thread_n": each // 8} if each >= 32 else {}
    more = {"stages": tile["num_stages"], "warpgroups": max(1, tile["num_warps"] // 4), "group": tile.get("GROUP", 0)}
    return {**sides, **thread, **more}


def _monarch(tile: Mapping[str, int]) -> dict[str, float]:
    """Programs keep their weights, or there is one for each tile of rows, however many those are."""
    return {"tile_m": tile["ROWS"], "joined": tile["joined"], "at_once": tile.get("AT_ONCE", 10**6)}


def _fft_conv(tile: Mapping[str, int]) -> dict[str, float]:
    if "AT_ONCE" not in tile:
        return {"pairs": tile["P"], "warps": tile["num_warps"]}
    stages = tile.get("num_stages", 3)  # Triton's own where none is given
    at_once = min(tile["AT_ONCE"], SHARED // (tile.get("shared_bytes", 0) + RESERVED))
    return {"block": tile["BLOCK"], "pairs": tile["P"], "at_once": at_once, "warps": tile["num_warps"], "stages": stages}


TILES: Mapping[str, Callable[[Mapping[str, int]], dict[str, float]]] = {
    "gemm": _gemm,
    "attention": lambda t: {"tile_m": t["BLOCK_M"], "tile_n": t["BLOCK_N"], "warps": t["num_warps"], "stages": t["num_stages"]},
    "softmax": lambda t: {"cols_tile": t["BLOCK"]},
    "fft_conv": _fft_conv,
    "monarch": _monarch,
}
"""Tiles of our kernels as the shipped dataflows call them."""


def tile_of(rows: Sequence[Row], case: str, apart: str = "") -> dict[str, int]:
    """What the launched kernel was built with: its tiles, and registers and shared memory as the compiler gave them."""
    found = {r["metric"]: int(r["value"]) for r in rows if r["run"] == "tile" and r["case"] == case}
    launched = launches(rows, "levels", case, apart).of
    for name, metric in (("registers", "launch__registers_per_thread"), ("shared_bytes", "launch__shared_mem_per_block_dynamic")):
        values = {launch[metric] for launch in launched if metric in launch}
        if len(values) == 1:
            found[name] = int(values.pop())
    return found


def settings(case: Counted, op: Any, tile: Mapping[str, int]) -> dict[str, float]:
    """Tiles for the dataflow of the case."""
    ours = case.kernel not in ("gemm", "flash", "softmax")
    found = TILES[op.name](tile) if ours and set(tile) - {"registers", "shared_bytes"} else {}
    if case.kernel == "gemm_coalesced" and found:
        found = {"tile_m": found["tile_n"], "tile_n": found["tile_m"]}
    return found


def _with_registers(flow: Dataflow, registers: int) -> Dataflow:
    """The dataflow with the registers that the compiler gave a thread, which decide how many blocks run together."""

    def besides(kernel: Kernel) -> Callable[[Names], Number]:
        return lambda names: registers - total(amount(a, names) for a in kernel.accumulators.values()) / amount(kernel.workers, names)

    return replace(flow, kernels=tuple(replace(kernel, overhead=besides(kernel)) for kernel in flow.kernels))


def predicted(case: Counted, op: Any, tile: Mapping[str, int], device: Device) -> tuple[Account, str]:
    """The dataflow with the launched tiles, or with its own where it does not take those; and which.

    Raises:
        RooflineError: it does not take the sizes.
    """
    sizes = {k: scalar(v) for k, v in PARAMS[op.name](op).items()}
    name = case.dataflow or KERNELS[case.kernel].dataflow
    for key, value in sizes.items():
        name = name.replace(f"{{{key}}}", f"{value}")
    known = setting_names(name)

    def counted(more: Mapping[str, float]) -> Account:
        chosen = [f"{k}={v:.12g}" for k, v in {**sizes, **more}.items() if k in known]
        flow = load_dataflow(name, [*chosen, f"dtype={op.dtype}"], device.names)
        return account(_with_registers(flow, tile["registers"]) if more and "registers" in tile else flow, device)

    tiles = {k: v for k, v in settings(case, op, tile).items() if k in known}
    try:
        return counted(tiles), " ".join(f"{k}={v:g}" for k, v in tiles.items()) or "its own tiles"
    except RooflineError as err:
        return counted({}), f"its own tiles, not the launched ones: {' '.join(str(err).split())[:120]}"


# --------------------------------------------------------------------------- tables
def shown(rows: Sequence[Row], chosen: Sequence[Counted], hardware: str) -> str:
    """Bytes and levels of each case, and what failed."""
    profile = load_hardware(hardware)
    bytes_, levels, notes = [], [], []
    for case in chosen:
        try:
            one, two, note = _lines(rows, case, profile)
        except Exception as err:  # what cannot be predicted must not hide the others
            notes.append(f"{case.name}: {type(err).__name__}: {' '.join(str(err).split())[:200]}")
            continue
        bytes_.append(one)
        levels.append(two)
        notes.append(note)
    failed = [f"{r['case']}: FAILED: {r['value']}" for r in rows if r["run"] == "failed"]
    return "\n".join([*BYTES_NOTE, *_table(BYTES_HEADER, bytes_), "", *LEVELS_NOTE, *_table(LEVELS_HEADER, levels), "", *notes, *failed])


def _lines(rows: Sequence[Row], case: Counted, profile: Hardware) -> tuple[list[str], list[str], str]:
    op = operator(case)
    device = device_of(profile, op.dtype)
    work = work_of(op, machine_of(profile))
    flow, tiles = predicted(case, op, tile_of(rows, case.name, case.apart), device)
    return _bytes(rows, case, flow, work), _levels(rows, case, flow, device), f"{case.name}: {flow.flow.name} with {tiles}"


def _bytes(rows: Sequence[Row], case: Counted, flow: Account, work: Work) -> list[str]:
    whole, part = measured(rows, case.name), measured(rows, case.name, case.apart)
    smem = launches(rows, "levels", case.name, case.apart).sum("l1tex__data_pipe_lsu_wavefronts.sum")
    assert work.cached is not None
    return [
        case.name,
        _mb(whole.hbm),
        _mb(whole.left),
        _mb(float(flow.sum("hbm_bytes"))),
        _over(flow.sum("hbm_bytes"), part.hbm),
        _over(flow.sum("once_bytes"), part.hbm),
        _over(work.cached.hbm, whole.hbm),
        _over(work.compulsory.hbm, whole.hbm),
        _mb(part.received),
        _mb(l2_bytes(flow, "read")),
        _over(l2_bytes(flow, "read"), part.received),
        _mb(part.sent),
        _over(l2_bytes(flow, "write"), part.sent),
        _mb(part.l2_served),
        _mb(part.l2),
        "-" if smem is None else f"{smem * LINE / 1e9:,.1f}",
        _over(flow.sum("smem_bytes"), None if smem is None else smem * LINE),
    ]


def l2_bytes(flow: Account, mode: str) -> float:
    """Bytes that processors read from L2 or write to it, as the dataflow says."""
    return sum(float(moved.l2_bytes) for kernel in flow.kernels for moved in kernel.work.moved if moved.mode == mode)


def _levels(rows: Sequence[Row], case: Counted, flow: Account, device: Device) -> list[str]:
    found = launches(rows, "levels", case.name, case.apart)
    fast = launches(rows, "bytes", case.name, case.apart)
    shares, says = used(found, device, fast), str(limiter(flow))
    time_ns = (fast if fast.of else found).sum("gpu__time_duration.sum")
    counted = max((r for r in RESOURCES if r in shares), key=lambda r: shares[r], default="-")
    return [
        case.name,
        "-" if time_ns is None else f"{time_ns / 1e3:.1f}",
        f"{float(flow.scheduled_s) * 1e6:.1f}",
        says,
        *("-" if r not in shares else f"{shares[r] * 100:.0f}" for r in (*RESOURCES, "issue")),
        counted,
        verdict(says, shares),
    ]


def verdict(says: str, shares: Mapping[str, float]) -> str:
    """Whether the counters confirm that the predicted resource binds; where nothing is busy, latency does."""
    known = {r: v for r, v in shares.items() if r in RESOURCES}
    if not known or says not in known:
        return "not counted"
    most = max(known.values())
    agrees = "confirmed" if known[says] >= NEAR * most else "other"
    return agrees if most >= BUSY else f"{agrees}, but latency: nothing above {most * 100:.0f} %"


def _mb(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.1f}"


def _over(predicted_bytes: Any, counted: float | None) -> str:
    if not counted:
        return "-"
    ratio = float(predicted_bytes) / counted
    return f"{ratio:.3f}{'*' if abs(ratio - 1) <= WITHIN else ' '}"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in (header, *lines)) for i in range(len(header))]
    return ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
            for line in (header, *lines)]  # fmt: skip
