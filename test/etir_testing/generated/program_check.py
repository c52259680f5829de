"""One generated program on both runtimes against eager, over several calls in a row so that its state shows.

Eager is the same source with control flow as plain Python: ``if``, ``while`` and ``for``. What is exported has torch's
own operators in these places. Outputs, inputs as they are after the call, and the next calls' view of the buffers have
to agree.
"""

from __future__ import annotations

import functools
import linecache
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.extension.pybindings import portable_lib
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop
from torch.utils import _pytree as pytree

import etir
from etir.diagnostics import EtirError
from etir.runtime import RuntimeFailure

from etir_testing.generated.program_text import Program

CALLS = 4
"""Calls of one loaded method."""
TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative to the largest magnitude of the tensor; 1e-4 for what is not listed, none for integers and bools."""


def make(shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Values of a tensor: small ones, the same for the same number."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(tuple(shape), generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 6, tuple(shape), generator=generator).to(dtype)


# --- control flow in plain Python -----------------------------------------------------------------------------------


def _cond(test: Any, then: Callable[..., Any], otherwise: Callable[..., Any], operands: Sequence[Any]) -> Any:
    return then(*operands) if bool(test) else otherwise(*operands)


def _while_loop(condition: Callable[..., Any], body: Callable[..., Any], carried: Sequence[Any]) -> Any:
    values = pytree.tree_map_only(torch.Tensor, torch.clone, tuple(carried))
    while bool(condition(*values)):
        values = body(*values)
    return values


def _stack(rows: Sequence[Any]) -> Any:
    return pytree.tree_map(lambda *values: torch.stack(values), *rows)


def _map_over(function: Callable[..., Any], xs: Any, *extra: Any) -> Any:
    length = pytree.tree_leaves(xs)[0].shape[0]
    return _stack([function(pytree.tree_map(lambda t, i=i: t[i], xs), *extra) for i in range(length)])


def _scan(function: Callable[..., Any], carry: Any, xs: Any, reverse: bool = False) -> Any:
    length = pytree.tree_leaves(xs)[0].shape[0]
    rows: list[Any] = []
    for i in reversed(range(length)) if reverse else range(length):
        carry, row = function(carry, pytree.tree_map(lambda t, i=i: t[i], xs))
        rows.append(row)
    return carry, _stack(rows[::-1] if reverse else rows)


EAGER = {"cond": _cond, "while_loop": _while_loop, "map_over": _map_over, "scan": _scan}
TORCH = {"cond": torch.cond, "while_loop": torch_while_loop, "map_over": torch_map, "scan": torch_scan}
HEADER = """\
import torch
from torch import cond
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop


def make(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(tuple(shape), generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 6, tuple(shape), generator=generator).to(dtype)


"""
"""What precedes a program that is printed, so that it runs on its own."""


def build(program: Program, control: dict[str, Any]) -> tuple[torch.nn.Module, Callable[[int], tuple[Any, ...]]]:
    """The module, and its inputs by call. The source has a name, so that tracebacks and locations show it."""
    source = program.source()
    name = f"generated_{program.seed}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    # torch.export looks modules up by name.
    module = types.ModuleType("generated_program")
    sys.modules[module.__name__] = module
    space = module.__dict__
    space.update(torch=torch, make=make, **control)
    exec(compile(source, name, "exec"), space)
    return space["Generated"]().eval(), space["inputs"]


# --- running --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a program: ``ok``, or the stage that said no and why."""

    seed: int
    stage: str
    message: str = ""


Inputs = Callable[[int], tuple[Any, ...]]
Call = tuple[list[Any], list[Any]]
"""Flat outputs, and the flat inputs afterwards."""


def _leaves(value: Any) -> list[Any]:
    return pytree.tree_leaves(value, is_leaf=lambda v: v is None)


def _plain(values: Sequence[Any]) -> list[Any]:
    return [torch.as_tensor(v).detach().clone() if isinstance(v, torch.Tensor) else v for v in values]


def _calls(call: Callable[[list[Any]], Any], inputs: Inputs) -> list[Call]:
    found: list[Call] = []
    for step in range(CALLS):
        given = list(inputs(step))
        outputs = _plain(_leaves(call(given)))
        found.append((outputs, _plain(given)))
    return found


def difference(got: Sequence[Call], expected: Sequence[Call]) -> str | None:
    """The first disagreement in words, or None."""
    for step, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        for what, xs, ys in (("output", ours[0], theirs[0]), ("input", ours[1], theirs[1])):
            if len(xs) != len(ys):
                return f"call {step}: {len(xs)} {what}s for {len(ys)}"
            for index, (x, y) in enumerate(zip(xs, ys, strict=True)):
                why = _value_difference(x, y)
                if why is not None:
                    return f"call {step}, {what} {index}: {why}"
    return None


def _value_difference(got: Any, expected: Any) -> str | None:
    if not isinstance(expected, torch.Tensor):
        return None if type(got) is type(expected) and got == expected else f"{got!r} for {expected!r}"
    if not isinstance(got, torch.Tensor) or got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got!r} for {expected!r}"
    if not expected.dtype.is_floating_point:
        return None if torch.equal(got, expected) else f"{got} for {expected}"
    finite = expected[expected.isfinite()]
    size = 1.0 if finite.numel() == 0 else max(1.0, float(finite.abs().max()))
    tolerance = TOLERANCES.get(expected.dtype, 1e-4) * size
    if torch.allclose(got.double(), expected.double(), rtol=0, atol=tolerance, equal_nan=True):
        return None
    return f"{got} for {expected}"


def _etir_run(data: bytes, inputs: Inputs) -> list[Call]:
    method = etir.runtime.load(data).forward
    return _calls(lambda given: list(method(*given)), inputs)


def _stock_run(data: bytes, inputs: Inputs) -> list[Call]:
    loaded = portable_lib._load_for_executorch_from_buffer(data)
    return _calls(lambda given: loaded.run_method("forward", tuple(given)), inputs)


RUNTIMES = {"etir": _etir_run, "executorch": _stock_run}


def check(program: Program, runtimes: Sequence[str] = ("etir", "executorch")) -> Outcome:
    """Export, compile and run a program."""
    failed = functools.partial(Outcome, program.seed)
    module, inputs = build(program, EAGER)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = _calls(lambda given: module(*given), inputs)
        except Exception as error:
            return failed("eager", f"{type(error).__name__}: {error}")
        torch._dynamo.reset()
        try:
            exported = torch.export.export(build(program, TORCH)[0], inputs(0), strict=program.strict)
        except Exception as error:
            return failed("export", f"{type(error).__name__}: {error}")
    for target in runtimes:
        try:
            data = etir.compile(exported, target=target).buffer
        except EtirError as error:
            return failed(f"compile for {target}", str(error))
        except Exception as error:
            return failed(f"traceback for {target}", f"{type(error).__name__}: {error}")
        try:
            got = RUNTIMES[target](data, inputs)
        except (RuntimeFailure, RuntimeError) as error:
            return failed(f"run on {target}", str(error))
        why = difference(got, expected)
        if why is not None:
            stage = f"wrong on {target}" if _is_faithful(exported, inputs, expected) else "export"
            return failed(stage, why)
    return failed("ok")


def _is_faithful(exported: torch.export.ExportedProgram, inputs: Inputs, expected: Sequence[Call]) -> bool:
    """Whether torch's own run of the exported program gives what eager gives."""
    module = exported.module()
    with torch.no_grad():
        try:
            return difference(_calls(lambda given: module(*given), inputs), expected) is None
        except Exception:
            return True
