"""``tile-share``: what schedules say so that several operations have micro-kernels in common.

Before, two products of which one is cut into slices of depth: ``schedule {tile = [14, 2], depth = 64, rows = 196}`` and
``schedule {tile = [14, 2], depth = 384, rows = 196}``, and two micro-kernels. After, ``slices = 1`` in the first one,
too, whose micro-kernel is that of the second then. A compiler takes its time by micro-kernel, and their code is in the
program once.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

from etir.backends.native.cpu import Cpu, cpu
from etir.backends.native.functions import tile_functions
from etir.backends.native.kernels import template_of
from etir.backends.native.kernels.template import Template
from etir.backends.native.tile import TemplateOp
from etir.dialects.context import EtContext
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def share_kernels(func: FuncOp, target: Cpu) -> None:
    """Add what other operations need to the schedules of those that could have the same micro-kernel."""
    by_template: dict[Template, list[TemplateOp]] = {}
    for op in func.walk():
        if isinstance(op, TemplateOp) and op.schedule is not None:
            by_template.setdefault(template_of(op), []).append(op)
    for template, ops in by_template.items():
        for op, entries in template.shared(ops, target).items():
            assert op.schedule is not None, "only operations that have schedules share"
            added = {name: IntegerAttr(number, i64) for name, number in entries.items()}
            op.properties["schedule"] = DictionaryAttr({**op.schedule.data, **added})


@register_pass
@dataclass(frozen=True)
class TileSharePass(Pass):
    """Let products that are nearly alike have one micro-kernel, for the processor ``cpu``"""

    name = "tile-share"
    cpu: str = "x86-64-v4"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1160 for an unknown processor."""
        target = cpu(self.cpu)
        for func in tile_functions(module):
            share_kernels(func, target)
