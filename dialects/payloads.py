"""The bytes that a module refers to, for whoever writes them beside its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute

from etir.diagnostics import raise_if_errors
from etir.dialects.dtypes import ui8
from etir.dialects.errors import E0201
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.weights import Blob, BlobAttr, WeightFile
from etir.dialects.text import source_location

Payload = tuple[str, TensorType[Attribute], Blob]
"""Name, type and bytes: what ``write_weight_file`` takes."""


def payloads(module: ModuleOp) -> Iterator[Payload]:
    """Every payload of ``module`` whose bytes are there, under the name of its symbol or key (made unique).

    What is no tensor (a delegate's bytes) has a type of as many ``ui8``.
    """
    names: dict[str, None] = {}
    for op in module.body.block.ops:
        for attribute in op.properties.values():
            if not isinstance(attribute, BlobAttr) or not attribute.data.has_data:
                continue
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
    """Raises error E0201, with one diagnostic for every weight, state and blob whose bytes are not there."""
    missing = [
        E0201.diagnostic(
            f"{op.name} @{symbol.data if isinstance(symbol, StringAttr) else ''}: the {attribute.data.size} bytes with "
            f"digest {attribute.data.digest} are not loaded",
            location=source_location(op.location),
        )
        for op in module.body.block.ops
        for attribute in op.properties.values()
        if isinstance(attribute, BlobAttr) and not attribute.data.has_data
        for symbol in (op.properties.get("sym_name") or op.properties.get("key"),)
    ]
    raise_if_errors(missing)


def loose_payloads(module: ModuleOp, files: Iterable[WeightFile]) -> list[Payload]:
    """The payloads that none of ``files`` has: what passes have made."""
    files = list(files)
    return [payload for payload in payloads(module) if not any(payload[2] in file for file in files)]
