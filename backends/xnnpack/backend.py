"""The XNNPACK backend: what it declares to the passes of delegation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import Dialect, Operation, SSAValue

from etir.backends.api.interface import (
    Artifact,
    Backend,
    NamedBlob,
    Outlined,
    PartitionSummary,
    PayloadArguments,
    PreservedOp,
)
from etir.backends.api.patterns import Row, operator_of
from etir.backends.api.quantization import QuantizedRow
from etir.backends.xnnpack import schema

if TYPE_CHECKING:
    from etir.interpret.evaluator import Evaluator
    from etir.lowering.build.builder import Builder


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
    computes_on_int8 = True

    def rows(self, options: XnnpackOptions) -> Sequence[Row]:
        from etir.backends.xnnpack.support import float_rows
        from etir.backends.xnnpack.support_quantized import quantized_rows

        return (
            *float_rows(layer_norms=options.layer_norms, enable_bf16=options.enable_bf16),
            *quantized_rows(),
        )

    def quantization_rows(self, options: XnnpackOptions) -> Sequence[QuantizedRow]:
        from etir.backends.xnnpack.quantization import ROWS

        return ROWS

    def preserved_ops(self, options: Any) -> Sequence[PreservedOp]:
        from etir.backends.xnnpack.support import preserved_ops

        return preserved_ops(layer_norms=options.layer_norms)

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

    def event_nodes(self, func: FuncOp, options: Any) -> list[list[Operation]]:
        """The nodes of the blob: its inputs and outputs run nothing."""
        from etir.backends.xnnpack.dialect import InputOp, OutputOp

        return [ops for ops in super().event_nodes(func, options) if not isinstance(ops[0], (InputOp, OutputOp))]

    def as_function(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], name: str
    ) -> tuple[FuncOp, tuple[str, ...]] | None:
        from etir.backends.xnnpack.blob_reader import read_blob
        from etir.backends.xnnpack.text import from_function, to_function

        graph = read_blob(blob, named_data, name)
        if any(not node.kind.runs for node in graph.nodes):
            return None
        function = to_function(graph, name)
        # What text cannot say (values out of the order of their uses) is no reason to refuse a file.
        if from_function(function).canonical() != graph.canonical():
            return None
        return function, tuple(graph.keys())

    def arguments(self, blob: bytes | memoryview) -> PayloadArguments:
        """The graph's external values, of which calls name inputs first."""
        from etir.backends.xnnpack.blob_reader import read_blob

        graph = read_blob(blob)
        return PayloadArguments(len(graph.inputs), len(graph.outputs))

    def lift(
        self,
        blob: bytes | memoryview,
        named_data: Mapping[str, bytes | memoryview],
        builder: Builder,
        inputs: Sequence[SSAValue],
    ) -> list[SSAValue]:
        from etir.backends.xnnpack.blob_reader import read_blob
        from etir.backends.xnnpack.lift import lift

        return lift(read_blob(blob, named_data), builder, inputs)

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Interpret the operators that the graph stands for, made anew for the sizes of each call."""
        from etir.backends.xnnpack.blob_reader import read_blob
        from etir.backends.xnnpack.interpreted import run_graph

        graph = read_blob(blob, named_data)
        return lambda arguments: run_graph(graph, arguments, evaluator)

    def watched(
        self,
        blob: bytes | memoryview,
        named_data: Mapping[str, bytes | memoryview],
        evaluator: Evaluator,
        watch: Callable[[int, Any], Any],
    ) -> Callable[[Sequence[Any]], list[Any]]:
        from etir.backends.xnnpack.blob_reader import read_blob
        from etir.backends.xnnpack.interpreted import run_graph

        graph = read_blob(blob, named_data)
        return lambda arguments: run_graph(graph, arguments, evaluator, watch)

    def lowered_function(
        self, func: FuncOp, weight: Callable[[str], Any], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        """The same for a function of the ``xnn`` dialect."""
        from etir.backends.xnnpack.dialect import ConstantOp, InputOp, NodeOp
        from etir.backends.xnnpack.interpreted import run_graph
        from etir.backends.xnnpack.text import from_function

        if not any(isinstance(op, (ConstantOp, InputOp, NodeOp)) for op in func.body.block.ops):
            return None
        graph = from_function(func)
        return lambda arguments: run_graph(graph, arguments, evaluator)

    def kernels(self, blob: bytes | memoryview) -> tuple[str, ...]:
        from etir.backends.xnnpack.blob_reader import read_blob
        from etir.backends.xnnpack.kernels import kernels_of

        return kernels_of(read_blob(blob))

    def disassemble(self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview]) -> str:
        from etir.backends.xnnpack.text import disassemble

        return disassemble(blob, named_data)


BACKEND = XnnpackBackend()
