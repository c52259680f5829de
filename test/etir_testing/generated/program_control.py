"""The control flow of generated programs: ``cond``, ``while_loop``, ``map_over`` and ``scan`` with functions of random
statements, nested up to a depth, each one's result used by what follows.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence

import torch

from etir_testing.generated.program_operators import kind_of, predicate
from etir_testing.generated.program_scope import LARGEST, Scope, is_plain, new_like, storage_of
from etir_testing.generated.program_text import Body, Statement

Worlds = list[torch.Tensor]
"""A tensor at each of the program's sizes."""


class _Impossible(Exception):
    """A result of the required sizes cannot be written."""


class ControlFlow:
    """The part of a writer that adds control flow; the rest of it writes the statements inside."""

    r: random.Random
    calls: int
    """How many are still to be written."""
    special: bool
    """Whether values are special: then no sum decides anything, since its order would."""

    def name(self, prefix: str = "v") -> str:
        """A name that nothing has yet."""
        raise NotImplementedError

    def block(self, statements: list[Statement], scope: Scope, length: int) -> None:
        """Add ``length`` random statements."""
        raise NotImplementedError

    def pick(self, scope: Scope, fits: Callable[[torch.Tensor], bool] = lambda _: True) -> str | None:
        """A tensor, rather a recent one."""
        raise NotImplementedError

    def control(self, statements: list[Statement], scope: Scope) -> None:
        self.calls -= 1
        kinds = [self._cond, self._cond, self._while, self._while, self._map, self._scan]
        for _ in range(4):
            with contextlib.suppress(_Impossible):
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
            copied = key in seen or not is_plain(tensor) or self.r.random() < 0.2
            found.append(f"{name}.clone(memory_format=torch.contiguous_format)" if copied else name)
            seen.add(key)
        return found

    def _finish(
        self, statements: list[Statement], scope: Scope, call: str, bodies: tuple[Body, ...],
        results: Sequence[Worlds], before: Sequence[str] = (),
    ) -> None:  # fmt: skip
        names = tuple(self.name() for _ in results)
        left = ", ".join([*before, *names]) + ("," if len(names) + len(before) == 1 else "")
        statements.append(Statement(f"{left} = {call}", names, bodies))
        for name, like in zip(names, results, strict=True):
            scope.add(name, new_like(like))
            scope.passed[storage_of(scope.tensors[name])] = scope.tensors[name]
        scope.calls.append(names[0])

    def _results(self, scope: Scope, outside: Sequence[str], likes: Sequence[Worlds | None]) -> list[str]:
        """The results of a function: of the shapes and dtypes of ``likes``; they alias nothing.

        They use all control flow inside: torch drops what has no used result, with the changes that it makes.
        """
        used: set[int] = set()
        given = [self._result(scope, outside, like, used) for like in likes]
        for name in scope.calls:
            given[0] = f"torch.where(({name} != 0).sum() == 77, {given[0]}, {given[0]})"
        return given

    def _result(self, scope: Scope, outside: Sequence[str], like: Worlds | None, used: set[int]) -> str:
        names = [n for n in scope.tensors if like is None or _same_types(scope, n, like, dtype=True)]
        inside = [n for n in names if n not in outside]
        if names and (like is None or self.r.random() < 0.9):
            name = self.r.choice(inside[-5:] or names)
            tensor = scope.tensors[name]
            key = storage_of(tensor)
            foreign = any(storage_of(scope.tensors[n]) == key for n in outside)
            if not foreign and key not in used and is_plain(tensor) and self.r.random() < 0.8:
                used.add(key)
                return name
            return f"{name}.clone(memory_format=torch.contiguous_format)"
        assert like is not None
        shape = _shape(scope, like)
        fill = {"float": "0.25", "half": "0.5", "int": "2", "bool": "True", "complex": "0.5j"}[kind_of(like[0])]
        base = self.pick(scope, lambda t: kind_of(t) == "float" and not self.special)
        if base is not None and kind_of(like[0]) == "float" and self.r.random() < 0.7:
            return f"({base}.mean().tanh().to({like[0].dtype}) + torch.zeros({shape}, dtype={like[0].dtype}))"
        return f"torch.full({shape}, {fill}, dtype={like[0].dtype})"

    def _cond(self, statements: list[Statement], scope: Scope) -> bool:
        r = self.r
        source = self.pick(scope)
        if scope.calls and r.random() < 0.4:
            source = r.choice(scope.calls)
        assert source is not None
        test = predicate(r, source, scope.tensors[source], special=self.special)
        operands = r.sample(list(scope.tensors), min(len(scope.tensors), r.randint(0, 3)))
        count = r.randint(1, 3)
        bodies: list[Body] = []
        results: list[Worlds] = []
        for _ in range(2):
            inner = scope.inner(closed=False)
            outside = list(inner.tensors)
            parameters = tuple(self.name("p") for _ in operands)
            for parameter, operand in zip(parameters, operands, strict=True):
                for own_world, world in zip(inner.worlds, scope.worlds, strict=True):
                    own_world[parameter] = eval(operand, world)
                inner.tensors[parameter] = scope.tensors[operand]
                outside.append(parameter)
            own: list[Statement] = []
            self.block(own, inner, r.randint(1, 4))
            given = self._results(inner, outside, results or [None] * count)
            if not bodies:
                results = [inner.value(text) for text in given]
            bodies.append(Body(self.name("f"), parameters, own, f"({', '.join(given)},)"))
        call = f"cond({test}, {bodies[0].name}, {bodies[1].name}, ({''.join(o + ', ' for o in operands)}))"
        self._finish(statements, scope, call, tuple(bodies), results)
        return True

    def _carried(self, scope: Scope, count: int) -> list[str]:
        return _sample(self.r, list(scope.tensors), count)

    def _parameters(self, inner: Scope, prefix: str, likes: Sequence[Worlds]) -> tuple[str, ...]:
        """Names of a function's parameters, which it may not change."""
        names = tuple(self.name(prefix) for _ in likes)
        for name, like in zip(names, likes, strict=True):
            values = new_like(like)
            for world, value in zip(inner.worlds, values, strict=True):
                world[name] = value
            inner.tensors[name] = values[0]
            inner.frozen.add(storage_of(values[0]))
            inner.passed[storage_of(values[0])] = values[0]
        return names

    def _while(self, statements: list[Statement], scope: Scope) -> bool:
        r = self.r
        carried = self._carried(scope, r.randint(1, 2))
        likes = [scope.value(n) for n in carried]
        limit, number = r.randint(0, 4), r.random() < 0.2
        condition = scope.inner(closed=True)
        names = self._parameters(condition, "c", likes)
        test = f"k < {limit}"
        floats = [n for n, t in zip(names, likes, strict=True) if kind_of(t[0]) == "float" and t[0].numel()]
        if floats and not number and r.random() < 0.4:
            of = "amax" if self.special else "mean"
            test = f"torch.logical_and(k < {limit}, {floats[0]}.{of}() < {r.choice([0.137, 1.31])})"
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
        length = [t.shape[0] for t in scope.value(first)]
        fitting = [n for n in names if [t.shape[0] for t in scope.value(n)] == length and n != first]
        return [first, *_sample(self.r, fitting, count - 1)]

    def _map(self, statements: list[Statement], scope: Scope) -> bool:
        r = self.r
        rows = self._rows(scope, r.randint(1, 2))
        if not rows:
            return False
        extra = _sample(r, list(scope.tensors), r.randint(0, 2))
        inner = scope.inner(closed=True)
        outside = list(inner.tensors)
        parameters = self._parameters(inner, "p", [scope.value(f"{n}[0]") for n in rows])
        others = self._parameters(inner, "p", [scope.value(n) for n in extra])
        outside += [*parameters, *others]
        own: list[Statement] = []
        self.block(own, inner, r.randint(1, 4))
        given = self._results(inner, outside, [None] * r.randint(1, 2))
        results = [_stacked(scope.value(rows[0]), inner.value(text)) for text in given]
        if any(t[0].numel() > LARGEST for t in results):
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
        likes = [scope.value(n) for n in carried]
        inner = scope.inner(closed=True)
        outside = list(inner.tensors)
        parameters = self._parameters(inner, "c", likes)
        (row,) = self._parameters(inner, "p", [scope.value(f"{rows[0]}[0]")])
        outside += [*parameters, row]
        own: list[Statement] = []
        self.block(own, inner, r.randint(1, 4))
        *carries, given = self._results(inner, outside, [*likes, None])
        stacked = _stacked(scope.value(rows[0]), inner.value(given))
        if stacked[0].numel() > LARGEST:
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
            scope.add(name, new_like(like))
            scope.passed[storage_of(scope.tensors[name])] = scope.tensors[name]
        scope.calls.append(last)
        return True


def _sample(r: random.Random, names: Sequence[str], count: int) -> list[str]:
    return r.sample(list(names), min(len(names), count))


def _stacked(rows: Worlds, results: Worlds) -> Worlds:
    """What a function of each row gives for all of them."""
    return [t.expand([row.shape[0], *t.shape]) for row, t in zip(rows, results, strict=True)]


def _same_types(scope: Scope, name: str, like: Worlds, *, dtype: bool) -> bool:
    """Whether a tensor has the shape of another at every size."""
    return all(
        t.shape == u.shape and (not dtype or t.dtype == u.dtype) for t, u in zip(scope.value(name), like, strict=True)
    )


def _shape(scope: Scope, like: Worlds) -> str:
    """The source of a shape. Raises where it depends on the sizes and nothing has it."""
    if all(t.shape == like[0].shape for t in like):
        return str(tuple(like[0].shape))
    for name in scope.tensors:
        if _same_types(scope, name, like, dtype=False):
            return f"{name}.shape"
    raise _Impossible
