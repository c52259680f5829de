"""Nodes that work on windows of images: pools, means, resizes. Channels lie last."""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.backends.xnnpack.legalize.convolution import pair
from etir.backends.xnnpack.legalize.emitter import Emitter
from etir.backends.xnnpack.legalize.layouts import NHWC
from etir.backends.xnnpack.legalize.legalizer import legalizes
from etir.backends.xnnpack.legalize.linear import last_stays
from etir.backends.xnnpack.schema import ALIGN_CORNERS, KEEP_DIMS
from etir.dialects.edge import ops as edge
from etir.dialects.schema_op import SchemaOp


@legalizes()
def pool(
    emitter: Emitter,
    op: edge.aten.max_pool2d.default | edge.aten.max_pool2d_with_indices.default | edge.aten.avg_pool2d.default,
) -> None:
    """``max_pool2d`` and ``avg_pool2d``. Windows that stick out at the end (ceil mode) become padding."""
    value, result = op.operands[0], op.results[0]
    is_max = not isinstance(op, edge.aten.avg_pool2d.default)
    kernel = pair(op.kernel_size, 4, 1)
    stride = pair(op.stride or op.kernel_size, 4, 1)
    padding = pair(op.padding, 4, 0)
    dilation = (1, 1) if isinstance(op, edge.aten.avg_pool2d.default) else pair(op.dilation, 4, 1)
    sizes, results = emitter.dims(value)[2:], emitter.dims(result)[2:]
    extra = [
        max(0, (out - 1) * step + (size - 1) * spread + 1 - 2 * border - length)
        for out, step, size, spread, border, length in zip(
            results, stride, kernel, dilation, padding, sizes, strict=True
        )
    ]
    attributes = {
        "padding_top": padding[0],
        "padding_right": padding[1] + (extra[1] if op.ceil_mode else 0),
        "padding_bottom": padding[0] + (extra[0] if op.ceil_mode else 0),
        "padding_left": padding[1],
        "pooling_height": kernel[0],
        "pooling_width": kernel[1],
        "stride_height": stride[0],
        "stride_width": stride[1],
        "dilation_height": dilation[0],
        "dilation_width": dilation[1],
    }
    name = "max_pooling2d" if is_max else "avg_pooling2d"
    emitter.hold(result, emitter.node(name, [emitter.get(value, NHWC)], attributes), NHWC)


@legalizes()
def global_mean(
    emitter: Emitter,
    op: edge.aten.adaptive_avg_pool2d.default | edge.aten._adaptive_avg_pool2d.default,
) -> None:
    """The mean over height and width."""
    _image_mean(emitter, op)


def _image_mean(emitter: Emitter, op: SchemaOp) -> None:
    result = op.results[0]
    form = emitter.node("global_avg_pooling2d", [emitter.get(op.operands[0], NHWC)], {"flags": KEEP_DIMS})
    if len(emitter.dims(result)) == 4:
        emitter.hold(result, form, NHWC)
        return
    dims = emitter.dims(result)
    emitter.hold(result, emitter.reshape(form, dims, emitter.dynamic(result, (0, 1))))


@legalizes()
def mean(emitter: Emitter, op: edge.aten.mean.dim) -> None:
    """Over height and width, or over the last dim."""
    value, result = op.operands[0], op.results[0]
    rank = len(emitter.dims(value))
    if rank == 4 and sorted(d % rank for d in op.dim or ()) == [2, 3]:
        _image_mean(emitter, op)
        return
    layout = last_stays(emitter, value)
    form = row_mean(emitter, value, emitter.get(value, layout))
    if not op.keepdim:
        layout = tuple(d for d in layout if d != rank - 1)
        stored = tuple(1 if d < 0 else emitter.dims(result)[d] for d in layout)
        form = emitter.reshape(form, stored, emitter.dynamic(result, layout))
    emitter.hold(result, form, layout)


def row_mean(emitter: Emitter, value: SSAValue, form: SSAValue) -> SSAValue:
    """The mean over the last dim: a product with a matrix of one row whose entries are 1 / size."""
    import numpy as np

    size = emitter.dims(value)[-1]
    weight = emitter.float_constant(np.full((1, size), 1.0 / size), value)
    return emitter.node("fully_connected", [form, weight, None])


@legalizes()
def layer_norm(emitter: Emitter, op: edge.aten.native_layer_norm.default) -> None:
    """``(x - mean) * rsqrt(mean((x - mean)^2) + eps) * weight + bias`` over the last dim."""
    value = op.input
    layout = last_stays(emitter, value)
    x = emitter.get(value, layout)
    centered = emitter.node("subtract", [x, row_mean(emitter, value, x)])
    variance = row_mean(emitter, value, emitter.node("square", [centered]))
    shifted = emitter.node("add", [variance, emitter.scalar(float(op.eps), value)])
    form = emitter.node("multiply", [centered, emitter.node("reciprocal_square_root", [shifted])])
    if op.weight is not None:
        form = emitter.node("multiply", [form, emitter.get(op.weight)])
    if op.bias is not None:
        form = emitter.node("add", [form, emitter.get(op.bias)])
    emitter.hold(op.results[0], form, layout)


@legalizes()
def resize(emitter: Emitter, op: edge.aten.upsample_bilinear2d.vec) -> None:
    """``upsample_bilinear2d`` to a size that is known."""
    height, width = emitter.dims(op.results[0])[2:]
    attributes = {
        "new_height": height,
        "new_width": width,
        "flags": ALIGN_CORNERS if op.align_corners else 0,
    }
    form = emitter.node("static_resize_bilinear2d", [emitter.get(op.operands[0], NHWC)], attributes)
    emitter.hold(op.results[0], form, NHWC)
