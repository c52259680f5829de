"""Rewrites that stay inside one level, one pass per file named like the pass, and the machinery that runs passes.

``base.py`` is what a pass is, ``registry.py`` finds passes by name (and those of plug-ins), ``manager.py`` runs
pipelines with verification, printing, timing and reproducers, ``rewriting.py`` is the rewrite driver. Steps from one
level to the next live in ``lowering/``.
"""
