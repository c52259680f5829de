"""A failing program made small: the fewest operations that still fail, with inputs that are what they were there.

Any set of operations of a method is a program: what the operations take from outside becomes inputs, filled with what
the values were when the whole program ran, and what they give to the outside becomes outputs. So the search is that of
Zeller and Hildebrandt ("Simplifying and Isolating Failure-Inducing Input", 2002) over operations: halves, quarters and
so on, until no single operation can be left out. What does not verify, or cannot be judged, is stepped around.
At the executable level operations are instructions (:mod:`etir.devtools.instructions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType, UnknownLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from etir.backends.api.registry import backend_of_runtime_id
from etir.devtools.checks import Answer
from etir.devtools.errors import E1414
from etir.devtools.instructions import extracted, histories, parts, straight_method
from etir.devtools.values.interpreted import copied
from etir.devtools.values.replayed import method_of
from etir.diagnostics import EtirError, SourceLocation
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.program import ConstantOp, GetWeightOp, NoneOp, StringOp, WeightOp
from etir.dialects.et.weights import SyntheticAttr, digest_of
from etir.dialects.sym.ops import ConstantOp as SymConstantOp
from etir.dialects.text import print_module
from etir.dialects.verify import verify_module
from etir.interpret.interpreter import Interpreter
from etir.passes.infra.base import is_private

CONSTANTS = (GetWeightOp, ConstantOp, NoneOp, StringOp, SymConstantOp)
"""Operations that are copied to wherever they are read."""


@dataclass
class Candidate:
    """A program, and inputs for its only method, for each sample; no samples where nothing is run."""

    module: ModuleOp
    samples: list[list[Any]] = field(default_factory=list["list[Any]"])


T = TypeVar("T")

StillFails = Callable[[Candidate], Answer]
"""The question: bad is what still fails."""


@dataclass(frozen=True)
class Reduced:
    """The smallest program that was found; ``before`` and ``after`` count operations, ``checks`` questions."""

    candidate: Candidate
    before: int
    after: int
    checks: int

    def __str__(self) -> str:
        return f"{self.before:,} operations became {self.after:,}, {self.checks} checks"


def reduce(
    module: ModuleOp, still_fails: StillFails, samples: Sequence[Sequence[Any]] = (), method: str = "forward"
) -> Reduced:
    """The smallest program that still fails, of one method of a module; at the executable level one without jumps.

    ``samples`` are inputs of the method; they are what ``still_fails`` may run a candidate on. The module stays as it
    is, and the same module gives the same result. Raises error E1414 when the module does not fail, or has no such
    method.
    """
    return _Reduction(module, still_fails, samples, method).run()


class _Reduction:
    def __init__(
        self, module: ModuleOp, still_fails: StillFails, samples: Sequence[Sequence[Any]], method: str
    ) -> None:
        self.whole, self.method = module, method
        self.samples = [list(sample) for sample in samples]
        self.still_fails = still_fails
        self.known: dict[str, Answer] = {}
        self.checks = 0

    def run(self) -> Reduced:
        first = Candidate(self.whole, self.samples)
        method = straight_method(self.whole, self.method)
        if method is not None:
            return self.instructions(first, len(parts(method)))
        func = _function(self.whole, self.method)
        if func is None:
            message = f"there is no method '{self.method}'"
            if method_of(self.whole, self.method) is not None:
                message = f"method '{self.method}' has jumps: at the executable level one line can be made smaller"
            raise E1414.error(message)
        before = sum(1 for op in func.walk()) - 2
        if self.ask(first) is not Answer.BAD:
            raise E1414.error("the whole program passes the check", SourceLocation(self.method))
        found = self.smaller(first)
        while (inner := self.inside(found)) is not None:
            found = self.smaller(inner)
        found = self.plainer(found)
        kept = _function(found.module, self.method)
        after = 0 if kept is None else sum(1 for op in kept.walk()) - 2
        return Reduced(found, before, after, self.checks)

    def ask(self, candidate: Candidate) -> Answer:
        """The answer, from what is known where the text was asked before."""
        try:
            verify_module(candidate.module)
        except EtirError:
            return Answer.UNRESOLVED
        key = digest_of(print_module(candidate.module).encode())
        if key not in self.known:
            self.checks += 1
            try:
                self.known[key] = self.still_fails(candidate)
            except EtirError:
                self.known[key] = Answer.UNRESOLVED
        return self.known[key]

    # --- instructions ---------------------------------------------------------------------------------------------

    def instructions(self, whole: Candidate, before: int) -> Reduced:
        """The same at the executable level: as few instructions as possible."""
        if self.ask(whole) is not Answer.BAD:
            raise E1414.error("the whole program passes the check", SourceLocation(self.method))
        best = whole
        while True:
            start = best
            method = straight_method(start.module, self.method)
            assert method is not None
            every = parts(method)
            best = self.fewer(start, every)
            kept = straight_method(best.module, self.method)
            assert kept is not None
            if len(parts(kept)) == len(every):
                break
        for step in (_with_synthetic_weights, _without_places):
            for made in step(best, self.method):
                if self.ask(made) is Answer.BAD:
                    best = made
        found = straight_method(best.module, self.method)
        assert found is not None
        return Reduced(best, before, len(parts(found)), self.checks)

    def fewer(self, candidate: Candidate, every: list[int]) -> Candidate:
        """Without the instructions that can be left out."""
        known = histories(candidate.module, self.method, candidate.samples)
        best = candidate

        def fails(kept: list[int]) -> bool:
            nonlocal best
            found = extracted(candidate.module, self.method, kept, candidate.samples, known)
            if found is None:
                return False
            made = Candidate(_around(candidate.module, found[0]), found[1])
            if self.ask(made) is not Answer.BAD:
                return False
            best = made
            return True

        _ddmin(every, fails)
        return best

    # --- operations --------------------------------------------------------------------------------------------------

    def smaller(self, candidate: Candidate) -> Candidate:
        """As few operations as possible, with what they read from outside as inputs."""
        func = _function(candidate.module, self.method)
        assert func is not None
        block = func.body.block
        every = [op for op in block.ops if not isinstance(op, CONSTANTS) and not op.has_trait(IsTerminator)]
        values = _values(candidate, self.method)
        best = candidate

        def fails(kept: list[Operation]) -> bool:
            nonlocal best
            made = _extracted(candidate, self.method, kept, values)
            if made is None or self.ask(made) is not Answer.BAD:
                return False
            best = made
            return True

        if fails(every):  # otherwise what is outside of the operations matters: attributes of the method, its outputs
            _ddmin(every, fails)
        return best

    def inside(self, candidate: Candidate) -> Candidate | None:
        """A branch or the body of a loop instead of the whole, where that fails by itself; None otherwise."""
        func = _function(candidate.module, self.method)
        values = _values(candidate, self.method) if func is not None else []
        for op in func.body.block.ops if func is not None else ():
            for region in op.regions:
                for block in region.blocks:
                    made = _extracted(candidate, self.method, [o for o in block.ops if _keeps(o)], values)
                    if made is not None and self.ask(made) is Answer.BAD:
                        return made
        return None

    # --- everything else ---------------------------------------------------------------------------------------------

    def plainer(self, candidate: Candidate) -> Candidate:
        """Without source lines, with weights made from seeds, and fewer outputs, as far as it still fails."""
        for step in (_without_outputs, _with_synthetic_weights, _without_places):
            for made in step(candidate, self.method):
                if self.ask(made) is Answer.BAD:
                    candidate = made
                    break
        return candidate


def _keeps(op: Operation) -> bool:
    return not isinstance(op, CONSTANTS) and not op.has_trait(IsTerminator)


def _ddmin(items: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A subset that fails, of which no element can be left out; ``items`` as a whole does."""
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        pieces = [items[i : i + size] for i in range(0, len(items), size)]
        for number, piece in enumerate(pieces):
            rest = [op for i, other in enumerate(pieces) if i != number for op in other]
            if len(pieces) > 1 and fails(piece):
                items, parts = piece, 2
                break
            if len(pieces) > 2 and fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(items))
    return items


def _function(module: ModuleOp, name: str) -> FuncOp | None:
    return next(
        (
            op
            for op in module.body.block.ops
            if isinstance(op, FuncOp) and op.sym_name.data == name and not is_private(op)
        ),
        None,
    )


def _values(candidate: Candidate, method: str) -> list[dict[SSAValue, Any]]:
    """Of each sample: what every value of the method is. What cannot be run has none."""
    found: list[dict[SSAValue, Any]] = []
    for sample in candidate.samples:
        seen: dict[SSAValue, Any] = {}
        interpreter = Interpreter(candidate.module, "auto", backend_of_runtime_id)

        def watch(value: SSAValue, held: Any, seen: dict[SSAValue, Any] = seen) -> None:
            seen[value] = copied(held)

        interpreter.watch = watch
        try:
            interpreter.run([copied(value) for value in sample], method)
        except EtirError:
            return []
        found.append(seen)
    return found


def _extracted(
    candidate: Candidate, method: str, kept: Sequence[Operation], values: Sequence[dict[SSAValue, Any]]
) -> Candidate | None:
    """The operations as a method of their own; None where an input would be no tensor and no number."""
    inside = dict.fromkeys(o for op in kept for o in op.walk())
    own = dict.fromkeys(kept)
    inputs: dict[SSAValue, None] = {}
    constants: dict[SSAValue, Operation] = {}
    for op in inside:
        for value in op.operands:
            owner = value.owner
            if owner in inside or (isinstance(owner, Block) and owner.parent_op() in inside):
                continue
            if isinstance(owner, CONSTANTS):
                constants[value] = owner
            else:
                inputs[value] = None
    outputs = [result for op in own for result in op.results if any(use.operation not in inside for use in result.uses)]
    if candidate.samples and any(value not in seen for seen in values for value in inputs):
        return None
    if candidate.samples and not values:
        return None
    block = Block(arg_types=[value.type for value in inputs])
    mapped: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for value, owner in constants.items():
        copy = owner.clone()
        block.add_op(copy)
        mapped[value] = copy.results[owner.results.index(value)]  # type: ignore[arg-type]
    for op in own:
        block.add_op(op.clone(mapped))
    block.add_op(ReturnOp(*[mapped[value] for value in outputs]))
    types = FunctionType.from_lists([value.type for value in inputs], [value.type for value in outputs])
    func = FuncOp(method, types, Region([block]))
    old = _function(candidate.module, method)
    assert old is not None
    func.location = old.location
    samples = [[copied(seen[value]) for value in inputs] for seen in values]
    return Candidate(_around(candidate.module, func), samples)


def _around(module: ModuleOp, func: FuncOp | MethodOp) -> ModuleOp:
    """A module of one method and the symbols that it names, in their order."""
    wanted = _named(func)
    tops = {_symbol(op): op for op in module.body.block.ops if _symbol(op)}
    waiting = list(wanted)
    while waiting:
        op = tops.get(waiting.pop())
        for name in _named(op) if op is not None else ():
            if name not in wanted:
                wanted[name] = None
                waiting.append(name)
    others = [
        op.clone()
        for op in module.body.block.ops
        if op.name in ("sym.dim", "et.schema") or (_symbol(op) in wanted and _symbol(op) != _symbol(func))
    ]
    return ModuleOp([*others, func])


def _symbol(op: Operation) -> str:
    name = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return name.data if isinstance(name, StringAttr) else ""


def _named(op: Operation) -> dict[str, None]:
    from xdsl.dialects.builtin import SymbolRefAttr

    found: dict[str, None] = {}
    for inner in op.walk():
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            if isinstance(attribute, SymbolRefAttr):
                found[attribute.root_reference.data] = None
    return found


def _without_outputs(candidate: Candidate, method: str) -> list[Candidate]:
    """One output instead of several, the last one first."""
    func = _function(candidate.module, method)
    assert func is not None
    count = len(func.function_type.outputs)
    made: list[Candidate] = []
    for index in reversed(range(count if count > 1 else 0)):
        module = candidate.module.clone()
        copy = _function(module, method)
        assert copy is not None
        last = copy.body.block.last_op
        assert last is not None
        value = last.operands[index]
        last.detach()
        last.erase()
        copy.body.block.add_op(ReturnOp(value))
        inputs = [argument.type for argument in copy.body.block.args]
        copy.properties["function_type"] = FunctionType.from_lists(inputs, [value.type])
        copy.properties.pop("res_attrs", None)
        made.append(Candidate(module, candidate.samples))
    return made


def _with_synthetic_weights(candidate: Candidate, method: str) -> list[Candidate]:
    """All weights made from seeds."""
    module = candidate.module.clone()
    for seed, op in enumerate(op for op in module.body.block.ops if isinstance(op, WeightOp)):
        if isinstance(op.type, TensorType):
            op.properties["value"] = SyntheticAttr(seed + 1)
    return [Candidate(module, candidate.samples)]


def _without_places(candidate: Candidate, method: str) -> list[Candidate]:
    """No names of files and modules."""
    module = candidate.module.clone()
    for op in module.walk():
        op.location = UnknownLoc()
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    assert isinstance(argument, BlockArgument)
                    argument.location = UnknownLoc()
    return [Candidate(module, candidate.samples)]
