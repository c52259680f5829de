"""OpInfo entries as modules with one operator.

``torch.testing``'s table ``op_db`` says of each operator which arguments it takes. Each forward sample becomes an
``nn.Module``: tensors, also those inside lists, are its inputs, everything else is baked in. Of the samples of one
dtype a bounded number with different *signatures* is taken: the structure of the arguments, the ranks and dtypes of
tensors, and the kinds of everything else (values of strings and flags included).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.int64, torch.bool)
"""The dtypes that an entry is tried in, where it supports them."""

MAX_SCANNED = 200
"""Samples that are looked at for one signature more."""


@cache
def entries() -> dict[str, Any]:
    """The table by entry name, ``name`` or ``name.variant``; an entry that is there twice counts its copies."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, Any] = {}
    for op in op_db:
        name = plain = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        count = 1
        while name in found:
            count += 1
            name = f"{plain}#{count}"
        found[name] = op
    return found


def dtypes_of(name: str) -> list[torch.dtype]:
    """The dtypes to try: float32, an integer dtype (int64 where it is supported), and bool."""
    supported = entries()[name].supported_dtypes("cpu")
    chosen = [dtype for dtype in DTYPES if dtype in supported]
    if torch.int64 not in chosen:
        chosen += [dtype for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8) if dtype in supported][:1]
    return chosen


class OneOp(nn.Module):
    """An operator on the tensors among its arguments; the other arguments are constants."""

    def __init__(self, function: Any, leaves: list[Any], structure: Any):
        super().__init__()
        self.function = function
        self.fixed = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        self.structure = structure

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Call the operator."""
        rest = iter(tensors)
        leaves = [next(rest) if fixed is None else fixed[0] for fixed in self.fixed]
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.function(*args, **kwargs)


@dataclass
class Sample:
    """One call of an operator."""

    entry: str
    dtype: torch.dtype
    module: OneOp
    tensors: tuple[torch.Tensor, ...]
    text: str
    unique: Any
    """What torch's own tests make of the output where it is not unique: the product of the factors, magnitudes."""

    def fresh(self) -> tuple[torch.Tensor, ...]:
        """The inputs as copies of their own, as an operator may change them."""
        return tuple(t.detach().clone() for t in self.tensors)


def samples(name: str, dtype: torch.dtype, limit: int | None) -> Iterator[Sample]:
    """Samples of an entry with different signatures, at most ``limit``; the same ones in every run."""
    op = entries()[name]
    torch.manual_seed(0)
    seen: dict[Any, None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scanned, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
            if limit is not None and (len(seen) >= limit or scanned >= MAX_SCANNED):
                return
            signature = signature_of(sample)
            if limit is not None and signature in seen:
                continue
            seen[signature] = None
            yield sample_of(name, dtype, sample)


def signature_of(sample: Any) -> Any:
    """The signature of one of torch's samples; see the module."""
    leaves, structure = _flattened(sample)
    return str(structure), tuple(map(_kind, leaves))


def sample_of(name: str, dtype: torch.dtype, sample: Any) -> Sample:
    """One of torch's samples of an entry as a module."""
    leaves, structure = _flattened(sample)
    tensors = tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
    text = f"({', '.join(map(_describe, leaves))})"
    module = OneOp(entries()[name].op, leaves, structure)
    return Sample(name, dtype, module, tensors, text, sample.output_process_fn_grad)


def _flattened(sample: Any) -> tuple[list[Any], Any]:
    return pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return (leaf.dim(), leaf.dtype, leaf.numel() == 0, leaf.layout)
    if leaf is None or isinstance(leaf, (bool, str, torch.dtype, torch.memory_format)):
        return leaf
    return type(leaf).__name__


def _describe(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{str(leaf.dtype)[6:]}{list(leaf.shape)}"
    text = repr(leaf)
    return text if len(text) < 60 else f"{type(leaf).__name__} ..."
