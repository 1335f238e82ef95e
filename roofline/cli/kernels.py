"""``roofline kernels``: what can be measured, and what each needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, reported

if TYPE_CHECKING:
    from roofline.measure.spec import KernelSpec


@reported
def command(
    format_: Annotated[str | None, typer.Option("--format", help="table or json.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """List the kernels that `roofline measure` can run, with their operator, dtypes, directions and needs.

    Example: roofline kernels --format json
    """
    chosen = chosen_format(format_, output, ("table", "json"))
    specs = _specs()
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json([_as_data(s) for s in specs]), output)
        return
    width = max(len(s.name) for s in specs)
    lines = [f"{s.name:<{width}}  {s.op:<13}  {_details(s)}: {s.title}" for s in specs]
    deliver("\n".join(lines) + "\n", output)


def _specs() -> list[KernelSpec]:
    """All that can be loaded; a broken package of somebody's is named and hides no other."""
    from roofline.errors import UsageError
    from roofline.measure.registry import find, names

    found = []
    for name in names():
        try:
            found.append(find(name))
        except UsageError as err:
            note(f"note: {err}")
    return found


def _as_data(spec: KernelSpec) -> dict[str, object]:
    from roofline.measure.collective_catalog import COLLECTIVES
    from roofline.measure.registry import KERNELS

    return {
        "name": spec.name,
        "op": spec.op,
        "title": spec.title,
        "dtypes": spec.dtypes,
        "directions": spec.directions,
        "needs": spec.needs,
        "needs_by_dtype": dict(spec.needs_by_dtype),
        "fields": dict(spec.fields),
        "ours": spec.name in KERNELS or spec.name in COLLECTIVES,
    }


def _details(spec: KernelSpec) -> str:
    what = [", ".join(spec.dtypes) or "any dtype", "forward and backward" if "backward" in spec.directions else "forward"]
    return "; ".join([*what, *([f"needs {', '.join(spec.needs)}"] if spec.needs else [])])
