"""``roofline kernels``: what can be measured, and what each needs."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, reported


@reported
def command(
    format_: Annotated[str | None, typer.Option("--format", help="table or json.")] = None,
) -> None:
    """List the kernels that `roofline measure` can run, with their operator, dtypes, directions and needs."""
    from roofline.measure.registry import KERNELS, find, names

    specs = [find(name) for name in names()]
    if chosen_format(format_, None, ("table", "json")) == "json":
        from roofline.report.store import to_json

        rows = [
            {"name": s.name, "op": s.op, "title": s.title, "dtypes": s.dtypes, "directions": s.directions, "needs": s.needs,
             "fields": dict(s.fields), "ours": s.name in KERNELS}
            for s in specs
        ]  # fmt: skip
        deliver(to_json(rows), None)
        return
    width = max(len(s.name) for s in specs)
    lines = [f"{s.name:<{width}}  {s.op:<13}  {_details(s.dtypes, s.directions, s.needs)}: {s.title}" for s in specs]
    deliver("\n".join(lines) + "\n", None)


def _details(dtypes: tuple[str, ...], directions: tuple[str, ...], needs: tuple[str, ...]) -> str:
    what = [", ".join(dtypes) or "any dtype", "forward and backward" if "backward" in directions else "forward"]
    return "; ".join([*what, *([f"needs {', '.join(needs)}"] if needs else [])])
