"""Import of exported programs: signatures, containers, weights, symbolic dims, several methods, and what is refused."""

from __future__ import annotations

import json
import sys
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.export import Dim, export
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from xdsl.dialects.func import FuncOp

from etir.diagnostics import EtirError
from etir.dialects.aten.opaque import OpaqueOp
from etir.dialects.context import EtContext
from etir.dialects.et.layout import order_of
from etir.dialects.et.program import StateOp, WeightOp
from etir.dialects.sym.expr import symbol
from etir.dialects.sym.ops import DimOp
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module
from etir.emit.to_pte import emit_program
from etir.interpret.interpreter import Interpreter
from etir.lowering.import_fx import import_program
from etir.lowering.import_fx.trees import load_tree
from etir.lowering.import_fx.types import dim_of
from etir.lowering.import_fx.weights import BlobPool
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline


class Function(torch.nn.Module):
    """A module from a function."""

    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def imported(module: torch.nn.Module, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, **options: Any):
    """The module of a program; it verifies, every operation has a location, and its text reads back."""
    with torch.no_grad():
        program = export(module.eval(), args, kwargs, **options)
    return checked(import_program(program))


def checked(module):
    verify_module(module, require_locations=True)
    again = parse_module(print_module(module), EtContext())
    assert print_module(again) == print_module(module)
    return module


def method(module, name: str = "forward") -> FuncOp:
    return next(op for op in module.body.block.ops if isinstance(op, FuncOp) and op.sym_name.data == name)


def weights(module) -> dict[str, WeightOp]:
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, WeightOp)}


def states(module) -> dict[str, StateOp]:
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, StateOp)}


def run(module, *inputs: Any, name: str = "forward") -> list[Any]:
    return Interpreter(module, "torch").run(list(inputs), name)


def names(module, which: str) -> list[str]:
    return [a.data for a in method(module).attributes[f"et.{which}_names"]]


# --- containers -------------------------------------------------------------------------------------------------------


def test_nested_containers_are_flat_and_remembered() -> None:
    """Inputs come flat in pytree order; the specs rebuild the containers."""
    args = ({"b": torch.ones(2), "a": [torch.zeros(2), (torch.full((2,), 3.0),)]},)
    module = imported(Function(lambda d: {"sum": d["a"][0] + d["b"], "rest": [d["a"][1][0]]}), args)
    assert len(method(module).body.block.args) == 3
    spec = pytree.treespec_loads(method(module).attributes["et.in_spec"].data)
    assert spec.num_leaves == 3
    flat = pytree.tree_leaves(args)
    out = run(module, *flat)
    rebuilt = pytree.tree_unflatten(out, pytree.treespec_loads(method(module).attributes["et.out_spec"].data))
    assert torch.equal(rebuilt["sum"], torch.ones(2)) and torch.equal(rebuilt["rest"][0], torch.full((2,), 3.0))


def test_keyword_arguments() -> None:
    """Keyword arguments follow the positional ones, in the order of the export."""
    module = imported(Function(lambda x, *, scale, shift: x * scale + shift), (torch.ones(3),), {
        "scale": torch.full((3,), 2.0),
        "shift": torch.full((3,), 5.0),
    })  # fmt: skip
    assert len(names(module, "input")) == 3
    assert torch.equal(
        run(module, torch.ones(3), torch.full((3,), 2.0), torch.full((3,), 5.0))[0], torch.full((3,), 7.0)
    )


class Names(torch.nn.Module):
    """Names that torch changes where it names the graph's inputs."""

    def forward(self, Left: Any, batch: dict[str, Any], *rest: Any, scale: Any) -> Any:
        return {"Sum": Left + batch["Key 1"] + rest[0], "rest": (rest[1] * scale, 7)}


NAMED = (torch.ones(2), {"Key 1": torch.ones(2)}, torch.ones(2), torch.ones(2)), {"scale": torch.ones(2)}


def test_names_are_the_user_s() -> None:
    """Arguments as ``forward`` calls them and keys as they are, not as the graph spells them."""
    module = imported(Names(), *NAMED)
    assert names(module, "input") == ["Left", "batch_Key 1", "rest_0", "rest_1", "scale"]
    assert names(module, "output") == ["Sum", "rest_0", "rest_1"]
    text = method(module).attributes["et.in_spec"].data
    assert '"names": ["Left", "batch", "rest_0", "rest_1"]' in text
    assert pytree.treespec_loads(text) == pytree.tree_structure(NAMED)
    with pytest.raises(ValueError, match="protocol 2"):
        load_tree("[2, {}]")


def test_names_of_a_program_that_does_not_say_them() -> None:
    """Without torch's record the graph's names stand for arguments, where every argument is one input."""
    add = torch.export.export(Function(lambda x, y: x + y), (torch.ones(2), torch.ones(2)))
    nested = torch.export.export(Names(), *NAMED)
    for program in (add, nested):
        program.module_call_graph[0].signature.forward_arg_names = None
    assert '"names": ["args_0", "args_1"]' in method(import_program(add)).attributes["et.in_spec"].data
    module = import_program(nested)
    assert '"names"' not in method(module).attributes["et.in_spec"].data
    assert names(module, "input") == ["left", "input_1_Key 1", "rest_0", "rest_1", "scale"]


Pair = namedtuple("Pair", ["first", "second"])


def test_named_tuples() -> None:
    """torch's own named tuples and the user's: flat results, a spec that can be read."""
    module = imported(Function(lambda x: Pair(x.max(1), x + 1)), (torch.eye(3),))
    out = run(module, torch.eye(3))
    assert len(out) == 3 and torch.equal(out[1], torch.tensor([0, 1, 2]))
    assert json.loads(method(module).attributes["et.out_spec"].data)[0] == 1


@dataclass
class Box:
    """A container that pytree is told about."""

    content: torch.Tensor
    label: str


def test_registered_container() -> None:
    """A container without a serialized name goes by its class; torch's tree comes back as tuples of the same leaves."""
    pytree.register_pytree_node(
        Box,
        lambda b: ([b.content], b.label),
        lambda c, label: Box(*c, label),
        flatten_with_keys_fn=lambda b: ([(pytree.GetAttrKey("content"), b.content)], b.label),
    )
    module = imported(Function(lambda b: Box(b.content * 2, b.label)), (Box(torch.ones(2), "a"),))
    assert torch.equal(run(module, torch.ones(2))[0], torch.full((2,), 2.0))
    for which in ("in_spec", "out_spec"):
        text = method(module).attributes[f"et.{which}"].data
        assert '.Box"' in text and load_tree(text).num_leaves == 1


# --- weights ----------------------------------------------------------------------------------------------------------


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(8, 4)
        self.head = torch.nn.Linear(4, 8, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(i))


def test_tied_weights_are_one_blob() -> None:
    """Two names, one content: the bytes are referred to once."""
    module = Tied()
    got = imported(module, (torch.tensor([1, 2]),))
    digests = {op.value.data.digest for op in weights(got).values()}
    assert len(digests) == 1
    torch.testing.assert_close(run(got, torch.tensor([1, 2]))[0], module(torch.tensor([1, 2])))


def test_unused_weights_are_dropped() -> None:
    """What nothing reads is no part of the program."""
    module = Function(lambda x: x + 1)
    module.register_parameter("unused", torch.nn.Parameter(torch.ones(1000)))
    assert not weights(imported(module, (torch.ones(2),)))


class Buffers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.full((2,), 2.0))
        self.register_buffer("transient", torch.full((2,), 3.0), persistent=False)
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.scratch.copy_(x)
        return x * self.kept + self.transient + torch.tensor([10.0, 20.0]) + self.count


@pytest.mark.parametrize("functional", [False, True])
def test_buffers_constants_and_state(functional: bool) -> None:
    """Persistent or not, a buffer is a weight; a written one is state; a tensor made in forward is a constant."""
    with torch.no_grad():
        program = export(Buffers(), (torch.ones(2),))
    if functional:
        program = program.run_decompositions({})
    module = checked(import_program(program))
    kinds = {op.attributes["kind"].data for op in weights(module).values()}
    assert kinds == {"buffer", "constant"}
    assert sorted(op.attributes["fqn"].data for op in states(module).values()) == ["count", "scratch"]
    interpreter = Interpreter(module, "torch")
    eager = Buffers()
    for _ in range(3):
        torch.testing.assert_close(interpreter.run([torch.ones(2)])[0], eager(torch.ones(2)))


def test_one_value_stored_into_two_buffers() -> None:
    """Both buffers are state, though torch lists the stored value once."""

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.zeros(2))
            self.register_buffer("b", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            new = x + self.a
            self.a.copy_(new)
            self.b.copy_(new)
            return new

    with torch.no_grad():
        program = export(Module(), (torch.ones(2),)).run_decompositions({})
    assert sorted(states(checked(import_program(program)))) == ["a", "b"]


def test_empty_weight() -> None:
    """No bytes are bytes too."""
    module = Function(lambda x: torch.cat([x, module.nothing]))
    module.register_buffer("nothing", torch.zeros(0, 3))
    got = imported(module, (torch.ones(2, 3),))
    assert [op.value.data.size for op in weights(got).values()] == [0]
    assert torch.equal(run(got, torch.ones(2, 3))[0], torch.ones(2, 3))


def test_channels_last() -> None:
    """An input's dim order is part of its type; a weight is stored contiguous, whatever its strides."""
    conv = torch.nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 5, 5).to(memory_format=torch.channels_last)
    module = imported(conv, (x,))
    argument = method(module).body.block.args[0]
    assert order_of(argument.type) == (0, 2, 3, 1)
    stored = weights(module)["weight"].value.data.data
    assert bytes(stored) == conv.weight.detach().contiguous().numpy().tobytes()
    torch.testing.assert_close(run(module, x)[0], conv(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [lambda w: w.t(), lambda w: w[:, 1:], lambda w: w.expand(3, 2, 3)[1]])
def test_strided_weights(make: Any) -> None:
    """Views of tensors as weights: their own values, row-major, and not those of the storage under them."""
    value = make(torch.arange(6.0).reshape(2, 3))
    module = Function(lambda x: x + module.weight)
    module.register_buffer("weight", value)
    got = imported(module, (torch.zeros(value.shape),))
    assert torch.equal(run(got, torch.zeros(value.shape))[0], value)


def test_weights_that_share_storage_differ() -> None:
    """Two transposed views of one storage have the same address and size, and different contents."""
    base = torch.arange(4.0).reshape(2, 2)
    module = Function(lambda x: x + module.a - module.b)
    module.register_buffer("a", base)
    module.register_buffer("b", base.t())
    got = imported(module, (torch.zeros(2, 2),))
    assert torch.equal(run(got, torch.zeros(2, 2))[0], base - base.t())


# --- symbolic dims ----------------------------------------------------------------------------------------------------


def test_derived_dims() -> None:
    """``2 * n`` is an expression of one symbol."""
    n = Dim("n", min=2, max=8)
    module = imported(
        Function(lambda x, y: torch.cat([x, x]) + y),
        (torch.ones(4, 3), torch.ones(8, 3)),
        dynamic_shapes=(({0: n}, {0: 2 * n}),),
    )
    dims = [op for op in module.body.block.ops if isinstance(op, DimOp)]
    assert len(dims) == 1 and dims[0].range == (2, 8)
    types = [str(a.type) for a in method(module).body.block.args]
    assert f"dims = [2 * {dims[0].sym_name.data}, 3]" in types[1]
    assert run(module, torch.ones(3, 3), torch.ones(6, 3))[0].shape == (6, 3)


@pytest.mark.parametrize("saved", [False, True])
def test_dims_without_a_bound_are_named(tmp_path: Path, saved: bool) -> None:
    """By the user's names; a saved program does not have them, so that input and index stand for a dim."""
    rows = Dim("rows")
    shapes = {"args": ({0: rows}, {1: rows})}
    program = export(Function(lambda x, y: x + y[0].sum()), (torch.ones(3, 4), torch.ones(2, 3)), dynamic_shapes=shapes)
    if saved:
        torch.export.save(program, tmp_path / "m.pt2")
        program = torch.export.load(tmp_path / "m.pt2")
    with pytest.raises(EtirError) as error:
        run_pipeline(EtContext(), import_program(program), pipeline())
    assert set(error.value.ids) == {"E0416"}
    text, name = str(error.value), "args_0_dim0" if saved else "rows"
    assert "dim 0 of input 'args_0' and dim 1 of input 'args_1', " in text
    assert ("error[E0416]: dim 0 of input" in text) is saved
    line = f'export with {name} = torch.export.Dim("{name}", max=1024) in '
    assert line + f'dynamic_shapes={{"args_0": {{0: {name}}}, "args_1": {{1: {name}}}}}' in text


def test_symbols_of_methods_do_not_clash() -> None:
    """Two methods use one name for dims with different ranges: each keeps its own."""

    def program(low: int, high: int):
        return export(
            Function(lambda x: x + 1), (torch.ones(4),), dynamic_shapes=(({0: Dim("n", min=low, max=high)},),)
        )

    module = checked(import_program({"small": program(2, 8), "large": program(4, 100), "again": program(2, 8)}))
    ranges = [op.range for op in module.body.block.ops if isinstance(op, DimOp)]
    assert sorted(ranges) == [(2, 8), (4, 100)]
    assert run(module, torch.ones(50), name="large")[0].shape == (50,)


def test_methods_share_weights_and_state() -> None:
    """Equal bytes under one name are one symbol; a buffer that one method writes is state in both."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)
            self.register_buffer("seen", torch.zeros(2))

    model = Model()

    class Write(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.model.linear(x)
            self.model.seen.add_(y)
            return y

    class Read(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model.linear(x) + self.model.seen

    with torch.no_grad():
        programs = {"write": export(Write(), (torch.ones(2),)), "read": export(Read(), (torch.ones(2),))}
    module = checked(import_program(programs))
    assert sorted(weights(module)) == ["model.linear.bias", "model.linear.weight"]
    assert list(states(module)) == ["model.seen"]
    interpreter = Interpreter(module, "torch")
    written = interpreter.run([torch.ones(2)], "write")[0]
    torch.testing.assert_close(interpreter.run([torch.ones(2)], "read")[0], 2 * written)


# --- custom operators, refusals ---------------------------------------------------------------------------------------


@torch.library.custom_op("etir_test::twice", mutates_args=())
def twice(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x * times


@twice.register_fake
def _(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return torch.empty_like(x)


def test_custom_operator() -> None:
    """A registered library's operator carries its schema in the text, so that the library is not needed to read it."""
    module = imported(Function(lambda x: torch.ops.etir_test.twice(x, 3) + 1), (torch.ones(2),))
    text = print_module(module)
    assert 'et.schema "etir_test::twice(Tensor x, SymInt times=2) -> Tensor"' in text
    assert "etir_test.twice.default(%" in text
    assert torch.equal(run(module, torch.ones(2))[0], torch.full((2,), 4.0))


def error_of(function: Any) -> EtirError:
    with pytest.raises(EtirError) as raised:
        function()
    return raised.value


@pytest.mark.parametrize("value", [None, 3, {}, {"forward": 3}, torch.nn.Linear(1, 1)])
def test_what_is_no_program(value: Any) -> None:
    assert error_of(lambda: import_program(value)).ids == ("E0402",)


def test_a_method_that_is_also_a_constant() -> None:
    program = torch.export.export(torch.nn.Linear(1, 1), (torch.ones(1),))
    error = error_of(lambda: import_program({"forward": program, "other": program}, constant_methods={"other": 3}))
    assert error.ids == ("E0402",) and "method 'other' is both" in str(error)


def test_sizes_of_which_only_the_trace_knows_a_range() -> None:
    """A share of a size is a whole number of thousandths for every size up to 256, and not for all."""
    environment = ShapeEnv()
    size = environment.create_unbacked_symint()
    torch._check(size >= 8)
    torch._check(size <= 256)
    assert dim_of(torch.sym_int(size * 0.3)) == symbol(str(size)) * 3 // 10
    with pytest.raises(EtirError, match="E0110"):
        dim_of(torch.sym_int(environment.create_unbacked_symint() * 0.3))


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line and what to install, not a traceback out of the importer."""
    monkeypatch.setitem(sys.modules, "torch", None)
    error = error_of(lambda: import_program(object()))  # type: ignore[arg-type]
    assert error.ids == ("E0401",) and "torch, which is not installed" in str(error)


def test_sparse_weight_is_refused() -> None:
    """The message names the weight and its layout."""
    error = error_of(lambda: BlobPool().add(torch.eye(3).to_sparse(), "eye"))
    assert error.ids == ("E0404",) and "'eye'" in str(error) and "sparse" in str(error)


def test_unknown_operators_are_reported_together() -> None:
    """Import stops at nothing; the step that has no place for an operator names all of them, with counts."""

    program = export(Function(lambda x: x.sin().sin().cos()), (torch.ones(2),))
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.sin.default:
            node.target = torch.sin
    module = import_program(program)
    opaque = [op for op in module.walk() if isinstance(op, OpaqueOp)]
    assert len(opaque) == 2
    error = error_of(lambda: run_pipeline(EtContext(), module, "aten-to-edge"))
    assert error.ids == ("E0410",)
    assert "a call of sin" in str(error) and "(2 uses, this is the first)" in str(error)
    assert "test_import_fx.py" in str(error.diagnostics[0].location)


def test_fake_weights_compile_up_to_the_plan_without_bytes() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(1 << 20, 1 << 20)
            self.register_buffer("seen", torch.zeros(1 << 20))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1)
            return self.linear(x) + self.seen

    with FakeTensorMode(), torch.no_grad():
        program = export(Model(), (torch.zeros(1, 1 << 20),))
    module = import_program(program)
    run_pipeline(EtContext(), module, pipeline())
    with pytest.raises(EtirError, match=r"E0201.*3 weights are not loaded \(4398054899712 bytes\): @linear.weight"):
        emit_program(module)


def test_questions_about_dtypes_are_answered_at_export() -> None:
    """What torch gives for them is a literal in later nodes."""

    class Promoting(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if torch.can_cast(x.dtype, torch.float64):
                x = x.to(torch.promote_types(x.dtype, y.dtype))
            return x.to(torch.result_type(x, 2.5)) * y.to(torch.result_type(x, y))

    exported = torch.export.export(Promoting(), (torch.ones(3), torch.ones(3).double()))
    names = [op.name for op in import_program(exported).walk()]
    assert "aten.mul.Tensor" in names
    assert not [n for n in names if n.startswith(("aten.promote", "aten.result", "aten.can"))]
