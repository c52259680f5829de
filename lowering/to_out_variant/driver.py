"""The pass `to-out-variant`: all methods of a module, and one report of what has no kernel form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.program import SchemaDeclOp
from etir.dialects.sym.ops import DimOp
from etir.dialects.text import source_location
from etir.lowering.errors import E0415
from etir.lowering.to_out_variant.constants import ConstantPool
from etir.lowering.to_out_variant.method import MethodLowering
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class ToOutVariantPass(Pass):
    """Lower methods to the executable level: kernel calls over buffers, blocks and jumps.

    ``plan-inputs`` and ``plan-outputs`` say whether the program's own memory holds inputs and outputs, or the caller's.
    ``checks`` says how the method checks the sizes of its inputs and what the program asserts: ``kernel`` by etir's
    kernels for that, ``jump`` by primitive operators that any runtime has, ``none`` not at all.
    ``unbounded`` says whether a tensor without an upper bound is refused, or allocated at run time.
    """

    name = "to-out-variant"
    plan_inputs: bool = True
    plan_outputs: bool = True
    checks: Literal["none", "kernel", "jump"] = "none"
    unbounded: Literal["refuse", "allocate"] = "refuse"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with every operator without an out variant (E0415), unbounded dim (E0416), tensor that is
        too large to plan (E0419) and operation that the runtime cannot express (E0417).
        """
        for op in module.body.block.ops:
            if isinstance(op, SchemaDeclOp):
                ctx.declare_schema(op.schema.data)
        ranges = {op.sym_name.data: op.range for op in module.body.block.ops if isinstance(op, DimOp)}
        constants = ConstantPool(module)
        missing: dict[str, list[EdgeOp]] = {}
        problems: list[Diagnostic] = []
        lowered: list[tuple[FuncOp, MethodOp]] = []
        for func in methods(module):
            lowering = MethodLowering(
                ctx,
                func,
                ranges,
                constants,
                missing,
                problems,
                plan_inputs=self.plan_inputs,
                plan_outputs=self.plan_outputs,
                checks=self.checks,
                allocate=self.unbounded == "allocate",
            )
            lowered.append((func, lowering.run()))
        problems += [_missing_variant(ops) for ops in missing.values()]
        raise_if_errors(problems)
        for func, method in lowered:
            Rewriter.insert_op(method, InsertPoint.before(func))
            Rewriter.erase_op(func)
        first = module.body.block.first_op
        for op in constants.ops:
            assert first is not None
            Rewriter.insert_op(op, InsertPoint.before(first))


def _missing_variant(ops: list[EdgeOp]) -> Diagnostic:
    schema = ops[0].SCHEMA
    count = "" if len(ops) == 1 else f" ({len(ops)} uses, this is the first)"
    problem = E0415.diagnostic(
        f"'{schema.qualified_name}' has no out variant{count}",
        source_location(ops[0].location),
        help=f"register {schema.namespace}::{schema.name}.out with the same arguments and 'Tensor(a!) out', "
        "or decompose the operator",
    )
    return problem.about(schema.op_name)
