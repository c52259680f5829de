"""Loss functions: a value for each element, then a mean, a sum or neither."""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i64
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.promotion import FLOATING, category_of
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.families.elementwise import xlogy

NONE, MEAN, SUM = 0, 1, 2
"""torch's numbers of the reductions."""


def reduced(b: Builder, x: SSAValue, reduction: int) -> SSAValue:
    """All elements as one number, unless the reduction is none."""
    if reduction == NONE:
        return x
    return (b.mean if reduction == MEAN else b.sum)(x, list(range(rank(x))))


@decomposition(aten.mse_loss.default, aten.l1_loss.default, in_float=True)
def distance_loss(b: Builder, x: SSAValue, target: SSAValue, reduction: int) -> SSAValue:
    """``(x - target) ** 2`` or ``|x - target|``"""
    difference = b.sub(x, target)
    squared = "mse" in b.rewriter.root.name
    return reduced(b, b.mul(difference, difference) if squared else b.abs(difference), reduction)


@decomposition(aten.smooth_l1_loss.default, in_float=True)
def smooth_l1_loss(b: Builder, x: SSAValue, target: SSAValue, reduction: int, beta: float) -> SSAValue:
    """Squared below ``beta``, linear above"""
    distance = b.abs(b.sub(x, target))
    if beta == 0:
        return reduced(b, distance, reduction)
    near = b.mul(b.mul(distance, distance), 0.5 / beta)
    far = b.sub(distance, 0.5 * beta)
    return reduced(b, b(aten.where.self, b.lt(distance, beta), near, far), reduction)


@decomposition(aten.huber_loss.default, in_float=True)
def huber_loss(b: Builder, x: SSAValue, target: SSAValue, reduction: int, delta: float) -> SSAValue:
    """Squared up to ``delta``, linear above (Huber, 1964)"""
    distance = b.abs(b.sub(x, target))
    near = b.mul(b.mul(distance, distance), 0.5)
    far = b.mul(b.sub(distance, 0.5 * delta), delta)
    return reduced(b, b(aten.where.self, b.le(distance, delta), near, far), reduction)


@decomposition(aten.binary_cross_entropy.default, in_float=True)
def binary_cross_entropy(
    b: Builder, x: SSAValue, target: SSAValue, weight: SSAValue | None, reduction: int
) -> SSAValue:
    """``-(target * log(x) + (1 - target) * log(1 - x))``, logarithms not below -100"""
    yes = b.clamp(b.log(x), -100)
    no = b.clamp(b.log1p(b.neg(x)), -100)
    loss = b.sub(b.mul(b.sub(target, 1), no), b.mul(target, yes))
    return reduced(b, loss if weight is None else b.mul(loss, weight), reduction)


@decomposition(aten.binary_cross_entropy_with_logits.default, in_float=True)
def binary_cross_entropy_with_logits(
    b: Builder, x: SSAValue, target: SSAValue, weight: SSAValue | None, positive: SSAValue | None, reduction: int
) -> SSAValue:
    """``(1 - target) * x + (1 + (positive - 1) * target) * softplus(-x)``"""
    corner = b.log1p(b.exp(b.neg(b.abs(x))))
    soft = b.sub(corner, b.clamp(x, high=0))
    if positive is not None:
        soft = b.mul(soft, b.add(b.mul(target, b.sub(positive, 1)), 1))
    loss = b.add(b.mul(b.rsub(target, 1), x), soft)
    return reduced(b, loss if weight is None else b.mul(loss, weight), reduction)


@decomposition(aten.kl_div.default, in_float=True)
def kl_div(b: Builder, x: SSAValue, target: SSAValue, reduction: int, log_target: bool) -> SSAValue:
    """``target * (log(target) - x)``"""
    if log_target:
        return reduced(b, b.mul(b.exp(target), b.sub(target, x)), reduction)
    return reduced(b, b.sub(xlogy(b, target, target), b.mul(target, x)), reduction)


# --- classes ----------------------------------------------------------------------------------------------------------


def _class_dim(x: SSAValue) -> int:
    return 1 if rank(x) > 1 else 0


def _nll(
    b: Builder, x: SSAValue, target: SSAValue, weight: SSAValue | None, reduction: int, ignored: int
) -> tuple[SSAValue, SSAValue]:
    """The negative log likelihood of the target classes, and the sum of the weights that count."""
    position = _class_dim(x)
    counted = b.ne(target, ignored)
    target = b(aten.where.self, counted, target, b.as_tensor(0, element(target)))
    picked = b.squeeze(b(aten.gather.default, x, position, b.unsqueeze(target, position)), position)
    loss = b.neg(picked)
    zero = b.as_tensor(0, element(x))
    if weight is None:
        weights = b.cast(counted, element(x))
    else:
        weights = b(aten.index.Tensor, weight, [target])
        loss = b.mul(loss, weights)
        weights = b(aten.where.self, counted, weights, zero)
    loss = b(aten.where.self, counted, loss, zero)
    everything = list(range(rank(loss)))
    total = b.sum(weights, everything)
    if reduction == NONE:
        return loss, total
    summed = b.sum(loss, everything)
    return (b.div(summed, total) if reduction == MEAN else summed), total


@decomposition(aten.nll_loss.default, aten.nll_loss_nd.default, aten.nll_loss2d.default)
def nll_loss(
    b: Builder, x: SSAValue, target: SSAValue, weight: SSAValue | None, reduction: int, ignored: int
) -> SSAValue:
    """``-x[target]``, a mean weighted by class"""
    return _nll(b, x, target, weight, reduction, ignored)[0]


@decomposition(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss_forward(
    b: Builder, x: SSAValue, target: SSAValue, weight: SSAValue | None, reduction: int, ignored: int
) -> list[SSAValue]:
    """``-x[target]``, and the sum of the weights, which torch leaves out for several losses"""
    loss, total = _nll(b, x, target, weight, reduction, ignored)
    return [loss, b.as_tensor(0, element(x)) if reduction == NONE and rank(x) > 1 else total]


@decomposition(aten.cross_entropy_loss.default, in_float=True)
def cross_entropy_loss(
    b: Builder, x: SSAValue, target: SSAValue, weight: SSAValue | None, reduction: int, ignored: int, smoothing: float
) -> SSAValue | None:
    """``nll_loss`` of ``log_softmax``; targets may be probabilities"""
    probabilities = category_of(element(target)) == FLOATING
    if smoothing and not probabilities:
        return b.notify_match_failure("it smooths labels")
    likelihood = b(aten._log_softmax.default, x, _class_dim(x), False)
    if not probabilities:
        return _nll(b, likelihood, target, weight, reduction, ignored)[0]
    position = _class_dim(x)
    if smoothing:
        classes = dims(x)[position]
        if not isinstance(classes, int):
            return b.notify_match_failure("the number of classes is dynamic")
        target = b.add(b.mul(target, 1 - smoothing), smoothing / classes)
    loss = b.mul(likelihood, target)
    if weight is not None:
        loss = b.mul(loss, b.view(weight, [-1, *[1] * (rank(x) - 1 - position)]))
    loss = b.neg(b.sum(loss, [position]))
    return reduced(b, loss, reduction)


@decomposition(aten.multi_margin_loss.default, in_float=True)
def multi_margin_loss(
    b: Builder, x: SSAValue, target: SSAValue, p: float, margin: float, weight: SSAValue | None, reduction: int
) -> SSAValue:
    """``mean(max(0, margin - x[target] + x) ** p)`` over all classes but the target"""
    classes = b.size(x, -1) if rank(x) else 1
    rows = b.view(x, [1, classes]) if rank(x) <= 1 else x
    wanted = b.view(target, [b.size(rows, 0), 1])
    own = b(aten.gather.default, rows, 1, wanted)
    z = b.clamp(b.add(b.sub(rows, own), margin), 0)
    z = b.mul(z, z) if p == 2 else z
    z = z if weight is None else b.mul(z, b(aten.gather.default, b.expand(weight, b.sizes(rows)), 1, wanted))
    z = b.where(b.eq(b.arange(classes), wanted), 0.0, z)
    return reduced(b, _of_rows(b, x, b.mean(z, [1]), reduction), reduction)


@decomposition(aten.multilabel_margin_loss.default, in_float=True)
def multilabel_margin_loss(b: Builder, x: SSAValue, target: SSAValue, reduction: int) -> SSAValue:
    """``sum(max(0, 1 - x[target] + x)) / classes`` over targets before the first -1 and other classes"""
    classes = b.size(x, -1) if rank(x) else 1
    rows, wanted = (b.view(t, [1, classes]) if rank(t) <= 1 else t for t in (x, target))
    is_end = b.cast(b.lt(wanted, 0), i64)
    counts = b.eq(b(aten.cumsum.default, is_end, 1), 0)
    own = b(aten.gather.default, rows, 1, b.where(counts, wanted, 0))
    z = b.clamp(b.add(b.sub(b.unsqueeze(rows, 1), b.unsqueeze(own, 2)), 1.0), 0)
    is_pair = b.logical_and(b.eq(b.unsqueeze(wanted, 2), b.arange(classes)), b.unsqueeze(counts, 2))
    others = b.logical_not(b(aten.any.dim, is_pair, 1, True))
    z = b.where(b.logical_and(b.unsqueeze(counts, 2), others), z, 0.0)
    # Of a row that is no batch torch's kernel gives a scalar and its shape function a list of one, which is what the
    # rest of a program was exported with; so the losses keep the dim of the rows.
    return reduced(b, b.sum(b.mean(z, [2]), [1]), reduction)


def _of_rows(b: Builder, x: SSAValue, losses: SSAValue, reduction: int) -> SSAValue:
    """A loss for each row; of a single one that is no batch, without a dim."""
    return b.view(losses, []) if rank(x) <= 1 and reduction == NONE else losses
