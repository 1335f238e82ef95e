"""``roofline amdahl``: what a local speedup is worth end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.outcome import chosen_format, deliver, reported, settings

if TYPE_CHECKING:
    from roofline.predict.amdahl import Effect


def number(text: str, option: str) -> float:
    """A finite number, or ``inf`` for the limit.

    Raises:
        UsageError: anything else, NaN included.
    """
    import math
    import re

    from roofline.errors import UsageError

    if text.strip().lower() in ("inf", "+inf", "infinity"):
        return math.inf
    plain = re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", text)  # float() takes 1_0 and other digits
    value = float(text) if plain else math.nan
    if not math.isfinite(value):
        raise UsageError(f"{option} '{text if len(text) <= 40 else text[:40] + '...'}' is not a number that can be used")
    return value


@reported
def command(
    workload: Annotated[str | None, typer.Argument(help="Take the fraction from this workload.", show_default=False)] = None,
    fraction: Annotated[list[str] | None, typer.Option("--fraction", "-f", help="Share of the time; repeat for several parts.")] = None,
    speedup: Annotated[
        list[str] | None, typer.Option("--speedup", "-s", help="How much faster that part becomes; inf is the limit.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="End-to-end speedup wanted: gives the local one needed.")] = None,
    processors: Annotated[str | None, typer.Option("--processors", help="Gustafson's scaled speedup on so many processors.")] = None,
    step: Annotated[
        list[str] | None, typer.Option("--step", help="Step of the workload that becomes faster; repeat with --speedup.")
    ] = None,
    swap: Annotated[list[str] | None, typer.Option("--swap", help="Change of the workload: step.field=value or param=value.")] = None,
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Profile name or file.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="Change the workload before and after alike: key=value.")] = None,
    format_: Annotated[str | None, typer.Option("--format", help="text or json.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """End-to-end effect of making a part faster (Amdahl), its inverse, or the scaled form (Gustafson).

    Examples:

      roofline amdahl --fraction 0.2 --speedup 2

      roofline amdahl -f 0.632 -s 1.6 -f 0.31 -s 4

      roofline amdahl --target 1.5 --fraction 0.6

      roofline amdahl workload.yaml -H h100-sxm --swap attention.implementation=flash
    """
    chosen = chosen_format(format_, output, ("text", "json"))
    if workload is not None:
        found = _of_workload(workload, hardware, overrides or [], step or [], swap or [], speedup or [])
    else:
        found = _of_numbers(fraction or [], speedup or [], target, processors)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found["data"]), output)
    else:
        deliver("\n".join(found["lines"]) + "\n", output)


def _of_numbers(fractions: list[str], speedups: list[str], target: str | None, processors: str | None) -> dict[str, Any]:
    from roofline.errors import UsageError

    shares = [number(f, "--fraction") for f in fractions]
    if target is not None or processors is not None:
        if len(shares) != 1 or speedups or (target is not None and processors is not None):
            raise UsageError("give one --fraction with --target, or one --fraction with --processors")
        return (
            _inverse(shares[0], number(target, "--target"))
            if target is not None
            else _scaled(shares[0], number(processors or "", "--processors"))
        )
    if not shares or len(shares) != len(speedups):
        raise UsageError(f"{len(shares)} --fraction and {len(speedups)} --speedup: give them in pairs, such as --fraction 0.2 --speedup 2")
    from roofline.predict.amdahl import Part, amdahl

    effect = amdahl([Part(f, number(s, "--speedup")) for f, s in zip(shares, speedups, strict=True)])
    return {"lines": effect_lines(effect), "data": effect_data(effect)}


def effect_data(effect: Effect) -> dict[str, Any]:
    """The effect as JSON values; a speedup without limit is null, with the word beside it."""
    import math

    def finite(x: float) -> float | None:
        return x if math.isfinite(x) else None

    return {
        "parts": [
            {"fraction": p.fraction, "speedup": finite(p.speedup), "unlimited": math.isinf(p.speedup), "new_share": share}
            for p, share in zip(effect.parts, effect.new_shares, strict=True)
        ],
        "unchanged_fraction": effect.unchanged,
        "unchanged_new_share": effect.unchanged_new_share,
        "new_time": effect.time,
        "speedup": finite(effect.speedup),
        "limit": finite(effect.limit),
        "assumes": "the parts run one after the other and are shares of the time before",
    }


def effect_lines(effect: Effect) -> list[str]:
    """The effect in plain sentences."""
    import math

    from roofline.report.sentences import percent

    time = f"{effect.time:.2f}" if effect.time >= 0.01 else f"{effect.time:.4g}"
    lines = [f"end to end {_times(effect.speedup)}: time 1.00 -> {time}"]
    free = "the changed part was free" if len(effect.parts) == 1 else "the changed parts were free"
    lines.append(f"limit {_times(effect.limit)} if {free}" if math.isfinite(effect.limit) else f"there is no limit if {free}")
    for part, share in zip(effect.parts, effect.new_shares, strict=True):
        lines.append(f"part with {percent(part.fraction)} {_made(part.speedup)}: new share {percent(share)}")
    lines.append(f"unchanged {percent(effect.unchanged)}: new share {percent(effect.unchanged_new_share)}")
    lines.append(_verdict(effect))
    lines.append("(assumes that the parts run one after the other; where they overlap give a workload with 'after')")
    return lines


def _verdict(effect: Effect) -> str:
    from roofline.report.sentences import percent

    if effect.time == 0:
        return "This change is worth everything: nothing that takes time is left."
    gain = effect.speedup - 1
    worth = f"{percent(abs(gain))} {'more' if gain >= 0 else 'less'} throughput end to end"
    biggest = max((*effect.new_shares, effect.unchanged_new_share))
    after = "the unchanged part" if biggest == effect.unchanged_new_share else "a changed part"
    return f"This change is worth {worth}; next: {after}, {percent(biggest)} of the new time."


def _made(speedup: float) -> str:
    import math

    return "made free" if math.isinf(speedup) else f"made {_times(speedup)} faster"


def _times(value: float) -> str:
    import math

    return "without limit" if math.isinf(value) else f"{value:.4g}x"


def _inverse(fraction: float, target: float) -> dict[str, Any]:
    import math

    from roofline.predict.amdahl import Part, amdahl, required_speedup

    needed = required_speedup(fraction, target)
    limit = amdahl([Part(fraction, math.inf)]).limit
    wanted = "a speedup without limit" if math.isinf(target) else f"{target:g}x"
    if needed is None:
        line = f"{wanted} end to end is out of reach: with this part free the whole is {_times(limit)} faster at most."
    else:
        line = f"{wanted} end to end needs this part {_made(needed)} (limit {_times(limit)})."
    data = {
        "fraction": fraction,
        "target": target if math.isfinite(target) else None,
        "reachable": needed is not None,
        "required_speedup": needed if needed is not None and math.isfinite(needed) else None,
        "limit": limit if math.isfinite(limit) else None,
    }
    return {"lines": [line], "data": data}


def _scaled(fraction: float, processors: float) -> dict[str, Any]:
    from roofline.predict.amdahl import gustafson

    speedup = gustafson(fraction, processors)
    line = (
        f"scaled speedup {speedup:.4g}x on {processors:g} processors with a parallel share of {fraction:g} of the scaled run (Gustafson)."
    )
    return {"lines": [line], "data": {"parallel_fraction": fraction, "processors": processors, "scaled_speedup": speedup}}


def _of_workload(
    name: str, device: str | None, overrides: list[str], steps: list[str], swaps: list[str], speedups: list[str]
) -> dict[str, Any]:
    from roofline.errors import UsageError
    from roofline.report.whatif import change_lines, faster_steps, swapped

    if device is None and settings.hardware is not None:
        from roofline.spec.workload import load_workload

        device = load_workload(name, overrides).hardware or settings.hardware
    if bool(steps) == bool(swaps):
        raise UsageError("with a workload give either --step with --speedup, or --swap")
    if steps:
        if len(steps) != len(speedups):
            raise UsageError(f"{len(steps)} --step and {len(speedups)} --speedup: give them in pairs")
        change = faster_steps(name, device, overrides, {s: number(x, "--speedup") for s, x in zip(steps, speedups, strict=True)})
    else:
        if speedups:
            raise UsageError("--swap takes no --speedup: the accountant finds it")
        change = swapped(name, device, overrides, swaps)
    return {"lines": change_lines(change), "data": change}
