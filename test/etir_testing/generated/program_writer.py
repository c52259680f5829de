"""Random programs of control flow, state, changes in place, views, storage and aliasing, from a number.

A program is written by running it on meta tensors: each statement is a piece of source that is executed at once, so
that shapes, dtypes, strides and shared storage are what torch says they are, and what torch refuses is drawn again.
What meta tensors do not see is kept here: a change may not read what it overwrites in part, nor write one element
twice, and the functions of control flow may only change what torch lets them (``map`` and ``scan`` nothing from
outside, loops not what they carry), and give results that alias nothing.

A program has traits: dynamic sizes, members that are views of one another, a second method, special values, empty or
complex tensors, numbers from data. The same number gives the same program under the same version of this folder.
"""

from __future__ import annotations

import contextlib
import random
import re
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch

from etir_testing.generated.program_control import ControlFlow
from etir_testing.generated.program_operators import KINDS, kind_of, many, mutation, number, pure, resizing, view
from etir_testing.generated.program_scope import LARGEST, Scope, has_overlap, same_place, storage_of
from etir_testing.generated.program_sources import Sources, draw_sizes
from etir_testing.generated.program_special import special, special_mutation
from etir_testing.generated.program_storage import from_storage, storage
from etir_testing.generated.program_text import Program, Statement

DEPTH = 3
"""How deep control flow is nested."""
_AUGMENTED = re.compile(r"^\S+ (\+|//|\||\^|-|\*)= ")
_STORED = re.compile(r"^\S+\[.*\] = (\S+)$")
_FIXES_SIZES = re.compile(r"\.(unbind|tensor_split|chunk|split|unfold)\(")
"""What torch makes dynamic sizes constant or even for."""
_NOT_FOR_META = (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError, AttributeError)
"""What torch says to operands that do not fit."""


class Writer(ControlFlow):
    """Writes one program."""

    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.program = Program(seed)
        self.count = 0
        self.calls = 0
        self.numbers: list[str] = []
        self.special = self.storage = self.empty = self.data = False

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # --- the module -------------------------------------------------------------------------------------------------

    def write(self) -> Program:
        """The program."""
        r, program = self.r, self.program
        self.special, self.storage, self.empty = r.random() < 0.15, r.random() < 0.4, r.random() < 0.06
        self.data = r.random() < 0.15
        if r.random() < 0.25:
            draw_sizes(r, program)
        sources = Sources(r, program, special=self.special, empty=self.empty, complexes=r.random() < 0.02)
        scope = sources.scope()
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sources.parameters(scope)
            sources.buffers(scope)
            if r.random() < 0.3:
                sources.aliases(scope)
            other = Scope([dict(world) for world in scope.worlds], dict(scope.tensors), set(scope.frozen))
            sources.inputs(scope)
            has_calls = r.random() < 0.5
            self.calls = r.choice([1, 1, 1, 2, 2, 3]) if has_calls else 0
            program.strict = has_calls and r.random() < 0.7
            if r.random() < 0.3:
                name = self.name()
                source = r.choice([n for n in scope.tensors if n.startswith("self.b")])
                self._run(program.statements, scope, f"{name} = {source}.clone()", (name,))
            second = r.random() < 0.12
            if second:
                self._other(scope, other)
            self.block(program.statements, scope, r.randint(6, 16))
            while self.calls:
                self.control(program.statements, scope)
                self.block(program.statements, scope, r.randint(1, 3))
        self._outputs(scope)
        return program

    def _other(self, scope: Scope, other: Scope) -> None:
        """A second method: it reads and changes the state that the first one has."""
        for name in self.program.shapes:
            other.add(name, [world[name] for world in scope.worlds])
        calls, self.calls = self.calls, 0
        other.own.clear()
        self.block(self.program.other, other, self.r.randint(2, 6))
        self.calls = calls
        self.numbers.clear()
        names = [n for n in other.own if n in other.tensors] + [n for n in other.tensors if n.startswith("self.")]
        self.program.other_outputs += self.r.sample(names, min(len(names), self.r.randint(1, 4)))

    def _outputs(self, scope: Scope) -> None:
        r, outputs = self.r, self.program.outputs
        names = list(scope.tensors)
        recent = [n for n in scope.own if n.startswith("v")][-8:]
        outputs += r.sample(recent, min(len(recent), r.randint(1, 4)))
        outputs += r.sample(names, min(len(names), r.randint(0, 3)))
        outputs += [n for n in self.numbers if r.random() < 0.6]
        if r.random() < 0.3:
            outputs.append(r.choice(outputs or names))
        if r.random() < 0.2:
            outputs.append(f"({r.choice(names)}, {{'k': {r.choice(names)}}})")
        if r.random() < 0.15:
            outputs.append(f"[{r.choice(names)}, ({r.choice(names)},), {r.choice(['3', 'None', 'True', '-0.5'])}]")
        if r.random() < 0.2:
            outputs.append(r.choice(["torch.tensor([1, 2, 3])", "torch.ones(2)", "3", "None", "0.5", "True"]))
        if r.random() < 0.1:
            name = r.choice(names)
            rank = scope.tensors[name].dim()
            outputs.append(r.choice([f"{name}.numel()", f"{name}.shape[-1]" if rank else f"{name}.dim()"]))
        for name in (*self.program.buffers, *self.program.aliases):
            outputs += r.choice([[], [f"self.{name}"], [f"self.{name}.clone()"]])
        outputs += [n for n in self.program.inputs if n.startswith("x") and r.random() < 0.15]
        r.shuffle(outputs)
        if not outputs:
            outputs.append(names[-1])

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, statements: list[Statement], scope: Scope, length: int) -> None:
        write, change = (special, special_mutation) if self.special else (pure, mutation)
        for _ in range(length):
            draw = self.r.random()
            if self.calls and scope.depth < DEPTH and draw < (0.15 if scope.depth == 0 else 0.3):
                self.control(statements, scope)
            elif draw < 0.45:
                self._mutation(statements, scope, change)
            elif self.storage and self.r.random() < 0.4:
                self._value(statements, scope, storage if draw < 0.85 else from_storage)
            elif draw < 0.68:
                self._value(statements, scope, view)
            elif draw < 0.76 and self.r.random() < 0.4:
                self._many(statements, scope)
            elif draw < 0.8 and self.data and not scope.depth:
                self._number(statements, scope)
            else:
                self._value(statements, scope, write)

    def _run(self, statements: list[Statement], scope: Scope, text: str, defines: tuple[str, ...] = ()) -> bool:
        """Execute a line on meta tensors and keep it; False when torch refuses it."""
        if self.program.sizes and _FIXES_SIZES.search(text):
            return False
        try:
            for world in scope.worlds:
                exec(text, world)
        except _NOT_FOR_META:
            return self._forget(scope, defines)
        values = [[world[name] for world in scope.worlds] for name in defines]
        if not all(self._is_usable(tensors) for tensors in values):
            return self._forget(scope, defines)
        for name, tensors in zip(defines, values, strict=True):
            scope.add(name, tensors)
        statements.append(Statement(text, defines))
        return True

    @staticmethod
    def _forget(scope: Scope, names: Sequence[str]) -> bool:
        for world in scope.worlds:
            for name in names:
                world.pop(name, None)
        return False

    def _is_usable(self, values: Sequence[torch.Tensor]) -> bool:
        first = values[0]
        if not all(isinstance(v, torch.Tensor) and v.dtype in KINDS for v in values):
            return False
        if any(v.dim() != first.dim() or v.dtype != first.dtype for v in values):
            return False
        return first.numel() <= LARGEST and first.dim() <= 4 and (self.empty or all(v.numel() for v in values))

    def pick(self, scope: Scope, fits: Callable[[torch.Tensor], bool] = lambda _: True) -> str | None:
        names = [n for n, t in scope.tensors.items() if fits(t)]
        if not names:
            return None
        return self.r.choice(names[-6:] if self.r.random() < 0.6 else names)

    def _operand(self, scope: Scope, target: torch.Tensor, *, changed: bool) -> str:
        """A tensor or number that broadcasts to ``target``, of its kind or a lower one, and no part of what changes."""
        kind = kind_of(target)
        mixed = self.r.random() < 0.15
        fitting = [
            n for n, t in scope.tensors.items() if _broadcasts(t.shape, target.shape)
            and (t.dtype == target.dtype if kind == "half" else kind_of(t) == kind)
            or mixed and KINDS[t.dtype] < KINDS[target.dtype] and _broadcasts(t.shape, target.shape)
        ]  # fmt: skip
        numbers = [n for n, k in scope.numbers.items() if k in (kind, "int")]
        if numbers and kind in ("float", "int") and self.r.random() < 0.2:
            return self.r.choice(numbers)
        name = self.r.choice(fitting[-5:] if self.r.random() < 0.5 else fitting)
        tensor = scope.tensors[name]
        if changed and storage_of(tensor) == storage_of(target) and not same_place(tensor, target):
            return f"{name}.clone()"
        return name

    def _value(self, statements: list[Statement], scope: Scope, write: Callable[..., str]) -> None:
        reads_storage = write in (storage, from_storage)
        for _ in range(20):
            source = self.pick(scope, lambda t: not reads_storage or storage_of(t) not in scope.passed)
            assert source is not None
            tensor = scope.tensors[source]
            text = write(self.r, source, tensor, lambda t=tensor: self._operand(scope, t, changed=False))
            name = self.name()
            if self._run(statements, scope, f"{name} = {text}", (name,)):
                self._note_parts(scope, tensor, name)
                return

    @staticmethod
    def _note_parts(scope: Scope, source: torch.Tensor, name: str) -> None:
        made = scope.tensors[name]
        if storage_of(source) == storage_of(made) and (has_overlap(source) or id(source) in scope.parts):
            scope.parts[id(made)] = made

    def _many(self, statements: list[Statement], scope: Scope) -> None:
        """Two tensors from one operator, or from a list."""
        for _ in range(20):
            source = self.pick(scope)
            assert source is not None
            tensor = scope.tensors[source]
            operand = lambda t=tensor: self._operand(scope, t, changed=False)  # noqa: E731
            text = many(self.r, source, tensor, operand, special=self.special)
            names = (self.name(), self.name())
            if self._run(statements, scope, f"{', '.join(names)} = {text}", names):
                for name in names:
                    self._note_parts(scope, tensor, name)
                return

    def _number(self, statements: list[Statement], scope: Scope) -> None:
        """A number from data or from a type."""
        source = self.pick(scope, lambda t: kind_of(t) in ("int", "float", "bool"))
        if source is None or self.special:
            return
        name = self.name("s")
        text, kind = number(self.r, source, scope.tensors[source])
        statements.append(Statement(f"{name} = {text}", (name,)))
        self.numbers.append(name)
        for world in scope.worlds:
            world[name] = 0.5 if kind == "float" else 2
        if "item" not in text and "float" not in text:
            scope.numbers[name] = kind
            return
        # Not where torch would have to know the value.
        product = self.name()
        self._run(statements, scope, f"{product} = {source} {self.r.choice('+*')} {name}", (product,))

    def _mutation(self, statements: list[Statement], scope: Scope, change: Callable[..., str]) -> None:
        for _ in range(20):
            target = self.pick(scope, scope.may_change)
            if target is None:
                return
            tensor = scope.tensors[target]
            fresh = target.startswith("v") and target in scope.own
            if fresh and self.r.random() < 0.05 and not scope.is_shared(target):
                text = resizing(self.r, target, tensor)
            else:
                text = change(self.r, target, tensor, lambda t=tensor: self._operand(scope, t, changed=True))
            if scope.depth and _AUGMENTED.match(text):
                continue
            stored = _STORED.match(text)
            if stored and stored[1] in scope.tensors and storage_of(scope.tensors[stored[1]]) == storage_of(tensor):
                continue
            if self._run(statements, scope, text):
                return


def _broadcasts(shape: Sequence[int], target: Sequence[int]) -> bool:
    with contextlib.suppress(RuntimeError):
        return torch.broadcast_shapes(shape, target) == torch.Size(target)
    return False


def programs(first: int, count: int) -> Iterator[Program]:
    """The programs of the numbers from ``first``."""
    for seed in range(first, first + count):
        yield Writer(seed).write()
