"""The profile of a device that was found: by the name its driver reports, never by guess.

A profile's ``match`` patterns must cover the whole name. Where several profiles do, the one nearest to the user wins: the
working directory's, then the user's own, then the shipped ones.
"""

from __future__ import annotations

import re
from pathlib import Path

from roofline.errors import MissingCapabilityError, RooflineError, nearest
from roofline.hardware.profile import Hardware, si
from roofline.measure.base import DeviceInfo
from roofline.spec.find import find_hardware, folders, hardware_names
from roofline.spec.hardware import load_hardware


def profile_for(info: DeviceInfo) -> Hardware:
    """The profile of the device.

    Raises:
        MissingCapabilityError: no profile matches, or several do, or the device is a part of what the profile describes.
    """
    profiles, broken = _profiles()
    matching = [p for p in profiles if any(re.fullmatch(pattern, info.name) for pattern in p.match)]
    if not matching:
        raise MissingCapabilityError(_none(info, profiles, broken))
    rank = min(_rank(p) for p in matching)
    first = [p for p in matching if _rank(p) == rank]
    if len(first) > 1:
        raise MissingCapabilityError(f"several profiles match '{info.name}': {', '.join(p.name for p in first)}; choose one with -H")
    _same_device(info, first[0])
    return first[0]


def _profiles() -> tuple[list[Hardware], list[str]]:
    """All profiles that can be read, and the names of those that cannot: one broken file must not hide the others."""
    read: list[Hardware] = []
    broken: list[str] = []
    for name in hardware_names():
        try:
            read.append(load_hardware(name))
        except RooflineError:
            broken.append(name)
    return read, broken


def _rank(profile: Hardware) -> int:
    """Which of the folders the profile lies in."""
    path = Path(profile.path or find_hardware(profile.name)).resolve()
    found = (i for i, folder in enumerate(folders("hardware_specs")) if path.is_relative_to(folder.resolve()))
    return next(found, len(folders("hardware_specs")))


def _same_device(info: DeviceInfo, profile: Hardware) -> None:
    """A profile of the right name is still wrong for a device with other processors: a slice, or another variant."""
    stated = si(profile.processors)
    if info.processors is None or stated is None or info.kind == "cpu" or stated == info.processors:
        return
    raise MissingCapabilityError(
        f"'{info.name}' has {info.processors} processors, but profile {profile.name} describes {stated:g}: a slice or another variant; "
        f"measure its own profile with 'roofline calibrate -o FILE', or insist with -H {profile.name}"
    )


def _none(info: DeviceInfo, profiles: list[Hardware], broken: list[str]) -> str:
    if info.kind == "cpu":
        text = (
            f"no profile describes the CPU '{info.name}', and no data sheet could; measure one with "
            "'roofline calibrate --device cpu -o FILE' or name one with -H"
        )
    elif " MIG " in info.name or info.facts.get("mig") in ("on", "slice"):
        text = (
            f"'{info.name}' is a slice of a GPU, for which no data-sheet profile holds; "
            "measure one with 'roofline calibrate -o FILE' or name one with -H"
        )
    else:
        text = f"no profile matches the device '{info.name}'; {_candidates(info.name, profiles)}"
    return text + (f" (not readable, so not considered: {', '.join(broken)})" if broken else "")


def _candidates(name: str, profiles: list[Hardware]) -> str:
    """The profiles most like the name, to choose from; the choice stays with the user."""
    by_product = {p.product: p.name for p in profiles}
    close = [by_product[product] for product in nearest(name, by_product)]
    if not close:
        return "none is like it: see 'roofline hardware list', or measure one with 'roofline calibrate -o FILE'"
    return f"nearest by name: {', '.join(close)}; choose one with -H, or measure one with 'roofline calibrate -o FILE'"
