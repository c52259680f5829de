"""Writes a graph as an XNNPACK blob: header, FlatBuffer, constants that are inside.

Constants with a key are not in the blob: they go into the program's named data, where equal ones of all delegates are
stored once. The same graph gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from etir.backends.xnnpack import schema
from etir.backends.xnnpack.errors import E1150
from etir.backends.xnnpack.graph import Constant, Graph, Node, PerBlock, PerChannel, PerTensor, PerToken, Value
from etir.dialects.et.weights import Blob
from etir.emit.flatbuffer.builder import Builder
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.checks import align_up


def write_blob(graph: Graph) -> tuple[bytes, dict[str, Blob]]:
    """The bytes of ``graph``, and the named data that they refer to, in the order of first use.

    Raises E1150 for what the format cannot say (too many inputs and outputs, a value that is both, equal keys with
    different bytes), and for nodes that the runtime does not implement.
    """
    return _Writer(graph).write()


class _Writer:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.builder = Builder()
        self.named: dict[str, Blob] = {}
        self.constants: dict[Constant, int] = {}
        self.inline: list[Buffer] = []
        self.inline_size = 0
        externals = (*graph.inputs, *graph.outputs)
        self.external_id = {value: i for i, value in enumerate(externals)}
        if len(self.external_id) != len(externals):
            twice = next(v for i, v in enumerate(externals) if v in externals[:i])
            raise E1150.error(f"value {twice} is more than one input or output; copy it for each of them")
        unknown = next((node.kind.name for node in graph.nodes if not node.kind.runs), None)
        if unknown is not None:
            raise E1150.error(f"the runtime does not implement {unknown}, though the format has it")
        if len(externals) > schema.MAX_EXTERNALS:
            raise E1150.error(
                f"the graph has {len(externals)} inputs and outputs, a delegate takes {schema.MAX_EXTERNALS}"
            )

    def write(self) -> tuple[bytes, dict[str, Blob]]:
        builder, graph = self.builder, self.graph
        # Entry 0 of the constants stands for "not constant"; the runtime never reads it.
        entries: list[tuple[int, int, str | None]] = [(0, 0, None)]
        values = [self.value(i, value, entries) for i, value in enumerate(graph.values)]
        nodes = [self.node(node) for node in graph.nodes]
        data = [
            builder.table(schema.CONSTANT_DATA, (offset, size, 0 if key is None else builder.string(key)))
            for offset, size, key in entries
        ]
        root = builder.table(
            schema.GRAPH,
            (
                builder.string(schema.VERSION),
                builder.tables(nodes),
                builder.tables(values),
                len(self.external_id),
                builder.scalars("I", graph.inputs),
                builder.scalars("I", graph.outputs),
                0,
                0,
                builder.tables(data),
            ),
        )
        flatbuffer = b"".join(builder.finish(root, schema.IDENTIFIER))
        constants_at = align_up(schema.HEADER_BYTES + len(flatbuffer), schema.ALIGNMENT)
        header = schema.HEADER.pack(
            0, schema.MAGIC, schema.HEADER.size, schema.HEADER_BYTES, len(flatbuffer), constants_at, self.inline_size
        )
        parts = [header.ljust(schema.HEADER_BYTES, b"\0"), flatbuffer]
        parts.append(bytes(constants_at - schema.HEADER_BYTES - len(flatbuffer)))
        return b"".join((*parts, *self.inline)), self.named

    def constant(self, constant: Constant) -> tuple[int, int, str | None]:
        """The entry of a constant; its bytes are noted."""
        if constant.key is None:
            if constant.data is None:
                raise E1150.error(f"the {constant.size} bytes of a constant inside the blob are not loaded")
            offset = self.inline_size
            padded = align_up(constant.size, schema.ALIGNMENT)
            self.inline += (constant.data.data, bytes(padded - constant.size))
            self.inline_size += padded
            return offset, constant.size, None
        if constant.data is not None and self.named.setdefault(constant.key, constant.data) != constant.data:
            raise E1150.error(f"the key '{constant.key}' names different bytes in one graph")
        return schema.NAMED, constant.size, constant.key

    def constant_index(self, constant: Constant | None, entries: list[tuple[int, int, str | None]]) -> int:
        """The index of a constant's entry, made at its first use; 0 for none."""
        if constant is None:
            return 0
        known = self.constants.get(constant)
        if known is None:
            known = self.constants[constant] = len(entries)
            entries.append(self.constant(constant))
        return known

    def value(self, index: int, value: Value, entries: list[tuple[int, int, str | None]]) -> int:
        builder = self.builder
        external = self.external_id.get(index, schema.INVALID_ID)
        flags = 0
        if external != schema.INVALID_ID:
            flags = schema.EXTERNAL_INPUT if external < len(self.graph.inputs) else schema.EXTERNAL_OUTPUT
        tensor = builder.table(
            schema.TENSOR_VALUE,
            (
                value.datatype.number,
                len(value.dims),
                builder.scalars("I", value.dims),
                self.constant_index(value.constant, entries),
                external,
                flags,
                index,
            ),
        )
        if value.quantization is None:
            return builder.table(schema.VALUE, (schema.PLAIN_TENSOR, tensor))
        tag, params = self.quantization(value, entries)
        quantized = builder.table(schema.QUANTIZED_VALUE, (tensor, tag, params))
        return builder.table(schema.VALUE, (schema.QUANTIZED_TENSOR, quantized))

    def quantization(self, value: Value, entries: list[tuple[int, int, str | None]]) -> tuple[int, int]:
        builder = self.builder
        match value.quantization:
            case PerTensor(scale, zero_point):
                return 2, builder.table(schema.PER_TENSOR, (scale, zero_point))  # type: ignore[arg-type]
            case PerToken(nonbatch_dims):
                return 3, builder.table(schema.PER_TOKEN, (nonbatch_dims,))
            case PerChannel(channel_dim, scales, count):
                numbers, index = self.scales(scales, entries)
                return 1, builder.table(schema.PER_CHANNEL, (numbers, channel_dim, index, count))
            case PerBlock(channel_dim, block_size, scales, count):
                numbers, index = self.scales(scales, entries)
                return 4, builder.table(schema.PER_BLOCK, (numbers, channel_dim, block_size, 0, index, count))
            case None:
                raise AssertionError("a value without quantization has no parameters")

    def scales(self, scales: Constant | Sequence[float], entries: list[tuple[int, int, str | None]]) -> tuple[int, int]:
        """The vector of scales (it has to be there, even empty) and the index of the constant that holds them."""
        if isinstance(scales, Constant):
            return self.builder.scalars("f", ()), self.constant_index(scales, entries)
        return self.builder.scalars("f", scales), 0

    def node(self, node: Node) -> int:
        builder, kind = self.builder, node.kind
        fields: dict[str, int | float] = {}
        for slot, operand in zip(kind.operands, node.operands, strict=True):
            fields[slot] = schema.INVALID_ID if operand is None else operand
        fields.update(zip(kind.outputs, node.outputs, strict=True))
        for name in kind.attributes:
            attribute = node.attributes[name]
            if isinstance(attribute, tuple):
                fields[name] = builder.scalars("I", attribute)
            else:
                fields[name] = attribute
        if kind.lists and "num_dims" in kind.table.slots:
            first = node.attributes[kind.lists[0]]
            assert isinstance(first, tuple)
            fields["num_dims"] = len(first)
        table = builder.table(kind.table, tuple(fields.get(slot, 0) for slot in kind.table.slots))  # type: ignore[misc]
        clamp = 0
        if node.clamp is not None:
            clamp = builder.table(schema.OUTPUT_MIN_MAX, node.clamp)  # type: ignore[arg-type]
        return builder.table(schema.NODE, (kind.number, table, node.debug_handle, clamp))
