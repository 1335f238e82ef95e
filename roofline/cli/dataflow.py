"""``roofline dataflow``: a tiled kernel as loops and tiles: what it moves, whether it fits, which tiles are best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofline.dataflow.account import Account, Device
    from roofline.dataflow.form import Dataflow
    from roofline.hardware.profile import Hardware

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Dataflows: list, show NAME, compare A B, tune NAME; files in workloads/dataflows."
)
FORMATS = ("table", "json")
Device_ = Annotated[str, typer.Option("-H", "--hardware", help="Profile name or file.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Change a param, a tile or the dtype: key=value.")]
Format = Annotated[str | None, typer.Option("--format", help="table or json.")]
Output = Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")]
SRAM_POINTS_MOST = 64


@app.command("list")
@reported
def list_(format_: Format = None, output: Output = None) -> None:
    """All dataflows that can be found, with what they are."""
    from roofline.spec.dataflow import load_dataflow
    from roofline.spec.find import dataflow_names

    flows = [load_dataflow(name) for name in dataflow_names()]
    if chosen_format(format_, output, FORMATS) == "json":
        rows = [{"name": f.name, "also": list(f.also), "title": f.title, "source": f.source, "params": dict(f.params)} for f in flows]
        _json({"schema": 1, "kind": "dataflows", "dataflows": rows}, output)
        return
    width = max((len(f.name) for f in flows), default=0)
    deliver("".join(f"{f.name:<{width}}  {f.title}\n" for f in flows), output)


@app.command("show")
@reported
def show(
    name: Annotated[str, typer.Argument(help="Name as in 'roofline dataflow list', or a file.")],
    hardware: Device_,
    overrides: Set = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """Bytes at every level, work per engine, room on chip, cycles of each tile step, and what binds.

    Example: roofline dataflow show attention:flash3 -H h100-sxm --set q_len=8192 --set kv_len=8192
    """
    from roofline.report.dataflow import described
    from roofline.report.dataflow_view import print_dataflow

    profile = _profile(hardware)
    found, device = _account(name, profile, overrides or [])
    _answer(described(found, device), print_dataflow, format_, output)


@app.command("compare")
@reported
def compare(
    names: Annotated[list[str], typer.Argument(help="Two or more dataflows; each is held against the first.", show_default=False)],
    hardware: Device_,
    overrides: Set = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """The same mathematics by several dataflows: FLOP, bytes, memory, bound, and why they differ.

    A setting applies to those that know it; one that none knows is an error.

    Example: roofline dataflow compare attention:naive attention:flash1 -H a100-sxm --set q_len=1024 --set kv_len=1024
    """
    from roofline.errors import UsageError
    from roofline.report.dataflow import compared
    from roofline.report.dataflow_view import print_comparison

    if len(names) < 2:
        raise UsageError("compare takes two or more dataflows")
    profile = _profile(hardware)
    known = [_known(name, overrides or []) for name in names]
    unknown = [s for s in overrides or [] if not any(s in k for k in known)]
    found = [_account(name, profile, unknown + own) for name, own in zip(names, known, strict=True)]
    _answer(compared([a for a, _ in found], found[0][1]), print_comparison, format_, output)


@app.command("tune")
@reported
def tune(
    name: Annotated[str, typer.Argument(help="Name as in 'roofline dataflow list', or a file.")],
    hardware: Device_,
    overrides: Set = None,
    sram: Annotated[str | None, typer.Option("--sram", help="Sweep the shared memory of a block: 64KiB..1MiB.")] = None,
    keep: Annotated[int, typer.Option("--keep", min=1, max=100, help="How many choices to show.")] = 5,
    format_: Format = None,
    output: Output = None,
) -> None:
    """The tiles that fit and take the least time, what binds them, and what a larger or faster part would be worth.

    Example: roofline dataflow tune attention:flash1 -H a100-sxm --sram 64KiB..1MiB
    """
    from roofline.dataflow.account import device_of
    from roofline.dataflow.tune import search, variants
    from roofline.report.dataflow import choice
    from roofline.report.dataflow_view import print_tuning

    profile = _profile(hardware)
    capacities = _capacities(sram) if sram else []
    flow = _load(name, profile, overrides or [])
    device = device_of(profile, flow.dtype)
    found = search(flow, device, keep=keep)
    worth = [_worth(flow, found.least_s, part, other) for part, other in variants(device)] if found.best else []
    data = {
        "schema": 1,
        "kind": "dataflow tuning",
        "dataflow": flow.name,
        "hardware": device.name,
        "params": dict(flow.params),
        "tried": found.tried,
        "fitting": found.fitting,
        "least_s": found.least_s if found.best else None,
        "best": [choice(c) for c in found.best],
        "worth": worth,
        "sweep": [_capacity(name, profile, overrides or [], c) for c in capacities],
    }
    _answer(data, print_tuning, format_, output)


def _worth(flow: Dataflow, least_s: float, part: str, device: Device) -> dict[str, Any]:
    """What the best tiles take on a device of which one part is larger or faster."""
    from roofline.dataflow.tune import search

    then = search(flow, device, keep=1)
    return {"part": part, "scheduled_s": then.least_s, "speedup": least_s / then.least_s, "tiles": dict(then.best[0].tiles)}


def _capacity(name: str, profile: Hardware, overrides: list[str], sram: float) -> dict[str, Any]:
    """The fewest bytes, and the least time, with that much shared memory."""
    from roofline.dataflow.account import device_of
    from roofline.dataflow.tune import fewest_bytes, search
    from roofline.report.dataflow import BYTES, plain

    flow = _load(name, profile, overrides, sram)
    device = device_of(profile, flow.dtype, sram)
    least, fastest = fewest_bytes(flow, device), search(flow, device, keep=1)
    moved = {level: plain(least.account.sum(of)) for level, of in BYTES.items()} if least else None
    return {
        "sram_bytes": plain(sram),
        "tiles": dict(least.tiles) if least else None,
        "bytes": moved,
        "reread_bytes": moved["l2"] - moved["hbm_once"] if moved else None,
        "scheduled_s": fastest.least_s if fastest.best else None,
        "fastest_tiles": dict(fastest.best[0].tiles) if fastest.best else None,
    }


def _capacities(text: str) -> list[float]:
    """``64KiB..1MiB`` as powers of two from the first to the last, or one capacity."""
    from roofline.errors import UsageError
    from roofline.units import Dimension, QuantityError, parse_quantity

    try:
        ends = [float(parse_quantity(part, Dimension.BYTES)) for part in text.split("..")]
    except QuantityError as err:
        raise UsageError(f"--sram {text}: {err}") from None
    if len(ends) > 2 or ends[0] > ends[-1]:
        raise UsageError(f"--sram {text}: write a range such as 64KiB..1MiB")
    found = [ends[0]]
    while found[-1] * 2 <= ends[-1] and len(found) < SRAM_POINTS_MOST:
        found.append(found[-1] * 2)
    return found if found[-1] == ends[-1] else [*found, ends[-1]]


def _profile(name: str) -> Hardware:
    from roofline.spec.hardware import load_hardware

    return load_hardware(name)


def _known(name: str, overrides: list[str]) -> list[str]:
    """The settings that the dataflow knows."""
    from roofline.spec.dataflow import setting_names

    known = setting_names(name)
    return [s for s in overrides if s.partition("=")[0].strip() in known]


def _load(name: str, profile: Hardware, overrides: list[str], sram: float | None = None) -> Dataflow:
    from roofline.dataflow.account import device_of
    from roofline.spec.dataflow import load_dataflow

    # What expressions may know of the device does not depend on the dtype.
    return load_dataflow(name, overrides, device_of(profile, "fp32", sram).names)


def _account(name: str, profile: Hardware, overrides: list[str]) -> tuple[Account, Device]:
    from roofline.dataflow.account import account, device_of

    flow = _load(name, profile, overrides)
    device = device_of(profile, flow.dtype)
    return account(flow, device), device


def _answer(data: dict[str, Any], draw: Callable[..., None], format_: str | None, output: str | None) -> None:
    if chosen_format(format_, output, FORMATS) == "json":
        _json(data, output)
    else:
        render(lambda console: draw(data, console), output)


def _json(data: object, output: str | None) -> None:
    from roofline.report.store import to_json

    deliver(to_json(data), output)
