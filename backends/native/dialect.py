"""The ``native`` dialect: which edge operators become one loop nest.

A group holds edge operators with their meaning unchanged; its kind says which template executes its root. Views
between groups stay edge operators: they are other strides of the same memory::

    %y = native.group "product" (%x, %w, %b) {
    ^bb0(%0: tensor<197x768xf32>, %1: tensor<3072x768xf32>, %2: tensor<3072xf32>):
      %3 = edge.aten.linear.default(%0, %1, %2) : ...
      %4 = edge.aten.gelu.default(%3) : ...
      native.yield %4 : tensor<197x3072xf32>
    } : (tensor<197x768xf32>, tensor<3072x768xf32>, tensor<3072xf32>) -> tensor<197x3072xf32>
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from etir.dialects.control.traits import ExecutesBodyOnce


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The results of a group."""

    name = "native.yield"
    values = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(GroupOp)))
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


@irdl_op_definition
class GroupOp(IRDLOperation):
    """Edge operators that are executed as one loop nest."""

    name = "native.group"
    kind = prop_def(StringAttr)
    schedule = opt_prop_def(DictionaryAttr)
    inputs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure(), ExecutesBodyOnce())
    assembly_format = (
        "$kind `(` $inputs `)` (`schedule` $schedule^)? attr-dict `:` functional-type($inputs, $outputs) $body"
    )

    def __init__(self, kind: str, inputs: Sequence[SSAValue], types: Sequence[Attribute], body: Region):
        super().__init__(operands=[inputs], result_types=[types], properties={"kind": StringAttr(kind)}, regions=[body])

    @property
    def root(self) -> Operation:
        """The first operator, which the template computes."""
        first = self.body.block.first_op
        assert first is not None
        return first

    def verify_(self) -> None:
        block = self.body.block
        if tuple(a.type for a in block.args) != tuple(v.type for v in self.inputs):
            raise VerifyException("the body takes the inputs of the group")
        last = block.last_op
        if not isinstance(last, YieldOp) or [v.type for v in last.values] != [r.type for r in self.outputs]:
            raise VerifyException("the body yields the outputs of the group")


NATIVE = Dialect("native", [GroupOp, YieldOp], [])
"""The dialect; ``tile`` is another one."""
