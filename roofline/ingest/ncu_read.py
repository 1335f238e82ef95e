"""CSV of Nsight Compute: kernel launches with their counters, from the long and the wide form.

Wide (``--page raw``): one launch a line, a line of units behind the header. Long (``--page details`` and older raw pages): one counter
a line, or with ``--print-summary`` one counter of several launches. What stands around the table (``==PROF==`` lines, output of the
program that was profiled) is passed over. Of the columns that describe a launch only the kernel's name, the NVTX ranges and the device
are kept: host, process and user names never leave this file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from roofline.errors import InputError, Problem, did_you_mean
from roofline.ingest.ncu_metrics import wanted
from roofline.ingest.ncu_numbers import Locale, locale_of, unit_of
from roofline.spec.files import read_source
from roofline.spec.located import Mark, Source

MOST_BYTES = 512 * 2**20
MOST_PROBLEMS = 50
"""Problems listed; a file in the wrong locale would have one a cell."""
HOW = "write one with 'ncu --csv --page raw --nvtx ... > FILE.csv'"
KERNEL, ID = "Kernel Name", "ID"
NAME, UNIT, VALUE, AVERAGE, INVOCATIONS = "Metric Name", "Metric Unit", "Metric Value", "Average", "Invocations"


@dataclass(frozen=True, slots=True)
class Value:
    """One counter in its base unit (``byte``, ``s``, ``1`` ...)."""

    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel launch, or ``count`` equal ones of a summary, whose counters are those of one.

    ``ranges`` are the NVTX ranges around it, outermost first; ``counters`` by the names in the file, of those that are known.
    """

    id: str
    kernel: str
    ranges: tuple[str, ...]
    device: str
    capability: str
    counters: Mapping[str, Value]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Table:
    """What a file holds: its launches, how it was read, and how many lines were passed over inside the table."""

    path: str
    sha256: str
    form: str
    locale: Locale
    launches: tuple[Launch, ...]
    skipped_lines: int


@dataclass(slots=True)
class _Lines:
    """Rows of the table with their line numbers, and the problems found so far."""

    source: Source
    header: list[str]
    delimiter: str
    also: frozenset[str]
    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    skipped: int = 0
    problems: list[Problem] = field(default_factory=list)

    def wanted(self, name: str) -> bool:
        """Whether a counter is read: one that is known, or asked for by its name."""
        return wanted(name) or name in self.also

    def fail(self, line: int, column: int, message: str) -> None:
        """A problem in the cell of that column."""
        if len(self.problems) < MOST_PROBLEMS:
            text = self.source.line(line)
            self.problems.append(self.source.problem(Mark(line, _start(text, column, self.delimiter)), message))

    def raise_if_any(self) -> None:
        """All problems at once.

        Raises:
            InputError: there are some.
        """
        if self.problems:
            raise InputError(self.problems)


def read_table(path: str, also: Collection[str] = ()) -> Table:
    """The launches of a file, or of standard input for ``-``; with the counters named ``also`` beside those that are known.

    Raises:
        InputError: no table of the profiler, a row of the wrong length, a number that is none, an unknown unit.
    """
    import hashlib

    source = read_source(path, max_bytes=MOST_BYTES)
    lines = _lines(source, frozenset(also))
    lines.raise_if_any()
    wide = NAME not in lines.header
    launches, locale = (_wide if wide else _long)(lines)
    lines.raise_if_any()
    if not launches:
        raise InputError([Problem(source.path, 0, 0, f"the table has no kernels: nothing was profiled; {HOW}")])
    digest = hashlib.sha256(source.text.encode()).hexdigest()
    return Table(source.path, digest, "wide" if wide else "long", locale, tuple(launches), lines.skipped)


# --------------------------------------------------------------------------- lines
_FIELD = re.compile(r'"(?:[^"]|"")*"?|[^"]')


def _start(line: str, column: int, delimiter: str) -> int:
    """Where a field begins in a line, from 1."""
    at = 0
    for found in _FIELD.finditer(line):
        if at == column:
            return found.start() + 1
        at += found.group() == delimiter
    return max(1, len(line))


def _split(line: str, delimiter: str) -> list[str] | None:
    """The fields of a line; None where its quotes are not closed."""
    if line.count('"') % 2:
        return None
    try:
        return next(csv.reader(io.StringIO(line), delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return None


def _lines(source: Source, also: frozenset[str] = frozenset()) -> _Lines:
    """The header and the rows behind it.

    Raises:
        InputError: there is no header.
    """
    texts = source.text.split("\n")
    for number, text in enumerate(texts, 1):
        if KERNEL in text:
            for delimiter in (",", ";", "\t"):
                header = _split(text, delimiter)
                if header and KERNEL in header:
                    found = _Lines(source, [name.strip() for name in header], delimiter, also)
                    _collect(found, texts, number)
                    return found
    seen = next((n for n, t in enumerate(texts, 1) if "No kernels were profiled" in t or "ERR_NVGPUCTRPERM" in t), 0)
    if seen:
        raise InputError([source.problem(Mark(seen, 1), "the profiler says that it profiled nothing, and there is no table below")])
    message = f"this is no table of Nsight Compute: no line holds the heading '{KERNEL}'; {HOW}"
    raise InputError([Problem(source.path, 0, 0, message)])


def _collect(found: _Lines, texts: Sequence[str], header_line: int) -> None:
    """Rows of the right length; a line that looks like one and is not is a problem, any other was printed by the program."""
    width = len(found.header)
    twice = {name for name in found.header if name and found.header.count(name) > 1 and found.wanted(name)}
    for name in sorted(twice):
        found.fail(header_line, len(found.header) - 1 - found.header[::-1].index(name), f"column '{name}' stands twice")
    for number, text in enumerate(texts[header_line:], header_line + 1):
        if not text.strip():
            continue
        fields = _split(text, found.delimiter)
        if fields is not None and len(fields) == width:
            found.rows.append((number, fields))
        elif text.startswith('"') or re.match(rf"\d+{re.escape(found.delimiter)}", text):
            said = "a quote is not closed" if fields is None else f"{len(fields)} fields where the header has {width}"
            found.fail(number, 0, f"{said}: the file is cut off or was edited; export it again")
        else:
            found.skipped += 1


def _locale(lines: _Lines, cells: Iterator[str]) -> Locale:
    found = locale_of(cells)
    if isinstance(found, Locale):
        return found
    english, other = found
    message = f"'{english}' has a decimal point and '{other}' a decimal comma: these are tables of two locales; export them again apart"
    raise InputError([Problem(lines.source.path, 0, 0, message)])


# --------------------------------------------------------------------------- the two forms
def _wide(lines: _Lines) -> tuple[list[Launch], Locale]:
    """One launch a row; the first row holds the units."""
    known = {i: name for i, name in enumerate(lines.header) if lines.wanted(name)}
    if not lines.rows:
        return [], Locale(".", True)
    number, units = lines.rows[0]
    at = lines.header.index(ID) if ID in lines.header else lines.header.index(KERNEL)
    if units[at].strip():
        lines.fail(number, at, "the line behind the header should hold the units of the columns; export with --page raw --csv")
        return [], Locale(".", True)
    if not known:
        _no_counters(lines)
    scales = {i: scale for i, name in known.items() if (scale := _scale(lines, number, i, units[i], name)) is not None}
    locale = _locale(lines, (row[i] for _, row in lines.rows[1:] for i in scales))
    found: list[Launch] = []
    for number, row in lines.rows[1:]:
        counters = {known[i]: v for i, s in scales.items() if (v := _value(lines, number, i, row[i], s, locale)) is not None}
        found.append(_launch(lines.header, row, counters, len(found)))
    return found, locale


def _no_counters(lines: _Lines) -> None:
    counters = [name for name in lines.header if "__" in name]
    said = did_you_mean(counters[0], ["dram__bytes_read.sum"]) if counters else "it has launch columns only"
    message = f"no column is a counter that is known here ({said}); ask for some with 'ncu --metrics dram__bytes_read.sum,...'"
    lines.problems.append(Problem(lines.source.path, 0, 0, message))


def _long(lines: _Lines) -> tuple[list[Launch], Locale]:
    """One counter a row; rows of one ID belong together. A summary has averages over so many invocations in place of values."""
    header = lines.header
    value_at = header.index(VALUE) if VALUE in header else header.index(AVERAGE) if AVERAGE in header else None
    if value_at is None or UNIT not in header:
        message = f"a table with '{NAME}' needs '{UNIT}' and '{VALUE}' (or '{AVERAGE}', in a summary) as well"
        lines.problems.append(Problem(lines.source.path, 0, 0, message))
        return [], Locale(".", True)
    name_at, unit_at = header.index(NAME), header.index(UNIT)
    rows = [(n, row) for n, row in lines.rows if lines.wanted(row[name_at])]
    locale = _locale(lines, (row[value_at] for _, row in rows))
    counters: dict[tuple[str, ...], dict[str, Value]] = {}
    first: dict[tuple[str, ...], list[str]] = {}
    identity = [header.index(n) for n in (ID, KERNEL, "Block Size", "Grid Size", "Device", *_range_columns(header)) if n in header]
    for number, row in lines.rows:
        key = tuple(row[i] for i in identity)
        first.setdefault(key, row)
        counters.setdefault(key, {})
        if not lines.wanted(row[name_at]):
            continue
        scale = _scale(lines, number, unit_at, row[unit_at], row[name_at])
        value = _value(lines, number, value_at, row[value_at], scale, locale) if scale else None
        if value is not None:
            counters[key][_distinct(row[name_at], value.unit)] = value
    return [_launch(header, first[key], counters[key], i) for i, key in enumerate(counters)], locale


def _distinct(name: str, unit: str) -> str:
    """The details page has two counters called Memory Throughput: one is a rate, one a percentage."""
    return f"{name} [{unit}]" if name == "Memory Throughput" else name


def _scale(lines: _Lines, line: int, column: int, unit: str, name: str) -> tuple[float, str] | None:
    found = unit_of(unit)
    if found is None:
        lines.fail(
            line, column, f"unknown unit '{unit.strip()}' of {name}; known are byte, ns, us, ms, s, %, inst, sector and their multiples"
        )
    return found


SMALLEST, LARGEST = 1e-18, 1e30
"""Of a counter that is not 0, in SI units: what is beyond is a mistake, and its products leave the range of a number."""


def _value(lines: _Lines, line: int, column: int, text: str, scale: tuple[float, str], locale: Locale) -> Value | None:
    try:
        number = locale.number(text)
    except ValueError:
        lines.fail(line, column, f"'{text.strip()}' is no number with decimal sign '{locale.decimal}', which the rest of the file has")
        return None
    if number is not None and number < 0:
        lines.fail(line, column, f"'{text.strip()}': a counter is not negative")
        return None
    found = None if number is None else _scaled(number, scale[0])
    if found and not SMALLEST <= found <= LARGEST:
        lines.fail(line, column, f"'{text.strip()}': no counter reaches that")
        return None
    return None if found is None else Value(found, scale[1])


def _scaled(number: float, factor: float) -> float:
    """Divided by a whole number where the unit is a small one, so that 174,912 ns is exactly what is written for 1.74912e-4 s."""
    return number / round(1 / factor) if factor < 1 else number * factor


# --------------------------------------------------------------------------- what describes a launch
def _range_columns(header: Sequence[str]) -> list[str]:
    """Columns of NVTX ranges: push and pop by thread, then start and stop by process."""
    return [n for n in header if "Push/Pop_Range" in n] + [n for n in header if "Start/Stop_Range" in n]


_QUOTED = re.compile(r'"([^"]*)"')


def range_names(cell: str) -> tuple[str, ...]:
    """The names of the NVTX ranges in a cell, outermost first: ``440 "<default domain>:name:none:none:none:none:none:none"``.

    >>> range_names('440  "<default domain>:gemm/m=1:none:none:none:none:none:none" ')
    ('gemm/m=1',)
    """
    return tuple(name for text in _QUOTED.findall(cell) or ([cell] if cell.strip() else []) if (name := _name(text)))


def _name(text: str) -> str:
    """A range's name may hold colons: one field, the domain, stands before it and six behind it."""
    parts = text.strip().split(":")
    return ":".join(parts[1:-6] if len(parts) >= 8 else parts[1:] if len(parts) > 1 else parts).strip()


def _launch(header: Sequence[str], row: Sequence[str], counters: Mapping[str, Value], position: int) -> Launch:
    cells = dict(zip(header, row, strict=True))
    ranges: tuple[str, ...] = ()
    for column in _range_columns(header):
        ranges = range_names(cells[column])
        if ranges:
            break
    count = cells.get(INVOCATIONS, "1").strip()
    return Launch(
        id=cells.get(ID, str(position)).strip(),
        kernel=short_name(cells[KERNEL]),
        ranges=ranges,
        device=cells.get("device__attribute_display_name", "").strip(),
        capability=cells.get("CC", "").strip(),
        counters=counters,
        count=int(count) if count.isascii() and count.isdigit() and 0 < len(count) < 10 else 1,
    )


def short_name(kernel: str) -> str:
    """A kernel's name without its parameter list and template arguments, which run to thousands of characters.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int, T1)")
    'at::native::vectorized_elementwise_kernel'
    """
    depth, kept = 0, []
    for char in kernel.replace("(anonymous namespace)", "").replace("operator()", "operator").strip().removeprefix("void "):
        if char == "(" and depth == 0:
            break
        depth += (char == "<") - (char == ">")
        if depth == 0 and char != ">":
            kept.append(char)
    return "".join(kept).strip() or kernel.strip()[:80]
