"""Bundled programs (``.bpte``): a program with inputs for its methods and what they give. Model, reader, writer."""

from etir.emit.bundled.reader import is_bundled, read_bundled
from etir.emit.bundled.writer import write_bundled

__all__ = ["is_bundled", "read_bundled", "write_bundled"]
