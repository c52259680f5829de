"""Which operators there are to check: torch's table, as the dispatcher has it.

An operator is *open* where torch defines it by others or says what it means: it has a kernel for
``CompositeImplicitAutograd`` or ``CompositeExplicitAutograd``, a decomposition, or a reference in ``torch._refs``; and
everything in ``prims`` is.
"""

from __future__ import annotations

from functools import cache

import torch

from etir.dialects.aten.table import load_table
from etir.dialects.schema import SchemaKind, parse_schema

_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


@cache
def operators() -> tuple[str, ...]:
    """Every functional and in-place overload of ``aten`` and ``prims``, in the order of the table."""
    table = load_table()
    of_aten = [name for name in table if name.startswith("aten.") and _is_called(table.get(name))]
    return (*of_aten, *prims())


def _is_called(schema: object) -> bool:
    return getattr(schema, "kind", SchemaKind.OUT) is not SchemaKind.OUT


_WITHOUT_FUNCTION = ("uniform", "view_of_dtype")
"""Operators of ``torch._prims`` that no function there calls."""


@cache
def prims() -> tuple[str, ...]:
    """The overloads of ``prims`` without an ``out`` argument, but for what torch's compiler adds when imported."""
    import torch._prims

    found: list[str] = []
    for schema in torch._C._jit_get_all_schemas():
        packet = schema.name.removeprefix("prims::")
        is_own = hasattr(torch._prims, packet) or packet in _WITHOUT_FUNCTION
        if schema.name.startswith("prims::") and is_own and _is_called(parse_schema(str(schema))):
            found.append(f"prims.{schema.name.removeprefix('prims::')}.{schema.overload_name or 'default'}")
    return tuple(sorted(found))


def is_open(name: str) -> bool:
    """Whether torch says what an operator means by others; see the module."""
    import torch._refs
    from torch._decomp import decomposition_table

    namespace, packet, overload = name.split(".")
    if namespace == "prims":
        return True
    qualified = f"{namespace}::{packet}" + ("" if overload == "default" else f".{overload}")
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(qualified, key) for key in _COMPOSITE):
        return True
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    plain = packet.removesuffix("_") if overload != "default" or not packet.startswith("__") else packet
    return operator in decomposition_table or hasattr(torch._refs, plain)


# --- operators that eager cannot be shown a call of -------------------------------------------------------------------

_CPU = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")

_WORDS = (
    ("sparse", ("sparse", "coalesce", "smm", "spmm", "sspaddmm", "hspmm", "_spsolve", "_nnz", "_dimI", "_dimV", "_cslt",
                "_to_dense", "_values", "crow", "ccol_", "col_indices", "row_indices", "csr")),
    ("nested", ("nested", "jagged", "padded_tensor")),
    ("quantized storage", ("quantize", "q_scale", "q_zero_point", "q_per_channel", "qscheme", "int_repr", "fbgemm",
                           "_wrapped_", "_prepacked", "affine_quantized", "int4pack", "_dyn_quant")),
    ("backend", ("cudnn", "miopen", "mkldnn", "mps", "_triton", "_efficient_attention", "_flash_attention", "_cufft",
                 "_xla", "overrideable", "pin_memory", "_nnpack")),
)  # fmt: skip
"""Words of an operator's name that say why there is no call of it on dense tensors of the CPU."""

_BOOKKEEPING = ("_backward.default", "retain_grad", "_make_dual", "get_gradients", "_test_", "_philox", "device_put",
                "_thnn_fused", "_foobar", "_fw_primal", "xor_sum", "_resize_output", "record_stream",
                "amp_update_scale.out")  # fmt: skip


def reason_without_call(name: str) -> str:
    """Why no call is known that eager takes, from the kernels that torch has for an operator, and from its name."""
    namespace, packet, overload = name.split(".")
    values = ("values", "values_copy", "indices", "indices_copy", "_indices_copy")
    for reason, words in _WORDS:
        if any(word in packet for word in words) or (reason == "sparse" and packet in values):
            return reason
    if "Storage" in overload:
        return "memory"
    if overload == "out" or overload.endswith("_out"):
        return "no functional form"
    qualified = f"{namespace}::{packet}" + ("" if overload == "default" else f".{overload}")
    if not any(torch._C._dispatch_has_kernel_for_dispatch_key(qualified, key) for key in _CPU):
        return "backend"
    if any(word in name for word in _BOOKKEEPING):
        return "internal"
    return "no arguments"
