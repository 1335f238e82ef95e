"""Dataflows: a tiled kernel as loops, tiles and places, from which bytes, cycles and feasibility are derived."""
