"""Building the operations that replace mutations: placed before the current operation, located where it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from xdsl.dialects.builtin import LocationAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.dtypes import i64
from etir.dialects.et.layout import Dim, dims_of, order_of, tensor_type
from etir.dialects.et.origin import handed_on
from etir.dialects.literals import ArgValue
from etir.dialects.sym.ops import ConstantOp, arithmetic

OpT = TypeVar("OpT", bound=Operation)
Tensor: TypeAlias = TensorType[Attribute]
SymInt: TypeAlias = int | SSAValue
"""A size: a literal, or a runtime scalar."""

_FORMAT_OF_ORDER = {(0, 2, 3, 1): "channels_last", (0, 2, 3, 4, 1): "channels_last_3d"}


def tensor_of(value: SSAValue) -> Tensor:
    """The type of a tensor value. Raises ``TypeError`` for anything else."""
    if not isinstance(value.type, TensorType):
        raise TypeError(f"{value.type} is not a tensor type")
    return value.type


def with_element(type: Tensor, element: Attribute) -> Tensor:
    """The same dims and dim order with another element type."""
    return type if type.element_type == element else TensorType(element, type.shape, type.encoding)


class Emitter:
    """Inserts operations before ``point`` with its location."""

    def __init__(self) -> None:
        self.point: Operation | None = None
        self.location: LocationAttr = UnknownLoc()

    def at(self, point: Operation) -> None:
        """Insert before ``point`` from now on."""
        self.point = point
        self.location = point.location

    def insert(self, op: OpT) -> OpT:
        """Insert a new operation; it takes the current location if it has none."""
        assert self.point is not None and self.point.parent is not None
        if isinstance(op.location, UnknownLoc):
            op.location = handed_on(self.location)
        self.point.parent.insert_op_before(op, self.point)
        return op

    def results(
        self,
        operator: type[AtenOp],
        arguments: Mapping[str, ArgValue],
        types: Sequence[Attribute],
    ) -> list[SSAValue]:
        """All results of a new operator."""
        return list(self.insert(operator.make(arguments, types, location=handed_on(self.location))).results)

    def __call__(self, operator: type[AtenOp], result: Attribute, arguments: Mapping[str, ArgValue]) -> SSAValue:
        """The single result of a new operator, of type ``result``."""
        return self.results(operator, arguments, [result])[0]

    # --- numbers ----------------------------------------------------------------------------------------------------

    def size(self, value: SSAValue, dim: int) -> SymInt:
        """The size of one dim: a literal where it is known."""
        known = dims_of(tensor_of(value))[dim]
        return known if isinstance(known, int) else self(aten.sym_size.int, i64, {"self": value, "dim": dim})

    def add(self, a: SymInt, b: SymInt) -> SymInt:
        """``a + b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int) and a == 0:
            return b
        operands = [self.insert(ConstantOp(n)).result if isinstance(n, int) else n for n in (a, b)]
        return self.insert(arithmetic("add", *operands)).result

    # --- tensors ----------------------------------------------------------------------------------------------------

    def reshape(self, value: SSAValue, type: Tensor, model: Callable[[], SSAValue]) -> SSAValue:
        """``value`` with the dims of ``type``; runtime sizes are read from ``model()``, a tensor with these dims."""
        dims = dims_of(type)
        if dims_of(tensor_of(value)) == dims:
            return self.ordered(value, type)
        dynamic = [i for i, d in enumerate(dims) if not isinstance(d, int)]
        sizes: list[SymInt] = [d if isinstance(d, int) else -1 for d in dims]
        if len(dynamic) > 1 or (dynamic and 0 in dims):
            source = model()
            for i in dynamic:
                sizes[i] = self.size(source, i)
        return self(aten.view.default, type, {"self": value, "size": sizes})

    def expand(self, value: SSAValue, dims: Sequence[Dim], model: Callable[[], SSAValue]) -> SSAValue:
        """``value`` broadcast to ``dims``, which are those of ``model()``."""
        own = dims_of(tensor_of(value))
        if own == tuple(dims):
            return value
        new = len(dims) - len(own)
        sizes: list[SymInt] = []
        for i, d in enumerate(dims):
            if isinstance(d, int):
                sizes.append(d)
            else:
                sizes.append(-1 if i >= new and own[i - new] == d else self.size(model(), i))
        type = tensor_type(tensor_of(value).element_type, dims)
        return self(aten.expand.default, type, {"self": value, "size": sizes})

    def ordered(self, value: SSAValue, type: Tensor) -> SSAValue:
        """``value`` with the dim order of ``type``."""
        if value.type == type:
            return value
        memory_format = _FORMAT_OF_ORDER.get(order_of(type), "contiguous")
        return self(
            aten._to_copy.default,
            type,
            {"self": value, "memory_format": memory_format},
        )

    def fit(self, value: SSAValue, type: Tensor, model: Callable[[], SSAValue]) -> SSAValue:
        """``value`` as ``copy_`` stores it into a tensor of ``type``: cast, broadcast, laid out.

        Raises ``ValueError`` when the shapes do not broadcast.
        """
        own = tensor_of(value)
        if own == type:
            return value
        dims = dims_of(type)
        given = dims_of(own)
        if len(given) > len(dims):
            # copy_ accepts extra leading dims of size 1
            extra = len(given) - len(dims)
            if any(d != 1 for d in given[:extra]):
                raise ValueError(f"{own} is stored into {type}")
            value = self.reshape(value, tensor_type(own.element_type, given[extra:]), lambda: value)
        if own.element_type != type.element_type:
            cast = with_element(tensor_of(value), type.element_type)
            value = self(
                aten._to_copy.default,
                cast,
                {"self": value, "dtype": type.element_type},
            )
        return self.ordered(self.expand(value, dims, model), type)

    def full(self, fill: ArgValue, type: Tensor, model: Callable[[], SSAValue]) -> SSAValue:
        """A tensor of ``type`` filled with a number."""
        dims = dims_of(type)
        sizes: list[SymInt] = [d if isinstance(d, int) else self.size(model(), i) for i, d in enumerate(dims)]
        plain = tensor_type(type.element_type, dims)
        value = self(
            aten.full.default,
            plain,
            {"size": sizes, "fill_value": fill, "dtype": type.element_type},
        )
        return self.ordered(value, type)
