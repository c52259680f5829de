"""Operators whose results share memory with an argument, found by running torch's whole table in eager.

A schema says which results are views; it is silent where an operator *may* return its argument (``to_dense`` of a dense
tensor, ``cartesian_prod`` of one). So each operator's call in ``operators.json`` is run, and calls near to it, where an
operator may have nothing to do: lists cut to one tensor, flags turned, numbers 0 and 1, tensors of one element, sizes
and dtypes that the tensor has already. What shares memory then does so for a compiler, too.

Some calls end the process in torch's kernels, or take forever, so each operator has a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from etir_testing.operators.arguments import NOT_TAKEN
from etir_testing.operators.calls import NotKept, OperatorCall, decoded, encoded, overload_of
from etir_testing.operators.table import rows

FOUND = Path(__file__).with_name("shared_results.json")
"""The calls that were found, one a line; a call whose results torch's schema does not declare has ``hidden``."""


MOST_SECONDS = 5
"""What an operator may take of the processor, and may wait twenty times."""


@dataclass(frozen=True)
class Shared:
    """A call of an operator, the tensor of its arguments that a result shares memory with, and that result."""

    name: str
    call: OperatorCall
    argument: int
    result: int
    hidden: bool

    @property
    def label(self) -> str:
        return f"{self.name}{self.call.text}"

    def start(self) -> torch.Tensor:
        """The argument."""
        return self._leaves()[0][self.argument]

    def change(self, function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], None]:
        """What makes the call with another tensor in the place of the argument, and changes the result with
        ``function``.
        """
        leaves, structure = self._leaves()

        def changed(x: torch.Tensor) -> None:
            args, kwargs = pytree.tree_unflatten([*leaves[: self.argument], x, *leaves[self.argument + 1 :]], structure)
            function(pytree.tree_leaves(overload_of(self.name)(*args, **kwargs))[self.result])

        return changed

    def _leaves(self) -> tuple[list[Any], Any]:
        return pytree.tree_flatten(_arguments(self.name, self.call))


def _arguments(name: str, call: OperatorCall) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, with the CPU where there has to be a device: calls as text have none."""
    args, kwargs = decoded(name, call)
    places = zip(overload_of(name)._schema.arguments, args, strict=False)
    return [torch.device("cpu") if str(a.type) == "Device" and v is None else v for a, v in places], kwargs


def shared() -> list[Shared]:
    """The calls of ``shared_results.json``."""
    return [
        Shared(row["name"], OperatorCall(tuple(row["args"]), row.get("kwargs", {})), row["argument"], row["result"],
               row.get("hidden", False))
        for row in json.loads(FOUND.read_text(encoding="utf-8"))
    ]  # fmt: skip


def write(found: list[Shared]) -> None:
    """Write ``shared_results.json``."""
    lines: list[str] = []
    for one in found:
        row: dict[str, Any] = {"name": one.name, "args": list(one.call.args)}
        if one.call.kwargs:
            row["kwargs"] = dict(one.call.kwargs)
        row |= {"argument": one.argument, "result": one.result}
        if one.hidden:
            row["hidden"] = True
        lines.append(f"  {json.dumps(row)}")
    FOUND.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


# --- finding them -----------------------------------------------------------------------------------------------------


def near(name: str, call: OperatorCall) -> Iterator[OperatorCall]:
    """A call, and those near to it in which the operator may have nothing to do."""
    yield call
    args, kwargs = _arguments(name, call)
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    sizes = list(tensors[0].shape) if tensors else []
    dtype = tensors[0].dtype if tensors else torch.float32
    for shape in ((1,) * len(sizes), (1,), ()):
        yield from _kept(*pytree.tree_map_only(torch.Tensor, lambda t, s=shape: t.new_ones(s), (args, kwargs)))
    schema = overload_of(name)._schema
    flags = [a for a in schema.arguments if str(a.type) == "bool"]
    places: list[tuple[Any, Any]] = [*enumerate(args), *kwargs.items()]
    for place, value in places:
        others: list[Any] = []
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            others = [value[:1], [value[0].flatten()[:1]], [value[0].flatten()]]
        elif isinstance(value, bool):
            others = [not value]
        elif isinstance(value, float):
            others = [0.0, 1.0]
        elif isinstance(value, int):
            others = [0, 1]
        elif isinstance(value, (list, tuple)):
            others = [sizes, [1] * len(value), [0] * len(value), list(range(len(sizes)))]
        elif isinstance(value, torch.dtype):
            others = [dtype]
        for other in others:
            if isinstance(place, int):
                yield from _kept([*args[:place], other, *args[place + 1 :]], kwargs)
            else:
                yield from _kept(args, {**kwargs, place: other})
    for flag in flags:
        if flag.kwarg_only and flag.name not in kwargs:
            yield from _kept(args, {**kwargs, flag.name: True})


def _kept(args: Any, kwargs: Any) -> Iterator[OperatorCall]:
    try:
        yield encoded(args, kwargs)
    except NotKept:
        return


def found_in(name: str, call: OperatorCall) -> Iterator[Shared]:
    """One call with a shared result for each argument and result of an operator that share; none for a copy."""
    seen: set[tuple[int, int]] = set()
    for one in near(name, call):
        args, kwargs = _arguments(name, one)
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = pytree.tree_leaves(overload_of(name)(*args, **kwargs))
        except NOT_TAKEN:
            continue
        for argument, given in enumerate(pytree.tree_leaves((args, kwargs))):
            for result, got in enumerate(results):
                if _shares(given, got) and (argument, result) not in seen:
                    seen.add((argument, result))
                    declared = any(r.alias_info is not None for r in overload_of(name)._schema.returns)
                    yield Shared(name, one, argument, result, not declared)


def _shares(given: object, got: object) -> bool:
    """Whether a result sees elements of an argument, and may be written."""
    if not isinstance(given, torch.Tensor) or not isinstance(got, torch.Tensor):
        return False
    if given.layout != torch.strided or got.layout != torch.strided or not got.numel():
        return False
    overlapping = any(stride == 0 and size > 1 for size, stride in zip(got.shape, got.stride(), strict=True))
    return not overlapping and given.untyped_storage()._cdata == got.untyped_storage()._cdata


def find(name: str) -> list[Shared]:
    """The same in a process of its own, up to the call that ends it; none for an operator that is no program."""
    row = rows()[name]
    if row.call is None or row.reason or "._test_" in name or overload_of(name)._schema.is_mutable:
        return []
    call = row.call
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        signal.alarm(20 * MOST_SECONDS)  # for one that waits for ever
        with os.fdopen(writing, "w") as out:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            for one in found_in(name, call):
                row = [list(one.call.args), dict(one.call.kwargs), one.argument, one.result, one.hidden]
                print(json.dumps(row), file=out, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        found = [json.loads(line) for line in lines]
    os.waitpid(child, 0)
    return [Shared(name, OperatorCall(tuple(args), kwargs), *rest) for args, kwargs, *rest in found]


def find_all() -> list[Shared]:
    """What the operators of ``operators.json`` share."""
    return [one for name in rows() for one in find(name)]


if __name__ == "__main__":
    write(find_all())
