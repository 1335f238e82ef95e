"""Which sets are fitted: those that enough rows ask for, and general ones that serve the others and what no table tells.

A kernel names the sets that may serve it, the best first. Where too few rows ask for the best, the general one of its library
(with ``any`` in its name) is fitted in its place, from all kernels in the same case. General sets that nobody needed so far are
fitted as well, to all rows that they may serve, so that a format that was not measured has an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from roofline.fit.solve import ANY, Asked, Item

FEWEST = 2
"""Rows without which a set is not fitted: its beliefs are better left to a relative or a prior."""
FEWEST_OF_ONE_SORT = 8
"""Rows without which a set is not fitted apart where a general one may serve."""


def settled(items: Sequence[Item], held: Sequence[Item]) -> tuple[list[Item], list[Item], dict[str, str]]:
    """All items with the sets that are fitted for them, the held ones alike, and which sets are not, with the reason.

    Items that ask for one of these as well cannot be fitted; `fittable` leaves them out.
    """
    counts = _counts(items)
    everyone = {a.name: a for item in (*items, *held) for a in item.asked}
    few = {n: a for n, a in everyone.items() if ANY not in n.split(".") and counts.get(n, 0) < FEWEST_OF_ONE_SORT}
    general = {n: str(a.general) for n, a in few.items() if a.general}
    skipped = {
        name: f"{counts.get(name, 0)} of the rows to fit, fewer than {FEWEST_OF_ONE_SORT}: {into} serves" for name, into in general.items()
    }
    items, held = ([_renamed(item, general) for item in part] for part in (items, held))
    wanted = {name for item in (*items, *held) for name in item.names}
    for name, count in _counts(items).items():
        if count < FEWEST:
            skipped[name] = f"{count} of the rows to fit, fewer than {FEWEST}: a relative or a prior serves"
    skipped |= dict.fromkeys(sorted(wanted - _counts(items).keys()), "none of the rows to fit: a relative or a prior serves")
    beside = wanted - _counts(fittable(items)).keys() - skipped.keys()
    skipped |= dict.fromkeys(sorted(beside), "occurs only beside sets that have too few rows")
    return items, held, skipped


def fittable(items: Sequence[Item]) -> list[Item]:
    """The items of which every set has rows enough."""
    kept = list(items)
    while few := {name for name, count in _counts(kept).items() if count < FEWEST}:
        kept = [item for item in kept if not item.names & few]
    return kept


def general_sets(items: Sequence[Item], done: set[str]) -> dict[str, list[Item]]:
    """General sets that were not fitted, and the rows that they alone may serve, as items that ask for them."""
    wanted = {n for item in items for a in item.asked for n in a.others if n not in done and ANY in (p := n.split(".")) and a.library in p}
    found: dict[str, list[Item]] = {}
    for name in sorted(wanted):
        mine = [i for i in items if all(name in a.others for a in i.asked)]
        if sum(len(i.at) for i in mine) >= FEWEST_OF_ONE_SORT:
            found[name] = [_renamed(i, {a.name: name for a in i.asked}) for i in mine]
    return found


def _counts(items: Sequence[Item]) -> dict[str, int]:
    """Rows by set."""
    counts: dict[str, int] = {}
    for item in items:
        for name in item.names:
            counts[name] = counts.get(name, 0) + len(item.at)
    return counts


def _renamed(item: Item, names: Mapping[str, str]) -> Item:
    return replace(item, asked=tuple(_asking(a, names[a.name]) if a.name in names else a for a in item.asked))


def _asking(asked: Asked, name: str) -> Asked:
    return replace(asked, name=name, others=tuple(n for n in (asked.name, *asked.others) if n != name))
