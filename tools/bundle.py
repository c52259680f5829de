"""Bundled programs for ``et-translate --bundle`` and ``et-run --check``: made of arrays, checked against a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from etir.diagnostics import EtirError, SourceLocation
from etir.emit.bundled.model import BundledProgram, Case, Suite, Tensor, Value
from etir.emit.formats.scalar_type import NUMPY_NAMES, ScalarType
from etir.emit.pte import model as pte
from etir.tools.errors import E0910, E0920

if TYPE_CHECKING:
    import numpy as np

RTOL, ATOL = 1e-3, 1e-5
"""By how much outputs may differ by default: of what is expected, and besides."""

Run = Callable[[str, Sequence[Any]], Sequence[Any]]
"""Runs a method on inputs, and gives its outputs: arrays, numbers, strings or None."""


def bundle(
    program: bytes,
    plan: pte.ExecutionPlan,
    inputs: Sequence[Sequence[Any]],
    expected: Sequence[Sequence[Any]],
) -> BundledProgram:
    """The program with one case for each list of ``inputs``, arrays in the order of the method's.

    Raises ``EtirError`` E0910 for arrays that do not fit the method.
    """
    if len(inputs) != len(expected):
        raise E0910.error(f"there are {len(inputs)} files of inputs and {len(expected)} of expected outputs")
    cases = [
        Case(_values(plan, plan.inputs, given, f"inputs {i}"), _values(plan, plan.outputs, wanted, f"expected {i}"))
        for i, (given, wanted) in enumerate(zip(inputs, expected, strict=True))
    ]
    return BundledProgram(program, (Suite(plan.name, tuple(cases)),))


def _values(plan: pte.ExecutionPlan, indices: Sequence[int], arrays: Sequence[Any], where: str) -> tuple[Value, ...]:
    import numpy as np

    if len(arrays) != len(indices):
        raise E0910.error(f"{where}: {len(arrays)} arrays, '{plan.name}' has {len(indices)}")
    found: list[Value] = []
    for number, (index, array) in enumerate(zip(indices, arrays, strict=True)):
        place = f"{where}, array {number}"
        match plan.values[index]:
            case pte.Tensor() as tensor:
                found.append(_tensor(tensor, np.asarray(array), place))
            case pte.Bool():
                found.append(bool(array))
            case pte.Int():
                found.append(int(array))
            case pte.Double():
                found.append(float(array))
            case other:
                kind = type(other).__name__
                raise E0910.error(f"{place}: a bundled program has no place for a value of kind {kind}")
    return tuple(found)


def _tensor(tensor: pte.Tensor, array: np.ndarray[Any, Any], where: str) -> Tensor:
    import numpy as np

    wanted = NUMPY_NAMES.get(tensor.scalar_type)
    shape = array.shape
    if tensor.scalar_type is ScalarType.BFLOAT16 and array.dtype == np.float32:
        array = _to_bfloat16(array)
    elif array.dtype != wanted:
        raise E0910.error(f"{where} is {array.dtype}, the method has {wanted or tensor.scalar_type.name.lower()}")
    static = tensor.shape_dynamism is pte.TensorShapeDynamism.STATIC
    if len(shape) != len(tensor.sizes) or (static and shape != tensor.sizes):
        raise E0910.error(f"{where} has the shape {list(shape)}, the method has {list(tensor.sizes)}")
    data = np.array(array.transpose(tensor.dim_order), order="C").tobytes()
    return Tensor(tensor.scalar_type, tuple(shape), tensor.dim_order, data)


def _to_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The upper halves of float32, rounded to even."""
    import numpy as np

    bits = array.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)


def array_of(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The elements as an array; bfloat16 as float32. Raises ``EtirError`` E0910 for a dtype without arrays, and for
    another number of bytes than the sizes say.
    """
    import numpy as np

    name = "uint16" if tensor.scalar_type is ScalarType.BFLOAT16 else NUMPY_NAMES.get(tensor.scalar_type)
    if name is not None and len(tensor.data) != prod(tensor.sizes) * np.dtype(name).itemsize:
        raise E0910.error(f"a tensor of sizes {list(tensor.sizes)} has {len(tensor.data)} bytes")
    if tensor.scalar_type is ScalarType.BFLOAT16:
        flat = (np.frombuffer(tensor.data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif name is None:
        raise E0910.error(f"there are no arrays of {tensor.scalar_type.name.lower()}")
    else:
        flat = np.frombuffer(tensor.data, name)
    there = flat.reshape([tensor.sizes[d] for d in tensor.dim_order])
    return there.transpose([tensor.dim_order.index(d) for d in range(len(tensor.sizes))])


def check(bundled: BundledProgram, run: Run, name: str, *, rtol: float = RTOL, atol: float = ATOL) -> Iterator[str]:
    """A line for each case that gives what is expected. Raises ``EtirError`` E0920 with all that do not."""
    wrong: list[str] = []
    for suite in bundled.suites:
        for number, case in enumerate(suite.cases):
            inputs = [array_of(value) if isinstance(value, Tensor) else value for value in case.inputs]
            found = difference(case.expected, run(suite.method, inputs), rtol, atol)
            label = f"{suite.method}, case {number}"
            if found is None:
                yield f"{label}: {len(case.expected)} outputs as expected"
            else:
                wrong.append(f"{label}: {found}")
    if wrong:
        raise EtirError([E0920.diagnostic(text, SourceLocation(name)) for text in wrong])


def difference(expected: Sequence[Value], found: Sequence[Any], rtol: float, atol: float) -> str | None:
    """What is not as expected, or None. Integers and bools are compared exactly; NaN is NaN."""
    import numpy as np

    if len(expected) not in (0, len(found)):
        return f"{len(expected)} outputs are expected, there are {len(found)}"
    for i, (value, output) in enumerate(zip(expected, found, strict=False)):
        wanted = array_of(value) if isinstance(value, Tensor) else np.asarray(value)
        got = np.asarray(output)
        if got.dtype.kind in "OUS" or got.shape != wanted.shape or got.dtype.kind != wanted.dtype.kind:
            return f"output {i} is {got.dtype}{list(got.shape)}, {wanted.dtype}{list(wanted.shape)} is expected"
        if wanted.dtype.kind in "fc":
            good = np.isclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
        else:
            good = got == wanted
        if not np.all(good):
            first = tuple(int(k) for k in np.argwhere(~good)[0])
            count = int(np.size(good) - np.count_nonzero(good))
            at = f" at {list(first)}" if first else ""
            return (
                f"output {i}: {count} of {np.size(good)} elements differ, the first{at} is {got[first]}, "
                f"{wanted[first]} is expected"
            )
    return None
