"""Why memory or tensor cores did more, or less, than is counted: likely causes, each only where counters show it."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ingest.ncu_group import Group
from roofline.ingest.ncu_metrics import SECTOR_BYTES
from roofline.report.counters import Cause, CountedWork
from roofline.report.sentences import size

NOISE = 0.05
"""Counters of memory hold instructions, parameters and page tables as well: a difference within 5 % has no cause to look for."""

MOST_SECTORS_A_REQUEST = 16
"""32 lanes of 16 bytes, the widest load, are 16 sectors of 32 bytes; a request with more touches sectors that it does not use in full."""


def causes(group: Group, measured: dict[str, float | None], counted: CountedWork | None, l2_bytes: float | None) -> tuple[Cause, ...]:
    """All causes of a group; ``l2_bytes`` is the size of L2 where a profile tells it."""
    return (*_always(group), *(_beside(group, measured, counted, l2_bytes) if counted else ()))


# --------------------------------------------------------------------------- shown by counters alone
def _always(group: Group) -> Iterator[Cause]:
    spilled = group.get("local_bytes")
    if spilled is None:
        spilled = group.add(("local_load_bytes", 1), ("local_store_bytes", 1))
    if spilled:
        yield Cause(name="spills", amount=spilled, unit="B", evidence=f"{size(spilled)} of local memory passed L1: registers spilled there")
    for way in ("load", "store"):
        yield from _uncoalesced(group, way)


def _uncoalesced(group: Group, way: str) -> Iterator[Cause]:
    sectors, requests = group.get(f"global_{way}_sectors"), group.get(f"global_{way}_requests")
    used = group.get(f"used_bytes_per_{way}_sector")
    if used is not None and 0 < used < SECTOR_BYTES * (1 - NOISE):
        wasted = (sectors or 0.0) * (SECTOR_BYTES - used)
        said = f"global {way}s used {used:.3g} of the 32 B of each sector"
        yield Cause(name="uncoalesced", amount=wasted, unit="B", evidence=said + (f", {size(wasted)} were not used" if wasted else ""))
    elif used is None and sectors and requests and sectors / requests > MOST_SECTORS_A_REQUEST:
        ratio = sectors / requests
        wasted = (sectors - MOST_SECTORS_A_REQUEST * requests) * SECTOR_BYTES
        said = f"a global {way} touched {ratio:.3g} sectors where 16 hold the widest one of a warp"
        yield Cause(name="uncoalesced", amount=wasted, unit="B", evidence=said)


# --------------------------------------------------------------------------- shown beside counted work
def _beside(group: Group, measured: dict[str, float | None], counted: CountedWork, l2_bytes: float | None) -> Iterator[Cause]:
    read, written = measured["hbm_read"], measured["hbm_write"]
    if read is not None:
        yield from _reads(group, read, counted)
    if written is not None:
        yield from _writes(written, counted, l2_bytes)
    tensor = sum(group.tensor_flop.values())
    extra = tensor - counted.flop["tensor"]
    if group.tensor_flop and counted.flop["tensor"] and extra > 0.01 * counted.flop["tensor"]:
        said = f"tensor cores did {tensor / counted.flop['tensor']:.3g} times the counted FLOP: tiles overlap an edge or a diagonal"
        yield Cause(name="padding", amount=extra, unit="FLOP", evidence=said)


def _reads(group: Group, read: float, counted: CountedWork) -> Iterator[Cause]:
    extra = read - counted.hbm_read_bytes
    if extra > NOISE * counted.hbm_read_bytes:
        hits = group.get("l2_hit_share")
        said = f"memory read {_ratio(read, counted.hbm_read_bytes)} what reading each operand once takes: L2 missed beyond the first touch"
        yield Cause(name="re-reads", amount=extra, unit="B", evidence=said + (f" ({100 * hits:.3g} % of its sectors hit)" if hits else ""))
    elif -extra > NOISE * counted.hbm_read_bytes:
        said = f"memory read {size(-extra)} less than each operand once: they were in L2 when the kernel began"
        yield Cause(name="resident operands", amount=extra, unit="B", evidence=said)


def _writes(written: float, counted: CountedWork, l2_bytes: float | None) -> Iterator[Cause]:
    extra = written - counted.hbm_write_bytes
    small = NOISE * counted.hbm_write_bytes
    if extra > small:
        if l2_bytes is not None and extra <= l2_bytes:
            said = f"{size(extra)} more were written than results: lines that were dirty in L2 before were written back meanwhile"
            yield Cause(name="write-back", amount=extra, unit="B", evidence=said)
        elif l2_bytes is not None:
            said = f"{size(extra)} more were written than results, which is more than L2 holds: partial results or partial sectors"
            yield Cause(name="extra writes", amount=extra, unit="B", evidence=said)
    elif -extra > small and l2_bytes is not None and -extra <= l2_bytes:
        said = f"{size(-extra)} of the results had not reached memory at the end: those lines were dirty in L2"
        yield Cause(name="results left in L2", amount=extra, unit="B", evidence=said)


def _ratio(a: float, b: float) -> str:
    return f"{a / b:.3g} times" if b else "more than"
