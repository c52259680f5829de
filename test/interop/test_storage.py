"""Tensors that share storage on both runtimes against eager: ``as_strided`` of views, buffers that are views."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.interpret.interpreter import Interpreter  # noqa: E402
from etir.lowering.import_fx import import_program  # noqa: E402

from etir_testing.interop.program_runs import assert_same, eager, stock, trace  # noqa: E402
from etir_testing.lowering.changes import Case, Changes  # noqa: E402
from etir_testing.lowering.storage_programs import AliasedReader, AliasedState, StorageProgram  # noqa: E402
from etir_testing.operators.shared_results import shared  # noqa: E402


def export(model: nn.Module, inputs: Sequence[Any]) -> torch.export.ExportedProgram:
    with torch.no_grad():
        return torch.export.export(model, tuple(inputs))


def export_random(model: nn.Module, inputs: Sequence[Any]) -> torch.export.ExportedProgram:
    """The same; a test that torch cannot export (buffers that are both complex and real views) is skipped."""
    try:
        return export(model, inputs)
    except RuntimeError as error:
        if "last dimension of size 2" not in str(error):
            raise
        pytest.skip(f"torch does not export it: {str(error).splitlines()[-1]}")


def _as_typed(tensor: Any) -> Any:
    """As a caller passes it: a type says channels last, any other order in memory is the example's alone."""
    last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return tensor if last else tensor.contiguous()


def assert_agrees(model: nn.Module, inputs: Sequence[Any], calls: int = 3) -> None:
    """Both runtimes and the interpreter of the imported module, over several calls with the state that they keep."""
    program = export_random(copy.deepcopy(model), [t.clone() for t in inputs])
    expected = eager(model, [tuple(inputs)] * calls)
    plain = [tuple(_as_typed(t) for t in inputs)] * calls
    interpreter = Interpreter(import_program(program), "torch")
    assert_same(trace(interpreter.run, [tuple(inputs)] * calls), expected, "interpreter", 0)
    loaded = etir.runtime.load(etir.compile(program, target="etir").buffer)
    assert_same(trace(lambda flat: loaded.forward(*flat), plain), expected, "etir", 0)
    try:
        data = etir.compile(program, target="executorch").buffer
    except EtirError as error:
        # Its kernels take few complex tensors.
        assert {d.id.id for d in error.diagnostics} <= {"E0604"} and "COMPLEX" in str(error), str(error)
        return
    assert_same(stock(data, plain), expected, "stock", 0)


@pytest.mark.parametrize("writes", [False, True], ids=["reads", "writes"])
@pytest.mark.parametrize("seed", range(100, 112))
def test_random_storage(seed: int, writes: bool) -> None:
    model = StorageProgram(seed, writes=writes)
    assert_agrees(model, model.example)


@pytest.mark.parametrize("seed", range(24))
def test_random_aliased_state(seed: int) -> None:
    assert_agrees(AliasedState(seed), [torch.tensor(2.0)])


def methods_of(state: nn.Module, seed: int) -> dict[str, nn.Module]:
    return {"forward": state, "other": AliasedReader(state, seed), "third": AliasedReader(state, seed + 1)}


@pytest.mark.parametrize("seed", range(12))
def test_random_aliased_methods(seed: int) -> None:
    """Methods over one module: what one writes, the others find, under every name."""
    modules = methods_of(AliasedState(seed), seed)
    x = torch.tensor(2.0)
    programs = {name: export_random(module, [x]) for name, module in modules.items()}
    compiled = etir.compile(programs, target="etir", share_state=True)
    loaded = etir.runtime.load(compiled.buffer)
    interpreter = Interpreter(import_program(programs), "torch")
    with torch.no_grad():
        for name in ("forward", "other", "third", "other", "forward"):
            expected = modules[name](x)
            for where, got in (("etir", loaded[name](x)), ("interpreter", interpreter.run([x], name))):
                for a, b in zip(got, expected, strict=True):
                    torch.testing.assert_close(
                        torch.as_tensor(a), b, rtol=0, atol=0, msg=f"{where}, {name}: {a} for {b}"
                    )


class Cache(nn.Module):
    """Rows of a cache under names of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 4, 3))
        self.register_buffer("keys", self.cache[0])
        self.values = self.cache[1]
        self.turned = self.cache.transpose(1, 2)

    def forward(self, x: Any) -> Any:
        self.keys[1:2] = x
        self.values.add_(x)
        self.turned[:, 0].mul_(2)
        return self.cache * 1, self.keys.sum(0), self.turned * 1


def test_views_are_one_state() -> None:
    model = Cache()
    assert_agrees(model, [torch.ones(1, 3)])
    compiled = etir.compile(export(model, [torch.ones(1, 3)]), target="etir", state_methods=True)
    loaded = etir.runtime.load(compiled.buffer)
    assert list(loaded.state) == ["cache"]


def test_names_of_one_tensor() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.zeros(3))
            self.register_buffer("b", self.a)
            self.c = self.a.view(3, 1)

        def forward(self, x: Any) -> Any:
            self.a.add_(x)
            self.c.mul_(2)
            return self.b + 1

    assert_agrees(Model(), [torch.ones(3)])


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x.logical_not_() if x.dtype == torch.bool else x.add_(1)


def test_results_that_no_schema_declares() -> None:
    """Operators that return their argument itself for some calls: a change of the result is one of the argument."""
    found = {one.name: one for one in shared() if one.hidden and not one.start().is_complex()}
    cases = [Case(name, one.start(), one.change(add_one)) for name, one in found.items()]
    assert len(cases) > 25
    assert_agrees(Changes(cases, rows=True), [case.start.clone() for case in cases], calls=2)


class ThroughDropout(nn.Module):
    """Writes to what ``dropout`` gives in inference, which is its operand, though the schema does not say so."""

    def __init__(self) -> None:
        super().__init__()
        base = torch.arange(6.0)
        self.register_buffer("first", base[:4])
        self.register_buffer("second", base[2:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        nn.functional.dropout(self.first, 0.5, False).add_(x)
        return self.second.clone()


def test_a_write_through_a_view_that_no_schema_tells() -> None:
    assert_agrees(ThroughDropout(), [torch.ones(4)])


def test_rows_without_their_cache() -> None:
    """No name has all of the memory: overlapping windows are one state of all of it."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            row = torch.arange(10.0)
            self.low, self.high = row[1:6], row[4:9]

        def forward(self, x: Any) -> Any:
            self.low.mul_(x)
            return self.high * 1

    assert_agrees(Model(), [torch.tensor(2.0)])


def test_functional_program_over_parts() -> None:
    """A program without mutation stores one part at its end; where it uses another, its order is lost."""

    class Model(nn.Module):
        def __init__(self, with_whole: bool) -> None:
            super().__init__()
            self.with_whole = with_whole
            self.register_buffer("whole", torch.zeros(2, 3))
            self.register_buffer("row", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.row.add_(x)
            return self.whole + x if self.with_whole else self.row * 1

    def program(with_whole: bool) -> Any:
        found = export(Model(with_whole), [torch.ones(3)]).run_decompositions()
        # torch makes no program like that functional; a file may have one.
        found.state_dict["row"] = found.state_dict["whole"][0]
        return found

    programs = {"forward": program(False)}
    programs["other"] = export(Model(True), [torch.ones(3)])
    programs["other"].state_dict.update(programs["forward"].state_dict)
    loaded = etir.runtime.load(etir.compile(programs, target="etir", share_state=True).buffer)
    assert [loaded["forward"](torch.ones(3))[0].tolist() for _ in range(2)] == [[1, 1, 1], [2, 2, 2]]
    assert loaded["other"](torch.ones(3))[0].tolist() == [[4, 4, 4], [1, 1, 1]]
    with pytest.raises(EtirError, match="E0404"):
        etir.compile(program(True), target="etir")


@pytest.mark.parametrize("own", ["cache", "row"])
def test_methods_of_modules_that_share_otherwise(own: str) -> None:
    """A name that is a part of another's memory in one method, and stands alone in the other, is two states."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(2, 3))
            self.register_buffer("row", self.cache[0])

        def forward(self, x: Any) -> Any:
            self.cache.add_(x)
            return self.row * 1

    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer(own, torch.zeros(3))

        def forward(self, x: Any) -> Any:
            return self.get_buffer(own) * x

    inputs = [torch.ones(3)]
    programs = {"shared": export(Shared(), inputs), "alone": export(Alone(), inputs)}
    for names in (["shared", "alone"], ["alone", "shared"]):
        with pytest.raises(
            EtirError, match=f"'{own}' shares memory with .* in method '{names[1]}', and with"
        ) as caught:
            import_program({name: programs[name] for name in names})
        assert caught.value.ids == ("E0404",)


@pytest.mark.parametrize("target", ["etir", "executorch"])
def test_external_state(target: str, tmp_path: Any) -> None:
    """The initial values of shared memory are in the weights file once."""
    model = Cache()
    model.cache.uniform_()
    program = export(model, [torch.ones(1, 3)])
    compiled = etir.compile(program, target=target, external_state="state", external_weights="state")
    files: Mapping[str, Any] = compiled.external
    assert sum(len(bytes(data)) for data in files.values()) < 3 * model.cache.numel() * 4 + 1024
    path = tmp_path / "model.pte"
    compiled.save(str(path))
    loaded = etir.runtime.load(str(path), data=[str(tmp_path / f"{tag}.ptd") for tag in files])
    with torch.no_grad():
        expected = model(torch.ones(1, 3))
    for a, b in zip(loaded.forward(torch.ones(1, 3)), expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(a), b)


def test_saved_programs(tmp_path: Any) -> None:
    """What of the sharing a .pt2 file keeps is up to torch: the loaded program is the reference."""
    path = str(tmp_path / "model.pt2")
    torch.export.save(export(Cache(), [torch.ones(1, 3)]), path)
    program = torch.export.load(path)
    loaded = etir.runtime.load(etir.compile(program, target="etir").buffer)
    reference = program.module()
    with torch.no_grad():
        for _ in range(2):
            for a, b in zip(loaded.forward(torch.ones(1, 3)), reference(torch.ones(1, 3)), strict=True):
                torch.testing.assert_close(torch.as_tensor(a), b)


def test_one_element_with_any_stride() -> None:
    """The stride of a dim of size 1 says nothing; bytes of another width are read all the same."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", torch.arange(9.0).reshape(3, 3))
            self.one = self.b.as_strided((1,), (8,), 3)
            self.weight = torch.arange(4.0).as_strided((1,), (3,), 2)

        def forward(self, x: Any) -> Any:
            self.b.add_(x)
            return self.one * 1, self.b * 1, self.weight * x

    assert_agrees(Model(), [torch.tensor(2.0)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_empty_state(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """State without elements has no bytes to begin with, and none to write."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", torch.zeros(shape, dtype=dtype))

        def forward(self, x: Any) -> Any:
            self.b.mul_(2)
            return self.b, x * 1

    assert_agrees(Model(), [torch.tensor(2.0)])


@pytest.mark.parametrize("through", ["copy", "flat"])
def test_constants_of_methods_have_names_of_their_own(through: str) -> None:
    """``torch.export`` numbers constants without name in each method: equal names are no equal tensors."""

    class State(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", torch.arange(9.0).reshape(3, 3))
            self.copy = self.b.contiguous()
            self.flat = self.b.flatten()

        def forward(self, x: Any) -> Any:
            getattr(self, through).view(-1)[torch.tensor([1])] = x
            return self.copy * 1, self.flat * 1

    class Other(nn.Module):
        def __init__(self, state: State) -> None:
            super().__init__()
            self.state = state

        def forward(self, x: Any) -> Any:
            self.state.flat.index_copy_(0, torch.tensor([8]), x.reshape(1))
            return self.state.flat * 1

    state, x = State(), torch.tensor(100.0)
    other = Other(state)
    with torch.no_grad():
        programs = {"forward": torch.export.export(state, (x,)), "other": torch.export.export(other, (x,))}
        loaded = etir.runtime.load(etir.compile(programs, target="etir", share_state=True).buffer)
        for name, module in (("other", other), ("forward", state), ("other", other)):
            expected = module(x)
            for got, want in zip(
                loaded[name](x), expected if isinstance(expected, tuple) else (expected,), strict=True
            ):
                assert torch.equal(torch.as_tensor(got), want)


class BytesAsBools(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cat([x.view(torch.bool), torch.ones(2)])


@pytest.mark.parametrize("target", ["etir", "executorch"])
def test_a_byte_that_is_not_0_or_1_is_true(target: str) -> None:
    # Eager itself gives the bytes as numbers, which torch leaves undefined.
    x = torch.tensor([0.0, 1.0, -2.5])
    program = etir.compile(export(BytesAsBools(), (x,)), target=target)
    expected = torch.cat([(x.view(torch.uint8) != 0).float(), torch.ones(2)])
    assert torch.equal(etir.runtime.load(program).forward(x)[0], expected)


@pytest.mark.parametrize("shape", [(2, 0), (3, 0, 2)])
def test_strides_of_empty_tensors(shape: tuple[int, ...]) -> None:
    """An empty dim counts as 1 in them, and nothing is read."""

    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.as_strided((0,), (1,), 0), x.t().as_strided((0, 2), (1, 1)) if x.dim() == 2 else x * x.stride(0)

    assert_agrees(Model(), [torch.zeros(shape)])


def whole(x: Any, y: Any) -> Any:
    x.as_strided(x.shape, x.stride()).lerp_(y, 0.5)
    return x * 2


def rows(x: Any, y: Any) -> Any:
    x.as_strided((2, x.shape[1]), (x.shape[1], 1), x.shape[1]).add_(y[:2])
    return x * 2


def column(x: Any, y: Any) -> Any:
    x.as_strided((x.shape[0],), (x.shape[1],), 1).add_(y[0, 0])
    return x * 2


@pytest.mark.parametrize("change", [whole, rows, column])
def test_writes_through_strides_of_dynamic_sizes(change: Any) -> None:
    """Elements that follow one another do not overlap, whatever the sizes are, nor do those of one line."""

    class Model(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return (change(x, y),)

    n = torch.export.Dim("n", min=2, max=8)
    program = torch.export.export(Model(), (torch.ones(3, 4), torch.ones(3, 4)), dynamic_shapes=({1: n}, {1: n}))
    calls = [(torch.randn(3, k), torch.randn(3, k)) for k in (4, 2, 8)]
    expected = eager(Model(), calls)
    own = etir.runtime.load(etir.compile(program, target="etir").buffer)
    assert_same(trace(lambda flat: own.forward(*flat), calls), expected, "etir", 1e-6)
    assert_same(stock(etir.compile(program, target="executorch").buffer, calls), expected, "stock", 1e-6)


def test_storage_of_an_attribute_that_changes() -> None:
    """Export gives it the offset 0; it starts in the middle of the buffer that it is a view of."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", torch.arange(9.0))
            self.a = self.b.as_strided((2, 1), (2, 8), 3)

        def forward(self, x: Any) -> Any:
            self.a.mul_(x)
            return self.a.as_strided((3,), (2,), 1) + x, self.a.as_strided((2,), (1,)) * 1, self.b * 1

    assert_agrees(Model(), [torch.tensor(2.0)])
