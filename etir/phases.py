"""The phases of a compilation, and which of them a module has reached.

A phase is a place to stop (``--compile-to=edge``), to look, or to start again from text. What leads from one to the
next is in ``pipeline.py``; this module loads no pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

PHASES = ("aten", "core", "edge", "backend", "et")
"""In the order in which a program goes through them; the first is what the importer makes."""


def phase_of(module: ModuleOp) -> str:
    """The phase that a module has reached, told by its operations: where its compilation goes on.

    Core ATen is a part of ATen, so such a module starts at ``aten``: what is decomposed already stays as it is.
    """
    from xdsl.dialects.builtin import SymbolRefAttr

    from etir.dialects.et.payloads import DelegateOp

    found = "aten"
    # A program that was imported with blobs in it calls them at every level.
    blobs = [SymbolRefAttr(op.sym_name.data) for op in module.body.block.ops if isinstance(op, DelegateOp)]
    for op in module.walk():
        dialect, _, name = op.name.partition(".")
        if op.name == "et.method":
            return "et"
        if dialect == "backend":
            if name != "call_delegate" or op.properties["callee"] not in blobs:
                found = "backend"
        elif dialect == "edge" and found == "aten":
            found = "edge"
    return found
