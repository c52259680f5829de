"""Backends: what can run part of a program instead of the target's kernels. One folder per backend.

``api/`` is what a backend declares and how backends are found. The passes that partition, outline and lower are in
``passes/delegation/``; the runtime halves of the backends that come with etir are in ``runtime/backends/``.
docs/tutorial/delegate.md writes one.
"""
