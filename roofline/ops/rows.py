"""Operators that sweep each row of a matrix more than once: softmax, the norms, log-softmax of a loss.

A row that fits in one processor's shared memory is read once and kept there. A longer one is streamed again for each
sweep; the second sweep then hits L2 as long as the rows in flight, two on each processor, fit in it together. Measured
on an H200 (132 processors, 227 KiB, 50 MiB): rows of 8 KiB are read once, rows of 250 KiB come from HBM in every sweep.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.numeric import Number, minimum, where
from roofline.ops.base import Machine, Op, Traffic

ROWS_PER_PROCESSOR = 2
"""Thread blocks that run on a processor together: one loads its row while the other computes."""

STATISTIC = "fp32"
"""Format of a number that is accumulated along a row, whatever that of the row."""


class RowSweeps(Op):
    """An operator whose rows are read again in each sweep where they do not fit on chip."""

    def row_count(self) -> Number:
        """How many rows."""
        raise NotImplementedError

    def row_bytes(self) -> Number:
        """Bytes of one row that must stay on chip to be read once."""
        raise NotImplementedError

    def reread_bytes(self) -> Number:
        """Bytes that further sweeps read again, over all rows, when no row stays on chip."""
        raise NotImplementedError

    def tiled(self, machine: Machine) -> Traffic:
        """Every sweep reads from HBM, unless a row fits in shared memory."""
        traffic = self.compulsory(machine)
        again = where(self.row_bytes() <= machine.smem_bytes, 0, self.reread_bytes())
        return replace(traffic, l2=traffic.l2 + again, hbm=traffic.hbm + again)

    def cached(self, machine: Machine) -> Traffic:
        """Further sweeps hit L2 where the rows in flight fit in it."""
        tiled = self.tiled(machine)
        in_flight = minimum(self.row_count(), ROWS_PER_PROCESSOR * machine.processors) * self.row_bytes()
        hbm = where(in_flight <= machine.l2_bytes, self.compulsory(machine).hbm, tiled.hbm)
        return replace(tiled, hbm=hbm - self.resident_bytes(machine))
