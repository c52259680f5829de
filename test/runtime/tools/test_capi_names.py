"""Names of inputs and outputs through the C interface: the rules of ``etir.runtime.structure`` once more, in C++."""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import StringAttr

import etir
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.text import parse_module
from etir.emit.to_pte import emit_program
from etir.runtime.structure import arguments_of, leaf_names, parse_structure

from etir_testing.runtime.builds import preset_of_tests

pytestmark = pytest.mark.skipif(preset_of_tests() != "release", reason="Python cannot load a library with sanitizers")

Names = tuple[list[str | None], list[str | None]]
Read = Callable[[bytes], Names]


@pytest.fixture(scope="module")
def read(built: Path) -> Read:
    """Names of the inputs and outputs of a file's method ``forward``."""
    library = ctypes.CDLL(str(next((built / "tools").glob("libetir.*"))))
    library.etir_program_load.restype = library.etir_method_load.restype = ctypes.c_void_p
    library.etir_program_load.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.etir_method_load.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    for function in (library.etir_program_free, library.etir_method_free):
        function.argtypes, function.restype = [ctypes.c_void_p], None
    for function in (library.etir_method_num_inputs, library.etir_method_num_outputs):
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_size_t
    for function in (library.etir_method_input_name, library.etir_method_output_name):
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_char_p

    def names(method: int, count: int, name: Any) -> list[str | None]:
        assert name(method, count) is None
        found = [name(method, index) for index in range(count)]
        return [None if text is None else text.decode() for text in found]

    def read_file(data: bytes) -> Names:
        aligned = np.frombuffer(data, np.uint8).copy()
        program = library.etir_program_load(aligned.ctypes.data, len(aligned), 1)
        method = library.etir_method_load(program, b"forward")
        assert method is not None
        result = (
            names(method, library.etir_method_num_inputs(method), library.etir_method_input_name),
            names(method, library.etir_method_num_outputs(method), library.etir_method_output_name),
        )
        library.etir_method_free(method)
        library.etir_program_free(program)
        return result

    return read_file


def file_with(spec: str, count: int) -> bytes:
    """A program that returns its ``count`` inputs, with a text as the description of both."""
    values = ", ".join(f"%x{i}" for i in range(count))
    buffers = "\n".join(f"%x{i} = et.buffer at <1, {16 * i}> : tensor<4xf32>" for i in range(count))
    text = f"et.method @forward pools [0, {16 * count}] {{\n{buffers}\net.inputs {values}\net.return {values}\n}}"
    module = parse_module(text, EtContext())
    (method,) = module.body.block.ops
    assert isinstance(method, MethodOp)
    method.properties |= {"in_spec": StringAttr(spec), "out_spec": StringAttr(spec)}
    return emit_program(module).pte()


def in_python(spec: str, count: int) -> Names:
    """What Python reads of it; halves of pairs, which are no characters, are replaced in C++."""
    root = parse_structure(spec)
    found = leaf_names(arguments_of(root), count, "input"), leaf_names(root, count, "output")
    one, other = ([re.sub("[\ud800-\udfff]", "\ufffd", name) if name else None for name in names] for names in found)
    return one, other


LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
KEYS = st.lists(
    st.sampled_from(["a", "b", "a_b", "", "é", 'quoted"', "\N{GRINNING FACE}", "_1", 3, -1, True, None]), unique=True
)


def containers(children: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """A container of every kind with the right number of keys."""

    @st.composite
    def container(draw: st.DrawFn) -> dict[str, Any]:
        keys = draw(KEYS.filter(lambda keys: len(keys) <= 3))
        names = [str(key) for key in keys]
        head = draw(
            st.sampled_from(
                [
                    {"type": "builtins.tuple", "context": "null"},
                    {"type": "builtins.tuple", "context": "null", "names": names},
                    {"type": "builtins.list", "context": "null"},
                    {"type": "builtins.dict", "context": json.dumps(keys)},
                    {"type": "collections.OrderedDict", "context": json.dumps(keys)},
                    {"type": "collections.defaultdict", "context": {"dict_context": keys}},
                    {"type": "collections.namedtuple", "context": "m.Pair", "names": names},
                    {"type": "m.Data", "context": json.dumps([names, ["absent"]])},
                    {"type": "m.Output", "context": json.dumps(names)},
                    {"type": "m.Other", "context": "no JSON"},
                    {"type": "m.Other", "context": '["one", 2]'},
                ]
            )
        )
        return head | {"children_spec": [draw(children) for _ in keys]}

    return container()


TREES = st.recursive(st.just(LEAF), containers, max_leaves=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(TREES, max_size=3), TREES, st.booleans(), st.data())
def test_names_are_those_of_python(
    read: Read, positional: list[dict[str, Any]], tree: dict[str, Any], escaped: bool, data: st.DataObject
) -> None:
    if positional:
        arguments = {"type": "builtins.tuple", "context": "null", "children_spec": positional}
        keywords = {"type": "builtins.dict", "context": '["k"]', "children_spec": [tree]}
        tree = {"type": "builtins.tuple", "context": "null", "children_spec": [arguments, keywords]}
    spec = json.dumps([1, tree], ensure_ascii=escaped)
    root = parse_structure(spec)
    assert root is not None
    count = max(root.leaves, 1)
    if data.draw(st.booleans()):
        # Damaged text: both read the same, or nothing.
        place = data.draw(st.integers(0, len(spec) - 1))
        spec = spec[:place] + data.draw(st.sampled_from(["", '"', "}", "]", "x", "\\", ","])) + spec[place + 1 :]
    assert read(file_with(spec, count)) == in_python(spec, count)


def test_names_of_a_compiled_program(read: Read) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, batch: dict[str, torch.Tensor]) -> dict[str, Any]:
            return {"sum": x + batch["y"], "parts": (x * batch["y"], x * x)}

    x = torch.ones(2)
    data = etir.compile(torch.export.export(Model(), (x, {"y": x}))).buffer
    assert read(data) == (["x", "batch_y"], ["sum", "parts_0", "parts_1"])


@pytest.mark.parametrize(
    "spec", ["", "[1", "[1, null]", "[" * 100_000, '[1, {"type": ' * 1000, "[2, 3]", "\0", '[1, "\\u12"]', '[1, "\\']
)
def test_text_that_is_no_tree_gives_no_names(read: Read, spec: str) -> None:
    assert read(file_with(spec, 2)) == ([None, None], [None, None])
