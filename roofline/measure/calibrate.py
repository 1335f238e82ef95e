"""``roofline calibrate``: which ceilings are measured on a device, how large, in which order, and what comes of it.

Each ceiling stands alone: one that fails is absent with its reason and the run goes on. Ctrl-C ends the run; what was
measured until then is kept and the rest says so. Burst rates come before sustained ones, which leave the device hot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roofline.errors import UsageError, did_you_mean
from roofline.hardware.profile import Absent
from roofline.measure.base import Device, DeviceInfo, Procedure
from roofline.measure.ceilings import hbm, host, l2, pcie, smem, tensor, vector
from roofline.measure.ceilings.base import Bench, Measured, Shape, Sizes, Unmeasured, reason
from roofline.measure.watch import ThreadWatch, Watch

MIB = 2**20
KERNELS = "kernels"
"""The name of the table of kernels among the ceilings."""
INTERRUPTED = "interrupted before it was measured"
GPU_DTYPES = ("bf16", "fp16", "tf32", "fp8", "int8", "fp64")
CPU_DTYPES = ("bf16", "fp16", "int8")

Measure = Callable[[Bench], Measured]
Found = Measured | Absent
Progress = Callable[[int, int, str, "Found | None"], None]
"""Told the number, how many there are, the name, and what was found, None when it begins."""


def plan(kind: str) -> dict[str, Measure]:
    """The ceilings of a kind of device, in the order in which they are measured."""
    dtypes = CPU_DTYPES if kind == "cpu" else GPU_DTYPES
    vectors = ("fp32", "fp64") if kind == "cpu" else ("fp32", "fp64", "fp16", "bf16")
    return {
        "launch.host": host.eager,
        "launch.gap": host.gap,
        "launch.graph_node": host.graph_node,
        "host.memcpy": host.memcpy,
        "hbm.read": hbm.read,
        "hbm.write": hbm.write,
        "hbm.copy": hbm.copy,
        "hbm.triad": hbm.triad,
        "l2.read": l2.read,
        **{f"vector.{d}": vector.fma(d) for d in vectors},
        "sfu": vector.exp2,
        "smem.read": smem.read,
        "register.read": smem.registers,
        "pcie.h2d": pcie.transfer(to_device=True),
        "pcie.d2h": pcie.transfer(to_device=False),
        **{f"tensor.{d}.burst": tensor.burst(d) for d in dtypes},
        **{f"tensor.{d}.sustained": tensor.sustained(d) for d in dtypes},
    }


def chosen(known: Sequence[str], only: Sequence[str]) -> list[str]:
    """The names that ``only`` asks for, each a name or the beginning of several (``hbm``, ``tensor.bf16``); all without it.

    Raises:
        UsageError: it asks for what there is not.

    >>> chosen(["hbm.read", "hbm.copy", "sfu"], ["hbm"])
    ['hbm.read', 'hbm.copy']
    """
    groups = {part for name in known for part in (name, name.split(".")[0])}
    for asked in only:
        if not any(_asked(name, asked) for name in known):
            raise UsageError(f"--only: nothing is called '{asked}'; {did_you_mean(asked, sorted(groups))}")
    return [name for name in known if not only or any(_asked(name, asked) for asked in only)]


def _asked(name: str, asked: str) -> bool:
    return name == asked or name.startswith(asked + ".")


# --------------------------------------------------------------------------- running it
@dataclass
class Calibration:
    """What was found, by name in the order of the plan; ``left_out`` was not asked for."""

    info: DeviceInfo
    found: dict[str, Found] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def measured(self) -> dict[str, Measured]:
        """The ceilings that have a value."""
        return {name: m for name, m in self.found.items() if isinstance(m, Measured)}


def calibrate(
    device: Device,
    sizes: Sizes,
    only: Sequence[str] = (),
    *,
    progress: Progress = lambda number, count, name, found: None,
    measures: Mapping[str, Measure] | None = None,
    watch: Callable[[Device], Watch] = ThreadWatch,
) -> Calibration:
    """Measure the ceilings of the device that ``only`` asks for.

    Raises:
        UsageError: ``only`` names what there is not.
    """
    measures = plan(device.info.kind) if measures is None else measures
    names = chosen([*measures, KERNELS], only)
    names = [n for n in names if n != KERNELS]
    result = Calibration(device.info, left_out=tuple(n for n in measures if n not in names))
    bench = Bench(device, sizes, watch=watch)
    for number, name in enumerate(names, 1):
        if not result.interrupted:
            progress(number, len(names), name, None)
        result.found[name] = Absent(INTERRUPTED) if result.interrupted else _contained(bench, name, measures[name], result)
        if not result.interrupted:
            progress(number, len(names), name, result.found[name])
    return result


def _contained(bench: Bench, name: str, measure: Measure, result: Calibration) -> Found:
    """The ceiling, or why there is none."""
    try:
        bench.found[name] = measure(bench)
        return bench.found[name]
    except KeyboardInterrupt:
        result.interrupted = True
        return Absent("interrupted while it was measured")
    except Exception as err:  # one ceiling must not end the run, whatever its library raises
        bench.failed[name] = str(err) if isinstance(err, Unmeasured) else reason(err)
        return Absent(bench.failed[name])
    finally:
        bench.device.empty_cache()


# --------------------------------------------------------------------------- how large
def sizes_for(info: DeviceInfo, quick: bool, free_bytes: float | None = None) -> Sizes:
    """Sizes for the device: thorough ones within three minutes on a large GPU, quick ones within seconds."""
    found = _cpu_sizes(info, quick) if info.kind == "cpu" else _gpu_sizes(info, quick)
    if free_bytes is None:
        return found
    return replace(found, array_bytes=int(min(found.array_bytes, free_bytes / 8)))  # three arrays, and room for sums


def _gpu_sizes(info: DeviceInfo, quick: bool) -> Sizes:
    if quick:
        return Sizes(
            array_bytes=256 * MIB,
            cache_bytes=(8 * MIB,),
            shapes=(_cube(4096),),
            transfer_bytes=64_000_000,
            steps=512,
            launches=200,
            burst=_burst(0.02, 1e-3, 5, 0.02, 0.1, blocks=1, width=0.05),
            sustained=_sustained(0.1, 0.3, width=0.05),
        )
    return Sizes(
        array_bytes=max(1024 * MIB, int(20 * (info.l2_bytes or 0))),
        cache_bytes=tuple(n * MIB for n in (4, 8, 12, 16, 20)),
        shapes=(_cube(4096), _cube(8192), (16384, 8192, 8192), (8192, 28672, 8192)),
        transfer_bytes=256_000_000,
        steps=2048,
        launches=500,
        burst=_burst(0.1, 2e-3, 20, 0.15, 0.6, blocks=3, width=0.005),
        sustained=_sustained(1.0, 3.0),
    )


def _cpu_sizes(info: DeviceInfo, quick: bool) -> Sizes:
    cache = int(info.l2_bytes or 32 * MIB)
    working = tuple(max(MIB, cache // part) for part in (16, 8, 4))
    if quick:
        return Sizes(
            array_bytes=min(256 * MIB, 3 * cache),
            cache_bytes=working[:1],
            shapes=(_cube(512),),
            transfer_bytes=32_000_000,
            steps=64,
            launches=200,
            burst=_burst(0.02, 1e-3, 3, 0.02, 0.2, blocks=1, width=0.2),
            sustained=_sustained(0.05, 0.2, width=0.2),
        )
    return Sizes(
        array_bytes=max(256 * MIB, 4 * cache),
        cache_bytes=working,
        shapes=(_cube(1024), _cube(2048), (2048, 4096, 2048)),
        transfer_bytes=256_000_000,
        steps=64,
        launches=1000,
        burst=_burst(0.1, 5e-3, 15, 0.4, 2.0, blocks=3, width=0.05),
        sustained=_sustained(0.5, 3.0, width=0.05),
    )


def _cube(side: int) -> Shape:
    return (side, side, side)


def _burst(warmup_s: float, sample_s: float, samples: int, shortest_s: float, longest_s: float, *, blocks: int, width: float) -> Procedure:
    return Procedure(
        cache="warm",
        mode="burst",
        warmup_s=warmup_s,
        shortest_sample_s=sample_s,
        fewest_samples=samples,
        shortest_s=shortest_s,
        longest_s=longest_s,
        blocks=blocks,
        width=width,
        retries=1,
    )


def _sustained(warmup_s: float, seconds: float, width: float = 0.01) -> Procedure:
    return Procedure(
        cache="warm",
        mode="sustained",
        warmup_s=warmup_s,
        shortest_sample_s=5e-3,
        fewest_samples=30,
        shortest_s=seconds,
        longest_s=1.3 * seconds,
        width=width,
        blocks=1,
    )
