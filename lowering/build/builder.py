"""Building operators without spelling out types: what decompositions and other lowerings write their results with.

``b(aten.mul.Tensor, x, y)`` makes the operation before the one that is being rewritten, with its result type inferred
(``inference/``), its location taken from there, and the value returned. Methods stand for what is written most often
and choose the overload: ``b.exp(x)``; ``b.mul(x, y)`` is ``aten.mul.Tensor`` for a tensor and ``aten.mul.Scalar`` for a
number.

One builder serves both levels that have operators. With ``prefix="edge"`` the same calls make ``edge.aten.mul.Tensor``,
views become their ``*_copy`` forms, and casts become ``dim_order_ops``.

Dynamic sizes are :class:`~etir.lowering.build.sizes.Size` objects; lists of sizes may mix them with
ints and with values of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Literal, TypeAlias, TypeGuard

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.edge import ops as edge
from etir.dialects.dtypes import BY_TYPE, i64
from etir.dialects.edge.base import edge_op
from etir.dialects.edge.rules import copy_form
from etir.dialects.et.layout import Dim, dims_of, order_of, tensor_type
from etir.dialects.et.program import ConstantOp, GetWeightOp, WeightOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.bounds import bounds
from etir.dialects.sym.ops import DimOp
from etir.lowering.build.dims import broadcast, wrap
from etir.lowering.build.inference import infer, size_as_dim, tensor_type_of
from etir.lowering.build.inference.shape import resolve_view
from etir.lowering.build.promotion import category_of, result_type
from etir.lowering.build.sizes import Size, SizeLike, SizePool, dim
from etir.passes.infra.rewriting import PatternRewriter

MAX_TEXT_ELEMENTS = 64
"""Largest number of elements of a constant that stands in the text."""

Scalar: TypeAlias = int | float | bool | complex | SSAValue
TensorOrScalar: TypeAlias = SSAValue | int | float | bool
Operator: TypeAlias = type[SchemaOp]
Relation: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]
Sizes: TypeAlias = Sequence[int | Size | SSAValue]


def is_tensor(value: object) -> TypeGuard[SSAValue]:
    """Whether ``value`` is a tensor, and not a scalar."""
    return isinstance(value, SSAValue) and isinstance(value.type, TensorType)


def dims(value: SSAValue) -> tuple[Dim, ...]:
    """The dims of a tensor."""
    return dims_of(tensor_type_of(value))


def rank(value: SSAValue) -> int:
    """The number of dims of a tensor."""
    return tensor_type_of(value).get_num_dims()


def element(value: SSAValue) -> Attribute:
    """The element type of a tensor."""
    return tensor_type_of(value).element_type


class _Unary:
    """A method of the builder that makes an operator of one tensor."""

    def __init__(self, operator: Operator):
        self.operator = operator

    def __get__(self, builder: Builder, owner: type) -> Callable[[SSAValue], SSAValue]:
        return partial(builder, self.operator)


class _Binary:
    """A method of the builder that makes an operator of a tensor, and of a second tensor or a scalar."""

    def __init__(self, tensor: Operator, scalar: Operator):
        self.tensor = tensor
        self.scalar = scalar

    def __get__(self, builder: Builder, owner: type) -> Callable[[SSAValue, TensorOrScalar], SSAValue]:
        return lambda x, y: builder(self.tensor if is_tensor(y) else self.scalar, x, y)


class Builder:
    """Creates operators before the operation that ``rewriter`` rewrites."""

    def __init__(self, rewriter: PatternRewriter, prefix: Literal["aten", "edge"] = "aten"):
        self.rewriter = rewriter
        self.is_edge = prefix == "edge"
        self.op_class: Callable[[Operator], Operator] = _edge_class if self.is_edge else _same_class
        self.pool = SizePool(rewriter.insert_op, rewriter.root.operands, self.op_class)

    @property
    def declared(self) -> TensorType[Attribute]:
        """The type of the first result of the operation that is rewritten, which has to be a tensor."""
        return tensor_type_of(self.rewriter.root.results[0])

    # --- operators --------------------------------------------------------------------------------------------------

    def __call__(
        self, operator: Operator, *args: Any, types: Sequence[Attribute] | None = None, **kwargs: Any
    ) -> SSAValue:
        """The single result of ``operator``; arguments by position or name, in the order of the schema.

        ``types`` replaces the inferred result types. Raises ``TypeError`` for arguments that the operator does not
        take, ``LookupError`` when its types can neither be inferred nor are given.
        """
        return self.results(operator, *args, types=types, **kwargs)[0]

    def results(
        self, operator: Operator, *args: Any, types: Sequence[Attribute] | None = None, **kwargs: Any
    ) -> tuple[SSAValue, ...]:
        """All results of ``operator``."""
        return tuple(self.op(operator, *args, types=types, **kwargs).results)

    def op(
        self, operator: Operator, *args: Any, types: Sequence[Attribute] | None = None, **kwargs: Any
    ) -> SchemaOp:
        """The operation itself."""
        cls = self.op_class(operator)
        given = dict(zip(cls.SCHEMA.index, args, strict=False)) | kwargs if args else kwargs
        if types is None:
            types = infer(cls.SCHEMA, given)
        made = cls.make({name: _element(value) for name, value in given.items()}, types)
        self.rewriter.insert_op(made)
        return made

    def notify_match_failure(self, reason: str) -> None:
        """Say why the rewrite leaves its root alone; to be returned by a pattern: ``return b.notify_match_failure(...)``."""
        self.rewriter.notify_match_failure(reason)

    # --- sizes ------------------------------------------------------------------------------------------------------

    def size(self, x: SSAValue, index: int) -> SizeLike:
        """The size of one dim."""
        return self.pool.size_of(x, wrap(index, rank(x)))

    def sizes(self, x: SSAValue) -> list[SizeLike]:
        """The sizes of all dims."""
        return [self.pool.size_of(x, i) for i in range(rank(x))]

    def as_size(self, value: Any) -> SizeLike | None:
        """A size argument of the rewritten operation as a size; None when nothing is known about it."""
        return self.pool.given(value) if isinstance(value, SSAValue) else value

    def as_sizes(self, values: Sequence[Any]) -> list[SizeLike] | None:
        """A list of size arguments as sizes; None when nothing is known about one."""
        sizes = [self.as_size(value) for value in values]
        known = [size for size in sizes if size is not None]
        return known if len(known) == len(sizes) else None

    def scalar(self, size: SizeLike) -> int | SSAValue:
        """A size as a scalar among the arguments of an operator."""
        return size.value if isinstance(size, Size) else size

    def largest(self, size: Dim) -> int | None:
        """The largest value of a dim under the ranges that the module declares; None when there is none."""
        return size if isinstance(size, int) else bounds(size, declared_ranges(self.rewriter.root))[1]

    # --- arithmetic -------------------------------------------------------------------------------------------------

    neg = _Unary(aten.neg.default)
    abs = _Unary(aten.abs.default)
    sign = _Unary(aten.sign.default)
    floor = _Unary(aten.floor.default)
    ceil = _Unary(aten.ceil.default)
    round = _Unary(aten.round.default)
    trunc = _Unary(aten.trunc.default)
    reciprocal = _Unary(aten.reciprocal.default)
    sqrt = _Unary(aten.sqrt.default)
    rsqrt = _Unary(aten.rsqrt.default)
    exp = _Unary(aten.exp.default)
    log = _Unary(aten.log.default)
    log1p = _Unary(aten.log1p.default)
    sin = _Unary(aten.sin.default)
    cos = _Unary(aten.cos.default)
    tanh = _Unary(aten.tanh.default)
    sigmoid = _Unary(aten.sigmoid.default)
    relu = _Unary(aten.relu.default)
    isnan = _Unary(aten.isnan.default)
    isinf = _Unary(aten.isinf.default)
    logical_not = _Unary(aten.logical_not.default)

    add = _Binary(aten.add.Tensor, aten.add.Scalar)
    sub = _Binary(aten.sub.Tensor, aten.sub.Scalar)
    mul = _Binary(aten.mul.Tensor, aten.mul.Scalar)
    div = _Binary(aten.div.Tensor, aten.div.Scalar)
    """``x / y``, in floating point."""
    eq = _Binary(aten.eq.Tensor, aten.eq.Scalar)
    ne = _Binary(aten.ne.Tensor, aten.ne.Scalar)
    lt = _Binary(aten.lt.Tensor, aten.lt.Scalar)
    le = _Binary(aten.le.Tensor, aten.le.Scalar)
    gt = _Binary(aten.gt.Tensor, aten.gt.Scalar)
    ge = _Binary(aten.ge.Tensor, aten.ge.Scalar)

    def compare(self, relation: Relation, x: SSAValue, y: TensorOrScalar) -> SSAValue:
        """``x <relation> y``, where the relation is only known when the program is compiled."""
        return getattr(self, relation)(x, y)

    def logical_and(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """True where both are not zero."""
        return self(aten.logical_and.default, x, y)

    def logical_or(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """True where one of both is not zero."""
        return self(aten.logical_or.default, x, y)

    def logical_xor(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """True where exactly one of both is not zero."""
        return self(aten.logical_xor.default, x, y)

    def rsub(self, x: SSAValue, y: float) -> SSAValue:
        """``y - x``."""
        return self(aten.rsub.Scalar, x, y)

    def pow(self, x: SSAValue, exponent: float) -> SSAValue:
        """``x ** exponent``."""
        return self(aten.pow.Tensor_Scalar, x, exponent)

    def clamp(self, x: SSAValue, low: float | None = None, high: float | None = None) -> SSAValue:
        """``x`` limited to the range."""
        return self(aten.clamp.default, x, low, high)

    def where(self, condition: SSAValue, x: TensorOrScalar, y: TensorOrScalar) -> SSAValue:
        """``x`` where the condition holds, ``y`` elsewhere; scalars become tensors of the common type."""
        common = result_type((x, y))
        return self(aten.where.self, condition, self.as_tensor(x, common), self.as_tensor(y, common))

    def as_tensor(self, value: Scalar, type: Attribute | None = None) -> SSAValue:
        """A scalar as a tensor without dims of element type ``type`` (default: as it takes part in promotion)."""
        if is_tensor(value):
            assert isinstance(value, SSAValue)
            return value
        return self(aten.full.default, [], _of_category(value, type), dtype=type or result_type((value,)))

    # --- types ------------------------------------------------------------------------------------------------------

    def cast(self, x: SSAValue, type: Attribute) -> SSAValue:
        """``x`` with another element type; ``x`` itself when it has that already."""
        if element(x) == type:
            return x
        if self.is_edge:
            order = order_of(tensor_type_of(x))
            return self(edge.dim_order_ops._to_dim_order_copy.default, x, dtype=type, dim_order=order)
        return self(aten._to_copy.default, x, dtype=type)

    # --- shapes -----------------------------------------------------------------------------------------------------

    def view(self, x: SSAValue, sizes: Sizes) -> SSAValue:
        """``x`` with other sizes; one of them may be -1. A single runtime size is left to the operation as -1."""
        known = resolve_view(dims(x), sizes)
        if tuple(known) == dims(x):
            return x
        given: list[Any] = [d if isinstance(d, int) else s for s, d in zip(sizes, known, strict=True)]
        dynamic = [i for i, d in enumerate(known) if not isinstance(d, int)]
        if len(dynamic) == 1 and all(known[i] for i in range(len(known)) if i not in dynamic):
            given[dynamic[0]] = -1
        return self(aten.view.default, x, given, types=[tensor_type(element(x), known)])

    def permute(self, x: SSAValue, order: Sequence[int]) -> SSAValue:
        """Dims in another order; a view when only dims of size 1 move."""
        count = rank(x)
        order = [wrap(d, count) for d in order]
        if order == list(range(count)):
            return x
        moving = [d for d in order if dims(x)[d] != 1]
        if moving == sorted(moving):
            sizes = self.sizes(x)
            return self.view(x, [sizes[d] for d in order])
        return self(aten.permute.default, x, order)

    def transpose(self, x: SSAValue, first: int, second: int) -> SSAValue:
        """Two dims exchanged."""
        count = rank(x)
        order = list(range(count))
        first, second = wrap(first, count), wrap(second, count)
        order[first], order[second] = order[second], order[first]
        return self.permute(x, order)

    def unsqueeze(self, x: SSAValue, position: int) -> SSAValue:
        """A new dim of size 1."""
        return self(aten.unsqueeze.default, x, wrap(position, rank(x) + 1))

    def squeeze(self, x: SSAValue, positions: int | Iterable[int]) -> SSAValue:
        """Without the dims at ``positions``, whose size is 1."""
        given = (positions,) if isinstance(positions, int) else positions
        return self(aten.squeeze.dims, x, [wrap(p, rank(x)) for p in given])

    def expand(self, x: SSAValue, sizes: Sizes) -> SSAValue:
        """``x`` repeated along dims of size 1 and along new leading dims; ``x`` itself when nothing grows."""
        own = (*(1,) * (len(sizes) - rank(x)), *dims(x))
        new = len(sizes) - rank(x)
        known = [d if s == -1 else size_as_dim(s) for s, d in zip(sizes, own, strict=True)]
        if tuple(known) == dims(x):
            return x
        if all(k == o for k, o in zip(known, own, strict=True)):
            return self.view(x, [*(1,) * new, *self.sizes(x)])
        given = [k if isinstance(k, int) else -1 if i >= new and k == own[i] else sizes[i] for i, k in enumerate(known)]
        return self(aten.expand.default, x, given, types=[tensor_type(element(x), known)])

    def broadcast(self, *tensors: SSAValue) -> list[SSAValue]:
        """All tensors expanded to their common shape."""
        shape = broadcast(*map(dims, tensors))
        sizes = [self.size_for(d, tensors) for d in shape]
        return [self.expand(t, sizes) for t in tensors]

    def size_for(self, wanted: Dim, tensors: Iterable[SSAValue]) -> SizeLike:
        """The size with dim ``wanted``, read from one of ``tensors``."""
        if isinstance(wanted, int):
            return wanted
        for tensor in tensors:
            for i, d in enumerate(dims(tensor)):
                if d == wanted:
                    return self.pool.size_of(tensor, i)
        raise LookupError(f"no tensor has the size {wanted}")

    def select(self, x: SSAValue, position: int, index: int) -> SSAValue:
        """One entry of a dim, which disappears."""
        return self(aten.select.int, x, wrap(position, rank(x)), index)

    def slice(self, x: SSAValue, position: int, start: SizeLike, end: SizeLike | None, step: int = 1) -> SSAValue:
        """``x[start:end:step]`` along a dim, ``0 <= start <= end``; ``x`` itself when that is all of it."""
        position = wrap(position, rank(x))
        size = dims(x)[position]
        if end is None or dim(end) == size:
            if start == 0 and step == 1:
                return x
            end = 2**63 - 1
        types: list[Attribute] | None = None
        if any(isinstance(bound, Size) for bound in (start, end)):
            length = (size if end == 2**63 - 1 else dim(end)) - dim(start)
            shape = [*dims(x)]
            shape[position] = length if step == 1 else -((-length) // step)
            types = [tensor_type(element(x), shape)]
        return self(aten.slice.Tensor, x, position, start, end, step, types=types)

    def cat(self, tensors: Sequence[SSAValue], position: int = 0) -> SSAValue:
        """Tensors joined along a dim; a single one as it is."""
        return tensors[0] if len(tensors) == 1 else self(aten.cat.default, tensors, wrap(position, rank(tensors[0])))

    # --- reductions and products ------------------------------------------------------------------------------------

    def sum(self, x: SSAValue, positions: Sequence[int], keepdim: bool = False) -> SSAValue:
        """The sum over dims."""
        return self(aten.sum.dim_IntList, x, [wrap(p, rank(x)) for p in positions], keepdim)

    def mean(self, x: SSAValue, positions: Sequence[int], keepdim: bool = False) -> SSAValue:
        """The mean over dims."""
        return self(aten.mean.dim, x, [wrap(p, rank(x)) for p in positions], keepdim)

    def amax(self, x: SSAValue, positions: Sequence[int], keepdim: bool = False) -> SSAValue:
        """The maximum over dims."""
        return self(aten.amax.default, x, [wrap(p, rank(x)) for p in positions], keepdim)

    def mm(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """[n, k] by [k, m]."""
        return self(aten.mm.default, x, y)

    def bmm(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """[b, n, k] by [b, k, m]; ``mm`` for a batch of one."""
        if dims(x)[0] == 1 and dims(y)[0] == 1:
            return self.unsqueeze(self.mm(self._drop_batch(x), self._drop_batch(y)), 0)
        return self(aten.bmm.default, x, y)

    def _drop_batch(self, x: SSAValue) -> SSAValue:
        return self.view(x, self.sizes(x)[1:])

    # --- creation ---------------------------------------------------------------------------------------------------

    def full(self, sizes: Sizes, value: Scalar, type: Attribute) -> SSAValue:
        """A tensor with the same value everywhere."""
        return self(aten.full.default, sizes, _of_category(value, type), dtype=type)

    def arange(self, end: SizeLike, type: Attribute = i64, start: SizeLike = 0) -> SSAValue:
        """``start, start + 1, ... end - 1``."""
        length = dim(end) - dim(start)
        result = tensor_type(type, [length])
        return self(aten.arange.start_step, start, end, 1, dtype=type, types=[result])

    def constant(self, values: Any, type: Attribute) -> SSAValue:
        """A constant tensor from a NumPy array or nested lists: in the text when it is small, else a weight."""
        import numpy as np

        array = np.ascontiguousarray(np.asarray(values).astype(BY_TYPE[type].numpy_name))
        if array.size > MAX_TEXT_ELEMENTS:
            return self._weight(array.shape, array.tobytes(), type)
        dense: Any = DenseIntOrFPElementsAttr  # from_list is typed for one element type at a time
        attribute = dense.from_list(TensorType(type, array.shape), array.flatten().tolist())
        return self.insert(ConstantOp(attribute)).results[0]

    def _weight(self, shape: Sequence[int], data: bytes, type: Attribute) -> SSAValue:
        """A weight of the module with these bytes; equal ones are shared."""
        blob = BlobAttr(Blob.of(data))
        name = f"constant.{blob.data.digest.removeprefix('sha256:')[:12]}"
        root = self.rewriter.root.parent_op()
        while root is not None and not isinstance(root, ModuleOp):
            root = root.parent_op()
        assert root is not None, "an operator is rewritten inside a module"
        weights = [op for op in root.body.block.ops if isinstance(op, WeightOp)]
        if all(weight.sym_name.data != name for weight in weights):
            weight = WeightOp(name, TensorType(type, shape), blob, {"kind": StringAttr("constant")})
            weight.location = self.rewriter.location
            first = root.body.block.first_op
            assert first is not None
            root.body.block.insert_op_before(weight, first)
        return self.insert(GetWeightOp(name, TensorType(type, shape))).results[0]

    def insert(self, op: Operation) -> Operation:
        """Insert an operation that is no operator."""
        return self.rewriter.insert_op(op)


def declared_ranges(op: Operation) -> dict[str, tuple[int, int | None]]:
    """The ranges of the symbols of the module that ``op`` is in."""
    root: Operation | None = op
    while root is not None and not isinstance(root, ModuleOp):
        root = root.parent_op()
    if root is None:
        return {}
    return {d.sym_name.data: d.range for d in root.body.block.ops if isinstance(d, DimOp)}


@cache
def _edge_class(operator: Operator) -> Operator:
    """The operator that the edge level has for an ATen one: views are copies there."""
    name = operator.SCHEMA.op_name
    return edge_op(copy_form(name) or name)


def _same_class(operator: Operator) -> Operator:
    return operator


def _element(value: Any) -> Any:
    """An argument as the operation stores it: sizes become ints or runtime scalars."""
    if isinstance(value, Size):
        return value.value
    if isinstance(value, (list, tuple)):
        return [item.value if isinstance(item, Size) else item for item in value]
    return value


def _of_category(value: Scalar, type: Attribute | None) -> Scalar:
    """A literal in the category of ``type``, so that equal constants are equal text: 0 is 0.0 in f32."""
    if isinstance(value, SSAValue) or type is None:
        return value
    category = category_of(type)
    if category == 2 and isinstance(value, (int, float)):
        return float(value)
    if category == 1 and isinstance(value, bool):
        return int(value)
    return bool(value) if category == 0 else value
