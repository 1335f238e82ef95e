"""Lines and letters on a grid of characters: a braille character holds two dots across and four down."""

from __future__ import annotations

from dataclasses import dataclass, field

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
BLANK = 0x2800


@dataclass(slots=True)
class Canvas:
    """``columns`` x ``rows`` characters. Dots are counted from the upper left corner, letters hide them. ``plain`` writes ASCII."""

    columns: int
    rows: int
    plain: bool = False
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    letters: dict[tuple[int, int], str] = field(default_factory=dict)

    def dot(self, x: float, y: float) -> None:
        """A dot, where it is on the canvas; x counts half characters and y quarters."""
        across, down = int(x), int(y)
        if 0 <= across < 2 * self.columns and 0 <= down < 4 * self.rows:
            cell = across // 2, down // 4
            self.dots[cell] = self.dots.get(cell, 0) | _DOTS[down % 4][across % 2]

    def line(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """A straight line of dots."""
        steps = int(max(abs(to_x - x), abs(to_y - y))) + 1
        for i in range(steps + 1):
            self.dot(x + (to_x - x) * i / steps, y + (to_y - y) * i / steps)

    def letter(self, column: int, row: int, said: str) -> bool:
        """A letter in a cell; False where one stands already, which is then marked as several."""
        if not (0 <= column < self.columns and 0 <= row < self.rows):
            return False
        if self.letters.get((column, row), said) != said:
            self.letters[column, row] = "*"
            return False
        self.letters[column, row] = said
        return True

    def text(self, column: int, row: int, said: str) -> bool:
        """Some letters, where all of their cells are free of letters."""
        cells = [(column + i, row) for i in range(len(said))]
        if not 0 <= row < self.rows or column < 0 or column + len(said) > self.columns or any(c in self.letters for c in cells):
            return False
        self.letters.update(zip(cells, said, strict=True))
        return True

    def lines(self) -> list[str]:
        """The rows from the top, without blanks at their ends."""
        return ["".join(self._at(x, y) for x in range(self.columns)).rstrip() for y in range(self.rows)]

    def _at(self, x: int, y: int) -> str:
        if (x, y) in self.letters:
            return self.letters[x, y]
        dots = self.dots.get((x, y), 0)
        return " " if not dots else "." if self.plain else chr(BLANK + dots)
