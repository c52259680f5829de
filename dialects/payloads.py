"""The bytes that a module refers to, for whoever writes them beside its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import ui8
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.weights import Blob, BlobAttr, WeightFile

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


def loose_payloads(module: ModuleOp, files: Iterable[WeightFile]) -> list[Payload]:
    """The payloads that none of ``files`` has: what passes have made."""
    files = list(files)
    return [payload for payload in payloads(module) if not any(payload[2] in file for file in files)]
