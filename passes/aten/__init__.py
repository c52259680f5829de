"""Passes that work on the aten level; steps to the next level are in ``lowering/``."""
