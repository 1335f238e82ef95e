"""Reports as files: JSON text out, checked JSON text in, older schemas upgraded in memory."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roofline.errors import InputError, Problem, RooflineError
from roofline.report.model import SCHEMA, Report
from roofline.report.shape import ShapeError, decode, encode
from roofline.spec.source import ListNode, MapNode, Source, parse, read_source

MOST_BYTES = 64 * 1024 * 1024
DEEPEST = 64
MOST_DIGITS = 200
SMALLEST, LARGEST = 1e-100, 1e200
"""Numbers of a report are 0 or between these in size, so that the ratio of any two is one too."""

UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From schema n to n + 1, by n. Empty while the format is at its first version."""


def to_json(value: Any) -> str:
    """The report (or any of its parts) as JSON text with a final newline; equal values give equal bytes.

    Lists of numbers, such as samples, stand on one line each.
    """
    text = json.dumps(encode(value), indent=1, ensure_ascii=False, allow_nan=False)
    return _NUMBERS.sub(lambda found: "[" + ", ".join(found.group().strip("[]").replace(",", " ").split()) + "]", text) + "\n"


# No string holds a line break, so that a match is never inside one.
_NUMBERS = re.compile(r"\[\n[\s\d.,eE+-]*\]")


def load_report(path: str) -> Report:
    """The report in that file, upgraded to the present schema.

    Raises:
        FileNotFoundError: no such file; the caller knows whether that is a mistake or a missing baseline.
        InputError: not a report, too large, with duplicate keys or of a newer schema.
    """
    try:
        if path != "-":
            os.stat(path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError):  # refused in better words below
        pass
    return report_from(read_json(path), path)


def report_from(found: Any, path: str) -> Report:
    """The report from JSON values already read."""
    from roofline.report.sense import of_report

    if not isinstance(found, dict) or "schema" not in found or "rows" not in found:
        raise _refusal(path, _not_a_report(found))
    version = found["schema"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _refusal(path, f"report schema {version!r} is not a version number")
    if version > SCHEMA:
        raise _refusal(path, f"report schema {version} is newer than this tool reads ({SCHEMA}); upgrade roofline")
    for step in range(version, SCHEMA):
        found = UPGRADES[step](found)
    check_numbers({"rows": found["rows"], "totals": found.get("totals")}, "report", path)
    try:
        report: Report = decode(Report, found)
    except ShapeError as err:
        raise refusal_at(path, str(err)) from None
    if wrong := next(of_report(report), None):
        raise refusal_at(path, wrong)
    return report


def _not_a_report(found: Any) -> str:
    if isinstance(found, dict) and found.get("kind") == "comparison":
        return "this is a comparison of several reports; write them one by one, each with one workload and one -H"
    return "this is not a roofline report: it lacks 'schema' and 'rows'; write one with 'roofline analyze WORKLOAD -H PROFILE -o FILE.json'"


_FREE = frozenset({"fields"})
"""Keys below which a number may be anything: what the user wrote."""


def check_numbers(value: Any, place: str, path: str) -> None:
    """Numbers that a report of ours cannot hold: negative ones, and those on which arithmetic would overflow."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _FREE:
                check_numbers(inner, f"{place}.{key}", path)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            check_numbers(inner, f"{place}[{i}]", path)
    elif isinstance(value, (int, float)) and value != 0 and not SMALLEST <= value <= LARGEST:
        raise refusal_at(path, f"{place}: {value:g} is out of range: 0, or from {SMALLEST:g} to {LARGEST:g}")


def read_json(path: str) -> Any:
    """JSON from a file, or from standard input where the path is ``-``.

    Limits on size and depth; duplicate keys, NaN and numbers without end are refused.
    """
    source = read_source(path, max_bytes=MOST_BYTES)
    _check_depth(source)
    try:
        return json.loads(source.text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_int, parse_float=_float)
    except json.JSONDecodeError as err:
        message = f"not JSON: {err.msg}; a report is written by 'roofline analyze WORKLOAD -H PROFILE -o FILE.json'"
        raise InputError([source.problem(source.mark(err.pos), message)]) from None
    except _TwiceError as err:
        raise _located(source, err) from None
    except (ValueError, RecursionError) as err:
        raise _refusal(source.path, f"not JSON that can be read: {err}") from None


_BRACKET_OR_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)


def _check_depth(source: Source) -> None:
    """Brackets outside strings, counted before the parser recurses into them."""
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(source.text):
        if match[0] in "[{":
            depth += 1
            if depth > DEEPEST:
                raise InputError([source.problem(source.mark(match.start()), f"nested deeper than {DEEPEST} levels")])
        elif match[0] in "]}":
            depth -= 1


class _TwiceError(ValueError):
    """Keys that stand twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = sorted(k for k, n in Counter(k for k, _ in pairs).items() if n > 1)
        raise _TwiceError(f"key written twice: {', '.join(twice)}")
    return found


def _located(source: Source, error: _TwiceError) -> InputError:
    """The same complaint with its lines, from the reader that keeps them; without, should that one refuse something else."""
    try:
        parse(source)
    except InputError as found:
        if any("stands twice" in p.message for p in found.problems):
            return found
    return _refusal(source.path, str(error))


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def refusal_at(path: str, message: str) -> InputError:
    """A problem whose message begins with its place, such as ``report.rows[3].flop``, shown where that stands."""
    try:
        node = parse(read_source(path, max_bytes=MOST_BYTES))
    except InputError:  # larger than that reader takes
        return _refusal(path, message)
    place = re.split(r"[: ]", message, maxsplit=1)[0]
    for key, index in _STEP.findall(place):
        if isinstance(node, MapNode) and key in node.entries:
            node = node.entries[key].value
        elif isinstance(node, ListNode) and index and int(index) < len(node.items):
            node = node.items[int(index)]
    return InputError([node.problem(message)])


def _refusal(path: str, message: str) -> InputError:
    return InputError([Problem(path, 0, 0, message)])


def write_text(path: str, text: str) -> None:
    """Write a text as `write_bytes` does."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))  # a file name may hold bytes that are no text


def write_folder(folder: str, texts: Mapping[str, str]) -> list[str]:
    """Texts by file name under a folder, which is made where there is none, each whole or not at all; the paths written.

    Raises:
        RooflineError: the folder or a file cannot be written.
    """
    try:
        Path(folder).mkdir(exist_ok=True)
    except OSError as err:
        raise RooflineError(f"cannot make '{folder}': {err.strerror or err}") from None
    paths = [str(Path(folder) / name) for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def write_bytes(path: str, data: bytes) -> None:
    """Write a whole file or nothing: a temporary file beside it, flushed, then moved over it.

    Keeps the mode of a file that exists, follows the umask for a new one, and follows links. What is no regular file
    (``/dev/stdout``, a FIFO) is written to as it is.

    Raises:
        RooflineError: the file cannot be written; what was there before is still there.
    """
    try:
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            Path(path).write_bytes(data)
            return
        target = Path(path).resolve()
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a directory; give a file name")
        if not target.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"there is no directory '{target.parent}'; make it first")
        _replace(target, data)
    except (OSError, ValueError, RuntimeError) as err:  # not an OSError: a NUL in the name, a loop of links
        raise RooflineError(f"cannot write '{path}': {getattr(err, 'strerror', None) or err}") from None


def _replace(target: Path, data: bytes) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too must leave nothing behind
        temporary.unlink(missing_ok=True)
        raise


def comparison_json(reports: list[Report]) -> str:
    """Several reports as one JSON value."""
    return to_json({"schema": SCHEMA, "kind": "comparison", "reports": reports})
