"""Commands of ours as processes that need not start: forked from one that has imported everything but torch.

A command spends most of its time on imports, and the tests run hundreds. `run` behaves as `subprocess.run` of ``python -m roofline``, and a
script `command` stands for that in a shell. What is about the start itself (imports, hash seeds, signals, torchrun) starts processes.
"""

from __future__ import annotations

import array
import contextlib
import importlib
import io
import json
import os
import pkgutil
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COLD = ("roofline.__main__", "roofline.measure", "roofline.ingest", "roofline.testing", "roofline.library.pytest_plugin")
"""What brings torch or pytest with it."""
CLIENT = """
import array, json, os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({path!r})
said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
link.sendmsg([len(said).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (0, 1, 2)))])
link.sendall(said)
os.closerange(0, 3)
code = link.recv(1)
os._exit(code[0] if code else 1)
"""


# --------------------------------------------------------------------------- the process that forks
def serve(path: str) -> None:
    """Answers until standard input ends, which it does with whoever started this."""
    for found in pkgutil.walk_packages([str(ROOT / "roofline")], "roofline."):
        if not found.name.startswith(COLD):
            importlib.import_module(found.name)
    assert "torch" not in sys.modules
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(64)
        print("ready", flush=True)
        if answering := os.fork():
            sys.stdin.read()
            os.kill(answering, signal.SIGTERM)
            return
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            link, _ = door.accept()
            if os.fork() == 0:
                door.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _answer(link)
            link.close()


def _answer(link: socket.socket) -> None:
    head, ancillary, _, _ = link.recvmsg(8, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    pipes = array.array("i", ancillary[0][2])
    said = b""
    while len(said) < int.from_bytes(head, "big"):
        said += link.recv(2**16)
    arguments, folder, environment = json.loads(said)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    link.sendall(bytes([_command(arguments) & 255]))
    os._exit(0)


def _command(arguments: list[str]) -> int:
    """The exit code of a command, after all that it printed."""
    from roofline.cli.app import run as command

    encoding = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")[0]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), encoding)
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w")), encoding, "backslashreplace")
    sys.argv = ["roofline", *arguments]
    code: Any = 0
    try:
        command()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return int(code or 0)


# --------------------------------------------------------------------------- those that ask it
@cache
def _door() -> tuple[str, subprocess.Popen[str], tempfile.TemporaryDirectory[str]]:
    """Where to ask, once a process that runs tests; it ends with that."""
    folder = tempfile.TemporaryDirectory()
    path = str(Path(folder.name) / "door")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ROOFLINE_")} | {"PYTHONPATH": str(ROOT)}
    starter, pipe = [sys.executable, "-m", "tests.warm", path], subprocess.PIPE
    server = subprocess.Popen(starter, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    return path, server, folder


@cache
def command() -> str:
    """A command line that stands for ``roofline`` in a shell."""
    path, _, folder = _door()
    client = Path(folder.name) / "client.py"
    client.write_text(CLIENT.format(path=path), encoding="utf-8")
    return f"{shlex.quote(sys.executable)} -ISE {shlex.quote(str(client))}"


def run(
    words: tuple[str, ...] | list[str], *, folder: Path, environment: Mapping[str, str], stdin: str = "", seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """A command with these words in a folder, its output as text."""
    line = [*shlex.split(command()), *words]
    return subprocess.run(
        line, cwd=folder, env=environment, input=stdin, capture_output=True, encoding="utf-8", timeout=seconds, check=False
    )


if __name__ == "__main__":
    serve(sys.argv[1])
