"""The pass, and in it the rewrite, after which a program is wrong.

The pipeline is searched by halves: the program after a prefix of it is judged as it is, at whatever level, so that no
pass has to come after. In the pass that is found, the rewrite driver is stopped after n rewrites, by halves again. Both
searches step around programs that cannot be judged. Where the whole pipeline gives a good program, a later pass may
hide what an earlier one did, and every prefix is judged.

A pass that hands outlined functions to their backends is stopped after n functions. What a backend does to a function
are passes again (``Backend.inside``), which are searched with the inputs that the function has in the program; where
machine code comes of them that the interpreter does not run, also if all prefixes are good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from etir.backends.api.registry import backend_of_runtime_id
from etir.devtools.checks import Answer, SameNumbers
from etir.devtools.trace.places import relative_path
from etir.devtools.values.interpreted import as_array, copied
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import print_module
from etir.dialects.verify import verify_module
from etir.interpret.interpreter import Interpreter
from etir.passes.delegation.legalize_delegates import outlined_functions
from etir.passes.delegation.lower_delegates import LowerDelegatesPass
from etir.passes.infra.dumped_weights import DumpedWeights
from etir.passes.infra.manager import run_pipeline
from etir.passes.infra.pipeline import parse_pipeline, pass_text
from etir.passes.infra.rewriting import RewriteLimit

Check = Callable[[ModuleOp], Answer]

ALL = 1 << 60
"""More rewrites than any pass does."""


@dataclass
class Found:
    """Where a program becomes wrong.

    ``before`` is the module before the pass ``number`` (from 0) of ``total``; ``rewrite`` of ``rewrites`` is the first
    one after which it is wrong, counted from 1, and 0 where the pass rewrites without the driver. ``rewritten`` says
    what it did. ``hidden`` is True when the program at the end of the pipeline is good. ``function`` is the symbol of a
    delegate, where the rewrite was the lowering of one, and ``inside`` is what in that is wrong.
    """

    number: int
    total: int
    text: str
    before: ModuleOp
    after: ModuleOp
    rewrite: int = 0
    rewrites: int = 0
    rewritten: str = ""
    hidden: bool = False
    function: str = ""
    inside: Found | None = None

    def __str__(self) -> str:
        if self.inside is not None:
            return f"pass {self.number + 1}/{self.total} {self.text}, delegate @{self.function}, in it {self.inside}"
        parts = [f"pass {self.number + 1}/{self.total} {self.text}"]
        if self.rewrite:
            parts.append(f"rewrite {self.rewrite} of {self.rewrites}: {self.rewritten}")
        elif not self.rewrites:
            parts.append("which rewrites without patterns")
        return ", ".join(parts) + (" (a later pass hides it)" if self.hidden else "")

    @property
    def rerun(self) -> str:
        """The command that does to ``before.mlir`` what makes it wrong."""
        if self.inside is not None:
            return self.inside.rerun
        stop = f" --max-rewrites {self.rewrite}" if self.rewrite else ""
        return f"et-opt -p '{self.text}'{stop} before.mlir"

    def write(self, folder: Path) -> None:
        """Write ``before.mlir`` and ``after.mlir`` with their weights, of a delegate the function alone. Raises
        ``OSError``.
        """
        if self.inside is not None:
            self.inside.write(folder)
            return
        folder.mkdir(parents=True, exist_ok=True)
        weights = DumpedWeights()
        for name, module in (("before", self.before), ("after", self.after)):
            (folder / f"{name}.mlir").write_text(print_module(module, locations=True), encoding="utf-8")
            weights.collect(module)
        weights.write([folder / "before.mlir", folder / "after.mlir"])


def bisect(
    ctx: EtContext, module: ModuleOp, passes: Sequence[ModulePass], check: Check, *, scan: bool = False
) -> Found | None:
    """The first pass and rewrite after which ``check`` says "bad", or None when there is none.

    ``module`` is good and stays as it is. ``scan`` judges every prefix instead of searching by halves. Raises what
    the passes do.
    """
    prefixes = _Prefixes(ctx, module, passes)
    last = len(passes)
    hidden = False
    if not scan and check(prefixes.at(last)) is not Answer.BAD:
        scan = hidden = True
    first = _scan(prefixes, check, passes) if scan else _halves(lambda n: check(prefixes.at(n)), 0, last)
    if first is None:
        return _behind_machine_code(ctx, prefixes, passes, check)
    before = prefixes.at(first - 1)
    found = Found(first - 1, last, pass_text(passes[first - 1]), before, prefixes.at(first), hidden=hidden)
    if scan and hidden:
        found.hidden = check(prefixes.at(last)) is Answer.GOOD
    found = _rewrite_of(ctx, before, passes[first - 1], check, found)
    if found.function and passes[first - 1].name == LowerDelegatesPass.name:
        found.inside = wrong_inside(ctx, before, found.function, check)
    return found


def _behind_machine_code(
    ctx: EtContext, prefixes: _Prefixes, passes: Sequence[ModulePass], check: Check
) -> Found | None:
    """What is wrong in delegates whose code the interpreter does not run."""
    number = next((n for n, p in enumerate(passes) if p.name == LowerDelegatesPass.name), None)
    if number is None or not isinstance(check, SameNumbers):
        return None
    before = prefixes.at(number)
    functions = [outlined.name for _, outlined in outlined_functions(ctx.clone(), before)]
    for name in functions:
        inside = wrong_inside(ctx, before, name, check, shown=False)
        if inside is not None:
            found = Found(number, len(passes), pass_text(passes[number]), before, prefixes.at(number + 1))
            found.function, found.inside = name, inside
            return found
    return None


def wrong_inside(ctx: EtContext, before: ModuleOp, name: str, check: Check, *, shown: bool = True) -> Found | None:
    """The pass and the rewrite in the lowering of an outlined function that make it wrong, for the inputs that the
    program gives it; None where that is not passes, or they are right. ``shown`` False: those alone that the
    interpreter does not run a blob by.
    """
    if not isinstance(check, SameNumbers):
        return None
    delegate, outlined = next(pair for pair in outlined_functions(ctx.clone(), before) if pair[1].name == name)
    for lowering in delegate.backend.inside(outlined, delegate.options):
        if lowering.shown and not shown:
            continue
        samples = given_to(before, outlined.func, check.samples, check.method)
        if not samples:
            return None
        same = SameNumbers.of(lowering.module, samples, "forward", check.tolerance)
        found = bisect(ctx, lowering.module, parse_pipeline(lowering.passes), same)
        check.count += same.count
        if found is not None:
            return found
    return None


def given_to(module: ModuleOp, func: FuncOp, samples: Sequence[Sequence[Any]], method: str) -> list[list[Any]]:
    """What a function of the module is given at its first call, for each sample that calls it."""
    arguments = list(func.body.block.args)
    found: list[list[Any]] = []
    for sample in samples:
        held: dict[SSAValue, Any] = {}
        interpreter = Interpreter(module, "auto", backend_of_runtime_id)

        def watch(value: SSAValue, given: Any, held: dict[SSAValue, Any] = held) -> None:
            if value in arguments and value not in held:
                held[value] = copied(as_array(given)) if hasattr(given, "shape") else given

        interpreter.watch = watch
        interpreter.run([copied(value) for value in sample], method)
        if len(held) == len(arguments):
            found.append([held[value] for value in arguments])
    return found


class _Prefixes:
    """The module after so many passes; what was computed is kept, and goes on from the nearest."""

    def __init__(self, ctx: EtContext, module: ModuleOp, passes: Sequence[ModulePass]):
        self._ctx, self._passes = ctx, passes
        self._known: dict[int, ModuleOp] = {0: module}

    def at(self, count: int) -> ModuleOp:
        """A module that the caller must not change."""
        if count not in self._known:
            start = max(n for n in self._known if n < count)
            made = self._known[start].clone()
            run_pipeline(self._ctx.clone(), made, self._passes[start:count])
            self._known[count] = made
        return self._known[count]


def _scan(prefixes: _Prefixes, check: Check, passes: Sequence[ModulePass]) -> int | None:
    for count in range(1, len(passes) + 1):
        if getattr(passes[count - 1], "checks_only", False):
            continue
        if check(prefixes.at(count)) is Answer.BAD:
            return count
    return None


def _halves(ask: Callable[[int], Answer], good: int, bad: int) -> int:
    """The smallest number that is bad, if all after a bad one are; between ``good`` and ``bad``, which are known."""
    unresolved: dict[int, None] = {}
    while True:
        middle = _nearest((good + bad) // 2, good, bad, unresolved)
        if middle is None:
            return bad
        match ask(middle):
            case Answer.GOOD:
                good = middle
            case Answer.BAD:
                bad = middle
            case Answer.UNRESOLVED:
                unresolved[middle] = None


def _nearest(wanted: int, good: int, bad: int, without: dict[int, None]) -> int | None:
    open = [n for n in range(good + 1, bad) if n not in without]
    return min(open, key=lambda n: (abs(n - wanted), n), default=None)


def _rewrite_of(ctx: EtContext, before: ModuleOp, p: ModulePass, check: Check, found: Found) -> Found:
    """The first rewrite in a pass that makes the program wrong."""

    def after(limit: RewriteLimit) -> ModuleOp | None:
        made = before.clone()
        inner = ctx.clone()
        inner.attachments.set(RewriteLimit, limit)
        try:
            p.apply(inner, made)
            verify_module(made)
        except EtirError:
            return None
        return made

    every = RewriteLimit(ALL)
    if after(every) is None:
        return found
    found.rewrites = ALL - every.left
    if not found.rewrites:
        return found

    def ask(count: int) -> Answer:
        made = after(RewriteLimit(count))
        return Answer.UNRESOLVED if made is None else check(made)

    if ask(0) is Answer.BAD:
        return found  # what the pass does besides is wrong already
    found.rewrite = _halves(ask, 0, found.rewrites)
    last = RewriteLimit(found.rewrite)
    wrong = after(last)
    found.rewritten, found.function = last.last, last.function
    if last.place is not None:
        found.rewritten += f", {replace(last.place, file=relative_path(last.place.file))}"
    found.after = found.after if wrong is None else wrong
    return found
