"""A profile with fitted sets, as text: the named profile with them in place, or a new one that extends it.

The text of a profile is kept as it is, comments included; only the block of sets is written again, with the sets that were not
fitted this time as they stood, and the sources that no set refers to any more are dropped.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from roofline import __version__
from roofline.errors import RooflineError, UsageError
from roofline.fit.fitting import FittedSet
from roofline.fit.tables import Table
from roofline.hardware.profile import Hardware
from roofline.predict.estimate.base import Parameter
from roofline.predict.estimate.catalog import declared, model_named
from roofline.spec.files import read_source
from roofline.spec.find import hardware_names, profile_name
from roofline.spec.fitted import Stated, take_sets

WIDTH = 140
OWN_SOURCE = re.compile(r"  (fit-\d{4}-\d\d-\d\d(?:-\d+)?): ")


def fitted_profile(hardware: Hardware, sets: Sequence[FittedSet], tables: Sequence[Table], output: str | None, date: str) -> str:
    """The profile's text: that of ``hardware`` itself where the file has its name, else one that extends it.

    Raises:
        UsageError: it cannot be extended, since it is not found by its name.
        RooflineError: its sets are written in a way that cannot be kept.
    """
    otherwise = f"{hardware.name}-fitted"
    name = profile_name(output, otherwise) or otherwise
    if name == hardware.name:
        lines, kept = _without_sets(hardware)
    else:
        if hardware.name not in hardware_names():
            raise UsageError(f"-H {hardware.path}: only a profile that is found by its name can be extended; put it into ./hardware_specs")
        lines, kept = ["schema: 1", f"name: {name}", f"extends: {hardware.name}"], {}
    new = {s.name for s in sets}
    kept = {n: text for n, text in kept.items() if n not in new}
    lines = _without_stale_sources(lines, kept)
    key = _free_key(f"fit-{date}", lines)
    lines = _with_source(lines, key, source_text(tables, date))
    written = {**kept, **{s.name: set_text(s, key, date) for s in sets}}
    block = [line for n in sorted(written) for line in written[n]]
    return "\n".join([*lines, "", "fitted:", *block]) + "\n"


# --------------------------------------------------------------------------- the text that is kept
def _without_sets(hardware: Hardware) -> tuple[list[str], dict[str, list[str]]]:
    """The lines of the profile's file without its block of sets, and these by name."""
    source = read_source(hardware.path)
    _, stated = take_sets(source)
    if any(s.entry is not None for s in stated.values()):
        raise RooflineError(f"{hardware.path}: the sets under 'fitted' are not in lines of their own; write to a file of another name")
    lines = source.text.rstrip("\n").split("\n")
    if not stated:
        return lines, {}
    head = next(i for i, line in enumerate(lines) if line.startswith("fitted:"))
    end = next((i for i in range(head + 1, len(lines)) if lines[i][:1] not in ("", " ", "#")), len(lines))
    rest = lines[:head] + lines[end:]
    while rest and not rest[-1].strip():
        rest.pop()
    return rest, {name: _lines_of(s) for name, s in stated.items()}


def _lines_of(stated: Stated) -> list[str]:
    return [stated.source.line(n) for n in range(stated.first, stated.last + 1)]


def _without_stale_sources(lines: Sequence[str], kept: Mapping[str, Sequence[str]]) -> list[str]:
    """Without the sources of former fits of which no set is left."""
    used = set(re.findall(r"\bsource: (\S+)", "\n".join(line for text in kept.values() for line in text)))
    return [line for line in lines if not ((match := OWN_SOURCE.match(line)) and match[1] not in used)]


def _free_key(wanted: str, lines: Sequence[str]) -> str:
    taken = {match[1] for line in lines if (match := OWN_SOURCE.match(line))}
    keys = (wanted, *(f"{wanted}-{n}" for n in range(2, len(taken) + 3)))
    return next(key for key in keys if key not in taken)


def _with_source(lines: Sequence[str], key: str, text: str) -> list[str]:
    entry = f"  {key}: {json.dumps(text, ensure_ascii=False)}"
    at = next((i for i, line in enumerate(lines) if re.fullmatch(r"sources:\s*(#.*)?", line)), None)
    if at is None:
        return [*lines, "", "sources:", entry]
    return [*lines[: at + 1], entry, *lines[at + 1 :]]


# --------------------------------------------------------------------------- what is new
def source_text(tables: Sequence[Table], date: str) -> str:
    """Tool, date, and of each table its name, rows and provenance."""
    parts = [f"{Path(t.file).name} ({len(t.rows)} rows{_provenance(t)})" for t in tables]
    return f"roofline {__version__} fit, {date}: " + "; ".join(parts)


def _provenance(table: Table) -> str:
    said = [line for line in table.provenance if line.startswith(("source:", "measured"))]
    return f"; {said[0]}" if said else ""


def set_text(found: FittedSet, source: str, date: str) -> list[str]:
    """The lines of one set. Its device is the profile that states it."""
    model = model_named(found.name.partition(".")[0])
    known = {p.name: p for p in declared(model, found.name)} if model else {}
    numbers = ", ".join(f"{name}: {_number(value, known.get(name))}" for name, value in found.values.items())
    held = "no row was held out" if found.held_error is None else f"{found.held} rows held out, off by {found.held_error:.1%} on average"
    band = ", ".join(f"{regime}: [{low:.4f}, {high:.4f}]" for regime, (low, high) in found.band.items())
    return [
        f"  {found.name}:",
        "    kind: fitted",
        f"    source: {source}",
        f"    date: {date}",
        f"    rows: {found.rows}",
        *([f"    band: {{{band}}}"] if band else []),
        *textwrap.wrap(f"parameters: {{{numbers}}}", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 6, break_long_words=False),
        f"    note: {json.dumps(held)}",
    ]


def _number(value: float, known: Parameter | None) -> str:
    """Six digits, unless rounding leaves the range; with a point before an exponent, without which YAML 1.1 reads a text."""
    text = f"{value:.6g}"
    if known is not None and not known.low <= float(text) <= known.high:
        text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
