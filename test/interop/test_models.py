"""Whole models: compiled by etir, executed by the stock ExecuTorch runtime, compared with eager.

The checks of one model share one export and one compilation. A model that keeps state is called over several steps on
one loaded method; a dynamic one is called at every size of its case.
"""

from __future__ import annotations

from functools import cache

import pytest

import etir
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module
from etir.emit.from_pte import read_program
from etir.emit.to_pte import emit_program
from etir.interpret.interpreter import Interpreter
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import stages

from etir_testing import exports
from etir_testing.blobs import Blobs
from etir_testing.models.registry import MODELS
from etir_testing.nightly import cases

torch = pytest.importorskip("torch")
portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")


@cache
def exported(name: str):
    """The exported program of a model, which no test changes."""
    case = MODELS[name]
    for package in case.missing():
        pytest.skip(f"{package} is not installed")
    return exports.exported(case)


@cache
def compiled(name: str) -> etir.Program:
    """The model compiled for the stock runtime."""
    return etir.compile(exported(name), target="executorch")


def run_stock(data: bytes, name: str) -> list[list[torch.Tensor]]:
    """The outputs of every step on the stock runtime; ``data`` stays alive as long as the method."""
    case = MODELS[name]
    loaded = portable_lib._load_for_executorch_from_buffer(data)
    return [[torch.as_tensor(o).clone() for o in loaded.forward(case.inputs(step))] for step in range(case.steps)]


def interpret(module, name: str) -> list[list[torch.Tensor]]:
    """The outputs of every step in the interpreter."""
    case = MODELS[name]
    interpreter = Interpreter(module, "torch")
    return [[torch.as_tensor(o) for o in interpreter.run(case.inputs(step))] for step in range(case.steps)]


@pytest.mark.parametrize("name", cases(MODELS, nightly=["resnet18"]))
def test_stock_runtime_gives_eager_results(name: str) -> None:
    """Largest difference relative to the largest magnitude within the case's tolerance."""
    case = MODELS[name]
    assert case.check(run_stock(compiled(name).buffer, name)) <= case.tolerance


@pytest.mark.parametrize("name", cases(MODELS, nightly=["resnet18", "minilm"]))
def test_every_pass_keeps_the_meaning(name: str) -> None:
    """The interpreter gives eager's results after every pass; locations and text survive every level."""
    case = MODELS[name]
    module = etir.import_program(exported(name))
    ctx = EtContext()
    assert case.check(interpret(module.clone(), name)) <= case.tolerance
    for stage in stages():
        for p in (step.run for step in stage.steps):
            run_pipeline(ctx, module, [p])
            verify_module(module, require_locations=True)
            if p.name.startswith("verify"):
                continue
            difference = case.check(interpret(module.clone(), name))
            assert difference <= case.tolerance, f"after {p.name}: {difference}"
        check_round_trip(module, ctx)


def check_round_trip(module, ctx: EtContext) -> None:
    """Text in both forms reads back to the same module, with the same locations."""
    for generic in (False, True):
        text = print_module(module, generic=generic, locations=True)
        again = parse_module(text, ctx.clone())
        assert again.is_structurally_equivalent(module)
        assert print_module(again, generic=generic, locations=True).splitlines()[1:-1] == text.splitlines()[1:-1]


@pytest.mark.parametrize("name", list(MODELS))
def test_own_files_come_back_byte_for_byte(name: str) -> None:
    """.pte to text to .pte gives the same bytes."""
    data = compiled(name).buffer
    module = read_program(data)
    text = print_module(module)
    again = parse_module(text, weights=[Blobs(module)])
    assert emit_program(again).pte() == data


@pytest.mark.parametrize("name", cases(MODELS, nightly=["resnet18", "minilm"]))
def test_stock_files_become_text_and_run(name: str) -> None:
    """What the stock pipeline writes becomes text, and goes back to a file that gives the stock file's outputs."""
    from stock import stock_buffer

    case = MODELS[name]
    data = exports.stock_file(case, stock_buffer)
    module = read_program(data)
    verify_module(module)
    parse_module(print_module(module))
    expected = run_stock(data, name)
    got = run_stock(emit_program(module).pte(), name)
    for step in range(case.steps):
        for a, b in zip(got[step], expected[step], strict=True):
            assert torch.equal(a, b)
