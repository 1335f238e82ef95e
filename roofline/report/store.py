"""Reports as files: JSON text out, checked JSON text in, older schemas upgraded in memory."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roofline.errors import InputError, Problem, RooflineError
from roofline.report.model import SCHEMA, Report
from roofline.report.shape import ShapeError, decode, encode

MOST_BYTES = 64 * 1024 * 1024
DEEPEST = 64

UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From schema n to n + 1, by n. Empty while the format is at its first version."""


def to_json(value: Any) -> str:
    """The report (or any of its parts) as JSON text with a final newline; equal values give equal bytes."""
    return json.dumps(encode(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load_report(path: str) -> Report:
    """The report in that file, upgraded to the present schema.

    Raises:
        FileNotFoundError: no such file; the caller knows whether that is a mistake or a missing baseline.
        InputError: not a report, too large, with duplicate keys or of a newer schema.
    """
    return report_from(read_json(path), path)


def report_from(found: Any, path: str) -> Report:
    """The report from JSON values already read."""
    if not isinstance(found, dict) or "schema" not in found or "rows" not in found:
        raise _refusal(path, "this is not a roofline report: it lacks 'schema' and 'rows'; write one with 'analyze --format json -o FILE'")
    version = found["schema"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _refusal(path, f"report schema {version!r} is not a version number")
    if version > SCHEMA:
        raise _refusal(path, f"report schema {version} is newer than this tool reads ({SCHEMA}); upgrade roofline")
    for step in range(version, SCHEMA):
        found = UPGRADES[step](found)
    try:
        report: Report = decode(Report, found)
    except ShapeError as err:
        raise _refusal(path, str(err)) from None
    _check_ids(report, path)
    return report


def _check_ids(report: Report, path: str) -> None:
    ids = [r.id for r in report.rows]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise _refusal(path, f"rows share an id: {', '.join(twice)}")


def read_json(path: str) -> Any:
    """JSON from a file with limits on size and depth, duplicate keys and NaN refused."""
    text = _text(path)
    _check_depth(text, path)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_int)
    except json.JSONDecodeError as err:
        line = text.splitlines()[err.lineno - 1] if text.splitlines() else ""
        raise InputError([Problem(path, err.lineno, err.colno, f"not JSON: {err.msg}", line)]) from None
    except (ValueError, RecursionError) as err:
        raise _refusal(path, f"not JSON that can be read: {err}") from None


def _text(path: str) -> str:
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise _refusal(path, "not a regular file")
    data = Path(path).read_bytes()
    if len(data) > MOST_BYTES:
        raise _refusal(path, f"{len(data)} bytes; at most {MOST_BYTES} are read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise _refusal(path, f"not UTF-8: byte {err.start}") from None


def _check_depth(text: str, path: str) -> None:
    """Brackets outside strings, counted before the parser recurses into them."""
    depth, quoted, escaped = 0, False, False
    for char in text:
        if quoted:
            escaped, quoted = (char == "\\" and not escaped), (char != '"' or escaped)
        elif char == '"':
            quoted = True
        elif char in "[{":
            depth += 1
            if depth > DEEPEST:
                raise _refusal(path, f"nested deeper than {DEEPEST} levels")
        elif char in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [k for k, _ in pairs]
        twice = sorted({k for k in keys if keys.count(k) > 1})
        raise ValueError(f"key written twice: {', '.join(twice)}")
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _int(text: str) -> int:
    if len(text) > 40:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _refusal(path: str, message: str) -> InputError:
    return InputError([Problem(path, 0, 0, message)])


def write_text(path: str, text: str) -> None:
    """Write a whole file or nothing: a temporary file beside it, flushed, then moved over it.

    Keeps the mode of a file that exists, follows the umask for a new one.

    Raises:
        RooflineError: the file cannot be written; what was there before is still there.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except OSError as err:
        temporary.unlink(missing_ok=True)
        raise RooflineError(f"cannot write {path}: {err.strerror or err}") from None


def comparison_json(reports: list[Report]) -> str:
    """Several reports as one JSON value."""
    return to_json({"schema": SCHEMA, "kind": "comparison", "reports": reports})
