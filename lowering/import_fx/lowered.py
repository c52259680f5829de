"""Programs that ExecuTorch has worked on already: operators of its edge dialect, and its lowered modules.

What `to_edge_transform_and_lower` or `to_backend` returns is an exported program still. Its operators are ATen's under
another class, and the few of the dim orders are ATen's of the memory formats; so it is imported at the ATen level like
any other and goes the whole way. A lowered module is a backend's blob: it becomes ``et.delegate``, with
``et.named_data`` beside it, and its call ``backend.call_delegate``, which every pass leaves as it is.

Nothing here imports executorch: a program that has such nodes has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Operation

from etir.backends.api.interface import NamedBlob
from etir.backends.api.named_data import add_named_data
from etir.dialects.et.payloads import DelegateOp, NamedDataOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.lowering.errors import E0402

CALL = "executorch_call_delegate"
"""The higher-order operator that calls a lowered module."""

_DIM_ORDER_OPS = {
    "dim_order_ops._to_dim_order_copy.default": "aten._to_copy.default",
    "dim_order_ops._clone_dim_order.default": "aten.clone.default",
    "dim_order_ops._empty_dim_order.default": "aten.empty.memory_format",
}
"""Operators with a dim order, and the ones with a memory format that they are made of."""


def called(target: Any) -> str:
    """Why a called function has no meaning here: what is being called, and for functions of programs that are compiled
    already what to do instead.
    """
    if getattr(target, "__module__", "") == "executorch.exir.memory":
        return "to_executorch() has changed this program in place; compile it before, or a copy.deepcopy of it"
    return f"a call of {getattr(target, '__name__', target)}"


def plain_operator(target: Any) -> Any:
    """The operator of torch that an operator of ExecuTorch's edge dialect stands for; any other target as it is."""
    edge = sys.modules.get("executorch.exir.dialects.edge._ops")
    return target._op if edge is not None and isinstance(target, edge.EdgeOpOverload) else target


def with_memory_format(
    name: str, keywords: Mapping[str, Any]
) -> tuple[torch._ops.OpOverload, dict[str, Any]] | str | None:
    """The operator and keywords that ``name``, an operator with a dim order, is at the ATen level.

    None for every other operator, and a reason for a dim order that is no memory format.
    """
    plain = _DIM_ORDER_OPS.get(name)
    if plain is None:
        return None
    namespace, packet, overload = plain.split(".")
    operator = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    given = dict(keywords)
    order = given.pop("dim_order", None)
    if order is not None:
        rank = len(order)
        formats = {
            tuple(range(rank)): torch.contiguous_format,
            (0, 2, 3, 1): torch.channels_last,
            (0, 2, 3, 4, 1): torch.channels_last_3d,
        }
        memory_format = formats.get(tuple(order))
        if memory_format is None:
            return f"dim order {list(order)} is neither contiguous nor channels last"
        given["memory_format"] = memory_format
    if plain == "aten.clone.default":
        # A clone has no other type: the operator with a dim order repeats what its argument has.
        given.pop("non_blocking", None)
    return operator, given


def memory_format_of(tensor: Any) -> torch.memory_format | None:
    """The memory format in which a lowered module is handed a tensor; None for ranks that have only one."""
    if not isinstance(tensor, torch.Tensor) or tensor.dim() not in (4, 5):
        return None
    last = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
    is_last = not tensor.is_contiguous() and tensor.is_contiguous(memory_format=last)
    return last if is_last else torch.contiguous_format


def programs_of(manager: Any) -> tuple[dict[str, ExportedProgram], dict[str, object]] | None:
    """The methods and the constant methods of an ``EdgeProgramManager``; None for any other object.

    Raises E0402 for an ``ExecutorchProgramManager``, whose programs are compiled already.
    """
    exir = sys.modules.get("executorch.exir")
    if exir is None:
        return None
    if isinstance(manager, exir.ExecutorchProgramManager):
        raise E0402.error(
            "an ExecutorchProgramManager is what to_executorch() has compiled",
            help="pass the EdgeProgramManager, before its to_executorch() changes it, or copy.deepcopy(manager)",
        )
    if not isinstance(manager, exir.EdgeProgramManager):
        return None
    # There is no public way to ask for the values of constant methods, only for their names.
    constants: dict[str, object] = manager._config_methods or {}
    return {name: manager.exported_program(name) for name in sorted(manager.methods)}, dict(constants)


class LoweredModules:
    """The blobs and named data of the lowered modules that a program calls, as operations of its module.

    A module that several methods call is there once; methods of equal blobs share a segment of the file.
    """

    def __init__(self, unique: Callable[[str], str]):
        self.blobs: list[Operation] = []
        self.named: dict[str, NamedDataOp] = {}
        self._unique = unique
        self._known: dict[int, tuple[str, Any]] = {}

    @property
    def ops(self) -> Sequence[Operation]:
        """The operations for the module: named data first."""
        return (*self.named.values(), *self.blobs)

    def symbol(self, lowered: Any, name: str) -> str:
        """The symbol of a lowered module called ``name`` in its graph. Raises E1111 for named data that differs."""
        if id(lowered) in self._known:
            return self._known[id(lowered)][0]
        symbol = self._unique(name)
        specs = [(spec.key, bytes(spec.value)) for spec in lowered.compile_specs]
        data = BlobAttr(Blob.of(memoryview(bytes(lowered.processed_bytes))))
        op = DelegateOp(symbol, lowered.backend_id, data, specs)
        op.location = NameLoc(StringAttr(symbol), UnknownLoc())
        store = lowered.named_data_store_output
        for key, item in ({} if store is None else stored_blobs(store)).items():
            made = add_named_data(self.named, key, item, symbol)
            if made is not None:
                made.location = op.location
        self.blobs.append(op)
        # The object itself is kept: another one could get its id.
        self._known[id(lowered)] = symbol, lowered
        return symbol


def stored_blobs(store: Any) -> dict[str, NamedBlob]:
    """What is in ExecuTorch's store of named data: for the file, and under a tag for files beside it."""
    found = {key: _entry(store, entry, "") for key, entry in store.pte_data.items()}
    for tag, entries in store.external_data.items():
        found.update((key, _entry(store, entry, tag)) for key, entry in entries.items())
    return found


def _entry(store: Any, entry: Any, tag: str) -> NamedBlob:
    data = store.buffers[entry.buffer_index]
    return NamedBlob(data if isinstance(data, bytes) else data.to_bytes(), max(1, entry.alignment), tag)
