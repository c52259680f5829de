"""Names and containers of a program on their way through the file: calls by keyword, eager's containers back."""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import etir
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.emit.from_pte import read_program
from etir.emit.pte.reader import read_pte
from etir.emit.to_pte import emit_program
from etir.runtime import Record, RuntimeFailure, is_available, load
from etir.runtime.structure import parse_structure

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

X, Y = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])


class Pair(NamedTuple):
    first: torch.Tensor
    second: Any


@dataclass
class Batch:
    Ids: torch.Tensor
    mask: torch.Tensor | None = None


@dataclass
class Scores:
    logits: torch.Tensor
    extra: torch.Tensor | None = None


class Bag:
    """A container that only torch is told about, with a context that is no list of names."""

    def __init__(self, items: list[Any], label: str):
        self.items, self.label = items, label


torch.export.register_dataclass(Batch)
torch.export.register_dataclass(Scores, serialized_type_name="names_test.Scores")
pytree.register_pytree_node(
    Bag,
    lambda b: (b.items, b.label),
    lambda items, label: Bag(list(items), label),
    serialized_type_name="names_test.Bag",
)


class Model(torch.nn.Module):
    """Arguments of every kind."""

    def forward(self, X: torch.Tensor, batch: Batch, pair: Pair, *rest: Any, scale: torch.Tensor, table: Any) -> Any:
        shifted = X + batch.Ids + pair.first - pair.second["k"] + rest[0]
        return {"shifted": shifted, "parts": [shifted * scale, (table["a"] - table["b"],)]}


ARGS = (X, Batch(Y), Pair(X + 1, {"k": Y + 1}), X + 2)
KWARGS = {"scale": Y + 2, "table": collections.OrderedDict(a=X + 3, b=Y + 3)}


def compiled(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> etir.Program:
    return etir.compile(torch.export.export(module.eval(), args, kwargs))


@pytest.fixture(scope="module")
def model() -> etir.Program:
    return compiled(Model(), ARGS, KWARGS)


def same(actual: Any, expected: Any) -> None:
    """The same containers with the same values."""
    leaves, spec = pytree.tree_flatten(actual)
    others, expected_spec = pytree.tree_flatten(expected)
    assert spec == expected_spec
    torch.testing.assert_close(leaves, others)


# --- calls ------------------------------------------------------------------------------------------------------------


def test_arguments_by_position_and_keyword(model: etir.Program) -> None:
    forward = load(model).forward
    expected = Model()(*ARGS, **KWARGS)
    x, batch, pair, rest = ARGS
    same(forward.structured(*ARGS, **KWARGS), expected)
    same(forward.structured(x, pair=pair, batch=batch, rest_0=rest, **KWARGS), expected)
    same(forward.structured(X=x, pair=pair, batch=batch, rest_0=rest, **KWARGS), expected)
    flat = pytree.tree_leaves(expected)
    torch.testing.assert_close(forward(*ARGS, **KWARGS), flat)
    torch.testing.assert_close(forward(*pytree.tree_leaves((ARGS, KWARGS))), flat)
    named = dict(zip([info.name for info in forward.inputs], pytree.tree_leaves((ARGS, KWARGS)), strict=True))
    torch.testing.assert_close(forward(**named), flat)


def test_names_of_inputs_and_outputs(model: etir.Program) -> None:
    forward = load(model).forward
    taken = ["X", "batch_Ids", "pair_first", "pair_second_k", "rest_0", "scale", "table_a", "table_b"]
    assert [info.name for info in forward.inputs] == taken
    assert [info.name for info in forward.outputs] == ["shifted", "parts_0", "parts_1_0"]
    assert "X: float32[2], batch_Ids: float32[2]" in repr(forward)


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((X,), {"z": Y}, "there is no input 'z'; the program takes x, y"),
        ((X, Y), {"y": Y}, "'y' is given twice, by position and by keyword; the program takes x, y"),
        ((), {"y": Y}, "missing x; the program takes x, y"),
        ((X, Y, X), {"y": Y}, "got 3 arguments; the program takes x, y"),
        (({"a": X}, Y), {}, "argument 'x': a dict where the program takes one value"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[Any, ...], kwargs: dict[str, Any], text: str) -> None:
    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    forward = load(compiled(Add(), (X, Y))).forward
    with pytest.raises(RuntimeFailure, match=r"error\[E1208\]") as caught:
        forward(*args, **kwargs)
    assert text in str(caught.value)
    torch.testing.assert_close(forward(y=Y, x=X), [X + Y])


def test_a_misspelt_keyword(model: etir.Program) -> None:
    with pytest.raises(RuntimeFailure, match="help: did you mean 'batch'"):
        load(model).forward(X, bach=X)


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (Batch(Y, mask=Y), "argument 'batch': got Ids, mask; the program takes Ids"),
        ((Y,), "argument 'batch': got 1 values; the program takes Ids"),
        ({"ids": Y}, "argument 'batch': got ids; the program takes Ids"),
    ],
)
def test_containers_that_do_not_fit(model: etir.Program, batch: Any, text: str) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        load(model).forward(X, batch, *ARGS[2:], **KWARGS)
    assert text in str(caught.value)


# --- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x + 1, [None]),
        (lambda x: (x + 1,), [None]),
        (lambda x: [x + 1, (x + 2, x + 3)], [None, None, None]),
        (lambda x: ({"a": x + 1}, x + 2), ["output_0_a", None]),
        (lambda x: collections.OrderedDict(b=x + 1, a=x + 2), ["b", "a"]),
        (lambda x: {1: x + 1, "t": {}}, ["1"]),
        (lambda x: {"a_b": x + 1, "a": {"b": x + 2}}, ["a_b", "a_b_1"]),
        (lambda x: Pair(x + 1, [x + 2]), ["first", "second_0"]),
        (lambda x: Batch(x + 1), ["Ids"]),
        (lambda x: Scores(x + 1, x + 2), ["logits", "extra"]),
        (lambda x: Bag([x + 1, x + 2], "kept"), [None, None]),
        (lambda x: x.max(0), ["values", "indices"]),
        (lambda x: {"x": x + 1, "n": None, "i": 3, "f": 2.5, "b": True}, ["x", "n", "i", "f", "b"]),
        (lambda x: collections.deque([x + 1], maxlen=4), [None]),
    ],
)
def test_containers_come_back(function: Callable[[Any], Any], names: list[str | None]) -> None:
    class Function(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    program = compiled(Function(), (X,))
    method = load(program).forward
    result, expected = method.structured(x=X), function(X)
    assert type(result) is type(expected)
    same(result, expected)
    assert [info.name for info in method.outputs] == names
    if isinstance(expected, Bag):
        assert result.label == "kept"
    # The text at every level and the file have the same.
    text = print_module(read_program(program.buffer))
    again = load(emit_program(parse_module(text, EtContext())).pte())
    same(again.forward.structured(x=X), expected)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ({"type": "collections.deque", "context": "0"}, collections.deque),
        ({"type": "collections.deque", "context": '"?"'}, collections.deque),
        ({"type": "collections.defaultdict", "context": "?", "names": ["a"]}, collections.defaultdict),
        (
            {"type": "collections.defaultdict", "context": {"default_factory_name": "exec", "dict_context": ["a"]}},
            collections.defaultdict,
        ),
        ({"type": "collections.namedtuple", "context": "no.such.class", "names": ["def"]}, tuple),
        ({"type": "collections.namedtuple", "context": "os.stat_result"}, tuple),
        ({"type": "os.system", "context": "null"}, Record),
        ({"type": "", "context": "null"}, Record),
        ({"type": "antigravity.X", "context": "null"}, Record),
        ({"type": "names_test.Scores", "context": "null"}, RuntimeFailure),
        ({"type": "names_test.Scores", "context": '[["a"], ["a"]]'}, RuntimeFailure),
    ],
)
def test_descriptions_of_strange_files(head: dict[str, Any], expected: type) -> None:
    """A file may say anything: a container comes back, or an error, and nothing is imported or called."""
    text = print_module(read_program(compiled(torch.nn.Identity(), (X,)).buffer))
    spec = json.dumps([1, head | {"children_spec": [{"type": None, "context": None, "children_spec": []}]}])
    start = text.index(' out_spec "') + len(' out_spec "')
    end = text.index('"', start)
    quoted = spec.replace("\\", r"\5C").replace('"', r"\22")
    method = load(emit_program(parse_module(text[:start] + quoted + text[end:], EtContext())).pte()).forward
    if expected is RuntimeFailure:
        with pytest.raises(RuntimeFailure, match=r"error\[E1213\]: the class names_test.Scores refuses the outputs"):
            method.structured(X)
    else:
        assert isinstance(method.structured(X), expected)
    assert torch.equal(method(X)[0], X) and "antigravity" not in sys.modules


def test_a_dataclass_made_in_a_function_comes_back() -> None:
    @dataclass
    class Local:
        y: torch.Tensor

    torch.export.register_dataclass(Local)

    class Function(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Local:
            return Local(x + 1)

    result = load(compiled(Function(), (X,))).forward.structured(X)
    assert type(result) is Local and torch.equal(result.y, X + 1)


def test_a_process_that_knows_no_class(tmp_path: Path) -> None:
    """Without torch and without the user's modules: fields by name, nothing imported."""

    class Function(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return {"pair": Pair(x + 1, x + 2), "batch": Batch(x + 3), "bag": Bag([x + 4], "b"), "max": x.max(0)}

    compiled(Function(), (X,)).save(tmp_path / "m.pte")
    code = f"""
import sys, numpy as np, etir.runtime
result = etir.runtime.load({str(tmp_path / "m.pte")!r}).forward.structured(x=np.array([1, 2], np.float32))
pair, batch, bag, most = result["pair"], result["batch"], result["bag"], result["max"]
assert pair._fields == ("first", "second") and type(pair).__name__ == "Pair" and pair.first.tolist() == [2, 3]
assert isinstance(batch, etir.runtime.Record) and batch.Ids.tolist() == [4, 5] and batch["mask"] is None
assert bag["0"].tolist() == [5, 6] and most.values == 2 and most["indices"] == 1
assert "torch" not in sys.modules and not any("names" in name for name in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_a_record_has_fields_as_attributes_and_by_name() -> None:
    record = Record(values=1, b=2)
    assert (record.values, record["b"], list(record), len(record)) == (1, 2, ["values", "b"], 2)
    assert repr(record) == "Record(values=1, b=2)" and record == Record(values=1, b=2)


# --- the file ---------------------------------------------------------------------------------------------------------


def test_only_the_description_of_containers_has_the_names(model: etir.Program) -> None:
    """Without its names the file is what it was, but for that one string and where things lie because of it."""
    plan = read_pte(model.buffer).execution_plan[0]
    meta = plan.container_meta_type
    assert meta is not None
    protocol, root = json.loads(meta.encoded_inp_str)
    assert root["children_spec"][0].pop("names") == ["X", "batch", "pair", "rest_0"]
    module = read_program(model.buffer)
    text = print_module(module)
    assert text.count(r"\22names\22: [\22X\22") == 1
    stripped = text.replace(r", \22names\22: [\22X\22, \22batch\22, \22pair\22, \22rest_0\22]", "")
    assert len(stripped) < len(text)
    other = read_pte(emit_program(parse_module(stripped, EtContext())).pte()).execution_plan[0]
    assert other.container_meta_type is not None
    assert json.loads(other.container_meta_type.encoded_inp_str) == [protocol, root]
    assert other.container_meta_type.encoded_out_str == meta.encoded_out_str
    for field in ("name", "values", "inputs", "outputs", "chains", "operators", "delegates", "non_const_buffer_sizes"):
        assert getattr(other, field) == getattr(plan, field), field


def test_torch_reads_the_description_of_what_it_can() -> None:
    """Where torch can write a tree, its reader gives the same for ours: the names are passed over."""

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: dict[str, torch.Tensor], *, z: torch.Tensor) -> Any:
            return {"a": x + y["k"], "b": [z + 1]}

    ep = torch.export.export(Add(), (X, {"k": Y}), {"z": X})
    meta = read_pte(etir.compile(ep).buffer).execution_plan[0].container_meta_type
    assert meta is not None and '"names": ["x", "y"]' in meta.encoded_inp_str
    assert pytree.treespec_loads(meta.encoded_inp_str) == ep.call_spec.in_spec
    assert meta.encoded_out_str == pytree.treespec_dumps(ep.call_spec.out_spec)


def test_the_stock_runtime_runs_files_with_names(model: etir.Program) -> None:
    portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")
    method = portable_lib._load_for_executorch_from_buffer(model.buffer)
    outputs = method.forward(pytree.tree_leaves((ARGS, KWARGS)))
    torch.testing.assert_close(outputs, pytree.tree_leaves(Model()(*ARGS, **KWARGS)))


def test_files_of_the_stock_compiler_have_containers_without_names() -> None:
    exir = pytest.importorskip("executorch.exir")

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: dict[str, torch.Tensor], *, z: torch.Tensor) -> Any:
            return {"a": x + y["k"], "b": [z + 1]}

    ep = torch.export.export(Add(), (X, {"k": Y}), {"z": X})
    forward = load(exir.to_edge(ep).to_executorch().buffer).forward
    same(forward.structured(X, {"k": Y}, z=X), Add()(X, {"k": Y}, z=X))
    assert [info.name for info in forward.inputs] == [None, "input_1_k", "z"]
    assert [info.name for info in forward.outputs] == ["a", "b_0"]
    with pytest.raises(RuntimeFailure, match="no input 'x'; the program takes argument 0, argument 1, z"):
        forward(x=X, y={"k": Y}, z=X)
    ep = torch.export.export(torch.nn.Identity(), (X,))
    with pytest.raises(RuntimeFailure, match="does not say what its inputs are called"):
        load(exir.to_edge(ep).to_executorch().buffer).forward(input=X)


def test_methods_for_state_are_called_by_the_state_s_names() -> None:
    class Counter(torch.nn.Module):
        total: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x)
            return self.total * 1

    rt = load(etir.compile(torch.export.export(Counter(), (X,)), target="etir", state_methods=True))
    rt["__et_write_state"](total=Y)
    assert torch.equal(rt.forward(x=X)[0], X + Y)
    assert [info.name for info in rt["__et_read_state"].outputs] == ["total"]


LEAF = '{"type": null, "context": null, "children_spec": []}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "T2#1#1($,$)",
        "[1]",
        "[2, {}]",
        "[1, 5]",
        "null",
        '[1, {"type": 3, "context": null, "children_spec": 4}]',
        f'[1, {{"type": "builtins.dict", "context": "[[1]]", "children_spec": [{LEAF}]}}]',
        '[1, {"type": "builtins.dict", "context": "3", "children_spec": []}]',
        '[1, {"type": "collections.defaultdict", "context": "[]", "children_spec": []}]',
        "[1, " + '{"type": "builtins.list", "context": "null", "children_spec": [' * 5000,
    ],
)
def test_descriptions_that_cannot_be_read_are_no_structure(text: str) -> None:
    assert parse_structure(text) is None


def test_containers_nested_too_deeply_are_no_structure() -> None:
    def nested(depth: int) -> str:
        inner = '{"type": null, "context": null, "children_spec": []}'
        for _ in range(depth):
            inner = f'{{"type": "builtins.list", "context": "null", "children_spec": [{inner}]}}'
        return f"[1, {inner}]"

    assert parse_structure(nested(100)) is not None
    assert parse_structure(nested(101)) is None


def test_a_file_without_a_description_takes_flat_arguments() -> None:
    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    text = print_module(read_program(compiled(Add(), (X, Y)).buffer))
    start, end = text.index(" in_spec "), text.index("{\n", text.index(" out_spec "))
    rt = load(emit_program(parse_module(text[:start] + " " + text[end:], EtContext())).pte())
    torch.testing.assert_close(rt.forward(X, Y), [X + Y])
    torch.testing.assert_close(rt.forward((X, Y)), [X + Y])
    with pytest.raises(RuntimeFailure, match="does not say what its inputs are called"):
        rt.forward(X, y=Y)
    with pytest.raises(RuntimeFailure, match="does not say how the outputs of 'forward' are packed"):
        rt.forward.structured(X, Y)


def test_numpy_in_numpy_out_by_name(model: etir.Program) -> None:
    flat = [leaf.numpy() for leaf in pytree.tree_leaves((ARGS, KWARGS))]
    forward = load(model).forward
    result = forward.structured(**dict(zip([str(i.name) for i in forward.inputs], flat, strict=True)))
    assert isinstance(result["shifted"], np.ndarray)
