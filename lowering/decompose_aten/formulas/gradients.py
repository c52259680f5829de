"""Gradients, and derivatives in forward mode, that autograd calls by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from etir.lowering.decompose_aten import constants
from etir.lowering.decompose_aten.families.resampling import interpolation_step
from etir.lowering.decompose_aten.formulas import formula

Ints = Sequence[int]


# --- elements ---------------------------------------------------------------------------------------------------------


@formula("mish_backward.default")
def mish_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """``x * tanh(softplus(x))`` differentiated."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    inner = torch.tanh(torch.nn.functional.softplus(wide))
    slope = inner + wide * torch.sigmoid(wide) * (1 - inner * inner)
    return (gradient * slope).to(x.dtype)


def _glu_parts(x: Tensor, dim: int) -> tuple[Tensor, Tensor, int]:
    half = x.shape[dim] // 2
    return x.narrow(dim, 0, half), torch.sigmoid(x.narrow(dim, half, half)), half


@formula("glu_jvp.default")
def glu_jvp(glu: Tensor, x: Tensor, dx: Tensor, dim: int) -> Tensor:
    """``a * sigmoid(b)`` in forward mode."""
    _, gate, half = _glu_parts(x, dim)
    return dx.narrow(dim, 0, half) * gate + glu * (1 - gate) * dx.narrow(dim, half, half)


@formula("glu_backward_jvp.default")
def glu_backward_jvp(grad_x: Tensor, grad_glu: Tensor, x: Tensor, dgrad_glu: Tensor, dx: Tensor, dim: int) -> Tensor:
    """``glu_backward`` in forward mode."""
    a, gate, half = _glu_parts(x, dim)
    da, db = dx.narrow(dim, 0, half), dx.narrow(dim, half, half)
    by_first = grad_x.narrow(dim, 0, half)
    falling = db * (1 - gate)
    by_a = dgrad_glu * gate + by_first * falling
    by_b = by_a * a * (1 - gate) + by_first * (da * (1 - gate) - a * gate * falling)
    return torch.cat([by_a, by_b], dim)


@formula("masked_scatter_backward.default")
def masked_scatter_backward(gradient: Tensor, mask: Tensor, sizes: Ints) -> Tensor:
    """The gradients of the elements that were taken, in their order, and zeros."""
    count = math.prod(sizes)
    chosen = mask.expand(gradient.shape).reshape(-1)
    place = torch.where(chosen, chosen.to(torch.int64).cumsum(0) - 1, count)
    zeros = gradient.new_zeros([count + 1])
    return zeros.scatter(0, place, gradient.reshape(-1))[:count].reshape(sizes)


# --- losses -----------------------------------------------------------------------------------------------------------


@formula("multi_margin_loss_backward.default")
def multi_margin_loss_backward(
    gradient: Tensor,
    x: Tensor,
    target: Tensor,
    p: float,
    margin: float,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """``sum max(0, margin - x[y] + x[i]) ** p / classes`` over other classes than the right one, differentiated."""
    rows, classes = x.reshape(-1, x.shape[-1]), target.reshape(-1, 1)
    width = rows.shape[-1]
    distance = margin - rows.gather(1, classes) + rows
    slope = torch.where(distance > 0, torch.ones_like(distance) if p == 1 else 2 * distance, 0.0)
    if weight is not None:
        slope = slope * weight[classes]
    others = torch.arange(width) != classes
    slope = torch.where(others, slope, 0.0) / width
    slope = torch.where(others, slope, -slope.sum(1, keepdim=True))
    if reduction == 1:
        slope = slope / rows.shape[0]
    scaled = slope * (gradient.reshape(-1, 1) if gradient.dim() else gradient)
    return scaled.reshape(x.shape)


def _targets(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, the targets of each up to the first -1, and where those are."""
    rows, classes = x.reshape(-1, x.shape[-1]), target.reshape(-1, x.shape[-1])
    valid = (classes < 0).to(torch.int64).cumsum(1) == 0
    return rows, classes.clamp(min=0), valid


@formula("multilabel_margin_loss_forward.default")
def multilabel_margin_loss_forward(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """``sum max(0, 1 - (x[y] - x[i])) / classes`` over targets ``y`` and classes ``i`` that are none."""
    rows, classes, valid = _targets(x, target)
    width = rows.shape[-1]
    hits = torch.zeros_like(rows).scatter_add(1, classes, valid.to(rows.dtype))
    is_target = (hits > 0).to(rows.dtype)
    chosen = rows.gather(1, classes)
    distance = 1 - chosen.unsqueeze(2) + rows.unsqueeze(1)
    counted = valid.unsqueeze(2) & (is_target == 0).unsqueeze(1)
    loss = torch.where(counted, distance.clamp(min=0), 0.0).sum((1, 2)) / width
    result = loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss.reshape(x.shape[:-1])
    return result, is_target.reshape(target.shape)


@formula("multilabel_margin_loss_backward.default")
def multilabel_margin_loss_backward(
    gradient: Tensor, x: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    """Each pair of a target and a class that is none, with a distance above 0, pulls at both."""
    rows, classes, valid = _targets(x, target)
    width = rows.shape[-1]
    distance = 1 - rows.gather(1, classes).unsqueeze(2) + rows.unsqueeze(1)
    counted = valid.unsqueeze(2) & (is_target.reshape(rows.shape) == 0).unsqueeze(1) & (distance > 0)
    pull = counted.to(rows.dtype) / width
    slope = pull.sum(1).scatter_add(1, classes, -pull.sum(2))
    if reduction == 1:
        slope = slope / rows.shape[0]
    return (slope * (gradient.reshape(-1, 1) if gradient.dim() else gradient)).reshape(x.shape)


# --- windows ----------------------------------------------------------------------------------------------------------


@formula("fractional_max_pool2d_backward.default", "fractional_max_pool3d_backward.default")
def fractional_max_pool_backward(
    gradient: Tensor, x: Tensor, kernel_size: Ints, output_size: Ints, indices: Tensor
) -> Tensor:
    """Each gradient goes to the element that was the largest."""
    lead = x.dim() - (2 if len(kernel_size) == 2 else 3)
    flat = [*x.shape[:lead], -1]
    zeros = torch.zeros_like(x).reshape(flat)
    return zeros.scatter_add(lead, indices.reshape(flat), gradient.reshape(flat)).reshape(x.shape)


@formula(
    "replication_pad1d_backward.default", "replication_pad2d_backward.default", "replication_pad3d_backward.default"
)
def replication_pad_backward(gradient: Tensor, x: Tensor, padding: Ints) -> Tensor:
    """What was repeated gets the sum of what its copies get."""
    for i in range(len(padding) // 2):
        dim = x.dim() - 1 - i
        left, size = padding[2 * i], x.shape[dim]
        place = (torch.arange(gradient.shape[dim]) - left).clamp(0, size - 1)
        shape = [*gradient.shape]
        shape[dim] = size
        gradient = gradient.new_zeros(shape).index_add(dim, place, gradient)
    return gradient


@formula("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def grid_sampler_backward(
    gradient: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool, mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """By element and by place: the sampling is linear in both between the grid's points, or a cubic of the place."""
    if mode == 2:
        return _bicubic_sampler_backward(gradient, x, grid, padding, align, mask)
    dims = x.dim() - 2
    size = x.shape[2:]
    places = [_unnormalized(grid[..., d], size[dims - 1 - d], align) for d in range(dims)]
    places, slopes = zip(*(_placed(p, size[dims - 1 - d], padding, align) for d, p in enumerate(places)), strict=True)
    scales = [slopes[d] * (size[dims - 1 - d] - align) / 2 for d in range(dims)]
    batch, channels = x.shape[:2]
    flat = x.reshape(batch, channels, -1)
    out = gradient.reshape(batch, channels, -1)
    by_x = torch.zeros_like(flat)
    by_place = [torch.zeros_like(places[0]) for _ in range(dims)]
    corners = [math.floor] if mode == 1 else None
    lows = [torch.round(p) if corners else torch.floor(p) for p in places]
    for corner in range(1 if corners else 2**dims):
        index: Any = 0
        inside: Any = True
        weights: list[Tensor] = []
        signs: list[float] = []
        for d in reversed(range(dims)):
            up = (corner >> d) & 1
            at = lows[d] + up
            extent = size[dims - 1 - d]
            inside = (at >= 0) & (at <= extent - 1) & inside
            index = index * extent + at.clamp(0, extent - 1).to(torch.int64)
            part = places[d] - lows[d]
            weights.insert(0, torch.ones_like(part) if corners else part if up else 1 - part)
            signs.insert(0, 1.0 if up else -1.0)
        where = index.reshape(batch, 1, -1).expand(batch, channels, -1)
        total = math.prod(weights[1:], start=weights[0]) * inside
        by_x = by_x.scatter_add(2, where, out * total.reshape(batch, 1, -1))
        if corners:
            continue
        pulled = (flat.gather(2, where) * out).sum(1).reshape(places[0].shape) * inside
        for d in range(dims):
            others = [w for i, w in enumerate(weights) if i != d]
            by_place[d] = by_place[d] + pulled * math.prod(others[1:], start=others[0]) * signs[d]
    by_grid = torch.stack([p * s for p, s in zip(by_place, scales, strict=True)], -1)
    return by_x.reshape(x.shape) if mask[0] else None, by_grid if mask[1] else None


def _bicubic_sampler_backward(
    gradient: Tensor, x: Tensor, grid: Tensor, padding: int, align: bool, mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Four rows times four columns around each place; points, not places, are moved by the padding."""
    batch, channels, height, width = x.shape
    sizes = (width, height)
    places = [_unnormalized(grid[..., d], sizes[d], align) for d in range(2)]
    lows = [torch.floor(p) for p in places]
    weights = [_cubic_weights(p - low) for p, low in zip(places, lows, strict=True)]
    flat, out = x.reshape(batch, channels, -1), gradient.reshape(batch, channels, -1)
    by_x = torch.zeros_like(flat)
    by_place = [torch.zeros_like(p) for p in places]
    points: list[list[tuple[Tensor, Tensor]]] = []
    for d in range(2):
        moved = [_placed(lows[d] + offset, sizes[d], padding, align)[0] for offset in (-1, 0, 1, 2)]
        # A reflected point may lie between two: torch takes the one before.
        points.append([(p.clamp(0, sizes[d] - 1).to(torch.int64), (p >= 0) & (p <= sizes[d] - 1)) for p in moved])
    for (i, (row, row_inside)), (j, (column, column_inside)) in product(enumerate(points[1]), enumerate(points[0])):
        where = (row * width + column).reshape(batch, 1, -1).expand(batch, channels, -1)
        inside = (row_inside & column_inside).to(x.dtype)
        total = weights[0][0][j] * weights[1][0][i] * inside
        by_x = by_x.scatter_add(2, where, out * total.reshape(batch, 1, -1))
        pulled = (flat.gather(2, where) * out).sum(1).reshape(places[0].shape) * inside
        by_place[0] = by_place[0] + pulled * weights[0][1][j] * weights[1][0][i]
        by_place[1] = by_place[1] + pulled * weights[0][0][j] * weights[1][1][i]
    scales = [(size - align) / 2 for size in sizes]
    by_grid = torch.stack([p * s for p, s in zip(by_place, scales, strict=True)], -1)
    return by_x.reshape(x.shape) if mask[0] else None, by_grid if mask[1] else None


def _cubic_weights(t: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The weights of the four points around a place ``t`` after the second one, and their slopes (Keys 1981)."""
    a = -0.75

    def near(s: Tensor) -> tuple[Tensor, Tensor]:
        return ((a + 2) * s - (a + 3)) * s * s + 1, (3 * (a + 2) * s - 2 * (a + 3)) * s

    def far(s: Tensor) -> tuple[Tensor, Tensor]:
        return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a, (3 * a * s - 10 * a) * s + 8 * a

    pairs = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    slopes = [pairs[0][1], pairs[1][1], -pairs[2][1], -pairs[3][1]]
    return [weight for weight, _ in pairs], slopes


def _unnormalized(place: Tensor, size: int, align: bool) -> Tensor:
    return (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2


def _placed(place: Tensor, size: int, padding: int, align: bool) -> tuple[Tensor, Tensor]:
    """A place after padding (0: none, 1: the border, 2: reflected), and its slope."""
    slope = torch.ones_like(place)
    if padding == 0:
        return place, slope
    if padding == 2:
        low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
        if span == 0:
            return torch.zeros_like(place), torch.zeros_like(place)
        away = place - low
        slope = torch.where(away < 0, -slope, slope)
        away = away.abs()
        turns = torch.floor(away / span)
        rest = away - turns * span
        odd = torch.remainder(turns, 2) != 0
        place = torch.where(odd, span - rest, rest) + low
        slope = torch.where(odd, -slope, slope)
    slope = torch.where((place <= 0) | (place >= size - 1), 0.0, slope)
    return place.clamp(0, size - 1), slope


# --- alignments -------------------------------------------------------------------------------------------------------


@formula("_ctc_loss_backward.default", "_ctc_loss_backward.Tensor")
def ctc_loss_backward(
    gradient: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    steps: Tensor | Sequence[int],
    lengths: Tensor | Sequence[int],
    losses: Tensor,
    log_alpha: Tensor,
    blank: int,
    zero_infinity: bool = False,
) -> Tensor:
    """From the likelihoods of all alignments' beginnings, which are given, and of their ends (Graves et al., 2006)."""
    steps, lengths = (v if isinstance(v, Tensor) else torch.tensor(list(v)) for v in (steps, lengths))
    steps, lengths = steps.unsqueeze(1), lengths.unsqueeze(1)
    most, batch, width = *log_probs.shape[:2], log_alpha.shape[2]
    order = torch.arange((width - 1) // 2)
    if targets.dim() == 1:
        starts = torch.cumsum(lengths, 0) - lengths
        targets = targets[(starts + order).clamp(0, max(targets.shape[0] - 1, 0))]
    # Labels with blanks around them.
    blanks = torch.full([batch, order.shape[0]], blank)
    pairs = torch.stack([blanks, targets[:, : order.shape[0]].to(torch.int64)], 2).flatten(1)
    labels = torch.cat([pairs, torch.full([batch, 1], blank)], 1)
    labels = torch.where(torch.arange(width) <= 2 * lengths, labels, blank)
    own = log_probs.gather(2, labels.expand(most, batch, width))
    nothing = torch.full([batch, width], -math.inf, dtype=log_probs.dtype)
    last = (torch.arange(width) == 2 * lengths) | (torch.arange(width) == 2 * lengths - 1)
    may_skip = labels != torch.cat([labels[:, 2:], labels[:, :2]], 1)
    rest, rows = nothing, [nothing] * most
    for t in reversed(range(most)):
        next_one = torch.cat([rest[:, 1:], nothing[:, :1]], 1)
        after = torch.where(may_skip, torch.cat([rest[:, 2:], nothing[:, :2]], 1), -math.inf)
        total = torch.logsumexp(torch.stack([rest, next_one, after]), 0) + own[t]
        first = torch.where(last, own[t], -math.inf)
        rest = rows[t] = torch.where(steps == t + 1, first, torch.where(steps > t + 1, total, -math.inf))
    joint = log_alpha.transpose(0, 1) + torch.stack(rows)
    joint = torch.where(torch.arange(width) <= 2 * lengths, joint, -math.inf)
    peak = joint.amax(2, keepdim=True)
    peak = torch.where(peak.isinf(), 0.0, peak)
    sums = torch.zeros_like(log_probs).scatter_add(2, labels.expand(most, batch, width), (joint - peak).exp())
    by_class = (sums.log() + peak + losses.reshape(1, batch, 1) - log_probs).exp()
    result = (log_probs.exp() - by_class) * gradient.reshape(1, batch, 1)
    counts = torch.arange(most).reshape(most, 1, 1) < steps.reshape(1, batch, 1)
    if zero_infinity:
        counts = counts & (losses.reshape(1, batch, 1) != math.inf)
    return torch.where(counts, result, 0.0)


# --- distances and norms ----------------------------------------------------------------------------------------------


@formula("_pdist_backward.default")
def pdist_backward(gradient: Tensor, x: Tensor, p: float, distances: Tensor) -> Tensor:
    """For each pair the gradient of its norm by the difference; 0 where two points meet."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1).unbind(0)
    difference = x.index_select(0, first) - x.index_select(0, second)
    length, out = distances.unsqueeze(1), gradient.unsqueeze(1)
    sign = torch.sign(difference)
    if p == 0:
        slope = torch.zeros_like(difference)
    elif p == 1:
        slope = sign
    elif math.isinf(p):
        slope = sign * (difference.abs() == length)
    elif p == 2:
        slope = torch.where(length == 0, 0.0, difference / length)
    else:
        slope = torch.where(length == 0, 0.0, sign * (difference.abs() / length) ** (p - 1))
    pull = out * slope
    return torch.zeros_like(x).index_add(0, first, pull).index_add(0, second, -pull)


@formula("_weight_norm_interface_backward.default")
def weight_norm_backward(gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """``v * (g / |v|)`` by both."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = (gradient * v).sum(others, keepdim=True)
    norms = norms.reshape(along.shape)
    scale = g.reshape(along.shape) / norms
    by_v = scale * (gradient - v * (along / (norms * norms)))
    return by_v.to(v.dtype), (along / norms).reshape(g.shape).to(g.dtype)


@formula("_masked_softmax.default")
def masked_softmax(x: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None) -> Tensor:
    """Softmax over what the mask leaves; True is left out."""
    if mask_type == 0:
        mask = mask.reshape([1] * (x.dim() - 2) + [*mask.shape[-2:]])
    elif mask_type == 1:
        mask = mask.reshape([mask.shape[0]] + [1] * (x.dim() - 2) + [mask.shape[-1]])
    dim = x.dim() - 1 if dim is None else dim
    return torch.softmax(x.masked_fill(mask, -math.inf), dim)


@formula("_masked_softmax_backward.default")
def masked_softmax_backward(gradient: Tensor, output: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """The gradient of softmax, with zeros where the mask is."""
    dim = output.dim() - 1 if dim is None else dim
    product = gradient * output
    slope = product - output * product.masked_fill(mask, 0.0).sum(dim, keepdim=True)
    return slope.masked_fill(mask, 0.0)


@formula("_segment_reduce_backward.default")
def segment_reduce_backward(
    gradient: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """What each element of a segment adds to the segment's result."""
    if axis or (lengths is not None and lengths.dim() > 1) or (offsets is not None and offsets.dim() > 1):
        raise NotImplementedError("segments of several rows")
    if offsets is None:
        assert lengths is not None
        ends = lengths.cumsum(0)
        starts = ends - lengths
    else:
        starts, ends = offsets[:-1], offsets[1:]
    place = torch.searchsorted(ends, torch.arange(data.shape[0]), right=True)
    known = (place < ends.shape[0]).reshape([-1] + [1] * (data.dim() - 1))
    place = place.clamp(max=max(ends.shape[0] - 1, 0))
    out = gradient.index_select(0, place)
    result = output.index_select(0, place)
    if reduce == "mean":
        size = (ends - starts).index_select(0, place).reshape(known.shape)
        out = out / size
    elif reduce == "prod":
        out = out * result / data
    elif reduce in ("max", "min"):
        is_largest = (data == result) | data.isnan()
        count = torch.zeros_like(output).index_add(0, place, is_largest.to(output.dtype))
        out = torch.where(is_largest, out / count.index_select(0, place), 0.0)
    return torch.where(known, out, 0.0)


# --- fake quantization ------------------------------------------------------------------------------------------------


@formula("_fake_quantize_learnable_per_tensor_affine_backward.default")
def fake_quantize_learnable_backward(
    gradient: Tensor, x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, factor: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """By the input, the scale and the zero, which are learned (Esser et al., 2020, arXiv:1902.08153)."""
    # Torch rounds the zero here in another way than forward and by channel: negative ones upwards.
    level = torch.trunc((zero.reshape(-1)[0] + 0.5).clamp(low, high))
    by_x, by_scale, by_zero = _learned(gradient, x, scale.reshape(-1)[0], level, low, high)
    return by_x, (by_scale.sum() * factor).reshape(1), (by_zero.sum() * factor).reshape(1)


@formula("_fake_quantize_learnable_per_channel_affine_backward.default")
def fake_quantize_learnable_by_channel_backward(
    gradient: Tensor, x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int, factor: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """The same with parameters for each channel."""
    shape = [-1 if d == axis else 1 for d in range(x.dim())]
    others = [d for d in range(x.dim()) if d != axis]
    level = torch.round(zero).clamp(low, high)
    by_x, by_scale, by_zero = _learned(gradient, x, scale.reshape(shape), level.reshape(shape), low, high)
    return by_x, by_scale.sum(others) * factor, by_zero.sum(others) * factor


def _learned(
    gradient: Tensor, x: Tensor, scale: Tensor, level: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor, Tensor]:
    inverse = 1.0 / scale
    place = torch.round(x * inverse + level)
    inside = (place >= low) & (place <= high)
    clamped = place.clamp(low, high)
    dequantized = (clamped - level) * scale
    by_scale = torch.where(inside, (dequantized - x) * inverse, clamped - level)
    by_zero = torch.where(inside, 0.0, -scale)
    return torch.where(inside, gradient, 0.0), gradient * by_scale, gradient * by_zero


# --- resizing ---------------------------------------------------------------------------------------------------------


@formula("_upsample_bilinear2d_aa_backward.default")
def bilinear_backward(gradient: Tensor, size: Ints, given: Ints, align: bool, *scales: float | None) -> Tensor:
    """The products with the matrices of weights transposed."""
    return _resized_back(gradient, given, align, scales, "bilinear")


@formula("_upsample_bicubic2d_aa_backward.default")
def bicubic_backward(gradient: Tensor, size: Ints, given: Ints, align: bool, *scales: float | None) -> Tensor:
    """The products with the matrices of weights transposed."""
    return _resized_back(gradient, given, align, scales, "bicubic")


@formula("_upsample_lanczos2d_aa_backward.default")
def lanczos_backward(gradient: Tensor, size: Ints, given: Ints, align: bool, *scales: float | None) -> Tensor:
    """The products with the matrices of weights transposed."""
    return _resized_back(gradient, given, align, scales, "lanczos")


def _resized_back(gradient: Tensor, given: Ints, align: bool, scales: Sequence[float | None], kind: str) -> Tensor:
    matrices = []
    for i in range(2):
        source, target = int(given[2 + i]), int(gradient.shape[2 + i])
        scale = scales[i] if i < len(scales) else None
        step = interpolation_step(source, target, scale, align)
        weights = constants.smooth_weights(source, target, step, kind)
        matrices.append(torch.tensor(weights.tolist(), dtype=gradient.dtype))
    return torch.matmul(torch.matmul(matrices[0].t(), gradient), matrices[1])
