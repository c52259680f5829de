"""`plan-memory`: give every buffer a place in the program's own memory.

Before::

    %a = et.buffer : tensor<1x8xf32>
    %b = et.buffer : tensor<1x8xf32>

After::

    et.method @forward pools [0, 64] {
      %a = et.buffer at <1, 0> : tensor<1x8xf32>
      %b = et.buffer at <1, 32> : tensor<1x8xf32>

Two buffers may share bytes when no instruction has both live, and a result may have those of an operand that dies there
when the target has a kernel that works in place (``in_place`` in its row). Lifetimes come from a dataflow analysis over
the method's blocks (``memory_effects.py``), the arrangement from ``planning/``; `verify-plan` proves the result
independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.diagnostics import Diagnostic, EtirError, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.values import BufferOp
from etir.dialects.et.workspace import WITHIN
from etir.dialects.literals import int_attr, ints_attr
from etir.dialects.text import source_location
from etir.passes.analysis.in_place import in_place_kernels
from etir.passes.analysis.memory_effects import DEFAULT_ALIGNMENT, memory_of, tensor_bytes
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.errors import E0704
from etir.passes.analysis.planning.problem import Pool, align_up
from etir.passes.analysis.workspaces import callers_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class PlanMemoryPass(Pass):
    """Place buffers in planned memory, reusing bytes of buffers that are not live at the same time.

    ``algorithm`` is the planner (``auto`` takes the best of all); ``alignment`` is in bytes; ``capacity`` limits memory
    id 1, 0 means no limit; ``share-state`` puts a state that several methods use into memory id 2 at one offset,
    ``separate-state`` every state: memory id 1 then holds nothing that outlives a run. ``target`` is the runtime whose
    kernels may write results over operands that nothing reads any more; without one, none does. ``callers`` plans the
    caller's memory together with the method's: its buffers get the attribute ``et.within``, or keep it.
    """

    name = "plan-memory"
    algorithm: Literal["auto", "naive", "greedy", "best_fit", "search", "in_time"] = "auto"
    alignment: int = DEFAULT_ALIGNMENT
    capacity: int = 0
    share_state: bool = False
    separate_state: bool = False
    target: str = ""
    callers: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises error E0704, naming what is alive at the peak, when a method does not fit ``capacity``."""
        methods = [op for op in module.body.block.ops if isinstance(op, MethodOp)]
        fewest = 1 if self.separate_state else 2 if self.share_state else None
        in_place = in_place_kernels(self.target) if self.target else {}
        shared = {} if fewest is None else self._shared_state(methods, fewest)
        pools = {1: Pool(capacity=self.capacity)} if self.capacity else {}
        problems: list[Diagnostic] = []
        for method in methods:
            fixed: dict[Operation, tuple[int, int]] = {
                op: (2, shared[op.state.root_reference.data])
                for op in method.body.blocks[0].ops
                if isinstance(op, BufferOp) and op.state is not None and op.state.root_reference.data in shared
            }
            callers = callers_of(method) if self.callers else {}
            fixed |= {op: (1, place) for op, place in callers.items() if place is not None}
            memory = memory_of(
                ctx, method, alignment=self.alignment, fixed=fixed, pools=pools, in_place=in_place, callers=callers
            )
            try:
                found = plan(memory.problem, self.algorithm)
            except EtirError as error:
                problems.extend(error.diagnostics)
                continue
            pool_of = {b.key: b.pool for b in memory.problem.buffers}
            for op in memory.buffers:
                key = memory.keys[op]
                if key in found.offsets and op.caller is not None:
                    op.attributes[WITHIN] = int_attr(found.offsets[key])
                elif key in found.offsets:
                    op.place = (pool_of[key], found.offsets[key])
            if max(found.pool_sizes.values(), default=0) >= 1 << 63:
                problems.append(
                    E0704.diagnostic(
                        f"method '{method.sym_name.data}' needs {max(found.pool_sizes.values()):,} bytes of one memory",
                        source_location(method.location),
                        help="no machine has as many: change the sizes that the program works on",
                    )
                )
                continue
            highest = max(found.pool_sizes, default=0)
            sizes = [0, *(found.pool_sizes.get(pool, 0) for pool in range(1, highest + 1))]
            method.pools = ints_attr(tuple(sizes))
        raise_if_errors(problems)

    def _shared_state(self, methods: list[MethodOp], fewest: int) -> dict[str, int]:
        """Offsets in memory id 2 of the states that at least ``fewest`` methods use, in order of first use."""
        uses: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for method in methods:
            for op in method.body.blocks[0].ops:
                if isinstance(op, BufferOp) and op.state is not None:
                    name = op.state.root_reference.data
                    uses[name] = uses.get(name, 0) + 1
                    sizes[name] = tensor_bytes(op.result.type)
        offsets: dict[str, int] = {}
        offset = 0
        for name, count in uses.items():
            if count >= fewest:
                offsets[name] = offset
                offset = align_up(offset + sizes[name], self.alignment)
        return offsets
