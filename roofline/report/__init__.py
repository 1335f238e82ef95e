"""Reports: built, stored, compared, and shown."""
