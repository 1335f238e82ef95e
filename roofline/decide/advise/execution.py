"""How kernels are launched: from Python, from a captured graph, fused by a compiler, or as an inference engine's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.decide.advise.situation import EXACT, ROUNDING, Change, Situation

LATER = {
    "graph": ("replay the kernels from a captured graph (CUDA graph)", EXACT, ("shapes and addresses stay the same from step to step",)),
    "compiled": (
        "torch.compile: elementwise chains fused, replayed from a graph",
        ROUNDING,
        ("the model compiles without graph breaks", "shapes stay the same from step to step"),
    ),
    "engine": (
        "the fused kernels of an inference engine, replayed from a graph",
        ROUNDING,
        ("an engine has the model's layers",),
    ),
}
"""Executions that may follow, with what they are, what they do to results, and what they need."""
FOLLOWS = {"eager": ("graph", "compiled", "engine"), "graph": ("compiled", "engine"), "compiled": ("engine",), "engine": ()}


def executions(now: Situation) -> Iterator[Change]:
    """Each way to launch that costs the host less than the present one; an engine only where nothing is trained."""
    for name in FOLLOWS[now.workload.execution]:
        if name == "engine" and now.training:
            continue
        title, exactness, conditions = LATER[name]
        settings = None if now.settings is None else (*(s for s in now.settings if not s.startswith("execution=")), f"execution={name}")
        result = replace(now, workload=replace(now.workload, execution=name), settings=settings)
        measured = now.command(now) if name == "graph" and now.workload.execution == "eager" else None
        check = (f"{measured} --launch graph",) if measured else ()
        trace = (f"roofline ingest trace after.pt.trace.json.gz -H {now.hardware.name}",)
        yield Change(
            key=name, rule="execution", title=title, exactness=exactness, result=result, conditions=conditions, check=(*check, *trace)
        )
