"""One measurement at a time on a device."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.errors import MissingCapabilityError
from roofline.measure.lock import device_lock, lock_path

HOLD = """
import sys, time
from roofline.measure.lock import device_lock
with device_lock("gpu-1", folder=sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path):  # type: ignore[no-untyped-def]
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_told_who_measures(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    with (
        pytest.raises(MissingCapabilityError, match=rf"gpu-1 is being measured by process {holder.pid} .*--no-lock"),
        device_lock("gpu-1", folder=tmp_path),
    ):
        pass


def test_another_device_is_free(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    with device_lock("gpu-2", folder=tmp_path) as note, device_lock(None, folder=tmp_path):
        assert note is None


def test_a_killed_holder_leaves_nothing_stale(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert str(holder.pid) in lock_path("gpu-1", tmp_path).read_text()
    with device_lock("gpu-1", folder=tmp_path) as note:
        assert note is None


def test_it_is_free_again_afterwards_and_after_an_error(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="in the block"), device_lock("gpu-1", folder=tmp_path):
            raise ValueError("in the block")
    with device_lock("gpu-1", folder=tmp_path):
        assert str(os.getpid()) in lock_path("gpu-1", tmp_path).read_text()
    assert lock_path("gpu-1", tmp_path).read_text() == ""


def test_the_same_process_cannot_hold_it_twice(tmp_path: Path) -> None:
    with device_lock("gpu-1", folder=tmp_path), pytest.raises(MissingCapabilityError), device_lock("gpu-1", folder=tmp_path):
        pass


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"pid": "x"}', '{"pid": 1}', "\x00" * 50, '{"pid": 1e999}'])
def test_whatever_the_file_says_the_message_is_whole(text: str, tmp_path: Path) -> None:
    with device_lock("gpu-1", folder=tmp_path):
        lock_path("gpu-1", tmp_path).write_text(text)
        with pytest.raises(MissingCapabilityError, match="being measured by another process"), device_lock("gpu-1", folder=tmp_path):
            pass


def test_a_forged_holder_cannot_reach_the_terminal(tmp_path: Path) -> None:
    with device_lock("gpu-1", folder=tmp_path):
        lock_path("gpu-1", tmp_path).write_text('{"pid": 1, "command": "\\u001b[31m", "since": "now"}')
        with pytest.raises(MissingCapabilityError) as caught, device_lock("gpu-1", folder=tmp_path):
            pass
        assert "\x1b" not in str(caught.value)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("keep")
    lock_path("gpu-1", tmp_path).symlink_to(target)
    with device_lock("gpu-1", folder=tmp_path) as note:
        assert "not locked" in str(note)
    assert target.read_text() == "keep"


def test_a_folder_that_cannot_be_written_is_a_note_and_no_end(tmp_path: Path) -> None:
    with device_lock("gpu-1", folder=tmp_path / "missing") as note:
        assert "not locked against other measurements" in str(note)


def test_a_key_cannot_leave_the_folder(tmp_path: Path) -> None:
    assert lock_path("../../etc/x", tmp_path).parent == tmp_path


def test_every_user_may_lock_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with device_lock("gpu-1", folder=tmp_path):
            pass
    finally:
        os.umask(before)
    assert lock_path("gpu-1", tmp_path).stat().st_mode & 0o777 == 0o666
