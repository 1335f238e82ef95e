"""``roofline ingest module``: a module of torch as a workload."""

from __future__ import annotations

import atexit
import gc
from typing import Annotated

import typer

from roofline.cli.outcome import deliver, note, reported, settings


@reported
def module(
    target: Annotated[str, typer.Argument(help="package:function, which returns a module and its inputs.", metavar="PACKAGE:FUNCTION")],
    inputs: Annotated[list[str] | None, typer.Option("--input", help="An input as SHAPE,DTYPE (2x128,int64); repeat.")] = None,
    backward: Annotated[bool, typer.Option("--backward", help="The backward pass as well.")] = False,
    meta: Annotated[bool, typer.Option("--meta", help="Build it on the meta device: no memory for parameters.")] = False,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """The operators of a torch module as a workload that 'roofline analyze' takes. It runs on tensors without contents.

    This imports and runs your code. The function takes nothing and returns the module and what it is called with (a tensor, a tuple, or a
    dict of keyword arguments): def build(): return model, (tokens,). What is not recognised, and how FLOP compare with torch's own
    counter, goes to stderr.

    Examples:

      roofline ingest module mymodel:build -o workload.yaml

      roofline ingest module mymodel:Model --input 8x1024,int64 --meta --backward -o training.yaml
    """
    from roofline.ingest.module import ingest_module, lines

    # Libraries that torch loads complain of objects that are alive at the end, which the command line leaves alive to be quick.
    atexit.unregister(gc.freeze)
    found = ingest_module(target, inputs or [], backward=backward, meta=meta)
    deliver(found.text, output)
    if not settings.quiet:
        for line in lines(found):
            note(line)
