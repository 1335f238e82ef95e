"""The operators. Importing this package registers all of them."""

from roofline.ops import (  # noqa: F401  (imported for their registration)
    gemm,
    attention,
    softmax,
    norm,
    elementwise,
    embedding,
    loss,
    memory,
    conv,
    optimizer,
    custom,
)
from roofline.ops.base import OPERATORS

__all__ = ["OPERATORS"]
