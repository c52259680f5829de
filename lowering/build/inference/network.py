"""Matrix products, convolutions, pooling, normalization, resampling."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import f32, i64
from etir.dialects.et.layout import Dim, is_contiguous, order_of, tensor_type
from etir.lowering.build.dims import agree, product, window_count
from etir.lowering.build.inference import Call, contiguous, rule, size_as_dim
from etir.lowering.build.promotion import to_floating

Tensor = TensorType[Attribute]


@rule("aten.mm.default")
def mm(call: Call) -> Tensor:
    """[n, k] by [k, m]."""
    agree(call.dims()[1], call.dims("mat2")[0], "the dims that are multiplied")
    return contiguous(call.element(), [call.dims()[0], call.dims("mat2")[1]])


@rule("aten.bmm.default")
def bmm(call: Call) -> Tensor:
    """[b, n, k] by [b, k, m]."""
    batch, other = call.dims()[0], call.dims("mat2")[0]
    agree(batch, other, "the batches")
    agree(call.dims()[2], call.dims("mat2")[1], "the dims that are multiplied")
    return contiguous(
        call.element(), [batch if isinstance(batch, int) else other, call.dims()[1], call.dims("mat2")[2]]
    )


@rule("aten.addmm.default")
def addmm(call: Call) -> Tensor:
    """[n, k] by [k, m]."""
    agree(call.dims("mat1")[1], call.dims("mat2")[0], "the dims that are multiplied")
    return contiguous(call.element(), [call.dims("mat1")[0], call.dims("mat2")[1]])


@rule("etir.convolution_add.default", "etir.linear_add.default", "etir.matmul_add.default")
def added(call: Call) -> Tensor:
    """What a product is added to has the type of the sum."""
    return call.type()


@rule("aten.linear.default")
def linear(call: Call) -> Tensor:
    """The last dim becomes the number of rows of the weight."""
    agree(call.dims("input")[-1], call.dims("weight")[-1], "the dims that are multiplied")
    return contiguous(call.element("input"), [*call.dims("input")[:-1], *call.dims("weight")[:-1]])


@rule("aten.convolution.default")
def convolution(call: Call) -> Tensor:
    """Windows along each spatial dim; transposed: the input size that has that many windows."""
    dims, kernel = call.dims("input"), call.dims("weight")
    spatial = len(kernel) - 2
    per_group = kernel[0] if call["transposed"] else kernel[1] * size_as_dim(call["groups"])
    agree(dims[-spatial - 1], per_group, "the channels of input and weight")
    stride, padding, dilation, extra = (
        call.ints(name, spatial) for name in ("stride", "padding", "dilation", "output_padding")
    )
    sizes: list[Dim] = []
    for i, size in enumerate(dims[-spatial:]):
        window = kernel[2 + i]
        if call["transposed"]:
            sizes.append((size - 1) * stride[i] - 2 * padding[i] + dilation[i] * (window - 1) + extra[i] + 1)
        else:
            sizes.append(window_count(size, window, stride[i], padding[i], dilation[i]))
    channels = kernel[1] * size_as_dim(call["groups"]) if call["transposed"] else kernel[0]
    return _ordered_like(call.type("input"), [*dims[: -spatial - 1], channels, *sizes])


def _ordered_like(type: Tensor, dims: Sequence[Dim]) -> Tensor:
    """A type of the same rank in the same dim order."""
    order = None if is_contiguous(type) or type.get_num_dims() != len(dims) else order_of(type)
    return tensor_type(type.element_type, dims, order)


def _pooled(call: Call, rank: int) -> Tensor:
    dims = call.dims()
    kernel = call.ints("kernel_size", rank)
    stride = call.ints("stride", rank) or kernel
    padding = call.ints("padding", rank)
    dilation = call.ints("dilation", rank) if "dilation" in call.schema.index else (1,) * rank
    sizes = [
        window_count(size, kernel[i], stride[i], padding[i], dilation[i], bool(call["ceil_mode"]))
        for i, size in enumerate(dims[-rank:])
    ]
    return _ordered_like(call.type(), [*dims[:-rank], *sizes])


@rule("aten.avg_pool1d.default")
def avg_pool1d(call: Call) -> Tensor:
    """Windows along the last dim."""
    return _pooled(call, 1)


@rule("aten.avg_pool2d.default")
def avg_pool2d(call: Call) -> Tensor:
    """Windows along the last two dims."""
    return _pooled(call, 2)


@rule("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool(call: Call) -> list[Attribute]:
    """Values and their flat indices."""
    type = _pooled(call, 2 if "2d" in call.schema.name else 3)
    return [type, TensorType(i64, type.shape, type.encoding)]


@rule("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default", "aten.adaptive_avg_pool1d.default")
def adaptive_pool(call: Call) -> Tensor:
    """The sizes asked for."""
    sizes = call.sizes("output_size")
    return _ordered_like(call.type(), [*call.dims()[: -len(sizes)], *sizes])


@rule("aten._softmax.default", "aten._log_softmax.default")
def softmax(call: Call) -> Tensor:
    """The input's type; ``half_to_float`` gives f32."""
    return contiguous(f32 if call["half_to_float"] else to_floating(call.element()), call.dims())


@rule("aten.native_layer_norm.default")
def layer_norm(call: Call) -> list[Attribute]:
    """The input's type; mean and reciprocal deviation with size 1 along the normalized dims."""
    dims = call.dims("input")
    normalized = len(call["normalized_shape"])
    statistics = contiguous(call.element("input"), [*dims[: len(dims) - normalized], *(1,) * normalized])
    return [contiguous(call.element("input"), dims), statistics, statistics]


@rule("aten.native_group_norm.default")
def group_norm(call: Call) -> list[Attribute]:
    """The input's type; mean and reciprocal deviation for each group."""
    dims = call.dims("input")
    statistics = contiguous(call.element("input"), [dims[0], int(call["group"])])
    return [contiguous(call.element("input"), dims), statistics, statistics]


@rule("aten._native_batch_norm_legit_no_training.default")
def batch_norm(call: Call) -> list[Attribute]:
    """The input's type; no statistics."""
    empty = contiguous(call.element("input"), [0])
    return [call.type("input"), empty, empty]


@rule("aten._native_batch_norm_legit.no_stats")
def batch_norm_of_batch(call: Call) -> list[Attribute]:
    """The input's type; mean and reciprocal deviation of each channel."""
    statistics = contiguous(call.element("input"), [call.dims("input")[1]])
    return [call.type("input"), statistics, statistics]


@rule("aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec", "aten._upsample_bilinear2d_aa.vec")
def upsample2d(call: Call) -> Tensor:
    """The sizes asked for, or those that the scale factors give."""
    *outer, height, width = call.dims("input")
    if call["output_size"] is not None:
        return _ordered_like(call.type("input"), [*outer, *call.sizes("output_size")])
    sizes = [scaled(size, factor) for size, factor in zip((height, width), call["scale_factors"], strict=True)]
    return _ordered_like(call.type("input"), [*outer, *sizes])


def scaled(size: Dim, factor: float) -> Dim:
    """``floor(size * factor)``; a symbolic size takes a whole factor. Raises ``TypeError``."""
    if isinstance(size, int):
        return int(size * factor)
    if factor != int(factor):
        raise TypeError("a symbolic size is scaled by whole numbers only")
    return size * int(factor)


@rule("aten.grid_sampler_2d.default")
def grid_sampler(call: Call) -> Tensor:
    """The grid's height and width."""
    return contiguous(call.element("input"), [*call.dims("input")[:2], *call.dims("grid")[1:3]])


@rule("aten._cdist_forward.default")
def distance(call: Call) -> Tensor:
    """A distance for each pair of rows."""
    return contiguous(call.element("x1"), [*call.dims("x1")[:-1], call.dims("x2")[-2]])


@rule("aten.repeat_interleave.Tensor")
def repeat_interleave(call: Call) -> Tensor:
    """As many indices as the repeats add up to."""
    if call["output_size"] is None:
        raise TypeError("the number of repeated elements is not known")
    return contiguous(i64, call.sizes("output_size"))


@rule("aten.sym_size.int", "aten.sym_numel.default")
def number(call: Call) -> list[Attribute]:
    """A runtime scalar."""
    assert product(call.dims()) is not None
    return [i64]
