"""A cluster has one sort of device: another one beside it is refused in a file and in what is paid for, and said where it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands import report, run  # noqa: F401  (fixtures)

FILE = "schema: 1\nmodel: llama-3-8b\nphase: decode\nplan: tp=2\ncluster: dgx-h100\nparams: {batch: 8, context: 1024}\n"
COMMANDS = [("plan",), ("memory",), ("analyze",), ("advise",), ("search", "--devices", "2")]
SERVED = ("llama-3-8b", "-C", "dgx-h100", "--plan", "tp=2", "--set", "batch=8,16", "--set", "context=1024", "--price", "2 USD/h")


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """A planned workload with further keys."""

    def made(more: str = "") -> str:
        path = tmp_path / "planned.yaml"
        path.write_text(FILE + more, encoding="utf-8")
        return str(path)

    return made


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_a_file_names_one_machine(run: Any, file: Any, command: tuple[str, ...]) -> None:  # noqa: F811
    """At the name of the device, which is the last line; the cluster's own device, and the cluster itself, are no other."""
    said = "hardware 'h200-sxm' is not of cluster dgx-h100, whose devices are h100-sxm"
    assert f"planned.yaml:7:11: {said}" in run(command[0], file("hardware: h200-sxm\n"), *command[1:], code=2).stderr
    for own in ("h100-sxm", "dgx-h100"):
        run(command[0], file(f"hardware: {own}\n"), *command[1:], code=0)


@pytest.mark.parametrize("command", ["plan", "memory", "analyze"])
def test_a_device_of_the_command_line_is_held_to_the_cluster_as_one_of_the_file(run: Any, file: Any, command: str) -> None:  # noqa: F811
    assert "--set hardware:1:10: hardware 'h200-sxm'" in run(command, file(), "--set", "hardware=h200-sxm", code=2).stderr
    run(command, file("hardware: h200-sxm\n"), "--set", "hardware=h100-sxm", code=0)


def test_a_rank_timed_elsewhere_is_said_to_be_that(run: Any, file: Any) -> None:  # noqa: F811
    """It may be meant, such as of a calibrated profile."""
    other, own = run("analyze", file(), "-H", "h200-sxm"), run("analyze", file(), "-H", "h100-sxm")
    assert "warning W025: steps are of a rank on dgx-h100, whose devices are h100-sxm, and times of h200-sxm\n" in other.stderr
    assert "W025" not in own.stderr


def test_what_is_paid_for_is_what_the_times_are_of(run: Any, tmp_path: Path) -> None:  # noqa: F811
    """Hours of H100 with the power of H200 are of no machine; another cluster of the same device is one."""
    made = str(tmp_path / "made.json")
    run("plan", *SERVED[:5], "--phase", "train", "--set", "batch=8", "--set", "seq=1024", "-o", made)
    trained = ("cost", "run", made, "--total-tokens", "1T", "--price", "2 USD/h")
    for words in (trained, ("cost", "serving", *SERVED)):
        said = run(*words, "-H", "h200-sxm", code=2).stderr
        assert "of h100-sxm, whose price and power are not those of h200-sxm" in said.replace("\n", " ")
        for same in ("h100-sxm", "llama3-24k"):
            run(*words, "-H", same, code=0)
