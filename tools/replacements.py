"""``--replace-weights FILE``: other bytes for weights and states of a module, on purpose.

A payload names its bytes by digest, and other bytes are refused, so that a text and a weights file that do not belong
together are noticed. Whoever means other bytes names the file that has them: a safetensors file, or an ``.npz`` file of
``numpy.savez``. Every array in it replaces the payload of the weight or state with its name, which is the symbol's or
the one in the user's module (``fqn``); dtype and shape have to be the ones in the text. The digest in the module is
then that of the new bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute

from etir.diagnostics import Diagnostic, did_you_mean, raise_if_errors
from etir.dialects.dtypes import dtype_of
from etir.dialects.errors import E0204
from etir.dialects.et.layout import order_of
from etir.dialects.et.program import StateOp, WeightOp
from etir.dialects.et.weights import Blob, BlobAttr, WeightFile
from etir.dialects.text import source_location
from etir.tools.common import read_head
from etir.tools.named_arrays import read_arrays


@dataclass(frozen=True)
class _Array:
    """An array of a file, row-major: torch's name of its dtype, its shape, its bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def replace_weights(module: ModuleOp, paths: Sequence[str]) -> None:
    """Give weights and states of ``module`` the bytes of the arrays in some files; the last file with a name counts.

    Raises errors E0203 and E0902 for a file that cannot be read, and E0204 for every array that does not fit.
    """
    named = _by_name(module)
    problems: list[Diagnostic] = []
    for path in paths:
        for name, array in _arrays(path):
            ops = named.get(name, [])
            if not ops:
                message = f"'{path}': the module has no weight or state '{name}'{did_you_mean(name, named)}"
                problems.append(E0204.diagnostic(message))
            for op in ops:
                if (reason := _misfit(array, op.type)) is None:
                    op.properties["value"] = BlobAttr(Blob.of(_stored(array, op.type)))
                else:
                    message = f"'{path}': '{name}' is {array}, {reason}"
                    problems.append(E0204.diagnostic(message, source_location(op.location)))
    raise_if_errors(problems)


def _by_name(module: ModuleOp) -> dict[str, list[WeightOp | StateOp]]:
    """Weights and states by the name in the user's module and by symbol; a symbol comes first where they differ."""
    found: dict[str, list[WeightOp | StateOp]] = {}
    ops = [op for op in module.body.block.ops if isinstance(op, WeightOp | StateOp)]
    for op in ops:
        fqn = op.attributes.get("fqn")
        if isinstance(fqn, StringAttr):
            found.setdefault(fqn.data, []).append(op)
    for op in ops:
        found[op.sym_name.data] = [op]
    return found


def _arrays(path: str) -> Iterable[tuple[str, _Array]]:
    if read_head(path).startswith(b"PK"):
        return [(name, _of_numpy(array)) for name, array in read_arrays(path).items()]
    file = WeightFile(path)
    return [(name, _Array(*file.tensor(name))) for name in file.names]


def _of_numpy(array: Any) -> _Array:
    import numpy as np

    whole = np.ascontiguousarray(array).reshape(array.shape)
    return _Array(array.dtype.name, array.shape, memoryview(whole.tobytes()))


def _misfit(array: _Array, type: Attribute) -> str | None:
    """Why an array is no payload of a type, or None."""
    if not isinstance(type, TensorType):
        return f"and {type} has no payload"
    dtype, shape = dtype_of(type.element_type), type.get_shape()
    if array.dtype != dtype.torch_name or array.shape != shape:
        return f"the text has {dtype.torch_name}{list(shape)}"
    if len(array.data) != math.prod(shape) * dtype.itemsize:
        return f"which is {math.prod(shape) * dtype.itemsize} bytes, and the file has {len(array.data)}"
    return None


def _stored(array: _Array, type: Attribute) -> memoryview:
    """The bytes in the dim order of the type."""
    assert isinstance(type, TensorType)
    order = order_of(type)
    if list(order) == sorted(order):
        return array.data
    import numpy as np

    elements = np.frombuffer(array.data, np.dtype((np.void, dtype_of(type.element_type).itemsize)))
    return memoryview(elements.reshape(array.shape).transpose(order).tobytes())
