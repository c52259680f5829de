"""Programs with random requirements on their inputs, and calls that break some of them.

The dims of one to three inputs are fixed, named, derived (``2 * d + 1``), shared or left to torch, and the program asks
for remainders, orders, sums and products of them, as Python that export turns into guards. Some programs have a number
among their inputs. What a call may be is torch's word: ``program.module()`` raises for one that it does not take.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sympy
import torch
from torch.export import Dim, ExportedProgram

Call: TypeAlias = tuple[Any, ...]
Question: TypeAlias = tuple[Any, ...]

_FORMS = ((1, 1), (2, 0), (2, 1), (3, 0), (1, 2), (1, -1), (2, -1))
"""Factor and offset of derived dims."""


class Questions(torch.nn.Module):
    """A program whose operators depend on the answers to ``questions`` about sizes."""

    def __init__(self, tensors: int, questions: Sequence[Question]):
        super().__init__()
        self.tensors = tensors
        self.questions = questions

    def forward(self, *args: Any) -> Any:
        given, numbers = args[: self.tensors], args[self.tensors :]
        outputs = [t * 2 for t in given]
        for kind, t, i, *rest in self.questions:
            answer = _ANSWERS[kind](given, numbers, t, i, *rest)
            if answer is not None:
                outputs.append(answer)
        return tuple(outputs)


def _chosen(tensor: torch.Tensor, answer: Any) -> torch.Tensor:
    return tensor + 1 if answer else tensor - 1


def _divided(given: Call, _: Call, t: int, i: int, k: int) -> torch.Tensor:
    return _chosen(given[t], given[t].shape[i] % k == 0)


def _viewed(given: Call, _: Call, t: int, i: int, k: int) -> torch.Tensor | None:
    x = given[t]
    return x.movedim(i, 0).reshape(k, -1).sum(1) if x.shape[i] % k == 0 else None


def _compared(given: Call, _: Call, t: int, i: int, u: int, j: int) -> torch.Tensor:
    return _chosen(given[t], given[t].shape[i] < given[u].shape[j])


def _large(given: Call, _: Call, t: int, i: int, k: int) -> torch.Tensor:
    return _chosen(given[t], given[t].shape[i] > k)


def _multiple(given: Call, _: Call, t: int, i: int, u: int, j: int) -> torch.Tensor:
    return _chosen(given[t], given[t].shape[i] == 2 * given[u].shape[j])


def _added(given: Call, _: Call, t: int, i: int, u: int, j: int) -> torch.Tensor:
    return _chosen(given[t], given[t].shape[i] + given[u].shape[j] > 9)


def _multiplied(given: Call, _: Call, t: int, i: int, u: int, j: int) -> torch.Tensor:
    return _chosen(given[t], given[t].shape[i] * given[u].shape[j] > 20)


def _checked(given: Call, _: Call, t: int, i: int, u: int, j: int) -> torch.Tensor | None:
    x, size = given[t], given[u].shape[j]
    if x.shape[i] < size:
        return None
    torch._check(x.shape[i] >= size)
    return x.narrow(i, 0, size) + 3


def _number_compared(given: Call, numbers: Call, t: int, i: int) -> torch.Tensor | None:
    return _chosen(given[0], numbers[0] < given[t].shape[i]) if numbers else None


def _number_taken(given: Call, numbers: Call, t: int, i: int) -> torch.Tensor | None:
    if not numbers:
        return None
    torch._check(numbers[0] <= given[t].shape[i])
    return given[t].narrow(i, 0, numbers[0]) * 3


def _number_ranged(given: Call, numbers: Call, t: int, i: int) -> torch.Tensor | None:
    if not numbers:
        return None
    torch._check(numbers[0] >= 1)
    torch._check(numbers[0] <= 7)
    return given[0] * numbers[0]


_ANSWERS: dict[str, Callable[..., torch.Tensor | None]] = {
    "divided": _divided,
    "viewed": _viewed,
    "compared": _compared,
    "large": _large,
    "multiple": _multiple,
    "added": _added,
    "multiplied": _multiplied,
    "checked": _checked,
    "number compared": _number_compared,
    "number taken": _number_taken,
    "number ranged": _number_ranged,
}


def random_program(source: random.Random) -> tuple[torch.nn.Module, Call, list[Any]]:
    """A module, the inputs to export it with, and its dynamic shapes."""
    kind = source.choice(("named", "auto", "mixed"))
    dims: dict[str, tuple[Any, int, int]] = {}
    for name in "abc":
        low, high = source.choice((0, 1, 2, 3, 4)), source.choice((6, 8, 12))
        dims[name] = Dim(name, min=low, max=high), low, source.randint(max(low, 3), high)
    shapes: list[list[int]] = []
    dynamic: list[Any] = []
    for _ in range(source.randint(1, 3)):
        shape: list[int] = []
        spec: dict[int, Any] = {}
        for i in range(source.randint(1, 3)):
            size, given = _random_dim(source, kind, dims[source.choice("abc")])
            shape.append(size)
            if given is not None:
                spec[i] = given
        shapes.append(shape)
        dynamic.append(spec or None)
    tensors = len(shapes)
    numbers: list[int] = []
    if source.random() < 0.35:
        numbers.append(source.randint(3, 6))
        dynamic.append(source.choice((Dim.DYNAMIC, Dim.AUTO, Dim("n", min=source.choice((0, 2, 3)), max=9), None)))
    questions = [_random_question(source, shapes) for _ in range(source.randint(0, 3 if kind != "named" else 1))]
    inputs = (*(torch.randn(shape) for shape in shapes), *numbers)
    return Questions(tensors, questions), inputs, dynamic


def _random_dim(source: random.Random, kind: str, named: tuple[Any, int, int]) -> tuple[int, Any]:
    dim, low, size = named
    chance = source.random()
    if chance < 0.25:
        return source.randint(2, 5), None
    if kind == "auto":
        return size, Dim.AUTO(max=30)
    factor, offset = source.choice(_FORMS)
    if chance < 0.55 or size * factor + offset < 2 or low * factor + offset < 0:
        return size, dim
    return size * factor + offset, factor * dim + offset


def _random_question(source: random.Random, shapes: Sequence[Sequence[int]]) -> Question:
    (t, i), (u, j) = ((n, source.randrange(len(shapes[n]))) for n in source.choices(range(len(shapes)), k=2))
    kind = source.choice(list(_ANSWERS))
    if kind in ("divided", "viewed", "large"):
        return kind, t, i, source.choice((2, 3, 4))
    return (kind, t, i) if kind.startswith("number") else (kind, t, i, u, j)


def random_call(source: random.Random, inputs: Call) -> Call:
    """Inputs of which some, or all that have a size, have another one."""
    sizes = sorted({size for value in inputs if isinstance(value, torch.Tensor) for size in value.shape})
    together = source.choice(sizes) if source.random() < 0.3 else None
    by = source.choice((-3, -2, -1, 1, 2, 3, 5, 9))
    only = source.randrange(len(inputs)) if source.random() < 0.7 else None
    call: list[Any] = []
    for index, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            changes = index in (only, None) and source.random() < 0.5
            call.append(value + source.choice((-4, -2, -1, 1, 2, 5)) * changes)
            continue
        shape = list(value.shape)
        for i, size in enumerate(shape):
            if together is not None:
                shape[i] += by * (size == together)
            elif only in (index, None) and source.random() < 0.5:
                shape[i] += source.choice((-3, -2, -1, 1, 2, 3, 6))
        call.append(torch.randn([max(size, 0) for size in shape]))
    return tuple(call)


def is_taken(program: ExportedProgram, module: torch.nn.Module, call: Call) -> bool:
    """Whether torch takes a call. Torch does not look whether all dims agree on a symbol that only derived dims have,
    ``2 * d`` and ``3 * d``: such calls count as refused."""
    try:
        module(*call)
    except Exception:  # Guards raise several types.
        return False
    equations: list[Any] = []
    for node, value in zip((n for n in program.graph.nodes if n.op == "placeholder"), call, strict=True):
        meta = node.meta["val"]
        sizes = zip(meta.shape, value.shape, strict=True) if isinstance(value, torch.Tensor) else [(meta, value)]
        equations += [size.node.expr - number for size, number in sizes if isinstance(size, torch.SymInt)]
    plain = {s: sympy.Symbol(f"q_{s}") for equation in equations for s in equation.free_symbols}
    if not plain:
        return True
    solutions = sympy.solve([equation.subs(plain) for equation in equations], dict=True)
    return bool(solutions) and all(number.is_Integer for number in solutions[0].values())
