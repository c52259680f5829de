"""Fused machine code for the parts of a program that are float32 tensor code: the delegate ``native``.

``backend.py`` is what the passes of delegation see. The levels are ``native`` (``dialect.py``: groups of edge operators
that become one loop nest) and ``tile`` (``tile.py``: loops over memory, with one operation for a micro-kernel). Rules
of fusion are files in ``fusion/``, micro-kernels files in ``kernels/``; docs/design/native.md says why.
"""
