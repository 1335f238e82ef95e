"""A full search: Llama-3.1-405B trained on 16,384 H100s, every plan that `roofline search` knows.

    python benchmarks/search.py > benchmarks/search.txt

Plans evaluated are those that obey the rules: each has its time and its memory. Processor time is hardly changed by other work on the
machine. The best and a random sample are then judged one by one
by the formulas for a single plan, and must give the same.
"""

from __future__ import annotations

import platform
import random
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from roofline.decide.costs import coster_of
from roofline.decide.evaluate import Evaluator, Subject
from roofline.decide.search import NO_ROOM, Found, search
from roofline.decide.space import space_of
from roofline.models.shape import shape_of
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.spec.cluster import load_cluster
from roofline.spec.model import load_model
from roofline.spec.plan import written

DEVICES, ROUNDS, TARGET_S, TARGET_PLANS_PER_S, SAMPLE = 16384, 5, 2.0, 50_000, 200
SHARES = {"matrix": 0.6, "memory": 0.85, "link": 0.7}


def subject() -> Subject:
    """The job: 2,048 sequences of 8,192 tokens a step."""
    model, how, _ = load_model("llama-3.1-405b")
    return Subject(model=model, how=how, job=Job(phase="train", batch=2048, seq=8192), cluster=load_cluster("dgx-h100"))


def searched(asked: Subject, top: int = 10) -> Found:
    """Everything, from nothing."""
    coster = coster_of("efficiency", asked.cluster, shares=SHARES)
    return search(asked, (DEVICES,), coster, space_of(asked.job, shape_of(asked.model), asked.attention), top=top)


def differing(asked: Subject, found: Found) -> int:
    """How many plans of the front and of the ranking give another time alone."""
    judge = Evaluator(asked, coster_of("efficiency", asked.cluster, shares=SHARES))
    plans = [*found.pareto, *found.best]
    sample = random.Random(0).sample(plans, min(SAMPLE, len(plans)))
    return sum(abs(scalar(judge.evaluate(c.plan).step_s) / c.step_s - 1) > 1e-12 for c in sample)


def main() -> None:
    """Print what is kept in search.txt."""
    asked = subject()
    walls, processor = [], []
    for _ in range(ROUNDS):
        start, used = time.perf_counter(), time.process_time()
        found = searched(asked)
        walls.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    counted = found.counted
    evaluated = counted.feasible + counted.infeasible.get(NO_ROOM, 0)
    rate, met = evaluated / min(processor), "met" if min(processor) < TARGET_S else "NOT met"
    print("python benchmarks/search.py")
    print(f"CPython {platform.python_version()}, numpy {np.__version__}, {platform.system()} {platform.machine()}, one thread")
    print(f"llama-3.1-405b, training, {DEVICES:,} x h100-sxm: every plan; the fastest of {ROUNDS} runs")
    print(f"plans looked at                 {counted.looked_at:>10,}")
    print(f"obey the rules: time and memory {evaluated:>10,}")
    print(f"and fit                         {counted.feasible:>10,}")
    print(
        f"processor time of one process, on one core: {min(processor):.2f} s (wall clock {min(walls):.2f} s)  target {TARGET_S:g} s: {met}"
    )
    print(f"{rate:,.0f} plans a second  target {TARGET_PLANS_PER_S:,}: {'met' if rate > TARGET_PLANS_PER_S else 'NOT met'}")
    print(f"best: {written(found.best[0].plan)}, {found.best[0].step_s:.3f} s a step")
    wide = searched(asked, top=500)
    print(f"plans of the front and the ranking that differ alone by more than 1e-12: {differing(asked, wide)} of {SAMPLE}")


if __name__ == "__main__":
    main()
