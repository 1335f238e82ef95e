"""nccl-tests on 2, 4 and 8 H200 of one host: no time beats the link, and fitted lines meet the times."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from roofline.hardware.profile import Figure
from roofline.measure.link_fit import predicted, regimes
from roofline.ops import OPERATORS
from roofline.ops.collective import Collective
from roofline.spec.hardware import load_hardware

FILE = Path(__file__).parent.parent / "data" / "collectives" / "nccl_h200.csv"
DTYPES = {"half": "fp16", "int8": "int8"}
CASES = [(name, ranks) for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all") for ranks in (2, 4, 8)]


def made(name: str, **fields: object) -> Collective:
    found = OPERATORS[name](**fields, over="nvlink")  # type: ignore[call-arg]
    assert isinstance(found, Collective)
    return found


def times() -> Iterator[tuple[Collective, float]]:
    """Each measured collective with its seconds."""
    lines = (line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    for row in csv.DictReader(lines):
        name = {"alltoall": "all_to_all"}.get(row["op_name"], row["op_name"])
        op = made(name, size=int(row["bytes"]), ranks=int(row["num_gpus"]), dtype=DTYPES[row["nccl_dtype"]])
        yield op, float(row["latency_us"]) * 1e-6


TIMES = list(times())


def link_s(op: Collective) -> float:
    """The least time of the NVLink of an H200."""
    bandwidth = load_hardware("h200-sxm").link("nvlink").bandwidth
    assert isinstance(bandwidth, Figure)
    return op.sent_bytes() / bandwidth.value


def beaten(op: Collective, time_s: float) -> bool:
    return time_s < link_s(op)


def test_no_collective_of_sends_and_receives_beats_the_link() -> None:
    fast = [(op.name, op.ranks) for op, time_s in TIMES if beaten(op, time_s)]
    assert set(fast) == {("all_reduce", 8)}


def test_an_all_reduce_that_does_was_added_up_by_the_switch() -> None:
    """NCCL uses NVLink SHARP on eight of these; what a rank sends is then less, and the link holds."""
    switched = [(made("all_reduce", size=op.size, ranks=8, dtype=op.dtype, algorithm="switch"), t) for op, t in TIMES if beaten(op, t)]
    assert switched
    assert all(0.6 < link_s(op) / time_s < 0.8 for op, time_s in switched)


@pytest.mark.parametrize(("name", "ranks"), CASES)
def test_the_largest_sizes_reach_most_of_the_link(name: str, ranks: int) -> None:
    best = max(link_s(op) / time_s for op, time_s in TIMES if (op.name, op.ranks) == (name, ranks))
    assert 0.5 < best < 1.03


@pytest.mark.parametrize(("name", "ranks"), CASES)
def test_fitted_lines_meet_the_times_within_fifteen_percent(name: str, ranks: int) -> None:
    """In the median; formats together, since only bytes count."""
    points = defaultdict(list)
    for op, time_s in TIMES:
        if (op.name, op.ranks) == (name, ranks):
            points[op.sent_bytes()].append(time_s)
    sent = sorted(points)
    fits = regimes(sent, [median(points[x]) for x in sent])
    errors = [abs(predicted(fits, x) / median(points[x]) - 1) for x in sent]
    assert median(errors) < 0.15
    assert max(errors) < 0.35
