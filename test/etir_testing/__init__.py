"""What tests, benchmarks and the commands in ``test/`` share: models, programs, oracles, builds of the native runtime.

A package in ``test/``, which is on ``sys.path`` in the tests (``pythonpath`` in ``pyproject.toml``) and in the commands
beside it. Its folders are named like what they serve: ``models`` is the registry and the zoo, ``runtime`` builds and
calls kernels and executors, ``lowering``, ``interpret`` and ``emit`` belong to the unit tests of these packages,
``interop`` to the tests with the stock ExecuTorch package, ``opinfo`` and ``generated`` to torch's samples and to
generated programs, ``docs`` runs the examples of the documents. Nothing here is a test.
"""

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
"""The folder of the tests."""
ROOT = TESTS.parent
"""The checkout."""
