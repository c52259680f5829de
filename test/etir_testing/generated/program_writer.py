"""Random programs of control flow, state, changes in place, views and aliasing, from a number.

A program is written by running it on meta tensors: each statement is a piece of source that is executed at once, so
that shapes, dtypes, strides and shared storage are what torch says they are, and what torch refuses is drawn again.
What meta tensors do not see is kept here: a change may not read what it overwrites in part, nor write one element
twice, and the functions of control flow may only change what torch lets them (``map`` and ``scan`` nothing from
outside, loops not what they carry), and give results that alias nothing.

The same number gives the same program under the same version of this file.
"""

from __future__ import annotations

import contextlib
import random
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from etir_testing.generated.program_operators import kind_of, mutation, predicate, pure, resizing, view
from etir_testing.generated.program_text import Body, Program, Statement

SHAPES = ((2, 3), (3,), (), (3, 3), (4, 2, 3), (1, 3), (2, 3), (3, 3))
DTYPES = (
    *(torch.float32,) * 8,
    torch.float64, torch.int64, torch.int64, torch.int32, torch.bool, torch.float16, torch.bfloat16, torch.uint8,
    torch.int16, torch.int8,
)  # fmt: skip
DEPTH = 3
"""How deep control flow is nested."""
LARGEST = 64
"""Elements of the largest tensor."""
_AUGMENTED = re.compile(r"^\S+ (\+|//|\||\^|-|\*)= ")
_STORED = re.compile(r"^\S+\[.*\] = (\S+)$")
_NOT_FOR_META = (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError, AttributeError)
"""What torch says to operands that do not fit."""


def storage_of(tensor: torch.Tensor) -> int:
    """What tell storages apart."""
    return tensor.untyped_storage()._cdata


def has_overlap(tensor: torch.Tensor) -> bool:
    """Whether two indices may name one element."""
    reach = 0
    for step, count in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1):
        if step <= reach:
            return True
        reach += step * (count - 1)
    return False


def _same_place(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.stride() == b.stride() and a.shape == b.shape and a.storage_offset() == b.storage_offset()


@dataclass
class Scope:
    """What statements of a block can name."""

    env: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    frozen: set[int] = field(default_factory=set)
    """Storages that may not be changed."""
    made: set[int] | None = None
    """The only storages that may be changed, where nothing from outside may."""
    numbers: tuple[str, ...] = ()
    depth: int = 0
    own: list[str] = field(default_factory=list)
    """Names that this block defined."""
    calls: list[str] = field(default_factory=list)
    """One result of each control flow in this block."""
    parts: set[int] = field(default_factory=set)
    """Tensors (by identity) that are part of one whose elements overlap: changes of them are not supported."""

    def inner(self, *, closed: bool) -> Scope:
        """The scope of a function: it sees everything; ``closed`` says that it changes nothing from outside."""
        made: set[int] | None = set() if closed or self.made is not None else None
        inner = Scope(dict(self.env), dict(self.tensors), set(self.frozen), made, self.numbers, self.depth + 1)
        inner.parts = self.parts
        return inner

    def may_change(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor`` may be written."""
        key = storage_of(tensor)
        if key in self.frozen or id(tensor) in self.parts or has_overlap(tensor):
            return False
        return self.made is None or key in self.made

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """A tensor that the block has now."""
        self.env[name] = self.tensors[name] = tensor
        self.own.append(name)
        if self.made is not None and all(
            storage_of(tensor) != storage_of(t) for n, t in self.tensors.items() if n not in self.own
        ):
            self.made.add(storage_of(tensor))


class Writer:
    """Writes one program."""

    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.program = Program(seed)
        self.count = 0
        self.calls = 0

    def name(self, prefix: str = "v") -> str:
        """A name that nothing has yet."""
        self.count += 1
        return f"{prefix}{self.count}"

    # --- the module -------------------------------------------------------------------------------------------------

    def write(self) -> Program:
        """The program."""
        r, program = self.r, self.program
        module = SimpleNamespace()
        scope = Scope({"torch": torch, "self": module}, {})
        for i in range(r.randint(1, 2)):
            shape, dtype = r.choice(SHAPES[3:]), torch.float32
            program.parameters[f"w{i}"] = f"make({shape}, {dtype}, {r.randrange(1000)})"
            self._member(scope, module, f"w{i}", shape, dtype, frozen=True)
        for i in range(r.randint(1, 3)):
            shape, dtype = r.choice(SHAPES), r.choice(DTYPES)
            start = f"torch.zeros({shape}, dtype={dtype})"
            program.buffers[f"b{i}"] = r.choice([start, f"make({shape}, {dtype}, {r.randrange(1000)})"])
            self._member(scope, module, f"b{i}", shape, dtype, frozen=False)
        for i in range(r.randint(1, 3)):
            shape, dtype = r.choice(SHAPES), r.choice(DTYPES) if i else torch.float32
            program.inputs[f"x{i}"] = f"make({shape}, {dtype}, {r.randrange(1000)} + step)"
            scope.add(f"x{i}", torch.empty(shape, dtype=dtype, device="meta"))
        if r.random() < 0.25:
            value = r.choice(["2", "0.5", "True", "None"])
            program.inputs["n0"] = value
            if value not in ("None", "True"):
                scope.env["n0"], scope.numbers = float(value) if "." in value else int(value), ("n0",)
        has_calls = r.random() < 0.5
        self.calls = r.choice([1, 1, 1, 2, 2, 3]) if has_calls else 0
        program.strict = has_calls and r.random() < 0.7
        if r.random() < 0.3:
            name = self.name()
            source = r.choice([n for n in scope.tensors if n.startswith("self.b")])
            self._run(program.statements, scope, f"{name} = {source}.clone()", (name,))
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.block(program.statements, scope, r.randint(6, 16))
            while self.calls:
                self._control(program.statements, scope)
                self.block(program.statements, scope, r.randint(1, 3))
        self._outputs(scope)
        return program

    def _member(
        self, scope: Scope, module: Any, name: str, shape: Sequence[int], dtype: torch.dtype, *, frozen: bool
    ) -> None:
        tensor = torch.empty(shape, dtype=dtype, device="meta")
        setattr(module, name, tensor)
        scope.tensors[f"self.{name}"] = tensor
        if frozen:
            scope.frozen.add(storage_of(tensor))

    def _outputs(self, scope: Scope) -> None:
        r, outputs = self.r, self.program.outputs
        names = list(scope.tensors)
        recent = [n for n in scope.own if n.startswith("v")][-8:]
        outputs += r.sample(recent, min(len(recent), r.randint(1, 4)))
        outputs += r.sample(names, min(len(names), r.randint(0, 3)))
        if r.random() < 0.3:
            outputs.append(r.choice(outputs or names))
        if r.random() < 0.2:
            outputs.append(f"({r.choice(names)}, {{'k': {r.choice(names)}}})")
        if r.random() < 0.2:
            outputs.append(r.choice(["torch.tensor([1, 2, 3])", "torch.ones(2)", "3", "None", "0.5", "True"]))
        for name in self.program.buffers:
            outputs += r.choice([[], [f"self.{name}"], [f"self.{name}.clone()"]])
        outputs += [n for n in self.program.inputs if n.startswith("x") and r.random() < 0.15]
        r.shuffle(outputs)
        if not outputs:
            outputs.append(names[-1])

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, statements: list[Statement], scope: Scope, length: int) -> None:
        """Add ``length`` random statements."""
        for _ in range(length):
            draw = self.r.random()
            if self.calls and scope.depth < DEPTH and draw < (0.15 if scope.depth == 0 else 0.3):
                self._control(statements, scope)
            elif draw < 0.45:
                self._mutation(statements, scope)
            elif draw < 0.7:
                self._value(statements, scope, view)
            else:
                self._value(statements, scope, pure)

    def _run(self, statements: list[Statement], scope: Scope, text: str, defines: tuple[str, ...] = ()) -> bool:
        """Execute a line on meta tensors and keep it; False when torch refuses it."""
        try:
            exec(text, scope.env)
        except _NOT_FOR_META:
            return False
        for name in defines:
            value = scope.env[name]
            if not isinstance(value, torch.Tensor) or value.numel() > LARGEST or value.dim() > 4 or not value.numel():
                del scope.env[name]
                return False
        for name in defines:
            scope.add(name, scope.env[name])
        statements.append(Statement(text, defines))
        return True

    def _pick(self, scope: Scope, fits: Callable[[torch.Tensor], bool] = lambda _: True) -> str | None:
        names = [n for n, t in scope.tensors.items() if fits(t)]
        if not names:
            return None
        return self.r.choice(names[-6:] if self.r.random() < 0.6 else names)

    def _operand(self, scope: Scope, target: torch.Tensor, *, changed: bool) -> str:
        """A tensor or number of the kind of ``target`` that broadcasts to it, and is no part of what changes."""
        kind = kind_of(target)
        fitting = [
            n for n, t in scope.tensors.items() if kind_of(t) == kind and _broadcasts(t.shape, target.shape)
            and (kind != "half" or t.dtype == target.dtype)
        ]  # fmt: skip
        if scope.numbers and kind in ("float", "int") and self.r.random() < 0.2:
            return scope.numbers[0] if kind == "float" else f"int({scope.numbers[0]})"
        name = self.r.choice(fitting[-5:] if self.r.random() < 0.5 else fitting)
        tensor = scope.tensors[name]
        if changed and storage_of(tensor) == storage_of(target) and not _same_place(tensor, target):
            return f"{name}.clone()"
        return name

    def _value(self, statements: list[Statement], scope: Scope, write: Callable[..., str]) -> None:
        for _ in range(20):
            source = self._pick(scope)
            assert source is not None
            tensor = scope.tensors[source]
            text = write(self.r, source, tensor, lambda t=tensor: self._operand(scope, t, changed=False))
            name = self.name()
            if self._run(statements, scope, f"{name} = {text}", (name,)):
                shared = storage_of(tensor) == storage_of(scope.tensors[name])
                if shared and (has_overlap(tensor) or id(tensor) in scope.parts):
                    scope.parts.add(id(scope.tensors[name]))
                return

    def _mutation(self, statements: list[Statement], scope: Scope) -> None:
        for _ in range(20):
            target = self._pick(scope, scope.may_change)
            if target is None:
                return
            tensor = scope.tensors[target]
            fresh = target.startswith("v") and target in scope.own
            if fresh and self.r.random() < 0.05 and not _shared(scope, target):
                text = resizing(self.r, target, tensor)
            else:
                text = mutation(self.r, target, tensor, lambda t=tensor: self._operand(scope, t, changed=True))
            if scope.depth and _AUGMENTED.match(text):
                continue
            stored = _STORED.match(text)
            if stored and stored[1] in scope.tensors and storage_of(scope.tensors[stored[1]]) == storage_of(tensor):
                continue
            if self._run(statements, scope, text):
                return

    # --- control flow -----------------------------------------------------------------------------------------------

    def _control(self, statements: list[Statement], scope: Scope) -> None:
        self.calls -= 1
        kinds = [self._cond, self._cond, self._while, self._while, self._map, self._scan]
        for _ in range(4):
            if self.r.choice(kinds)(statements, scope):
                return

    def _operands(self, scope: Scope, bodies: Sequence[Body], names: Sequence[str]) -> list[str] | None:
        """Operands for loops, which torch refuses when two of all the tensors that one sees share storage.

        None when the functions themselves see two such tensors.
        """
        seen: set[int] = set()
        for name in dict.fromkeys(n for body in bodies for n in body.uses() if n in scope.tensors):
            key = storage_of(scope.tensors[name])
            if key in seen:
                return None
            seen.add(key)
        found: list[str] = []
        for name in names:
            tensor = scope.tensors[name]
            key = storage_of(tensor)
            copied = key in seen or not _is_plain(tensor) or self.r.random() < 0.2
            found.append(f"{name}.clone(memory_format=torch.contiguous_format)" if copied else name)
            seen.add(key)
        return found

    def _finish(
        self, statements: list[Statement], scope: Scope, call: str, bodies: tuple[Body, ...],
        results: Sequence[torch.Tensor], before: Sequence[str] = (),
    ) -> None:  # fmt: skip
        names = tuple(self.name() for _ in results)
        left = ", ".join([*before, *names]) + ("," if len(names) + len(before) == 1 else "")
        statements.append(Statement(f"{left} = {call}", names, bodies))
        for name, like in zip(names, results, strict=True):
            scope.add(name, torch.empty(like.shape, dtype=like.dtype, device="meta"))
        scope.calls.append(names[0])

    def _results(self, scope: Scope, outside: Sequence[str], likes: Sequence[torch.Tensor | None]) -> list[str]:
        """The results of a function: of the shapes and dtypes of ``likes``; they alias nothing.

        They use all control flow inside: torch drops what has no used result, with the changes that it makes.
        """
        used: set[int] = set()
        given = [self._result(scope, outside, like, used) for like in likes]
        for name in scope.calls:
            given[0] = f"torch.where({name}.sum() == 77, {given[0]}, {given[0]})"
        return given

    def _result(self, scope: Scope, outside: Sequence[str], like: torch.Tensor | None, used: set[int]) -> str:
        names = [
            n for n, t in scope.tensors.items() if like is None or (t.shape == like.shape and t.dtype == like.dtype)
        ]
        inside = [n for n in names if n not in outside]
        if names and (like is None or self.r.random() < 0.9):
            name = self.r.choice(inside[-5:] or names)
            tensor = scope.tensors[name]
            key = storage_of(tensor)
            foreign = any(storage_of(scope.tensors[n]) == key for n in outside)
            if not foreign and key not in used and _is_plain(tensor) and self.r.random() < 0.8:
                used.add(key)
                return name
            return f"{name}.clone(memory_format=torch.contiguous_format)"
        assert like is not None
        fill = {"float": "0.25", "half": "0.5", "int": "2", "bool": "True"}[kind_of(like)]
        base = self._pick(scope, lambda t: kind_of(t) == "float")
        if base is not None and kind_of(like) == "float" and self.r.random() < 0.7:
            return f"({base}.mean().tanh().to({like.dtype}) + torch.zeros({tuple(like.shape)}, dtype={like.dtype}))"
        return f"torch.full({tuple(like.shape)}, {fill}, dtype={like.dtype})"

    def _meta(self, scope: Scope, text: str) -> torch.Tensor:
        value = eval(text, scope.env)
        assert isinstance(value, torch.Tensor)
        return value

    def _cond(self, statements: list[Statement], scope: Scope) -> bool:
        r = self.r
        source = self._pick(scope)
        assert source is not None
        test = predicate(r, source, scope.tensors[source])
        operands = r.sample(list(scope.tensors), min(len(scope.tensors), r.randint(0, 3)))
        count = r.randint(1, 3)
        bodies: list[Body] = []
        results: list[torch.Tensor] = []
        for _ in range(2):
            inner = scope.inner(closed=False)
            outside = list(inner.tensors)
            parameters = tuple(self.name("p") for _ in operands)
            for parameter, operand in zip(parameters, operands, strict=True):
                inner.env[parameter] = inner.tensors[parameter] = scope.tensors[operand]
                outside.append(parameter)
            own: list[Statement] = []
            self.block(own, inner, r.randint(1, 4))
            given = self._results(inner, outside, results or [None] * count)
            if not bodies:
                results = [self._meta(inner, text) for text in given]
            bodies.append(Body(self.name("f"), parameters, own, f"({', '.join(given)},)"))
        call = f"cond({test}, {bodies[0].name}, {bodies[1].name}, ({''.join(o + ', ' for o in operands)}))"
        self._finish(statements, scope, call, tuple(bodies), results)
        return True

    def _carried(self, scope: Scope, count: int) -> list[str]:
        names = [n for n in scope.tensors]
        return r_sample(self.r, names, count)

    def _parameters(self, inner: Scope, prefix: str, likes: Sequence[torch.Tensor]) -> tuple[str, ...]:
        """Names of a function's parameters, which it may not change."""
        names = tuple(self.name(prefix) for _ in likes)
        for name, like in zip(names, likes, strict=True):
            tensor = torch.empty(like.shape, dtype=like.dtype, device="meta")
            inner.env[name] = inner.tensors[name] = tensor
            inner.frozen.add(storage_of(tensor))
        return names

    def _while(self, statements: list[Statement], scope: Scope) -> bool:
        r = self.r
        carried = self._carried(scope, r.randint(1, 2))
        likes = [scope.tensors[n] for n in carried]
        limit, number = r.randint(0, 4), r.random() < 0.2
        condition = scope.inner(closed=True)
        names = self._parameters(condition, "c", likes)
        test = f"k < {limit}"
        floats = [n for n, t in zip(names, likes, strict=True) if kind_of(t) == "float"]
        if floats and not number and r.random() < 0.4:
            test = f"torch.logical_and(k < {limit}, {floats[0]}.mean() < {r.choice([0.137, 1.31])})"
        inner = scope.inner(closed=False)
        outside = list(inner.tensors)
        parameters = self._parameters(inner, "c", likes)
        outside += parameters
        own: list[Statement] = []
        self.block(own, inner, r.randint(1, 4))
        given = self._results(inner, outside, likes)
        bodies = (
            Body(self.name("f"), ("k", *names), [], test),
            Body(self.name("f"), ("k", *parameters), own, f"({', '.join(['k + 1', *given])})"),
        )
        inits = self._operands(scope, bodies, carried)
        if inits is None:
            return False
        start = "0" if number else "torch.tensor(0)"
        call = f"while_loop({bodies[0].name}, {bodies[1].name}, ({', '.join([start, *inits])}))"
        self._finish(statements, scope, call, bodies, likes, before=("_",))
        return True

    def _rows(self, scope: Scope, count: int) -> list[str]:
        """Tensors of one length along their first dim."""
        names = [n for n, t in scope.tensors.items() if t.dim() and t.shape[0]]
        if not names:
            return []
        first = self.r.choice(names)
        fitting = [n for n in names if scope.tensors[n].shape[0] == scope.tensors[first].shape[0] and n != first]
        return [first, *r_sample(self.r, fitting, count - 1)]

    def _map(self, statements: list[Statement], scope: Scope) -> bool:
        r = self.r
        rows = self._rows(scope, r.randint(1, 2))
        if not rows:
            return False
        extra = r_sample(r, list(scope.tensors), r.randint(0, 2))
        inner = scope.inner(closed=True)
        outside = list(inner.tensors)
        parameters = self._parameters(inner, "p", [scope.tensors[n][0] for n in rows])
        others = self._parameters(inner, "p", [scope.tensors[n] for n in extra])
        outside += [*parameters, *others]
        own: list[Statement] = []
        self.block(own, inner, r.randint(1, 4))
        given = self._results(inner, outside, [None] * r.randint(1, 2))
        size = scope.tensors[rows[0]].shape[0]
        results = [self._meta(inner, text).expand([size, *self._meta(inner, text).shape]) for text in given]
        if any(t.numel() > LARGEST for t in results):
            return False
        packed = ", ".join(parameters)
        if len(rows) > 1:
            own.insert(0, Statement(f"{packed} = row", parameters))
        body = Body(self.name("f"), (packed if len(rows) == 1 else "row", *others), own, f"({', '.join(given)},)")
        operands = self._operands(scope, (body,), [*rows, *extra])
        if operands is None:
            return False
        xs = operands[0] if len(rows) == 1 else f"({', '.join(operands[: len(rows)])})"
        call = f"map_over({', '.join([body.name, xs, *operands[len(rows) :]])})"
        self._finish(statements, scope, call, (body,), results)
        return True

    def _scan(self, statements: list[Statement], scope: Scope) -> bool:
        r = self.r
        rows = self._rows(scope, 1)
        if not rows:
            return False
        carried = self._carried(scope, r.randint(1, 2))
        likes = [scope.tensors[n] for n in carried]
        inner = scope.inner(closed=True)
        outside = list(inner.tensors)
        parameters = self._parameters(inner, "c", likes)
        (row,) = self._parameters(inner, "p", [scope.tensors[rows[0]][0]])
        outside += [*parameters, row]
        own: list[Statement] = []
        self.block(own, inner, r.randint(1, 4))
        *carries, given = self._results(inner, outside, [*likes, None])
        size = scope.tensors[rows[0]].shape[0]
        stacked = self._meta(inner, given).expand([size, *self._meta(inner, given).shape])
        if stacked.numel() > LARGEST:
            return False
        single = len(carried) == 1
        if not single:
            own.insert(0, Statement(f"{', '.join(parameters)} = carry", parameters))
        results = f"{carries[0] if single else '(' + ', '.join(carries) + ')'}, {given}"
        body = Body(self.name("f"), (parameters[0] if single else "carry", row), own, results)
        operands = self._operands(scope, (body,), [*carried, *rows])
        if operands is None:
            return False
        *inits, xs = operands
        init = inits[0] if single else f"({', '.join(inits)})"
        reverse = r.choice(["", "", ", reverse=True"])
        names = tuple(self.name() for _ in carried)
        last = self.name()
        left = names[0] if single else f"({', '.join(names)})"
        text = f"{left}, {last} = scan({body.name}, {init}, {xs}{reverse})"
        statements.append(Statement(text, (*names, last), (body,)))
        for name, like in zip((*names, last), [*likes, stacked], strict=True):
            scope.add(name, torch.empty(like.shape, dtype=like.dtype, device="meta"))
        scope.calls.append(last)
        return True


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the strides are exactly those of a new tensor: torch compares those of dims of size 1 too."""
    return tensor.stride() == torch.empty(tensor.shape, device="meta").stride()


def r_sample(r: random.Random, names: Sequence[str], count: int) -> list[str]:
    """At most ``count`` different ones of ``names``."""
    return r.sample(list(names), min(len(names), count))


def _broadcasts(shape: Sequence[int], target: Sequence[int]) -> bool:
    with contextlib.suppress(RuntimeError):
        return torch.broadcast_shapes(shape, target) == torch.Size(target)
    return False


def _shared(scope: Scope, name: str) -> bool:
    key = storage_of(scope.tensors[name])
    return any(n != name and storage_of(t) == key for n, t in scope.tensors.items())


def programs(first: int, count: int) -> Iterator[Program]:
    """The programs of the numbers from ``first``."""
    for seed in range(first, first + count):
        yield Writer(seed).write()
