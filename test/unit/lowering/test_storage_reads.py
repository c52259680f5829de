"""Operators on storage: ``as_strided`` of views reads and writes what eager PyTorch's does, or is error E0418."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import DenseArrayBase, i64

import etir
from etir.diagnostics import EtirError
from etir.dialects.aten import ops as aten
from etir.dialects.aten.recorded_layout import SELF_LAYOUT
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module
from etir.interpret.interpreter import Interpreter
from etir.lowering.functionalize import FunctionalizePass
from etir.lowering.import_fx import import_program

from etir_testing.lowering.functionalize_models import functionalized
from etir_testing.lowering.storage_programs import StorageProgram

X = torch.arange(24.0).reshape(2, 3, 4)
IMAGE = torch.arange(48.0).reshape(2, 3, 2, 4)


def branch_of_dropout(x: Tensor, y: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: y.as_strided((2, 1), (1, 1)) + x.sum(), lambda x: x[0, :2, :1] * 2, (x,))


READS: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "slice": (lambda x: x[1:, :, 1:].as_strided((2, 2), (3, 1)), X),
    "slice, absolute": (lambda x: x[1:, 1:].as_strided((2, 2), (3, 1), 2), X),
    "select": (lambda x: x[:, -1].as_strided((2, 3), (1, 5), 4), X),
    "transpose": (lambda x: x.transpose(0, 2).as_strided((2, 3), (1, 2)), X),
    "permute, select, diagonal": (lambda x: x.permute(2, 0, 1)[1].diagonal(1).as_strided((3,), (2,)), X),
    "expand": (lambda x: x.unsqueeze(0).expand(5, 2, 3, 4).as_strided((2, 2), (7, 2), 1), X),
    "unfold": (lambda x: x.unfold(2, 3, 1)[:, :, 1].as_strided((4,), (3,)), X),
    "split": (lambda x: x.split([1, 2], 1)[1].as_strided((2, 2), (1, 2)), X),
    "chunk": (lambda x: x.chunk(2, 2)[1].as_strided((2, 2), (1, 2)), X),
    "unbind": (lambda x: x.unbind(2)[3].as_strided((2, 2), (4, 1)), X),
    "movedim, squeeze": (lambda x: x[:, :1].squeeze(1).movedim(0, 1).as_strided((3, 2), (1, 4)), X),
    "narrow": (lambda x: x.narrow(2, 1, 2).as_strided((3,), (2,)), X),
    "reshape that copies": (lambda x: x.transpose(0, 1).reshape(6, 4).as_strided((3,), (2,), 5), X),
    "as_strided of as_strided": (lambda x: x.as_strided((3, 4), (4, 1), 8).as_strided((2,), (3,)), X),
    "a result": (lambda x: (x * 2).transpose(0, 2).as_strided((4,), (3,), 2), X),
    "a result of a permuted tensor": (lambda x: (x.permute(2, 0, 1) * 2).as_strided((4,), (3,), 2), X),
    "channels last result": (lambda x: x.clone(memory_format=torch.channels_last).as_strided((4, 3), (5, 1), 2), IMAGE),
    "channels last input": (lambda x: x.as_strided((4, 3), (5, 1), 2), IMAGE.to(memory_format=torch.channels_last)),
    "transposed input": (lambda x: x.as_strided((4, 3), (5, 1), 2), torch.arange(24.0).reshape(4, 6).t()),
    "channels last convolution": (
        lambda x: torch.nn.functional.avg_pool2d(x, 1).as_strided((4, 3), (5, 1), 2),
        IMAGE.to(memory_format=torch.channels_last),
    ),
    "complex": (lambda x: torch.view_as_complex(x.reshape(2, 3, 2, 2)).real.as_strided((2, 3), (1, 4), 3), X),
    "imaginary": (lambda x: torch.view_as_complex(x.reshape(2, 3, 2, 2)).imag[1].as_strided((2, 3), (1, 2)), X),
    "bits": (lambda x: x[:, 1].view(torch.int32).as_strided((2, 2), (5, 1)), X),
    "bytes": (lambda x: x[:, 1].view(torch.uint8).as_strided((2, 4), (16, 1)), X),
    "windows": (lambda x: x[0].as_strided((3, 4), (1, 2), 3), X),
    "_reshape_alias": (lambda x: torch.ops.aten._reshape_alias(x[1], [4, 3], [3, 1]), X),
    "as_strided_copy": (lambda x: torch.as_strided_copy(x[1].t(), (2, 3), (1, 4)), X),
    "as_strided_scatter": (lambda x: torch.as_strided_scatter(x[:, 1].t(), x[0, :2, :3] * 9, (2, 3), (5, 1)), X),
    "as_strided_scatter of an expanded tensor": (
        lambda x: torch.as_strided_scatter(x[0, 0].expand(3, 4), x[0, :2, :3] * 9, (2, 3), (5, 1)), X
    ),
    "view of a scattered tensor": (
        lambda x: torch.as_strided_scatter(x[:, 1], x[0, 0] * 9, (4,), (2,), 1).as_strided((8,), (3,), 0), X
    ),
    "conversion of a part": (lambda x: x[:, :, 1:2].to(torch.int32).as_strided((4,), (1,), 2), X),
    "offset as a number": (lambda x: x * x[1, 2:].storage_offset(), X),
    "dropout that does nothing": (
        # torch's trace has a copy of the tensor there: 2x2x4 numbers without gaps.
        lambda x: torch.nn.functional.dropout(x[:, ::2], 0.5, False).as_strided((2, 2, 4), (8, 4, 1)), X
    ),
    "a view of a dropout that does nothing": (
        lambda x: torch.nn.functional.dropout(x[:, ::2], 0.5, False)[1].t().as_strided((2, 2), (1, 4)), X
    ),
    "as_strided_copy of a dropout that does nothing": (
        lambda x: torch.as_strided_copy(torch.nn.functional.dropout(x[:, ::2], 0.5, False), (2, 3), (1, 4)), X
    ),
    "a dropout that does nothing, inside of a branch": (
        lambda x: branch_of_dropout(x, torch.nn.functional.dropout(x[0, 0, :1].expand(2), 0.5, False)), X
    ),
    "inside of a branch": (
        lambda x: torch.cond(x.sum() > 0, lambda x: x.as_strided((3,), (5,), 1) + 1, lambda x: x[0, :, 0] * 2, (x,)), X
    ),
}  # fmt: skip


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def exported(model: nn.Module, inputs: Sequence[Tensor], **options: Any) -> torch.export.ExportedProgram:
    with torch.no_grad():
        return torch.export.export(copy.deepcopy(model), tuple(t.clone() for t in inputs), **options)


def assert_agrees(model: nn.Module, inputs: Sequence[Tensor]) -> None:
    """Eager, the imported module, the functional one: all of three calls."""
    module = import_program(exported(model, inputs))
    before = Interpreter(module.clone(), "torch")
    functional = functionalized(module)
    assert not any(isinstance(op, aten.as_strided.default) for op in functional.walk())
    runs = [("imported", before), ("functional", Interpreter(functional, "torch"))]
    reference = copy.deepcopy(model)
    for call in range(3):
        given = [t.clone() for t in inputs]
        with torch.no_grad():
            expected = [t.clone() for t in pytree.tree_leaves(reference(*given))]
        for name, interpreter in runs:
            # The functional program does not depend on how its inputs lie in memory.
            ours = [t.clone() if name == "imported" else t.clone(memory_format=torch.contiguous_format) for t in inputs]
            got = interpreter.run(ours)
            for index, (a, b) in enumerate(zip(got, expected, strict=True)):
                assert a.dtype == b.dtype and torch.equal(a, b), f"{name}, call {call}, output {index}: {a} for {b}"
            for a, b in zip(ours, given, strict=True):
                assert torch.equal(a, b), f"{name}, call {call}: an input afterwards"


@pytest.mark.parametrize("name", READS)
def test_reads(name: str) -> None:
    function, x = READS[name]
    assert_agrees(Function(function), [x])


def write(part: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
    def forward(x: Tensor) -> Any:
        y = x * 1
        part(y).add_(100)
        part(x).mul_(3)
        return y, y.transpose(0, 1).sum(0), x * 2

    return forward


WRITES: dict[str, Callable[[Tensor], Tensor]] = {
    "slice": lambda x: x[1:, :, 1:].as_strided((2, 2), (3, 1)),
    "transpose": lambda x: x.transpose(0, 2).as_strided((2, 3), (1, 2)),
    "strides that interleave": lambda x: x.as_strided((4, 2), (2, 3)),
    "view of it": lambda x: x[1].as_strided((2, 2), (3, 1))[1],
    "real part": lambda x: torch.view_as_complex(x.view(2, 3, 2, 2)).imag.as_strided((2, 3), (1, 4), 3),
    "bits": lambda x: x[1].view(torch.int32).as_strided((2,), (3,)).view(torch.float32),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str) -> None:
    assert_agrees(Function(write(WRITES[name])), [X])


def test_write_through_a_channels_last_result() -> None:
    def forward(x: Tensor) -> Any:
        y = x.clone(memory_format=torch.channels_last)
        y.as_strided((4, 3), (5, 1), 2).add_(100)
        return y, y * 2

    assert_agrees(Function(forward), [IMAGE])


def test_write_into_another_size() -> None:
    def forward(x: Tensor) -> Any:
        y = (x * 2).transpose(0, 1)
        y.as_strided_((2, 3), (1, 4), 2)
        y.add_(1)
        return y

    assert_agrees(Function(forward), [X])


def resized(x: Tensor, *size: int, view: Callable[[Tensor], Tensor] = lambda y: y) -> Any:
    whole = x * 2
    y = view(whole)
    y.resize_(size)
    y.add_(1)
    return y, whole, torch.tensor(y.stride())


RESIZED: dict[str, Callable[[Tensor], Any]] = {
    "as many elements": lambda x: resized(x, 8, 3),
    "fewer elements": lambda x: resized(x, 5),
    "none": lambda x: resized(x, 0, 7),
    "rank 0": lambda x: resized(x),
    "a turned tensor, row-major from then on": lambda x: resized(x, 6, 4, view=lambda y: y.permute(2, 0, 1)),
    "the sizes that it has, so that its strides stay": lambda x: resized(x, 4, 2, 3, view=lambda y: y.permute(2, 0, 1)),
    "a view, from its first element on": lambda x: resized(x, 3, 2, view=lambda y: y[1, 1:].t()),
    "a view with gaps, past what it shows": lambda x: resized(x, 11, view=lambda y: y[1, :, ::2]),
}
"""Changes of sizes in place, by what is special about them."""


@pytest.mark.parametrize("name", RESIZED)
def test_resize(name: str) -> None:
    assert_agrees(Function(RESIZED[name]), [X])


OUTS: dict[str, Callable[[Tensor], Any]] = {
    "without elements": lambda x: torch.exp(x, out=torch.empty(0)),
    "without elements, of another dtype": lambda x: torch.add(x, 1, out=torch.empty(0, dtype=torch.float64)),
    "within its storage": lambda x: torch.sum(x, 1, out=torch.empty(5, 5)),
    "one of two": lambda x: torch.max(x, 1, out=(torch.empty(2, 4), torch.empty(0, dtype=torch.int64))),
    "one that the program reads later": lambda x: (y := x * 2, first := y[0], torch.neg(x[1], out=y), first, y)[2:],
    "of a factory": lambda x: torch.arange(5, out=torch.empty(0)) + x.sum(),
    "resized and written": lambda x: torch.empty(0).resize_(2, 3).copy_(x[:, :, 1]),
}
"""``out`` tensors that get the sizes of the result, by what they are."""


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", OUTS)
def test_resized_outs(name: str) -> None:
    assert_agrees(Function(OUTS[name]), [X])


def test_storage_of_another_tensor() -> None:
    def forward(x: Tensor, y: Tensor) -> Any:
        z, w = x * 2, y * 3
        first, part = z[0], (x * 4)[1]
        z.set_(w[:, 1])  # type: ignore[reportCallIssue]
        z.add_(1)
        first.mul_(2)
        part.set_(w, 1, (2, 2), (2, 1))  # type: ignore[reportCallIssue]
        part.mul_(5)
        return z, w, first, part

    assert_agrees(Function(forward), [X, X[0] + 100])


def test_storage_of_an_input_is_changed() -> None:
    def forward(x: Tensor, y: Tensor) -> Tensor:
        z = x * 2
        z.set_(y)  # type: ignore[reportCallIssue]
        z.add_(1)
        return z

    assert_agrees(Function(forward), [X, X[0] + 100])


class AssignedData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        z = x * 2
        z.data = x * 3
        return z + 1


def test_assigned_data_is_refused() -> None:
    """The exported program has no trace of it but a question that torch asks first."""
    with pytest.raises(EtirError, match="does not record that 'data' of a tensor is assigned") as caught:
        import_program(exported(AssignedData(), [X]))
    (diagnostic,) = caught.value.diagnostics
    assert str(diagnostic.id.id) == "E0413" and diagnostic.location is not None


def test_resize_back_to_what_is_still_there() -> None:
    def forward(x: Tensor, like: Tensor) -> Any:
        y = x.clone()
        first = y[0]
        y.resize_(5)
        y.fill_(7)
        y.resize_as_(like)
        first.mul_(3)
        return y

    assert_agrees(Function(forward), [X, torch.zeros(4, 6)])


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize(
    ("forward", "id", "why"),
    [
        (lambda x: (x * 2).resize_(5, 5), "E0413", "more elements than its storage has"),
        (lambda x: (x * 2)[1, 1:].resize_(11), "E0413", "more elements than its storage has"),
        (lambda x: x.resize_(24), "E0413", "changes the sizes of an input"),
        (lambda x: torch.exp(x, out=x[1]), "E0413", "resizes its out tensor of tensor<3x4xf32> beyond"),
        (lambda x: (x * 2).resize_(1, 4, 3, 2, memory_format=torch.channels_last), "E0413", "another memory format"),
        (lambda x: torch.complex(x, x).conj().resize_(24), "E0418", "conjugate"),
    ],
)
def test_resize_is_refused(forward: Callable[[Tensor], Tensor], id: str, why: str) -> None:
    with pytest.raises(EtirError) as caught:
        etir.compile(exported(Function(forward), [X]), target="etir")
    assert str(caught.value.diagnostics[0].id.id) == id and why in str(caught.value)


def test_read_of_what_saw_a_tensor_in_another_size() -> None:
    """The layout of ``total`` is that for the rank that ``y`` had, not for the one that it has later."""

    def forward(x: Tensor) -> Any:
        y = (x[0, :, 1:2] * 2).contiguous()
        total = y.cumsum(1)
        y.unsqueeze_(0)
        return total.as_strided((2,), (2,), 0), y

    assert_agrees(Function(forward), [X])


class Holder(nn.Module):
    """A buffer that is a part of a larger storage, and a parameter whose dims lie in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("part", torch.arange(20.0)[4:12].reshape(2, 4))
        self.turned = nn.Parameter(torch.arange(12.0).reshape(3, 4).t())

    def forward(self, x: Tensor) -> Any:
        return self.part.as_strided((3, 2), (3, 1), 11) * x, self.turned.as_strided((3, 2), (1, 3)) + x


def test_storage_of_parameters() -> None:
    assert_agrees(Holder(), [torch.ones(3, 2)])


def test_dynamic_sizes() -> None:
    def forward(x: Tensor) -> Any:
        n = x.shape[0]
        return x[1:].t().as_strided((4, n - 1), (1, 4)), x.t().as_strided((n,), (4,), 2) * x.t().stride(1)

    assert_agrees_with_dynamic_sizes(forward)


def test_scatter_with_dynamic_sizes() -> None:
    """All of the storage is copied, whose size the scattered tensor need not have."""

    def forward(x: Tensor) -> Any:
        y = x * 1
        whole = torch.as_strided_scatter(y.t(), x[0, :2] * 9, (2,), (3,), 3)
        part = torch.as_strided_scatter(y[1:3, 1], x[0, :2] * 9, (2,), (1,), 0)
        return whole, part, part.as_strided((4,), (3,), 1)

    assert_agrees_with_dynamic_sizes(forward)


def assert_agrees_with_dynamic_sizes(forward: Callable[[Tensor], Any]) -> None:
    dims = {0: torch.export.Dim("n", min=3, max=9)}
    module = import_program(exported(Function(forward), [torch.ones(5, 4)], dynamic_shapes=((dims,),)))
    interpreter = Interpreter(functionalized(module), "torch")
    for n in (3, 5, 9):
        x = torch.randn(n, 4)
        for a, b in zip(interpreter.run([x]), forward(x), strict=True):
            torch.testing.assert_close(a, b)


def error_of(function: Callable[[Tensor], Any], x: Tensor) -> str:
    with torch.no_grad():
        module = import_program(torch.export.export(Function(function), (x,)))
    with pytest.raises(EtirError) as caught:
        FunctionalizePass().apply(EtContext(), module)
    assert [d.id.id for d in caught.value.diagnostics] == ["E0418"]
    assert caught.value.diagnostics[0].location
    return str(caught.value)


def test_before_an_input_in_its_storage() -> None:
    assert "before the input" in error_of(lambda x: x.as_strided((3,), (1,), 0), torch.arange(9.0)[4:])


def test_a_scatter_into_what_the_trace_has_copied() -> None:
    def forward(x: Tensor) -> Tensor:
        return torch.as_strided_scatter(
            torch.nn.functional.dropout(x[:, ::2], 0.5, False), x[0, :2, :3], (2, 3), (1, 4)
        )

    with pytest.raises(EtirError, match="another storage than the tensor that dropout returns") as caught:
        import_program(exported(Function(forward), [X]))
    assert caught.value.ids == ("E0418",)


def test_behind_an_input_in_its_storage() -> None:
    assert "reads element 7" in error_of(lambda x: x.as_strided((3,), (1,), 5), torch.arange(9.0)[:6])


def test_an_input_with_gaps() -> None:
    assert "has gaps" in error_of(lambda x: x.as_strided((3,), (1,), 1), torch.arange(24.0).reshape(4, 6)[:, ::2])


def test_the_layout_of_an_input_with_gaps() -> None:
    """Its own strides are the tensor itself, whatever lies between its elements."""

    def forward(x: Tensor) -> Tensor:
        return x.as_strided(x.shape, x.stride(), x.storage_offset()) + 1

    x = torch.arange(24.0).reshape(4, 6)[:, ::2]
    module = functionalized(import_program(torch.export.export(Function(forward), (x,))))
    torch.testing.assert_close(Interpreter(module, "torch").run([x])[0], x + 1)


def test_overlapping_writes() -> None:
    def forward(x: Tensor) -> Tensor:
        y = x * 1
        y[0].as_strided((3, 2), (1, 1)).copy_(x[0, :, :2])
        return y

    module = import_program(exported(Function(forward), [X]))
    with pytest.raises(EtirError, match="E0413"):
        FunctionalizePass().apply(EtContext(), module)


TEXT = """
func.func @forward(%x: tensor<2x3xf32>) -> tensor<4xf32> {
  %0 = aten.permute.default(%x, dims = [1, 0]) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = aten.as_strided.default(%0, size = [4], stride = [1], storage_offset = 2) : (tensor<3x2xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("evaluator", ["torch", "numpy"])
def test_text(evaluator: str) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    module = parse_module(TEXT, EtContext())
    if evaluator == "torch":
        assert Interpreter(module, "torch").run([x])[0].tolist() == [2, 3, 4, 5]
    else:
        with pytest.raises(EtirError, match="run functionalize first"):
            Interpreter(module, evaluator).run([x.numpy()])
    FunctionalizePass().apply(EtContext(), module)
    given = x if evaluator == "torch" else x.numpy()
    assert Interpreter(module, evaluator).run([given])[0].tolist() == [2, 3, 4, 5]


def test_text_without_recorded_layouts() -> None:
    """Results of elementwise operators have their dims in the order in which all operands have them."""
    product = "%1 = aten.mul.Tensor(%0, %0) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>"
    text = (
        TEXT.replace("%1", "%2")
        .replace("as_strided.default(%0", "as_strided.default(%1")
        .replace("  %2 =", f"  {product}\n  %2 =")
    )
    module = parse_module(text, EtContext())
    x = torch.arange(6.0).reshape(2, 3)
    FunctionalizePass().apply(EtContext(), module)
    assert Interpreter(module, "torch").run([x])[0].tolist() == [4, 9, 16, 25]


def test_layouts_that_the_program_cannot_have() -> None:
    """What export recorded of a tensor and what follows from the program differ: one of them is wrong."""
    module = import_program(exported(Function(lambda x: x.t().as_strided((2, 2), (1, 3), 1)), [X[0]]))
    (read,) = (op for op in module.walk() if isinstance(op, aten.as_strided.default))
    for strides, offset in (((4, 1), 0), ((1, 4), 3)):
        changed = module.clone()
        (read,) = (op for op in changed.walk() if isinstance(op, aten.as_strided.default))
        read.attributes[SELF_LAYOUT] = DenseArrayBase.from_list(i64, [*strides, offset])
        with pytest.raises(EtirError, match=r"had the strides .* which do not follow from the program") as caught:
            FunctionalizePass().apply(EtContext(), changed)
        assert caught.value.ids == ("E0418",)
    FunctionalizePass().apply(EtContext(), module)


@pytest.mark.parametrize("writes", [False, True], ids=["reads", "writes"])
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int, writes: bool) -> None:
    model = StorageProgram(seed, writes=writes)
    assert_agrees(model, model.example)
