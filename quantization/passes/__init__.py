"""Passes that quantize, one to a file."""
