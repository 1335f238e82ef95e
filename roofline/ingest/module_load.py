"""A user's module and its inputs: named on the command line as ``package:function``, and never by a file.

The function takes nothing and returns ``module, inputs``: a ``torch.nn.Module`` (or any callable of tensors), and what it is called with, a
tensor, a tuple of arguments or a dict of keyword arguments. With ``--input`` it may return the module alone, or be the module itself.
What goes wrong in it is the user's to repair, and is told with its place in the user's file.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.errors import MissingCapabilityError, UsageError, did_you_mean
from roofline.ingest.aten import FORMATS

CONTRACT = "def build(): return module, (inputs, ...)"
MOST_DIMENSIONS = 12


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module with its positional and keyword arguments, and the name it was asked for by."""

    name: str
    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def torch_or_refuse() -> Any:
    """torch.

    Raises:
        MissingCapabilityError: it is not installed.
    """
    try:
        import torch
    except ImportError as err:
        raise MissingCapabilityError(
            f"torch is not installed ({err}); to run a module on tensors without contents its CPU build is enough: pip install torch"
        ) from None
    return torch


@contextlib.contextmanager
def users_code(what: str) -> Iterator[None]:
    """Code of the user: what it prints, by whatever way, goes to stderr, and what it raises becomes one block that names its place.

    Raises:
        UsageError: it raised something, or ended the process.
    """
    try:
        with _descriptor_to_stderr(), contextlib.redirect_stdout(sys.stderr):
            yield
    except (UsageError, MissingCapabilityError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as err:
        raise UsageError(f"{what} {_block(err)}") from err


@contextlib.contextmanager
def _descriptor_to_stderr() -> Iterator[None]:
    """Descriptor 1 is that of stderr meanwhile, for what compiled code and processes that are started print past ``sys.stdout``."""
    try:
        kept = os.dup(1)
    except OSError:  # closed, so that nothing can land there
        yield
        return
    try:
        _flush()
        with contextlib.suppress(OSError):
            os.dup2(2, 1)
        yield
    finally:
        _flush()  # what is still in buffers is of that code too
        os.dup2(kept, 1)
        os.close(kept)


def _flush() -> None:
    """The buffers before descriptor 1: Python's and the C library's."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.__stdout__.flush()  # type: ignore[union-attr]
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def _block(err: BaseException) -> str:
    """The error, the deepest place outside of installed packages, and what to do where torch needs contents."""
    said = f"raised {type(err).__name__}: {err}" if not isinstance(err, SystemExit) else f"ended the process ({err})"
    frames = [f for f in traceback.extract_tb(err.__traceback__) if not _installed(f.filename)]
    place = f"\n  at {os.path.relpath(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}: {frames[-1].line}" if frames else ""
    names = {t.__name__ for t in type(err).__mro__}
    if names & {"DataDependentOutputException", "DynamicOutputShapeException", "UnsupportedFakeTensorException"}:
        said = f"needs the contents of a tensor ({type(err).__name__}: {err})"
        place += "\n  Modules are run on tensors without contents; branch on sizes, or record a real run for 'roofline ingest trace'."
    return said + place


_OWN = os.path.dirname(os.path.abspath(__file__))


def _installed(filename: str) -> bool:
    return "site-packages" in filename or filename.startswith((_OWN, "<", os.path.dirname(os.__file__)))


def load(target: str, inputs: Sequence[str], *, meta: bool = False) -> Loaded:
    """The module of ``package:function`` with its inputs; with ``meta`` it is built without memory for its parameters.

    Raises:
        UsageError: no such package or function, an error in it, or not what the contract asks for.
        MissingCapabilityError: torch is not installed.
    """
    package, sign, name = target.partition(":")
    if not sign or not re.fullmatch(r"[A-Za-z_][\w.]*", package) or not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        raise UsageError(f"'{target}' is not package:function, such as mymodel:build")
    tensors = tuple(_input(torch_or_refuse(), word, meta=meta) for word in inputs)
    torch = torch_or_refuse()
    found = _attribute(_imported(package), package, name)
    with users_code(target), torch.device("meta") if meta else contextlib.nullcontext():
        made = found if isinstance(found, torch.nn.Module) else found()
    if tensors:
        module = made[0] if isinstance(made, tuple) and made else made
        args: Any = tensors
    elif isinstance(made, tuple) and len(made) == 2:
        module, args = made
    else:
        raise UsageError(
            f"{target} returned {_kind(made)}, not a module and its inputs; the contract is '{CONTRACT}', or give --input 2x128,int64"
        )
    if not callable(module):
        raise UsageError(f"{target} returned {_kind(module)} where a module should be; the contract is '{CONTRACT}'")
    if isinstance(args, dict):
        return Loaded(target, module, (), args)
    return Loaded(target, module, tuple(args) if isinstance(args, (tuple, list)) else (args,), {})


def _kind(value: object) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"


def _imported(package: str) -> Any:
    """The package, looked for in the working directory last, so that a file of the user's cannot stand in for one that is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    importlib.invalidate_caches()
    with users_code(f"importing {package}"):
        try:
            return importlib.import_module(package)
        except ModuleNotFoundError as err:
            if err.name is None or not (package == err.name or package.startswith(f"{err.name}.")):
                raise
            beside = [entry.removesuffix(".py") for entry in os.listdir() if entry.endswith(".py") or os.path.isdir(entry)]
            hint = did_you_mean(package, beside) if beside else "there are no Python files here"
            raise UsageError(f"no module named '{err.name}' is installed or in this directory; {hint}") from None


def _attribute(module: Any, package: str, name: str) -> Any:
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [n for n in dir(found) if not n.startswith("_") and callable(getattr(found, n, None))]
            raise UsageError(f"'{package}' has no '{part}'; {did_you_mean(part, known)}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"'{package}:{name}' is {_kind(found)} and cannot be called; the contract is '{CONTRACT}'")
    return found


def _input(torch: Any, word: str, *, meta: bool) -> Any:
    """A tensor from ``2x128,int64``; whole numbers are 0, which any table has."""
    shape, _, kind = word.rpartition(",")
    dims = re.split("[x,]", shape)
    if not shape or not all(d.isascii() and d.isdigit() and len(d) <= 12 for d in dims) or len(dims) > MOST_DIMENSIONS:
        raise UsageError(f"--input '{word}' is not SHAPE,DTYPE, such as 2x128,int64")
    spellings = {**{s: s for s in FORMATS if hasattr(torch, s)}, **{ours: s for s, ours in reversed(FORMATS.items()) if hasattr(torch, s)}}
    if kind.strip() not in spellings:
        raise UsageError(f"--input '{word}': unknown dtype '{kind.strip()}'; {did_you_mean(kind.strip(), list(spellings))}")
    # A dimension too large for memory is fine on meta; elsewhere one element is spread out, since contents do not matter.
    dtype = getattr(torch, spellings[kind.strip()])
    if meta:
        return torch.empty([int(d) for d in dims], dtype=dtype, device="meta")
    return torch.zeros([1] * len(dims), dtype=dtype).expand([int(d) for d in dims])
