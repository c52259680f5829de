"""`disassemble-delegates`: blobs become functions in the dialects of their backends, for people and for passes.

Before::

    et.named_data "8f43..." = #et.blob<"sha256:8f43...", 128> align 16
    et.delegate @delegate_0 "XnnpackBackend" = #et.blob<"sha256:51ab...", 712>

After::

    func.func private @delegate_0(%0: !xnn.tensor<1x8xfp32>) -> !xnn.tensor<1x4xfp32>
        attributes {backend.delegate = "xnnpack", backend.legal} {
      %1 = xnn.constant "8f43..." = #et.blob<"sha256:8f43...", 128> : !xnn.tensor<4x8xfp32>
      ...

Calls keep the symbol that they name, and `lower-delegates` makes the blob again. A blob stays one where its backend has
no such form (`Backend.as_function`), and where it comes with compile specs, of which a function says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.registry import backend_of_runtime_id, register_dialect
from etir.dialects.context import EtContext
from etir.dialects.et.payloads import DelegateOp, NamedDataOp
from etir.passes.delegation.attributes import DELEGATE, INLINE, LEGAL
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class DisassembleDelegatesPass(Pass):
    """Turn the blobs of delegates into functions, where their backends can."""

    name = "disassemble-delegates"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1103 and E1108 for blobs of another version and broken ones, where a backend reads them."""
        blobs = [op for op in module.body.block.ops if isinstance(op, DelegateOp)]
        entries = {op.key.data: op for op in module.body.block.ops if isinstance(op, NamedDataOp)}
        named = {key: op.value.data.data for key, op in entries.items()}
        inside: dict[str, None] = {}
        remain = False
        for op in blobs:
            backend = None if op.compile_specs else backend_of_runtime_id(op.backend.data)
            found = None if backend is None else backend.as_function(op.value.data.data, named, op.sym_name.data)
            if backend is None or found is None:
                remain = True
                continue
            register_dialect(ctx, backend.dialect_name)
            function, keys = found
            function.attributes |= {DELEGATE: StringAttr(backend.name), LEGAL: UnitAttr()}
            if op.inline is not None:
                function.attributes[INLINE] = UnitAttr()
            function.properties["sym_visibility"] = StringAttr("private")
            function.location = op.location
            Rewriter.insert_op(function, InsertPoint.before(op))
            Rewriter.erase_op(op)
            inside.update(dict.fromkeys(keys))
        for key in inside:
            # A blob that stays may look for the same data.
            if key in entries and not remain:
                Rewriter.erase_op(entries[key])
