"""Why a GPU runs below its clocks: the bits that its driver sets, by name."""

from __future__ import annotations

NAMES = {
    0x1: "idle",
    0x2: "application clocks set",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
POWER_CAP = 0x4
SLOWDOWN = 0x8 | 0x20 | 0x40 | 0x80
"""Heat or a failing supply: the device is not itself. A power cap is how large cards normally run, so it is only noted."""


def event_names(bits: int) -> list[str]:
    """The names of the bits that are set; unknown ones by number.

    >>> event_names(0x44), event_names(0x400)
    (['software power cap', 'hardware thermal slowdown'], ['bit 0x400'])
    """
    each = [1 << i for i in range(bits.bit_length()) if bits >> i & 1]
    return [NAMES.get(bit, f"bit {bit:#x}") for bit in each]
