"""Workloads: steps in order."""
