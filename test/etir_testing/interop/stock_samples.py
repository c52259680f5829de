"""Small modules and the files that the stock exporter makes of them, one per feature of the file formats."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from functorch.experimental.control_flow import map as map_over
from torch import nn
from torch.export import Dim, export

from etir_testing import ROOT
from etir_testing.exports import artifact, digest, versions


@dataclass(frozen=True)
class Sample:
    """A ``.pte``, its ``.ptd`` if it has one, and calls to make, in order."""

    pte: bytes
    calls: list[tuple[str, tuple[Any, ...]]]
    ptd: bytes | None = None


def stock_sample(name: str) -> Sample:
    """The sample of ``SAMPLES``, made once with the seed 0 and then kept by content (``etir_testing.exports``)."""

    def make() -> bytes:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            made = SAMPLES[name]()
        file = io.BytesIO()
        torch.save((made.pte, made.calls, made.ptd), file)
        return file.getvalue()

    key = [digest(__file__), versions("torch", "executorch"), str(ROOT)]
    return Sample(*torch.load(io.BytesIO(artifact(f"stock-{name}.sample", key, make)), weights_only=False))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Conv(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


class Cond(nn.Module):
    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(flag, lambda a: a + 1, lambda a: a * 2, (x,))


class Map(nn.Module):
    def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return map_over(lambda x, z: x * z + 1, xs, y)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor([3.0, 4.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        return self.count * 2


class Several(nn.Module):
    """Tensor lists, optional tensor lists, strings, doubles, nothing, and outputs of several kinds."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[Any, ...]:
        a, b = torch.split(x, [1, 3], dim=1)
        values, indices = torch.topk(x, 2)
        gelu = torch.nn.functional.gelu(a, approximate="tanh")
        full = torch.full_like(b, float("-inf"))
        return gelu, b, values, {"i": indices, "f": full}, x[:, index], torch.cat([x, x]), x.sum(), x.size(0)


class Dynamic(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.reshape(x.size(0) * 2, -1)) + 1


class Scalars(nn.Module):
    def forward(self, x: torch.Tensor, n: int, f: float, b: bool, s: None) -> torch.Tensor:
        return (x * f + n) * (2 if b else 3)


def _export(module: nn.Module, args: tuple[Any, ...], **options: Any) -> torch.export.ExportedProgram:
    return export(module.eval(), args, strict=False, **options)


def _edge(module: nn.Module | dict[str, Any], args: tuple[Any, ...] = (), **options: Any) -> Any:
    programs = module if isinstance(module, dict) else _export(module, args, **options)
    return to_edge(programs, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def _lower(module: nn.Module, args: tuple[Any, ...], **config: Any) -> Any:
    return _edge(module, args).to_executorch(ExecutorchBackendConfig(**config))


def _xnnpack(**config: Any) -> Sample:
    args = (torch.randn(2, 8),)
    edge = to_edge_transform_and_lower(_export(Mlp(), args), partitioner=[XnnpackPartitioner()])
    return Sample(edge.to_executorch(ExecutorchBackendConfig(**config)).buffer, [("forward", args)])


def _plain(module: nn.Module, *calls: tuple[Any, ...], **config: Any) -> Sample:
    return Sample(_lower(module, calls[0], **config).buffer, [("forward", args) for args in calls])


def _external() -> Sample:
    args = (torch.randn(2, 8),)
    program = _lower(Mlp(), args, external_constants=True)
    with TemporaryDirectory() as folder:
        program.write_tensor_data_to_file(folder)
        (ptd,) = (path.read_bytes() for path in Path(folder).iterdir())
    return Sample(program.buffer, [("forward", args)], ptd)


def _dynamic() -> Sample:
    edge = _edge(Dynamic(), (torch.randn(4, 6),), dynamic_shapes={"x": {0: Dim("n", min=1, max=9)}})
    calls = [("forward", (torch.randn(n, 6),)) for n in (4, 9, 1)]
    return Sample(edge.to_executorch().buffer, calls)


def _methods() -> Sample:
    args = (torch.randn(2, 8),)
    mlp = Mlp()
    edge = to_edge(
        {"forward": _export(mlp, args), "again": _export(mlp, args)},
        constant_methods={"get_number": 7, "get_all": [1.5, True, "text", torch.arange(3)]},
    )
    calls = [("forward", args), ("again", args), ("get_number", ()), ("get_all", ())]
    return Sample(edge.to_executorch().buffer, calls)


def _initialized() -> Sample:
    args = (torch.ones(2),)
    program = _lower(Counter(), args, passes=[InitializedMutableBufferPass(["count"])])
    return Sample(program.buffer, [("forward", args), ("forward", args)])


def _shared_state() -> Sample:
    x = torch.ones(2)
    edge = _edge({"forward": _export(Counter(), (x,)), "other": _export(Counter(), (x,))})
    planning = MemoryPlanningPass(share_mutable_buffers=True)
    config = ExecutorchBackendConfig(memory_planning_pass=planning, emit_mutable_buffer_names=True)
    return Sample(edge.to_executorch(config).buffer, [])


_X = torch.linspace(-2, 2, 8).reshape(2, 4)

SAMPLES: dict[str, Callable[[], Sample]] = {
    "mlp": lambda: _plain(Mlp(), (torch.randn(2, 8),)),
    "mlp_aligned": lambda: _plain(Mlp(), (torch.randn(2, 8),), segment_alignment=4096, constant_tensor_alignment=64),
    "conv": lambda: _plain(Conv(nn.BatchNorm2d(6)), (torch.randn(1, 3, 8, 8),)),
    "conv_channels_last": lambda: _plain(
        Conv(nn.Identity()).to(memory_format=torch.channels_last),
        (torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last),),
    ),
    "cond": lambda: _plain(Cond(), (torch.tensor(True), _X), (torch.tensor(False), _X)),
    "map": lambda: _plain(Map(), (torch.randn(3, 4), torch.randn(4))),
    "mutable": lambda: Sample(_lower(Counter(), (torch.ones(2),)).buffer, []),
    "mutable_initialized": _initialized,
    "several": lambda: _plain(Several(), (_X, torch.tensor([0, 2]))),
    "dynamic": _dynamic,
    "scalars": lambda: _plain(Scalars(), (_X, 3, 0.5, True, None)),
    "methods": _methods,
    "shared_state": _shared_state,
    "stacktrace": lambda: _plain(Mlp(), (torch.randn(2, 8),), emit_stacktrace=True, remove_view_copy=False),
    "unplanned": lambda: _plain(
        Mlp(),
        (torch.randn(2, 8),),
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
    ),
    "xnnpack": _xnnpack,
    "xnnpack_inline": lambda: _xnnpack(extract_delegate_segments=False),
    "xnnpack_aligned": lambda: _xnnpack(delegate_alignment=1024, segment_alignment=16),
    "external": _external,
}
