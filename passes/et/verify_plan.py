"""`verify-plan`: prove that no two buffers that are live at the same time share bytes, and that every buffer fits.

It runs after `plan-memory` in every pipeline and shares no code with the planners: lifetimes are computed again from
the method as it is, places are taken from the buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.values import BufferOp, ViewOp
from etir.dialects.text import source_location
from etir.passes.analysis.memory_effects import memory_of, storage_of, tensor_bytes
from etir.passes.analysis.planning.errors import E0711
from etir.passes.analysis.planning.problem import Plan
from etir.passes.analysis.planning.verify import verify_plan
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class VerifyPlanPass(Pass):
    """Check the memory plan of every method: placed, aligned, inside its memory, no overlap of live buffers."""

    name = "verify-plan"
    checks_only = True
    alignment: int = 1

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with everything that is wrong (E0710 and following)."""
        raise_if_errors(
            [problem for op in module.body.block.ops if isinstance(op, MethodOp) for problem in self._method(ctx, op)]
        )

    def _method(self, ctx: EtContext, method: MethodOp) -> list[Diagnostic]:
        found: list[Diagnostic] = []
        places: dict[Operation, tuple[int, int]] = {}
        for op in method.body.blocks[0].ops:
            if isinstance(op, BufferOp) and op.caller is None:
                if op.place is None:
                    found.append(
                        E0711.diagnostic(
                            f"%{op.result.name_hint or 'buffer'} of method '{method.sym_name.data}' has no place",
                            source_location(op.location),
                        )
                    )
                else:
                    places[op] = op.place
            elif isinstance(op, ViewOp) and op.late is None:
                base = storage_of(op.result)
                if base is not None and _end(op) > tensor_bytes(base.result.type):
                    found.append(
                        E0711.diagnostic(
                            f"view %{op.result.name_hint or ''} ends {_end(op)} bytes into a buffer of "
                            f"{tensor_bytes(base.result.type)}",
                            source_location(op.location),
                        )
                    )
        if found:
            return found
        memory = memory_of(ctx, method, alignment=self.alignment, fixed=places)
        sizes = method.pool_sizes or (0,)
        plan = Plan(
            {memory.keys[op]: offset for op, (_, offset) in places.items()},
            {pool: sizes[pool] if pool < len(sizes) else 0 for pool in memory.problem.pool_ids},
            {},
        )
        return verify_plan(memory.problem, plan)


def _end(op: ViewOp) -> int:
    end = tensor_bytes(op.result.type)
    owner: object = op
    while isinstance(owner, ViewOp):
        end += owner.offset.value.data
        owner = owner.base.owner
    return end
