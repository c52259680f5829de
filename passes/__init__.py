"""Rewrites that stay inside one level, one pass per file, file name = pass name.

* ``infra/``: what runs passes. ``analysis/``: what they ask of a module. Neither holds a pass.
* ``aten/``, ``edge/``, ``backend/``, ``et/``: passes by the level that they work on; ``generic/`` works on all of them.
* ``delegation/``: partitions, outlining, and what delegates become. ``training/``: updates of parameters.

Steps from one level to the next live in ``lowering/``.
"""
