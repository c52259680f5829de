"""Programs at the executable level, as files have them, become a few instructions that still fail."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.devtools.checks import Answer, run
from etir.devtools.reduction import Candidate, reduce
from etir.dialects.et.executable import MethodOp
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module
from etir.emit.from_pte import read_program
from etir.tools import et_reduce, et_run, et_translate

from etir_testing.devtools.programs import exported


class Chain(nn.Module):
    """Buffers take turns in memory; one operator among many is the one that fails."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(length)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = x + (torch.tanh(layer(x)) if number != len(self.layers) // 2 else torch.erf(layer(x)))
        return x


def compiled(length: int) -> etir.Program:
    torch.manual_seed(0)
    return etir.compile(torch.export.export(Chain(length).eval(), (torch.zeros(2, 4),)), target="etir")


def kernels(candidate: Candidate) -> list[str]:
    return [op.properties["kernel"].data for op in candidate.module.walk() if op.name == "et.call"]


def replaced_kernel_matters(kernel: str, other: str) -> Callable[[Candidate], Answer]:
    """A kernel that gives something else on the runtime: the outputs change with it, so the values are looked at."""

    def check(candidate: Candidate) -> Answer:
        if kernel not in kernels(candidate):
            return Answer.GOOD
        before = [run(candidate.module, sample, "forward") for sample in candidate.samples]
        changed = parse_module(print_module(candidate.module).replace(kernel, other))
        for mine, theirs in zip(candidate.module.body.block.ops, changed.body.block.ops, strict=True):
            if mine.name == "et.weight":
                theirs.properties["value"] = mine.properties["value"]
        after = [run(changed, sample, "forward") for sample in candidate.samples]
        pairs = zip(before, after, strict=True)
        return Answer.BAD if any(np.abs(a[0] - b[0]).max() > 1e-3 for a, b in pairs) else Answer.GOOD

    return check


has_erf = replaced_kernel_matters("aten::erf.out", "aten::sin.out")


def test_a_file_becomes_the_instruction_that_fails_with_what_it_had() -> None:
    module = read_program(compiled(40).buffer)
    before = print_module(module, locations=True)
    samples = [[np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)], [np.ones((2, 4), np.float32)]]
    found = [reduce(module, has_erf, samples) for _ in range(2)]
    assert print_module(module, locations=True) == before
    texts = [print_module(one.candidate.module, locations=True) for one in found]
    assert texts[0] == texts[1]
    assert kernels(found[0].candidate) == ["aten::erf.out"] and (found[0].before, found[0].after) == (120, 1)
    assert found[0].checks < 40
    small = found[0].candidate
    verify_module(small.module)
    # The input is what the layer before gave: what eager computes up to there.
    torch.manual_seed(0)
    model = Chain(40).eval()
    x = torch.from_numpy(samples[0][0])
    for layer in model.layers[:20]:
        x = x + torch.tanh(layer(x))
    x = model.layers[20](x).detach()[:1, :1]  # and one element is enough
    np.testing.assert_allclose(small.samples[0][0], x.numpy(), rtol=1e-4, atol=1e-5)
    outputs = run(small.module, small.samples[0], "forward")
    np.testing.assert_allclose(outputs[0], torch.erf(x).numpy(), rtol=1e-4, atol=1e-5)


def test_the_whole_part_computes_what_it_did_in_the_program() -> None:
    """State, views, scalars: without one output's reader the rest gives what it gave."""
    program, x = exported("state")
    module = read_program(etir.compile(program, target="etir").buffer)

    def keeps_mm(candidate: Candidate) -> Answer:
        return Answer.BAD if {"aten::mm.out", "aten::select_scatter.out"} <= {*kernels(candidate)} else Answer.GOOD

    found = reduce(module, keeps_mm, [[v.numpy() for v in x]])
    assert sorted(kernels(found.candidate)) == ["aten::mm.out", "aten::select_scatter.out"]
    verify_module(found.candidate.module)
    run(found.candidate.module, found.candidate.samples[0], "forward")


JUMPS = {
    "a branch": ("cond", "aten::relu.out", "aten::abs.out"),
    "a loop": ("loop", "aten::sin.out", "aten::cos.out"),
}


@pytest.mark.parametrize("where", JUMPS)
def test_what_fails_in_a_branch_or_a_loop_fails_without_jumps(where: str) -> None:
    """A kernel that gives something else: the instructions that ran are a line, and one of them is enough."""
    name, kernel, other = JUMPS[where]
    program, x = exported(name)
    module = read_program(etir.compile(program, target="etir").buffer)
    samples = [[np.linspace(low, 4, v.numel(), dtype=np.float32).reshape(v.shape) for v in x] for low in (-3, 2, -9)]
    fails = replaced_kernel_matters(kernel, other)
    found = [reduce(module, fails, samples) for _ in range(2)]
    small = found[0].candidate
    assert kernels(small) == [kernel] and found[0].after == 1, print_module(small.module)
    assert print_module(small.module) == print_module(found[1].candidate.module)
    verify_module(small.module)
    assert fails(small) is Answer.BAD and np.asarray(small.samples[0][0]).size == 1


def test_jumps_that_matter_stay_and_nothing_else() -> None:
    """What fails is a jump itself, in a loop: what its condition needs stays, the work of the loop goes."""
    module = read_program(etir.compile(exported("loop")[0], target="etir").buffer)

    def jumps_back(candidate: Candidate) -> Answer:
        method = next(op for op in candidate.module.walk() if isinstance(op, MethodOp))
        blocks = list(method.body.blocks)
        back = any(
            blocks.index(to) <= at for at, b in enumerate(blocks) for to in (b.last_op.successors if b.last_op else ())
        )
        return Answer.BAD if back else Answer.GOOD

    found = reduce(module, jumps_back, [[np.ones(3, np.float32)]])
    verify_module(found.candidate.module)
    left = kernels(found.candidate)
    assert "aten::sin.out" not in left and found.after < found.before
    assert any("lt" in kernel for kernel in left), "the condition of the loop"
    run(found.candidate.module, found.candidate.samples[0], "forward")


def test_a_condition_that_does_not_matter_is_decided() -> None:
    """Judged by its text alone, without samples: one of the two branches goes."""
    module = read_program(etir.compile(exported("cond")[0], target="etir").buffer)

    def has_relu(candidate: Candidate) -> Answer:
        return Answer.BAD if "aten::relu.out" in kernels(candidate) else Answer.GOOD

    found = reduce(module, has_relu)
    assert kernels(found.candidate) == ["aten::relu.out"]
    verify_module(found.candidate.module)


def test_the_tool_takes_text_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compiled(6).save("m.pte")
    assert et_translate.main(["--pte-to-mlir", "m.pte", "-o", "m.mlir"]) == 0
    text = Path("m.mlir").read_text()
    np.savez("x.npz", np.ones((2, 4), np.float32))
    check = f"{sys.executable} -c \"import sys; sys.exit('erf' not in open(sys.argv[1]).read())\" {{}}"
    assert et_reduce.main(["m.mlir", "-o", "small.mlir", "--inputs", "x.npz", "--check", check]) == 0
    assert Path("small.mlir").read_text().count("et.call") == 1
    assert et_run.main(["small.mlir", "--inputs", "small.0.npz"]) == 0, "it runs"
    # A plan in which two buffers overlap is still one: others keep their places.
    Path("overlap.mlir").write_text(re.sub(r"at <1, \d+>", "at <1, 0>", text))
    words = ["overlap.mlir", "--weights", "m.safetensors", "-o", "plan.mlir", "-p", "verify-plan", "--error", "E0714"]
    assert et_reduce.main(words) == 0
    left = parse_module(Path("plan.mlir").read_text())
    method = next(op for op in left.walk() if isinstance(op, MethodOp))
    assert len(method.instructions) < 6
