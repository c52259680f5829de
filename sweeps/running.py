"""Runs of a compiled program, by target: the runtime that this process has for it, if any."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from etir.sweeps.errors import E1913

Run = Callable[[Sequence[Any]], list[Any]]
"""From the flat inputs of a call to its outputs, on one loaded method, whose state goes on."""

SECONDS, RUNS = 0.3, 7
"""How long a program is run at least to time it, and how often."""


def runtime_of(target: str, data: bytes, external: Sequence[bytes] = ()) -> Run | str:
    """Method ``forward`` loaded on the runtime of ``target``; where it cannot run in this process, why.

    Raises error E1913 for a program that cannot be loaded.
    """
    if target == "etir":
        return _own(data, external)
    if target == "executorch":
        return _stock(data, external)
    return f"there is no runtime for target '{target}' here"


def _own(data: bytes, external: Sequence[bytes]) -> Run | str:
    from etir import runtime

    if not runtime.is_available():
        return "etir's runtime is not built"
    method = runtime.load(data, list(external), native="trusted")["forward"]
    return lambda inputs: list(method(*inputs))


def _stock(data: bytes, external: Sequence[bytes]) -> Run | str:
    try:
        from executorch.runtime import Runtime, Verification  # pyright: ignore[reportMissingImports]
    except ImportError:
        return "executorch is not installed"
    if len(external) > 1:
        return f"the stock runtime's Python package loads one file of external weights, not {len(external)}"
    checked = Verification.InternalConsistency
    try:
        with tempfile.NamedTemporaryFile(suffix=".ptd") as file:  # Loading maps it; its name is not needed after that.
            file.write(b"".join(external))
            file.flush()
            path = file.name if external else None
            program = Runtime.get().load_program(data, verification=checked, data_path=path)
            method: Any = program.load_method("forward")
    except (RuntimeError, ValueError) as error:
        raise E1913.error(f"the stock runtime does not load it: {_line(error)}") from error

    if method is None:  # So the binding says that there is no such program.
        raise E1913.error("the stock runtime does not load it")

    def run(inputs: Sequence[Any], keep: Any = (program, data)) -> list[Any]:
        try:
            outputs = cast("Sequence[Any]", method.execute(tuple(inputs)))
        except RuntimeError as error:
            raise E1913.error(f"the stock runtime: {_line(error)}") from error
        return [o.clone() if hasattr(o, "clone") else o for o in outputs]

    return run


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def difference(outputs: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference between paired tensors over the largest magnitude of the expected one.

    Infinite where their number, a shape or a dtype differs, or where a NaN stands on one side only.
    """
    import torch

    found = [torch.as_tensor(value) for value in outputs if value is not None]
    wanted = [torch.as_tensor(value) for value in expected if value is not None]
    if len(found) != len(wanted):
        return float("inf")
    worst = 0.0
    for one, other in zip(found, wanted, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return float("inf")
        if not other.numel():
            continue
        kind = torch.complex128 if other.is_complex() else torch.float64
        given, right = one.to(kind), other.to(kind)
        same = (given == right) | (given.isnan() & right.isnan())
        off = torch.where(same, torch.zeros_like(given), given - right).abs().max().item()
        if off != off:
            return float("inf")
        scale = right[right.isfinite()].abs().max().item() if right.isfinite().any() else 1.0
        worst = max(worst, off / max(scale, 1e-12))
    return worst


def median_seconds(run: Run, inputs: Sequence[Any]) -> float:
    """The median of some runs, after one that is not counted. Raises what the runtime does."""
    run(inputs)
    found: list[float] = []
    while len(found) < RUNS or sum(found) < SECONDS:
        start = time.perf_counter()
        run(inputs)
        found.append(time.perf_counter() - start)
        if sum(found) > 20 * SECONDS and len(found) > 2:
            break
    return statistics.median(found)
