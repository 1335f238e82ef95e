"""How each ceiling of a device is measured: one file per level, all through `base.Bench`."""
