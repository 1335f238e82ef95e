"""A large configuration from small ones: known terms are found again, bands cover, and what the rows do not say is refused."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from roofline.decide.extrapolate import Row, extrapolate, student_quantile
from roofline.errors import UsageError
from tests.commands import Answer, Run

SMALL = [(1, 8, 2048), (2, 16, 2048), (4, 16, 4096), (8, 64, 2048), (8, 64, 8192), (16, 64, 4096), (32, 256, 4096), (64, 512, 2048)]
LARGE = {"devices": 1024.0, "batch": 4096.0, "seq": 8192.0}


def seconds(devices: float, batch: float, seq: float) -> float:
    """Work, an exchange and a hop for each device."""
    return 3e-6 * batch * seq / devices + 0.08 * (devices - 1) / devices + 1e-4 * (devices - 1)


def rows(noise: float, seed: int = 0) -> list[Row]:
    """The small configurations, each off by so much at most."""
    source = random.Random(seed)
    return [Row(devices=d, batch=b, seq=s, time_s=seconds(d, b, s) * (1 + noise * source.uniform(-1, 1))) for d, b, s in SMALL]


def test_terms_that_made_the_rows_are_found_again() -> None:
    found = extrapolate(rows(0.0), LARGE)
    used = {name: c for name, c in found.coefficients.items() if c > 1e-12}
    assert used == {"work": pytest.approx(3e-6), "exchange": pytest.approx(0.08), "ring_hops": pytest.approx(1e-4)}
    assert found.time_s.value == pytest.approx(seconds(**LARGE))
    assert (found.time_s.low, found.time_s.high) == (pytest.approx(found.time_s.value, rel=1e-12),) * 2
    assert sum(found.seconds.values()) == pytest.approx(found.time_s.value)
    assert found.beyond == {"devices": 16, "batch": 8, "seq": 1}


def test_the_band_holds_the_truth_nine_times_in_ten() -> None:
    """Rows off by 5 % at most, drawn thirty times."""
    inside = 0
    for seed in range(30):
        time = extrapolate(rows(0.05, seed), LARGE).time_s
        assert time.low is not None
        assert time.high is not None
        assert time.low <= time.value <= time.high
        inside += time.low <= seconds(**LARGE) <= time.high
    assert inside >= 26


def test_the_band_narrows_with_the_noise() -> None:
    wide, narrow = (extrapolate(rows(noise), LARGE).time_s for noise in (0.05, 0.005))
    assert wide.high is not None
    assert narrow.high is not None
    assert 3 < (wide.high / wide.value - 1) / (narrow.high / narrow.value - 1) < 30


def test_student_s_quantiles_are_those_of_the_tables() -> None:
    """Two-sided 90 %: 6.314 for one degree of freedom, 2.015 for five, 1.645 for very many."""
    assert [round(student_quantile(n), 3) for n in (1, 2, 5, 30)] == [6.314, 2.920, 2.015, 1.697]
    assert student_quantile(5, 0.99) == pytest.approx(4.032, abs=1e-3)


@examples(max_examples=6, deadline=None)
@given(st.floats(1e-3, 1e3))
def test_times_in_another_unit_give_the_same_answer_in_it(unit: float) -> None:
    base = extrapolate(rows(0.03), LARGE).time_s
    other = extrapolate([Row(devices=r.devices, batch=r.batch, seq=r.seq, time_s=r.time_s * unit) for r in rows(0.03)], LARGE).time_s
    assert (other.value, other.low, other.high) == tuple(pytest.approx(v * unit) for v in (base.value, base.low, base.high))


def test_no_term_is_ever_negative() -> None:
    """Rows that grow faster than any term: a free fit would take something away from the others."""
    found = extrapolate(
        [Row(devices=d, batch=64, seq=4096, time_s=d**1.5) for d in (1, 2, 4, 8, 16, 32)], {"devices": 64, "batch": 64, "seq": 4096}
    )
    assert all(c >= 0 for c in found.coefficients.values())
    assert found.time_s.value > 32**1.5


def test_more_devices_for_the_same_work_are_never_predicted_to_take_no_time() -> None:
    times = [extrapolate(rows(0.02), {"devices": d, "batch": 4096.0, "seq": 4096.0}).time_s.value for d in (64.0, 256.0, 1024.0, 1e5)]
    assert all(t > 0 for t in times)
    assert all(a != b for a, b in pairwise(times))


def test_what_never_varied_cannot_be_extrapolated() -> None:
    same = [Row(devices=8, batch=b, seq=4096, time_s=b * 0.1) for b in (8, 16, 32, 64)]
    with pytest.raises(UsageError, match="every configuration has devices = 8"):
        extrapolate(same, {"devices": 16, "batch": 64, "seq": 4096})
    assert extrapolate(same, {"devices": 8, "batch": 128, "seq": 4096}).time_s.value == pytest.approx(12.8)
    with pytest.raises(UsageError, match="at least 4"):
        extrapolate(same[:3], {"devices": 8, "batch": 128, "seq": 4096})


def test_the_command_reads_a_table_and_says_what_is_wrong_with_it(run: Run, report: Answer, tmp_path: Path) -> None:
    path = tmp_path / "small.csv"
    lines = [f"{r.devices},{r.batch},{r.seq},{r.time_s}" for r in rows(0.0)]
    path.write_text("\n".join(["devices,batch,seq,time_s", *lines]) + "\n", encoding="utf-8")
    at = ("--at", "devices=1Ki", "--at", "batch=4096", "--at", "seq=8192")
    assert "none of" in run("cost", "extrapolate", str(path), *at, code=2).stderr
    at = ("--at", "devices=1024", *at[2:])
    assert report("cost", "extrapolate", str(path), *at)["time_s"]["value"] == pytest.approx(seconds(**LARGE))
    assert "lacks seq" in run("cost", "extrapolate", str(path), *at[:4], code=2).stderr
    path.write_text("devices,batch,seq,time\n8,8,8,1\n", encoding="utf-8")
    assert "no column 'time_s', did you mean 'time'" in run("cost", "extrapolate", str(path), *at, code=2).stderr
    path.write_text("devices,batch,seq,time_s\n8,8,8,1\n8,x,8,0\n", encoding="utf-8")
    said = run("cost", "extrapolate", str(path), *at, code=2).stderr
    assert f"{path}:3:3: batch must be a number above 0" in said
    assert f"{path}:3:7: time_s must be a number above 0" in said
