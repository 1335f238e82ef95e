"""Reading traces: any layout, any size of pieces, gzip or not; damaged, hostile and empty files are refused with the place."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.ingest import trace_bytes, trace_decode, trace_text
from roofline.ingest.trace_bytes import TraceBytes
from roofline.ingest.trace_decode import decoder
from roofline.ingest.trace_events import Trace, read_trace
from roofline.ingest.trace_text import Ended, TraceText
from tests.ingest.traces import Made, product, tensor

LIBRARIES = ["json", *(["msgspec"] if importlib.util.find_spec("msgspec") else [])]
OTHER = '"a \\"}, {\\" in a text"'


def small(**metadata: Any) -> Made:
    """Two products and a copy, with lists of objects and braces in texts where a reader may stumble."""
    made = Made(**metadata)
    product(made, 8, 16, 32, 100.0, note="}, {", inner=[{"a": 1}, {"b": [{"c": 2}, {"d": 3}]}])
    product(made, 8, 16, 32, 200.0, note=']}, {"ph": "X"')
    made.kernel("Memcpy HtoD", 300.0, 2.0, launched=290.0, cat="gpu_memcpy", bytes=4096)
    return made


def columns(trace: Trace) -> list[Any]:
    """All that was kept."""
    spans = (trace.gpu, trace.operators, trace.runtime, trace.annotations)
    texts = [[trace.words.texts[n] for n in s.name] for s in spans]
    numbers = [[list(getattr(s, c)) for c in ("start", "length", "lane", "correlation", "external", "extra")] for s in spans]
    shapes = [trace.signatures[i].parsed() for i in trace.operators.detail]
    return [texts, numbers, shapes, trace.gpu_kind, trace.lanes, trace.messages, trace.events]


def read(folder: Path, text: str | bytes, **how: Any) -> Trace:
    """The trace in a file of that text."""
    path = folder / "t.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_trace(str(path), **how)


def refused(folder: Path, text: str | bytes, **how: Any) -> str:
    """The message with which a text is refused."""
    with pytest.raises(InputError) as found:
        read(folder, text, **how)
    return str(found.value)


# --------------------------------------------------------------------------- layouts
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", [{}, {"indent": 1}, {"separators": (",", ":")}], ids=["plain", "pretty", "dense"])
def test_layouts_are_one_trace(tmp_path: Path, library: str, how: dict[str, Any]) -> None:
    """An object or a list, pretty or dense, one event a line, packed in one or several members: the same events."""
    made = small(deviceProperties=[{"id": 0, "name": "X"}], tail={"x": [{"y": 1}, {"z": 2}]})
    wanted = columns(read(tmp_path, made.text(), library="json"))
    lines = "[\n" + ",\n".join(json.dumps(e) for e in made.events) + "\n]\n"
    body = made.text(**how)
    moved = json.dumps({"traceEvents": made.events, "deviceProperties": [{"a": 1}, {"b": 2}], "z": [{}, {}]}, **how)
    packed = gzip.compress(body[:99].encode()) + gzip.compress(body[99:].encode())
    for text in (body, lines, json.dumps(made.events, **how), moved, "\ufeff" + body, gzip.compress(body.encode()), packed):
        assert columns(read(tmp_path, text, library=library)) == wanted


@pytest.mark.parametrize("library", LIBRARIES)
@given(size=st.integers(1, 300))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_size_of_pieces_does_not_matter(monkeypatch: pytest.MonkeyPatch, library: str, size: int) -> None:
    """Chunks that end anywhere, in texts and escapes too, give the events that the standard library finds."""
    text = (
        small(host=OTHER, version=1234567, is_real=True, ratio=-1.5e-9, nothing=None, environment={"A": "}, {", "B": ["]", {"c": "\\"}]})
        .text(indent=1)
        .encode()
    )
    monkeypatch.setattr(trace_text, "PIECE", size)
    chunks = (text[i : i + size] for i in range(0, len(text), size))
    reader = TraceText(chunks, "t", decoder(library))
    names = [e.name for batch in reader.batches() for e in batch]
    assert names == [e["name"] for e in json.loads(text)["traceEvents"]]


@pytest.mark.skipif("msgspec" not in LIBRARIES, reason="msgspec is not installed")
def test_both_decoders_keep_the_same() -> None:
    """Of a real trace."""
    path = str(Path(__file__).parent.parent / "data/traces/mi300x_norm_layers_fwd_bwd.pt.trace.json.gz")
    assert columns(read_trace(path, library="json")) == columns(read_trace(path, library="msgspec"))


# --------------------------------------------------------------------------- damage
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_truncation_is_refused_and_what_is_whole_can_be_had(tmp_path: Path, library: str) -> None:
    """Cut anywhere, the file is no trace; with --partial all events before the cut are there."""
    made = small(number=17, word=True)
    text = made.text()
    starts = [text.index(json.dumps(e)) + len(json.dumps(e)) for e in made.events]
    for cut in (*range(1, 60), *range(60, len(text), 23)):
        said = refused(tmp_path, text[:cut], library=library)
        whole = sum(end <= cut for end in starts)
        assert "truncated" in said
        assert f"after {whole} whole events" in said
        part = read(tmp_path, text[:cut], partial=True, library=library)
        assert part.events == whole
        assert part.partial is not None


def test_a_packed_trace_that_was_cut_or_hurt(tmp_path: Path) -> None:
    """How many events could be read is said, and why no more."""
    noise = [{"ph": "X", "cat": "python_function", "name": str(hash((i, i))), "ts": i, "dur": 1, "pid": i, "tid": 1} for i in range(5000)]
    packed = gzip.compress(json.dumps({"traceEvents": noise}).encode())
    assert "the gzip stream ends early" in refused(tmp_path, packed[: len(packed) // 2])
    hurt = bytearray(packed)
    hurt[len(packed) // 2] ^= 0xFF
    hurt[len(packed) // 2 + 1] ^= 0xFF
    assert "t.json" in refused(tmp_path, bytes(hurt))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("  \n ", "the file is empty"),
        ("null", "expected '[' or '{'"),
        ("{}", "no 'traceEvents'"),
        ('{"a": 1}', "no 'traceEvents'"),
        ('{"traceEvents": 3}', "'traceEvents' is not a list"),
        ('{"traceEvents": [1, 2]}', "an event is not an object"),
        ('{"traceEvents": [{"ph": "X",}]}', "not JSON"),
        ('{"traceEvents": [{"ph": "X"} {"ph": "X"}]}', "not JSON"),
        ('{"traceEvents": [{"ph": "X"},]}', "not JSON"),
        ('{"traceEvents": [{"ph": "X"}}]}', "closes nothing"),
        ('{"traceEvents": [{"ph": "X", "name": 3}]}', "unexpected sort"),
        ('{"traceEvents": [{"ph": "X", "ts": "now"}]}', "unexpected sort"),
        ('{"traceEvents": [{"ph": "X", "ts": NaN}]}', "not JSON"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "dur": 1}]}', "has no time 'ts'"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": -1}]}', "has no length 'dur'"),
        ('{"traceEvents": []} {"traceEvents": []}', "text after the end"),
        ("{traceEvents: []}", "expected a key in double quotes"),
        ('{"traceEvents" []}', "expected ':'"),
        ('{"a" : , "traceEvents": []}', "expected a value"),
    ],
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_no_trace_is_refused_by_name(tmp_path: Path, library: str, text: str, said: str) -> None:
    assert said in refused(tmp_path, text, library=library)


@pytest.mark.parametrize("library", LIBRARIES)
def test_errors_have_their_place_and_never_the_line(tmp_path: Path, library: str) -> None:
    """Line and column of the mistake; the line itself may hold a secret, so that it is not shown."""
    text = '{\n "host": "secret-token",\n "traceEvents": [\n  {"ph": "X"},\n  {"ph": "X", "secret-token" 3}\n ]\n}'
    found = refused(tmp_path, text, library=library)
    assert ":5:30:" in found
    assert "secret" not in found


def test_missing_files_folders_and_devices(tmp_path: Path) -> None:
    for path in (str(tmp_path / "none.json"), str(tmp_path), "/dev/zero", "a\0b"):
        with pytest.raises(InputError):
            read_trace(path)


# --------------------------------------------------------------------------- hostile files
@pytest.mark.parametrize("library", LIBRARIES)
def test_depth_is_limited(tmp_path: Path, library: str) -> None:
    """In an event and outside, and before any recursion."""
    deep = "[" * 100_000
    for text in (f'{{"a": {deep}', f'{{"traceEvents": [{{"args": {{"x": {deep}'):
        assert "brackets inside one another" in refused(tmp_path, text, library=library)


def test_a_gzip_bomb_is_refused_before_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand bytes for each of its own: refused once it has given more than a small trace holds, and not unpacked whole."""
    monkeypatch.setattr(trace_bytes, "RATIO_FROM", 2**21)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 2**24))
    taken: list[int] = []
    with pytest.raises(InputError, match="more than 200 times its size"):
        taken.extend(len(chunk) for chunk in TraceBytes(str(path)).chunks())
    assert sum(taken) < 2**23


def test_many_tiny_members_do_not_cost_a_copy_each(tmp_path: Path) -> None:
    """A stream of 20 000 members of one byte is joined before it is looked at."""
    path = tmp_path / "tiny.json.gz"
    path.write_bytes(gzip.compress(b"[") + gzip.compress(b" ") * 20_000 + gzip.compress(b"]"))
    chunks = list(TraceBytes(str(path)).chunks())
    assert b"".join(chunks) == b"[" + b" " * 20_000 + b"]"
    assert len(chunks) <= 2


def test_an_endless_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text or an event beyond the limit, within bounded memory."""
    monkeypatch.setattr(trace_text, "LARGEST_EVENT", 1000)
    monkeypatch.setattr(trace_bytes, "CHUNK", 100)
    monkeypatch.setattr(trace_text, "PIECE", 100)
    for text in ('{"a": "' + "x" * 5000, '[{"a": "' + "x" * 5000):
        assert "of more than 1000 bytes" in refused(tmp_path, text)


def test_more_events_than_memory_allows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline.ingest.trace_events.MOST_KEPT", 3)
    assert "record fewer steps" in refused(tmp_path, small().text())


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([1]), st.just({}))


@given(values=st.lists(ANYTHING, min_size=16, max_size=16))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("library", LIBRARIES)
def test_fields_of_any_sort(tmp_path: Path, library: str, values: list[Any]) -> None:
    """Whatever stands where numbers are expected: a trace or a refusal, and the same by both decoders."""
    keys = [*trace_decode.ARGUMENTS.values()][: len(values)]
    made = small()
    for event in made.events[:4]:
        event["args"] = dict(zip(keys, values, strict=False))
        event["pid"], event["tid"] = values[:2]
    text = made.text()
    assert outcome(tmp_path, text, library) == outcome(tmp_path, text, "json")


def outcome(folder: Path, text: str | bytes, library: str) -> Any:
    """What was kept, or that it was refused."""
    try:
        return columns(read(folder, text, library=library))
    except InputError:
        return "refused"


def mutations() -> Iterator[st.SearchStrategy[Any]]:
    """Bytes of a trace changed, dropped, doubled."""
    text = small(host=OTHER).text(indent=1).encode()
    yield st.tuples(st.just(text), st.integers(0, len(text) - 1), st.binary(max_size=3), st.integers(0, 40))


@given(st.one_of(*mutations()))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_traces_are_read_or_refused(tmp_path: Path, case: tuple[bytes, int, bytes, int]) -> None:
    """Never another exception; decoders agree."""
    text, at, put, drop = case
    changed = text[:at] + put + text[at + drop :]
    outcomes = [outcome(tmp_path, changed, library) for library in LIBRARIES]
    assert all(o == outcomes[0] for o in outcomes)


def test_the_guess_of_a_piece_is_proved_and_not_trusted() -> None:
    """A piece that ends inside nested lists does not decode, and is then found by counting brackets."""
    events = [{"ph": "X", "name": str(i), "args": {"l": [{"a": 1}, {"b": 2}]}} for i in range(50)]
    text = json.dumps(events).encode()
    seen = []

    def recorded(piece: bytes) -> list[Any]:
        seen.append(piece)
        return decoder("json")(piece)

    reader = TraceText(iter([text[:500], text[500:]]), "t", recorded)
    assert [e.name for batch in reader.batches() for e in batch] == [str(i) for i in range(50)]


def test_an_end_within_the_events_is_told_from_one_behind_them() -> None:
    reader = TraceText(iter([b'[{"ph": "X"}']), "t", decoder("json"))
    with pytest.raises(Ended):
        list(reader.batches())
    assert reader.events == 1


def test_shapes_are_kept_once(tmp_path: Path) -> None:
    """A thousand calls with equal arguments are one signature."""
    made = Made()
    for i in range(1000):
        made.operator("aten::mm", i * 10.0, 5.0, tensor(8, 8), tensor(8, 8))
    trace = read(tmp_path, made.text())
    assert len(trace.operators) == 1000
    assert len(trace.signatures) == 2
    assert replace(trace.signatures[1], triton=True) != trace.signatures[1]
