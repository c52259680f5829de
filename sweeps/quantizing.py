"""Quantized programs as bytes: the module's text and the bytes that it names, for cells that share them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.text import parse_module, print_module

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def module_bytes(module: ModuleOp) -> bytes:
    """The module at whatever level, with its weights."""
    found = {
        a.data.digest: bytes(a.data.data)
        for op in module.walk()
        for a in op.properties.values()
        if isinstance(a, BlobAttr)
    }
    return pickle.dumps({"text": print_module(module, locations=True), "blobs": list(found.values())})


def module_of_bytes(data: bytes) -> ModuleOp:
    """The module again."""
    state = pickle.loads(data)
    blobs = {blob.digest: blob for blob in map(Blob.of, state["blobs"])}
    module = parse_module(state["text"], name="<quantized program>")
    for op in module.walk():
        for attribute in op.properties.values():
            if isinstance(attribute, BlobAttr):
                attribute.data.attach(blobs[attribute.data.digest].data)
    return module
