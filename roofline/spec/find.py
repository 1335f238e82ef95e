"""Names to files: profiles and workloads by path, in the project, in the user's folder, or as shipped.

Shipped files lie in the top-level folders ``hardware_specs`` and ``workloads`` of a checkout, and under
``roofline/_data`` of an installed wheel. An editable install has no copy of its own and finds the checkout.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from roofline.errors import UsageError, did_you_mean

PACKAGE = Path(__file__).resolve().parent.parent
SUFFIXES = (".yaml", ".yml", ".json")
APART = ("dataflows", "clusters", "models")
"""Folders inside those of workloads and profiles, whose files have names of their own."""


def shipped(folder: str) -> Path:
    """The folder as shipped: inside the installed package, else beside it in the checkout."""
    packaged = PACKAGE / "_data" / folder
    return packaged if packaged.is_dir() else PACKAGE.parent / folder


def profile_name(output: str | None, otherwise: str) -> str:
    """The name of a profile that is written to a file: the file's where it can be one, else ``otherwise``; empty if neither can.

    >>> profile_name("out/My_H100.yaml", "h100-sxm-fitted"), profile_name(None, "h100-sxm-fitted")
    ('my-h100', 'h100-sxm-fitted')
    """
    wanted = Path(output).stem if output and output != "-" else otherwise
    return re.sub(r"[^a-z0-9.-]+", "-", wanted.lower()).strip("-.")


def _user_folder(folder: str) -> Path:
    configured = os.environ.get("ROOFLINE_CONFIG_DIR")
    if configured:
        return Path(configured) / folder
    base = os.environ.get("APPDATA") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "roofline" / folder


def folders(folder: str) -> tuple[Path, ...]:
    """Where names are looked up, first match wins: the working directory, the user's folder, the shipped ones."""
    return (Path.cwd() / folder, _user_folder(folder), shipped(folder))


@lru_cache(maxsize=16)
def _listing(folders_: tuple[Path, ...]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in folders_:
        if folder.is_dir():
            for path in sorted(folder.rglob("*")):
                if path.suffix in SUFFIXES and path.is_file() and path.parent.name not in APART:
                    found.setdefault(path.stem, path)
    return found


def hardware_names() -> list[str]:
    """All profile names that can be found, sorted."""
    return sorted(_listing(folders("hardware_specs")))


@lru_cache(maxsize=16)
def _clusters(folders_: tuple[Path, ...]) -> dict[str, Path]:
    """Cluster files by stem, in the folder ``clusters`` of each folder of profiles."""
    found: dict[str, Path] = {}
    for folder in folders_:
        for path in sorted((folder / "clusters").glob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                found.setdefault(path.stem, path)
    return found


def cluster_names() -> list[str]:
    """All cluster names that can be found, sorted."""
    return sorted(_clusters(folders("hardware_specs")))


def find_cluster(name: str) -> Path:
    """The cluster's file; a path is taken as it is.

    Raises:
        UsageError: no such name; the message names the nearest.
    """
    found = _clusters(folders("hardware_specs"))
    if is_path(name) or (name not in found and name and os.path.lexists(name)):
        return Path(name)
    if name in found:
        return found[name]
    if name in hardware_names():
        raise UsageError(f"'{name}' is a device, and a cluster is wanted; {did_you_mean(name, list(found))}")
    raise UsageError(f"unknown cluster '{name}'; {did_you_mean(name, list(found))}")


def holds_cluster(path: Path) -> bool:
    """Whether a file that was asked for as a profile describes a cluster: it lies among those, or has tiers."""
    if path.parent.name == "clusters":
        return True
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):  # the reader says what is wrong with it
        return False
    return "tiers" in text and re.search(r"^\s*\"?tiers\"?\s*:", text, re.MULTILINE) is not None


def workload_names() -> list[str]:
    """All workload names that can be found, sorted."""
    return sorted(_listing(folders("workloads")))


@lru_cache(maxsize=16)
def _dataflows(folders_: tuple[Path, ...]) -> dict[str, Path]:
    """Dataflow files by stem, in the folder ``dataflows`` of each folder of workloads."""
    found: dict[str, Path] = {}
    for folder in folders_:
        for path in sorted((folder / "dataflows").glob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                found.setdefault(path.stem, path)
    return found


def dataflow_names() -> list[str]:
    """All dataflow names that can be found, sorted: ``attention:flash2`` lies in ``attention_flash2.yaml``."""
    return sorted(":".join(name.rsplit("_", 1)) for name in _dataflows(folders("workloads")))


def find_dataflow(name: str) -> Path:
    """The dataflow's file; a path is taken as it is, another name of a dataflow (its key ``also``) leads to it.

    Raises:
        UsageError: no such name; the message names the nearest.
    """
    if is_path(name):
        return Path(name)
    found = _dataflows(folders("workloads"))
    stem = name.replace(":", "_")
    if stem in found:
        return found[stem]
    for path in found.values():
        other = re.search(r"^also: *\[(.*)\]", path.read_text(encoding="utf-8"), re.MULTILINE)
        if other and name in [word.strip() for word in other[1].split(",")]:
            return path
    raise UsageError(f"unknown dataflow '{name}'; {did_you_mean(name, dataflow_names())}")


@lru_cache(maxsize=16)
def _models(folders_: tuple[Path, ...]) -> dict[str, Path]:
    """Model configurations by stem, in the folder ``models`` of each folder of workloads."""
    found: dict[str, Path] = {}
    for folder in folders_:
        for path in sorted((folder / "models").glob("*.json")):
            if path.is_file():
                found.setdefault(path.stem, path)
    return found


def model_names() -> list[str]:
    """All names of models that can be found, sorted."""
    return sorted(_models(folders("workloads")))


def find_model(name: str) -> Path:
    """The configuration of a model by name; a path is taken as it is, and so is any file that exists.

    Raises:
        UsageError: no such name; the message names the nearest. Nothing is fetched.
    """
    found = _models(folders("workloads"))
    if name in found:
        return found[name]
    if name.endswith(SUFFIXES) or is_path(name) or (name and os.path.lexists(name)):
        return Path(name)
    raise UsageError(f"unknown model '{name}'; {did_you_mean(name, list(found))}; or give the path of a config.json")


def is_path(name: str) -> bool:
    """Whether a name on the command line means a file: it has a separator or a known ending, or is ``-``."""
    return name == "-" or os.sep in name or "/" in name or name.endswith(SUFFIXES)


def _find(name: str, folder: str, what: str) -> Path:
    if is_path(name):
        return Path(name)
    found = _listing(folders(folder))
    if name in found:
        return found[name]
    if name and os.path.lexists(name):  # a file without an ending, or something that the reader refuses in its own words
        return Path(name)
    known = [*found, *cluster_names()] if folder == "hardware_specs" else list(found)
    raise UsageError(f"unknown {what} '{name}'; {_mistaken(name, folder) or did_you_mean(name, known)}")


def _mistaken(name: str, folder: str) -> str | None:
    """What to do with a name of the other kind."""
    if folder == "workloads" and name in hardware_names():
        return f"it is a hardware profile: give it with -H {name}, or see 'roofline hardware show {name}'"
    if folder == "hardware_specs" and name in workload_names():
        return f"it is a workload: 'roofline analyze {name} -H PROFILE'"
    return None


def find_hardware(name: str) -> Path:
    """The profile's file, or that of a cluster of that name.

    Raises:
        UsageError: no such name; the message names the nearest.
    """
    clusters = _clusters(folders("hardware_specs"))
    if not is_path(name) and name in clusters and name not in hardware_names():
        return clusters[name]
    return _find(name, "hardware_specs", "hardware profile")


def find_workload(name: str) -> Path:
    """The workload's file; a path is taken as it is.

    Raises:
        UsageError: no such name; the message names the nearest.
    """
    return _find(name, "workloads", "workload")
