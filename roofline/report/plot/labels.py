"""Labels that lie on nothing else: the first of some places that is free, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from roofline.report.plot.svg import text_box

Box = tuple[float, float, float, float]


@dataclass(slots=True)
class Taken:
    """What is taken of an area: ``within`` its edges, left, top, right, bottom."""

    within: Box
    boxes: list[Box] = field(default_factory=list)

    def free(self, box: Box) -> bool:
        """Whether a box lies inside and touches no other."""
        left, top, right, bottom = self.within
        inside = box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= bottom
        return inside and not any(_meet(box, other) for other in self.boxes)

    def take(self, box: Box) -> None:
        """It is taken from now on."""
        self.boxes.append(box)


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@dataclass(frozen=True, slots=True)
class Spot:
    """A place for a label: the baseline and which end of the text is at x."""

    x: float
    y: float
    at: str


def around(x: float, y: float, radius: float, size: float) -> Iterator[Spot]:
    """Places around a mark, the best first: right, left, above, below, the corners, then farther above and below."""
    gap, middle = radius + 4, size * 0.32
    yield Spot(x + gap, y + middle, "start")
    yield Spot(x - gap, y + middle, "end")
    yield Spot(x, y - gap, "middle")
    yield Spot(x, y + gap + size * 0.7, "middle")
    for side, at in ((1, "start"), (-1, "end")):
        yield Spot(x + side * gap * 0.7, y - gap * 0.9, at)
        yield Spot(x + side * gap * 0.7, y + gap * 0.9 + size * 0.6, at)
    for away in (1.3, 2.5, 3.7):
        for side, at in ((1, "start"), (-1, "end")):
            yield Spot(x + side * gap, y + middle + away * size, at)
            yield Spot(x + side * gap, y + middle - away * size, at)


def placed(said: str, spots: Iterable[Spot], taken: Taken, size: float) -> Spot | None:
    """The first place that is free, which is taken from now on; None where none is."""
    for spot in spots:
        box = text_box(spot.x, spot.y, said, spot.at, size)[:4]
        if taken.free(box):
            taken.take(box)
            return spot
    return None
