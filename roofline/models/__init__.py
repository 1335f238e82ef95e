"""Models: a configuration as published, described by its dims, counted and turned into steps."""
