"""What a shell may complete: names of devices, workloads, models, operators, kernels and formats, found without torch.

One table for all commands: a parameter of that name completes to those names, wherever it stands. It is looked at only when a
shell asks, so that no command pays for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command

from roofline.cli.app import COMMANDS, GROUPS, app_for

Names = Callable[[], Sequence[str]]


def _devices() -> list[str]:
    from roofline.spec.find import cluster_names, hardware_names

    return [*hardware_names(), *cluster_names()]


def _others() -> list[str]:
    from roofline.cli.advised import VENDOR

    return [*_profiles(), VENDOR]


def _profiles() -> list[str]:
    from roofline.spec.find import hardware_names

    return hardware_names()


def _clusters() -> list[str]:
    from roofline.spec.find import cluster_names

    return cluster_names()


def _workloads() -> list[str]:
    from roofline.spec.find import workload_names

    return workload_names()


def _model_names() -> list[str]:
    from roofline.spec.find import model_names

    return model_names()


def _served() -> list[str]:
    return [*_workloads(), *_model_names()]


def _dataflows() -> list[str]:
    from roofline.spec.find import dataflow_names

    return dataflow_names()


def _operators() -> list[str]:
    from roofline.ops.plugins import names
    from roofline.ops.registry import MODULES

    return [*MODULES, *names()]


def _kernels() -> list[str]:
    from roofline.measure.registry import names

    return names()


def _cache_dtypes() -> list[str]:
    from roofline.dtypes import CACHE

    return list(CACHE)


def _dtypes() -> list[str]:
    from roofline.dtypes import DTYPES

    return list(DTYPES)


def _optimizers() -> list[str]:
    from roofline.models.memory_states import OPTIMIZERS

    return list(OPTIMIZERS)


def _collectives() -> list[str]:
    from roofline.plan.network import KINDS

    return list(KINDS)


def _schemas() -> list[str]:
    from roofline.report.published import SCHEMAS

    return list(SCHEMAS)


def _colors() -> list[str]:
    from roofline.spec.settings import COLORS

    return list(COLORS)


OPTIONS: dict[str, Names] = {
    "hardware": _devices,
    "cluster": _clusters,
    "model": _model_names,
    "config": _model_names,
    "also": _others,
    "operator": _operators,
    "kernel": _kernels,
    **dict.fromkeys(("dtype", "weight_dtype", "gradient_dtype", "dispatch_dtype", "combine_dtype"), _dtypes),
    "kv_dtype": _cache_dtypes,
    "optimizer": _optimizers,
    "color": _colors,
}
"""By the name of a parameter, in every command."""
OF_COMMANDS: dict[str, Names] = {
    "analyze.workloads": _workloads,
    "budget.workloads": _workloads,
    "amdahl.workload": _workloads,
    "measure.workload": _workloads,
    "sweep.workload": _workloads,
    "cost.serving.workload": _served,
    "ingest.ncu.workload": _workloads,
    "loop.init.workload": _workloads,
    "op.name": _operators,
    "links.collective.kind": _collectives,
    "advise.subject": _workloads,
    "operators.show.name": _operators,
    "hardware.show.name": _profiles,
    "hardware.compare.names": _profiles,
    "cluster.show.name": _clusters,
    "dataflow.show.name": _dataflows,
    "dataflow.compare.names": _dataflows,
    "dataflow.tune.name": _dataflows,
    "schema.what": _schemas,
}
"""By command and the name of its argument or option, where the same name elsewhere is something else, such as a file to write."""


def completing() -> Any:
    """The command line that answers a shell: typer's, with names to complete."""
    asked = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    wanted = next((word for word in asked.split()[1:-1] if word in COMMANDS or word in GROUPS), None)
    whole = get_command(app_for([wanted] if wanted else []))
    for path, parameter in _parameters(whole, ()):
        names = names_for(path, parameter)
        if names:
            parameter._custom_shell_complete = _completer(names)
    return whole


def names_for(path: tuple[str, ...], parameter: Any) -> Names | None:
    """What a parameter of the command at ``path`` completes to, None where it takes free text, a number or a file."""
    name = parameter.name or ""
    return OPTIONS.get(name) or OF_COMMANDS.get(".".join((*path, name))) or _formats(path, parameter)


def _parameters(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for parameter in command.params:
        yield path, parameter
    for name, inner in getattr(command, "commands", {}).items():
        yield from _parameters(inner, (*path, name))


def _formats(path: tuple[str, ...], parameter: Any) -> Names | None:
    """Formats of a command, from its module."""
    if parameter.name != "format_" or not path:
        return None
    module = import_module(f"roofline.cli.{GROUPS.get(path[0], path[0])}")
    return lambda: getattr(module, "FORMATS", ("table", "json"))


def _completer(names: Names) -> Callable[[Any, Any, str], list[Any]]:
    from typer._click.shell_completion import CompletionItem

    def complete(_context: typer.Context, _parameter: Any, incomplete: str) -> list[Any]:
        return [CompletionItem(name) for name in dict.fromkeys(names()) if name.startswith(incomplete)]

    return complete
