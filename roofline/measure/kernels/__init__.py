"""The kernels themselves, one file for each family. Each builder takes (op, tensors) and returns what runs the kernel once."""
