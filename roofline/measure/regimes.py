"""Times of the kernels that an estimator is fitted to (`roofline.measure.calibration_shapes`), as tables.

Written as one CSV an operator, with the columns of published tables: the operator's fields,
``time_us`` (a call in a captured graph over inputs larger than L2), ``sm_mhz``, ``watt``; and the interval and the regime.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.errors import RooflineError
from roofline.measure.base import Device, Procedure
from roofline.measure.calibration_shapes import Regime
from roofline.report.model import MeasuredResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What a case took, None with a status where it could not be measured."""

    case: Regime
    result: MeasuredResult | None
    why: str = ""


def procedure_for(kind: str) -> Procedure:
    """Shorter than a measurement of one kernel, there being many, and back to back: a model's kernels have no rests between them."""
    cuda = kind != "cpu"
    return Procedure(
        cache="cold",
        launch="graph" if cuda else "eager",
        mode="sustained",
        warmup_s=0.1,
        fewest_samples=12,
        shortest_s=0.1,
        longest_s=0.3 if cuda else 0.8,
        width=0.01,
        blocks=3,
        caches=1.0,
        most_sets=32,
        retries=0 if cuda else 1,
    )


def time_cases(
    cases: Sequence[Regime], device: Device, procedure: Procedure, *, progress: Callable[[int, int, str], None] = lambda i, n, label: None
) -> list[Timed]:
    """Every case that can run here. Ctrl-C ends the list early; what is complete is kept and the rest is named.

    Each is compared with a float64 reference before and after, as by ``roofline measure``.
    """
    found: list[Timed] = []
    for number, case in enumerate(cases, 1):
        progress(number, len(cases), case.label)
        try:
            found.append(_timed(case, device, procedure))
        except KeyboardInterrupt:
            return found + [Timed(case=c, result=None, why="interrupted before it was measured") for c in cases[number - 1 :]]
        except Exception as err:  # one kernel must not end the run
            from roofline.measure.ceilings.base import reason

            found.append(Timed(case=case, result=None, why=reason(err)))
    return found


def _timed(case: Regime, device: Device, procedure: Procedure) -> Timed:
    from roofline.measure.registry import find
    from roofline.measure.run import Case, measure_op
    from roofline.ops.registry import OPERATORS

    spec = find(case.kernel)
    op = OPERATORS[spec.op](**{**spec.fields, **case.fields})
    result = measure_op(Case(id=case.label, spec=spec, op=op, direction=case.direction), device, procedure)
    if result.status == "interrupted":
        raise KeyboardInterrupt
    if result.status not in ("ok", "throttled"):
        raise RooflineError("; ".join((result.status, *result.notes)))
    return Timed(case=case, result=result)


# --------------------------------------------------------------------------- tables
def tables(found: Sequence[Timed], provenance: Sequence[str]) -> dict[str, str]:
    """CSV text by operator; what could not be measured is a comment above the rows."""
    from roofline.measure.registry import find

    by_op: dict[str, list[Timed]] = {}
    for timed in found:
        by_op.setdefault(find(timed.case.kernel).op, []).append(timed)
    return {op: _table(op, timed, provenance) for op, timed in by_op.items()}


def _table(op: str, found: Sequence[Timed], provenance: Sequence[str]) -> str:
    passes = op == "attention" or any(t.case.direction != "forward" for t in found)
    rows = [_row(op, t.case, t.result, passes) for t in found if t.result is not None]
    missing = [f"absent: {t.case.label}: {t.why}" for t in found if t.result is None]
    stream = io.StringIO()
    for line in (*provenance, *missing):
        stream.write(f"# {' '.join(line.split())}\n")
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return stream.getvalue()


def _row(op: str, case: Regime, result: MeasuredResult, passes: bool) -> dict[str, Any]:
    low, high = result.interval_s or (None, None)
    named = "flash" if case.kernel == "decode" else case.kernel
    attention = {"implementation": named, "scale_pass": case.fields.get("scale_pass", False)}
    fields = {k: v for k, v in case.fields.items() if k not in ("dtype", "scale_pass")}
    return {
        **fields,
        **({"pass": case.direction} if passes else {}),
        **(attention if op == "attention" else {}),
        "dtype": case.fields["dtype"],
        "time_us": _us(result.time_s),
        "eager_us": "",
        "sm_mhz": _plain(result.clocks.get("sm_mhz_median")),
        "watt": _plain(result.clocks.get("power_w_max")),
        "low_us": _us(low),
        "high_us": _us(high),
        "status": result.status,
        "regime": case.regime,
    }


def _us(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.4f}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def write_tables(folder: str, found: Sequence[Timed], provenance: Sequence[str]) -> list[str]:
    """One file an operator under the folder, each whole or not at all; the paths written.

    Raises:
        RooflineError: the folder or a file cannot be written.
    """
    from roofline.report.store import write_folder

    return write_folder(folder, {f"{name}.csv": text for name, text in tables(found, provenance).items()})
