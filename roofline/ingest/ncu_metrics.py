"""Names of counters and what they are: one table, since the profiler has renamed them between its versions.

A quantity has several spellings, the best one first; where a launch has none of them it is not known. Factors turn a counter into the
quantity: a sector of L1 or L2 is 32 bytes, a wavefront of shared memory moves up to 128.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SECTOR_BYTES = 32
WAVEFRONT_BYTES = 128
WARP = 32


@dataclass(frozen=True, slots=True)
class Spelling:
    """A counter's name in some version, the unit it must have, and the factor to the quantity's own."""

    name: str
    unit: str
    factor: float = 1.0


def _bytes(*names: str) -> tuple[Spelling, ...]:
    return tuple(Spelling(f"{name}.sum", "byte") for name in names)


def _sectors(*names: str) -> tuple[Spelling, ...]:
    return tuple(Spelling(f"{name}.sum", "1", SECTOR_BYTES) for name in names)


def _counts(*names: str, factor: float = 1.0) -> tuple[Spelling, ...]:
    return tuple(Spelling(f"{name}.sum", "1", factor) for name in names)


def _percent(*names: str) -> tuple[Spelling, ...]:
    return tuple(Spelling(name, "%", 0.01) for name in names)


OF_PEAK = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE = ".avg.pct_of_peak_sustained_active"

QUANTITIES: dict[str, tuple[Spelling, ...]] = {
    "time_s": (
        Spelling("gpu__time_duration.sum", "s"),
        Spelling("gpu__time_duration.max", "s"),
        Spelling("gpu__time_duration.avg", "s"),
        Spelling("gpu__time_duration_measured_user.sum", "s"),
        Spelling("Duration", "s"),
    ),
    "dram_read_bytes": (*_bytes("dram__bytes_read", "dram__bytes_op_read"), *_sectors("dram__sectors_read", "dram__sectors_op_read")),
    "dram_write_bytes": (*_bytes("dram__bytes_write", "dram__bytes_op_write"), *_sectors("dram__sectors_write", "dram__sectors_op_write")),
    "dram_bytes": (*_bytes("dram__bytes"), *_sectors("dram__sectors")),
    "dram_bytes_per_s": (Spelling("dram__bytes.sum.per_second", "byte/s"), Spelling("Memory Throughput [byte/s]", "byte/s")),
    "l2_bytes": (*_bytes("lts__t_bytes"), *_sectors("lts__t_sectors")),
    "l1_bytes": (*_bytes("l1tex__t_bytes"), *_sectors("l1tex__t_sectors")),
    "smem_bytes": (
        *_counts("l1tex__data_pipe_lsu_wavefronts_mem_shared", factor=WAVEFRONT_BYTES),
        *_counts("smsp__l1tex_data_pipe_lsu_wavefronts_mem_shared", factor=WAVEFRONT_BYTES),
    ),
    "fadd": _counts("smsp__sass_thread_inst_executed_op_fadd_pred_on", "sm__sass_thread_inst_executed_op_fadd_pred_on"),
    "fmul": _counts("smsp__sass_thread_inst_executed_op_fmul_pred_on", "sm__sass_thread_inst_executed_op_fmul_pred_on"),
    "ffma": _counts("smsp__sass_thread_inst_executed_op_ffma_pred_on", "sm__sass_thread_inst_executed_op_ffma_pred_on"),
    "fp32_flop": _counts(
        "smsp__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on", "sm__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on"
    ),
    "dadd": _counts("smsp__sass_thread_inst_executed_op_dadd_pred_on", "sm__sass_thread_inst_executed_op_dadd_pred_on"),
    "dmul": _counts("smsp__sass_thread_inst_executed_op_dmul_pred_on", "sm__sass_thread_inst_executed_op_dmul_pred_on"),
    "dfma": _counts("smsp__sass_thread_inst_executed_op_dfma_pred_on", "sm__sass_thread_inst_executed_op_dfma_pred_on"),
    "xu_ops": _counts("smsp__inst_executed_pipe_xu", "sm__inst_executed_pipe_xu", factor=WARP),
    "tensor_instructions": _counts("sm__inst_executed_pipe_tensor", "smsp__inst_executed_pipe_tensor"),
    "local_bytes": _bytes("l1tex__t_bytes_pipe_lsu_mem_local"),
    "local_load_bytes": (*_bytes("l1tex__t_bytes_pipe_lsu_mem_local_op_ld"), *_sectors("l1tex__t_sectors_pipe_lsu_mem_local_op_ld")),
    "local_store_bytes": (*_bytes("l1tex__t_bytes_pipe_lsu_mem_local_op_st"), *_sectors("l1tex__t_sectors_pipe_lsu_mem_local_op_st")),
    "global_load_sectors": _counts("l1tex__t_sectors_pipe_lsu_mem_global_op_ld"),
    "global_load_requests": _counts("l1tex__t_requests_pipe_lsu_mem_global_op_ld"),
    "global_store_sectors": _counts("l1tex__t_sectors_pipe_lsu_mem_global_op_st"),
    "global_store_requests": _counts("l1tex__t_requests_pipe_lsu_mem_global_op_st"),
    "used_bytes_per_load_sector": (
        Spelling("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio", "1"),
        Spelling("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio", "byte"),
    ),
    "used_bytes_per_store_sector": (
        Spelling("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio", "1"),
        Spelling("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio", "byte"),
    ),
    "l2_read_miss_bytes": _sectors("lts__t_sectors_op_read_lookup_miss", "lts__t_sectors_srcunit_tex_op_read_lookup_miss"),
    "l2_hit_share": _percent("lts__t_sector_hit_rate.pct", "L2 Hit Rate"),
    "processors": (Spelling("launch__sm_count", "1"), Spelling("device__attribute_multiprocessor_count", "1")),
}
"""Every quantity that is read, by the names of its counters."""

UTILISATION: dict[str, tuple[Spelling, ...]] = {
    "hbm": _percent(f"dram__throughput{OF_PEAK}", "gpu__dram_throughput" + OF_PEAK, f"dram__bytes.sum{OF_PEAK[4:]}", "DRAM Throughput"),
    "l2": _percent(f"lts__throughput{OF_PEAK}", "L2 Cache Throughput"),
    "l1": _percent(f"l1tex__throughput{OF_PEAK}", f"l1tex__throughput{ACTIVE}", "L1/TEX Cache Throughput"),
    "tensor": _percent(
        f"sm__pipe_tensor_cycles_active{OF_PEAK}", f"sm__pipe_tensor_cycles_active{ACTIVE}", f"sm__inst_executed_pipe_tensor{OF_PEAK}"
    ),
    "vector": _percent(
        f"sm__pipe_fma_cycles_active{OF_PEAK}", f"sm__inst_executed_pipe_fma{OF_PEAK}", f"smsp__inst_executed_pipe_fma{OF_PEAK}"
    ),
    "sfu": _percent(f"sm__inst_executed_pipe_xu{OF_PEAK}", f"smsp__inst_executed_pipe_xu{OF_PEAK}"),
    "issue": _percent(f"sm__inst_issued{OF_PEAK}", f"sm__instruction_throughput{OF_PEAK}", "Issue Slots Busy"),
    "sm": _percent(f"sm__throughput{OF_PEAK}", "Compute (SM) Throughput"),
}
"""How busy a unit was, as a share of the most it can do at the clock of the run."""

TENSOR_OPS = re.compile(r"sm__ops_path_tensor(?:_op_[a-z0-9]+)?_src_([a-z0-9]+)(?:_[a-z0-9]+)*?(?:_sparsity_(?:on|off))?\.sum")
"""Operations of tensor cores by the format of their operands, multiply-add counted as 2; sparse and dense apart in some versions."""
_FORMATS = {
    "bf16": "bf16",
    "fp16": "fp16",
    "tf32": "tf32",
    "fp8": "fp8",
    "fp64": "fp64",
    "int8": "int8",
    "fp4": "fp4",
    "fp6": "fp6",
    "int4": "int4",
}

_NAMES = frozenset(s.name.split(" [")[0] for table in (QUANTITIES, UTILISATION) for spellings in table.values() for s in spellings)


def wanted(name: str) -> bool:
    """Whether a counter is in the tables above."""
    return name in _NAMES or TENSOR_OPS.fullmatch(name) is not None


def find(spellings: tuple[Spelling, ...], counters: Mapping[str, tuple[float, str]]) -> float | None:
    """The quantity by the first of its spellings that a launch has in the right unit."""
    for s in spellings:
        found = counters.get(s.name)
        if found is not None and found[1] == s.unit:
            return found[0] * s.factor
    return None


def tensor_flop(counters: Mapping[str, tuple[float, str]]) -> dict[str, float]:
    """FLOP on tensor cores by format of the operands; a total of dense and sparse ones stands over its parts."""
    totals: dict[str, float] = {}
    parts: dict[str, float] = {}
    for name, (value, _) in counters.items():
        match = TENSOR_OPS.fullmatch(name)
        if match:
            key = _FORMATS.get(match[1], match[1])
            into = parts if "_sparsity_" in name else totals
            into[key] = into.get(key, 0.0) + value
    return {key: totals.get(key, parts.get(key, 0.0)) for key in sorted({*totals, *parts})}
