"""What a change to a workload is worth, on its schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.errors import UsageError
from roofline.report.whatif import change_lines, faster_steps, swapped

TEXT = """\
schema: 1
name: block
hardware: h100-sxm
dtype: bf16
steps:
  - {id: qkv, op: gemm, m: 8192, n: 3072, k: 1024}
  - {id: attention, op: attention, batch: 8, heads: 16, q_len: 1024, kv_len: 1024, head_dim: 64, implementation: naive}
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "w.yaml"
    file.write_text(TEXT)
    return str(file)


def test_a_faster_step_follows_amdahl_on_its_own_share(path: str) -> None:
    change = faster_steps(path, None, [], {"attention": 2})
    (step,) = change.steps
    assert change.speedup == pytest.approx(1 / (1 - step.share_before / 2))


def test_a_swap_takes_its_local_speedup_from_the_accountant_and_names_the_new_limiter(path: str) -> None:
    change = swapped(path, None, [], ["attention.implementation=flash"])
    (step,) = change.steps
    assert step.id == "attention"
    assert step.local_speedup is not None
    assert step.local_speedup == pytest.approx(9.80, rel=1e-3)
    assert (change.limiter_before, change.limiter_after) == ("hbm", "tensor")
    assert "was hbm (memory)" in "\n".join(change_lines(change))


def test_overlapped_steps_are_scheduled_and_not_summed(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(TEXT + "  - {id: load, op: copy, read: 64 MiB, write: 64 MiB, over: pcie, after: []}\n")
    hidden = faster_steps(str(file), None, [], {"qkv": 100})
    assert hidden.speedup == pytest.approx(1)
    assert "overlap" in hidden.assumes


def test_unknown_steps_and_impossible_speedups_are_refused(path: str) -> None:
    with pytest.raises(UsageError, match="did you mean 'attention'"):
        faster_steps(path, None, [], {"atention": 2})
    with pytest.raises(UsageError, match="above 0"):
        faster_steps(path, None, [], {"attention": 0})
