"""Programs that are deep, wide, or name tensors that no memory holds: a result, or an error that says what to do."""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

import etir
from etir import runtime
from etir.dialects.text import parse_module, print_module
from etir.interpret.interpreter import Interpreter
from etir.passes.infra import room

TARGETS = ("etir", "executorch")


class Function(torch.nn.Module):
    """A function of tensors as a module; dims are given for its arguments in order."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def exported(function: Callable[..., Any], *arguments: Any, dims: tuple[Any, ...] | None = None) -> Any:
    shapes = None if dims is None else (dims,)
    return torch.export.export(Function(function), arguments, dynamic_shapes=shapes)


def runner(program: Any, target: str) -> Callable[..., Any]:
    """What compiles to a function of tensors with one output."""
    method = runtime.load(etir.compile(program, target=target).buffer).forward
    return lambda *arguments: method(*arguments)[0]


def nested(depth: int) -> str:
    """``x + 1 + 1 + ...`` if ``p``, each sum in a region of its own."""
    type = "tensor<4xf32>"
    lines = ["func.func @forward(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {"]
    lines += [f"%c{i} = control.cond %p : tensor<i1> -> ({type}) {{" for i in range(depth)]
    last = "%x"
    for i in reversed(range(depth)):
        lines.append(f"%n{i} = aten.add.Scalar({last}, other = 1.0) : ({type}) -> {type}")
        lines.append(f"control.yield %n{i} : {type}\n}} else {{\ncontrol.yield %x : {type}\n}}")
        last = f"%c{i}"
    lines.append(f"func.return {last} : {type}\n}}")
    return "\n".join(lines)


@pytest.mark.parametrize("target", TARGETS)
def test_control_flow_200_deep(target: str) -> None:
    """Read, written, compiled, and run."""
    module = parse_module(nested(200))
    assert print_module(parse_module(print_module(module))) == print_module(module)
    run = runner(module, target)
    x = np.ones(4, np.float32)
    assert (run(x, np.array(True)) == 201).all()
    assert (run(x, np.array(False)) == 1).all()


def test_control_flow_too_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of etir's, whether text is read or a module compiled; Python's limits are as before."""
    before = sys.getrecursionlimit(), gc.get_threshold()
    with pytest.raises(etir.EtirError, match="nested too deeply") as refused:
        parse_module(nested(3000))
    assert refused.value.ids == ("E0101",)
    module = parse_module(nested(500))
    monkeypatch.setattr(room, "FRAMES", 0)
    with pytest.raises(etir.EtirError) as refused:
        etir.compile(module)
    assert refused.value.ids == ("E0523",)
    assert (sys.getrecursionlimit(), gc.get_threshold()) == before


def test_sizes_too_deep() -> None:
    """An expression of sizes has a limit of its own."""
    size = "(" * 2000 + "s0" + " + 1)" * 2000
    with pytest.raises(etir.EtirError, match="nested parentheses") as refused:
        parse_module(f"func.func @f(%x: tensor<?xf32, #et.layout<dims = [{size}]>>) {{\nfunc.return\n}}")
    assert refused.value.ids == ("E0101",)


@pytest.mark.parametrize(
    ("target", "count"), [pytest.param("etir", 10_000, marks=pytest.mark.nightly), ("executorch", 1_000)]
)
def test_concatenation_of_10_000(target: str, count: int) -> None:
    """Of tensors of their own, and of one tensor."""
    row = "tensor<4xf32>"
    whole = f"tensor<{4 * count}xf32>"
    lines = [f"func.func @forward(%x: {row}) -> ({whole}, {whole}) {{"]
    lines += [f"%v{i} = aten.add.Scalar(%x, other = {i}.0) : ({row}) -> {row}" for i in range(count)]
    for name, items in (("y", [f"%v{i}" for i in range(count)]), ("z", ["%x"] * count)):
        operands = ", ".join(items)
        lines.append(f"%{name} = aten.cat.default([{operands}]) : ({', '.join([row] * count)}) -> {whole}")
    lines.append(f"func.return %y, %z : {whole}, {whole}\n}}")
    program = etir.compile(parse_module("\n".join(lines)), target=target)
    x = np.arange(4, dtype=np.float32)
    y, z = runtime.load(program.buffer).forward(x)
    assert np.array_equal(np.asarray(y).reshape(count, 4), x + np.arange(count, dtype=np.float32)[:, None])
    assert np.array_equal(np.asarray(z).reshape(count, 4), np.tile(x, (count, 1)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x + torch.full((1000, 1000, 1000), 2.0)[0, 0, :4], id="a part is used"),
        pytest.param(lambda x: x + (torch.zeros(100_000, 10_000) + 3).sum(), id="folded or computed"),
        pytest.param(lambda x: torch.ones(1000, 1000, 1000, dtype=torch.int64) + x.sum().long(), id="an output"),
    ],
)
def test_splats_of_a_billion_elements(target: str, function: Callable[..., Any]) -> None:
    """They stay splats in the compiler: four GB are never made, and the file is small."""
    program = exported(function, torch.ones(4))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = etir.compile(program, target=target).buffer
    assert len(data) < 10_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("function", "id"),
    [
        pytest.param(lambda x: x[0].expand(2**31 + 5)[:3] * 1.0, "E0825", id="2^31"),
        pytest.param(lambda x: torch.zeros(2**33, dtype=torch.uint8)[:2] + x[:2], "E0825", id="2^33"),
        pytest.param(lambda x: torch.arange(2**31 + 10)[-3:] + x[:3].long(), "E0825", id="a range"),
        pytest.param(lambda x: x[0].expand(2**62).size(0) + x, None, id="a size of 2^62"),
    ],
)
def test_large_dims(target: str, function: Callable[..., Any], id: str | None) -> None:
    """A file has 32 bits for a dim; what only asks for the size is a number."""
    program = exported(function, torch.ones(4))
    if id is None:
        found = runner(program, target)(torch.ones(4))
        assert torch.equal(found, torch.full((4,), 2.0**62))
        return
    with pytest.raises(etir.EtirError) as refused:
        _ = etir.compile(program, target=target).buffer
    assert set(refused.value.ids) == {id}


@pytest.mark.parametrize("dims", [(2**63 - 1,), (2**40, 2**40), (2**31, 2**31, 2**31)])
def test_dims_beyond_any_memory(dims: tuple[int, ...]) -> None:
    """Text may say anything; bytes are counted without overflow."""
    type = f"tensor<{'x'.join(map(str, dims))}xf32>"
    text = f"func.func @forward(%x: {type}) -> {type} {{\n%y = aten.neg.default(%x) : ({type}) -> {type}\n"
    for target in TARGETS:
        with pytest.raises(etir.EtirError) as refused:
            etir.compile(parse_module(f"{text}func.return %y : {type}\n}}"), target=target)
        assert set(refused.value.ids) == {"E0419"}


def test_a_plan_beyond_any_memory() -> None:
    """Each tensor could be, all together not."""
    type = f"tensor<{(1 << 60) - 1}xf32>"
    names = [f"%x{i}" for i in range(3)]
    text = f"func.func @forward({', '.join(f'{name}: {type}' for name in names)}) {{\nfunc.return\n}}"
    with pytest.raises(etir.EtirError) as refused:
        etir.compile(parse_module(text))
    assert refused.value.ids == ("E0704",)


def test_block_diag_of_dynamic_sizes() -> None:
    """Matrices, vectors and numbers; every dim changes."""
    a, b, c, d = (Dim(name, min=2, max=9) for name in "abcd")
    program = exported(torch.block_diag, torch.ones(3, 4), torch.ones(2, 5), dims=({0: a, 1: b}, {0: c, 1: d}))
    mixed = exported(torch.block_diag, torch.ones(4), torch.ones(2, 5), dims=({0: b}, {1: d}))
    for target in TARGETS:
        run = runner(program, target)
        for sizes in ((3, 4, 2, 5), (2, 2, 9, 2), (9, 9, 9, 9)):
            x, y = torch.rand(sizes[:2]), torch.rand(sizes[2:])
            assert torch.equal(run(x, y), torch.block_diag(x, y))
        run = runner(mixed, target)
        x, y = torch.rand(2), torch.rand(2, 7)
        assert torch.equal(run(x, y), torch.block_diag(x, y))


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True}, {"scale": 0.5}])
def test_attention_with_a_dynamic_head_dim(options: dict[str, Any]) -> None:
    """The scale is that of the size at run time."""
    attention = torch.nn.functional.scaled_dot_product_attention
    head, length = Dim("head", min=2, max=64), Dim("length", min=2, max=16)
    heads = 4 if "enable_gqa" in options else 2
    given = (torch.rand(1, heads, 8, 16), torch.rand(1, 2, 8, 16), torch.rand(1, 2, 8, 16))
    program = exported(lambda q, k, v: attention(q, k, v, **options), *given, dims=({2: length, 3: head},) * 3)
    for target in TARGETS:
        run = runner(program, target)
        for size, rows in ((16, 8), (2, 2), (64, 16), (5, 3)):
            q, k, v = (torch.rand(1, n, rows, size) for n in (heads, 2, 2))
            torch.testing.assert_close(run(q, k, v), attention(q, k, v, **options), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, g: x + torch.rand(4, generator=g), id="rand"),
        pytest.param(lambda x, g: torch.bernoulli(x.sigmoid(), generator=g), id="bernoulli"),
        pytest.param(lambda x, g: torch.randperm(4, generator=g) + x, id="randperm"),
        pytest.param(lambda x, g: torch.empty(4).normal_(generator=g) + x, id="normal_"),
    ],
)
def test_generators(function: Callable[..., Any]) -> None:
    """A generator of torch's, made inside or given as an input, is refused with what to do instead."""
    generator = torch.Generator()
    inside = exported(lambda x: function(x, generator), torch.ones(4))
    given = exported(function, torch.ones(4), generator)
    for program in (inside, given):
        with pytest.raises(etir.EtirError, match="draws from the runtime's own generator") as refused:
            etir.compile(program)
        assert set(refused.value.ids) == {"E0403"}


def test_the_interpreter_on_deep_programs() -> None:
    """What the file gives."""
    (found,) = Interpreter(parse_module(nested(200)), "numpy").run([np.ones(4, np.float32), np.array(True)])
    assert (found == 201).all()
