"""Devices as figures with their sources."""
