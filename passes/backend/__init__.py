"""Passes that work on the backend level, where the target and its kernels are known."""
