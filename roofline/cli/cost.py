"""``roofline cost``: what time costs, in dollars and joules, failures included."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported, warn

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
    from roofline.cli.cost_options import blend_of, mixed_of, noticed, paid, rate_or_none
    from roofline.decide.economics import mixed_cost, require_rate, token_cost
    from roofline.decide.rates import rate_of_report
    from roofline.report.cost_lines import token_lines

    require_rate(prefill, decode, read, written)
    given = ((prefill, prefill_tokens, "prefill"), (decode, decode_tokens, "decode"))
    reports = [None if path is None else rate_of_report(path, n, (phase, "mixed"), f"--{phase}-tokens") for path, n, phase in given]
    fleet, rated = paid(reports, devices, price, power, hardware)
    mixed = mixed_of(rated, {"--input-tokens-per-s": read, "--output-tokens-per-s": written, "--blend": blend})
    if mixed is not None:
        assert mixed.both is not None
        _deliver(noticed(mixed_cost(fleet, mixed.throughput, mixed.both, (mixed.input,)), [mixed]), token_lines, format_, output)
        return
    first = rate_or_none(rated[0], read, "--prefill", "--input-tokens-per-s")
    second = rate_or_none(rated[1], written, "--decode", "--output-tokens-per-s")
    found = noticed(token_cost(fleet, first, second, blend_of(blend), tuple(r.input for r in rated if r is not None)), rated)
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
    from roofline.cli.cost_options import failures_of, noticed, paid, throughput_of
    from roofline.decide.economics import run_cost
    from roofline.decide.rates import rate_of_report
    from roofline.errors import UsageError
    from roofline.report.cost_lines import run_lines
    from roofline.spec.expenses import count

    if total is None:
        raise UsageError("give the tokens of the run, such as --total-tokens 15.6T")
    rated = None if report is None else rate_of_report(report, step_tokens, ("train",))
    throughput = throughput_of(rated, rate, step_time, step_tokens)
    fleet, _ = paid([rated], devices, price, power, hardware)
    named = hardware or (rated.hardware if rated else None)
    lost = failures_of(fleet.devices, named, mtbf, job_mtbf, restart, checkpoint, checkpoint_size, storage, interval, wanted=False)
    found = run_cost(fleet, count(total, "--total-tokens"), throughput, lost, () if rated is None else (rated.input,))
    _deliver(noticed(found, [rated]), run_lines, format_, output)


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
    workload: Annotated[str, typer.Argument(help="Workload of a decoding step as one device runs it; or a model, a config.json.")],
    varied: Annotated[list[str] | None, typer.Option("--set", help="The batch, batch=1..512:x2, and what stays.")] = None,
    cluster: Annotated[str | None, typer.Option("-C", "--cluster", help="Of a model: cluster, name or file.")] = None,
    plan: Annotated[str | None, typer.Option("--plan", help="Of a model: how a step is spread, tp=8.")] = None,
    cost: Annotated[str | None, typer.Option("--cost", help="Of a model: bound or estimate; bound if not given.")] = None,
    efficiency: Annotated[str | None, typer.Option("--efficiency", help="Of a model: matrix=0.6,memory=0.85,link=0.8.")] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="Of a model: format of cached keys and values.")] = None,
    reserve: Annotated[str | None, typer.Option("--reserve", help="Of a model: memory set aside, '2 GiB'.")] = None,
    step_tokens: Annotated[str | None, typer.Option("--tokens", help="Tokens that a step makes, over the params: batch.")] = None,
    tpot: Annotated[str | None, typer.Option("--tpot", help="Most time a token of a user: '50 ms'.")] = None,
    ttft: Annotated[str | None, typer.Option("--ttft", help="Most time to the first: '500 ms', with --prefill or --prompt.")] = None,
    prefill: Annotated[str | None, typer.Option("--prefill", help="Report of the prefill ('plan' or 'analyze', JSON).")] = None,
    prompt: Annotated[int | None, typer.Option("--prompt", min=1, help="Of a model: time a prefill of so many tokens.")] = None,
    devices: Annotated[int | None, typer.Option("--devices", min=1, help="That work on a step together.")] = None,
    price: Price = None,
    power: Power = None,
    hardware: Hardware_ = None,
    format_: Format = None,
    output: Output = None,
) -> None:
    """Cost of a million tokens by batch, and the cheapest batch within the times wanted.

    Examples:

      roofline cost serving qwen3_8b_decode --set batch=1..256:x2 --tokens batch --devices 1 --price '2.5 USD/h' --tpot '20 ms'

      roofline cost serving llama-3-70b -C dgx-h100 --plan tp=8 --set batch=8..256:x2 --set context=8192 --price '2.5 USD/h'
    """
    from roofline.cli.cost_serving import Words, serving_of
    from roofline.report.cost_lines import serving_columns, serving_lines
    from roofline.report.text import can_encode, print_columns, styled

    chosen = chosen_format(format_, output, ("text", "json"))
    found = serving_of(
        Words(
            workload=workload, varied=varied or [], tokens=step_tokens, tpot=tpot, ttft=ttft, prefill=prefill, prompt=prompt,
            hardware=hardware, devices=devices, price=price, power=power, cluster=cluster, plan=plan, cost=cost, efficiency=efficiency,
            kv_dtype=kv_dtype, reserve=reserve,
        )
    )  # fmt: skip
    warn(found.warnings)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
        return

    def draw(console: Any) -> None:
        for line in serving_lines(found):
            console.print(styled(line))
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
    """Time of a large configuration from measured small ones, with a band of the terms that fit them about as well.

    Example: roofline cost extrapolate small.csv --at devices=1024 --at batch=2048 --at seq=8192
    """
    from roofline.cli.cost_options import extrapolation_of
    from roofline.report.cost_lines import extrapolation_lines

    _deliver(extrapolation_of(table, at or []), extrapolation_lines, format_, output)


def _deliver(found: Any, lines: Callable[[Any], Iterable[str]], format_: str | None, output: str | None) -> None:
    chosen = chosen_format(format_, output, ("text", "json"))
    warn(getattr(found, "warnings", ()))
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
    else:
        deliver("\n".join(lines(found)) + "\n", output)
