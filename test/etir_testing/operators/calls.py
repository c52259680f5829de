"""Calls of operators as text, and as programs of one operator.

A call is kept as JSON: positional and keyword arguments, tensors as ``"float32[2,3]"`` (normally distributed),
``"float32[2,3]+"`` (between 0 and 1) or ``"int64[3]=0,1,2"`` (these numbers). What is drawn depends on the operator's
name and the position alone. ``{"dtype": "float32"}`` is a dtype, ``{"text": "mean"}`` a string.

The program calls the overload itself, so that export records it and not what torch's Python function makes of it. An
operator that writes its arguments gets copies, and the program returns what it wrote.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils import _pytree as pytree

from etir_testing.opinfo.op_samples import OneOp, Sample

MOST_NUMBERS = 12
"""Tensors of up to so many elements are kept number by number."""

LARGEST = 4096
"""Elements that the tensors of a call may have in all."""

_TENSOR = re.compile(r"(\w+)\[([\d,]*)\](\+|=(.*))?")


class NotKept(ValueError):
    """A call that cannot be text; the message says why."""


@dataclass(frozen=True)
class OperatorCall:
    """The arguments of one call, as JSON has them."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The arguments as a reader would write them."""
        named = [f"{name}={value}" for name, value in self.kwargs.items()]
        return f"({', '.join([*map(str, self.args), *named])})"

    @property
    def is_dull(self) -> bool:
        """Whether a tensor has no elements, or all of them have one."""
        leaves = pytree.tree_leaves((list(self.args), dict(self.kwargs)))
        shapes = [m[2] for v in leaves if isinstance(v, str) and (m := _TENSOR.fullmatch(v)) is not None]
        return any("0" in shape.split(",") for shape in shapes) or not any(shapes)


def overload_of(name: str) -> Any:
    """``torch.ops.aten.add.Tensor`` for ``aten.add.Tensor``. Raises ``AttributeError`` for one that torch lacks."""
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


# --- text -------------------------------------------------------------------------------------------------------------


def encoded(args: Sequence[Any], kwargs: Mapping[str, Any]) -> OperatorCall:
    """A call as text. Raises ``NotKept``."""
    tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if sum(t.numel() for t in tensors) > LARGEST:
        raise NotKept("large tensors")
    named = {name: value for name, value in kwargs.items() if name not in ("device", "layout", "pin_memory")}
    return OperatorCall(tuple(map(_encoded, args)), {name: _encoded(value) for name, value in named.items()})


def _encoded(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor_text(value)
    if isinstance(value, torch.dtype):
        return {"dtype": str(value)[6:]}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value)[6:]}
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, (list, tuple)):
        return [_encoded(item) for item in value]
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, torch.device) and value.type == "cpu":
        return None
    if value == torch.strided:
        return None
    raise NotKept(f"a {type(value).__name__}")


def _tensor_text(tensor: torch.Tensor) -> str:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise NotKept("a tensor that is not dense")
    head = f"{str(tensor.dtype)[6:]}[{','.join(map(str, tensor.shape))}]"
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if not tensor.numel() or tensor.is_complex():
        return head
    is_float = tensor.is_floating_point()
    if tensor.numel() <= MOST_NUMBERS or not is_float:
        numbers = tensor.flatten().tolist()
        texts = [f"{n:.4g}" if is_float else str(int(n)) for n in numbers]
        return f"{head}={texts[0] if len(set(texts)) == 1 else ','.join(texts)}"
    return head + "+" * bool(tensor.float().amin() >= 0)


def decoded(name: str, call: OperatorCall) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call of operator ``name``: new tensors, the same numbers every time."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.replace("_.", ".").encode()))
    args = [_decoded(value, generator) for value in call.args]
    kwargs = {key: _decoded(value, generator) for key, value in call.kwargs.items()}
    needed = overload_of(name)._schema.arguments[len(args) :]
    missing = [a for a in needed if a.kwarg_only and a.name not in kwargs]
    for argument in missing:
        if argument.name == "device" and name.startswith("prims."):
            kwargs["device"] = torch.device("cpu")
        elif not argument.has_default_value() and str(argument.type).startswith("Optional"):
            kwargs[argument.name] = None
    return args, kwargs


def _decoded(value: Any, generator: torch.Generator) -> Any:
    match value:
        case str():
            return _tensor(value, generator)
        case {"dtype": dtype}:
            return getattr(torch, dtype)
        case {"memory_format": memory_format}:
            return getattr(torch, memory_format)
        case {"text": text}:
            return text
        case list():
            return [_decoded(item, generator) for item in value]
        case _:
            return value


def _tensor(text: str, generator: torch.Generator) -> torch.Tensor:
    matched = _TENSOR.fullmatch(text)
    assert matched is not None, text
    dtype: torch.dtype = getattr(torch, matched[1])
    sizes = [int(size) for size in matched[2].split(",") if size]
    if matched[4] is not None:
        numbers = [(float if dtype.is_floating_point else int)(n) for n in matched[4].split(",")]
        return torch.tensor(numbers * prod(sizes) if len(numbers) == 1 else numbers, dtype=dtype).reshape(sizes)
    if matched[3] == "+":
        return torch.rand(sizes, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.complex(*torch.randn([2, *sizes], generator=generator)).to(dtype)
    if not dtype.is_floating_point:
        return torch.randint(0, 2, sizes, generator=generator).to(dtype)
    return torch.randn(sizes, generator=generator).to(dtype)


# --- programs ---------------------------------------------------------------------------------------------------------


def sample_of_call(name: str, call: OperatorCall) -> Sample:
    """The call as a program whose inputs are the tensors among its arguments."""
    args, kwargs = decoded(name, call)
    leaves, structure = pytree.tree_flatten((args, kwargs))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    module = OneOp(_function(overload_of(name)), leaves, structure)
    dtype = next((t.dtype for t in tensors), torch.float32)
    return Sample(name, dtype, module, tensors, call.text, lambda value: value)


def _function(overload: Any) -> Callable[..., Any]:
    arguments = enumerate(overload._schema.arguments)
    written = [i for i, a in arguments if a.alias_info is not None and a.alias_info.is_write]
    if not written:
        return overload

    def function(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        result = overload(*args, **kwargs)
        return [args[i] for i in written if i < len(args)] if result is None else result

    return function
