"""The log of a loop as a YAML file that people read: written from `Log`, read back with every mistake at its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from roofline.errors import InputError, UsageError
from roofline.report.loop import LOOP_SCHEMA, VERDICTS, File, Log, MeasuredTurn, Predicted, Turn
from roofline.spec.kind import require
from roofline.spec.reader import Reader
from roofline.spec.schema import Choice, Integer, Key, ListOf, MapOf, Real, Record, Text
from roofline.spec.source import ListNode, MapNode, Node, Source, parse, read_source

POSITIVE = Real(minimum=1e-30, maximum=1e30)
FILE = Record("a file", (Key("path", Text(), "as it was named", True), Key("sha256", Text(), "of its text", True)))
PREDICTED = Record(
    "a prediction",
    (
        Key("kind", Choice(("estimate", "bound")), "of which kind the time is", True),
        Key("time_s", POSITIVE, "seconds of one run", True),
        Key("speedup", POSITIVE, "of throughput, over the turn before", True),
        Key("report", FILE, "the report that the prediction is in", True),
    ),
)
MEASURED = Record(
    "a measurement",
    (
        Key("time_s", POSITIVE, "seconds of one run", True),
        Key("source", Text(), "where it comes from", True),
        Key("report", FILE, "the report of the measurement"),
        Key("speedup", POSITIVE, "of throughput, over the turn before"),
        Key("verdict", Choice(VERDICTS), "what became of the prediction", True),
        Key("rows", MapOf(Integer()), "verdicts on single steps"),
    ),
)
TURN = Record(
    "a turn",
    (
        Key("number", Integer(), "0 is the workload as it is", True),
        Key("change", Text(), "a key of 'roofline advise'"),
        Key("settings", ListOf(Text()), "overrides given by hand"),
        Key("hypothesis", Text(), "why it should help", True),
        Key("work", POSITIVE, "work of a run over that of turn 0", True),
        Key("predicted", PREDICTED, "what was expected", True),
        Key("measured", MEASURED, "what it took"),
    ),
)
LOG = Record(
    "a loop",
    (
        Key("schema", Integer(LOOP_SCHEMA, LOOP_SCHEMA), "version of this format", True),
        Key("kind", Choice(("loop",)), "what this file is", True),
        Key("workload", FILE, "what is made faster", True),
        Key("overrides", ListOf(Text()), "of the workload, from the beginning"),
        Key("hardware", FILE, "the device", True),
        Key("turns", ListOf(TURN), "in order", True),
    ),
)


@dataclass(frozen=True, slots=True)
class Written:
    """A log with the nodes that it was read from, for what is found wrong later."""

    log: Log
    root: MapNode

    def at(self, *path: str | int) -> Node:
        """The node at that place, or the last one on the way."""
        node: Node = self.root
        for step in path:
            if isinstance(node, MapNode) and step in node.entries:
                node = node.entries[str(step)].value
            elif isinstance(node, ListNode) and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
        return node


def read_log(path: str) -> Written:
    """The log in that file.

    Raises:
        InputError: no such file, or what is wrong in it, all at once.
    """
    return _read(read_source(path))


def readable(text: str, path: str) -> None:
    """Refuse to write what could not be read again.

    Raises:
        UsageError: a value that the reader would refuse.
    """
    try:
        _read(Source(path, text))
    except (InputError, UnicodeError) as err:
        raise UsageError(f"the turn cannot be written: {err}") from None


def _read(source: Source) -> Written:
    root = require(parse(source), "a loop")
    reader = Reader()
    found = LOG.read(root, reader)
    turns = root.entries["turns"].value if "turns" in root.entries else None
    numbers = [t.get("number") for t in found.get("turns", ())] if isinstance(found, Mapping) else []
    if turns is not None and not reader.problems and (not numbers or numbers != list(range(len(numbers)))):
        reader.fail(turns, "turns are numbered 0, 1, 2 ... in order, and turn 0 is the workload as it is")
    reader.finish()
    return Written(_log(found), root)


def _log(found: Mapping[str, Any]) -> Log:
    return Log(
        schema=found["schema"],
        kind=found["kind"],
        workload=File(**found["workload"]),
        overrides=found.get("overrides", ()),
        hardware=File(**found["hardware"]),
        turns=tuple(map(_turn, found["turns"])),
    )


def _turn(found: Mapping[str, Any]) -> Turn:
    predicted, measured = dict(found["predicted"]), found.get("measured")
    predicted["report"] = File(**predicted["report"])
    return Turn(
        number=found["number"],
        change=found.get("change", ""),
        settings=found.get("settings", ()),
        hypothesis=found["hypothesis"],
        work=found["work"],
        predicted=Predicted(**predicted),
        measured=_measured(measured) if measured else None,
    )


def _measured(found: Mapping[str, Any]) -> MeasuredTurn:
    report = found.get("report")
    return MeasuredTurn(
        time_s=found["time_s"],
        source=found["source"],
        report=File(**report) if report else None,
        speedup=found.get("speedup"),
        verdict=found["verdict"],
        rows=found.get("rows", {}),
    )


# --------------------------------------------------------------------------- writing
def log_text(log: Log) -> str:
    """The file; read again it gives an equal log."""
    return "\n".join(_lines(log)) + "\n"


def _lines(log: Log) -> Iterator[str]:
    yield "# An optimisation effort, turn by turn: kept by 'roofline loop', shown by 'roofline loop status'."
    yield f"schema: {log.schema}"
    yield f"kind: {log.kind}"
    yield f"workload: {_file(log.workload)}"
    if log.overrides:
        yield f"overrides: {_words(log.overrides)}"
    yield f"hardware: {_file(log.hardware)}"
    yield "turns:"
    for turn in log.turns:
        yield f"  - number: {turn.number}"
        if turn.change:
            yield f"    change: {_text(turn.change)}"
        if turn.settings:
            yield f"    settings: {_words(turn.settings)}"
        yield f"    hypothesis: {_text(turn.hypothesis)}"
        yield f"    work: {_number(turn.work)}"
        p = turn.predicted
        yield "    predicted:"
        yield from (f"      kind: {p.kind}", f"      time_s: {_number(p.time_s)}", f"      speedup: {_number(p.speedup)}")
        yield f"      report: {_file(p.report)}"
        if turn.measured:
            yield "    measured:"
            yield from (f"      {line}" for line in _measured_lines(turn.measured))


def _measured_lines(found: MeasuredTurn) -> Iterator[str]:
    yield f"time_s: {_number(found.time_s)}"
    yield f"source: {_text(found.source)}"
    if found.report:
        yield f"report: {_file(found.report)}"
    if found.speedup is not None:
        yield f"speedup: {_number(found.speedup)}"
    yield f"verdict: {found.verdict}"
    if found.rows:
        yield "rows: {" + ", ".join(f"{_text(name)}: {count}" for name, count in found.rows.items()) + "}"


def _file(found: File) -> str:
    return "{path: " + _text(found.path) + f", sha256: {_text(found.sha256)}" + "}"


def _words(found: tuple[str, ...]) -> str:
    return "[" + ", ".join(map(_text, found)) + "]"


def _text(value: str) -> str:
    """Text in double quotes, whose escapes JSON and YAML share."""
    return json.dumps(value)


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))


def refused(node: Node, message: str) -> InputError:
    """A mistake that shows only when the log is used."""
    return InputError([node.problem(message)])
