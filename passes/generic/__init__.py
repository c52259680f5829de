"""Passes that work on every level above the executable one: they know operations by their traits and schemas."""
