"""Published training runs beside the plan model at stated efficiencies: ``python benchmarks/megatron_runs.py`` writes megatron_runs.txt.

Eight runs of Megatron on A100s (Korthikanti et al. 2022, table 5), with which Calculon validates itself. The three efficiencies are stated
once for all runs. How far they are from being tuned to them is shown by a grid around: the mean error at each, and that on the runs of
one kind at the efficiencies that are best for the runs of the other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import yaml

from roofline.decide.costs import coster_of
from roofline.decide.evaluate import Evaluation, Evaluator, Subject
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.spec.cluster import load_cluster
from roofline.spec.model import load_model
from roofline.spec.plan import read_plan

ROOT = Path(__file__).parent.parent
FILE = ROOT / "tests" / "data" / "published" / "megatron_runs.yaml"
OUTPUT = Path(__file__).with_suffix(".txt")
CALCULON_MEAN, CALCULON_MOST = 0.0365, 0.0887
KINDS = {"full": "recompute=full", "selective": "recompute=selective,sp"}
GRID = {"matrix": (0.75, 0.8, 0.85), "memory": (0.7, 0.8, 0.9), "link": (0.35, 0.4, 0.45)}


@dataclass(frozen=True)
class Run:
    """A published run: how it was spread, and the seconds that a step took."""

    model: str
    kind: str
    plan: str
    measured_s: float
    subject: Subject


def published() -> tuple[list[Run], dict[str, float]]:
    """The runs, and the efficiencies stated beside them."""
    said = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    cluster = load_cluster("dgx-a100")
    found = []
    for run in said["runs"]:
        model, how, _ = load_model(run["model"])
        job = Job(phase="train", batch=run["batch"], seq=2048, gradient_dtype="fp32")
        subject = Subject(model=model, how=how, job=job, cluster=cluster, attention="naive")
        found += [Run(run["model"], kind, f"{run['plan']},{words}", run[f"{kind}_s"], subject) for kind, words in KINDS.items()]
    return found, said["efficiency"]


def predicted(run: Run, shares: Mapping[str, float]) -> Evaluation:
    """The step at stated efficiencies."""
    coster = coster_of("efficiency", run.subject.cluster, shares=shares)
    return Evaluator(run.subject, coster).evaluate(read_plan(run.plan).plan)


def errors(runs: list[Run], shares: Mapping[str, float]) -> list[float]:
    """Predicted over measured, less one."""
    return [scalar(predicted(run, shares).step_s) / run.measured_s - 1 for run in runs]


def mean_error(found: list[float]) -> float:
    """The mean of their sizes."""
    return sum(abs(e) for e in found) / len(found)


def grid() -> Iterator[dict[str, float]]:
    """Efficiencies around those that are stated."""
    for values in product(*GRID.values()):
        yield dict(zip(GRID, values, strict=True))


def lines() -> Iterator[str]:
    """The page."""
    runs, shares = published()
    yield "Training runs on A100s beside the plan model (python benchmarks/megatron_runs.py)"
    yield f"stated efficiencies: {', '.join(f'{name} {value:g}' for name, value in shares.items())} of published rates"
    yield ""
    yield f"{'run':<22}{'measured':>9}{'model':>9}{'error':>8}   parts of the step, s"
    for run in runs:
        found = predicted(run, shares)
        parts = ", ".join(f"{name} {scalar(s):.2f}" for name, s in found.parts.named().items() if scalar(s) >= 0.005)
        error = scalar(found.step_s) / run.measured_s - 1
        yield f"{run.model + ' ' + run.kind:<22}{run.measured_s:>9.2f}{scalar(found.step_s):>9.2f}{error:>+8.1%}   {parts}"
    own = errors(runs, shares)
    yield ""
    yield f"mean error {mean_error(own):.2%}, largest {max(map(abs, own)):.2%}; Calculon's {CALCULON_MEAN:.2%} and {CALCULON_MOST:.2%}"
    yield from around(runs)


def around(runs: list[Run]) -> Iterator[str]:
    """Other efficiencies, and those that are best for one kind of run on the other."""
    table: list[tuple[dict[str, float], dict[str, float]]] = []
    for shares in grid():
        found = errors(runs, shares)
        table.append((shares, {kind: mean_error([e for e, r in zip(found, runs, strict=True) if r.kind == kind]) for kind in KINDS}))
    means = sorted(sum(by.values()) / len(by) for _, by in table)
    yield f"at {len(table)} efficiencies around: mean error {means[0]:.2%} to {means[-1]:.2%}, median {means[len(means) // 2]:.2%}"
    for kind, other in (("full", "selective"), ("selective", "full")):
        shares, by = min(table, key=lambda row: row[1][kind])
        yield f"best for {kind} ({', '.join(f'{n} {v:g}' for n, v in shares.items())}): mean error on {other} {by[other]:.2%}"


def main(arguments: list[str]) -> int:
    """Print the page and write it; with --check compare only."""
    text = "\n".join(lines()) + "\n"
    if "--check" in arguments:
        return 0 if OUTPUT.read_text(encoding="utf-8") == text else 1
    OUTPUT.write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
