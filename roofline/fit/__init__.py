"""Estimates held against measured tables, and parameters fitted to them."""
