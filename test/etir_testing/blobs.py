"""The bytes of one module's weights for another one that was read from its text."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.et.weights import Blob, BlobAttr


class Blobs:
    """Supplies the blobs of another module: what a weights file does."""

    path = Path("memory")

    def __init__(self, module: ModuleOp):
        self.blobs = {
            a.data.digest: a.data for op in module.walk() for a in op.properties.values() if isinstance(a, BlobAttr)
        }

    def supply(self, blob: Blob) -> bool:
        """Whether the module has the bytes, which ``blob`` then has, too."""
        known = self.blobs.get(blob.digest)
        if known is not None:
            blob.attach(known.data)
        return known is not None
