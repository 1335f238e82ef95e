"""Models of what kernels really take, from parameters that sit in the profile."""
