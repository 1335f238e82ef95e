"""Constants of the operators that name none, shared by kernels and references; exact in every format they are used in."""

CONSTANT = 1.5
"""What scale multiplies by and what fill and masked_fill write."""

EPSILON = 1e-5
"""Added to the variance by the norms."""

LEARNING_RATE = 2.0**-10
BETAS = (0.875, 0.984375)
WEIGHT_DECAY = 0.0625
MOMENTUM = 0.875
ADAM_EPSILON = 2.0**-20
ADAM_STEP = 10
"""A step whose bias corrections are neither 0 nor 1; it stands still, so that each call does the same."""
