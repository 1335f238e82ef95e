"""``roofline schema``: JSON Schema of the file formats, from the definitions that read them."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.outcome import deliver, reported


@reported
def command(
    what: Annotated[str, typer.Argument(help="hardware, cluster, workload, dataflow, report or accuracy.")],
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Print the JSON Schema of hardware profiles, workloads, reports, or of what 'validate' says of measured tables.

    Example: roofline schema workload -o workload.schema.json
    """
    from roofline.report.published import SCHEMAS, schema_of
    from roofline.report.store import to_json

    if what not in SCHEMAS:
        from roofline.errors import UsageError

        raise UsageError(f"unknown schema '{what}'; known: {', '.join(SCHEMAS)}")
    deliver(to_json(schema_of(what)), output)
