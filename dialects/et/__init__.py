"""The ``et`` dialect: program structure that every level shares, and the executable level itself.

Shared: weights and state as symbols (``weights.py``), the layout encoding of tensor types (``layout.py``), functions'
input and output conventions (``program.py``). Executable: one op per instruction over explicit buffers
(``executable.py`` with ``values.py``, ``instructions.py`` and ``payloads.py``).
"""
