"""ExecuTorch's operators for language models: compiled for both targets, run on both runtimes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")
pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
moe = pytest.importorskip("executorch.examples.models.llama.source_transformation.moe")

from torch.export import Dim, export  # noqa: E402

import etir  # noqa: E402
from etir.emit.from_pte import read_program  # noqa: E402
from etir.emit.to_pte import emit_program  # noqa: E402

from etir_testing.interop.program_runs import assert_same, eager, error_of, interpreted  # noqa: E402
from etir_testing.runtime.executor import Method, Program, build_executor  # noqa: E402
from etir_testing.runtime.moe_weights import Experts  # noqa: E402


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor("copy", "elementwise", "llm", "prim")


class Block(torch.nn.Module):
    """The module that ExecuTorch puts in the place of a mixture of experts, and a residual around it."""

    def __init__(self, experts: Experts):
        super().__init__()
        gate, bias, w13, w2, active, number, hidden, dim, group_size, bits, score, route_scale = experts.arguments
        self.experts = moe.QuantizedMoEFFN(
            gate, bias if bias.numel() else None, w13, w2, num_experts=number, num_activated_experts=active,
            hidden_dim=hidden, dim=dim, group_size=group_size, weight_nbit=bits, score_func=score,
            route_scale=route_scale,
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.experts(x)


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "4 bits": ({}, False),
    "8 bits, softmax": ({"bits": 8, "score": "softmax", "bias": False, "dim": 48, "group_size": 16}, False),
    "any number of tokens": ({"experts": 6, "active": 3, "hidden": 96}, True),
}


@pytest.mark.parametrize("name", list(CASES))
def test_mixture_of_experts(library: Any, name: str) -> None:
    """Both runtimes give what eager gives, in the memory that the compiler reports."""
    options, dynamic = CASES[name]
    module = Block(Experts(**options)).eval()
    dim = options.get("dim", 32)
    sizes = {"dynamic_shapes": (({0: Dim("rows", min=1, max=6), 1: Dim("tokens", min=2, max=16)}),)} if dynamic else {}
    calls = [(values(3, 5, dim, seed=i),) for i in range(2)]
    if dynamic:
        calls += [(values(6, 16, dim, seed=3),), (values(1, 2, dim, seed=4),)]
    program = export(module, calls[0], **sizes)
    expected = eager(module, calls)
    own = etir.compile(program, target="etir")
    stock = etir.compile(program, target="executorch", link_libraries=["custom_ops"])
    for compiled in (own, stock):
        assert compiled.report().methods[0].operators["llama::quantized_moe_ffn.out"] == 1
    assert_same(interpreted(own.module, calls, "torch"), expected, "executable level", 1e-5)
    assert emit_program(read_program(own.buffer)).pte() == own.buffer
    memory = own.runtime_memory()["forward"]
    loaded = Method(Program(library, own.buffer), temp=memory.temp)
    theirs = portable_lib._load_for_executorch_from_buffer(stock.buffer)
    for (x,), outputs in zip(calls, expected.outputs, strict=True):
        (got,) = loaded(x)
        torch.testing.assert_close(got, outputs[0], rtol=1e-5, atol=1e-5)
        (got_of_theirs,) = theirs.run_method("forward", (x,))
        torch.testing.assert_close(got, got_of_theirs, rtol=1e-5, atol=1e-5)
    # Every byte is used when a call has the most tokens.
    assert loaded.number(1) == memory.temp > 0


def test_a_library_that_is_not_linked() -> None:
    """The stock runtime has the kernel in a library of its own."""
    program = export(Block(Experts()).eval(), (values(1, 2, 32),))
    error = error_of(lambda: etir.compile(program, target="executorch"))
    assert error.ids == ("E0605",) and "'custom_ops'" in str(error)
