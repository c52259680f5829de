"""Passes that work on the executable level: memory planning and its verifier."""
