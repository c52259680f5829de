"""Fused machine code for the parts of a program that are float32 tensor code: the delegate ``native``.

``backend.py`` is what the passes of delegation see. The levels are ``native`` (``dialect.py``: groups of edge operators
that become one loop nest) and ``tile`` (``tile.py``: loops over memory, with one operation for a micro-kernel). Rules
of fusion are passes in ``passes/``, what groups become is in ``lowering/``, micro-kernels are files in ``kernels/``;
docs/guide/native.md is for users, docs/tutorial/micro_kernel.md adds a micro-kernel.
"""
