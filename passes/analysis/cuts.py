"""Which operands of a kernel call are cut when its result is cut along the first dim that is longer than 1.

The parts of a contiguous tensor along that dim are runs of bytes, so that a part is a tensor of its own at a place
inside of the whole: a call can compute one part, and calls on all parts compute the whole. What each needs of the
operands is here, by kernel: some are cut as the result is (an elementwise operand, the channels of a pool), others are
read whole by every part (the image of a convolution, of which each output channel needs all). A kernel that is not here
is not cut.

Each number of a result is computed from the same numbers in the same order as without parts, by the same instructions
where that could give other bits: kernels go through a tensor in vectors and have another loop for what is left at its
end, in which an `exp` may be another one, and a product of matrices has a loop for a block of rows and one for each
row that is left. Such kernels have parts that vectors and blocks divide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.et.arguments import OPERAND, Item, ListArg, Template, flatten
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.layout import is_contiguous, is_static
from etir.dialects.schema import OpSchema

WRITES = "writes"
CUT = "cut"
WHOLE = "whole"

MOST_PARTS = 32
VECTOR = 64
"""Elements of which a part has a multiple where a function is computed in vectors: no processor has longer ones."""
ROWS = 8
"""Rows of which a part of a product has a multiple: those of a block of Eigen's products at most."""
LEAST_ROWS = 64
"""Rows that a part of a product has at least, since the other operand is packed for each: some 3 % more time with so
many, 13 % with 16, 28 % with 8.
"""


@dataclass(frozen=True)
class Cut:
    """How a call is cut. ``roles`` has for each of its operands whether it is ``CUT``, read ``WHOLE`` or what the
    call ``WRITES``, which is cut, too; numbers are whole. The parts are equal, and their number divides ``units``.

    ``divided`` are the positions in the template of numbers that are divided by the number of parts. A part of the
    first result has a multiple of ``grain`` elements, and there are no more of them than ``most``.
    """

    roles: tuple[str, ...]
    units: int
    divided: tuple[int, ...] = ()
    grain: int = 1
    most: int = MOST_PARTS


@dataclass(frozen=True)
class _Call:
    """A call by the names of its schema's arguments; ``shape`` and ``dim`` are those of the first result."""

    values: Mapping[str, Sequence[SSAValue]]
    items: Mapping[str, Item | ListArg]
    positions: Mapping[str, int]
    shape: tuple[int, ...]
    dim: int

    @property
    def size(self) -> int:
        """How long the dim is that is cut."""
        return self.shape[self.dim]

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The dims of the tensor argument ``name``, None where it is absent."""
        found = self.values[name]
        return _shape(found[0].type) if found else None

    def integer(self, name: str) -> int | None:
        item = self.items[name]
        return item if isinstance(item, int) and not isinstance(item, bool) else None

    def integers(self, name: str) -> list[int] | None:
        """A list of numbers that are known; None for another argument."""
        item = self.items[name]
        if not isinstance(item, ListArg):
            return None
        known = [i for i in item.items if isinstance(i, int) and not isinstance(i, bool)]
        return known if len(known) == len(item.items) else None


@dataclass(frozen=True)
class _Parts:
    """What a rule says: the arguments that are cut, at most into how many parts, and the numbers that are divided."""

    names: Iterable[str]
    units: int
    divided: tuple[str, ...] = ()
    items: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    """For arguments of which not every item is alike."""
    grain: int = 1
    most: int = MOST_PARTS


_Rule: TypeAlias = Callable[[_Call], "_Parts | None"]


def cut_of(op: CallOp, schema: OpSchema) -> Cut | None:
    """How ``op``, a call of the kernel with this ``schema``, is cut; None where it is not."""
    rule = RULES.get(op.kernel.data)
    if rule is None or len(schema.arguments) != len(op.template.data):
        return None
    operands = iter(op.arguments)
    values: dict[str, list[SSAValue]] = {}
    order: list[tuple[str, bool]] = []
    results: list[SSAValue] = []
    for argument, item in zip(schema.arguments, op.template.data, strict=True):
        count = sum(1 for element in flatten((item,)) if element is OPERAND)
        given = [next(operands) for _ in range(count)]
        if argument.is_write:
            if not argument.kwarg_only:
                return None
            results += given
        values[argument.name] = [value for value in given if isinstance(value.type, TensorType)]
        order += [(argument.name, argument.is_write)] * count
    if not results or not all(is_plain(value.type) for value in op.arguments if isinstance(value.type, TensorType)):
        return None
    shape = _shape(results[0].type)
    dim = leading(shape)
    if dim is None:
        return None
    names = [argument.name for argument in schema.arguments]
    items = dict(zip(names, op.template.data, strict=True))
    call = _Call(values, items, {name: index for index, name in enumerate(names)}, shape, dim)
    parts = rule(call)
    if parts is None:
        return None
    cut = dict.fromkeys(parts.names)
    units = parts.units
    roles: list[str] = []
    seen: dict[str, int] = {}
    for (name, writes), value in zip(order, op.arguments, strict=False):
        place = seen[name] = seen.get(name, -1) + 1
        if writes:
            roles.append(WRITES)
            if not isinstance(value.type, TensorType):
                return None
        elif isinstance(value.type, TensorType) and (name in cut or (name in parts.items and parts.items[name][place])):
            roles.append(CUT)
        else:
            roles.append(WHOLE)
            continue
        along = leading(_shape(value.type))
        if along is None:
            return None
        units = math.gcd(units, _shape(value.type)[along])
    # The slot of the result repeats what was written.
    roles += [WRITES] * (len(op.arguments) - len(roles))
    return Cut(tuple(roles), units, tuple(call.positions[name] for name in parts.divided), parts.grain, parts.most)


def is_elementwise(kernel: str) -> bool:
    """Whether each number of a kernel's result follows from those at the same places of its operands."""
    return RULES.get(kernel) in (_pointwise, _function)


def template_of(op: CallOp, cut: Cut, count: int) -> Template:
    """The template of the call of one of ``count`` parts."""
    found: list[Item | ListArg] = list(op.template.data)
    for position in cut.divided:
        number = found[position]
        assert isinstance(number, int)
        found[position] = number // count
    return tuple(found)


def is_plain(type: Attribute) -> bool:
    """Whether a type is that of a static contiguous tensor with elements."""
    return isinstance(type, TensorType) and is_static(type) and is_contiguous(type) and 0 not in type.get_shape()


def leading(shape: Sequence[int]) -> int | None:
    """The first dim that is longer than 1, along which parts are runs; None if there is none."""
    return next((dim for dim, size in enumerate(shape) if size != 1), None)


def _shape(type: Attribute) -> tuple[int, ...]:
    assert isinstance(type, TensorType)
    return type.get_shape()


def _pointwise(call: _Call) -> _Parts | None:
    items: dict[str, list[bool]] = {}
    for name, values in call.values.items():
        flags: list[bool] = []
        for value in values:
            shape = _shape(value.type)
            at = call.dim - (len(call.shape) - len(shape))
            is_cut = at >= 0 and shape[at] == call.size
            if len(shape) > len(call.shape) or (not is_cut and at >= 0 and shape[at] != 1):
                return None
            flags.append(is_cut)
        items[name] = flags
    # A product that is added may be rounded once or twice.
    return _Parts((), call.size, items=items, grain=1 if call.items.get("alpha", 1) == 1 else VECTOR)


def _function(call: _Call) -> _Parts | None:
    found = _pointwise(call)
    return None if found is None else replace(found, grain=VECTOR)


def _rows(mixed: Callable[[_Call, int], Iterable[int] | None], name: str = "self") -> _Rule:
    """The rule of a kernel that computes along the dims ``mixed`` of an argument (of a rank), and is the same for every
    index of the others.
    """

    def rule(call: _Call) -> _Parts | None:
        shape = call.shape_of(name)
        if shape is None or (along := leading(shape)) is None:
            return None
        dims = mixed(call, len(shape))
        if dims is None or shape[along] != call.size or along in {dim % len(shape) for dim in dims}:
            return None
        return _Parts((name,), call.size)

    return rule


def _last(count: int) -> Callable[[_Call, int], Iterable[int] | None]:
    """The last dims of an argument, all of which have to come after the one that is cut."""

    def dims(call: _Call, rank: int) -> Iterable[int] | None:
        return range(-count, 0) if rank > count and call.dim < len(call.shape) - count else None

    return dims


def _one_dim(name: str = "dim") -> Callable[[_Call, int], Iterable[int] | None]:
    def dims(call: _Call, rank: int) -> Iterable[int] | None:
        dim = call.integer(name)
        return None if dim is None else (dim,)

    return dims


def _some_dims(name: str) -> Callable[[_Call, int], Iterable[int] | None]:
    def dims(call: _Call, rank: int) -> Iterable[int] | None:
        return call.integers(name) or None  # none at all mean all of them

    return dims


def _padded(call: _Call, rank: int) -> Iterable[int] | None:
    pad = call.integers("pad")
    if pad is None or len(pad) // 2 >= rank or call.dim >= len(call.shape) - len(pad) // 2:
        return None
    return range(-(len(pad) // 2), 0)


def _normalized(call: _Call, rank: int) -> Iterable[int] | None:
    shape = call.integers("normalized_shape")
    return None if shape is None or len(shape) >= rank else range(-len(shape), 0)


def _group_norm(call: _Call) -> _Parts | None:
    groups, shape = call.integer("group"), call.shape_of("input")
    if groups is None or shape != call.shape or call.dim != 1:
        return None
    return _Parts(("input", "weight", "bias"), groups, ("C", "group"))


def _permute(call: _Call) -> _Parts | None:
    dims, shape = call.integers("dims"), call.shape_of("self")
    if dims is None or shape is None or len(dims) != len(shape) or dims[call.dim] % len(shape) != leading(shape):
        return None
    return _Parts(("self",), call.size)


def _shuffle(call: _Call) -> _Parts | None:
    """Channels become pixels of one channel, or the other way round."""
    shape = call.shape_of("self")
    if shape is None or len(shape) < 3 or call.dim != len(call.shape) - 3 or leading(shape) != len(shape) - 3:
        return None
    return _Parts(("self",), min(call.size, shape[-3]))


def _convolution(call: _Call) -> _Parts | None:
    groups, shape = call.integer("groups"), call.shape_of("input")
    weight = call.shape_of("weight")
    if groups is None or shape is None or weight is None or not len(shape) == len(weight) == len(call.shape):
        return None
    if call.dim == 0:
        return _Parts(("input",), call.size)
    if call.dim != 1 or call.items["transposed"] is not False or weight[0] != call.size:
        return None
    if groups == 1:
        return _Parts(("weight", "bias"), call.size)
    return _Parts(("input", "weight", "bias"), groups, ("groups",)) if leading(shape) == 1 else None


def _linear(call: _Call) -> _Parts | None:
    if call.dim == len(call.shape) - 1:
        weight = call.shape_of("weight")
        is_cut = weight is not None and weight[0] == call.size
        return _Parts(("weight", "bias"), call.size, grain=VECTOR) if is_cut else None
    return _product("input", call.size, math.prod(call.shape[call.dim + 1 : -1]))


def _mm(call: _Call) -> _Parts | None:
    return _product("self", call.size) if call.dim == 0 else None


def _addmm(call: _Call) -> _Parts | None:
    added = call.shape_of("self")
    if call.dim != 0 or added is None:
        return None
    return _Parts(("self", "mat1") if len(added) == 2 and added[0] == call.size else ("mat1",), call.size)


def _bmm(call: _Call) -> _Parts | None:
    if call.dim == 2:
        return None
    return _Parts(("self", "mat2"), call.size) if call.dim == 0 else _product("self", call.size)


def _product(name: str, units: int, rows: int = 1) -> _Parts:
    """Parts of an operand that is cut into some of its ``units`` of so many rows."""
    block = ROWS // math.gcd(ROWS, rows)
    return _Parts((name,), units // block if units % block == 0 else 1, most=units * rows // LEAST_ROWS)


def _cat(call: _Call) -> _Parts | None:
    dim = call.integer("dim")
    shapes = [_shape(value.type) for value in call.values["tensors"]]
    if dim is None or dim % len(call.shape) == call.dim:
        return None
    if any(len(shape) != len(call.shape) or leading(shape) != call.dim for shape in shapes):
        return None
    return _Parts(("tensors",), call.size)


_POINTWISE = """
    abs add.Scalar_out add bitwise_and.Scalar_out bitwise_and.Tensor_out bitwise_not bitwise_or.Scalar_out
    bitwise_or.Tensor_out bitwise_xor.Scalar_out bitwise_xor.Tensor_out ceil clamp.Tensor_out clamp clone
    div.Scalar_mode_out div.Scalar_out div div.out_mode eq.Scalar_out eq.Tensor_out floor floor_divide ge.Scalar_out
    ge.Tensor_out gt.Scalar_out gt.Tensor_out hardtanh isinf isnan le.Scalar_out le.Tensor_out leaky_relu logical_and
    logical_not logical_or logical_xor lt.Scalar_out lt.Tensor_out masked_fill.Scalar_out maximum minimum mul.Scalar_out
    mul ne.Scalar_out ne.Tensor_out neg relu round sign sqrt sub.Scalar_out sub trunc where.self_out
"""
"""What has one right result, or is a choice."""

_FUNCTIONS = """
    acos acosh asin asinh atan atan2 atanh cos cosh elu erf exp expm1 fmod.Scalar_out fmod.Tensor_out gelu log log10
    log1p log2 logit pow.Scalar_out pow.Tensor_Scalar_out pow.Tensor_Tensor_out reciprocal remainder.Scalar_out
    remainder.Tensor_out rsqrt rsub.Scalar_out sigmoid sin sinh tan tanh
"""


def _named(names: str) -> list[str]:
    return [f"aten::{name if '.' in name else f'{name}.out'}" for name in names.split()]


RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(_named(_POINTWISE), _pointwise),
    **dict.fromkeys(_named(_FUNCTIONS), _function),
    "aten::_adaptive_avg_pool2d.out": _rows(_last(2)),
    "aten::_log_softmax.out": _rows(_one_dim()),
    "aten::_softmax.out": _rows(_one_dim()),
    "aten::addmm.out": _addmm,
    "aten::amax.out": _rows(_some_dims("dim")),
    "aten::amin.out": _rows(_some_dims("dim")),
    "aten::avg_pool2d.out": _rows(_last(2)),
    "aten::bmm.out": _bmm,
    "aten::cat.out": _cat,
    "aten::constant_pad_nd.out": _rows(_padded),
    "aten::convolution.out": _convolution,
    "aten::glu.out": _rows(_one_dim()),
    "aten::linear.out": _linear,
    "aten::max_pool2d_with_indices.out": _rows(_last(2)),
    "aten::mean.out": _rows(_some_dims("dim")),
    "aten::mm.out": _mm,
    "aten::native_group_norm.out": _group_norm,
    "aten::native_layer_norm.out": _rows(_normalized, "input"),
    "aten::permute_copy.out": _permute,
    "aten::pixel_shuffle.out": _shuffle,
    "aten::pixel_unshuffle.out": _shuffle,
    "aten::reflection_pad2d.out": _rows(_last(2)),
    "aten::replication_pad2d.out": _rows(_last(2)),
    "aten::slice_copy.Tensor_out": _rows(_one_dim()),
    "aten::sum.IntList_out": _rows(_some_dims("dim")),
    "aten::upsample_bilinear2d.vec_out": _rows(_last(2), "input"),
    "aten::upsample_nearest2d.vec_out": _rows(_last(2), "input"),
}
"""By kernel, the rule of how its calls are cut."""
