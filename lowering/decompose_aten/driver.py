"""The pass: which patterns run, and what is preserved.

An operator stays when it is core, a view, named by ``keep``, or has a kernel in the target (``preserved.py``). For
all others the hand-written patterns run, one family of operators per module of ``families/``, and what has none is
decomposed by tracing torch's own decomposition on the operand types (``traced.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.aten.table import load_table
from etir.dialects.context import EtContext
from etir.extensions import import_contributions, registry_cache
from etir.lowering.decompose_aten.complex_numbers import ComplexNumberPattern
from etir.lowering.decompose_aten.complex_parts import ComplexPartsPattern
from etir.lowering.decompose_aten.decomposition import ADDED, DECOMPOSITIONS, RENAMES, OperatorPattern, load_families
from etir.lowering.decompose_aten.foreach import ForeachPattern
from etir.lowering.decompose_aten.preserved import PreservedOps
from etir.lowering.decompose_aten.report import summary
from etir.lowering.decompose_aten.safe_softmax import SafeSoftmaxPattern
from etir.lowering.decompose_aten.static_sizes import Problems
from etir.lowering.decompose_aten.symint_ops import SymIntPattern
from etir.lowering.decompose_aten.traced import TraceDecomposition
from etir.passes.errors import E0503
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, apply_patterns_greedily


@registry_cache
def hand_written() -> tuple[type[OperatorPattern], ...]:
    """Every hand-written pattern, those of plug-ins included, in the order in which they are tried."""
    load_families()
    import_contributions(lambda plugin: plugin.decompositions)
    own = (*DECOMPOSITIONS, ComplexNumberPattern, ForeachPattern, SymIntPattern, SafeSoftmaxPattern)
    return (*RENAMES, ComplexPartsPattern, *ADDED, *own)


@register_pass
@dataclass(frozen=True)
class DecomposeAtenPass(Pass):
    """Replace operators by compositions of core ATen ones.

    ``aten.silu.default(%x)`` becomes ``aten.mul.Tensor(%x, aten.sigmoid.default(%x))``. Options: ``keep`` names
    operators to preserve, ``only`` the patterns or operators to decompose (default: all), ``target`` the target
    whose kernels decide what else is preserved (`none`: nothing), ``libraries`` kernel libraries that are linked
    besides those that it always has, ``delegates`` backends that say what to preserve for them.
    """

    name = "decompose-aten"
    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    target: str | None = "executorch"
    delegates: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Decompose in place. Raises E0411, E0412 and E0421 to E0423 for what cannot be decomposed, all at once."""
        problems = Problems()
        preserved = PreservedOps(self.target, self.keep, self.delegates, self.libraries)
        apply_patterns_greedily(
            ctx, module, [*self.patterns(ctx, preserved, problems), TraceDecomposition(preserved, self.only, problems)]
        )
        problems.conclude()
        raise_if_errors(summary([(op, d) for op, d in problems.items() if op.parent is not None]))

    def recover(self, module: ModuleOp) -> bool:
        """What cannot be decomposed is left as it is."""
        return True

    def patterns(self, ctx: EtContext, preserved: PreservedOps, problems: dict[Operation, Diagnostic]) -> list[Pattern]:
        """The hand-written patterns that run under these options; ``problems`` collects what they report.
        Raises E0503 for a name that is neither pattern nor operator."""
        check_names(ctx, self.name, "keep", self.keep, ())
        check_names(ctx, self.name, "only", self.only, [p.name for p in hand_written()])
        chosen: list[Pattern] = []
        for cls in hand_written():
            roots = [r for r in cls.roots if r not in preserved.names]
            if self.only and cls.name not in self.only:
                roots = [r for r in roots if r in self.only]
            if roots:
                chosen.append(cls(tuple(roots), preserved, problems))
        return chosen


def check_names(ctx: EtContext, pass_name: str, option: str, names: Sequence[str], others: Iterable[str]) -> None:
    """Raise E0503 when one of ``names`` is neither an operator (``aten.linear.default``) nor one of ``others``."""
    known = list(others)
    for name in names:
        if ctx.schema(name) is None and name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, [*known, *load_table()], 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise E0503.error(f"{pass_name}: '{option}' names '{name}', which is no operator or pattern{hint}")
