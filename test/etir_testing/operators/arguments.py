"""Finds arguments for operators: from torch's own samples, from calls of other tests, from schemas.

Torch's samples run in eager with every operator recorded that the dispatcher meets, composite ones included, also those
of the references in ``torch._refs`` (which call ``prims``) and those that compute gradients. An in-place operator takes
the arguments of the functional one of its name. For what is left, arguments are made by kind and name and tried.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from etir_testing.interpret import numpy_ops_calls
from etir_testing.operators.calls import NotKept, OperatorCall, decoded, encoded, overload_of
from etir_testing.runtime.opinfo_calls import Kernel, Recorder, copy, flat

DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
SAMPLES = {torch.float32: 12, torch.int64: 3, torch.bool: 2, torch.complex64: 2}
GRADIENTS = 4
"""Samples of one entry that are recorded: by dtype, and for gradients."""

NOT_TAKEN = (RuntimeError, TypeError, ValueError, NotImplementedError, LookupError, AssertionError, AttributeError)
"""What eager raises for arguments that an operator does not take."""


# --- recording --------------------------------------------------------------------------------------------------------


@cache
def sources() -> dict[str, Any]:
    """Torch's samples: the operators, and the references."""
    from torch.testing._internal.common_methods_invocations import op_db, python_ref_db

    return {f"{op.name}.{op.variant_test_name}.{i}": op for i, op in enumerate([*op_db, *python_ref_db])}


def recorded(source: str) -> dict[str, OperatorCall]:
    """For each operator that the samples of a source call, one of the calls."""
    op, found = sources()[source], dict[str, OperatorCall]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            for sample in _samples(op, dtype, SAMPLES[dtype], False):
                _record(op, sample, found, False)
            if dtype == torch.float32 and op.supports_autograd:
                for sample in _samples(op, dtype, GRADIENTS, True):
                    _record(op, sample, found, True)
    return found


def _samples(op: Any, dtype: torch.dtype, count: int, gradients: bool) -> Iterator[Any]:
    try:
        yield from itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradients), count)
    except (*NOT_TAKEN, ImportError):
        return


def _nothing(kernel: Kernel, dtypes: tuple[torch.dtype, ...]) -> bool:
    return False


def _record(op: Any, sample: Any, found: dict[str, OperatorCall], gradients: bool) -> None:
    recorder = Recorder(_nothing, lambda name: name.startswith(("aten.", "prims.")))
    try:
        if gradients:
            with torch.enable_grad(), recorder:
                _differentiate(op, sample)
        else:
            with torch.inference_mode(), torch.no_grad(), recorder:
                op.op(copy(sample.input), *copy(sample.args), **{k: copy(v) for k, v in sample.kwargs.items()})
    except NOT_TAKEN:
        pass
    for call in recorder.calls:
        try:
            kept = encoded(call.args, call.kwargs)
        except NotKept:
            continue
        name = str(call.func)
        if name not in found or preference(kept) < preference(found[name]):
            found[name] = kept


def preference(call: OperatorCall) -> tuple[bool, int]:
    """A key that is smaller for the better one of two calls that may stand for their operator."""
    return call.is_dull, len(call.text)


def _differentiate(op: Any, sample: Any) -> None:
    results = op.op(sample.input, *sample.args, **sample.kwargs)
    outs = [r for r in flat([results]) if isinstance(r, torch.Tensor) and r.requires_grad]
    given = flat([*flat([sample.input]), *sample.args, *sample.kwargs.values()])
    leaves = [v for v in given if isinstance(v, torch.Tensor) and v.requires_grad]
    if outs and leaves:
        torch.autograd.grad(outs, leaves, [torch.randn_like(out) for out in outs], allow_unused=True)


# --- from schemas -----------------------------------------------------------------------------------------------------

SHAPES: tuple[tuple[int, ...], ...] = ((3, 3), (2, 3), (4,), (2, 3, 4), (1, 2, 6, 6), (), (1, 2, 6, 6, 6))
"""The shape that all tensors of a made call have; of the second and later ones the next shapes are tried too."""

_INTS = {"dim": 0, "dim0": 0, "dim1": 1, "dim2": 1, "axis": 0, "end": 5, "n": 4, "N": 4, "m": 3, "size": 3, "step": 1}
_LISTS = {"size": (2, 3), "dims": (0,), "dim": (0,), "stride": (1, 1), "output_size": (3, 3), "shape": (2, 3)}
_SIZED = {"kernel_size": 2, "stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "pad": 1, "padding_size": 1}
_INDICES = ("index", "indices", "target", "sorter", "offsets", "ind", "rows", "columns", "col_indices", "crow_indices")
_MASKS = ("mask", "condition")


def made(name: str) -> OperatorCall | None:
    """Arguments by kind and name that eager takes; None when none of those tried is taken."""
    overload = overload_of(name)
    for shape, others in itertools.product(SHAPES, (None, *SHAPES)):
        for dtype in (torch.float32, torch.int64):
            try:
                args, kwargs = _made(overload._schema, shape, others or shape, dtype)
                call = encoded(args, kwargs)
                run(name, call)
            except (*NOT_TAKEN, NotKept):
                continue
            return call
    return None


def run(name: str, call: OperatorCall) -> Any:
    """The operator in eager."""
    args, kwargs = decoded(name, call)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return overload_of(name)(*args, **kwargs)


def _made(
    schema: Any, first: tuple[int, ...], others: tuple[int, ...], dtype: torch.dtype
) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    shape = first
    for argument in schema.arguments:
        if argument.has_default_value() or str(argument.type).startswith("Optional"):
            if argument.kwarg_only or argument.has_default_value():
                continue
            args.append(None)
            continue
        if argument.name == "device":
            continue  # the CPU, which calls need not say
        value, shape = _value(argument, str(argument.type), shape, others, dtype)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    while args and args[-1] is None and schema.arguments[len(args) - 1].has_default_value():
        args.pop()
    return args, kwargs


def _value(
    argument: Any, type: str, shape: tuple[int, ...], others: tuple[int, ...], dtype: torch.dtype
) -> tuple[Any, tuple[int, ...]]:
    name = argument.name
    match type:
        case "Tensor":
            if name in _INDICES:
                return torch.zeros(others, dtype=torch.int64), others
            if name in _MASKS:
                return torch.ones(others, dtype=torch.bool), others
            ones = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape)
            return ones.to(dtype) / (8 if dtype.is_floating_point else 1), others
        case "List[Tensor]" | "List[Optional[Tensor]]":
            return [torch.ones(shape, dtype=dtype), torch.ones(shape, dtype=dtype) * 2], others
        case "int":
            return (6 if name == "dtype" else _INTS.get(name, 1)), shape
        case "List[int]":
            if name in _SIZED:
                return [_SIZED[name]] * max(len(shape) - 2, 1), shape
            return list(_LISTS.get(name, (1, 1))), shape
        case "bool":
            return False, shape
        case "List[bool]":
            return [True, True, True], shape
        case "float" | "number":
            return (0.5 if dtype.is_floating_point else 2), shape
        case "List[float]" | "List[number]":
            return [0.5, 0.5], shape
        case "str":
            return "mean", shape
        case _:
            raise NotKept(f"an argument of type {type}")


# --- everything -------------------------------------------------------------------------------------------------------


def listed() -> Iterator[tuple[str, OperatorCall]]:
    """The calls that the tests of NumPy operators have written down."""
    for name, args, kwargs in numpy_ops_calls.all_calls():
        try:
            yield name, encoded(args, kwargs)
        except NotKept:
            continue


WRITTEN = Path(__file__).with_name("written.json")
"""Calls of operators whose arguments fit only each other."""


@cache
def written() -> dict[str, OperatorCall]:
    """The calls of ``written.json``, which come before all others."""
    rows = json.loads(WRITTEN.read_text(encoding="utf-8"))
    return {name: OperatorCall(tuple(row["args"]), row.get("kwargs", {})) for name, row in rows.items()}


def choices(name: str, found: Mapping[str, Sequence[OperatorCall]]) -> list[OperatorCall]:
    """The calls to try for an operator, the best first: what is written for it, what was found, and the same of the
    operators that take the same arguments.
    """
    alike = [name, *siblings(name)]
    here = [written()[n] for n in alike if n in written()]
    return here + [call for n in alike for call in sorted(found.get(n, []), key=preference)]


def siblings(name: str) -> tuple[str, ...]:
    """The overloads that take the same arguments: functional, in place, and with other names for them."""
    namespace, packet, overload = name.split(".")
    others = [sibling(name)]
    if overload.endswith("out"):
        plain = overload.removesuffix("out").removesuffix("_") or "default"
        others.append(f"{namespace}.{packet}.{plain}")
    if overload.endswith("generator"):
        plain = overload.removesuffix("generator").removesuffix("_") or "default"
        others.append(f"{namespace}.{packet}.{plain}")
    return tuple(others)


def sibling(name: str) -> str:
    """The functional overload of an in-place one, and the other way round."""
    namespace, packet, overload = name.split(".")
    if packet.startswith("__i") and packet.endswith("__"):
        return f"{namespace}.__{packet[3:]}.{overload}"
    other = packet[:-1] if packet.endswith("_") and not packet.endswith("__") else f"{packet}_"
    return f"{namespace}.{other}.{overload}"
