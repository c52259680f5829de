"""Operators that take elements of each dim by numbers that are known when the program is compiled: which ones.

Reflecting and replicating what is at the edges, reversing dims, resizing to the nearest element, and indices that are
constants, those of a table's rows (``embedding``), too. Few indices that are a weight become a constant of the function
(``embedded.py``), since lowering sees nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseIntOrFPElementsAttr, IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.gather import LONGEST
from etir.backends.native.runs import run_of
from etir.backends.native.take import Numbers, runs_of
from etir.diagnostics import EtirError
from etir.dialects.et.program import ConstantOp, GetWeightOp, WeightOp, dense_bytes
from etir.dialects.et.weights import payload_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.walking import ops_of

EMBEDDING = "aten.embedding.default"
FLIP = "aten.flip.default"
INDEX = "aten.index.Tensor"
INDEX_SELECT = "aten.index_select.default"
NEAREST = ("aten.upsample_nearest2d.vec", "aten.upsample_nearest2d.default")
REFLECTION = tuple(f"aten.reflection_pad{n}d.default" for n in (1, 2, 3))
REPLICATION = tuple(f"aten.replication_pad{n}d.default" for n in (1, 2, 3))
TAKES = (*REFLECTION, *REPLICATION, FLIP, INDEX, EMBEDDING)
"""Operators that always are tables; others are so where they are nothing simpler."""
MOST_RUNS = 1 << 14
"""Runs of numbers of all dims, which are constants of the code, and indices."""
MOST_NUMBERS = 1 << 18
"""Numbers of elements that are gathered: each is a float of the file for code, and 8 bytes for the kernels."""


FEW_COLUMNS = 64
"""Elements that an index takes which are gathered one by one."""


def source_of(op: SchemaOp) -> SSAValue:
    """What elements are taken of."""
    return cast(SSAValue, op.arg(next(name for name in ("input", "weight", "self") if name in op.SCHEMA.index)))


def tables_of(op: SchemaOp) -> list[Numbers] | None:
    """The numbers of each dim of what elements are taken of; None where they are not known, or there are no such
    elements. Indices of several dims count as one.
    """
    type = source_of(op).type
    given = type.get_shape() if isinstance(type, TensorType) else ()
    if not given or DYNAMIC_INDEX in given or 0 in given:
        return None
    found = _found(op, given)
    if found is None:
        return None
    pairs = [(t, n) for t, n in zip(found, given, strict=True) if t is not None]
    return found if all(len(t) and min(t) >= 0 and max(t) < n for t, n in pairs) else None


def is_table(op: SchemaOp) -> bool:
    """Whether an operator that the delegate takes is tables: no slice, and no whole number of times."""
    name = operator_of(op)
    if name == INDEX_SELECT:
        return run_of(op.arg("index")) is None
    if name not in NEAREST:
        return name in TAKES
    given, made = (cast("TensorType[Attribute]", v.type).get_shape() for v in (source_of(op), op.results[0]))
    sizes = zip(given[2:], made[2:], strict=True)
    return DYNAMIC_INDEX not in (*given, *made) and any(b % a for a, b in sizes)


def indices_of(op: SchemaOp) -> tuple[int, SSAValue] | None:
    """The dim of which a tensor of indices takes elements, and that tensor; None where there is not one."""
    if operator_of(op) == INDEX_SELECT:
        rank = len(cast("TensorType[Attribute]", source_of(op).type).get_shape())
        return op.arg("dim") % max(1, rank), cast(SSAValue, op.arg("index"))
    if operator_of(op) == EMBEDDING:
        return 0, cast(SSAValue, op.arg("indices"))
    given = op.arg("indices") if operator_of(op) == INDEX else ()
    found = [(dim, index) for dim, index in enumerate(given) if index is not None]
    return found[0] if len(found) == 1 else None


def is_long(op: SchemaOp) -> bool:
    """Whether more elements are taken by indices than constants of the code should be: such indices are a weight, by
    which code gathers (``tile.gather``).
    """
    found = indices_of(op)
    if found is None or math.prod(cast("TensorType[Attribute]", found[1].type).get_shape()) <= MOST_RUNS:
        return False
    return operator_of(op) in (INDEX, EMBEDDING) or run_of(found[1]) is None


def is_gathered(op: SchemaOp) -> bool:
    """Whether code can gather by so many indices: a weight of numbers that are in the dim, none from its end, of which
    each takes few elements; rows are copied sooner. What is gathered has its columns apart: rows of a table, which
    others read as rows, would be there twice.
    """
    if operator_of(op) == EMBEDDING:
        return False
    found, given = indices_of(op), cast("TensorType[Attribute]", source_of(op).type).get_shape()
    if found is None or not isinstance(found[1].owner, GetWeightOp) or tables_of(op) is None:
        return False
    dim, index = found
    numbers = _numbers(index) or [-1]
    is_few = len(numbers) <= MOST_NUMBERS and math.prod(given[dim + 1 :]) <= FEW_COLUMNS
    return is_few and min(numbers) >= 0 and given[dim] <= LONGEST


def is_short(op: SchemaOp) -> bool:
    """Whether the runs of tables, and indices, are few enough to be constants of the code."""
    runs = (len(runs_of(t)) for t in tables_of(op) or () if t is not None)
    return not is_long(op) and sum(runs) <= MOST_RUNS


def _found(op: SchemaOp, given: Sequence[int]) -> list[Numbers] | None:
    name, rank = operator_of(op), len(given)
    tables: list[Numbers] = [None] * rank
    if name == FLIP:
        for dim in op.arg("dims"):
            tables[dim % rank] = range(given[dim % rank])[::-1]
    elif name in (*REFLECTION, *REPLICATION):
        pads = op.arg("padding")
        for number in range(len(pads) // 2):
            dim, (before, after) = rank - 1 - number, pads[2 * number : 2 * number + 2]
            tables[dim] = _padded(given[dim], before, after, name in REFLECTION)
    elif name in NEAREST:
        made = cast("TensorType[Attribute]", op.results[0].type).get_shape()
        for dim, factor in zip((2, 3), _factors(op), strict=True):
            tables[dim] = _nearest(given[dim], made[dim], factor)
    elif name == EMBEDDING:
        tables[0] = _numbers(op.arg("indices"))
        return None if tables[0] is None else tables
    elif name == INDEX_SELECT:
        tables[op.arg("dim") % rank] = _numbers(op.arg("index"))
        return None if tables[op.arg("dim") % rank] is None else tables
    elif name == INDEX:
        indices = op.arg("indices")
        dims = [dim for dim, index in enumerate(indices) if index is not None]
        numbers = _numbers(indices[dims[0]]) if len(dims) == 1 else None
        if numbers is None:
            return None
        n = given[dims[0]]
        tables[dims[0]] = [at + n if at < 0 else at for at in numbers]
    return tables


def _padded(n: int, before: int, after: int, reflected: bool) -> list[int]:
    """Numbers of a dim with elements before and after it: those next to its ends, mirrored, or its ends."""
    if not reflected:
        return [min(max(at, 0), n - 1) for at in range(-before, n + after)]
    return [abs(at) if at < n else 2 * (n - 1) - at for at in range(-before, n + after)]


def _factors(op: SchemaOp) -> Sequence[float | None]:
    """How much larger an image is to be, if the operator says that."""
    if "input" in op.SCHEMA.index:
        return op.arg("scale_factors") or (None, None)
    return op.arg("scales_h"), op.arg("scales_w")


def _nearest(given: int, made: int, factor: float | None) -> list[int]:
    """As torch has it, which multiplies numbers of float32."""
    import numpy as np

    if not factor or not factor > 0.0:
        if made in (given, 2 * given):
            return [at * given // made for at in range(made)]
        scale = np.float32(given) / np.float32(made)
    else:
        scale = np.float32(1.0 / factor)
    at = np.floor(np.arange(made, dtype=np.float32) * scale)
    return [int(n) for n in np.minimum(at, given - 1)]


# --- indices ----------------------------------------------------------------------------------------------------------


def _numbers(index: object) -> list[int] | None:
    """The numbers that a constant is, in order; None where they are not known when the program is compiled."""
    owner = index.owner if isinstance(index, SSAValue) else None
    if isinstance(owner, ConstantOp) and isinstance(owner.value, DenseIntOrFPElementsAttr):
        return _integers(dense_bytes(owner.value), owner.result.type)
    if not isinstance(owner, GetWeightOp):
        return None
    module = owner.get_toplevel_object()
    name = owner.symbol.root_reference.data
    for op in ops_of(module.body.block) if isinstance(module, ModuleOp) else ():
        if isinstance(op, WeightOp) and op.sym_name.data == name:
            try:
                return integers_of(op, owner.result.type)
            except EtirError:  # bytes that are not loaded, as of text without its weights
                return None
    return None


def integers_of(op: WeightOp, type: Attribute) -> list[int] | None:
    """The integers that a weight is, in order; None where it is none of them."""
    if not isinstance(op.type, TensorType) or _kind(type) is None:
        return None
    return _integers(payload_of(op.value, op.type).data, type)


def _kind(type: Attribute) -> Any:
    """NumPy's type of integers."""
    import numpy as np

    element = type.element_type if isinstance(type, TensorType) else None
    width = element.width.data if isinstance(element, IntegerType) else 0
    return {32: np.int32, 64: np.int64}.get(width)


def _integers(data: bytes | memoryview, type: Attribute) -> list[int] | None:
    import numpy as np

    kind = _kind(type)
    return None if kind is None else [int(n) for n in np.frombuffer(data, kind)]
