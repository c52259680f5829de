"""Operations of the backend level.

* ``backend.view`` is a tensor over the bytes of another one: what ``view_copy``, ``squeeze_copy``, a slice of the
  leading dim, ``view.dtype`` and their like become when no byte has to move. It is still functional: nothing writes
  through it.
* ``backend.call_delegate`` runs an outlined function on a backend; the function stays in the module as ordinary IR.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FlatSymbolRefAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import is_static, layout_errors
from etir.dialects.literals import int_attr


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The bytes of a contiguous tensor under another type: ``%v = backend.view %x {offset = 128} : T1 -> T2``.

    ``offset`` counts elements of the result; 0 when left out. The element type may change between static types. A
    result with several dynamic dims names their sizes at run time, in order: ``backend.view %x sizes(%b, %t : i64,
    i64) : T1 -> T2``; that of a single one follows from the rest, unless another dim is 0.
    """

    name = "backend.view"
    base = operand_def(TensorType)
    sizes = var_operand_def(IntegerType)
    offset = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$base (`sizes` `(` $sizes^ `:` type($sizes) `)`)? attr-dict `:` type($base) `->` type($result)"

    def __init__(self, base: SSAValue, type: Attribute, offset: int = 0, sizes: Sequence[SSAValue] = ()):
        super().__init__(
            operands=[base, sizes], result_types=[type], properties={"offset": int_attr(offset) if offset else None}
        )

    @property
    def element_offset(self) -> int:
        """Elements of the result's type before the view."""
        return 0 if self.offset is None else self.offset.value.data

    @property
    def byte_offset(self) -> int:
        """Bytes of the base before the view."""
        type = self.result.type
        assert isinstance(type, TensorType)
        return self.element_offset * dtype_of(type.element_type).itemsize

    @property
    def reinterprets(self) -> bool:
        """Whether the element type changes: the bytes are read as something else."""
        base, result = self.base.type, self.result.type
        assert isinstance(base, TensorType) and isinstance(result, TensorType)
        return base.element_type != result.element_type

    def verify_(self) -> None:
        base, result = self.base.type, self.result.type
        assert isinstance(base, TensorType) and isinstance(result, TensorType)
        for type in (base, result):
            if (problem := layout_errors(type)) is not None:
                raise VerifyException(problem)
        if self.reinterprets and not (is_static(base) and is_static(result)):
            raise VerifyException(
                f"a view of a dynamic type keeps the element type, {base.element_type} is not {result.element_type}"
            )
        if self.element_offset < 0:
            raise VerifyException("the offset of a view is not negative")
        dynamic = sum(1 for dim in result.get_shape() if dim == DYNAMIC_INDEX)
        follows = dynamic == 1 and 0 not in result.get_shape()
        if len(self.sizes) != (0 if follows else dynamic):
            raise VerifyException(f"a view with {dynamic} dynamic dims does not take {len(self.sizes)} sizes")


@irdl_op_definition
class CallDelegateOp(IRDLOperation):
    """Run an outlined function on a backend: ``%r = backend.call_delegate @lowered_0(%x) on "XnnpackBackend"``.

    A delegate may own mutable buffers, so that calls are not pure: none is merged with another or erased.
    """

    name = "backend.call_delegate"
    callee = prop_def(FlatSymbolRefAttr)
    backend = prop_def(StringAttr)
    arguments = var_operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())
    assembly_format = "$callee `(` $arguments `)` `on` $backend attr-dict `:` functional-type($arguments, $outputs)"

    def __init__(self, callee: str, backend: str, arguments: Sequence[SSAValue], types: Sequence[Attribute]):
        super().__init__(
            operands=[arguments],
            result_types=[types],
            properties={"callee": SymbolRefAttr(callee), "backend": StringAttr(backend)},
        )
