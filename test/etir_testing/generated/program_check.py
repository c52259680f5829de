"""One generated program on both runtimes against eager, over several calls in a row so that its state shows.

Eager is the same source with control flow as plain Python: ``if``, ``while`` and ``for``. What is exported has torch's
own operators in these places. Outputs, inputs as they are after the call, and the next calls' view of the buffers have
to agree.
"""

from __future__ import annotations

import functools
import inspect
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
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(tuple(shape), generator=generator, dtype=dtype if dtype.is_complex else None).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 6, tuple(shape), generator=generator).to(dtype)


def hostile(shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """The same with special values in half of the places: the limits of the dtype, infinities, NaN, -0.0."""
    values = make(shape, dtype, seed)
    if dtype.is_complex or dtype is torch.bool:
        return values
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        extremes = [float("inf"), -float("inf"), float("nan"), -0.0, 0.0, limits.max, limits.min, limits.tiny, 0.5, -1]
    else:
        limits = torch.iinfo(dtype)
        extremes = [limits.max, limits.min, limits.max - 1, limits.min + 1, 0, 1]
    generator = torch.Generator().manual_seed(seed)
    table = torch.tensor(extremes, dtype=dtype)
    drawn = table[torch.randint(0, len(extremes), tuple(shape), generator=generator)]
    return torch.where(torch.rand(tuple(shape), generator=generator) < 0.5, drawn, values)


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
HEADER = f"""\
from __future__ import annotations

import torch
from torch import cond
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

{inspect.getsource(make)}

{inspect.getsource(hostile)}

"""
"""What precedes a program that is printed, so that it runs on its own."""


def build(program: Program, control: dict[str, Any]) -> tuple[Any, Callable[[int], tuple[Any, ...]], Any]:
    """The module, its inputs by call, and its dynamic dims.

    The source has a name, so that tracebacks and locations show it.
    """
    source = program.source()
    name = f"generated_{program.seed}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    # torch.export looks modules up by name.
    module = types.ModuleType("generated_program")
    sys.modules[module.__name__] = module
    space = module.__dict__
    space.update(torch=torch, make=make, hostile=hostile, **control)
    exec(compile(source, name, "exec"), space)
    return space["Generated"]().eval(), space["inputs"], space.get("dynamic_shapes")


# --- running --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a program: ``ok``, or the stage that said no and why.

    ``eager`` and ``export`` are torch's own refusals. ``refused by TARGET`` is an error of a documented limit, with its
    ids in the message; ``internal error of TARGET`` any other error of a compilation. ``wrong on TARGET`` are values
    that differ from eager, ``run on TARGET`` calls that end with an error.
    """

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


class _Other(torch.nn.Module):
    """The second method of a module, as what ``torch.export`` takes."""

    def __init__(self, state: Any):
        super().__init__()
        self.state = state

    def forward(self, *args: Any) -> Any:
        return self.state.other(*args)


def _calls(methods: Sequence[Callable[[list[Any]], Any]], inputs: Inputs) -> list[Call]:
    """Calls of one method after another, and so on."""
    found: list[Call] = []
    for step in range(CALLS):
        given = list(inputs(step))
        outputs = _plain(_leaves(methods[step % len(methods)](given)))
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
    if isinstance(expected, float) and isinstance(got, float):
        got, expected = torch.tensor(got, dtype=torch.float32), torch.tensor(expected, dtype=torch.float32)
    if not isinstance(expected, torch.Tensor):
        return None if type(got) is type(expected) and got == expected else f"{got!r} for {expected!r}"
    if not isinstance(got, torch.Tensor) or got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got!r} for {expected!r}"
    if not expected.dtype.is_floating_point and not expected.dtype.is_complex:
        return None if torch.equal(got, expected) else f"{got} for {expected}"
    tolerance = TOLERANCES.get(expected.dtype, 1e-4)
    wide = torch.complex128 if expected.dtype.is_complex else torch.float64
    # Values at the limits of a dtype say nothing about what the others may differ by.
    usual = expected[expected.isfinite() & (expected.abs() < 1e4)].abs()
    size = max(1.0, float(usual.max())) if usual.numel() else 1.0
    if torch.allclose(got.to(wide), expected.to(wide), rtol=tolerance, atol=tolerance * size, equal_nan=True):
        return None
    return f"{got} for {expected}"


LIMITS = ("E0404", "E0410", "E0413", "E0416", "E0417", "E0418", "E0419", "E0603", "E0604", "E0606")
"""What documented limits say. Any other error for a program that torch exports is one of the compiler."""


NOT_OURS = ("ok", "eager", "export")
"""Stages that are no failure."""


def refusal(error: EtirError, target: str) -> str:
    """The stage of a program that a compilation refuses."""
    known = all(d.id.id in LIMITS for d in error.diagnostics)
    return f"refused by {target}" if known else f"internal error of {target}"


def _etir_run(data: bytes, names: Sequence[str], inputs: Inputs) -> list[Call]:
    loaded = etir.runtime.load(data)
    return _calls([lambda given, m=loaded[name]: list(m(*given)) for name in names], inputs)


def _stock_run(data: bytes, names: Sequence[str], inputs: Inputs) -> list[Call]:
    loaded = portable_lib._load_for_executorch_from_buffer(data)
    return _calls([lambda given, name=name: loaded.run_method(name, tuple(given)) for name in names], inputs)


RUNTIMES = {"etir": _etir_run, "executorch": _stock_run}


def _eager_run(program: Program, names: Sequence[str], inputs: Inputs) -> list[Call]:
    module = build(program, EAGER)[0]
    return _calls([lambda given, name=name: getattr(module, name)(*given) for name in names], inputs)


def _export(program: Program, names: Sequence[str]) -> dict[str, torch.export.ExportedProgram]:
    module, inputs, dims = build(program, TORCH)
    found: dict[str, torch.export.ExportedProgram] = {}
    for name in names:
        method = module if name == "forward" else _Other(module)
        own = (tuple(dims),) if dims is not None and name != "forward" else dims
        strict = program.strict and name == "forward"
        found[name] = torch.export.export(method, inputs(0), dynamic_shapes=own, strict=strict)
    if difference([(_state(module), [])], [(_state(build(program, TORCH)[0]), [])]) is not None:
        raise ValueError("tracing changed the module")
    return found


def _state(module: Any) -> list[Any]:
    """Copies of all tensors of a module."""
    members = {**dict(module.named_buffers()), **module.__dict__}
    return _plain([value for _, value in sorted(members.items()) if isinstance(value, torch.Tensor)])


def check(program: Program, runtimes: Sequence[str] = ("etir", "executorch")) -> Outcome:
    """Export, compile and run a program.

    Two methods have their state in common on etir's runtime. The bindings of the stock runtime give each its own.
    """
    failed = functools.partial(Outcome, program.seed)
    names = ["forward", "other"] if program.other_outputs else ["forward"]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            inputs = build(program, EAGER)[1]
            together = _eager_run(program, names, inputs)
            apart = [_eager_run(program, [name], inputs) for name in names] if len(names) > 1 else [together]
        except Exception as error:
            return failed("eager", f"{type(error).__name__}: {error}")
        torch._dynamo.reset()
        try:
            exported = _export(program, names)
        except Exception as error:
            return failed("export", f"{type(error).__name__}: {error}")
    for target in runtimes:
        shared = len(names) > 1 and target == "etir"
        try:
            given = exported if len(names) > 1 else exported["forward"]
            data = etir.compile(given, target=target, share_state=shared).buffer
        except EtirError as error:
            return failed(refusal(error, target), str(error))
        except Exception as error:
            return failed(f"internal error of {target}", f"{type(error).__name__}: {error}")
        runs = (
            [(names, together)] if shared or len(names) == 1 else [([n], e) for n, e in zip(names, apart, strict=False)]
        )
        for called, expected in runs:
            try:
                got = RUNTIMES[target](data, called, inputs)
            except (RuntimeFailure, RuntimeError) as error:
                stage = f"run on {target}" if _takes(exported, called, inputs) else "export"
                return failed(stage, str(error))
            why = difference(got, expected)
            if why is not None:
                stage = f"wrong on {target}" if _is_faithful(exported, called, inputs, expected) else "export"
                return failed(stage, why)
    return failed("ok")


def _takes(exported: dict[str, torch.export.ExportedProgram], names: Sequence[str], inputs: Inputs) -> bool:
    """Whether torch's guards of the exported programs let the inputs pass. What torch cannot run says nothing."""
    modules = [exported[name].module() for name in names]
    for step in range(CALLS):
        try:
            with torch.no_grad():
                modules[step % len(names)](*inputs(step))
        except AssertionError:
            return False
        except Exception:
            continue
    return True


def _is_faithful(
    exported: dict[str, torch.export.ExportedProgram], names: Sequence[str], inputs: Inputs, expected: Sequence[Call]
) -> bool:
    """Whether torch's own run of the exported program gives what eager gives.

    Methods that share state are more than torch runs; then every program counts as faithful.
    """
    if len(names) > 1:
        return True
    module = exported[names[0]].module()
    with torch.no_grad():
        try:
            return difference(_calls([lambda given: module(*given)], inputs), expected) is None
        except Exception:
            return True
