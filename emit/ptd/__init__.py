"""The ``.ptd`` format (FlatTensor): weights by name, outside of the program. Model, writer, reader, rules."""

from etir.emit.ptd.reader import read_ptd
from etir.emit.ptd.validate import validate_flat_tensor
from etir.emit.ptd.writer import ptd_parts, write_ptd

__all__ = ["ptd_parts", "read_ptd", "validate_flat_tensor", "write_ptd"]
