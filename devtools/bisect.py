"""The pass, and in it the rewrite, after which a program is wrong.

The pipeline is searched by halves: the program after a prefix of it is judged as it is, at whatever level, so that no
pass has to come after. In the pass that is found, the rewrite driver is stopped after n rewrites, by halves again. Both
searches step around programs that cannot be judged. Where the whole pipeline gives a good program, a later pass may
hide what an earlier one did, and every prefix is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from etir.devtools.checks import Answer
from etir.devtools.trace.places import relative_path
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import print_module
from etir.dialects.verify import verify_module
from etir.passes.infra.dumped_weights import DumpedWeights
from etir.passes.infra.manager import run_pipeline
from etir.passes.infra.pipeline import pass_text
from etir.passes.infra.rewriting import RewriteLimit

Check = Callable[[ModuleOp], Answer]

ALL = 1 << 60
"""More rewrites than any pass does."""


@dataclass
class Found:
    """Where a program becomes wrong.

    ``before`` is the module before the pass ``number`` (from 0) of ``total``; ``rewrite`` of ``rewrites`` is the first
    one after which it is wrong, counted from 1, and 0 where the pass rewrites without the driver. ``rewritten`` says
    what it did. ``hidden`` is True when the program at the end of the pipeline is good.
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

    def __str__(self) -> str:
        parts = [f"pass {self.number + 1}/{self.total} {self.text}"]
        if self.rewrite:
            parts.append(f"rewrite {self.rewrite} of {self.rewrites}: {self.rewritten}")
        elif not self.rewrites:
            parts.append("which rewrites without patterns")
        return ", ".join(parts) + (" (a later pass hides it)" if self.hidden else "")

    @property
    def rerun(self) -> str:
        """The command that does to ``before.mlir`` what makes it wrong."""
        stop = f" --max-rewrites {self.rewrite}" if self.rewrite else ""
        return f"et-opt -p '{self.text}'{stop} before.mlir"

    def write(self, folder: Path) -> None:
        """Write ``before.mlir`` and ``after.mlir`` with their weights. Raises ``OSError``."""
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
        return None
    before = prefixes.at(first - 1)
    found = Found(first - 1, last, pass_text(passes[first - 1]), before, prefixes.at(first), hidden=hidden)
    if scan and hidden:
        found.hidden = check(prefixes.at(last)) is Answer.GOOD
    return _rewrite_of(ctx, before, passes[first - 1], check, found)


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
    found.rewritten = last.last
    if last.place is not None:
        found.rewritten += f", {replace(last.place, file=relative_path(last.place.file))}"
    found.after = found.after if wrong is None else wrong
    return found
