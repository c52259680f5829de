"""Passes that make a joint graph of forward and backward update its parameters; they work on the aten level."""
