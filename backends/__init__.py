"""Backends: what can run part of a program instead of the target's kernels. One folder per backend.

``interface.py`` is what a backend declares, ``patterns.py`` and ``conditions.py`` how it says what it can take,
``registry.py`` how backends are found. The passes that partition, outline and lower are in ``passes/``; the run-time
halves of the backends that come with etir are in ``runtime/backends/``. docs/tutorial/delegate.md writes one.
"""
