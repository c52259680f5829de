"""The kernels of etir's runtime that a graph calls (``runtime/backends/xnnpack/nodes.cc``), for selective builds."""

from __future__ import annotations

from etir.backends.xnnpack.graph import Graph, Node

_COPY = "aten::_to_copy.out"
_KERNELS: dict[str, tuple[str, ...]] = {
    "add": ("aten::add.out",),
    "subtract": ("aten::sub.out",),
    "multiply": ("aten::mul.out",),
    "div": ("aten::div.out",),
    "minimum": ("aten::minimum.out",),
    "maximum": ("aten::maximum.out",),
    "prelu": ("aten::mul.out", "aten::add.out"),
    "fully_connected": ("aten::linear.out",),
    "batch_matrix_multiply": ("aten::matmul.out", "aten::permute_copy.out"),
    "softmax": ("aten::_softmax.out",),
    "static_transpose": ("aten::permute_copy.out",),
    "static_reshape": ("aten::view_copy.out",),
    "static_slice": ("aten::slice_copy.Tensor_out",),
    "static_constant_pad": ("aten::constant_pad_nd.out",),
    "static_resize_bilinear2d": ("aten::upsample_bilinear2d.out",),
    "global_avg_pooling2d": ("aten::mean.out",),
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), ("aten::convolution.out", "aten::constant_pad_nd.out")),
    "conv_transpose2d": (
        "aten::convolution.out",
        "aten::slice_copy.Tensor_out",
        "aten::view_copy.out",
        "aten::permute_copy.out",
    ),
    **dict.fromkeys((f"concatenate{i}" for i in range(2, 6)), ("aten::cat.out",)),
    "sigmoid": ("aten::sigmoid.out",),
    "floor": ("aten::floor.out",),
    "square_root": ("aten::sqrt.out",),
    "ceiling": ("aten::ceil.out",),
    "hardswish": ("aten::hardswish.out",),
    "leaky_relu": ("aten::leaky_relu.out",),
    "negate": ("aten::neg.out",),
    "square": ("aten::square.out",),
    "elu": ("aten::elu.out",),
    "abs": ("aten::abs.out",),
    "reciprocal_square_root": ("aten::rsqrt.out",),
    "log": ("aten::log.out",),
    "gelu": ("aten::gelu.out",),
    "tanh": ("aten::tanh.out",),
    "exp": ("aten::exp.out",),
    "sin": ("aten::sin.out",),
    "cos": ("aten::cos.out",),
    **dict.fromkeys(("clamp", "copy", "convert", "avg_pooling2d", "max_pooling2d", "arg_max_pooling2d"), ()),
}
"""By kind of node; those of the last line are loops of the delegate's own."""


def kernels_of(graph: Graph) -> tuple[str, ...]:
    """The operators that the nodes of a graph call, in order; copies where a node's datatypes differ."""
    found: dict[str, None] = {}
    for node in graph.nodes:
        found.update(dict.fromkeys(_KERNELS.get(node.kind.name, ())))
        if _copies(graph, node):
            found[_COPY] = None
    return tuple(found)


def _copies(graph: Graph, node: Node) -> bool:
    if node.kind.name in ("copy", "convert", "clamp"):
        return True
    held = {_held(graph, i) for i in (*node.operands, *node.outputs) if i is not None}
    return len(held) > 1 or (bool(held) and "pool" in node.kind.name and held != {"fp32"})


def _held(graph: Graph, index: int) -> str:
    """The datatype in which the runtime holds a value: integers with scales as the floats that they stand for."""
    value = graph.values[index]
    return "fp32" if value.quantization is not None or value.datatype.name == "pfp32" else value.datatype.name
