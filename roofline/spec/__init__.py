"""Files to values: YAML and JSON text to profiles and workloads."""
