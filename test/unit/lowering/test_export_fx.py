"""Modules back to exported programs: what comes out runs as the original does, and can be imported again."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export.graph_signature import OutputKind
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

import etir
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.lowering.export_fx import export_program, export_programs
from etir.lowering.export_fx.sizes import Sizes
from etir.options import CompileOptions
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline


class _Counting(nn.Module):
    """Weights, a mutable buffer, several outputs of which one is a size."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(8, 4)
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        self.seen.add_(x.sum())
        return {"y": self.fc(x) * self.scale, "seen": self.seen + 1, "size": x.shape[0]}


class _Branches(nn.Module):
    """A condition whose branches use a weight and a value around them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 8))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 3
        return torch.cond(x.sum() > 0, lambda a: a + z * self.weight, lambda a: a - z, (y,)) * 2


class _Loop(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 1.5 + x.mean()), (n, x))[1]  # type: ignore


class _Map(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return map_over(lambda row, other: torch.sin(row) + other, x, y)


class _Scan(nn.Module):
    """Two carried values and two scanned ones, of which the rows are used again; a weight and a value from around."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        start = x.sum(0)

        def step(carry: tuple[torch.Tensor, ...], row: tuple[torch.Tensor, ...]) -> tuple[Any, Any]:
            total, product = carry
            moved = total + row[0] * self.weight
            return (moved, product * row[1].cos() + start), (moved.sin(), row[0] - product)

        (total, product), (rows, others) = scan(step, (torch.zeros(4), torch.ones(4)), (x, y))
        return total, product, rows * 2, others


class _FromData(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.nonzero(x)
        torch._check(found.shape[0] <= 10)
        return found.float() * 2


class _LoopOverData(nn.Module):
    """Carries as many numbers as are not zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.nonzero(x.flatten()).squeeze(1)
        torch._check(found.shape[0] <= 10)
        start = (torch.tensor(0), found.float())
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), start)[1]  # type: ignore


class _Numbers(nn.Module):
    def forward(self, x: torch.Tensor, k: int, flag: bool) -> tuple[torch.Tensor, ...]:
        y = x.transpose(1, 2).reshape(x.shape[0], -1) * k
        return (-y if flag else y, *torch.split(x, [1, 3], dim=1))


class _Changing(nn.Module):
    """Changes an input; in channels-last."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.mul_(2)
        return nn.functional.avg_pool2d(x, 2).to(memory_format=torch.channels_last) + y


BATCH = torch.export.Dim("batch", min=1, max=64)
IMAGE = torch.linspace(-1, 1, 96).reshape(2, 3, 4, 4).to(memory_format=torch.channels_last)
CASES: dict[str, tuple[type[nn.Module], Callable[[], tuple[Any, ...]], Any]] = {
    "counting": (_Counting, lambda: (torch.linspace(-1, 1, 24).reshape(3, 8),), {"x": {0: BATCH}}),
    "branches": (_Branches, lambda: (torch.linspace(-1, 2, 24).reshape(3, 8), torch.ones(3, 8)), None),
    "loop": (_Loop, lambda: (torch.linspace(-1, 1, 12).reshape(3, 4), torch.tensor(0)), None),
    "map": (_Map, lambda: (torch.linspace(-1, 1, 12).reshape(3, 4), torch.ones(4)), None),
    "scan": (
        _Scan,
        lambda: (torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(0, 2, 12).reshape(3, 4)),
        None,
    ),
    "from data": (_FromData, lambda: (torch.tensor([[0.0, 1.0], [2.0, 0.0], [3.0, 4.0]]),), None),
    "loop over data": (_LoopOverData, lambda: (torch.tensor([[0.0, 1.0], [2.0, 0.0], [3.0, 4.0]]),), None),
    "numbers": (
        _Numbers,
        lambda: (torch.linspace(-1, 1, 40).reshape(2, 4, 5), 3, True),
        {"x": {0: BATCH}, "k": torch.export.Dim.DYNAMIC, "flag": None},
    ),
    "changing": (_Changing, lambda: (IMAGE.clone(), torch.ones(2, 3, 2, 2)), None),
}


def exported(name: str) -> torch.export.ExportedProgram:
    """A case as torch exports it."""
    make, inputs, dynamic = CASES[name]
    return torch.export.export(make().eval(), inputs(), dynamic_shapes=dynamic, strict=False)


def run_twice(program: torch.export.ExportedProgram, name: str) -> list[Any]:
    """The outputs of two calls, which show what mutable buffers hold, and then the inputs."""
    module = program.module()
    found: list[Any] = []
    for _ in range(2):
        inputs = CASES[name][1]()
        found += [module(*inputs), inputs]
    return pytree.tree_leaves(found)


@pytest.mark.parametrize("level", ["aten", "edge", "backend"])
@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str, level: str) -> None:
    """From every level the same numbers as the original's; from the edge level through a .pt2 file and back again."""
    original = exported(name)
    module = etir.import_program(original)
    if level != "aten":
        run_pipeline(EtContext(), module, pipeline(stop=level))
    program = export_program(module)
    programs = [program]
    if level == "edge":
        file = io.BytesIO()
        torch.export.save(program, file)
        programs.append(export_program(etir.import_program(torch.export.load(file))))
    wanted = run_twice(original, name)
    for found in programs:
        for left, right in zip(wanted, run_twice(found, name), strict=True):
            torch.testing.assert_close(right, left)
    assert program.call_spec.in_spec == original.call_spec.in_spec
    assert program.call_spec.out_spec == original.call_spec.out_spec


def test_signature() -> None:
    """Weights keep names and kinds, dims their ranges, nodes their source lines."""
    program = export_program(etir.import_program(exported("counting")))
    signature = program.graph_signature
    assert list(signature.inputs_to_parameters.values()) == ["fc.weight", "fc.bias"]
    assert sorted(signature.inputs_to_buffers.values()) == ["scale", "seen"]
    kinds = [spec.kind for spec in signature.output_specs]
    assert kinds == [OutputKind.BUFFER_MUTATION, *[OutputKind.USER_OUTPUT] * 3]
    assert [(int(r.lower), int(r.upper)) for r in program.range_constraints.values()] == [(1, 64)]
    linear = next(n for n in program.graph.nodes if str(n.target) == "aten.linear.default")
    assert __file__ in linear.meta["stack_trace"]
    assert list(linear.meta["nn_module_stack"]) == ["fc"]


def test_other_sizes() -> None:
    """A program exported at one size runs at others, and refuses sizes outside of the range."""
    program = export_program(etir.import_program(exported("counting")))
    for size in (1, 5, 64):
        assert program.module()(torch.ones(size, 8))["y"].shape == (size, 4)
    with pytest.raises((AssertionError, RuntimeError), match="<= 64"):
        program.module()(torch.ones(65, 8))


def test_methods() -> None:
    """Several methods of a module."""
    module = etir.import_program({"first": exported("map"), "second": exported("loop")})
    assert list(export_programs(module)) == ["first", "second"]
    with pytest.raises(EtirError, match="no method 'third'; the module has first, second") as caught:
        export_program(module, "third")
    assert caught.value.ids == ("E0408",)


def test_delegates_are_written_out() -> None:
    """Functions outlined for a delegate are part of the program while they are there."""
    original = exported("counting")
    module = etir.import_program(original)
    run_pipeline(EtContext(), module, pipeline(CompileOptions(target="etir", delegates=("reference",)), stop="backend"))
    assert "backend.call_delegate" in print_module(module)
    for left, right in zip(run_twice(original, "counting"), run_twice(export_program(module), "counting"), strict=True):
        torch.testing.assert_close(right, left)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
            '  %0 = aten.opaque "mylib.f" (%x) {reason = "why"}'
            " : (tensor<4xf32>) -> tensor<4xf32>\n  func.return %0 : tensor<4xf32>\n}",
            "'aten.opaque' has no form in torch",
        ),
        (
            'et.schema "nolib::f(Tensor x) -> Tensor"\n'
            "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = nolib.f.default(%x)"
            " : (tensor<4xf32>) -> tensor<4xf32>\n  func.return %0 : tensor<4xf32>\n}",
            "torch has no operator 'nolib.f.default'",
        ),
        (
            "func.func @forward(%x: tensor<4xf32>) -> tensor<5xf32> {\n  %0 = aten.relu.default(%x)"
            " : (tensor<4xf32>) -> tensor<5xf32>\n  func.return %0 : tensor<5xf32>\n}",
            r"torch gives \[4\] of torch.float32 for 'aten.relu.default', the text tensor<5xf32>",
        ),
        (
            "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = backend.call_delegate @blob(%x) on "
            '"B" : (tensor<4xf32>) -> tensor<4xf32>\n  func.return %0 : tensor<4xf32>\n}',
            "delegate @blob is a blob, which torch cannot run",
        ),
    ],
)
def test_what_cannot_be_exported(text: str, message: str) -> None:
    """One error with the place."""
    module = parse_module(text, EtContext(), name="in.mlir")
    with pytest.raises(EtirError, match=message) as caught:
        export_program(module)
    assert set(caught.value.ids) == {"E0407"}
    assert caught.value.diagnostics[0].location is not None


BOOL = """
func.func @forward(%x: tensor<4xf32>, %flag: i1) -> (tensor<4xf32>, i1) {
  %0 = aten.mul.Tensor(%x, %flag) : (tensor<4xf32>, i1) -> tensor<4xf32>
  %1 = control.cond %flag : i1 -> (tensor<4xf32>) {
    %2 = aten.neg.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %2 : tensor<4xf32>
  } else {
    %3 = aten.exp.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %3 : tensor<4xf32>
  }
  func.return %1, %flag : tensor<4xf32>, i1
}
"""


@pytest.mark.parametrize("taking_inputs", [True, False])
def test_sizes_from_data_are_unknown_unless_an_input_has_them(taking_inputs: bool) -> None:
    sizes = Sizes({"n": (2, 9), "m": (2, 9)}, from_data=("n",))
    sizes.taking_inputs = taking_inputs
    unknown = {name: bool(free_unbacked_symbols(sizes.symbol(name))) for name in ("n", "m")}
    assert unknown == {"n": not taking_inputs, "m": False}


def test_an_input_that_is_a_bool() -> None:
    """torch makes no program with one; text may have it."""
    program = export_program(parse_module(BOOL, EtContext(), name="in.mlir"))
    x = torch.arange(4.0)
    for flag, wanted in ((True, -x), (False, torch.ones(4))):
        got, same = program.module()(x, flag)
        torch.testing.assert_close(got, wanted)
        assert same is flag


def test_weights_that_are_not_loaded() -> None:
    text = """
et.weight @w : tensor<4xf32> = #et.blob<"sha256:00000000000000000000000000000000", 16>
func.func @forward() -> tensor<4xf32> {
  %w = et.get_weight @w : tensor<4xf32>
  func.return %w : tensor<4xf32>
}
"""
    with pytest.raises(EtirError, match="in.mlir:4:3: .*the 16 bytes with digest sha256:0+ are not loaded") as caught:
        export_program(parse_module(text, EtContext(), name="in.mlir"))
    assert caught.value.ids == ("E0201",)
