"""Channels that can be scaled without changing what a program computes.

A value x may be stored as x * s, with a positive number for each channel, where everything that makes it can make it
so (layers and norms, whose weights take the factors) and everything that reads it can undo it (layers). In between,
operators that give s f(x) for f(s x) hand the factors on: relu, pooling, means, moves, zero padding; sums want the same
factors for both operands. :func:`channel_groups` finds the values of a method that share factors. Others, such as
relu6, gelu, the inputs and outputs, pin the channels that they touch.

The idea is cross-layer equalization's (Nagel et al., *Data-Free Quantization through Weight Equalization and Bias
Correction*, ICCV 2019), here for any graph of such operators instead of for chains of two or three layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.dialects.dtypes import f32
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import is_static, tensor_of
from etir.dialects.quant.ops import ObserveOp
from etir.quantization.parameters import Parameters

LINEAR, CONVOLUTION = "aten.linear.default", "aten.convolution.default"
NORM = "aten.native_layer_norm.default"
PRODUCT = "aten.mul.Tensor"
SUMS = frozenset({"aten.add.Tensor", "aten.sub.Tensor"})
KEEPS = frozenset(
    {
        "aten.relu.default",
        "aten.leaky_relu.default",
        "aten.neg.default",
        "aten.abs.default",
        "aten.clone.default",
        "aten.alias_copy.default",
        "aten.max_pool2d.default",
        "aten.max_pool2d_with_indices.default",
        "aten.avg_pool2d.default",
        "aten.adaptive_avg_pool2d.default",
        "aten._adaptive_avg_pool2d.default",
        "aten.upsample_nearest2d.vec",
        "aten.upsample_bilinear2d.vec",
        "dim_order_ops._to_dim_order_copy.default",
        "dim_order_ops._clone_dim_order.default",
    }
)
"""Operators f with f(s x) = s f(x) for positive s, channel by channel, whose result has the dims of the operand."""

REDUCES = frozenset({"aten.mean.dim", "aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default"})


@dataclass(frozen=True)
class End:
    """One operator that takes factors: ``parameters`` are its arguments that do, ``is_layer`` says that it is a
    convolution or linear layer and no norm. ``repeat`` is how many indices of the dim each channel has.
    """

    op: EdgeOp
    parameters: tuple[str, ...]
    is_layer: bool
    repeat: int = 1

    def scaled(self, name: str, array: np.ndarray, factors: np.ndarray, *, reads: bool) -> np.ndarray:
        """``array``, the argument ``name``, times a factor for each channel that is written, or that is read."""
        factors = np.repeat(factors, self.repeat)
        if name != "weight" or not self.is_layer:
            return array * factors
        view, axes = self._view(array, reads)
        shape = [size if axis in axes else 1 for axis, size in enumerate(view.shape)]
        return (view * factors.reshape(shape)).reshape(array.shape)

    def ranges(self, weight: np.ndarray, *, reads: bool) -> np.ndarray:
        """The largest magnitude of the weight for each channel that is written, or that is read."""
        if not self.is_layer:
            return np.abs(weight)
        view, axes = self._view(weight, reads)
        most = np.abs(view).max(axis=tuple(a for a in range(view.ndim) if a not in axes)).reshape(-1)
        return most.reshape(-1, self.repeat).max(1)

    def _view(self, weight: np.ndarray, reads: bool) -> tuple[np.ndarray, tuple[int, ...]]:
        """A weight with dims that are channels: those of a convolution's groups are in front."""
        if self.op.op_name == LINEAR:
            return weight, (1,) if reads else (0,)
        if self.op.arg("transposed"):
            return weight, (0,) if reads else (1,)
        groups = cast(int, self.op.arg("groups"))
        return weight.reshape(groups, -1, *weight.shape[1:]), (0, 2) if reads else (0, 1)


@dataclass(eq=False)
class Group:
    """Values whose channels have the same factors: who writes them and who reads them."""

    size: int
    writers: list[End] = field(default_factory=list[End])
    readers: list[End] = field(default_factory=list[End])
    values: list[SSAValue] = field(default_factory=list[SSAValue])
    pinned: bool = False
    parent: Group | None = None

    def root(self) -> Group:
        """The group that this one is a part of by now."""
        return self if self.parent is None else self.parent.root()


@dataclass(frozen=True)
class _Place:
    """Where a value's channels are: index i of dim ``dim`` belongs to channel ``i // inner`` of the group."""

    group: Group
    dim: int
    inner: int = 1


def channel_groups(func: FuncOp, parameters: Parameters) -> list[Group]:
    """The groups of channels of a method that can be scaled, each with a writer and a reader, in order."""
    return _Walk(parameters).run(func)


class _Walk:
    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        self.places: dict[SSAValue, _Place] = {}
        self.groups: list[Group] = []

    def run(self, func: FuncOp) -> list[Group]:
        for op in func.body.block.ops:
            self._visit(op)
        roots = dict.fromkeys(group.root() for group in self.groups)
        return [group for group in roots if not group.pinned and group.writers and group.readers]

    def _visit(self, op: Operation) -> None:
        handled: list[SSAValue] = []
        if isinstance(op, EdgeOp):
            handled = self._operator(op)
        elif isinstance(op, ObserveOp) and op.seen is None and op.encoding is None:
            self._hand_on(op.input, op.result)
            handled = [op.input]
        for inner in op.walk():
            for value in inner.operands:
                if not any(value is known for known in handled) and value in self.places:
                    self.places[value].group.root().pinned = True

    def _operator(self, op: EdgeOp) -> list[SSAValue]:
        """Look at an operator; the operands whose channels it takes as they are scaled."""
        name = op.op_name
        if any(not isinstance(v.type, TensorType) for v in (*op.results, *op.operands)) or not op.results:
            return []
        if op.results[0].type.element_type != f32:  # type: ignore[attr-defined]
            return []
        if name in (LINEAR, CONVOLUTION):
            return self._layer(op)
        if name == NORM:
            self._norm(op)
            return []
        if name == PRODUCT:
            self._product(op)
            return []
        if name in SUMS:
            return self._sum(op)
        value = op.operands[0] if op.operands else None
        place = None if value is None else self.places.get(value)
        if value is None or place is None:
            return []
        moved = place if name in KEEPS else MOVED[name](op, place) if name in MOVED else None
        if moved is None or any(result.first_use is not None for result in _changed(op)):
            return []
        self._put(op.results[0], moved)
        return [value]

    def _hand_on(self, value: SSAValue, result: SSAValue) -> None:
        if value in self.places:
            self._put(result, self.places[value])

    def _put(self, value: SSAValue, place: _Place) -> None:
        self.places[value] = place
        place.group.root().values.append(value)

    def _new(self, value: SSAValue, dim: int, size: int, writer: End) -> None:
        group = Group(size, writers=[writer])
        self.groups.append(group)
        self._put(value, _Place(group, dim))

    def _layer(self, op: EdgeOp) -> list[SSAValue]:
        weight, bias, value = op.arg("weight"), op.arg("bias"), cast(SSAValue, op.arg("input"))
        if not self.parameters.is_own(weight) or op.results[0].type.get_num_dims() < 2:  # type: ignore[attr-defined]
            return []
        rank, shape = tensor_of(value).get_num_dims(), tensor_of(cast(SSAValue, weight)).get_shape()
        linear, transposed = op.op_name == LINEAR, op.op_name == CONVOLUTION and op.arg("transposed")
        if not linear and (rank != len(shape) or (transposed and op.arg("groups") != 1)):
            return []
        dim = rank - 1 if linear else 1
        out = shape[1] if transposed else shape[0]
        if bias is None or self.parameters.is_own(bias):
            names = ("weight",) if bias is None else ("weight", "bias")
            self._new(op.results[0], dim, out, End(op, names, True))
        place = self.places.get(value)
        if place is None or place.dim != dim:
            return []
        place.group.root().readers.append(End(op, ("weight",), True, place.inner))
        return [value]

    def _norm(self, op: EdgeOp) -> None:
        rank = tensor_of(op.results[0]).get_num_dims()
        over, given = cast("list[Any]", op.arg("normalized_shape")), [op.arg("weight"), op.arg("bias")]
        own = all(value is None or self.parameters.is_own(value) for value in given) and given[0] is not None
        if not own or len(over) != 1 or not isinstance(over[0], int):
            return
        names = tuple(n for n, value in zip(("weight", "bias"), given, strict=True) if value is not None)
        self._new(op.results[0], rank - 1, over[0], End(op, names, False))

    def _product(self, op: EdgeOp) -> None:
        """The weight of an RMS norm, which is a product with a vector."""
        type = tensor_of(op.results[0])
        size = type.get_shape()[-1] if type.get_num_dims() else -1
        for name in ("other", "self"):
            value = op.arg(name)
            if self.parameters.is_own(value) and size > 1:
                shape = tensor_of(cast(SSAValue, value)).get_shape()
                if shape and shape[-1] == size == prod(shape):
                    self._new(op.results[0], type.get_num_dims() - 1, size, End(op, (name,), False))
                return

    def _sum(self, op: EdgeOp) -> list[SSAValue]:
        """Both operands have the same factors."""
        values = [op.operands[0], op.operands[-1]] if len(op.operands) == 2 else []
        places = [self.places[v] for v in values if v in self.places]
        if len(places) != 2 or len({tensor_of(v).get_num_dims() for v in values}) != 1:
            return []
        a, b = places
        groups = a.group.root(), b.group.root()
        if (a.dim, a.inner, groups[0].size) != (b.dim, b.inner, groups[1].size):
            return []
        shapes = [tensor_of(v).get_shape() for v in values]
        if shapes[0][a.dim] != shapes[1][a.dim]:
            return []
        if groups[0] is not groups[1]:
            first, second = groups
            second.parent = first
            first.writers += second.writers
            first.readers += second.readers
            first.values += second.values
            first.pinned |= second.pinned
        self._put(op.results[0], replace(a, group=groups[0]))
        return values


def _changed(op: EdgeOp) -> Iterator[SSAValue]:
    """Results after the first one that depend on factors. The places of the greatest elements do not."""
    return iter(()) if op.op_name == "aten.max_pool2d_with_indices.default" else iter(op.results[1:])


def _permuted(op: EdgeOp, place: _Place) -> _Place | None:
    rank = tensor_of(op.operands[0]).get_num_dims()
    dims = [d % rank for d in cast("list[int]", op.arg("dims"))]
    return replace(place, dim=dims.index(place.dim))


def _transposed(op: EdgeOp, place: _Place) -> _Place | None:
    rank = tensor_of(op.operands[0]).get_num_dims()
    a, b = (cast(int, op.arg(name)) % rank for name in ("dim0", "dim1"))
    return replace(place, dim=b if place.dim == a else a if place.dim == b else place.dim)


def _viewed(op: EdgeOp, place: _Place) -> _Place | None:
    """Dims before the channels keep their number of elements; dims after them may become a part of their dim."""
    before, after = (tensor_of(v) for v in (op.operands[0], op.results[0]))
    if not is_static(before) or not is_static(after):
        return None
    old, new = before.get_shape(), after.get_shape()
    outer = prod(old[: place.dim])
    for dim, size in enumerate(new):
        if prod(new[:dim]) != outer or size == 1 != old[place.dim]:
            continue
        if size == old[place.dim]:
            return replace(place, dim=dim)
        grown = size // old[place.dim]
        inner = prod(old[place.dim + 1 :])
        return replace(place, dim=dim, inner=place.inner * grown) if size == old[place.dim] * inner else None
    return None


def _reduced(op: EdgeOp, place: _Place) -> _Place | None:
    dims, rank = op.arg("dim"), tensor_of(op.operands[0]).get_num_dims()
    if not isinstance(dims, (list, tuple)) or not dims:
        return None
    over = [cast(int, d) % rank for d in dims]
    if place.dim in over:
        return None
    return place if op.arg("keepdim") else replace(place, dim=place.dim - sum(d < place.dim for d in over))


def _padded(op: EdgeOp, place: _Place) -> _Place | None:
    pads, rank = cast("list[Any]", op.arg("pad")), tensor_of(op.operands[0]).get_num_dims()
    return place if not op.arg("value") and len(pads) <= 2 * (rank - 1 - place.dim) else None


def _unsqueezed(op: EdgeOp, place: _Place) -> _Place | None:
    dim = cast(int, op.arg("dim")) % tensor_of(op.results[0]).get_num_dims()
    return replace(place, dim=place.dim + (dim <= place.dim))


def _squeezed(op: EdgeOp, place: _Place) -> _Place | None:
    given, shape = op.arg("dim"), tensor_of(op.operands[0]).get_shape()
    dims = [cast(int, d) % len(shape) for d in (given if isinstance(given, (list, tuple)) else [given])]
    gone = [d for d in dims if shape[d] == 1]
    return None if place.dim in gone else replace(place, dim=place.dim - sum(d < place.dim for d in gone))


def _cut(op: EdgeOp, place: _Place) -> _Place | None:
    dim = cast(int, op.arg("dim") or 0) % tensor_of(op.operands[0]).get_num_dims()
    if dim == place.dim:
        return None
    return replace(place, dim=place.dim - (dim < place.dim)) if op.op_name == "aten.select_copy.int" else place


MOVED: dict[str, Callable[[EdgeOp, _Place], _Place | None]] = {
    "aten.permute_copy.default": _permuted,
    "aten.transpose_copy.int": _transposed,
    "aten.view_copy.default": _viewed,
    "aten.constant_pad_nd.default": _padded,
    "aten.unsqueeze_copy.default": _unsqueezed,
    "aten.squeeze_copy.dims": _squeezed,
    "aten.squeeze_copy.dim": _squeezed,
    "aten.select_copy.int": _cut,
    "aten.slice_copy.Tensor": _cut,
    **dict.fromkeys(REDUCES, _reduced),
}
"""Where the channels of the result are, by the operator that moves them; None where they are nowhere."""
