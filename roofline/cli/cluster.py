"""``roofline cluster``: which clusters are known, and what each of their tiers carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from roofline.report.columns import Column

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Clusters: list, show NAME.")
FORMATS = ("table", "json")
Format = Annotated[str | None, typer.Option("--format", help="table or json.")]
Output = Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")]


@app.command("list")
@reported
def list_(format_: Format = None, output: Output = None) -> None:
    """All clusters that can be found, with their tiers from the node outwards.

    Example: roofline cluster list
    """
    from roofline.report.cluster import cluster_figures, list_columns
    from roofline.spec.cluster import load_cluster
    from roofline.spec.find import cluster_names

    found = tuple(cluster_figures(load_cluster(name)) for name in cluster_names())
    if chosen_format(format_, output, FORMATS) == "json":
        _json(found, output)
        return
    _draw([list_columns(found)], output)


@app.command("show")
@reported
def show(
    name: Annotated[str, typer.Argument(help="Cluster name or file.")],
    format_: Format = None,
    output: Output = None,
) -> None:
    """The device, every tier with bandwidth, latency and topology, and where each figure comes from.

    Example: roofline cluster show dgx-h100
    """
    from roofline.report.cluster import cluster_figures, source_columns, tier_columns
    from roofline.spec.cluster import load_cluster

    found = cluster_figures(load_cluster(name))
    if chosen_format(format_, output, FORMATS) == "json":
        _json(found, output)
        return
    title = f"{found.name}: up to {found.ranks:,} {found.product}, {found.node_ranks} in a node"
    notes = [f"Note: {found.notes}"] if found.notes else []
    _draw([tier_columns(found), source_columns(found)], output, title, notes)


def _json(data: object, output: str | None) -> None:
    from roofline.report.store import to_json

    deliver(to_json(data), output)


def _draw(tables: Sequence[Sequence[Column]], output: str | None, title: str | None = None, lines: Sequence[str] = ()) -> None:
    from roofline.report.text import print_columns, styled

    def draw(console: Console) -> None:
        if title:
            console.print(styled(title, "bold"))
        for i, columns in enumerate(tables):
            if i:
                console.print()
            print_columns(list(columns), console)
        for line in lines:
            console.print(styled(line))

    render(draw, output)
