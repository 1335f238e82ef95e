"""``roofline fit``: parameters of the estimates from measured tables, written as a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import deliver, note, render, reported, settings

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.fit.fitting import Fitting


@reported
def command(
    tables: Annotated[list[str], typer.Argument(help="Measured tables (.csv), as for 'roofline validate'.")],
    hardware: Annotated[str, typer.Option("-H", "--hardware", help="Profile of the device that they were measured on.")],
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="File of the profile; under the profile's own name it is a copy with the sets.")
    ] = None,
    from_prior: Annotated[bool, typer.Option("--from-prior", help="Start from the profile's own parameters, or its priors.")] = False,
    execution: Annotated[str | None, typer.Option("--execution", help="compiled, graph or engine; as each table says, else graph.")] = None,
) -> None:
    """Fit the parameters that the tables' kernels ask for, on 60 % of the rows; judge them on the others.

    The result extends the profile that -H names, or is a copy of it where the file has its name. Each set carries its source,
    date, rows, and the band that 90 % of the rows fell into that were not fitted. Needs scipy.

    Example: roofline fit gemm.csv attention.csv -H h100-sxm -o my-h100.yaml
    """
    import time

    from roofline.errors import GateFailedError, UsageError, did_you_mean
    from roofline.fit.fitting import fit
    from roofline.fit.tables import read_tables
    from roofline.fit.write import fitted_profile
    from roofline.ops.launched import EXECUTIONS
    from roofline.spec.hardware import load_hardware

    if execution is not None and execution not in EXECUTIONS:
        raise UsageError(f"unknown execution '{execution}'; {did_you_mean(execution, EXECUTIONS)}")
    device = load_hardware(hardware)
    read = read_tables(tables, execution=execution)
    found = fit([row for table in read for row in table.rows], device, from_prior=from_prior)
    if not found.sets:
        reasons = "".join(f"\n{name}: {why}" for name, why in found.skipped.items())
        raise GateFailedError(f"nothing could be fitted{reasons}")
    deliver(fitted_profile(device, found.sets, read, output, time.strftime("%Y-%m-%d")), output)
    if output not in (None, "-"):
        _show(found)
    elif not settings.quiet:
        for name, why in found.skipped.items():
            note(f"not fitted: {name}: {why}")


def _show(found: Fitting) -> None:
    """Each set with its rows and errors, and what was left out, on stdout."""
    from roofline.report.columns import Column
    from roofline.report.text import print_columns, styled

    sets = found.sets

    def draw(screen: Console) -> None:
        columns = [
            Column("parameters", tuple(s.name for s in sets), right=False),
            Column("rows", tuple(str(s.rows) for s in sets)),
            Column("error", tuple(f"{s.error:.1%}" for s in sets)),
            Column("held out", tuple(str(s.held) for s in sets)),
            Column("error", tuple("-" if s.held_error is None else f"{s.held_error:.1%}" for s in sets)),
            Column("begun from", tuple(s.belief for s in sets), right=False, priority=1),
        ]
        print_columns(columns, screen)
        for name, why in found.skipped.items():
            screen.print(styled(f"not fitted: {name}: {why}"))

    render(draw, None)
