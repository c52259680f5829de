"""A graph as a function of the ``xnn`` dialect, and back; blobs as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from etir.backends.errors import E1108
from etir.backends.xnnpack.blob_reader import read_blob
from etir.backends.xnnpack.dialect import NODE_OPS, ConstantOp, InputOp, NodeOp, OutputOp
from etir.backends.xnnpack.errors import E1150
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
from etir.backends.xnnpack.shapes import result_dims
from etir.backends.xnnpack.types import TensorInfo, XnnTensorType, info_error, xnn_type
from etir.dialects.et.weights import BlobAttr
from etir.dialects.text import print_module, source_location
from etir.emit.formats.buffers import Buffer


def disassemble(data: Buffer, named: Mapping[str, Buffer] | None = None, name: str = "delegate") -> str:
    """The text of a blob: one function named ``name``. Raises what :func:`read_blob` raises."""
    return print_module(ModuleOp([to_function(read_blob(data, named), name)]))


def to_function(graph: Graph, name: str) -> FuncOp:
    """The graph as a function; constants stand before their first use. Raises E1108 when values do not fit."""
    types = [_type_of(i, value) for i, value in enumerate(_with_dims_of_nodes(graph))]
    block = Block(arg_types=[types[i] for i in graph.inputs])
    values: dict[int, SSAValue] = dict(zip(graph.inputs, block.args, strict=True))
    for node in graph.nodes:
        operands: list[SSAValue | None] = []
        for index in node.operands:
            if index is None:
                operands.append(None)
                continue
            if index not in values:
                values[index] = _constant(block, graph.values[index], types[index], index)
            operands.append(values[index])
        op = NODE_OPS[node.kind.name].make(
            operands, [types[i] for i in node.outputs], node.attributes, clamp=node.clamp, handle=node.debug_handle
        )
        block.add_op(op)
        values.update(zip(node.outputs, op.results, strict=True))
    for index in graph.outputs:
        if index not in values:
            raise E1108.error(f"no node gives the output value {index}")
    results = [values[i] for i in graph.outputs]
    block.add_op(ReturnOp(*results))
    function = FunctionType.from_lists([types[i] for i in graph.inputs], [v.type for v in results])
    return FuncOp(name, function, Region(block))


def _with_dims_of_nodes(graph: Graph) -> list[Value]:
    """The values, with the dims that nodes give where the blob has the same ones in another order.

    The stock pipeline says of the result of a convert before a convolution that it is (N, C, H, W), while the node
    gives the dims of its operand, which is (N, H, W, C). XNNPACK, and etir's runtime, take what the nodes give.
    """
    values = list(graph.values)
    for node in graph.nodes:
        operands = [values[i].dims for i in node.operands if i is not None]
        for index in node.outputs:
            try:
                dims = result_dims(node.kind, operands, node.attributes)
            except ValueError:
                continue  # The verifier says why.
            if sorted(dims) == sorted(values[index].dims):
                values[index] = replace(values[index], dims=dims)
    return values


def _constant(block: Block, value: Value, type: XnnTensorType, index: int) -> SSAValue:
    if value.constant is None:
        raise E1108.error(f"value {index} is used before a node gives it, and it is no input and no constant")
    scales = value.quantization.scales if isinstance(value.quantization, PerChannel | PerBlock) else None
    op = ConstantOp.make(type, _payload(value.constant), _payload(scales) if isinstance(scales, Constant) else scales)
    block.add_op(op)
    return op.results[0]


def _payload(constant: Constant) -> tuple[str | None, BlobAttr | None]:
    return constant.key, None if constant.data is None else BlobAttr(constant.data)


def _type_of(index: int, value: Value) -> XnnTensorType:
    info = TensorInfo(value.datatype, value.dims)
    count = 0
    match value.quantization:
        case PerTensor(scale, zero_point):
            info = TensorInfo(value.datatype, value.dims, scale=scale, zero_point=zero_point)
        case PerToken(nonbatch):
            info = TensorInfo(value.datatype, value.dims, nonbatch=nonbatch)
        case PerChannel(channel, _, count):
            info = TensorInfo(value.datatype, value.dims, channel=channel)
        case PerBlock(channel, block, _, count):
            info = TensorInfo(value.datatype, value.dims, channel=channel, block=block)
        case None:
            pass
    problem = info_error(info)
    if problem is None and info.scale_count != count:
        problem = f"{count} scales, its dims ask for {info.scale_count}"
    if problem is not None:
        raise E1108.error(f"value {index}: {problem}")
    return xnn_type(info)


def from_function(function: FuncOp) -> Graph:
    """The graph of a function of the ``xnn`` dialect, values numbered in the order of the text.

    Raises E1150 for operations and types of other dialects, and for an input that is returned as it came.
    """
    block = function.body.block
    values: list[Value] = []
    number: dict[SSAValue, int] = {}

    def add(value: SSAValue, constant: ConstantOp | None, owner: Operation) -> int:
        if not isinstance(value.type, XnnTensorType):
            raise E1150.error(f"{value.type} is not an !xnn.tensor type", source_location(owner.location))
        number[value] = len(values)
        values.append(_value(value.type.data, constant))
        return number[value]

    for argument in block.args:
        add(_inside(argument), None, function)
    inputs = tuple(range(len(block.args)))
    nodes: list[Node] = []
    outputs: Sequence[SSAValue] = ()
    for op in block.ops:
        if isinstance(op, InputOp | OutputOp):
            continue
        if isinstance(op, ConstantOp):
            add(op.results[0], op, op)
        elif isinstance(op, NodeOp):
            operands: list[int | None] = [number[v] for v in op.operands]
            operands += [None] * (len(op.KIND.operands) - len(operands))
            results = tuple(add(v, None, op) for v in op.results)
            nodes.append(Node(op.KIND, tuple(operands), results, op.attribute_values(), op.clamp, op.handle))
        elif isinstance(op, ReturnOp):
            outputs = [v.owner.operands[0] if isinstance(v.owner, OutputOp) else v for v in op.operands]
        else:
            raise E1150.error(f"'{op.name}' is not an operation of an XNNPACK graph", source_location(op.location))
    for output in outputs:
        if not isinstance(output.owner, NodeOp):
            raise E1150.error(
                "an input or a constant cannot be an output as it is; put an xnn.copy between",
                source_location(function.location),
            )
    return Graph(tuple(values), tuple(nodes), inputs, tuple(number[v] for v in outputs))


def _inside(argument: SSAValue) -> SSAValue:
    """The value in the delegate that stands for an argument: the argument itself, or its one ``xnn.input``."""
    users = [use.operation for use in argument.uses]
    return users[0].results[0] if users and isinstance(users[0], InputOp) else argument


def _value(info: TensorInfo, op: ConstantOp | None) -> Value:
    constant = None if op is None else _constant_of(op.payload(), info.nbytes)
    quantization: Quantization | None = None
    if info.scale is not None and info.zero_point is not None:
        quantization = PerTensor(info.scale, info.zero_point)
    elif info.nonbatch is not None:
        quantization = PerToken(info.nonbatch)
    elif info.channel is not None and op is not None:
        numbers = op.scale_numbers
        width = 4 if info.block is None else 2
        scales = _constant_of(op.payload("scales_"), info.scale_count * width) if numbers is None else numbers
        if info.block is not None:
            quantization = PerBlock(info.channel, info.block, scales, info.scale_count)
        else:
            quantization = PerChannel(info.channel, scales, info.scale_count)
    return Value(info.datatype, info.dims, constant, quantization)


def _constant_of(payload: tuple[str | None, BlobAttr | None], size: int) -> Constant:
    key, data = payload
    return Constant(size if data is None else data.data.size, key, None if data is None else data.data)
