"""The XNNPACK backend: what it declares to the passes of delegation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Dialect

from etir.backends.api.interface import Artifact, Backend, NamedBlob, Outlined, PartitionSummary, PreservedOp
from etir.backends.api.patterns import Row, operator_of
from etir.backends.xnnpack import schema


@dataclass(frozen=True)
class XnnpackOptions:
    """``layer_norms`` claims layer norms too, each decomposed into about nine nodes: fewer delegates, and slower on
    short sequences than the target's kernel. ``enable_bf16`` claims the operators on bfloat16 that the runtime has.
    """

    layer_norms: bool = False
    enable_bf16: bool = False


class XnnpackBackend(Backend):
    """Delegates to XNNPACK as ExecuTorch's runtime embeds it."""

    name = "xnnpack"
    runtime_id = schema.BACKEND_ID
    version = schema.IDENTIFIER.decode()
    Options = XnnpackOptions
    dialect_name = "xnn"

    def rows(self, options: XnnpackOptions) -> Sequence[Row]:
        from etir.backends.xnnpack.support import float_rows
        from etir.backends.xnnpack.support_quantized import quantized_rows

        return (
            *float_rows(layer_norms=options.layer_norms, enable_bf16=options.enable_bf16),
            *quantized_rows(),
        )

    def preserved_ops(self, options: Any) -> Sequence[PreservedOp]:
        from etir.backends.xnnpack.support import preserved_ops

        return preserved_ops()

    def decline(self, partition: PartitionSummary, options: Any) -> str | None:
        from etir.backends.xnnpack.support import VIEWS

        if all(operator_of(op) in VIEWS for op in partition.ops):
            return "views only, which need no instruction outside of a delegate"
        return None

    def dialect(self) -> Dialect:
        from etir.backends.xnnpack.dialect import xnn_dialect

        return xnn_dialect()

    def legalize(self, outlined: Outlined, options: Any) -> None:
        from etir.backends.xnnpack.legalize.emitter import Emitter
        from etir.backends.xnnpack.legalize.quantized import quantized_scale
        from etir.backends.xnnpack.legalize.registry import LEGALIZERS

        Emitter(outlined).run(LEGALIZERS, quantized_scale)
        self.check_legal(outlined)

    def preprocess(self, outlined: Outlined, options: Any) -> Artifact:
        from etir.backends.xnnpack.blob_writer import write_blob
        from etir.backends.xnnpack.text import from_function

        blob, named = write_blob(from_function(outlined.func))
        return Artifact(blob, {key: NamedBlob(data.data, schema.ALIGNMENT) for key, data in named.items()})

    def disassemble(self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview]) -> str:
        from etir.backends.xnnpack.text import disassemble

        return disassemble(blob, named_data)


BACKEND = XnnpackBackend()
