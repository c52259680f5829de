"""The rules that a ``.ptd`` file has to follow; the reader and the writer both check them.

The runtime takes most of a ``.ptd`` file on trust. In particular it reads as many bytes as the layout says, whatever
the size of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from etir.diagnostics import Diagnostic, SourceLocation
from etir.emit.errors import E0814, E0825, E0828, E0835, E0836, E0850
from etir.emit.formats.buffers import buffer_bytes
from etir.emit.formats.checks import is_alignment, name_error, quoted, text_error
from etir.emit.formats.shape import shape_error
from etir.emit.ptd.model import FlatTensor
from etir.emit.ptd.schema import VERSION

MAX_DIAGNOSTICS = 64


def validate_flat_tensor(
    flat_tensor: FlatTensor, *, file: str | None = None, position_of: Callable[[int], int] | None = None
) -> list[Diagnostic]:
    """Everything that is wrong with ``flat_tensor``, at most :data:`MAX_DIAGNOSTICS` errors.

    ``file`` names the file that was read, ``position_of`` gives the byte position of the n-th entry.
    """
    location = None if file is None else SourceLocation(file)
    return [diagnostic.at(location) for diagnostic in islice(_check(flat_tensor, position_of), MAX_DIAGNOSTICS)]


def _check(flat_tensor: FlatTensor, position_of: Callable[[int], int] | None) -> Iterator[Diagnostic]:
    if flat_tensor.version != VERSION:
        yield E0814.diagnostic(f"schema version {flat_tensor.version} is not {VERSION}")
    if not is_alignment(flat_tensor.segment_alignment):
        yield E0836.diagnostic(f"segment_alignment {flat_tensor.segment_alignment} is not a power of two up to 2^20")
    for index, (key, named) in enumerate(flat_tensor.named_data.items()):
        where = f"named data {quoted(key)}"
        suffix = "" if position_of is None else f" (at byte {(at := position_of(index))}, 0x{at:x})"
        if (problem := name_error(key)) is not None:
            yield E0828.diagnostic(f"the key of {where} {problem}{suffix}")
        elif (problem := text_error(key)) is not None:
            yield E0835.diagnostic(f"the key of {where} {problem}{suffix}")
        if not is_alignment(named.alignment):
            yield E0836.diagnostic(f"{where}: alignment {named.alignment} is not a power of two up to 2^20")
        if (layout := named.tensor_layout) is None:
            continue
        if (problem := shape_error(layout.scalar_type, layout.sizes, layout.dim_order)) is not None:
            yield E0825.diagnostic(f"{where}: {problem}{suffix}")
        elif layout.nbytes != (size := buffer_bytes(named.data)):
            yield E0850.diagnostic(
                f"{where}: {layout.scalar_type.name} of sizes {list(layout.sizes)} has {layout.nbytes} bytes, "
                f"the data {size}{suffix}"
            )
