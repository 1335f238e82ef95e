"""``roofline hardware``: profiles listed, shown with their ridge points, and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported

if TYPE_CHECKING:
    from roofline.report.columns import Column

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Hardware profiles: list, show NAME, compare A B.")
FORMATS = ("table", "json")
Format = Annotated[str | None, typer.Option("--format", help="table or json.")]
Output = Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")]


@app.command("list")
@reported
def list_(format_: Format = None, output: Output = None) -> None:
    """All profiles that can be found, with their main figures."""
    from roofline.report.hardware_view import summaries, summary_columns
    from roofline.spec.find import hardware_names
    from roofline.spec.hardware import load_hardware

    found = summaries([load_hardware(name) for name in hardware_names()])
    _deliver(found, lambda: [summary_columns(found)], chosen_format(format_, output, FORMATS), output)


@app.command("show")
@reported
def show(
    name: Annotated[str, typer.Argument(help="Profile name or file.")],
    dtype: Annotated[str | None, typer.Option("--dtype", help="Only this number format.")] = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """Every figure with its source, and the ridge points of each dtype at each level.

    Example: roofline hardware show h100-sxm --dtype bf16
    """
    from roofline.report.hardware_view import ceiling_columns, details, figure_columns, ridge_columns, ridge_lines, set_columns
    from roofline.spec.fitted import complete
    from roofline.spec.hardware import load_hardware

    hardware = load_hardware(name)
    complete(hardware.fitted, hardware.priors)
    chosen = chosen_format(format_, output, FORMATS)
    if chosen == "json":
        _deliver(details(hardware, dtype), list, chosen, output)
        return
    tables = [figure_columns(hardware), ridge_columns(hardware, dtype)]
    if hardware.measured:
        tables.append(ceiling_columns(hardware))
    if hardware.fitted or hardware.priors:
        tables.append(set_columns(hardware))
    _deliver(None, lambda: tables, chosen, output, f"{hardware.name}: {hardware.product}", ridge_lines(hardware, dtype))


@app.command("compare")
@reported
def compare(
    names: Annotated[list[str], typer.Argument(help="Two or more profiles.")],
    format_: Format = None,
    output: Output = None,
) -> None:
    """Profiles side by side: rates, ridge points, and the ratio to the first.

    Example: roofline hardware compare h100-sxm h200-sxm
    """
    from roofline.errors import UsageError
    from roofline.report.hardware_view import comparison, comparison_columns
    from roofline.spec.hardware import load_hardware

    if len(names) < 2:
        raise UsageError("compare takes two or more profiles")
    found = comparison([load_hardware(name) for name in names])
    _deliver(found, lambda: [comparison_columns(found)], chosen_format(format_, output, FORMATS), output)


def _deliver(
    data: object, tables: object, chosen: str, output: str | None, title: str | None = None, lines: list[str] | None = None
) -> None:
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(data), output)
        return
    from rich.console import Console

    from roofline.report.text import print_columns, styled

    def draw(console: Console) -> None:
        if title:
            console.print(styled(title, "bold"))
        found: list[list[Column]] = tables()  # type: ignore[operator]
        for i, columns in enumerate(found):
            if i:
                console.print()
            print_columns(columns, console)
        for line in lines or []:
            console.print(styled(line))

    render(draw, output)
