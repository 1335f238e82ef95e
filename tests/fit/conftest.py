"""The fixtures of the fake model."""

from tests.fit.fakes import fake

__all__ = ["fake"]
