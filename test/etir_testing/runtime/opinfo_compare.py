"""Repeats a recorded call on the runtime's kernel and compares its results with eager's.

Results are compared at the tolerances of ``torch.testing.assert_close``, or those of the OpInfo where it has its own. A
result outside of them passes, as in torch's own tests of its references, when it is nearer than eager's to what eager
gives in double: most of eager's kernels for 16-bit floats round after every step, these round once. Where both round
alike but in another order, it may be farther from it, by the factors of ``FACTORS``. Those results are counted, and how
far the farthest is. The functions of ``EXACT``, for which eager's doubles are wrong, are compared with their exact
values instead. What a kernel refuses counts as a failure when the manifest claims it, and as *not claimed* otherwise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import torch
from torch.testing._comparison import default_tolerances

from etir_testing.runtime.kernels import DTYPES, KernelFailure, Kernels, dim_order
from etir_testing.runtime.opinfo_calls import Call, Excluded, Kernel, flat, rows
from etir_testing.runtime.opinfo_report import Tally

RANDOM = (
    *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm"),
    *("bernoulli", "native_dropout", "normal", "multinomial", "uniform"),
)
"""Operators whose values are compared by shape and dtype only; their tests check distributions."""

UNDEFINED = ("empty", "empty_like", "empty_strided", "new_empty", "_empty_dim_order", "resize")
"""Operators whose values are whatever was in memory."""

ANY_INDEX = ("topk", "sort", "kthvalue", "mode", "median", "nanmedian")
"""Operators that may give the index of any of several equal elements: (values, indices) along the argument ``dim``."""

_FORWARD_TESTS = (None, "TestCommon", "TestUnaryUfuncs", "TestBinaryUfuncs", "TestReductions", "TestLinalg")
"""Torch's test classes whose tolerances for an OpInfo are those of its forward results."""

FACTORS = {torch.float32: 2.0, torch.complex64: 2.0, torch.float16: 1.01, torch.bfloat16: 1.01}
"""How many times as far as eager's a result outside of the tolerance may be from what eager gives in double."""

EXACT = {
    "special_bessel_j0": lambda x: mpmath.besselj(0, x),
    "special_bessel_y1": lambda x: mpmath.bessely(1, x),
}
"""What judges double results where torch's own are off: between 1e-7 and 1e-6 around 5, for these."""

Tolerances = dict[torch.dtype, tuple[float, float]]
"""Relative and absolute tolerance by dtype, where an OpInfo has its own."""


@functools.cache
def _manifest_entry(name: str) -> Any:
    from etir.targets.manifest import kernel_entry

    return kernel_entry(name, rows()[name] | {"library": "etir"})


def refusal(kernel: Kernel, arguments: Sequence[Any], results: Sequence[Any]) -> str | None:
    """Why the manifest says that the kernel does not take such a call; None if it says that it does."""
    from etir.emit.formats.scalar_type import ScalarType

    tensors: dict[str, Any] = {}
    orders: dict[str, Any] = {}
    others: dict[str, Any] = {}
    inputs = [a for a in kernel.schema.arguments if not a.is_out]
    outs = [a for a in kernel.schema.arguments if a.is_out]
    for argument, value in [*zip(inputs, arguments, strict=True), *zip(outs, results, strict=True)]:
        if "Tensor" in str(argument.type):
            items = value if isinstance(value, (list, tuple)) else [value]
            present = [i for i in items if i is not None]
            numbers = [DTYPES[i.dtype] for i in present]
            of = [dim_order(i) for i in present]
            if isinstance(value, (list, tuple)):
                tensors[argument.name], orders[argument.name] = numbers, of
            else:
                tensors[argument.name] = numbers[0] if numbers else None
                orders[argument.name] = of[0] if of else None
        else:
            others[argument.name] = ScalarType(DTYPES[value]) if isinstance(value, torch.dtype) else value
    return _manifest_entry(kernel.name).check(tensors, orders, None, others)


def check_call(kernels: Kernels, call: Call, tolerances: Tolerances, tally: Tally) -> None:
    """Repeat one recorded call on the kernel and compare."""
    kernel = call.kernel
    assert kernel is not None
    try:
        arguments, results = call.prepared()
    except Excluded as reason:
        tally.excluded[str(reason)] += 1
        return
    described = _describe(arguments)
    dtypes = _describe_dtypes([*arguments, *results])
    try:
        # Results that were not asked for are None; a file has some tensor there.
        got = kernels.call(kernel.name, arguments, [torch.empty(0) if r is None else r for r in results])
    except KernelFailure as failure:
        refused = refusal(kernel, arguments, results)
        if refused is not None:
            tally.not_claimed[f"{dtypes} {refused.split(':')[0].removeprefix('unsupported ')}"] += 1
            return
        tally.failed[dtypes] += 1
        tally.failures.append(f"{described}: refused: {failure}")
        return
    given = dict(zip((a.name for a in kernel.schema.arguments if not a.is_out), arguments, strict=True))
    try:
        nearer = _compare_results(call, given, got, results, tolerances)
    except AssertionError as error:
        tally.failed[dtypes] += 1
        tally.failures.append(f"{described}: {' '.join(str(error).split())[:300]}")
        return
    if nearer is not None:
        tally.nearer += 1
        tally.add(Tally(farthest=nearer))
    tally.passed[dtypes] += 1


def _compare_results(
    call: Call, given: dict[str, Any], got: Sequence[Any], results: Sequence[Any], tolerances: Tolerances
) -> dict[str, float] | None:
    """Compare results, and what was written into arguments, as the operator asks for.

    Those that pass by how near they are to what eager gives in double: by dtype, how many times as far as eager's.
    """
    assert call.kernel is not None
    base = call.kernel.base
    pairs = [(given[name], wanted) for name, wanted in call.written.items()]
    pairs += [(a, w) for a, w in zip(flat(got), flat(results), strict=True) if w is not None]
    if base in UNDEFINED or base in RANDOM:
        for actual, wanted in pairs:
            assert actual.shape == wanted.shape, f"{actual.shape} {wanted.shape}"
        return None
    if base in ANY_INDEX and len(pairs) == 2:
        _compare_indices(given, got, results)
        return None
    try:
        for actual, wanted in pairs:
            _compare(actual, wanted, tolerances)
    except AssertionError:
        if base in EXACT and results[0].dtype == torch.float64:
            _compare(got[0], _exactly(EXACT[base], next(iter(given.values()))), tolerances)
            return None
        nearer = _nearer(call, pairs, tolerances)
        if nearer is None:
            raise
        return nearer
    return None


def _exactly(function: Callable[[float], Any], x: torch.Tensor) -> torch.Tensor:
    """A function of each element, in as many digits as a double has. What is no real number is NaN."""
    values = [function(v) if math.isfinite(v) else math.nan for v in x.double().flatten().tolist()]
    real = [float(v) if isinstance(v, (float, mpmath.mpf)) else math.nan for v in values]
    return torch.tensor(real, dtype=torch.float64).reshape(x.shape)


def _compare(actual: torch.Tensor, wanted: torch.Tensor, tolerances: Tolerances) -> None:
    rtol, atol = tolerances.get(wanted.dtype, default_tolerances(wanted.dtype))
    if actual.dtype == wanted.dtype == torch.complex32:  # which torch cannot compare
        actual, wanted = actual.to(torch.complex64), wanted.to(torch.complex64)
    if actual.dtype == wanted.dtype and torch.equal(actual, wanted):
        return
    torch.testing.assert_close(actual, wanted, rtol=rtol, atol=atol, equal_nan=True)


def _nearer(
    call: Call, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], tolerances: Tolerances
) -> dict[str, float] | None:
    """How many times as far as eager's from what eager gives in double are the results outside of the tolerances.

    By dtype; None when FACTORS do not allow it.
    """
    try:
        precise = [p for p in call.precise() if p is not None]
    except RuntimeError:
        return None
    farthest: dict[str, float] = {}
    for (actual, wanted), exact in zip(pairs, precise, strict=True):
        try:
            _compare(actual, wanted, tolerances)
        except AssertionError:
            inexact = wanted.is_floating_point() or wanted.is_complex()
            if not inexact or actual.shape != wanted.shape or actual.dtype != wanted.dtype:
                return None
            own, eager = _distance(actual, exact), _distance(wanted, exact)
            if exact.dtype == actual.dtype or not own <= FACTORS.get(wanted.dtype, 1.0) * eager:
                return None
            name = str(wanted.dtype).removeprefix("torch.")
            farthest[name] = max(farthest.get(name, 0.0), own / eager)
    return farthest


def _distance(actual: torch.Tensor, exact: torch.Tensor) -> float:
    actual = actual.to(exact.dtype)
    same = (actual == exact) | (actual.isnan() & exact.isnan())
    return float(torch.where(same, 0, (actual - exact).abs()).sum())


def _compare_indices(given: dict[str, Any], got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> None:
    """The same values, and indices, no two equal, of elements that have them."""
    torch.testing.assert_close(got[0], wanted[0], rtol=0, atol=0, equal_nan=True)
    source, dim, (values, indices) = given["self"], given["dim"], got
    assert indices.dtype == wanted[1].dtype and indices.shape == wanted[1].shape, f"{indices.dtype} {indices.shape}"
    if source.dim() == 0 or indices.numel() == 0:
        assert not indices.any(), "the index into a number is not 0"
        return
    if values.dim() < source.dim():
        values, indices = values.unsqueeze(dim), indices.unsqueeze(dim)
    assert ((indices >= 0) & (indices < source.size(dim))).all(), "an index is out of range"
    torch.testing.assert_close(source.gather(dim, indices), values, rtol=0, atol=0, equal_nan=True)
    ordered = indices.sort(dim).values
    assert (ordered.diff(dim=dim) != 0).all(), "an index occurs twice"


def _describe(arguments: Sequence[Any]) -> str:
    def one(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            layout = "" if value.is_contiguous() else f"@{list(dim_order(value))}"
            numbers = f"={value.tolist()}" if value.numel() == 1 else ""
            return f"{str(value.dtype)[6:]}{list(value.shape)}{layout}{numbers}"
        if isinstance(value, list):
            return f"[{', '.join(map(one, value))}]"
        return repr(value)

    return f"({', '.join(map(one, arguments))})"


def _describe_dtypes(values: Sequence[Any]) -> str:
    """The dtype of the first tensor, and those of others where they differ."""
    dtypes = [str(v.dtype)[6:] for v in flat(values) if isinstance(v, torch.Tensor)]
    return "/".join(dict.fromkeys(dtypes))


def tolerances_of(op: Any, dtype: torch.dtype) -> Tolerances:
    """Relative and absolute tolerance by dtype, where the OpInfo asks for more than the usual."""
    from torch.testing._internal.common_device_type import toleranceOverride

    found: Tolerances = {}
    for info in op.decorators:
        if getattr(info, "cls_name", "") not in _FORWARD_TESTS or info.device_type not in (None, "cpu"):
            continue
        if info.dtypes is not None and dtype not in info.dtypes:
            continue
        for decorator in info.decorators:
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                rtol, atol = found.get(dtype, default_tolerances(dtype))
                found[dtype] = max(rtol, decorator.d[dtype].rtol), max(atol, decorator.d[dtype].atol)
    return found
