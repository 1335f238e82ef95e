"""Roofline analysis: what bounds a workload on a device, what would help end to end, and whether it did."""

__version__ = "0.1.0"
