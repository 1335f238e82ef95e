"""``roofline import``: models and their kin to ordinary workload files."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.outcome import deliver, note, reported

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Write workload files from other descriptions: hf CONFIG.")


@app.callback()
def imports() -> None:
    """Write workload files from other descriptions."""


@app.command("hf")
@reported
def hf(
    config: Annotated[str, typer.Argument(help="A Hugging Face config.json; '-' is standard input.")],
    phase: Annotated[str, typer.Option("--phase", help="prefill, decode or train.")] = "prefill",
    settings: Annotated[list[str] | None, typer.Option("--set", help="A param: batch=8, seq=2048, context=8192.")] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="Format of cached keys and values.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name the keys that were ignored.")] = False,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """The steps of a model as a workload that 'roofline analyze' takes. Nothing is fetched and no code of the model is run.

    Example: roofline import hf config.json --phase decode --set batch=8 --set context=8192 -o decode.yaml
    """
    from roofline.dtypes import dtype
    from roofline.models.expansion import Expansion
    from roofline.models.write import workload_text
    from roofline.spec.model import load_model

    if kv_dtype is not None:
        dtype(kv_dtype)
    model, how, ignored = load_model(config)
    if verbose and ignored:
        note(f"ignored keys: {', '.join(ignored)}")
    deliver(workload_text(Expansion(model=model, phase=phase, how=how, kv_dtype=kv_dtype), _numbers(settings or [])), output)


def _numbers(words: list[str]) -> dict[str, int]:
    """``name=number`` words, each a whole number from 1."""
    from roofline.errors import UsageError

    found: dict[str, int] = {}
    for word in words:
        name, _, text = word.partition("=")
        if not (text.isascii() and text.isdigit() and 0 < len(text) <= 12) or int(text) < 1:
            raise UsageError(f"'{word}' is not name=number, such as batch=8")
        found[name] = int(text)
    return found
