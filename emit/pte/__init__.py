"""The ``.pte`` program format: model, writer, reader and the rules that both check.

``model`` is the program as plain data, ``schema`` the tables of the file, ``validate`` the runtime's rules.
"""

from etir.emit.pte.reader import read_pte
from etir.emit.pte.validate import validate_program
from etir.emit.pte.writer import pte_parts, write_pte

__all__ = ["pte_parts", "read_pte", "validate_program", "write_pte"]
