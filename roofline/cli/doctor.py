"""``roofline doctor``: what is here for measuring, what is missing, and the exact fix."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, reported


@reported
def command(
    format_: Annotated[str | None, typer.Option("--format", help="text or json.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Python, torch, CUDA, driver, GPUs and their state, and the profile of each device; the fix for what is missing.

    Exit code 0 whenever it could look, whatever it found.

    Example: roofline doctor --format json
    """
    from roofline.measure.doctor import examine

    chosen = chosen_format(format_, output, ("text", "json"))
    findings = examine()
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json({"schema": 1, "findings": findings}), output)
        return
    from roofline.errors import visible

    width = max(len(f.name) for f in findings)
    lines = []
    for f in findings:
        lines.append(visible(f"{f.state:<7} {f.name:<{width}}  {f.text}"))
        if f.fix:
            lines.append(visible(f"{'':<7} {'':<{width}}  -> {f.fix}"))
    deliver("\n".join(lines) + "\n", output)
