"""Whole programs: several methods, external weights, custom operators, re-emission byte for byte, errors."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")


from etir.dialects.context import EtContext  # noqa: E402
from etir.dialects.et.executable import MethodOp  # noqa: E402
from etir.dialects.et.instructions import CallOp, InputsOp, NextOp, ReturnOp  # noqa: E402
from etir.dialects.et.program import StateOp, WeightOp  # noqa: E402
from etir.dialects.et.values import BufferOp  # noqa: E402
from etir.dialects.et.weights import Blob, BlobAttr, WeightFile, write_weight_file  # noqa: E402
from etir.dialects.text import parse_module, print_module, source_location  # noqa: E402
from etir.driver import compile_program  # noqa: E402
from etir.emit.from_pte import read_program  # noqa: E402
from etir.emit.ptd.reader import read_ptd  # noqa: E402
from etir.emit.to_pte import EmitOptions, emit_program  # noqa: E402
from etir.emit.verify_bytes import verify_bytes  # noqa: E402
from etir.lowering.import_fx import import_program  # noqa: E402
from etir.passes.infra.manager import run_pipeline  # noqa: E402
from etir.program import Program  # noqa: E402

from etir_testing import TESTS  # noqa: E402
from etir_testing.blobs import Blobs  # noqa: E402
from etir_testing.interop.golden_programs import GOLDEN, digests, golden  # noqa: E402
from etir_testing.interop.program_runs import (  # noqa: E402
    Function,
    assert_same,
    check_levels,
    eager,
    error_of,
    exported,
    f32,
    interpreted,
    stock,
)

# --- several methods --------------------------------------------------------------------------------------------------


class Model(torch.nn.Module):
    """A linear layer and a cache, which both methods use."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(6, 4))
        torch.manual_seed(3)
        torch.nn.init.normal_(self.linear.weight)


class Write(torch.nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any, position: Any) -> Any:
        y = self.model.linear(x)
        self.model.cache.index_put_((position,), y)
        return y


class Read(torch.nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> Any:
        return self.model.linear(x) @ self.model.cache.t()


@pytest.mark.parametrize("share_state", [True, False])
def test_methods_share_weights_and_state(share_state: bool) -> None:
    """Weights are stored once. With ``share_state`` the cache has one place, in memory id 2, in both methods.

    The interpreter shares that memory between methods. The stock runtime's Python bindings give every method memory of
    its own, so that there a method only ever sees what it wrote itself.
    """
    model = Model()
    calls = [(f32(1, 4, seed=s), torch.tensor([s])) for s in range(3)]
    programs = {"write": exported(Write(model), calls[0]), "read": exported(Read(model), calls[0][:1])}
    program = compile_program(programs, share_state=share_state)
    assert program.report().constants == 2
    places = [op.place for op in program.module.walk() if isinstance(op, BufferOp) and op.state is not None]
    assert (set(places) == {(2, 0)}) == share_state
    data = program.buffer
    loaded = portable_lib._load_for_executorch_from_buffer(data)
    interpreted = _interpreter(program)
    with torch.no_grad():
        for x, position in calls:
            expected = Write(model)(x, position)
            for run in (loaded.run_method, interpreted):
                assert_near(run("write", (x, position))[0], expected)
            assert_near(loaded.run_method("read", (x,))[0], torch.zeros(1, 6))
            assert_near(interpreted("read", (x,))[0], Read(model)(x) if share_state else torch.zeros(1, 6))


def assert_near(got: Any, expected: torch.Tensor) -> None:
    torch.testing.assert_close(torch.as_tensor(got), expected, rtol=1e-5, atol=1e-5)


def _interpreter(program: Program) -> Any:
    from etir.interpret.interpreter import Interpreter

    interpreter = Interpreter(program.module, "torch")
    return lambda method, inputs: interpreter.run(list(inputs), method)


# --- external weights -------------------------------------------------------------------------------------------------


def test_external_weights(tmp_path: Path) -> None:
    """Weights in a ``.ptd`` file: the program is small, the runtime reads both, and the text finds its bytes again."""
    module = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    calls = [(f32(2, 16, seed=s),) for s in range(2)]
    program = compile_program(exported(module, calls[0]), external_weights="weights")
    program.save(tmp_path / "model.pte")
    assert (tmp_path / "weights.ptd").stat().st_size > 4 * 16 * 20
    assert (tmp_path / "model.pte").stat().st_size < len(compile_program(exported(module, calls[0])).buffer)
    external = {"weights": read_ptd((tmp_path / "weights.ptd").read_bytes())}
    again = read_program((tmp_path / "model.pte").read_bytes(), external)
    assert emit_program(again).pte() == program.buffer
    expected = eager(module, calls)
    for oracle in ("torch", "numpy"):
        assert_same(interpreted(again, calls, oracle), expected, oracle, 1e-5)
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    loaded = _load_for_executorch(str(tmp_path / "model.pte"), str(tmp_path / "weights.ptd"))
    for (x,), outputs in zip(calls, expected.outputs, strict=True):
        torch.testing.assert_close(loaded.run_method("forward", (x,))[0], outputs[0], rtol=1e-5, atol=1e-5)


def test_external_weights_that_are_missing() -> None:
    """The message names the weight and says which file to pass."""
    module = torch.nn.Linear(16, 16)
    program = compile_program(exported(module, (f32(2, 16),)), external_weights="weights")
    error = error_of(lambda: read_program(program.buffer))
    assert error.ids == ("E0863",) and "'bias'" in str(error) and ".ptd" in str(error)


# --- custom operators -------------------------------------------------------------------------------------------------

LIBRARY = torch.library.Library("etir_programs", "DEF")
LIBRARY.define("scaled(Tensor x, float factor, int[] axes=[0]) -> Tensor")
LIBRARY.define("scaled.out(Tensor x, float factor, int[] axes=[0], *, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.define("lonely(Tensor x) -> Tensor")
for _name, _function in (("scaled", lambda x, factor, axes=(0,): x * factor), ("lonely", lambda x: x + 1)):
    LIBRARY.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"etir_programs::{_name}", lambda x, *_, **__: torch.empty_like(x), lib=LIBRARY)


def test_custom_operator_reaches_its_out_variant() -> None:
    """The call has the out variant's arguments; every level is interpreted with the library's own implementation."""
    module = Function(lambda x: torch.ops.etir_programs.scaled(x, 3, [1]) + 1)
    calls = [(f32(2, 3, seed=s),) for s in range(2)]
    program = exported(module, calls[0])
    check_levels(import_program(program), calls, eager(module, calls), 1e-6, ("torch",))
    compiled = compile_program(program)
    (call,) = [o for o in compiled.module.walk() if isinstance(o, CallOp) and "etir_programs" in o.kernel.data]
    assert call.kernel.data == "etir_programs::scaled.out"
    assert "3.0, ints[1], %" in print_module(compiled.module)
    assert_same(interpreted(compiled.module, calls, "torch"), eager(module, calls), "executable level", 1e-6)
    assert read_program(compiled.buffer) is not None


def test_custom_operator_without_out_variant() -> None:
    """The error names the operator, its uses, the line, and what to register."""
    module = Function(lambda x: torch.ops.etir_programs.lonely(torch.ops.etir_programs.lonely(x)))
    error = error_of(lambda: compile_program(exported(module, (f32(2, 3),))))
    assert error.ids == ("E0415",)
    (problem,) = error.diagnostics
    assert "(2 uses, this is the first)" in problem.message and "etir_programs::lonely.out" in problem.help
    assert problem.location is not None and problem.location.line


# --- reading back and writing again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(GOLDEN))
def test_files_come_back_byte_for_byte(name: str) -> None:
    """``.pte`` to text to ``.pte``: the same bytes, with and without source lines, whose text keeps them."""
    program = golden(name)
    for debug_info in (False, True):
        data = emit_program(program.module, EmitOptions(debug_info=debug_info)).pte()
        module = read_program(data)
        run_pipeline(EtContext(), module, "verify-plan")
        again = parse_module(print_module(module, locations=True), weights=[Blobs(module)])
        assert emit_program(again).pte() == data
        if debug_info:
            lines = _lines(program.module)
            # The copy of a lifted constant to an output has no line, nor have the checks of inputs, which come first,
            # and what they jump to, which comes last: no line of the user's made them.
            places = [index for index, line in enumerate(lines) if line is not None]
            assert places and (all(lines[places[0] : places[-1] + 1]) or name == "constant")
            assert _lines(module) == lines


def _lines(module: Any) -> list[tuple[str, int] | None]:
    """File and line of every instruction; a method's beginning and end and a block's end are no instructions."""
    places = [
        source_location(op.location)
        for method in module.walk()
        if isinstance(method, MethodOp)
        for op in method.instructions
        if not isinstance(op, (InputsOp, NextOp, ReturnOp))
    ]
    return [None if place is None else (place.file, place.line) for place in places]


# --- determinism ------------------------------------------------------------------------------------------------------

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from etir_testing.interop.golden_programs import digests
print(digests())
"""


def test_same_bytes_under_any_hash_seed() -> None:
    """Another process, with another hash seed, writes the same files. This one's seed is drawn anew for every run;
    .ci/determinism compares three for whole models."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM, str(TESTS)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == digests()


# --- errors -----------------------------------------------------------------------------------------------------------


def test_module_that_is_not_planned() -> None:
    """A buffer without a place is named; a module without methods is not at the executable level."""
    program = golden("linear")
    text = print_module(program.module)
    module = parse_module(text, weights=[Blobs(program.module)])
    buffer = next(op for op in module.walk() if isinstance(op, BufferOp))
    buffer.place = None
    error = error_of(lambda: emit_program(module))
    assert error.ids == ("E0861",) and f"%{buffer.result.name_hint}" in str(error)
    assert error_of(lambda: emit_program(import_program(exported(*GOLDEN["linear"][:2])))).ids == ("E0861",)


def test_weights_that_are_not_loaded() -> None:
    """Text without its weights file: one error names them."""
    module = parse_module(print_module(golden("linear").module))
    error = error_of(lambda: emit_program(module).pte())
    assert error.ids == ("E0201",) and "the bytes of 2 weights are not loaded" in str(error)


def _weights_file(path: Path, program: Program) -> None:
    ops = [op for op in program.module.body.block.ops if isinstance(op, WeightOp)]
    write_weight_file(path, [(op.sym_name.data, op.type, op.value.data) for op in ops])


def test_weights_file(tmp_path: Path) -> None:
    """The right file gives the same bytes; a changed byte is E0202, a cut or foreign file E0203."""
    program = golden("linear")
    text, path = print_module(program.module), tmp_path / "w.safetensors"
    _weights_file(path, program)
    assert emit_program(parse_module(text, weights=[WeightFile(path)])).pte() == program.buffer
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    error = error_of(lambda: emit_program(parse_module(text, weights=[WeightFile(path)])).pte())
    assert error.ids == ("E0202",) and str(path) in str(error)
    for broken in (data[:-4], data[:20], b"", b"hello world, this is no weights file"):
        path.write_bytes(broken)
        assert error_of(lambda: WeightFile(path)).ids == ("E0203",)


def test_bytes_that_are_not_the_module() -> None:
    """A file is compared with the module before it leaves: places, memories, weights, initial bytes of state."""
    program = golden("state")
    data = program.buffer
    verify_bytes(data, program.module)
    other = golden("linear")
    assert set(error_of(lambda: verify_bytes(data, other.module)).ids) == {"E0865"}
    moved = program.module.clone()
    buffer = next(op for op in moved.walk() if isinstance(op, BufferOp) and op.place is not None)
    assert buffer.place is not None
    buffer.place = (buffer.place[0], buffer.place[1] + 16)
    error = error_of(lambda: verify_bytes(data, moved))
    assert error.ids == ("E0865",) and f"%{buffer.result.name_hint}" in str(error)
    changed = program.module.clone()
    state = next(op for op in changed.walk() if isinstance(op, StateOp))
    assert isinstance(state.value, BlobAttr)
    state.value = BlobAttr(Blob.of(bytes(state.value.data.size)))
    error = error_of(lambda: verify_bytes(data, changed))
    assert error.ids == ("E0865",) and f"@{state.sym_name.data}" in str(error)


def test_truncated_program() -> None:
    """Every cut is refused with an error of the reader, never a traceback."""
    data = golden("conds").buffer
    for length in (0, 4, 8, 31, 32, 100, len(data) // 2, len(data) - 1):
        error = error_of(lambda length=length: read_program(data[:length]))
        assert all(id.startswith("E08") for id in error.ids)


def test_hash_is_of_the_bytes() -> None:
    """Two compilations in one process agree."""
    assert hashlib.sha256(golden("dynamic").buffer).digest() == hashlib.sha256(golden("dynamic").buffer).digest()
    assert stock(golden("linear").buffer, [(f32(2, 3),)]).outputs
