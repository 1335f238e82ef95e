"""What holds for every operator, whoever adds it: counts that mean something, arrays that agree, keys that are checked."""

from __future__ import annotations

from dataclasses import asdict, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.hardware.profile import LEVELS
from roofline.numeric import is_array
from roofline.ops import OPERATORS
from roofline.ops.base import Machine, Op, Work, work_of
from roofline.ops.registry import MODULES
from roofline.predict.bound import bound, machine_of
from roofline.spec.hardware import load_hardware
from roofline.spec.workload import one_step, operator_record
from tests.contracts.examples import EXAMPLES, GROWS_WITH, examples, op_of

ALL = examples()
H100 = load_hardware("h100-sxm")
KINDS = {"dim", "choice", "flag", "dtype", "probability", "amount", "word"}
every_operator = pytest.mark.parametrize("name", list(OPERATORS))
every_example = pytest.mark.parametrize("op", [op for _, op in ALL], ids=[name for name, _ in ALL])


def words(name: str) -> list[str]:
    """The first example of an operator as on a command line."""
    cls = OPERATORS[name]
    units = {f.name: f.metadata.get("unit") for f in fields(cls)}
    values = {"dtype": "bf16", **EXAMPLES[name][0]}
    return [f"{k}={str(v).lower() if isinstance(v, bool) else v}{' ' + units[k] if units[k] else ''}" for k, v in values.items()]


# --------------------------------------------------------------------------- declarations
def test_every_operator_has_examples():
    """A new operator comes with a line in the table of examples."""
    assert list(EXAMPLES) == list(GROWS_WITH) == list(MODULES) == list(OPERATORS)


@every_operator
def test_the_table_of_modules_is_right(name):
    """An operator is found where the registry looks for it, under its own name."""
    cls = OPERATORS[name]
    assert (cls.name, cls.__module__) == (name, f"roofline.ops.{MODULES[name]}")


@every_operator
def test_every_operator_says_what_it_is(name):
    """Title, family, formula and source fill the docs and `operators show`."""
    cls = OPERATORS[name]
    assert all((cls.title, cls.family, cls.formula, cls.source))
    assert all(d.__doc__ for d in (cls, cls.tensors, cls.counts))


@every_operator
def test_every_field_has_a_doc_and_a_kind(name):
    """A field is a YAML key, so that it says what it means and how it is read."""
    for field in fields(OPERATORS[name]):
        assert field.metadata["kind"] in KINDS
        assert len(field.metadata["doc"]) > 3
        assert field.name != "dtype" or field.metadata["kind"] == "dtype"


@every_operator
def test_the_example_is_read_from_text(name):
    """What a person writes gives the operator that the code gives."""
    assert one_step(name, words(name)).steps[0].op == op_of(name, EXAMPLES[name][0])


@every_operator
def test_an_unknown_key_is_refused(name):
    """A misspelt key is an error with the place, never ignored."""
    with pytest.raises(InputError, match=r"unknown key 'dtpye' in .*; did you mean 'dtype'"):
        one_step(name, [*words(name), "dtpye=bf16"])


@every_operator
def test_a_missing_key_is_named(name):
    """Leaving out a required key names it."""
    required = [k.name for k in operator_record(OPERATORS[name]).keys if k.required and k.name != "op"]
    for key in required:
        with pytest.raises(InputError, match=f"lacks '{key}'"):
            one_step(name, [w for w in words(name) if not w.startswith(f"{key}=")])


# --------------------------------------------------------------------------- arrays
@every_example
def test_arrays_give_the_bits_of_scalars(op, same_in_arrays):
    """A sweep is the same formula, so that work and bytes agree bit for bit."""
    same_in_arrays(op, integers=False)


@every_example
def test_the_bound_of_arrays_has_the_bits_of_scalars(op, in_arrays):
    """Seconds per resource, the time and the limiter."""
    one, many = (bound(work_of(o, machine_of(H100)), H100, "cached") for o in (op, in_arrays(op)))
    assert list(one.per_resource_s) == list(many.per_resource_s)
    for name, value in {**one.per_resource_s, "time": one.time_s, "sum": one.no_overlap_s}.items():
        other = {**many.per_resource_s, "time": many.time_s, "sum": many.no_overlap_s}[name]
        assert np.float64(value).tobytes() == np.broadcast_to(np.asarray(other, dtype=np.float64), (2,))[1].tobytes(), name
    if one.limiter is not None and is_array(many.time_s):
        assert many.limiter[1] == one.limiter


@every_example
def test_counts_of_whole_numbers_are_whole_numbers(op):
    """FLOP and compulsory bytes print exactly, however large."""
    work = work_of(op, machine_of(H100))
    numbers = [*asdict(work.counts).values(), *asdict(work.compulsory).values(), work.useful_flop, work.extra_memory_bytes]
    assert all(isinstance(n, int) for n in numbers)


# --------------------------------------------------------------------------- order
@every_example
def test_tiled_is_at_least_compulsory(op):
    """Re-reads only add, at every level that the compulsory count speaks of."""
    for work in all_work(op):
        for level in LEVELS:
            once, tiled = getattr(work.compulsory, level), getattr(work.tiled, level)
            assert once <= tiled or not (once and tiled), level


@every_example
def test_a_cache_only_takes_bytes_away(op):
    """HBM bytes through L2 are at most those without it, and useful FLOP at most those executed."""
    for work in all_work(op):
        assert work.cached.hbm <= work.tiled.hbm
        assert work.useful_flop <= work.counts.tensor


@every_example
@pytest.mark.parametrize("traffic", ["compulsory", "tiled", "cached"])
def test_full_overlap_is_at_most_no_overlap(op, traffic):
    """The largest of the times is at most their sum, and removing the limiter makes nothing slower."""
    for work in all_work(op):
        found = bound(work, H100, traffic)
        assert 0 <= found.time_s <= found.no_overlap_s
        assert found.limiter is None or found.without(found.limiter) <= found.time_s


@every_operator
def test_twice_the_batch_is_twice_the_arithmetic(name):
    """Along the dimension of independent items, FLOP double exactly."""
    dim = GROWS_WITH[name]
    for values in EXAMPLES[name] if dim else ():
        if dim not in values:
            continue
        once, twice = op_of(name, values).counts(), op_of(name, {**values, dim: 2 * values[dim]}).counts()
        assert twice == once + once


def test_twice_the_given_totals_is_twice_the_work():
    """`custom` grows with what it is told."""
    values = EXAMPLES["custom"][0]
    once, twice = (work_of(op_of("custom", {k: n * v for k, v in values.items()}), None) for n in (1, 2))
    assert twice.counts == once.counts + once.counts
    assert twice.compulsory == once.compulsory + once.compulsory


# --------------------------------------------------------------------------- backward
@every_example
def test_backward_operators_move_bytes(op):
    """No backward pass is free, and each is an operator that counts like any other."""
    for back in op.backward():
        assert work_of(back, machine_of(H100)).compulsory.hbm + sum(back.link_bytes().values()) > 0


@every_example
def test_what_is_saved_exists(op):
    """Saved tensors are inputs, outputs, intermediates, or statistics of a row, which are small."""
    known = {t.name: t.elements for p in op.passes() for t in (*p.reads, *p.writes)} | {t.name: t.elements for t in op.tensors()}
    largest = max(known.values(), default=0)
    for tensor in op.saved():
        assert tensor.bytes > 0
        assert known.get(tensor.name) == tensor.elements or (tensor.name in STATISTICS and 10 * tensor.elements <= largest), tensor.name


STATISTICS = {"mean", "rstd", "lse", "log_sum", "index"}
"""What a kernel keeps for each row without writing it in the count of its forward bytes."""


@every_example
def test_what_is_saved_is_read_by_the_backward_pass(op):
    """Memory is not kept for nothing."""
    read = {t.name for back in op.backward() for p in back.passes() for t in p.reads}
    products = {"gemm", "batched_gemm", "grouped_gemm", "monarch", "m2"}  # gradients are products whose operands have own names
    assert op.name in products or not op.backward() or {t.name for t in op.saved()} - {"lse", "o"} <= read


# --------------------------------------------------------------------------- any dimensions
@settings(max_examples=25, deadline=None)
@given(data=st.data())
@every_operator
def test_counts_are_never_negative(name, data):
    """Whatever the dimensions, as long as the operator accepts them."""
    values = data.draw(st.sampled_from(EXAMPLES[name]))
    dims = {f.name: f.metadata["minimum"] for f in fields(OPERATORS[name]) if f.metadata["kind"] == "dim"}
    drawn = {k: data.draw(st.integers(dims[k], 10**5), label=k) for k in values if k in dims}
    op = op_of(name, {**values, **drawn})
    if op.check() is not None:
        return
    for work in all_work(op):
        groups = (work.counts, work.compulsory, work.tiled, work.cached)
        assert all(n >= 0 for g in groups for n in asdict(g).values())
        assert work.cached.hbm <= work.tiled.hbm * (1 + 4e-16)  # a count beyond 2^53 that is a float is rounded, one that is not is exact
        assert min([work.useful_flop, work.extra_memory_bytes, work.kernels, *work.link_bytes.values()]) >= 0
        assert bound(work, H100).time_s >= 0


def all_work(op: Op) -> list[Work]:
    """Of the operator and of each operator of its backward pass, on an H100."""
    machine: Machine | None = machine_of(H100)
    return [work_of(o, machine) for o in (op, *op.backward())]
