"""``roofline model``: what a published configuration means in parameters, bytes and FLOP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Models from their published configurations: show CONFIG.")


@app.callback()
def models() -> None:
    """Models from their published configurations."""


@app.command("show")
@reported
def show(
    config: Annotated[str, typer.Argument(help="A Hugging Face config.json; '-' is standard input.")],
    context: Annotated[int, typer.Option("--context", min=1, help="Keys that attention sees, for FLOP a token.")] = 4096,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="Format of cached keys and values.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name the keys that were ignored, and the conventions.")] = False,
    format_: Annotated[str | None, typer.Option("--format", help="table or json.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Parameters in total, active and by part, weight bytes by format, cache bytes and FLOP a token.

    Nothing is fetched and no code of the model is run. An architecture that is not known, or a key that may change it and is
    not understood, is refused by name.

    Example: roofline model show config.json --context 8192
    """
    from roofline.dtypes import cache_dtype
    from roofline.models.count import summary
    from roofline.spec.model import load_model

    if kv_dtype is not None:
        cache_dtype(kv_dtype)
    chosen = chosen_format(format_, output, ("table", "json"))
    model, how, ignored = load_model(config)
    found = summary(model, how, context=context, kv_dtype=kv_dtype, ignored=ignored)
    if verbose and ignored:
        note(f"ignored keys: {', '.join(ignored)}")
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
        return
    from roofline.report.model_view import model_columns, model_lines
    from roofline.report.text import print_columns, styled

    quantised = f", weights {found.quantisation}" if found.quantisation else ""
    lines = model_lines(found) + ([f"{name}: {said}." for name, said in found.conventions.items()] if verbose else [])

    def draw(console: Console) -> None:
        console.print(styled(f"{found.name} ({found.model_type}): {found.layers} layers{quantised}", "bold"))
        for i, columns in enumerate(model_columns(found)):
            if i:
                console.print()
            print_columns(columns, console)
        for line in lines:
            console.print(styled(line))

    render(draw, output)
