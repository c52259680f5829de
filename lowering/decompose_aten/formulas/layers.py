"""Layers under the names of single implementations, attention in one operator, embeddings' gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from etir.lowering.decompose_aten.formulas import formula

Ints = Sequence[int]


# --- convolutions -----------------------------------------------------------------------------------------------------


@formula("_slow_conv2d_forward.default", "slow_conv3d_forward.default")
def convolution_forward(
    x: Tensor, weight: Tensor, kernel_size: Ints, bias: Tensor | None, stride: Ints, padding: Ints
) -> Tensor:
    """``convolution``."""
    return _convolution(x, weight, kernel_size, bias, stride, padding, [1] * len(kernel_size))


@formula("slow_conv_dilated2d.default", "slow_conv_dilated3d.default")
def convolution_dilated(
    x: Tensor,
    weight: Tensor,
    kernel_size: Ints,
    bias: Tensor | None = None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    dilation: Ints = (1,),
) -> Tensor:
    """``convolution``."""
    return _convolution(x, weight, kernel_size, bias, stride, padding, dilation)


def _convolution(
    x: Tensor, weight: Tensor, kernel: Ints, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints
) -> Tensor:
    if weight.dim() != len(kernel) + 2 or tuple(weight.shape[2:]) != tuple(kernel):
        raise NotImplementedError("a kernel of another size than the one that is given")
    return torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(kernel), 1)


@formula("slow_conv_transpose2d.default", "slow_conv_transpose3d.default")
def convolution_transposed(
    x: Tensor,
    weight: Tensor,
    kernel_size: Ints,
    bias: Tensor | None = None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    output_padding: Ints = (0,),
    dilation: Ints = (1,),
) -> Tensor:
    """Transposed ``convolution``."""
    if tuple(weight.shape[2:]) != tuple(kernel_size):
        raise NotImplementedError("a kernel of another size than the one that is given")
    return torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, 1)


@formula("_slow_conv2d_backward.output_mask")
def convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, mask: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """``convolution_backward``."""
    settings = (stride, padding, [1, 1], False, [0, 0], 1)
    return torch.ops.aten.convolution_backward(gradient, x, weight, [weight.shape[0]], *settings, mask)


# --- attention --------------------------------------------------------------------------------------------------------


@formula("_transform_bias_rescale_qkv.default")
def transform_bias_rescale_qkv(qkv: Tensor, bias: Tensor, heads: int) -> tuple[Tensor, ...]:
    """``[batch, length, 3 * width]`` as queries, which are scaled, keys and values ``[batch, heads, length, part]``."""
    batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    split = (qkv + bias).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    query, key, value = split.unbind(0)
    return (query / math.sqrt(width // heads)).contiguous(), key.contiguous(), value.contiguous()


@formula("_native_multi_head_attention.default")
def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    weight: Tensor,
    bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Projections, softmax of products, projection (Vaswani et al., 2017, arXiv:1706.03762)."""
    parts = []
    for t, w, b in zip((query, key, value), weight.chunk(3), bias.chunk(3), strict=True):
        projected = torch.nn.functional.linear(t, w, b)
        parts.append(projected.reshape(*t.shape[:2], heads, width // heads).transpose(1, 2))
    q, k, v = parts
    scores = torch.matmul(q / math.sqrt(width // heads), k.transpose(-2, -1))
    if mask is None:
        weights = torch.softmax(scores, -1)
    else:
        if mask_type == 1:
            mask = mask.reshape(mask.shape[0], 1, 1, mask.shape[-1])
        weights = torch.softmax(scores.masked_fill(mask.to(torch.bool), -math.inf), -1)
    mixed = torch.matmul(weights, v).transpose(1, 2).reshape(*query.shape[:2], width)
    result = torch.nn.functional.linear(mixed, out_weight, out_bias)
    if not need_weights:
        return result, torch.empty([0], dtype=query.dtype)
    return result, weights.mean(1) if average else weights


@formula("_transformer_encoder_layer_fwd.default")
def transformer_encoder_layer(
    x: Tensor,
    width: int,
    heads: int,
    weight: Tensor,
    bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    weight_1: Tensor,
    bias_1: Tensor,
    weight_2: Tensor,
    bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Attention and two linear layers, each beside a connection and with a layer norm before or after it."""
    functional = torch.nn.functional

    def norm(t: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return functional.layer_norm(t, [width], scale, shift, eps)

    def attention(t: Tensor) -> Tensor:
        arguments = (width, heads, weight, bias, out_weight, out_bias, mask, False, True, mask_type)
        return native_multi_head_attention(t, t, t, *arguments)[0]

    def linear(t: Tensor) -> Tensor:
        inner = functional.linear(t, weight_1, bias_1)
        return functional.linear(functional.gelu(inner) if gelu else torch.relu(inner), weight_2, bias_2)

    if norm_first:
        x = x + attention(norm(x, norm_weight_1, norm_bias_1))
        return x + linear(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attention(x), norm_weight_1, norm_bias_1)
    return norm(x + linear(x), norm_weight_2, norm_bias_2)


# --- bags of embeddings -----------------------------------------------------------------------------------------------


def _bag_of(offsets: Tensor, count: int) -> Tensor:
    """The bag of each of ``count`` indices."""
    return torch.searchsorted(offsets, torch.arange(count, dtype=offsets.dtype), right=True) - 1


@formula("_embedding_bag_backward.default")
def embedding_bag_backward(
    gradient: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bag: Tensor,
    sizes: Tensor,
    largest: Tensor,
    rows: int,
    by_frequency: bool,
    mode: int,
    sparse: bool,
    weights: Tensor | None,
    padding: int = -1,
) -> Tensor:
    """The dense gradient; the forward operator may leave out bags and sizes, which follow from the offsets."""
    if sparse:
        raise NotImplementedError("its gradient is a sparse tensor")
    bag = _bag_of(offsets[: gradient.shape[0]], indices.shape[0])
    return _bag_gradient(gradient, indices, bag, largest, rows, by_frequency, mode, weights, padding)


@formula("_embedding_bag_dense_backward.default")
def embedding_bag_dense_backward(
    gradient: Tensor,
    indices: Tensor,
    bag: Tensor,
    sizes: Tensor,
    largest: Tensor,
    rows: int,
    by_frequency: bool,
    mode: int,
    weights: Tensor | None,
    padding: int = -1,
) -> Tensor:
    """The gradient of each row: the sum over the bags that it is in, for the largest only where it is that."""
    return _bag_gradient(gradient, indices, bag, largest, rows, by_frequency, mode, weights, padding)


def _bag_gradient(
    gradient: Tensor,
    indices: Tensor,
    bag: Tensor,
    largest: Tensor,
    rows: int,
    by_frequency: bool,
    mode: int,
    weights: Tensor | None,
    padding: int,
) -> Tensor:
    zeros = gradient.new_zeros([rows, gradient.shape[1]])
    counted = indices != padding if padding >= 0 else torch.ones_like(indices, dtype=torch.bool)
    size = torch.zeros_like(gradient[:, 0]).index_add(0, bag, counted.to(gradient.dtype))
    if mode == 2:
        filled = torch.where(size.unsqueeze(1) > 0, gradient, 0.0)
        return zeros.scatter_add(0, largest.to(torch.int64).clamp(min=0), filled)
    out = gradient.index_select(0, bag)
    if weights is not None:
        out = out * weights.unsqueeze(1)
    if mode == 1:
        out = out / size.index_select(0, bag).unsqueeze(1)
    if by_frequency:
        often = gradient.new_zeros([rows]).index_add(0, indices, torch.ones_like(out[:, 0]))
        out = out / often.index_select(0, indices).unsqueeze(1)
    return zeros.index_add(0, indices, torch.where(counted.unsqueeze(1), out, 0.0))


@formula("_embedding_bag_per_sample_weights_backward.default")
def embedding_bag_per_sample_weights_backward(
    gradient: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bag: Tensor, mode: int, padding: int = -1
) -> Tensor:
    """The product of each row and the gradient of its bag."""
    bag = _bag_of(offsets[: gradient.shape[0]], indices.shape[0])
    product = (gradient.index_select(0, bag) * weight.index_select(0, indices)).sum(1)
    return torch.where(indices != padding, product, 0.0) if padding >= 0 else product


# --- ragged tensors ---------------------------------------------------------------------------------------------------


@formula("_jagged_to_padded_dense_forward.default")
def jagged_to_padded_dense(values: Tensor, offsets: Sequence[Tensor], lengths: Ints, padding: float = 0.0) -> Tensor:
    """Rows of different lengths, one after the other, as one each, filled up."""
    if len(offsets) != 1:
        raise NotImplementedError("several ragged dims")
    starts, ends = offsets[0][:-1].unsqueeze(1), offsets[0][1:].unsqueeze(1)
    place = starts + torch.arange(lengths[0])
    inside = place < ends
    rows = values.index_select(0, torch.where(inside, place, 0).reshape(-1))
    rows = rows.reshape(*place.shape, *values.shape[1:])
    return torch.where(inside.reshape(*place.shape, *[1] * (values.dim() - 1)), rows, padding)


@formula("_padded_dense_to_jagged_forward.default")
def padded_dense_to_jagged(dense: Tensor, offsets: Sequence[Tensor], total: int | None = None) -> Tensor:
    """The other way round; what is truncated is 0."""
    if len(offsets) != 1 or total is None:
        raise NotImplementedError("several ragged dims, or an unknown number of rows")
    every = torch.arange(total)
    row = torch.searchsorted(offsets[0], every, right=True) - 1
    column = every - offsets[0].index_select(0, row)
    inside = (column < dense.shape[1]).reshape([-1] + [1] * (dense.dim() - 2))
    flat = row * dense.shape[1] + column.clamp(max=dense.shape[1] - 1)
    taken = dense.reshape(-1, *dense.shape[2:]).index_select(0, flat)
    return torch.where(inside, taken, 0.0)
