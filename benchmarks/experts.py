"""Products of experts of published mixtures, measured: a table that an estimate is fitted to, or held against.

    python benchmarks/experts.py -o results/tables/h200-sxm                                     # writes grouped_gemm.csv there
    python benchmarks/experts.py --judge results/tables/h200-sxm/grouped_gemm.csv -H h200-sxm   # no GPU

Both products of a mixture's experts on one of the devices that share them, from one token to 16,384, rows dealt out evenly and for some
as a power law has them. Timed as the tables of the project are: back to back in a captured graph, over input sets a little larger than
L2. `--judge` prints how far the profile's parameters lie off: its own set for torch on the rows that its fit held out, and that of an
engine's kernels (of this device or the nearest), which saw none of these rows, on all of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from roofline.fit.accuracy import predict
from roofline.fit.routing import POWER_LAW, exponent_of, routed
from roofline.fit.split import divided
from roofline.fit.tables import Row, read_table
from roofline.hardware.profile import Hardware
from roofline.measure.calibration_shapes import Regime
from roofline.spec.hardware import load_hardware

OWN = "grouped.torch."
"""How sets of parameters of torch's grouped products begin."""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The experts of a model, and how many devices share them."""

    name: str
    hidden: int
    inner: int
    experts: int
    active: int
    ranks: int = 1


MIXTURES = (
    Mixture(name="mixtral-8x7b", hidden=4096, inner=14336, experts=8, active=2),
    Mixture(name="qwen3-30b-a3b", hidden=2048, inner=768, experts=128, active=8),
    Mixture(name="gpt-oss-20b", hidden=2880, inner=2880, experts=32, active=4),
    Mixture(name="deepseek-v3", hidden=7168, inner=2048, experts=256, active=8, ranks=8),
    Mixture(name="deepseek-v3", hidden=7168, inner=2048, experts=256, active=8, ranks=32),
    Mixture(name="mixtral-8x7b", hidden=4096, inner=14336, experts=8, active=2, ranks=4),
    Mixture(name="mixtral-8x22b", hidden=6144, inner=16384, experts=8, active=2, ranks=2),
    Mixture(name="dbrx", hidden=6144, inner=10752, experts=16, active=4),
    Mixture(name="qwen3-235b-a22b", hidden=4096, inner=1536, experts=128, active=8, ranks=4),
    Mixture(name="gpt-oss-120b", hidden=2880, inner=2880, experts=128, active=4),
    Mixture(name="llama4-scout", hidden=5120, inner=8192, experts=16, active=1, ranks=4),
)
TOKENS = tuple(2**i for i in range(15))
UNEVEN = (16, 64, 256, 1024, 4096)
"""Tokens at which a power law is measured too."""


def shapes() -> Iterator[Regime]:
    """Every product, with what one device gets of the rows."""
    for mixture in MIXTURES:
        for tokens in TOKENS:
            for distribution in ("balanced", f"{POWER_LAW}1.2")[: 1 + (tokens in UNEVEN)]:
                yield from products(mixture, tokens, distribution)


def products(mixture: Mixture, tokens: int, distribution: str) -> Iterator[Regime]:
    """Gate and up in one, and down, for ``tokens`` of all devices together."""
    got = routed(tokens, mixture.experts, mixture.active, mixture.ranks, exponent_of(distribution))
    fullest = min(got.fullest, got.rows - got.chosen + 1)  # means of several draws need not fit one of them
    known = {"tokens": got.rows, "experts": mixture.experts // mixture.ranks, "active": 1, "chosen": got.chosen, "fullest": fullest}
    for n, k in ((2 * mixture.inner, mixture.hidden), (mixture.hidden, mixture.inner)):
        said = f"{mixture.name} over {mixture.ranks} {distribution} {tokens}"
        yield Regime(kernel="grouped_gemm", regime=said, fields={**known, "n": n, "k": k, "dtype": "bf16"})


def measured(device_name: str, output: str, seconds: float, minutes: float) -> None:
    """Measure all, in an order that has the whole range early, and write the table; after ``minutes`` no further one is begun."""
    from roofline.measure.base import Procedure
    from roofline.measure.device import open_device
    from roofline.measure.regimes import Timed, time_cases, write_tables

    device = open_device(device_name)
    cuda = device.info.kind != "cpu"
    procedure = Procedure(
        launch="graph" if cuda else "eager", mode="sustained", warmup_s=0.1, fewest_samples=12, shortest_s=seconds / 3,
        longest_s=seconds, blocks=3, caches=1.0, most_sets=32, retries=0,
    )  # fmt: skip
    end, every = time.monotonic() + 60 * minutes, list(shapes())
    order = [at for first in range(7) for at in range(first, len(every), 7)]
    found: dict[int, Timed] = {}
    for at in order:
        if time.monotonic() > end:
            break
        (found[at],) = time_cases([every[at]], device, procedure)
        said = found[at].result
        print(f"{every[at].regime}: {said.time_s * 1e6:.2f} us" if said else f"{every[at].label}: {found[at].why}", file=sys.stderr)
    provenance = (
        f"measured: roofline benchmarks/experts.py, {device.info.name}, torch {device.info.facts.get('torch', '')}, torch._grouped_mm",
        "time_us: median of a call in a captured graph, back to back, over input sets a little larger than L2",
        "regime: model, devices that share its experts, how tokens choose, tokens of all devices; the columns are what one device gets",
    )
    for path in write_tables(output, [found[at] for at in sorted(found)], provenance):
        print(path)


# --------------------------------------------------------------------------- without a GPU
def judged(rows: Sequence[Row], hardware: Hardware) -> Iterator[str]:
    """How far each set of parameters lies off, by mixture and over all."""
    engine = replace(hardware, fitted={name: s for name, s in hardware.fitted.items() if not name.startswith(OWN)})
    yield from _errors("an engine's set", rows, engine)
    if any(name.startswith(OWN) for name in hardware.fitted):
        yield from _errors("torch's own set, rows held out", divided(list(rows))[1], hardware)
        yield from _errors("torch's own set, rows fitted", divided(list(rows))[0], hardware)


def _errors(title: str, rows: Sequence[Row], hardware: Hardware) -> Iterator[str]:
    found = predict(rows, hardware)
    error = found.estimate_s / found.measured_s - 1
    below = int((found.measured_s < found.bound_s).sum())
    inside = (found.low_s <= found.measured_s) & (found.measured_s <= found.high_s)
    yield f"# {title}: {len(rows)} rows, {_said(error)}, {inside.mean():.0%} in band, {below} below their bound"
    names = [row.text.rpartition(",")[2].split()[0] for row in found.rows]  # the last column begins with the mixture's name
    for mixture in dict.fromkeys(names):
        at = [i for i, name in enumerate(names) if name == mixture]
        yield f"  {mixture}: {len(at)} rows, {_said(error[at])}"
    for i in np.argsort(-np.abs(error))[:5]:
        op = found.rows[int(i)].op
        shape = f"{op.tokens} rows, {op.chosen} of {op.experts} experts, fullest {op.fullest}, n {op.n}, k {op.k}"
        yield f"  {shape}: {found.measured_s[i] * 1e6:.1f} us, estimate {error[i]:+.1%}, bound {found.bound_s[i] * 1e6:.1f} us"


def _said(error: np.ndarray) -> str:
    return f"median error {np.median(np.abs(error)):.1%}, mean {np.abs(error).mean():.1%}, signed {np.median(error):+.1%}"


def main() -> None:
    """Measure, or judge a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.3, help="longest time for one shape")
    parser.add_argument("--minutes", type=float, default=5.0, help="begin no shape after so long")
    parser.add_argument("-o", "--output", help="folder for grouped_gemm.csv")
    parser.add_argument("--judge", metavar="TABLE", help="a table that was measured")
    parser.add_argument("-H", "--hardware", default="h200-sxm")
    options = parser.parse_args()
    if options.judge:
        print("\n".join(judged(read_table(options.judge).rows, load_hardware(options.hardware))))
    elif options.output:
        measured(options.device, options.output, options.seconds, options.minutes)
    else:
        parser.error("give -o FOLDER to measure, or --judge TABLE")


if __name__ == "__main__":
    main()
