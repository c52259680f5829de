"""Passes that work on edge operators: folding, layouts, and rewrites towards what kernels do best."""
