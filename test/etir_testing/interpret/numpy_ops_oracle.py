"""Comparing the NumPy operators with torch, one overload at a time.

:class:`Checked` is a dispatch mode: whatever runs under it, every ATen overload that reaches the dispatcher is run by
the NumPy operator of the same name too, on the same arguments, and the results are compared in shape, dtype and value.
:func:`check_call` does the same for one overload that is called directly, which also covers composite operators that
torch decomposes before they reach a mode. Neither lets an operator change its arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from etir.diagnostics import EtirError
from etir.interpret.numpy_ops import lookup

RELATIVE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-11, "complex64": 1e-5, "complex128": 1e-11}
ABSOLUTE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-11, "complex64": 1e-5, "complex128": 1e-11}

RANDOM = {
    "aten.bernoulli.p",
    "aten.native_dropout.default",
    "aten.normal_functional.default",
    "aten.rand.default",
    "aten.rand_like.default",
    "aten.randint.default",
    "aten.randint.low",
    "aten.randn.default",
    "aten.randn_like.default",
    "aten.randperm.default",
}
"""Operators that draw random numbers: compared in shape and dtype only."""

UNINITIALIZED = {
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_permuted.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
    "dim_order_ops._empty_dim_order.default",
}
"""Operators whose values torch leaves open: compared in shape and dtype only."""

RANKED = {
    "aten.argsort.default": (None, 1),
    "aten.kthvalue.default": (1, 2),
    "aten.sort.default": (1, 1),
    "aten.topk.default": (1, 2),
}
"""Operators that may name any of several equal elements: which result has the positions (``None``: the only one), and
where the ``dim`` argument stands. What the positions point to is compared, not the positions."""


@dataclass
class Tally:
    """How often each overload was compared, and the first difference of each that differed."""

    passed: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)


def overload_name(overload: Any) -> str:
    """``aten.add.Tensor`` of ``torch.ops.aten.add.Tensor``."""
    return str(overload)


def to_numpy(value: Any) -> Any:
    """A torch argument as the NumPy operators take it."""
    if isinstance(value, torch.Tensor):
        return value.detach().resolve_conj().resolve_neg().numpy()
    if isinstance(value, torch.dtype):
        return np.dtype(str(value).removeprefix("torch."))
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [to_numpy(v) for v in value]
    return value


def representable(value: Any) -> bool:
    """Whether NumPy has the dtypes in ``value``: it has no bfloat16, complex32 or float8, nor sparse layouts."""
    if isinstance(value, torch.Tensor):
        return value.layout == torch.strided and representable(value.dtype) and not value.is_quantized
    if isinstance(value, torch.dtype):
        return hasattr(np, str(value).removeprefix("torch."))
    if isinstance(value, (list, tuple)):
        return all(representable(v) for v in value)
    if isinstance(value, dict):
        return all(representable(v) for v in value.values())
    return True


def difference(name: str, expected: Any, actual: Any, rtol: float | None, atol: float | None) -> str | None:
    """What differs between torch's result and NumPy's, or ``None``."""
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return f"expected {len(expected)} results, got {type(actual).__name__}"
        for i, (e, a) in enumerate(zip(expected, actual, strict=True)):
            if (found := difference(name, e, a, rtol, atol)) is not None:
                return f"result {i}: {found}"
        return None
    if not isinstance(expected, torch.Tensor):
        same = expected == actual or (expected != expected and actual != actual)
        return None if same and type(expected) is type(actual) else f"expected {expected!r}, got {actual!r}"
    if not isinstance(actual, np.ndarray):
        return f"expected an array, got {type(actual).__name__}"
    wanted = to_numpy(expected)
    if wanted.dtype != actual.dtype or wanted.shape != actual.shape:
        return f"expected {wanted.dtype}{list(wanted.shape)}, got {actual.dtype}{list(actual.shape)}"
    if name in RANDOM or name in UNINITIALIZED:
        return None
    relative = RELATIVE.get(actual.dtype.name, 0.0) if rtol is None else rtol
    absolute = ABSOLUTE.get(actual.dtype.name, 0.0) if atol is None else atol
    with np.errstate(all="ignore"):
        if np.allclose(actual, wanted, rtol=relative, atol=absolute, equal_nan=True):
            return None
        error = np.max(np.abs(actual.astype(np.complex128) - wanted.astype(np.complex128)))
    return f"largest error {error}: expected {wanted.reshape(-1)[:8]}, got {actual.reshape(-1)[:8]}"


def compare(
    name: str,
    expected: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> str | None:
    """Run the NumPy operator ``name`` on torch arguments and compare with ``expected``; ``None`` when all is well."""
    function = lookup(name)
    if function is None:
        return "is not implemented"
    arguments, keywords = [to_numpy(a) for a in args], {k: to_numpy(v) for k, v in kwargs.items()}
    before = [a.tobytes() for a in _arrays([*arguments, *keywords.values()])]
    try:
        actual = function(*arguments, **keywords)
    except EtirError as error:
        return str(error)
    if before != [a.tobytes() for a in _arrays([*arguments, *keywords.values()])]:
        return "changed its arguments"
    if name in RANKED:
        actual = _with_ties_settled(name, expected, actual, arguments, kwargs)
    return difference(name, expected, actual, rtol, atol)


def _with_ties_settled(name: str, expected: Any, actual: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """NumPy's result, with torch's positions in place of its own where both point to equal elements."""
    which, dim_argument = RANKED[name]
    wanted = to_numpy(expected if which is None else expected[which])
    found = actual if which is None else actual[which]
    if wanted.shape != found.shape or wanted.dtype != found.dtype or not wanted.size:
        return actual
    dim = kwargs.get("dim", args[dim_argument] if len(args) > dim_argument else -1)
    data = args[0].reshape(1) if args[0].ndim == 0 else args[0]
    dropped = found.ndim < data.ndim
    elements = [np.take_along_axis(data, np.expand_dims(p, dim) if dropped else p, dim) for p in (wanted, found)]
    if not np.array_equal(*elements, equal_nan=data.dtype.kind in "fc"):
        return actual
    return wanted if which is None else (actual[0], wanted)


def _arrays(values: Sequence[Any]) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for value in values:
        if isinstance(value, np.ndarray):
            found.append(value)
        elif isinstance(value, list):
            found.extend(_arrays(value))
    return found


def check_call(
    tally: Tally,
    overload: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Call ``overload`` in torch and in NumPy and enter the comparison in ``tally``."""
    name = overload_name(overload)
    expected = overload(*args, **(kwargs or {}))
    enter(tally, name, compare(name, expected, args, kwargs or {}, rtol=rtol, atol=atol), args, kwargs or {})


def enter(tally: Tally, name: str, found: str | None, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Count a comparison, with what it found."""
    if found is None:
        tally.passed[name] += 1
    elif name not in tally.failed:
        tally.failed[name] = f"{found}\n    arguments {_summary(list(args))} {_summary(kwargs)}"


def _summary(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_summary(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_summary(v) for v in value)}]"
    return repr(value)


class Checked(TorchDispatchMode):
    """Compares every overload that is dispatched under it and that NumPy has; see the module."""

    def __init__(self, tally: Tally, tolerances: dict[str, tuple[float, float]], skipped: Sequence[str] = ()):
        super().__init__()
        self.tally = tally
        self.tolerances = tolerances
        self.skipped = skipped

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = overload_name(func)
        known = lookup(name) is not None and name not in self.skipped
        if known and representable(args) and representable(kwargs) and representable(result):
            rtol, atol = self.tolerances.get(name, (None, None))
            enter(self.tally, name, compare(name, result, args, kwargs, rtol=rtol, atol=atol), args, kwargs)
        return result
