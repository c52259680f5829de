"""``tile-schedule``: how large tiles and blocks are, for one processor.

Before ``tile.brgemm %x, %w, %y (%b) : ...``, after ``tile.brgemm %x, %w, %y (%b) schedule {tile = [14, 2], depth = 384,
rows = 197} : ...``. A schedule that an operation has is kept, and checked when code is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from etir.backends.native.cpu import Cpu, cpu
from etir.backends.native.functions import tile_functions
from etir.backends.native.kernels import template_of
from etir.backends.native.kernels.template import set_schedule
from etir.backends.native.tile import TemplateOp
from etir.dialects.context import EtContext
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def choose_schedules(func: FuncOp, target: Cpu) -> None:
    """Give every operation without a schedule the one that its template's model of the processor takes."""
    for op in func.walk():
        if not isinstance(op, TemplateOp) or op.schedule is not None:
            continue
        chosen = template_of(op).schedule(op, target)
        if chosen:
            set_schedule(op, chosen)


@register_pass
@dataclass(frozen=True)
class TileSchedulePass(Pass):
    """Choose tiles and blocks of every micro-kernel for the processor ``cpu``"""

    name = "tile-schedule"
    cpu: str = "x86-64-v4"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1160 for an unknown processor."""
        target = cpu(self.cpu)
        for func in tile_functions(module):
            choose_schedules(func, target)
