"""The first stages of a program that is compiled several times with other delegates, run once where that is possible.

The search for a program that fits into the memory of the one without delegates (``memory_bound.py``) compiles it twice,
and where it does not fit a dozen times. Delegates say which operators are not to be decomposed, and partitions come
after the ``edge`` level: what is imported is the same, and so is mostly what is made of it up to there. So modules are
kept before and after these stages. A stage is not run again where its passes have the same text and
the module before it is the same; and where other passes make the same of it, the stages after it are not, either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import Diagnostic
from etir.dialects.context import EtContext
from etir.dialects.copying import exact_copy, is_same
from etir.dialects.schema import OpSchema
from etir.passes.infra.manager import run_pipeline
from etir.passes.infra.pipeline import pass_text
from etir.passes.infra.report import PassReport
from etir.pipeline import Stage

COMMON = ("core", "edge")
"""The stages that delegates change little about, by the phase that they lead into."""


@dataclass(frozen=True)
class _Done:
    """The number of the module that a stage made, and what else came of it."""

    module: int
    passes: tuple[PassReport, ...]
    diagnostics: tuple[Diagnostic, ...]
    schemas: Mapping[str, OpSchema]


class CommonStages:
    """The modules that there were, by number, and what was made of them."""

    def __init__(self) -> None:
        self._modules: list[ModuleOp] = []
        self._imported: list[tuple[Sequence[object], int]] = []
        self._done: dict[tuple[int, tuple[str, ...]], _Done] = {}
        self._made: dict[str, list[int]] = {}

    def imported(self, programs: Sequence[object], load: Callable[[], ModuleOp]) -> int:
        """The number of the module that is imported of these very programs, loaded where they are new."""
        for known, number in self._imported:
            if len(known) == len(programs) and all(a is b for a, b in zip(known, programs, strict=True)):
                return number
        self._imported.append((programs, len(self._modules)))
        self._modules.append(load())
        return len(self._modules) - 1

    def module(self, number: int) -> ModuleOp:
        """The module with a number. It stays as it is."""
        return self._modules[number]

    def run(
        self, ctx: EtContext, number: int, found: Sequence[Stage]
    ) -> tuple[ModuleOp, list[PassReport], Sequence[Stage]]:
        """The module after the common ones of some stages, which is the caller's to change, what their passes took
        when they ran, and the stages that are left. Raises what the passes do.
        """
        module: ModuleOp | None = None
        reports: list[PassReport] = []
        for count, stage in enumerate(found):
            if stage.phase not in COMMON:
                return module or exact_copy(self._modules[number]), reports, found[count:]
            key = (number, tuple(pass_text(step.run) for step in stage.steps))
            done = self._done.get(key)
            if done is not None:
                module = None
                ctx.diagnostics += done.diagnostics
                ctx.schemas |= done.schemas
            else:
                module = module or exact_copy(self._modules[number])
                held, said, known = ctx.attachments.copy(), len(ctx.diagnostics), dict(ctx.schemas)
                passes = run_pipeline(ctx, module, [step.run for step in stage.steps]).passes
                if not ctx.attachments.has_same(held):  # Somebody may look for what a pass has left.
                    return module, [*reports, *passes], found[count + 1 :]
                schemas = {name: schema for name, schema in ctx.schemas.items() if name not in known}
                made = self._number(stage.phase, module)
                done = self._done[key] = _Done(made, tuple(passes), tuple(ctx.diagnostics[said:]), schemas)
            reports += done.passes
            number = done.module
        return module or exact_copy(self._modules[number]), reports, ()

    def _number(self, phase: str, module: ModuleOp) -> int:
        """The number of a module that a stage has made, perhaps not for the first time."""
        made = self._made.setdefault(phase, [])
        for number in made:
            if is_same(self._modules[number], module):
                return number
        made.append(len(self._modules))
        self._modules.append(exact_copy(module))
        return made[-1]
