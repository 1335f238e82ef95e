"""``roofline cost``: what time costs, in dollars and joules, failures included."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="What time costs: tokens, serving, run, failures, optimal and extrapolate."
)

Devices = Annotated[int | None, typer.Option("--devices", min=1, help="How many are paid for; a plan's report says so itself.")]
Price = Annotated[str | None, typer.Option("--price", help="Of one device: '2.5 USD/h'; the profile's where it has one.")]
Power = Annotated[str | None, typer.Option("--power", help="Of one device: '700 W'; the profile's where it has one.")]
Hardware_ = Annotated[str | None, typer.Option("-H", "--hardware", help="Profile or cluster, for price, power and failures.")]
Tokens = Annotated[str | None, typer.Option("--tokens", help="Tokens of one execution of a report: a number, or over its params.")]
Mtbf = Annotated[str | None, typer.Option("--mtbf", help="Mean time between failures of one device: '50000 h'.")]
JobMtbf = Annotated[str | None, typer.Option("--job-mtbf", help="The same of the whole job, as observed: '3.09 h'.")]
Restart = Annotated[str | None, typer.Option("--restart", help="Time from a failure to work again: '10 min'.")]
Checkpoint = Annotated[str | None, typer.Option("--checkpoint", help="Time in which a checkpoint stops the work: '30 s'.")]
CheckpointSize = Annotated[str | None, typer.Option("--checkpoint-size", help="Its size, with --storage: '5.7 TB'.")]
Storage = Annotated[str | None, typer.Option("--storage", help="Write bandwidth of the job's storage: '2 TB/s'.")]
Interval = Annotated[str | None, typer.Option("--interval", help="Work between checkpoints: '30 min'; Daly's best if not given.")]
Format = Annotated[str | None, typer.Option("--format", help="text or json.")]
Output = Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")]


@app.callback()
def cost() -> None:
    """What time costs."""


@app.command("tokens")
@reported
def tokens(
    prefill: Annotated[str | None, typer.Option("--prefill", help="Report of a prefill ('plan' or 'analyze', JSON).")] = None,
    decode: Annotated[str | None, typer.Option("--decode", help="Report of a decoding step.")] = None,
    read: Annotated[str | None, typer.Option("--input-tokens-per-s", help="Stated rate of tokens read, all devices.")] = None,
    written: Annotated[str | None, typer.Option("--output-tokens-per-s", help="Stated rate of tokens written.")] = None,
    prefill_tokens: Annotated[str | None, typer.Option("--prefill-tokens", help="Tokens that one execution of --prefill reads.")] = None,
    decode_tokens: Annotated[str | None, typer.Option("--decode-tokens", help="Tokens that one of --decode writes.")] = None,
    blend: Annotated[str | None, typer.Option("--blend", help="Tokens read to tokens written: 3:1.")] = None,
    devices: Devices = None,
    price: Price = None,
    power: Power = None,
    hardware: Hardware_ = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """Dollars and joules per million tokens: read, written, and of a mix of both.

    Example: roofline cost tokens --output-tokens-per-s 2500 --devices 8 --price '2.5 USD/h' -H h100-sxm
    """
    from roofline.cli.cost_options import blend_of, fleet_of, rate_or_none
    from roofline.decide.economics import token_cost
    from roofline.decide.rates import rate_of_report
    from roofline.report.cost_lines import token_lines

    given = ((prefill, prefill_tokens, ("prefill", "mixed")), (decode, decode_tokens, ("decode", "mixed")))
    rated = [None if path is None else rate_of_report(path, said, phases) for path, said, phases in given]
    first = rate_or_none(rated[0], read, "--prefill", "--input-tokens-per-s")
    second = rate_or_none(rated[1], written, "--decode", "--output-tokens-per-s")
    known = [r for r in rated if r is not None]
    paid = fleet_of(known, devices, price, power, hardware)
    found = token_cost(paid, first, second, blend_of(blend), tuple(r.input for r in known))
    _deliver(found, token_lines, format_, output)


@app.command("run")
@reported
def run(
    report: Annotated[str | None, typer.Argument(help="Report of a training step ('plan' or 'analyze', JSON).", show_default=False)] = None,
    total: Annotated[str | None, typer.Option("--total-tokens", help="Tokens of the run: 15.6T.")] = None,
    step_tokens: Tokens = None,
    rate: Annotated[str | None, typer.Option("--tokens-per-s", help="Stated rate of all devices, in place of a report.")] = None,
    step_time: Annotated[str | None, typer.Option("--step-time", help="Stated time of a step of --tokens: '12.1 s'.")] = None,
    devices: Devices = None,
    price: Price = None,
    power: Power = None,
    hardware: Hardware_ = None,
    mtbf: Mtbf = None,
    job_mtbf: JobMtbf = None,
    restart: Restart = None,
    checkpoint: Checkpoint = None,
    checkpoint_size: CheckpointSize = None,
    storage: Storage = None,
    interval: Interval = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """Time, dollars and joules of a training run, with what failures take.

    Example: roofline cost run --step-time '12.1 s' --tokens 16M --total-tokens 15.6T --devices 16384 --price '2 USD/h' --power '700 W'
    """
    from roofline.cli.cost_options import failures_of, fleet_of, throughput_of
    from roofline.decide.economics import run_cost
    from roofline.decide.rates import rate_of_report
    from roofline.errors import UsageError
    from roofline.report.cost_lines import run_lines
    from roofline.spec.expenses import count

    if total is None:
        raise UsageError("give the tokens of the run, such as --total-tokens 15.6T")
    rated = None if report is None else rate_of_report(report, step_tokens, ("train",))
    throughput = throughput_of(rated, rate, step_time, step_tokens)
    known = [] if rated is None else [rated]
    paid = fleet_of(known, devices, price, power, hardware)
    named = hardware or (rated.hardware if rated else None)
    lost = failures_of(paid.devices, named, mtbf, job_mtbf, restart, checkpoint, checkpoint_size, storage, interval, wanted=False)
    found = run_cost(paid, count(total, "--total-tokens"), throughput, lost, tuple(r.input for r in known))
    _deliver(found, run_lines, format_, output)


@app.command("failures")
@reported
def failures(
    devices: Devices = None,
    hardware: Hardware_ = None,
    mtbf: Mtbf = None,
    job_mtbf: JobMtbf = None,
    restart: Restart = None,
    checkpoint: Checkpoint = None,
    checkpoint_size: CheckpointSize = None,
    storage: Storage = None,
    interval: Interval = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """How often a job fails, how often to save, and which share of its time is useful.

    Example: roofline cost failures --devices 16384 --job-mtbf '3.09 h' --restart '10 min' --checkpoint '30 s'
    """
    from roofline.cli.cost_options import failures_of
    from roofline.decide.economics import TOOL
    from roofline.errors import UsageError
    from roofline.report.cost import COST_SCHEMA, FailureReport
    from roofline.report.cost_lines import goodput_lines

    if devices is None:
        raise UsageError("give the devices of the job, such as --devices 16384")
    lost = failures_of(devices, hardware, mtbf, job_mtbf, restart, checkpoint, checkpoint_size, storage, interval, wanted=True)
    assert lost is not None
    found = FailureReport(schema=COST_SCHEMA, kind="failures", tool=TOOL, goodput=lost)
    _deliver(found, lambda f: goodput_lines(f.goodput), format_, output)


@app.command("optimal")
@reported
def optimal(
    flop: Annotated[str | None, typer.Option("--flop", help="FLOP of the run: 5.76e23.")] = None,
    devices: Devices = None,
    time: Annotated[str | None, typer.Option("--time", help="With --devices and --achieved: '54 days'.")] = None,
    achieved: Annotated[str | None, typer.Option("--achieved", help="Rate that a device reaches end to end: '400 TFLOP/s'.")] = None,
    tokens_per_parameter: Annotated[
        float | None, typer.Option("--tokens-per-parameter", help="Tokens a parameter; 20 after Chinchilla.")
    ] = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """The model that uses up a budget of training: parameters and tokens, 6 N D.

    Example: roofline cost optimal --flop 5.76e23
    """
    from roofline.cli.cost_options import budget_of
    from roofline.report.cost_lines import budget_lines

    _deliver(budget_of(flop, devices, time, achieved, tokens_per_parameter), budget_lines, format_, output)


@app.command("serving")
@reported
def serving(
    workload: Annotated[str, typer.Argument(help="Workload of a decoding step, as one device runs it.")],
    varied: Annotated[list[str] | None, typer.Option("--set", help="The batch, batch=1..512:x2, and what stays.")] = None,
    step_tokens: Annotated[str | None, typer.Option("--tokens", help="Tokens that a step makes, over the params: batch.")] = None,
    tpot: Annotated[str | None, typer.Option("--tpot", help="Most time a token of a user: '50 ms'.")] = None,
    ttft: Annotated[str | None, typer.Option("--ttft", help="Most time to the first token, with --prefill: '500 ms'.")] = None,
    prefill: Annotated[str | None, typer.Option("--prefill", help="Report of the prefill ('plan' or 'analyze', JSON).")] = None,
    devices: Annotated[int | None, typer.Option("--devices", min=1, help="That work on a step together.")] = None,
    price: Price = None,
    power: Power = None,
    hardware: Hardware_ = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """Cost of a million tokens by batch, and the cheapest batch within the times wanted.

    Example: roofline cost serving qwen3_8b_decode --set batch=1..256:x2 --tokens batch --devices 1 --price '2.5 USD/h' --tpot '20 ms'
    """
    from roofline.cli.cost_options import serving_of
    from roofline.report.cost import ServingReport
    from roofline.report.cost_lines import serving_columns, serving_lines
    from roofline.report.text import _line, can_encode, print_columns

    chosen = chosen_format(format_, output, ("text", "json"))
    found: ServingReport = serving_of(workload, varied or [], step_tokens, tpot, ttft, prefill, devices, price, power, hardware)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
        return

    def draw(console: Any) -> None:
        for line in serving_lines(found):
            console.print(_line(line))
        console.print()
        print_columns(serving_columns(found, not can_encode(console)), console)

    render(draw, output)


@app.command("extrapolate")
@reported
def extrapolate(
    table: Annotated[str, typer.Argument(help="CSV of measured configurations: devices,batch,seq,time_s.")],
    at: Annotated[list[str] | None, typer.Option("--at", help="The large one: devices=1024, batch=2048, seq=8192; all three.")] = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """Time of a large configuration from measured small ones, with the band of leaving out each.

    Example: roofline cost extrapolate small.csv --at devices=1024 --at batch=2048 --at seq=8192
    """
    from roofline.cli.cost_options import extrapolation_of
    from roofline.report.cost_lines import extrapolation_lines

    _deliver(extrapolation_of(table, at or []), extrapolation_lines, format_, output)


def _deliver(found: Any, lines: Callable[[Any], Iterable[str]], format_: str | None, output: str | None) -> None:
    chosen = chosen_format(format_, output, ("text", "json"))
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
    else:
        deliver("\n".join(lines(found)) + "\n", output)
