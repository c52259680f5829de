"""Records the calls of ATen operators that an OpInfo sample makes, in the form that a kernel of the runtime takes.

A sample runs in inference mode, where the dispatcher shows composite operators whole; each is then decomposed in place,
so that one run sees the composite operator and all that it consists of. Arguments are copied before the call and
results after it, because later operators may write them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from etir_testing.runtime.kernels import DTYPES, dim_order, manifest

EXCLUDED = {
    "complex number": "a file has no complex Scalar",
    "memory format": "channels-last as an argument is not a value of the format; etir writes dim_order_ops instead",
    "layout": "sparse tensors, and strides read from the storage of a tensor that is not dense",
    "dtype": "an element type that the format lacks",
    "generator": "random numbers drawn from a generator that is an argument",
    "rank": "tensors of more than 16 dims",
}
"""Why a call is left out."""

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd

_CONJUGATE, _NEGATIVE = torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative
_Excluding = torch._C._SetExcludeDispatchKeyGuard

_FACTORY = ("dtype", "layout", "device", "pin_memory", "memory_format", "requires_grad", "non_blocking", "implicit")

_NOT_TAKEN = (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, AssertionError)
"""What eager raises for a sample that it does not take in some mode: there is nothing to compare with then."""


class Excluded(Exception):
    """A call that cannot be expressed; the reason is a key of EXCLUDED."""


@dataclass(frozen=True)
class Kernel:
    """A row of the manifest for an operator: its name, its schema, and the schema of the operator as recorded."""

    name: str
    schema: Any
    recorded: Any

    @functools.cached_property
    def base(self) -> str:
        """The operator's name without namespace and overload."""
        return self.name.split("::")[1].split(".")[0]


@dataclass(frozen=True)
class Call:
    """One recorded call of ``func``. ``written`` are the arguments that it changed, by name, as it left them.

    ``kernel`` is None in a call that was recorded for something else.
    """

    kernel: Kernel | None
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    written: dict[str, torch.Tensor]

    def prepared(self) -> tuple[list[Any], list[Any]]:
        """The inputs of the kernel in the order of its schema, and its results, None where there is none.

        Raises Excluded.
        """
        assert self.kernel is not None
        given = dict(zip((a.name for a in self.kernel.recorded.arguments), self.args, strict=False)) | self.kwargs
        for argument in self.kernel.recorded.arguments:
            if argument.name not in given and argument.has_default_value():
                given[argument.name] = argument.default_value
        tensors = [t for t in given.values() if isinstance(t, torch.Tensor)]
        inputs: list[Any] = []
        for argument in self.kernel.schema.arguments:
            if argument.is_out:
                continue
            value = given.get(argument.name, argument.default_value)
            if str(argument.type) == "Tensor" and isinstance(value, (bool, int, float, complex)):
                value = _number(value, tensors)
            if str(argument.type).startswith("List") and isinstance(value, (int, float)) and argument.N is not None:
                value = [value] * argument.N
            inputs.append(_argument(value))
        if self.kernel.base == "as_strided_copy" and not inputs[0].is_contiguous():
            raise Excluded("layout")
        outs = [a for a in self.kernel.schema.arguments if a.is_out]
        if not outs:
            return inputs, []
        results = list(self.result) if isinstance(self.result, (list, tuple)) else [self.result]
        if len(outs) == 1 and str(outs[0].type).startswith("List"):
            return inputs, [[_tensor(item) for item in results]]
        return inputs, [None if item is None else _tensor(item) for item in results]

    def precise(self) -> list[torch.Tensor | None]:
        """What eager gives for the same numbers in double: the arguments that are written, then the results."""
        args = [_in_double(v) for v in self.args]
        kwargs = {name: _in_double(v) for name, v in self.kwargs.items()}
        result = self.func(*args, **kwargs)
        given = dict(zip((a.name for a in self.func._schema.arguments), args, strict=False)) | kwargs
        return [
            *(given[name] for name in self.written),
            *flat(result if isinstance(result, (list, tuple)) else [result]),
        ]


Wanted = Callable[[Kernel, tuple[torch.dtype, ...]], bool]
"""Asks whether to record a call, given the kernel and the dtypes of its arguments."""


class Recorder(TorchDispatchMode):
    """Collects the calls that ``wanted`` asks for, and those of operators that ``others`` takes by their names."""

    def __init__(self, wanted: Wanted, others: Callable[[str], bool] | None = None) -> None:
        super().__init__()
        self.wanted = wanted
        self.others = others
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kernel = kernel_of(func)
        if kernel is not None and not self.wanted(kernel, _dtypes_of([*args, *kwargs.values()])):
            kernel = None
        taken = kernel is not None or (self.others is not None and self.others(str(func)))
        if taken:
            copied = copy(args), {name: copy(value) for name, value in kwargs.items()}
        if _is_composite(func):
            # On the way here conjugate and negated views were left to operators below composite ones.
            with self, _Excluding(_CONJUGATE, False), _Excluding(_NEGATIVE, False):
                # Not func.decompose: that prefers decompositions in Python, which eager does not run.
                result = func._op_dk(_COMPOSITE, *args, **kwargs)
        else:
            result = func(*args, **kwargs)
        if taken:
            written = _written(func._schema, args, kwargs)
            self.calls.append(Call(kernel, func, *copied, copy(result), written))
        return result


def calls_of(op: Any, sample: Any, wanted: Wanted) -> list[Call]:
    """The recorded calls of one sample, none where eager does not take it."""
    return run_recorded(op, sample, wanted)[0]


def run_recorded(
    op: Any, sample: Any, wanted: Wanted, others: Callable[[str], bool] | None = None
) -> tuple[list[Call], tuple[Any] | None]:
    """The recorded calls of one sample, and its result alone in a tuple; none where eager does not take it."""
    for inference in (True, False):
        recorder = Recorder(wanted, others)
        try:
            with torch.inference_mode(inference), torch.no_grad(), recorder:
                result = op.op(copy(sample.input), *copy(sample.args), **{k: copy(v) for k, v in sample.kwargs.items()})
        except _NOT_TAKEN:
            continue
        return recorder.calls, (result,)
    return [], None


def gradient_calls_of(op: Any, sample: Any, wanted: Wanted) -> list[Call]:
    """The recorded calls of one sample, with leaves that ask for gradients, and of its gradients."""
    recorder = Recorder(wanted)
    try:
        with torch.enable_grad(), recorder:
            results = op.op(sample.input, *sample.args, **sample.kwargs)
            outs = [r for r in flat([results]) if isinstance(r, torch.Tensor) and r.requires_grad]
            given = flat([*flat([sample.input]), *sample.args, *sample.kwargs.values()])
            leaves = [v for v in given if isinstance(v, torch.Tensor) and v.requires_grad]
            if outs and leaves:
                torch.autograd.grad(outs, leaves, [torch.randn_like(out) for out in outs], allow_unused=True)
    except _NOT_TAKEN:
        return []
    return recorder.calls


@functools.cache
def rows() -> dict[str, dict[str, Any]]:
    """The manifest."""
    return manifest()


@functools.cache
def kernel_of(func: Any) -> Kernel | None:
    """The row that computes what an operator does: its own if there is one, or that of its out variant."""
    schema = func._schema
    if func.namespace != "aten" or any("Tensor" not in str(result.type) for result in schema.returns):
        return None
    if any(a.is_out for a in schema.arguments):
        return None
    own = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    if own in rows():
        return Kernel(own, schema, schema)
    base = schema.name.split("::")[1]
    names = {a.name for a in schema.arguments}
    types = {a.name: str(a.type) for a in schema.arguments}
    for name in (base, f"{base}_copy"):
        best: tuple[int, Kernel] | None = None
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            row = f"aten::{name}" + ("" if overload == "default" else f".{overload}")
            if row not in rows():
                continue
            candidate = getattr(packet, overload)._schema
            inputs = [a for a in candidate.arguments if not a.is_out]
            known = {a.name for a in inputs}
            if any(a.name not in names and not a.has_default_value() for a in inputs):
                continue
            if any(a.name not in known and a.name not in _FACTORY for a in schema.arguments):
                continue
            if any(a.name in types and types[a.name] != str(a.type) for a in inputs):
                continue
            score = len(known & names)
            if best is None or score > best[0]:
                best = score, Kernel(row, candidate, schema)
        if best is not None:
            return best[1]
    return None


@functools.cache
def _is_composite(func: Any) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE)


_DOUBLE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64} | {
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


def _in_double(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(_DOUBLE.get(value.dtype, value.dtype), copy=True)
    if isinstance(value, torch.dtype):
        return _DOUBLE.get(value, value)
    if isinstance(value, (list, tuple)):
        return [_in_double(v) for v in value]
    return value


def copy(value: Any) -> Any:
    """The value with every tensor in it copied, layout kept."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.preserve_format)
    if isinstance(value, (list, tuple)):
        return type(value)(copy(v) for v in value) if type(value) in (list, tuple) else tuple(map(copy, value))
    return value


def flat(values: Sequence[Any]) -> Iterator[Any]:
    """The items, those of lists in place of them."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _dtypes_of(values: Sequence[Any]) -> tuple[torch.dtype, ...]:
    return tuple(dict.fromkeys(v.dtype for v in flat(values) if isinstance(v, torch.Tensor)))


def _written(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
    if not schema.is_mutable:
        return {}
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
    return {
        a.name: copy(given[a.name])
        for a in schema.arguments
        if a.alias_info is not None and a.alias_info.is_write and isinstance(given.get(a.name), torch.Tensor)
    }


def _number(value: bool | int | float | complex, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A tensor that stands for a number in the place of one, of a dtype that does not change the result's."""
    if isinstance(value, (bool, int)):
        return torch.tensor(value)
    category = torch.complex128 if isinstance(value, complex) else torch.float64
    if any(t.dim() > 0 and (t.is_floating_point() or t.is_complex()) for t in tensors):
        return torch.tensor(value, dtype=category)
    return torch.tensor(value, dtype=torch.result_type(tensors[0], value) if tensors else category)


def _tensor(value: torch.Tensor) -> torch.Tensor:
    if value.dtype not in DTYPES:
        raise Excluded("dtype")
    if value.layout != torch.strided or value.is_quantized:
        raise Excluded("layout")
    if value.dim() > 16:
        raise Excluded("rank")
    value = value.resolve_conj().resolve_neg()
    try:
        dim_order(value)
    except ValueError:
        return value.contiguous()
    if any(value.stride(d) == 0 and value.size(d) > 1 for d in range(value.dim())):
        return value.contiguous()
    return value


def _argument(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, complex):
        raise Excluded("complex number")
    if isinstance(value, torch.Generator):
        raise Excluded("generator")
    if isinstance(value, torch.memory_format) and value not in (torch.contiguous_format, torch.preserve_format):
        raise Excluded("memory format")
    if isinstance(value, torch.dtype) and value not in DTYPES:
        raise Excluded("dtype")
    if isinstance(value, torch.layout):
        if value != torch.strided:
            raise Excluded("layout")
        return None
    if isinstance(value, torch.device):
        return None
    if isinstance(value, (list, tuple)):
        return [_argument(v) for v in value]
    return value
