"""Collectives of five systems: what is fitted to some sizes meets the times of others within 15 %, in the median."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from benchmarks.collectives import ROOT, SYSTEMS, Held, held_out, lines, table_of
from roofline.fit.accuracy import predict
from roofline.ops.collective import Collective
from roofline.spec.hardware import load_hardware

every_system = pytest.mark.parametrize("system", SYSTEMS)
MOST = 0.15


@cache
def held(system: str) -> tuple[Held, ...]:
    """The errors by collective, fitted once."""
    return tuple(held_out(system)[1])


@every_system
def test_the_median_error_on_rows_that_were_not_fitted(system: str) -> None:
    """Each collective by itself, and so the system."""
    found = held(system)
    assert {h.operator for h in found} == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
    assert all(h.rows >= 20 for h in found)
    for h in found:
        assert h.errors.median_ape is not None
        assert h.errors.median_ape <= MOST, h.operator


@every_system
def test_the_shipped_parameters_meet_the_same_times(system: str, tmp_path: Path) -> None:
    """Those of the profile, which saw all or most of these rows: none was lost on the way into the file."""
    profile, _ = SYSTEMS[system]
    rows = table_of(system, tmp_path).rows
    found = predict(rows, load_hardware(profile))
    errors = np.abs(found.estimate_s / found.measured_s - 1)
    assert not np.isnan(errors).any()
    for name in sorted({r.operator for r in rows}):
        assert np.median(errors[[r.operator == name for r in rows]]) <= MOST, name


def test_through_the_host_each_rank_more_costs_more_than_its_bytes() -> None:
    """Four ranks over PCIe take about four times as long for their bytes as two, eight sixteen times: without that no fit holds."""
    sets = {s.name: s.values for s in held_out("l40s")[0].sets}
    assert len(sets) == 4
    assert mean(v["crowding"] for v in sets.values()) == pytest.approx(2, abs=0.2)
    hardware = load_hardware("l40s")
    assert all("crowding" in s.values for name, s in hardware.fitted.items() if name.startswith("transfer."))
    assert all("crowding" not in s.values for s in load_hardware("h200-sxm").fitted.values())


@every_system
def test_no_system_beats_its_link_by_sends_and_receives(system: str, tmp_path: Path) -> None:
    """But for all-reduces that the switch adds up (NVLink SHARP, from Hopper on)."""
    profile, link = SYSTEMS[system]
    bandwidth = load_hardware(profile).links[link].bandwidth.value  # type: ignore[union-attr]
    for row in table_of(system, tmp_path).rows:
        (op,) = row.ops
        assert isinstance(op, Collective)
        switched = row.operator == "all_reduce" and system in ("h100_sxm", "h200_sxm", "b200_sxm")
        least = float(op.sent_bytes()) / bandwidth
        assert row.time_s >= least * (9 / 14 if switched else 0.97), (row.operator, op.size, op.ranks)


def test_the_committed_table_is_current() -> None:
    """Write it again with `python benchmarks/collectives.py > benchmarks/collectives.txt`; fits may move by a rounding."""
    committed = (ROOT / "benchmarks" / "collectives.txt").read_text(encoding="utf-8").splitlines()
    fresh = lines([h for system in SYSTEMS for h in held(system)])
    assert [line.split()[:3] for line in committed] == [line.split()[:3] for line in fresh]
    for old, new in zip(committed[1:], fresh[1:], strict=True):
        before, now = ([float(w.rstrip("%")) for w in line.split()[3:6]] for line in (old, new))
        assert now == pytest.approx(before, abs=0.3)
