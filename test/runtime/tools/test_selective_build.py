"""Selective builds: only the operators of some programs, for the element types of their tensors.

What is left out is an error of the compiler's link check where the target of the build is given, and one of the loader
otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import etir
from etir.diagnostics import EtirError
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte.reader import read_pte
from etir.tools import select_kernels
from etir.tools.et_compile import main as compile_main

from etir_testing.runtime.builds import selection_file
from etir_testing.runtime.cross import MACHINES, build, code_bytes, run
from etir_testing.runtime.executor import ExecutorError, Method, Program, open_executor
from etir_testing.runtime.kernels import RUNTIME, kernel_library

sys.path.insert(0, str(RUNTIME / "kernels"))
from generate import DTYPES, all_sources, dtype_mask, load_manifest, read_selection, select, source_masks


class Sum(torch.nn.Module):
    """Two operators: one on floats and their sum, one on integers."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + x, torch.cat([i, i * 2])


class Other(torch.nn.Module):
    """An operator that the selection does not have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x)


class Add(torch.nn.Module):
    """An operator that the selection has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


FLOATS, INTS = torch.linspace(-1, 1, 6).reshape(2, 3), torch.arange(4)


def compiled(module: torch.nn.Module, *inputs: torch.Tensor, target: str = "etir") -> etir.Program:
    return etir.compile(torch.export.export(module, inputs), target=target)


@pytest.fixture(scope="module")
def selected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, its selection and its target."""
    folder = tmp_path_factory.mktemp("selected")
    compiled(Sum(), FLOATS, INTS).save(folder / "m.pte")
    options = ["-o", f"{folder}/selection.txt", "--target-out", f"{folder}/selected.json"]
    assert select_kernels.main([f"{folder}/m.pte", *options]) == 0
    return folder


def test_a_selection_names_operators_and_types(selected: Path) -> None:
    assert (selected / "selection.txt").read_text() == (
        "aten::add.out Float\naten::cat.out Long\naten::mul.Scalar_out Long\n"
    )


def test_several_programs_are_one_selection(tmp_path: Path) -> None:
    one, two = compiled(Add(), FLOATS), compiled(Add(), FLOATS.half())
    three = compiled(Other(), FLOATS)
    found = select_kernels.select(read_pte(p.buffer) for p in (one, two, three))
    assert found == {"aten::add.out": ("Half", "Float"), "aten::sigmoid.out": ("Float",)}


def test_the_build_s_target_is_the_tool_s(selected: Path, tmp_path: Path) -> None:
    """CMake writes it with generate.py, users without the sources with the tool."""
    command = [sys.executable, RUNTIME / "kernels" / "generate.py", "--only", selected / "selection.txt"]
    subprocess.run([*command, "--target", tmp_path / "t.json"], check=True)
    assert json.loads((tmp_path / "t.json").read_text()) == json.loads((selected / "selected.json").read_text())


def test_a_build_gets_at_once_what_each_option_writes(selected: Path, tmp_path: Path) -> None:
    """``--build`` is for CMake, which would else start Python for each."""
    generate = [sys.executable, RUNTIME / "kernels" / "generate.py", "--only", selected / "selection.txt"]
    one, each = tmp_path / "one", tmp_path / "each"
    subprocess.run([*generate, one, "--build"], check=True)
    for name, options in {"sources.txt": ["--dtypes"], "kernel_table.cc": [], "generated": ["--headers"]}.items():
        subprocess.run([*generate, each / name, *options], check=True)
    found = [{path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")} for folder in (one, each)]
    assert found[0] == found[1] and len(found[0]) > 50


def test_the_compiler_refuses_what_is_left_out(
    selected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(selected / "selected.json")
    program = compiled(Sum(), FLOATS, INTS, target=target)
    assert program.buffer == (selected / "m.pte").read_bytes()
    assert program.report().methods[0].runtime is not None
    with pytest.raises(EtirError) as caught:
        compiled(Other(), FLOATS, target=target)
    assert "E0603" in caught.value.ids and "aten::sigmoid.out" in str(caught.value)
    with pytest.raises(EtirError) as caught:
        compiled(Add(), INTS, target=target)
    assert caught.value.ids == ("E0604",)
    assert "left out of this build: 'self' has dtype long, built are float" in str(caught.value)
    torch.export.save(torch.export.export(Other(), (FLOATS,)), tmp_path / "m.pt2")
    assert compile_main([f"{tmp_path}/m.pt2", "-o", f"{tmp_path}/m.pte", "--target", target]) == 1
    assert "error[E0603]" in capsys.readouterr().err and not (tmp_path / "m.pte").exists()
    assert compile_main([f"{tmp_path}/m.pt2", "-o", f"{tmp_path}/m.pte", "--target", f"{tmp_path}/x.json"]) == 1
    assert "error[E0601]: the target" in capsys.readouterr().err


def test_the_loader_refuses_what_is_left_out(selected: Path) -> None:
    rows = select(load_manifest(), read_selection((selected / "selection.txt").read_text()))
    path = kernel_library("etir_executor_test", only=selection_file((selected / "selection.txt").read_text()))
    library = open_executor(path)
    method = Method(Program(library, (selected / "m.pte").read_bytes()))
    doubled, joined = method(FLOATS, INTS)
    assert torch.equal(doubled, FLOATS * 2) and torch.equal(joined, torch.cat([INTS, INTS * 2]))
    with pytest.raises(ExecutorError) as caught:
        Method(Program(library, compiled(Other(), FLOATS).buffer))
    assert caught.value.check == "OperatorMissing"
    for inputs, argument, dtype in ((INTS, 0, ScalarType.LONG), (FLOATS.half(), 0, ScalarType.HALF)):
        with pytest.raises(ExecutorError) as caught:
            Method(Program(library, compiled(Add(), inputs).buffer))
        failure = caught.value
        assert (failure.check, failure.a, failure.b) == ("ArgumentLeftOut", argument, dtype)
        assert failure.error == 0x14 and failure.instruction == 0
    assert method(FLOATS, INTS)[0].equal(FLOATS * 2)
    # Nothing but the selected operators and types is in the library.
    symbols = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    assert "sigmoid" not in symbols and "add_out" in symbols
    assert {row["source"]: dtype_mask(row) for row in rows.values()}["copy/cat.cc"] == 1 << DTYPES["Long"]


def test_masks_hold_what_numbers_are_promoted_to() -> None:
    rows = load_manifest()

    def mask(text: str) -> set[str]:
        (found,) = source_masks(select(rows, read_selection(text))).values()
        return {name for name, number in DTYPES.items() if found >> number & 1}

    assert mask("aten::mul.out Int") == {"Int"}
    assert mask("aten::mul.Scalar_out Int") == {"Int", "Long", "Float"}
    assert mask("aten::mul.Scalar_out Half") == {"Half"}
    assert mask("aten::mul.out Int\naten::add.out Half") >= {"Int", "Half"}
    assert mask("aten::mul.out") == set(DTYPES)
    assert mask("aten::mul.out Int\naten::mul.out  # all of them") == set(DTYPES)


def test_shared_sources_are_compiled_for_the_types_of_those_that_include_them() -> None:
    selection = {"aten::relu.out": ("Float",), "aten::max_pool2d_with_indices.out": ("Float", "Long")}
    masks = all_sources(select(load_manifest(), selection))
    assert masks["spatial/max_pool.cc"] == 1 << DTYPES["Float"] | 1 << DTYPES["Long"]
    assert masks["util/elementwise.cc"] == masks["elementwise/unary.cc"] == 1 << DTYPES["Float"]
    assert "util/blocks.cc" not in masks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aten::add.out float", "no element type float"),
        ("aten::no_such_thing.out", "no kernel for aten::no_such_thing"),
    ],
)
def test_wrong_selections(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.txt").write_text(text)
    command = [sys.executable, RUNTIME / "kernels" / "generate.py", tmp_path / "t.cc", "--only", tmp_path / "s.txt"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and message in done.stderr and not (tmp_path / "t.cc").exists()


def test_types_that_are_left_out_take_no_flash() -> None:
    machine = MACHINES["cortex-m55"]
    if machine.missing is not None:
        pytest.skip(f"{machine.missing} is not installed")
    program = compiled(Add(), FLOATS)
    whole = build(machine, program, [FLOATS], dtypes=False)
    part = build(machine, program, [FLOATS])
    done = run(machine, part)
    assert done.code == 0 and torch.frombuffer(bytearray(done.outputs[0]), dtype=torch.float32).equal(
        (FLOATS + FLOATS).reshape(-1)
    )
    assert code_bytes(machine, part, [FLOATS]) < 0.6 * code_bytes(machine, whole, [FLOATS])
    os.remove(whole)
