"""Models that are computed in parts, on the stock runtime: the bits of the whole in less memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.devtools.comparison.compare import compare  # noqa: E402
from etir.dialects.et.executable import MethodOp  # noqa: E402
from etir.dialects.et.instructions import CallOp  # noqa: E402
from etir.passes.et.partial_execution import PartialExecutionPass  # noqa: E402


class Gated(nn.Module):
    """An inverted bottleneck with gates of channels, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.expand, self.deep = nn.Conv2d(16, 64, 1), nn.Conv2d(64, 64, 3, 1, 1, groups=64)
        self.gate, self.project = nn.Conv2d(64, 64, 1), nn.Conv2d(64, 16, 1)

    def forward(self, x: Any) -> Any:
        x = F.hardswish(self.stem(x))
        h = F.silu(self.deep(F.silu(self.expand(x))))
        return x + self.project(h * torch.sigmoid(self.gate(h.mean((2, 3), keepdim=True))))


class Encoder(nn.Module):
    """A layer of a transformer over 128 positions."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 256), nn.Linear(256, 32)
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.first(x)).view(1, 128, 3, 4, 8).permute(2, 0, 3, 1, 4)
        x = x + self.out((torch.softmax(q @ k.transpose(-1, -2), -1) @ v).transpose(1, 2).reshape(1, 128, 32))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Skips(nn.Module):
    """A U-Net: what is concatenated waits, and is an output besides."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.d = nn.Conv2d(3, 32, 3, 1, 1), nn.Conv2d(32, 64, 1)
        self.b = nn.Conv2d(64, 32, 3, 2, 1, groups=32)
        self.norm, self.c = nn.GroupNorm(8, 32), nn.Conv2d(64, 8, 1)

    def forward(self, x: Any) -> Any:
        first = F.relu(self.a(x))
        second = F.leaky_relu(self.norm(self.b(F.gelu(self.d(first)))))
        return self.c(torch.cat([first, F.interpolate(second, scale_factor=2)], 1)), second


class Remembers(nn.Module):
    """Reads a state in parts and writes it, in one branch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.ones(1, 32, 16, 16))
        self.conv = nn.Conv2d(3, 32, 3, 1, 1)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.conv(x)) * self.last
        self.last.copy_(torch.cond(x.mean() > 0, lambda v: v.sigmoid(), lambda v: v.neg(), (y,)))
        return F.max_pool2d(y, 2)


class Grows(nn.Module):
    """An image of a batch that changes, and weights of one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.scale = nn.Conv2d(3, 32, 3, 1, 1), nn.Parameter(torch.randn(1, 3, 32, 32))

    def forward(self, x: Any) -> Any:
        return F.max_pool2d(F.relu(self.conv(x + self.scale)), 2) + F.max_pool2d(F.relu(self.conv(self.scale)), 2)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float]] = {
    "gated": (Gated, (1, 3, 64, 64), 0.75),
    "encoder": (Encoder, (1, 128, 32), 0.9),
    "skips": (Skips, (1, 3, 32, 32), 1.0),
    "remembers": (Remembers, (1, 3, 16, 16), 1.0),
    "batch": (Gated, (4, 3, 32, 32), 0.75),
}
"""By name: the model, the shape of its input, and how small its plan is at least beside that of the whole."""


def exported(model: nn.Module, x: Any, **options: Any) -> Any:
    with torch.no_grad():
        return torch.export.export(model.eval(), (x,), **options)


def whole(program: Any, **options: Any) -> Any:
    """What is compiled without the pass."""
    with mock.patch.object(PartialExecutionPass, "run", lambda *_: None):
        return etir.compile(program, target="executorch", **options)


def planned(program: Any) -> int:
    return sum(sum(op.pool_sizes or ()) for op in program.module.body.block.ops if isinstance(op, MethodOp))


def calls(program: Any) -> int:
    return sum(isinstance(op, CallOp) for op in program.module.walk())


def stock(program: Any, inputs: list[Any]) -> list[Any]:
    """The outputs of several runs of one module, in order."""
    data = program.buffer
    module = portable_lib._load_for_executorch_from_buffer(data)
    return [out.clone() for x in inputs for out in module.run_method("forward", (x,))]


@pytest.mark.parametrize("name", MODELS)
def test_same_bits_in_less_memory(name: str) -> None:
    """Three runs, of which the last is the first again; etir's runtime and PyTorch compute the same."""
    make, shape, bar = MODELS[name]
    torch.manual_seed(0)
    model, x = make(), torch.randn(shape)
    program = exported(model, x)
    parts, before = etir.compile(program, target="executorch"), whole(program)
    assert etir.compile(program, target="executorch").buffer == parts.buffer
    assert calls(parts) > calls(before)
    assert planned(parts) < bar * planned(before)
    inputs = [x, -3 * x, x]
    found = stock(parts, inputs)
    assert all(torch.equal(a, b) for a, b in zip(found, stock(before, inputs), strict=True))
    own = etir.runtime.load(parts.buffer)
    for a, b in zip(found, [out for x in inputs for out in own.forward(x)], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        wanted = [out for x in inputs for out in torch.utils._pytree.tree_leaves(model(x))]
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_sizes_that_change() -> None:
    """What has them is not cut; what has not may be."""
    torch.manual_seed(0)
    model, x = Grows(), torch.randn(2, 3, 32, 32)
    program = exported(model, x, dynamic_shapes=({0: Dim("batch", min=1, max=4)},))
    parts = etir.compile(program, target="executorch")
    assert planned(parts) <= planned(whole(program))
    for batch in (1, 2, 4):
        x = torch.randn(batch, 3, 32, 32)
        torch.testing.assert_close(stock(parts, [x])[0], model(x).detach(), rtol=1e-4, atol=1e-4)


def test_weights_outside(tmp_path: Path) -> None:
    """They keep their names and bytes; what needs no weight may still be cut."""
    torch.manual_seed(0)
    model, x = Gated(), torch.randn(1, 3, 64, 64)
    program = exported(model, x)
    parts = etir.compile(program, target="executorch", external_weights="weights")
    before = whole(program, external_weights="weights")
    assert parts.external["weights"] == before.external["weights"]
    parts.save(tmp_path / "model.pte")
    module = portable_lib._load_for_executorch(str(tmp_path / "model.pte"), str(tmp_path / "weights.ptd"))
    torch.testing.assert_close(module.run_method("forward", (x,))[0], model(x).detach(), rtol=1e-4, atol=1e-4)


def test_the_file_is_as_large_as_before() -> None:
    """A part of a weight is in the file instead of the weight; tensors and calls are what it takes more."""
    torch.manual_seed(0)
    program = exported(Gated(), torch.randn(1, 3, 64, 64))
    parts, before = etir.compile(program, target="executorch"), whole(program)
    assert len(parts.buffer) - len(before.buffer) < planned(before) - planned(parts)


def test_a_target_without_the_feature() -> None:
    """The bytes of a program for etir's runtime are those without the pass, which does not run."""
    program = exported(Gated(), torch.randn(1, 3, 64, 64))
    compiled = etir.compile(program, target="etir")
    assert "partial-execution" not in compiled.pipeline


def test_instructions_are_compared() -> None:
    """Each part with what the interpreter makes of the inputs that the runtime had, by the line that it is of."""
    torch.manual_seed(0)
    x = torch.randn(1, 3, 64, 64)
    program = exported(Gated(), x)
    compiled = etir.compile(program, target="executorch", trace=True)
    found = compare(program, compiled, inputs=[[x]], runtime=["etir", "stock"])
    assert found.is_good
    for stage in found.stages:
        assert all((row.accumulated or 0.0) <= row.allowed and (row.local or 0.0) <= row.allowed for row in stage.rows)
    stock = next(stage for stage in found.stages if stage.name == "et/stock")
    parts = [row for row in stock.rows if "convolution" in row.what]
    assert len(parts) > 8
    assert all("test_partial_execution.py" in row.where for row in parts)
