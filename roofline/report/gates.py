"""Rules that fail a diff: ``total.bound.time_s>+2%``, ``row.limiter-changed``, ``missing``.

A rule is a path and a limit on its change, or a word. ``row`` as the first part means every row. A bare ``5%`` is the
total time of the first line. Relative limits end in ``%``; others are differences in the unit of the quantity.

Of measured times only the verdict *worse* fails ``regression``: noise, a better time and a lower clock do not. What may
hide a regression fails ``unclear``. A rule that found nothing to compare fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from roofline.errors import UsageError, did_you_mean
from roofline.report.diff import Diff, signed
from roofline.report.measured import DECIDED, USABLE
from roofline.report.model import Report
from roofline.report.paths import lookup
from roofline.spec.limits import limit

WORDS = {
    "regression": "a measured time is worse",
    "unclear": "a measured row is neither better, worse nor the same",
    "missing": "a row of the base, or its measurement, is not in the head",
    "added": "a row of the head is not in the base",
    "changed": "a predicted quantity of any row changed",
    "profile-changed": "a figure of the hardware profile changed, or a parameter of its estimates",
}
STRICT = ("regression", "unclear")
"""What ``--strict`` adds."""
LIMITER_CHANGED = "limiter-changed"
_RULE = re.compile(r"\s*([A-Za-z0-9_./-]+?)\s*([<>])\s*([+-])\s*([^\s].*?)\s*")
_PERCENT = re.compile(r"\s*\+?([0-9.]+)\s*%\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A rule and what it found."""

    rule: str
    held: bool
    found: tuple[str, ...]


def judge(rules: list[str], found: Diff, base: Report, head: Report) -> tuple[Gate, ...]:
    """Every rule against the comparison.

    Raises:
        UsageError: a rule that is not one.
    """
    return tuple(_judge(rule, found, base, head) for rule in rules)


def _judge(rule: str, found: Diff, base: Report, head: Report) -> Gate:
    violations = tuple(_violations(rule, found, base, head))
    return Gate(rule=rule, held=not violations, found=violations)


def _violations(rule: str, found: Diff, base: Report, head: Report) -> Iterator[str]:
    bare = _PERCENT.fullmatch(rule)
    if bare:
        yield from _total(float(bare.group(1)) / 100, found)
    elif rule in WORDS:
        yield from _word(rule, found, base, head)
    elif rule.endswith(f".{LIMITER_CHANGED}"):
        yield from _limiter(rule.removesuffix(f".{LIMITER_CHANGED}"), found)
    else:
        match = _RULE.fullmatch(rule)
        if match is None:
            raise UsageError(
                f"--fail-on '{rule}' is not a rule: write PATH>+LIMIT such as 'total.bound.time_s>+2%', 'ROW.{LIMITER_CHANGED}', "
                f"a percentage, or one of {', '.join(WORDS)}; {did_you_mean(rule, list(WORDS))}"
            )
        yield from _limit(rule, match, found, base, head)


def _total(allowed: float, found: Diff) -> Iterator[str]:
    """The total that the first line shows: measured where both sides were, else the bound."""
    if found.total_time_ratio is None:
        yield "the total time has no value to compare"
    elif found.total_time_ratio > 1 + allowed:
        yield f"total time {signed(found.total_time_ratio)}"


def _word(word: str, found: Diff, base: Report, head: Report) -> Iterator[str]:
    if word in STRICT:
        yield from _measured(word, found)
    elif word == "missing":
        yield from (f"{i} is missing" for i in found.removed)
        yield from _unmeasured(base, head)
    elif word == "added":
        yield from (f"{i} is new" for i in found.added)
    elif word == "changed":
        yield from (f"{r.id}: {r.explanation}" for r in found.rows if r.status == "changed")
    else:
        yield from (c for c in found.context if c.startswith(("profile", "hardware", "parameters")))


def _measured(word: str, found: Diff) -> Iterator[str]:
    rows = [(r.id, r.measured) for r in found.rows if r.measured]
    if not any(m.low is not None for _, m in rows):
        yield "no row was measured with samples on both sides under the same conditions"
    for name, m in rows:
        if m.verdict == "worse" if word == "regression" else m.verdict not in DECIDED:
            yield f"{name}: {signed(m.ratio)}, {m.reason}" if m.ratio is not None else f"{name}: {m.verdict}, {m.reason}"


def _unmeasured(base: Report, head: Report) -> Iterator[str]:
    for old in base.rows:
        new = head.row(old.id)
        if new and old.measured and old.measured.status in USABLE and not (new.measured and new.measured.status in USABLE):
            yield f"{old.id} was measured, and {'is ' + new.measured.status if new.measured else 'is not'} now"


def _limiter(name: str, found: Diff) -> Iterator[str]:
    if name == "total":
        if found.limiter_base != found.limiter_head:
            yield f"total: {found.limiter_base} -> {found.limiter_head}"
        return
    ids = [r.id for r in found.rows]
    if name != "row" and name not in ids and name not in found.removed:
        raise UsageError(f"--fail-on: no compared row is called '{name}'; {did_you_mean(name, [*ids, 'row', 'total'])}")
    if name in found.removed:
        yield f"{name} is missing"
    for row in found.rows:
        if name in ("row", row.id) and row.limiter_base != row.limiter_head:
            yield f"{row.id}: {row.limiter_base} -> {row.limiter_head}"


def _limit(rule: str, match: re.Match[str], found: Diff, base: Report, head: Report) -> Iterator[str]:
    path, direction, sign, text = match.groups()
    name, _, rest = path.partition(".")
    allowed = limit(path, text)
    if allowed is None or not rest:
        raise UsageError(f"--fail-on '{rule}': '{text}' is not a limit for {path}; write a percentage, or a number with its unit")
    relative = text.rstrip().endswith("%")
    signed_limit = allowed if sign == "+" else -allowed
    if name in found.removed:
        yield f"{name} is missing, so {rest} was not compared"
        return
    compared = 0
    for subject in [r.id for r in found.rows] if name == "row" else [name]:
        old, new = lookup(base, f"{subject}.{rest}"), lookup(head, f"{subject}.{rest}")
        change = _change(old, new, relative, f"{subject}.{rest}")
        if change is None:
            # A gate that could not compare anything must not pass as if it had; nor may a row that lost its value.
            if name != "row" or old is not None:
                yield f"{subject}.{rest} has no value to compare"
            continue
        compared += 1
        if change > signed_limit if direction == ">" else change < signed_limit:
            yield f"{subject}.{rest}: {old:.6g} -> {new:.6g} ({signed(new / old) if old else 'from 0'})"
    if name == "row" and not compared:
        yield f"no row has {rest} on both sides"


def _change(old: object, new: object, relative: bool, path: str) -> float | None:
    for value in (old, new):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise UsageError(f"--fail-on: {path} is not a number")
    if not isinstance(old, (int, float)) or not isinstance(new, (int, float)):
        return None
    if not relative:
        return float(new - old)
    if old == 0:
        return 0.0 if new == 0 else float("inf")
    return float(new / old - 1)
