"""A calibration as a hardware profile: beside a data sheet's figures, or as the only figures that there are.

Beside: the file extends the data sheet's profile and adds ``measured``; bounds go on using the published figures. Alone
(a CPU, or a GPU without a profile): the figures themselves are measured, each the fastest sample seen, since a bound made
of medians would be beaten half of the time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from roofline import __version__
from roofline.errors import UsageError
from roofline.hardware.profile import Absent, Hardware
from roofline.measure.base import DeviceInfo
from roofline.measure.calibrate import Calibration, Found
from roofline.measure.ceilings.base import Measured
from roofline.measure.own_figures import own_figures
from roofline.spec.ceilings import CEILINGS
from roofline.spec.find import hardware_names
from roofline.spec.find import profile_name as file_name
from roofline.units import Dimension, format_quantity

SOURCE = "calibration"
WIDTH = 140
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 ._/-]*|[0-9.]+ [A-Za-z/]+|[0-9]+")


def today() -> str:
    """The date of the run."""
    return time.strftime("%Y-%m-%d")


def profile_text(calibration: Calibration, base: Hardware | None, name: str, date: str | None = None) -> str:
    """The profile as YAML, ``name`` as the file is called.

    Raises:
        UsageError: the file would hide the profile that it extends, or that one cannot be extended.
    """
    source = source_text(calibration.info, date or today())
    found: dict[str, Any] = {"schema": 1, "name": name}
    if base is not None:
        _require_extensible(base, name)
        found |= {
            "extends": base.name,
            "vendor": base.vendor,
            "product": base.product,
            "architecture": base.architecture,
            "match": list(base.match),
            "notes": _notes(calibration),
            "sources": {SOURCE: source},
        }
    else:
        found |= own_figures(calibration, SOURCE)
        found["sources"] = {SOURCE: source, **found["sources"]}
        found["notes"] = _notes(calibration) + "; the figures are the fastest samples, since no data sheet stands behind them"
    found["measured"] = {key: ceiling(key, value) for key, value in calibration.found.items()}
    return yaml_text(found)


def _require_extensible(base: Hardware, name: str) -> None:
    if name == base.name:
        raise UsageError(
            f"a profile called '{name}' would hide the one that it extends; choose another file name, e.g. {name}-measured.yaml"
        )
    if base.name not in hardware_names():
        raise UsageError(f"-H {base.path}: only a profile that is found by its name can be extended; put it into ./hardware_specs")


def _notes(calibration: Calibration) -> str:
    others = calibration.info.facts.get("other_processes")
    parts = [
        "ceilings measured by roofline calibrate",
        "the run was interrupted" if calibration.interrupted else "",
        f"{others} other processes were on the device" if others else "",
    ]
    return "; ".join(p for p in parts if p)


def profile_name(output: str | None, base: Hardware | None, info: DeviceInfo) -> str:
    """The name of the profile: that of the file where it can be one, else made from the device.

    >>> profile_name("out/my_cpu.yaml", None, DeviceInfo(kind="cpu", name="X", uuid=None, memory_bytes=1, l2_bytes=1, processors=1))
    'my-cpu'
    """
    return file_name(output, f"{base.name if base else info.kind}-measured") or "measured"


def source_text(info: DeviceInfo, date: str) -> str:
    """Where the figures come from: tool, date, device, versions and limits, nothing that names the machine."""
    facts = info.facts
    parts = [
        f"roofline {__version__} calibrate, {date}",
        info.name,
        *(f"{label} {facts[key]}" for key, label in _FACTS.items() if facts.get(key) is not None),
        f"power limit {facts['power_limit_w']:g} W" if isinstance(facts.get("power_limit_w"), (int, float)) else "",
        f"highest clock {facts['max_sm_mhz']:g} MHz, not locked" if isinstance(facts.get("max_sm_mhz"), (int, float)) else "",
    ]
    return ", ".join(p for p in parts if p)


_FACTS = {"driver": "driver", "torch": "torch", "cuda": "CUDA", "triton": "Triton", "threads": "threads:", "mig": "MIG", "ecc": "ECC"}


def ceiling(name: str, found: Found) -> dict[str, Any]:
    """One entry of ``measured``."""
    if isinstance(found, Absent):
        return {"absent": found.reason}
    dimension = CEILINGS[name]
    values = {key: quantity(getattr(found, key), dimension) for key in ("value", "low", "high", "best")}
    if found.kind == "derived":
        values.pop("best")
    clock = {} if found.clock_hz is None else {"clock": quantity(found.clock_hz, Dimension.HERTZ)}
    return {**_ordered(values), **clock, "kind": found.kind, "source": SOURCE, **_noted(found)}


def _ordered(values: Mapping[str, str]) -> dict[str, str]:
    """Without the ends of an interval that rounding has made equal to its middle."""
    return {k: v for k, v in values.items() if k not in ("low", "high") or v != values["value"]}


def _noted(found: Measured) -> dict[str, str]:
    power = f"{found.power_w:.0f} W" if found.power_w else ""
    note = "; ".join(p for p in (found.label, power, found.note) if p)
    return {"note": note} if note else {}


def quantity(value: float, dimension: Dimension) -> str:
    """The value as written in a profile, to five digits."""
    return format_quantity(value, dimension, digits=5, ascii=True)


# --------------------------------------------------------------------------- YAML
def yaml_text(found: Mapping[str, Any]) -> str:
    """Maps as blocks, figures in braces, a blank line between the top-level maps."""
    lines: list[str] = []
    for key, value in found.items():
        if isinstance(value, Mapping) and lines:
            lines.append("")
        lines += _entry(key, value, 0)
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, depth: int) -> list[str]:
    indent = "  " * depth
    if not isinstance(value, Mapping):
        return [f"{indent}{key}: {_scalar(value)}"]
    if not value:
        return [f"{indent}{key}: {{}}"]
    if {"value", "absent"} & value.keys():
        return _figure(indent, key, value)
    return [f"{indent}{key}:", *(line for k, v in value.items() for line in _entry(k, v, depth + 1))]


def _figure(indent: str, key: str, value: Mapping[str, Any]) -> list[str]:
    """On one line where it fits, else with its note on a line of its own."""
    parts = [f"{k}: {_scalar(v)}" for k, v in value.items()]
    line = f"{indent}{key}: {{{', '.join(parts)}}}"
    if len(line) <= WIDTH or "note" not in value or len(parts) < 2:
        return [line]
    return [f"{indent}{key}: {{{', '.join(parts[:-1])},", f"{indent}  {parts[-1]}}}"]


def _scalar(value: Any) -> str:
    """Plain where YAML cannot mistake it, else in quotes."""
    if isinstance(value, list):
        return f"[{', '.join(_scalar(v) for v in value)}]"
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text == text.strip() else json.dumps(text)
