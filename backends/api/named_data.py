"""Data that delegates look up by name, in the module once whichever delegate asks for it."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr

from etir.backends.api.interface import NamedBlob
from etir.backends.errors import E1111
from etir.dialects.et.payloads import NamedDataOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.literals import int_attr

EXTERNAL = "external"
"""Attribute of ``et.named_data``, as of weights: the name of the ``.ptd`` file that holds it."""


def add_named_data(named: dict[str, NamedDataOp], key: str, item: NamedBlob, delegate: str) -> NamedDataOp | None:
    """Let ``delegate`` use ``item`` under ``key``: returns a new operation, which is then in ``named``, or None where
    there is one already, whose alignment becomes the larger one. Raises E1111 when it has other bytes.
    """
    data = Blob.of(memoryview(item.data))
    known = named.get(key)
    if known is None:
        named[key] = NamedDataOp(key, BlobAttr(data), item.alignment)
        if item.external:
            named[key].attributes[EXTERNAL] = StringAttr(item.external)
        return named[key]
    if known.value.data != data:
        raise E1111.error(f"@{delegate} gives {data.size} bytes as '{key}', which other delegates gave other bytes for")
    alignment = 1 if known.alignment is None else known.alignment.value.data
    if item.alignment > alignment:
        known.alignment = int_attr(item.alignment)
    return None
