"""Ingest: traces, counters and modules of others, read with our operators. torch is imported in functions only."""
