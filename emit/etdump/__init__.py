"""ETDump (``.etdp``), ExecuTorch's format of profiles and values of runs. Model, reader, writer."""

from etir.emit.etdump.reader import read_etdump
from etir.emit.etdump.values import value_bytes
from etir.emit.etdump.writer import write_etdump

__all__ = ["read_etdump", "value_bytes", "write_etdump"]
