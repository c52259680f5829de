"""The bytes that a module refers to, for whoever writes them beside its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import ui8
from etir.dialects.errors import E0201
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.weights import Blob, BlobAttr, WeightFile, searched_notes
from etir.dialects.text import source_location

NAMED_MISSING = 4
"""How many of the weights that are missing a message names."""

Payload = tuple[str, TensorType[Attribute], Blob]
"""Name, type and bytes: what ``write_weight_file`` takes."""


def payloads(module: ModuleOp) -> Iterator[Payload]:
    """Every payload of ``module`` whose bytes are there, under the name of its symbol or key (made unique).

    What is no tensor (a delegate's bytes, a constant of its graph) has a type of as many ``ui8``. Constants of several
    graphs that have the same bytes are there once.
    """
    names: dict[str, None] = {}
    inside: dict[Blob, None] = {}
    for op in module.walk():
        for attribute in op.properties.values():
            if not isinstance(attribute, BlobAttr) or not attribute.data.has_data:
                continue
            if op.parent is not module.body.block:
                if attribute.data in inside:
                    continue
                inside[attribute.data] = None
            symbol = op.properties.get("sym_name") or op.properties.get("key")
            name = wanted = symbol.data if isinstance(symbol, StringAttr) else op.name
            count = 0
            while name in names:
                count += 1
                name = f"{wanted}.{count}"
            names[name] = None
            type = op.properties.get("type")
            if not isinstance(type, TensorType):
                type = tensor_type(ui8, (attribute.data.size,))
            yield name, type, attribute.data


def require_payloads(module: ModuleOp) -> None:
    """Raises error E0201, one for all weights, states and blobs whose bytes are not there."""
    missing = [
        (f"@{symbol.data}" if isinstance(symbol, StringAttr) else op.name, op, attribute.data)
        for op in module.walk()
        for attribute in op.properties.values()
        if isinstance(attribute, BlobAttr) and not attribute.data.has_data
        for symbol in (op.properties.get("sym_name") or op.properties.get("key"),)
    ]
    if not missing:
        return
    (first, op, blob), count = missing[0], len(missing)
    searched = tuple(dict.fromkeys(file for _, _, blob in missing for file in blob.searched))
    if count == 1:
        message = f"{op.name} {first}: the {blob.size} bytes with digest {blob.digest} are not loaded"
    else:
        names = ", ".join(name for name, _, _ in missing[:NAMED_MISSING])
        rest = f" and {count - NAMED_MISSING} more" if count > NAMED_MISSING else ""
        size = sum({blob: blob.size for _, _, blob in missing}.values())
        message = f"the bytes of {count} weights are not loaded ({size} bytes): {names}{rest}"
    raise E0201.error(message, source_location(op.location), notes=searched_notes(searched))


def loose_payloads(module: ModuleOp, files: Iterable[WeightFile]) -> list[Payload]:
    """The payloads that none of ``files`` has: what passes have made."""
    files = list(files)
    return [payload for payload in payloads(module) if not any(payload[2] in file for file in files)]
