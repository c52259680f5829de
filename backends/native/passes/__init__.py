"""Passes of the levels ``native`` and ``tile``, one to a file."""
