"""One measurement at a time on a device: an advisory lock in the folder for temporary files, shared by all users.

The kernel drops the lock when its process ends, however it ends, so that nothing stale can bar a device; what the file
says only explains who holds it, and is believed only while the lock is held.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roofline.errors import MissingCapabilityError, visible

try:
    fcntl: Any = importlib.import_module("fcntl")
except ImportError:  # pragma: no cover - no such locks on Windows
    fcntl = None

MOST_TEXT = 4096


@contextmanager
def device_lock(key: str | None, *, folder: str | os.PathLike[str] | None = None) -> Iterator[str | None]:
    """Hold the device while the block runs. Yields None, or a note saying why the device could not be locked.

    Raises:
        MissingCapabilityError: another process measures on it; the message says which.
    """
    descriptor, reason = _opened(lock_path(key, folder))
    try:
        reason = reason or _locked(descriptor, key)
        if reason:
            yield f"the device is not locked against other measurements: {reason}"
            return
        _write(descriptor, json.dumps({"pid": os.getpid(), "command": _command(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}))
        yield None
        _write(descriptor, "")
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def lock_path(key: str | None, folder: str | os.PathLike[str] | None = None) -> Path:
    """Where the lock of a device lies; ``None`` is the CPU."""
    safe = re.sub(r"[^A-Za-z0-9-]", "_", key or "cpu")[:80]
    return Path(folder or tempfile.gettempdir()) / f"roofline-device-{safe}.lock"


def _opened(path: Path) -> tuple[int, str]:
    """The file, made if need be, or -1 and why not; a link is refused, since anyone may put one into the folder."""
    if fcntl is None:
        return -1, "this system has no advisory locks"
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    reason = ""
    # An existing file is opened without O_CREAT: Linux refuses that flag on another user's file in a shared folder.
    for extra in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR):
        try:
            descriptor = os.open(path, flags | extra, 0o666)
        except OSError as err:
            reason = str(err)
            continue
        if extra & os.O_CREAT:
            os.fchmod(descriptor, 0o666)  # whatever the umask: the next user must be able to lock it
        return descriptor, ""
    return -1, reason


def _locked(descriptor: int, key: str | None) -> str:
    """Lock it; why that cannot be done at all, as on some network folders.

    Raises:
        MissingCapabilityError: another process has it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MissingCapabilityError(
            f"{key or 'the CPU'} is being measured by {_holder(descriptor)}; wait for it to end, "
            "or give --no-lock and do not trust the times"
        ) from None
    except OSError as err:
        return str(err)
    return ""


def _holder(descriptor: int) -> str:
    """Who the file says it is, made safe: another user wrote it."""
    try:
        said = json.loads(os.pread(descriptor, MOST_TEXT, 0))
        return visible(f"process {int(said['pid'])} ({str(said['command'])[:200]}) since {str(said['since'])[:40]}")
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"


def _write(descriptor: int, text: str) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    except OSError:
        return  # opened for reading only, or the disk is full: the lock holds without a name


def _command() -> str:
    """The command without its folders: other users read it."""
    return " ".join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:3]])
