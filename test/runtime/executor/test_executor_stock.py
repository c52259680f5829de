"""Files that the stock exporter writes, on this runtime: outputs as the stock runtime gives them, call after call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.executor import ExecutorError, External, Memory, Method, Program, build_executor

portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")
from etir_testing.interop.stock_samples import SAMPLES, Sample, stock_sample  # noqa: E402

FAMILIES = ("prim", "copy", "elementwise", "linalg")


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor(*FAMILIES)


def methods_of(library: Any, sample: Sample) -> tuple[Program, dict[str, Method]]:
    """Every method that is called."""
    program = Program(library, sample.pte)
    external = External(library, sample.ptd) if sample.ptd is not None else None
    made: dict[str, Method] = {}
    for name in dict.fromkeys(name for name, _ in sample.calls):
        made[name] = Method(program, name, external=external)
    return program, made


RUNNABLE = ("mlp", "mlp_aligned", "cond", "map", "mutable_initialized", "dynamic", "scalars", "methods", "stacktrace",
            "external", "unplanned")  # fmt: skip


@pytest.mark.parametrize("name", RUNNABLE)
def test_outputs_are_the_stock_runtimes(library: Any, name: str) -> None:
    sample = stock_sample(name)
    _, methods = methods_of(library, sample)
    stock = portable_lib._load_for_executorch_from_buffer(sample.pte, sample.ptd) if sample.ptd is not None else (
        portable_lib._load_for_executorch_from_buffer(sample.pte)
    )  # fmt: skip
    for method, args in sample.calls:
        expected = [v.clone() if isinstance(v, torch.Tensor) else v for v in stock.run_method(method, tuple(args))]
        for i, v in enumerate(expected):
            # What is not planned has to be given memory.
            if isinstance(v, torch.Tensor) and name == "unplanned":
                methods[method].set_output(i, Memory(v.nbytes))
        got = methods[method](*args)
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
            else:
                assert a == b and type(a) is type(b)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_file_loads_or_says_what_is_missing(library: Any, name: str) -> None:
    sample = stock_sample(name)
    program = Program(library, sample.pte)
    for method in program.names:
        external = External(library, sample.ptd) if sample.ptd is not None else None
        try:
            Method(program, method, external=external)
        except ExecutorError as error:
            assert error.check in ("OperatorMissing", "BackendMissing"), error
