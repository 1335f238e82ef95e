"""``roofline links``: whether links keep up with tensor parallelism, with data parallelism, with experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from roofline.hardware.cluster import Cluster
    from roofline.hardware.profile import Hardware
    from roofline.report.columns import Column

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Whether links keep up: tp, dp, ep, collective.")
Device = Annotated[str, typer.Option("-H", "--hardware", help="Device or cluster.")]
Link = Annotated[str | None, typer.Option("--link", help="One link of it, for any number of ranks.")]
Bandwidth = Annotated[str | None, typer.Option("--bandwidth", help="A link of so much, one way and a device ('400 Gb/s', '50 GB/s').")]
Dtype = Annotated[str, typer.Option("--dtype", help="Format of the products.")]
Format = Annotated[str | None, typer.Option("--format", help="table or json.")]
Output = Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")]
FORMATS = ("table", "json")
DEGREES = (2, 4, 8, 16, 32)


@app.command("tp")
@reported
def tensor(
    hardware: Device,
    model: Annotated[str | None, typer.Option("--model", help="A Hugging Face config.json, for its feed-forward width.")] = None,
    width: Annotated[int | None, typer.Option("--width", min=1, help="Columns of the feed-forward part (F).")] = None,
    gated: Annotated[bool, typer.Option("--gated", help="Count the third product of a gated part too.")] = False,
    degree: Annotated[list[int] | None, typer.Option("--degree", min=1, help="A degree to look at (repeat); else 2 to 32.")] = None,
    link: Link = None,
    bandwidth: Bandwidth = None,
    dtype: Dtype = "bf16",
    format_: Format = None,
    output: Output = None,
) -> None:
    """Is tensor parallelism still free: alpha = C / W of the link, and F / alpha.

    Example: roofline links tp --width 28672 -H h100-sxm --link nvlink
    """
    from roofline.plan.links import tensor_links
    from roofline.report.links_view import degree_columns, tensor_answer, tensor_lines

    device, cluster = _network(hardware, link, bandwidth)
    degrees = tuple(dict.fromkeys(degree or DEGREES))
    found = tensor_links(_width(model, width), _peak(device, dtype), cluster, degrees, gated=gated)
    _deliver(found, tensor_answer(found), degree_columns(found), tensor_lines(found), format_, output)


@app.command("dp")
@reported
def data(
    hardware: Device,
    params: Annotated[float, typer.Option("--params", min=1, help="Parameters whose gradients are added up.")],
    ranks: Annotated[int, typer.Option("--ranks", min=1, help="Devices over which they are.")],
    tokens: Annotated[float, typer.Option("--tokens", min=1, help="Tokens of one device in a step.")],
    mfu: Annotated[float, typer.Option("--mfu", min=0.001, max=1.0, help="Share of the peak that the backward pass reaches.")] = 1.0,
    gradient_dtype: Annotated[str, typer.Option("--gradient-dtype", help="Format of the gradients.")] = "bf16",
    link: Link = None,
    bandwidth: Bandwidth = None,
    dtype: Dtype = "bf16",
    format_: Format = None,
    output: Output = None,
) -> None:
    """Is data parallelism hidden: the all-reduce of gradients beside the backward pass, and the tokens it would need.

    Example: roofline links dp --params 7.5e9 --ranks 64 --tokens 4096 --mfu 0.5 --bandwidth '50 GB/s' -H h100-sxm
    """
    from roofline.dtypes import dtype as find_dtype
    from roofline.plan.links import data_links
    from roofline.report.links_view import data_answer, data_lines, leg_columns

    device, cluster = _network(hardware, link, bandwidth)
    size = float(find_dtype(gradient_dtype).bytes)
    found = data_links(params, ranks, tokens, _peak(device, dtype), cluster, gradient_bytes=size, mfu=mfu)
    _deliver(found, data_answer(found), leg_columns(found.legs), data_lines(found), format_, output)


@app.command("ep")
@reported
def experts(
    hardware: Device,
    tokens: Annotated[float, typer.Option("--tokens", min=1, help="Tokens of one device that are exchanged at a time.")],
    copies: Annotated[int, typer.Option("--copies", min=1, help="Experts that a token goes to, shared ones among them.")],
    hidden: Annotated[int, typer.Option("--hidden", min=1, help="Elements of a token.")],
    layers: Annotated[int, typer.Option("--layers", min=1, help="Layers with experts.")],
    halves: Annotated[int, typer.Option("--halves", min=1, help="Parts of the batch that take turns: 2 hides one behind the other.")] = 2,
    dispatch_dtype: Annotated[str, typer.Option("--dispatch-dtype", help="Format on the way out.")] = "fp8",
    combine_dtype: Annotated[str, typer.Option("--combine-dtype", help="Format on the way back.")] = "bf16",
    ranks: Annotated[int | None, typer.Option("--ranks", min=1, help="Devices that hold the experts; else every copy is sent.")] = None,
    node_limit: Annotated[int, typer.Option("--node-limit", min=0, help="Most nodes that a token's copies go to; 0 for no limit.")] = 0,
    imbalance: Annotated[float, typer.Option("--imbalance", min=1, help="What the fullest rank of experts takes in, over the mean.")] = 1.0,
    link: Link = None,
    bandwidth: Bandwidth = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """What dispatch and combine allow: seconds a token and tokens a second, if nothing else took time.

    Example: roofline links ep --tokens 32 --copies 9 --hidden 7168 --layers 61 -H dgx-h100 --link infiniband
    """
    from roofline.dtypes import dtype as find_dtype
    from roofline.errors import UsageError
    from roofline.plan.links import Exchange, expert_links
    from roofline.report.links_view import expert_answer, expert_lines, leg_columns

    if node_limit and ranks is None:
        raise UsageError("--node-limit needs --ranks: only with them is it known which copies leave a node")
    _, cluster = _network(hardware, link, bandwidth)
    exchange = Exchange(
        tokens=tokens,
        copies=copies,
        hidden=hidden,
        dispatch_bytes=float(find_dtype(dispatch_dtype).bytes),
        combine_bytes=float(find_dtype(combine_dtype).bytes),
        node_limit=node_limit,
        imbalance=imbalance,
    )
    found = expert_links(exchange, cluster, layers=layers, halves=halves, ranks=ranks)
    _deliver(found, expert_answer(found), leg_columns(found.legs), expert_lines(found), format_, output)


@app.command("collective")
@reported
def one_collective(
    kind: Annotated[str, typer.Argument(help="all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send_recv.")],
    hardware: Device,
    size: Annotated[str, typer.Option("--size", help="Bytes as nccl-tests counts them: the full array.")],
    ranks: Annotated[int, typer.Option("--ranks", min=1, help="Devices that take part.")],
    stride: Annotated[int, typer.Option("--stride", min=1, help="How far apart they are in the order of devices.")] = 1,
    link: Link = None,
    bandwidth: Bandwidth = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """One collective over the tiers of a cluster: bytes a tier carries, the least time, and the time with latency.

    Example: roofline links collective all_reduce --size '1 GiB' --ranks 64 -H dgx-h100
    """
    from roofline.errors import UsageError
    from roofline.plan.links import collective_links
    from roofline.report.links_view import collective_answer, collective_lines, leg_columns
    from roofline.units import Dimension, QuantityError, parse_quantity

    try:
        array = parse_quantity(size, Dimension.BYTES)
    except QuantityError as err:
        raise UsageError(f"--size: {err}") from None
    _, cluster = _network(hardware, link, bandwidth)
    found = collective_links(kind, array, ranks, cluster, stride=stride)
    _deliver(found, collective_answer(found), leg_columns(found.legs), collective_lines(found), format_, output)


# --------------------------------------------------------------------------- what is asked
def _network(name: str, link: str | None, bandwidth: str | None) -> tuple[Hardware, Cluster]:
    """The device, and the tiers to look at: a cluster's, one link's, or a link of that bandwidth."""
    from roofline.errors import UsageError
    from roofline.spec.cluster import load_cluster, one_link
    from roofline.spec.find import find_hardware, holds_cluster
    from roofline.spec.hardware import load_hardware

    if link is not None and bandwidth is not None:
        raise UsageError("--link and --bandwidth are two answers to one question: give one of them")
    device = load_hardware(name)
    if link is not None or bandwidth is not None:
        return device, one_link(device, link, bandwidth)
    if not holds_cluster(find_hardware(name)):
        raise UsageError(f"'{name}' is a device without a network: say --link or --bandwidth, or name a cluster with -H")
    return device, load_cluster(str(find_hardware(name)))


def _peak(device: Hardware, dtype: str) -> float:
    from roofline.errors import UsageError
    from roofline.hardware.profile import Absent

    _, rate = device.matrix_engine(dtype)
    if isinstance(rate, Absent):
        raise UsageError(f"{device.name} has no rate for {dtype}: {rate.reason}")
    return rate.value


def _width(model: str | None, width: int | None) -> int:
    """The feed-forward width, given or a dense model's own."""
    from roofline.errors import UsageError
    from roofline.models.description import Mlp
    from roofline.spec.model import load_model

    if (model is None) == (width is None):
        raise UsageError("say either --model or --width")
    if model is None:
        return int(width or 0)
    widths = {layer.feed.width for layer in load_model(model)[0].layers if isinstance(layer.feed, Mlp)}
    if len(widths) != 1:
        found = ", ".join(str(w) for w in sorted(widths)) or "none"
        raise UsageError(f"{model} has no single feed-forward width (dense layers have: {found}); say --width")
    return widths.pop()


def _deliver(found: object, answer: str, columns: Sequence[Column], lines: Sequence[str], format_: str | None, output: str | None) -> None:
    if chosen_format(format_, output, FORMATS) == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
        return
    from roofline.report.text import print_columns, styled

    def draw(console: Console) -> None:
        console.print(styled(answer, "bold"))
        if columns:
            print_columns(list(columns), console)
        for line in lines:
            console.print(styled(line))

    render(draw, output)
