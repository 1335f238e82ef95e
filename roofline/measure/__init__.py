"""Measuring: real kernels on a real device, timed honestly. The only room, with `ingest`, that imports torch and NVML."""
