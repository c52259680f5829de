"""Registering from Python: what is added counts at once, names are taken once, replacing is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from etir import plugins

from etir_testing.forks import commands

HEAD = """
import numpy as np
import etir
from etir.diagnostics import EtirError
from etir.dialects.text import parse_module
from etir.interpret import run_module
from etir.plugins import *

CLIP = '''
et.schema "lib::clip(Tensor x, float limit) -> Tensor"
et.schema "lib::clip.out(Tensor x, float limit, *, Tensor(a!) out) -> Tensor(a!)"
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = lib.clip.default(%x, limit = 2.0) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
'''
RELU = '''
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu6.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
'''
X = np.array([1, -100], np.float32)

def compile(text, **options):
    return etir.compile(parse_module(text), target="etir", **options).buffer

def failure(function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except EtirError as error:
        return f"{error.ids[0]} {error.diagnostics[0].message}"
    return "none"

def tanh_clip(b, x, limit):
    return b.mul(b.tanh(b.div(x, limit)), limit)

def hard_clip(b, x, limit):
    return b.clamp(x, -limit, limit)
"""
"""Every script registers in a process of its own: nothing can be taken back."""

SCRIPTS = {
    "a decomposition": """
assert b"lib::clip" in compile(CLIP)
decomposition("lib.clip.default", name="clip")(tanh_clip)
first = compile(CLIP)
assert b"lib::clip" not in first and b"aten::tanh" in first
tanh_clip.__module__ = "elsewhere"
said = failure(decomposition("lib.clip.default", name="soft"), tanh_clip)
assert said == "E1303 there are two decompositions of 'lib.clip.default': of __main__ and of elsewhere", said
said = failure(decomposition("lib.other.default", name="clip"), tanh_clip)
assert said == "E1303 there are two decompositions 'clip': of __main__ and of elsewhere", said
hard_clip.__module__ = "elsewhere"
decomposition("lib.clip.default", replace=True)(hard_clip)
assert b"aten::clamp" in compile(CLIP) and b"aten::tanh" not in compile(CLIP)
""",
    "a decomposition that needs a size": """
DYNAMIC = CLIP.replace("tensor<2xf32>", "tensor<?xf32, #et.layout<dims = [s0]>>")
DYNAMIC = DYNAMIC.replace("func.func", "sym.dim @s0 in [2, 8]\\nfunc.func")
assert b"lib::clip" in compile(DYNAMIC)
@decomposition("lib.clip.default", name="rows")
def rows(b, x, limit):
    assert x.type.has_static_shape()
    return b.mul(x, 1.0 / x.type.get_shape()[0])
assert b"aten::mul" in compile(CLIP)
said = failure(compile, DYNAMIC)
assert said == "E0423 'lib.clip.default' has no decomposition for dynamic sizes; it has s0 as dim 0 of 'x'", said
""",
    "a decomposition of etir's": """
before = compile(RELU)
assert b"aten::hardtanh" in before or b"aten::clamp" in before
def relu6(b, x):
    return b.tanh(x)
said = failure(decomposition("aten.relu6.default", name="tanh-six"), relu6)
assert "E1303 there are two decompositions of 'aten.relu6.default': of etir.lowering." in said, said
decomposition("aten.relu6.default", name="tanh-six", replace=True)(relu6)
after = compile(RELU)
assert b"aten::tanh" in after and b"aten::hardtanh" not in after and b"aten::clamp" not in after
""",
    "the same again": """
calls = []
for word in ("first", "second"):
    @decomposition("lib.clip.default")
    def clip(b, x, limit, word=word):
        calls.append(word)
        return b.clamp(x, -limit, limit)
    compile(CLIP)
    @meaning("lib.clip.default")
    def compute(x, limit, word=word):
        return x if word == "first" else -x
    run_module(parse_module(CLIP), [X], evaluator="numpy")
assert calls == ["first", "second"], calls
assert run_module(parse_module(CLIP), [X], evaluator="numpy")[0].tolist() == [-1, 100]
""",
    "a meaning": """
def run(evaluator="numpy", text=CLIP):
    return run_module(parse_module(text), [X], evaluator=evaluator)[0]
assert failure(run).startswith("E1001 NumPy has no 'lib.clip.default'")
assert failure(run, "torch").startswith("E1001 torch has no operator 'lib.clip.default'")
meaning("lib.clip.default")(lambda x, limit: np.clip(x, -limit, limit))
assert run().tolist() == [1, -2]
assert run("torch").tolist() == [1, -2] and type(run("torch")).__module__ == "torch"
import torch
half = run_module(parse_module(CLIP.replace("f32", "f16")), [torch.tensor(X).half()], evaluator="torch")[0]
assert half.dtype == torch.float16 and half.tolist() == [1, -2]
meaning("lib.clip.default", evaluator="torch")(lambda x, limit: x.neg())
assert run().tolist() == [1, -2] and run("torch").tolist() == [-1, 100]
def other(x, limit):
    raise LookupError("nothing there")
other.__module__ = "elsewhere"
for evaluator in ("numpy", "torch"):
    said = failure(meaning("lib.clip.default", evaluator=evaluator), other)
    assert said == "E1303 there are two meanings of 'lib.clip.default': of __main__ and of elsewhere", said
meaning("lib.clip.default", replace=True)(other)
said = failure(run)
assert said == "E1004 'lib.clip.default': its meaning in elsewhere raises LookupError: nothing there", said
assert "of etir.interpret.numpy_ops.activation" in failure(meaning("aten.relu6.default"), other)
assert "of torch and of elsewhere" in failure(meaning("aten.relu6.default", evaluator="torch"), other)
meaning("aten.relu6.default", replace=True)(lambda self: self * np.float32(2))
assert run(text=RELU).tolist() == [2, -200]
""",
    "kernels": """
row = {"schema": "lib::clip.out(Tensor x, float limit, *, Tensor(a!) out) -> Tensor(a!)",
       "dtypes": [{"x": "DOUBLE", "out": "=x"}], "dim_orders": "contiguous"}
assert b"lib::clip" in compile(CLIP)
extend_target("etir", {"lib::clip.out": row}, library="mine")
said = failure(compile, CLIP)
assert said.startswith("E0604 ") and "must be one of DOUBLE" in said, said
row = row | {"dtypes": [{"x": "FLOAT", "out": "=x"}]}
said = failure(extend_target, "etir", {"lib::clip.out": row}, library="other")
assert said == "E1303 there are two kernels 'lib::clip.out': of library 'mine' of target 'etir' and of 'other'", said
extend_target("etir", {"lib::clip.out": row}, library="other", replace=True)
assert b"lib::clip" in compile(CLIP)
said = failure(extend_target, "etir", {"aten::mul.out": row}, library="x")
assert "of library 'elementwise' of target 'etir' and of 'x'" in said, said
assert failure(extend_target, "nothing", {}).startswith("E0601 unknown target 'nothing'")
assert failure(extend_target, "etir", {"a::b": {}}).startswith("E0602 added rows: 'a::b' lacks the field 'schema'")
assert failure(extend_target, "etir", "nowhere").startswith("E0601 the kernels of 'nowhere' cannot be read")
# Without a row nothing is known of a kernel, in a namespace of which the manifest knows others.
other = CLIP.replace("lib::clip", "mine::clip").replace("lib.clip", "mine.clip")
extend_target("etir", {"mine::x.out": {**row, "schema": "mine::x.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}})
assert failure(compile, other).startswith("E0603 ")
extend_target("etir", operators=["mine::clip.out"])
assert b"mine::clip" in compile(other)
""",
    "a backend": """
from etir.backends.api.interface import Artifact, Backend
from etir.backends.api.patterns import rows
class Box(Backend):
    name, runtime_id, version = "box", "Box", "1"
    def rows(self, options):
        return rows(["aten.tanh.default"])
    def preprocess(self, outlined, options):
        return Artifact(b"a box")
TANH = RELU.replace("relu6", "tanh")
assert failure(compile, TANH, delegates=["box"]).startswith("E1101 no backend named 'box' is installed")
register_backend(Box())
assert failure(compile, TANH, delegates=["box"]).startswith("E1102 ")
extend_target("etir", backends=["Box"])
assert b"a box" in compile(TANH, delegates=["box"])
class Other(Box):
    def preprocess(self, outlined, options):
        return Artifact(b"the other")
Other.__module__ = "elsewhere"
said = failure(register_backend, Other())
assert said == "E1303 there are two backends 'box': of __main__ and of elsewhere", said
register_backend(Other(), replace=True)
assert b"the other" in compile(TANH, delegates=["box"])
said = failure(register_backend, "elsewhere:X", "xnnpack")
assert said == "E1303 there are two backends 'xnnpack': of etir.backends.xnnpack.backend and of elsewhere", said
""",
    "a pass": """
from dataclasses import dataclass
from etir.passes.generic.dce import DcePass
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import find_pass, has_pass
from etir.pipeline import pipeline
compile(RELU)
seen = []
assert not has_pass("my-pass")
@register_pass
@dataclass(frozen=True)
class MyPass(Pass):
    name = "my-pass"
    def run(self, ctx, module):
        seen.append(self)
assert find_pass("my-pass") is MyPass
@dataclass(frozen=True)
class MyDce(MyPass):
    name = "dce"
said = failure(register_pass, MyDce)
assert said == "E1303 there are two passes 'dce': of etir.passes.generic.dce and of __main__", said
register_pass(replace=True)(MyDce)
assert find_pass("dce") is MyDce
assert not any(isinstance(p, DcePass) for p in pipeline())
compile(RELU)
assert len(seen) == sum(isinstance(p, MyDce) for p in pipeline()) > 0
""",
    "a dialect": """
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition
@irdl_op_definition
class Op(IRDLOperation):
    name = "lib.mark"
    assembly_format = "attr-dict"
assert failure(parse_module, "lib.mark").startswith("E0102")
load = lambda: Dialect("lib", [Op], [])
register_dialect("lib", load)
assert [op.name for op in parse_module("lib.mark").body.block.ops] == ["lib.mark"]
load = lambda: Dialect("lib", [], [])
load.__module__ = "elsewhere"
said = failure(register_dialect, "lib", load)
assert said == "E1303 there are two dialects 'lib': of __main__ and of elsewhere", said
register_dialect("lib", load, replace=True)
assert failure(parse_module, "lib.mark").startswith("E0102")
""",
}


@pytest.mark.parametrize("what", SCRIPTS)
def test_what_is_registered_after_a_compile_counts(what: str) -> None:
    done = subprocess.run(
        [commands() / "python", "-c", HEAD + SCRIPTS[what]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_name_is_there() -> None:
    for name in plugins.__all__:
        assert getattr(plugins, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        plugins.nothing  # noqa: B018


def test_a_module_of_another_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file called like a module of Python's hides it for nobody; twice is once; a folder is a package."""
    (tmp_path / "colorsys.py").write_text("MINE = True\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("from pack.inner import HERE\n")
    (tmp_path / "pack" / "inner.py").write_text("HERE = 1\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    mine = plugins.import_plugin(str(tmp_path / "colorsys.py"))
    assert mine.MINE and plugins.import_plugin(str(tmp_path / "colorsys.py")) is mine
    import colorsys

    assert not hasattr(colorsys, "MINE")
    assert plugins.import_plugin(str(tmp_path / "pack")).HERE == 1
