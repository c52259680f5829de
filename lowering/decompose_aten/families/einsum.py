"""``einsum`` as permutations and matrix products.

Operands are contracted from left to right. Each step sums away what only one side has, then is a ``bmm`` (``mm``
without common dims that stay), or a product of broadcast tensors when nothing is contracted.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.lowering.build.builder import Builder, dims, rank
from etir.lowering.build.equations import Labels, parse_equation
from etir.lowering.build.sizes import SizeLike, product
from etir.lowering.decompose_aten.decomposition import decomposition


@decomposition(aten.einsum.default)
def einsum(b: Builder, text: str, tensors: Sequence[SSAValue], _path: Sequence[int] | None) -> SSAValue:
    """``permute``, ``view`` and ``bmm`` for each pair of operands"""
    equation = parse_equation(text, [rank(t) for t in tensors])
    sizes: dict[str, SizeLike] = {}
    operands: list[tuple[SSAValue, Labels]] = []
    for tensor, labels in zip(tensors, equation.inputs, strict=True):
        tensor, labels = _without_repeated(b, tensor, labels)
        for position, label in enumerate(labels):
            if sizes.get(label, 1) == 1:
                sizes[label] = b.size(tensor, position)
        operands.append((tensor, labels))
    # A dim of size 1 broadcasts: it is the same as not being there.
    operands = [_without_broadcast(b, tensor, labels, sizes) for tensor, labels in operands]
    result, labels = operands[0]
    for i, (tensor, other) in enumerate(operands[1:], start=1):
        later = [label for _, rest in operands[i + 1 :] for label in rest]
        result, labels = _contract(b, (result, labels), (tensor, other), (*equation.output, *later), sizes)
    return _arranged(b, *_summed(b, result, labels, equation.output), equation.output, sizes)


def _without_repeated(b: Builder, tensor: SSAValue, labels: Labels) -> tuple[SSAValue, Labels]:
    """The diagonal of dims with the same label."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = b(aten.diagonal.default, tensor, 0, first, second)
            labels = (*(other for i, other in enumerate(labels) if i not in (first, second)), label)
    return tensor, labels


def _without_broadcast(
    b: Builder, tensor: SSAValue, labels: Labels, sizes: dict[str, SizeLike]
) -> tuple[SSAValue, Labels]:
    dropped = [i for i, label in enumerate(labels) if dims(tensor)[i] == 1 and sizes[label] != 1]
    if not dropped:
        return tensor, labels
    kept = [i for i in range(len(labels)) if i not in dropped]
    own = b.sizes(tensor)
    return b.view(tensor, [own[i] for i in kept]), tuple(labels[i] for i in kept)


def _summed(b: Builder, tensor: SSAValue, labels: Labels, needed: Sequence[str]) -> tuple[SSAValue, Labels]:
    """The sum over the dims that nobody needs."""
    positions = [i for i, label in enumerate(labels) if label not in needed]
    if not positions:
        return tensor, labels
    return b.sum(tensor, positions), tuple(label for label in labels if label in needed)


def _arranged(
    b: Builder, tensor: SSAValue, labels: Labels, wanted: Sequence[str], sizes: dict[str, SizeLike]
) -> SSAValue:
    """The dims in the wanted order; a label that the tensor does not have gets a broadcast dim."""
    present = [label for label in wanted if label in labels]
    tensor = b.permute(tensor, [labels.index(label) for label in present])
    if len(present) == len(wanted):
        return tensor
    view = b.view(tensor, [sizes[label] if label in labels else 1 for label in wanted])
    return b.expand(view, [sizes[label] for label in wanted])


def _contract(
    b: Builder,
    left: tuple[SSAValue, Labels],
    right: tuple[SSAValue, Labels],
    needed: Sequence[str],
    sizes: dict[str, SizeLike],
) -> tuple[SSAValue, Labels]:
    x, xs = _summed(b, *left, (*needed, *right[1]))
    y, ys = _summed(b, *right, (*needed, *xs))
    shared = [label for label in xs if label in ys]
    batch = tuple(label for label in shared if label in needed)
    inner = tuple(label for label in shared if label not in needed)
    rows = tuple(label for label in xs if label not in ys)
    columns = tuple(label for label in ys if label not in xs)
    if not inner:
        return _multiplied(b, x, xs, y, ys, (*batch, *rows, *columns), sizes), (*batch, *rows, *columns)

    def flat(labels: Labels) -> SizeLike:
        return product([sizes[label] for label in labels])

    x = _arranged(b, x, xs, (*batch, *rows, *inner), sizes)
    y = _arranged(b, y, ys, (*batch, *inner, *columns), sizes)
    front = [flat(batch)] if batch else []
    x, y = b.view(x, [*front, flat(rows), flat(inner)]), b.view(y, [*front, flat(inner), flat(columns)])
    labels = (*batch, *rows, *columns)
    return b.view(b.bmm(x, y) if batch else b.mm(x, y), [sizes[label] for label in labels]), labels


def _multiplied(
    b: Builder, x: SSAValue, xs: Labels, y: SSAValue, ys: Labels, labels: Labels, sizes: dict[str, SizeLike]
) -> SSAValue:
    """The product of two tensors whose dims are spread over ``labels``."""

    def spread(tensor: SSAValue, own: Labels) -> SSAValue:
        present = [label for label in labels if label in own]
        tensor = b.permute(tensor, [own.index(label) for label in present])
        first = next((i for i, label in enumerate(labels) if label in own), len(labels))
        return b.view(tensor, [sizes[label] if label in own else 1 for label in labels[first:]])

    return b.mul(spread(x, xs), spread(y, ys))
