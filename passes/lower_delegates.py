"""`lower-delegates`: outlined functions become the blobs that their backends run.

Before::

    func.func private @forward_xnnpack_0(%x: ...) -> ... attributes {backend.delegate = "xnnpack"} { ... }

After::

    et.named_data "8f43..." = #et.blob<"sha256:8f43...", 128> align 16
    et.delegate @forward_xnnpack_0 "XnnpackBackend" = #et.blob<"sha256:51ab...", 712>

Calls keep the symbol that they name; `to-out-variant` turns them into delegate calls. Named data with equal keys is in
the module once, whichever delegate asks for it, and has to be equal. What a delegate takes of the memory of etir's
runtime is an attribute of its ``et.delegate``, for the memory report. Functions of equal content give equal blobs,
which share a segment of the file.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.errors import E1111
from etir.backends.interface import Artifact, NamedBlob
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.context import EtContext
from etir.dialects.et.executable import DelegateOp, NamedDataOp
from etir.dialects.et.program import StateOp, WeightOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.literals import int_attr
from etir.passes.base import Pass
from etir.passes.legalize_delegates import outlined_functions

EXTERNAL = "external"
"""Attribute of ``et.named_data``, as of weights: the name of the ``.ptd`` file that holds it."""
MEMORY = "memory"
"""Attribute of ``et.delegate``: bytes of method memory on 64-bit and on 32-bit machines, and of temporary memory."""


@dataclass(frozen=True)
class LowerDelegatesPass(Pass):
    """Let every backend write the blobs of its outlined functions.

    ``inline`` keeps blobs in the program's FlatBuffer instead of in segments of their own.
    """

    name = "lower-delegates"
    inline: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1111 for named data that differs under one key, and what backends raise themselves."""
        named: dict[str, NamedDataOp] = {op.key.data: op for op in module.body.block.ops if isinstance(op, NamedDataOp)}
        called = dict.fromkeys(op.callee.root_reference.data for op in module.walk() if isinstance(op, CallDelegateOp))
        for delegate, outlined in outlined_functions(ctx, module):
            if outlined.name not in called:
                Rewriter.erase_op(outlined.func)
                continue
            artifact = delegate.backend.preprocess(outlined, delegate.options)
            point = InsertPoint.before(outlined.func)
            for key, item in artifact.named_data.items():
                known = named.get(key)
                data = Blob.of(memoryview(item.data))
                if known is None:
                    named[key] = NamedDataOp(key, BlobAttr(data), item.alignment)
                    if item.external:
                        named[key].attributes[EXTERNAL] = StringAttr(item.external)
                    Rewriter.insert_op(named[key], point)
                else:
                    _join(known, key, item, data, outlined.name)
            Rewriter.insert_op(self._delegate(outlined.name, delegate.runtime_id, artifact), point)
            Rewriter.erase_op(outlined.func)
        if called:
            _drop_unused(module)

    def _delegate(self, name: str, runtime_id: str, artifact: Artifact) -> DelegateOp:
        op = DelegateOp(
            name,
            runtime_id,
            BlobAttr(Blob.of(memoryview(artifact.blob))),
            artifact.specs,
            inline=self.inline or artifact.inline,
        )
        if artifact.method_memory or artifact.temp_memory:
            op.attributes[MEMORY] = ArrayAttr(
                [int_attr(n) for n in (artifact.method_memory, artifact.method_memory_32, artifact.temp_memory)]
            )
        return op


def _join(known: NamedDataOp, key: str, item: NamedBlob, data: Blob, name: str) -> None:
    """Let a delegate use named data that is there. Raises E1111 when it is not the same."""
    if known.value.data != data:
        raise E1111.error(f"@{name} gives {data.size} bytes as '{key}', which other delegates gave other bytes for")
    alignment = 1 if known.alignment is None else known.alignment.value.data
    if item.alignment > alignment:
        known.alignment = int_attr(item.alignment)


def _drop_unused(module: ModuleOp) -> None:
    """Erase the weights and states that only the delegates read: they are in the blobs now."""
    used = {}
    for op in module.walk():
        symbol = op.properties.get("symbol")
        if symbol is not None:
            used[symbol.root_reference.data] = None  # type: ignore[attr-defined]
    for op in list(module.body.block.ops):
        if isinstance(op, (WeightOp, StateOp)) and op.sym_name.data not in used:
            Rewriter.erase_op(op)
