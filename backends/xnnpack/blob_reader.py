"""Reads an XNNPACK blob into a graph. The bytes are not trusted: every mistake is an error that says where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, cast

from etir.backends.errors import E1103, E1108
from etir.backends.xnnpack import schema
from etir.backends.xnnpack.datatypes import BY_NUMBER
from etir.backends.xnnpack.graph import (
    Constant,
    Graph,
    Node,
    PerBlock,
    PerChannel,
    PerTensor,
    PerToken,
    Quantization,
    Value,
)
from etir.diagnostics import SourceLocation
from etir.dialects.et.weights import Blob
from etir.emit.flatbuffer.view import View
from etir.emit.formats.buffers import Buffer

_MAX_BYTES = 1 << 62


def read_blob(data: Buffer, named: Mapping[str, Buffer] | None = None, name: str = "<xnnpack>") -> Graph:
    """The graph of a blob; ``named`` has the program's named data, without which named constants have no bytes.

    Raises E1108 when ``data`` is no XNNPACK blob, E1103 for another version, E1108 when it contradicts itself, and
    E0804 to E0813 for a damaged FlatBuffer.
    """
    return _Reader(memoryview(data).cast("B"), named, name).read()


class _Reader:
    def __init__(self, data: memoryview, named: Mapping[str, Buffer] | None, name: str):
        location = SourceLocation(name)
        header = schema.HEADER
        if len(data) < header.size or data[4:8] != schema.MAGIC:
            raise E1108.error(f"expected the magic {schema.MAGIC!r} at byte 4, found {bytes(data[4:8])!r}", location)
        _, _, length, start, size, constants, constants_size = header.unpack_from(data)
        if length < header.size:
            raise E1108.error(f"the header says that it has {length} bytes, expected {header.size}", location)
        if start + size > len(data) or size < 8:
            raise E1108.error(f"the graph at byte {start} has {size} bytes, the blob {len(data)}", location)
        if constants_size and constants + constants_size > len(data):
            raise E1108.error(
                f"the constants at byte {constants} have {constants_size} bytes, the blob {len(data)}", location
            )
        flatbuffer = data[start : start + size]
        self.identifier = bytes(flatbuffer[4:8])
        if self.identifier not in schema.KNOWN_IDENTIFIERS:
            raise E1103.error(f"expected the identifier XN00 or XN01, found {self.identifier!r}", location)
        self.view = View(flatbuffer, len(flatbuffer), name)
        self.inline = data[constants : constants + constants_size]
        self.named = named
        self.constants: list[tuple[int, int, str | None]] = []
        self.known: dict[int, Constant] = {}

    def fail(self, position: int, message: str) -> NoReturn:
        """Raise E1108 about the table at ``position`` of the FlatBuffer."""
        self.view.fail(E1108, position, message)

    def read(self) -> Graph:
        view = self.view
        root = view.root(self.identifier, "an XNNPACK graph")
        row = view.row(root, schema.GRAPH)
        fields = dict(zip(schema.GRAPH.slots, row, strict=True))
        for position in view.tables(fields["constant_data"], "constant_data"):
            offset, size, key = view.row(position, schema.CONSTANT_DATA)
            self.constants.append((offset, size, view.string(key, "named_key") if key else None))
        values: list[Value] = []
        externals: dict[int, tuple[int, int]] = {}
        positions = view.tables(fields["xvalues"], "xvalues")
        for index, position in enumerate(positions):
            value, number, external, flags = self.value(position)
            if number != index:
                self.fail(position, f"value {index} has the id {number}, expected its place in the list")
            values.append(value)
            if external != schema.INVALID_ID:
                if external in externals or external >= fields["num_externs"]:
                    self.fail(
                        position,
                        f"value {index} has the external id {external}, which is taken or not below "
                        f"{fields['num_externs']}",
                    )
                externals[external] = (index, flags)
        nodes = [self.node(position, len(values)) for position in view.tables(fields["xnodes"], "xnodes")]
        order = [externals[key] for key in sorted(externals)]
        inputs = tuple(index for index, flags in order if flags & schema.EXTERNAL_INPUT)
        outputs = tuple(index for index, flags in order if flags & schema.EXTERNAL_OUTPUT)
        for what, found in (("input_ids", inputs), ("output_ids", outputs)):
            listed = view.scalars(fields[what], "I", what)
            if sorted(listed) != sorted(found):
                self.fail(root, f"'{what}' lists {list(listed)}, the values' flags say {list(found)}")
        return Graph(tuple(values), tuple(nodes), inputs, outputs)

    def constant(self, index: int, position: int) -> Constant:
        if index in self.known:
            return self.known[index]
        if index >= len(self.constants):
            self.fail(position, f"constant {index} is not among the {len(self.constants)} of the graph")
        offset, size, key = self.constants[index]
        if size > _MAX_BYTES:
            self.fail(position, f"constant {index} has {size} bytes")
        if key is not None:
            constant = Constant(size, key, self.named_bytes(key, size, position))
        else:
            if offset + size > len(self.inline):
                self.fail(
                    position,
                    f"constant {index} ends at byte {offset + size} of {len(self.inline)} bytes of constants",
                )
            constant = Constant(size, None, Blob.of(self.inline[offset : offset + size]))
        self.known[index] = constant
        return constant

    def named_bytes(self, key: str, size: int, position: int) -> Blob | None:
        if self.named is None or key not in self.named:
            return None
        data = memoryview(self.named[key]).cast("B")
        if len(data) < size:
            self.fail(position, f"the named data '{key}' has {len(data)} bytes, {size} are needed")
        return Blob.of(data[:size])

    def value(self, position: int) -> tuple[Value, int, int, int]:
        view = self.view
        tag, table = view.row(position, schema.VALUE)
        params = quantization = 0
        if tag == schema.QUANTIZED_TENSOR:
            table = view.required([tag, table], schema.VALUE, 1, position)
            table, params, quantization = view.row(table, schema.QUANTIZED_VALUE)
        elif tag != schema.PLAIN_TENSOR:
            self.fail(position, f"there is no kind {tag} of values")
        if not table:
            self.fail(position, "this value has no tensor")
        row = view.row(table, schema.TENSOR_VALUE)
        number, count, dims_at, constant, external, flags, index = row
        if number not in BY_NUMBER:
            self.fail(table, f"there is no datatype {number}")
        dims = view.scalars(dims_at, "I", "dims")
        if len(dims) != count or count > schema.MAX_DIMS:
            self.fail(table, f"a value with {count} dims lists {len(dims)}; at most {schema.MAX_DIMS} are possible")
        scales = self.quantization(params, quantization, position) if params else None
        bytes_of = self.constant(constant, table) if constant else None
        return Value(BY_NUMBER[number], cast("tuple[int, ...]", dims), bytes_of, scales), index, external, flags

    def quantization(self, tag: int, table: int, position: int) -> Quantization:
        view = self.view
        if tag not in schema.QUANT_PARAMS or not table:
            self.fail(position, f"there is no kind {tag} of quantization")
        row = dict(zip(schema.QUANT_PARAMS[tag].slots, view.row(table, schema.QUANT_PARAMS[tag]), strict=True))
        if tag == 2:
            return PerTensor(row["scale"], row["zero_point"])
        if tag == 3:
            return PerToken(row["num_nonbatch_dims"])
        scales: Constant | tuple[float, ...] = view.scalars(row["scale"], "f", "scale")
        if row["scale_buffer_idx"]:
            scales = self.constant(row["scale_buffer_idx"], table)
            count = row["num_scales"]
        else:
            count = len(scales)
        if tag == 1:
            return PerChannel(row["channel_dim"], scales, count)
        return PerBlock(row["channel_dim"], row["group_size"], scales, count)

    def node(self, position: int, values: int) -> Node:
        view = self.view
        number, table, handle, clamp = view.row(position, schema.NODE)
        kind = schema.NODE_BY_NUMBER.get(number)
        if kind is None or not table:
            self.fail(position, f"there is no kind {number} of nodes")
        row = dict(zip(kind.table.slots, view.row(table, kind.table), strict=True))

        def checked(slot: str) -> int:
            if row[slot] >= values:
                self.fail(table, f"'{slot}' of a {kind.name} is value {row[slot]} of {values}")
            return row[slot]

        operands = tuple(
            None if slot in kind.optional and row[slot] == schema.INVALID_ID else checked(slot)
            for slot in kind.operands
        )
        outputs = tuple(checked(slot) for slot in kind.outputs)
        attributes: dict[str, int | float | tuple[int, ...]] = {}
        for name in kind.attributes:
            attributes[name] = view.scalars(row[name], "I", name) if name in kind.lists else row[name]
        if "num_dims" in row:
            first = attributes[kind.lists[0]]
            if isinstance(first, tuple) and len(first) != row["num_dims"]:
                self.fail(table, f"a {kind.name} of {row['num_dims']} dims lists {len(first)}")
        bounds = None
        if clamp:
            low, high = cast("tuple[float, float]", tuple(view.row(clamp, schema.OUTPUT_MIN_MAX)))
            bounds = (low, high)
        return Node(kind, operands, outputs, attributes, bounds, handle)
