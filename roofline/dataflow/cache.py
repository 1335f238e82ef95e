"""What L2 lets through to HBM: a model of which visits of a tile find it still there.

Tensors that come back and fit in L2 together are fetched once. Otherwise: blocks that run in one wave share what they read;
a block that comes back to a tile by itself finds it if what all blocks in flight come back to fits; sums that blocks add to
stay in L2 while the parts in flight fit. The same rules as those of the operators (`roofline.ops`), for any nest.
"""

from __future__ import annotations

from typing import Any

from roofline.dataflow.form import Access
from roofline.dataflow.nest import Nest, Span
from roofline.numeric import Number, anywhere, maximum, minimum, product, root, total, where
from roofline.ops.rows import ROWS_PER_PROCESSOR


class Through:
    """The filter for one kernel of which ``at_once`` blocks run together."""

    def __init__(self, nest: Nest, at_once: Number) -> None:
        self.nest, self.at_once = nest, at_once
        self.l2_bytes = nest.names["l2_bytes"]
        self.in_flight = minimum(nest.blocks, ROWS_PER_PROCESSOR * nest.names["processors"])
        kernel = nest.kernel
        self.first = {a.tensor: a for a in reversed(kernel.accesses) if a.mode == "read"}
        again = [a for a in nest.reads() if a is not self.first.get(a.tensor, a)]
        back = {a.tensor: a for a in nest.reads() if nest.again(a) or anywhere(nest.shared(a) > 0) or a in again}
        self.all_fit = total(nest.once_bytes(a) for a in back.values()) <= self.l2_bytes
        alone = {a.tensor: a for a in nest.reads() if self._inside(a) or a in again}
        self.inside_fits = self.in_flight * total(self._region(a) for a in alone.values()) <= self.l2_bytes

    def hbm_bytes(self, access: Access, visits: Number) -> Number:
        """Of the bytes of all visits, those that reach HBM."""
        once = self.nest.once_bytes(access)
        if access.mode == "write":
            return visits
        if access.mode == "update":
            fits = self.inside_fits if self._inside(access) else self._sums_fit(access)
            return where(fits, once, visits)
        if access is not self.first[access.tensor]:
            return where(self.inside_fits, 0, visits)
        inside = maximum(product(s.trips * s.share for s in self._inside(access)), 1)
        factor = where(self.inside_fits, 1, inside) * self._waves(access)
        return where(self.all_fit, once, minimum(maximum(once * factor, once), maximum(visits, once)))

    def _inside(self, access: Access) -> list[Span]:
        """Loops inside a block that come back to the tile."""
        return [s for s in self.nest.again(access) if not s.loop.parallel]

    def _region(self, access: Access) -> Number:
        """Bytes of the tensor that one block visits."""
        indexing = self.nest.indexing(access)
        parts = product(s.trips for s in self.nest.parallel if s.loop.name in indexing)
        return self.nest.once_bytes(access) / parts

    def _sums_fit(self, access: Access) -> Any:
        """Whether the parts that the blocks in flight add to fit, each shared by the blocks of a run."""
        run = self._run(access)[0]
        parts = minimum(self.in_flight / run + 1, maximum(self.nest.blocks / run, 1))
        return parts * self._region(access) <= self.l2_bytes

    def _run(self, access: Access) -> tuple[Number, Number]:
        """Neighbouring blocks that visit the same tiles, and how often HBM is asked again for loops further out.

        A wave covers several iterations of a loop further out where the blocks inside it are fewer than a wave.
        """
        indexing = self.nest.indexing(access)
        run: Number = maximum(self.nest.shared(access), 1)
        outer: Number = 1
        within: Number = 1
        at_end = True
        for span in reversed(self.nest.parallel):
            again = span.loop.name not in indexing
            at_end = at_end and again
            if again and at_end:
                run = run * span.trips
            elif again:
                outer = outer * span.trips / minimum(maximum(self.at_once / within, 1), span.trips)
            within = within * span.trips
        return run, outer

    def _waves(self, access: Access) -> Number:
        """Fetches by blocks: those of a wave share; of a run that waves cut, each part fetches for itself."""
        if self.nest.kernel.order == "grouped" and len(self.nest.parallel) >= 2:
            return self._grouped(access)
        run, outer = self._run(access)
        cut = 1 + minimum((run - 1) / self.at_once, run - 1)
        return where(self.nest.blocks <= self.at_once, 1, cut * outer)

    def _grouped(self, access: Access) -> Number:
        """Waves over the last two loops as high as the kernel's groups, or such that their panels are smallest together."""
        indexing, loops = self.nest.indexing(access), self.nest.parallel
        rows, columns = loops[-2], loops[-1]
        group = self.nest.value(self.nest.kernel.group)
        square = maximum(root(self.at_once * columns.tile / rows.tile), 1)
        wave_rows = minimum(where(group > 0, group, square), rows.trips)
        wave_columns = minimum(self.at_once / wave_rows, columns.trips)
        wave_rows = minimum(maximum(self.at_once / wave_columns, 1), rows.trips)
        factor: Number = product(s.trips for s in loops[:-2] if s.loop.name not in indexing)
        if rows.loop.name not in indexing:
            factor = factor * rows.trips / wave_rows
        if columns.loop.name not in indexing:
            factor = factor * columns.trips / wave_columns
        return factor
