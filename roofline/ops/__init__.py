"""The operators: `OPERATORS` finds each by its YAML name and imports it then."""

from roofline.ops.registry import OPERATORS

__all__ = ["OPERATORS"]
