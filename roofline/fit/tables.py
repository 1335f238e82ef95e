"""Measured tables: CSV text to operators with times, every problem at its place.

Lines that begin with ``#`` are provenance. Columns are the operator's fields and a time; the operator is named by the column
``op`` or by the file. Rows without a time are skipped and counted, since tables keep what could not be measured.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any

from roofline.errors import InputError, Problem, did_you_mean
from roofline.fit.calls import NAMED, call_of
from roofline.fit.columns import EXTRA, TIMES, Cells, beside, directions, fields_of, known_columns, named_operator, translated
from roofline.ops.base import Op
from roofline.ops.launched import EXECUTIONS
from roofline.ops.registry import OPERATORS
from roofline.spec.reader import INVALID, Reader
from roofline.spec.schema import Bool, Choice, Integer, Real, Type
from roofline.spec.source import Mark, Scalar, Source, read_source
from roofline.spec.workload import field_type
from roofline.workload.workload import DIRECTIONS

MOST_BYTES = 64 * 2**20
MOST_PROBLEMS = 100
"""Problems after which reading stops: nobody repairs more at once."""
DEVICE_TIMES = ("time_us", "time_s", "latency_us")
"""Columns of a time on the device; the first that a row fills counts."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measured row: what the file calls its operator, the operator that it is, how it ran, and for how long.

    ``text`` is the line as it stands in the file. ``fields`` are the values that the row states, by the operator's names. ``more``
    are the operators that ran in the same call, of a table of calls, and ``lead_s`` what of its time the device waited.
    """

    file: str
    line: int
    text: str
    operator: str
    direction: str
    execution: str
    fields: dict[str, Any]
    op: Op
    time_s: float
    more: tuple[Op, ...] = ()
    lead_s: float = 0.0

    @property
    def ops(self) -> tuple[Op, ...]:
        """What ran, by direction, and beside it."""
        return (*directions(self.op, self.direction), *self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of a file that have a time, how many have none, and where they come from."""

    file: str
    rows: tuple[Row, ...]
    skipped: int
    provenance: tuple[str, ...]


def read_table(path: str, *, execution: str | None = None, times: Sequence[str] = DEVICE_TIMES) -> Table:
    """The table in a file; ``execution`` stands above what the file says.

    Raises:
        InputError: problems in the file, all of them.
    """
    return _Reading(read_source(path, max_bytes=MOST_BYTES), execution, tuple(times)).table()


def read_tables(paths: Sequence[str], *, execution: str | None = None) -> list[Table]:
    """All tables, or the problems of all.

    Raises:
        InputError: problems in the files.
    """
    found: list[Table] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            found.append(read_table(path, execution=execution))
        except InputError as err:
            problems += err.problems
    if problems:
        raise InputError(problems)
    return found


def execution_of(stem: str, provenance: Sequence[str]) -> str:
    """Whose kernels a table is of: an engine's where its name or its provenance says so, and of calls, else torch's from a graph.

    >>> execution_of("gemm_vllm", ()), execution_of("gemm", ("framework=sglang 0.5",)), execution_of("gemm", ())
    ('engine', 'engine', 'graph')
    """
    engine = "vllm" in stem or stem.split("_")[0] in NAMED or any("framework=" in line for line in provenance)
    return "engine" if engine else "graph"


@dataclass(slots=True)
class _Reading:
    """One file while it is read."""

    source: Source
    given: str | None
    times: tuple[str, ...]
    reader: Reader = field(default_factory=Reader)
    header: list[str] = field(default_factory=list)
    cache: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    classes: dict[str, type[Op] | None] = field(default_factory=dict)
    types: dict[tuple[str, str], Type] = field(default_factory=dict)

    def table(self) -> Table:
        """All rows, or all problems."""
        lines = list(enumerate(self.source.text.split("\n"), 1))
        provenance = tuple(text.lstrip("# ").rstrip() for _, text in lines if text.startswith("#"))
        body = [(n, text) for n, text in lines if text.strip() and not text.startswith("#")]
        stem = Path(self.source.path).stem
        if not body:
            self._fail(Mark(1, 1), "no table is written here; expected a line of column names and rows below it")
        operator = self._columns(body[0], stem) if body else None
        usual = self.given or execution_of(stem, provenance)
        rows, skipped = [], 0
        if not self.reader.problems:
            for line, text in body[1:]:
                row = self._row(line, text, operator, usual)
                rows += [row] if isinstance(row, Row) else []
                skipped += row is None
                if len(self.reader.problems) >= MOST_PROBLEMS:
                    break
            if not body[1:]:
                self._fail(Mark(body[0][0], 1), "the table has no rows below its column names")
        self.reader.finish()
        return Table(file=self.source.path, rows=tuple(rows), skipped=skipped, provenance=provenance)

    # ---------------------------------------------------------------- the line of names
    def _columns(self, head: tuple[int, str], stem: str) -> str | None:
        """Check the names of the columns; the operator of the file, None where a column names it."""
        line, text = head
        self.header = [name.strip() for name in _cells(text) or []]
        operator = None if "op" in self.header else named_operator(stem)
        if "op" not in self.header and operator is None:
            hint = did_you_mean(stem.split("_")[0], list(OPERATORS))
            self._fail(Mark(line, 1), f"no operator is named: add a column 'op', or call the file after one ('{stem}': {hint})")
            return None
        known = known_columns(operator) if operator else frozenset().union(*(known_columns(name) for name in OPERATORS))
        for at, name in enumerate(self.header):
            if name in self.header[:at]:
                self._fail(_mark(line, text, at), f"column '{name}' stands twice; keep one")
            elif name not in known:
                self._fail(_mark(line, text, at), f"unknown column '{name}' in a table of {operator or 'operators'}; {_near(name, known)}")
        if not set(self.times) & set(self.header):
            self._fail(Mark(line, 1), f"no time is measured here: expected a column {' or '.join(self.times)}")
        return operator

    # ---------------------------------------------------------------- a row
    def _row(self, line: int, text: str, operator: str | None, usual: str) -> Row | Any | None:
        """The row; None where it has no time, INVALID after reporting what is wrong."""
        cells = _cells(text)
        if cells is None or len(cells) != len(self.header):
            found = "quotes that do not end" if cells is None else f"{len(cells)} cells"
            return self._fail(Mark(line, 1), f"expected {len(self.header)} cells, one for each column, found {found}")
        row = dict(zip(self.header, (cell.strip() for cell in cells), strict=True))
        time = next((name for name in self.times if row.get(name)), None)
        if time is None:
            return None
        before = self.reader.failures
        at = _Place(self, line, text)
        name = operator or row["op"]
        if self._class(name) is None:
            return self._fail(at.mark("op"), f"unknown operator '{name}'; {did_you_mean(name, list(OPERATORS))}")
        if operator is None:
            self._foreign(name, row, at)
        time_s = self._value(name, time, row[time], time, at)
        direction = self._value(name, "pass", row.get("pass") or "forward", "pass", at)
        execution = self._value(name, "execution", row["execution"], "execution", at) if row.get("execution") else usual
        call = call_of(name, row)
        wrong = call.problem(row) if call else None
        if wrong:
            return self._fail(at.mark(wrong[0]), wrong[1])
        actual, texts = translated(name, row)
        fields = self._fields(actual, texts, at)
        if self.reader.failures > before:
            return INVALID
        op = self._op(actual, fields, direction, at)
        more = tuple(self._op(other, self._fields(other, found, at), "forward", at) for other, found in beside(name, row))
        if op is INVALID or INVALID in more:
            return INVALID
        if call and not call.tells((op, *more)):
            return None
        lead_s = call.lead_s(row) if call else 0.0
        return Row(self.source.path, line, text, name, direction, self.given or execution, fields, op, time_s * TIMES[time], more, lead_s)

    def _class(self, name: str) -> type[Op] | None:
        """The operator of that name; one of another package is looked for once."""
        if name not in self.classes:
            self.classes[name] = OPERATORS.get(name)
        return self.classes[name]

    def _foreign(self, operator: str, row: dict[str, str], at: _Place) -> None:
        """A value in a column of another operator says something that this one cannot mean."""
        for column, text in row.items():
            if text and column not in known_columns(operator):
                self._fail(at.mark(column), f"{operator} has no field '{column}'; {_near(column, frozenset(fields_of(operator)))}")

    def _fields(self, operator: str, cells: Cells, at: _Place) -> dict[str, Any]:
        values = {name: self._value(operator, name, text, column, at) for name, (text, column) in cells.items()}
        missing = [name for name, declared in fields_of(operator).items() if declared.default is MISSING and name not in cells]
        if missing:
            self._fail(Mark(at.line, 1), f"a row of {operator} lacks {', '.join(repr(m) for m in missing)}")
        return values

    def _value(self, operator: str, name: str, text: str, column: str, at: _Place) -> Any:
        """What a text means in a field; the same text in the same field is read once."""
        key = (operator, name, text)
        found = self.cache.get(key)
        if found is None:
            type_ = self._type(operator, name)
            written = text.lower() if isinstance(type_, Bool) else text
            found = type_.read(Scalar(self.source, at.mark(column), written, quoted=False), self.reader)
            if found is not INVALID:
                self.cache[key] = found
        return found

    def _type(self, operator: str, name: str) -> Type:
        key = (operator, name)
        if key not in self.types:
            self.types[key] = _OWN[name] if name in _OWN else _cell_type(fields_of(operator)[name].metadata)
        return self.types[key]

    def _op(self, operator: str, fields: dict[str, Any], direction: str, at: _Place) -> Any:
        cls = self._class(operator)
        assert cls is not None
        op = cls(**fields)
        refusal = op.check()
        if refusal is not None:
            return self._fail(Mark(at.line, 1), refusal)
        if direction != "forward" and not op.backward():
            return self._fail(at.mark("pass"), f"{operator} has no backward pass of its own")
        return op

    def _fail(self, where: Mark, message: str) -> Any:
        return self.reader.fail(Scalar(self.source, where, "", quoted=False), message)


@dataclass(frozen=True, slots=True)
class _Place:
    """The cells of a line, by column."""

    reading: _Reading
    line: int
    text: str

    def mark(self, column: str) -> Mark:
        """Where the cell of a column starts."""
        header = self.reading.header
        return _mark(self.line, self.text, header.index(column) if column in header else 0)


_OWN: dict[str, Type] = {name: Real(0, above=True) for name in TIMES} | {
    "pass": Choice(DIRECTIONS),
    "execution": Choice(EXECUTIONS),
}
"""How the columns are read that are no fields."""


def _cell_type(metadata: Any) -> Type:
    """A field in a table: as in a workload, but no expressions, since there are no params."""
    kind = metadata["kind"]
    if kind == "dim":
        return Integer(metadata["minimum"])
    return Real(0, 1) if kind == "probability" else field_type(metadata)


def _near(name: str, known: frozenset[str]) -> str:
    """The nearest names, else the operator's own columns without those that any table may have."""
    hint = did_you_mean(name, sorted(known))
    return hint if not hint.startswith("known:") else f"known: {', '.join(sorted(known - EXTRA))}"


def _cells(text: str) -> list[str] | None:
    """The cells of a line, None where its quotes do not end."""
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader(io.StringIO(text), strict=True))
    except (csv.Error, StopIteration):
        return None


def _mark(line: int, text: str, cell: int) -> Mark:
    """Where the cell of that number starts: after so many commas outside of quotes."""
    return Mark(line, next((start for n, start in enumerate(_starts(text)) if n == cell), 1))


def _starts(text: str) -> Iterator[int]:
    quoted = False
    yield 1
    for at, char in enumerate(text, 1):
        quoted ^= char == '"'
        if char == "," and not quoted:
            yield at + 1
