"""Planted faults are found first, where they were made; programs without any are not blamed."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.devtools.comparison import Comparison, compare
from etir.devtools.values.recorded import RUNTIMES
from etir.diagnostics import EtirError
from etir.tools import et_compare

from etir_testing.devtools.faults import planted
from etir_testing.devtools.programs import PROGRAMS, Image, exported


@functools.cache
def export(name: str) -> tuple[torch.export.ExportedProgram, list[torch.Tensor]]:
    """One of the programs; ``trained`` is the image model with statistics that folding changes weights by."""
    if name != "trained":
        return exported(name)
    torch.manual_seed(0)
    model = Image().eval()
    model.norm.running_mean.uniform_(-1, 1)
    model.norm.running_var.uniform_(0.2, 3)
    x = torch.randn(1, 3, 8, 8)
    return torch.export.export(model, (x,)), [x]


@functools.cache
def compiled(name: str, **settings: str) -> etir.Program:
    return etir.compile(export(name)[0], trace=True, **settings)


def samples(name: str) -> list[list[torch.Tensor]]:
    """The example, and one of other numbers."""
    given = export(name)[1]
    return [given, [0.5 - x for x in given]]


SETTINGS = {
    "plain": {},
    "xnnpack": {"delegates": "xnnpack"},
    "reference": {"target": "etir", "delegates": "reference"},
}


IN_THE_GATE = {("cond", "xnnpack"), ("image", "xnnpack"), ("state", "reference"), ("loop", "reference")}


def cells() -> list:
    """Programs and settings; what takes long and is like another one is for the night."""
    found = []
    for name in PROGRAMS:
        for setting in SETTINGS:
            gate = setting == "plain" or (name, setting) in IN_THE_GATE
            found.append(pytest.param(name, setting, marks=[] if gate else pytest.mark.nightly))
    return found


@pytest.mark.parametrize(("name", "setting"), cells())
def test_nothing_is_wrong_where_nothing_is(name: str, setting: str) -> None:
    found = compare(export(name)[0], compiled(name, **SETTINGS[setting]), inputs=samples(name))
    assert found.is_good, found
    assert [stage.failure for stage in found.stages] == [""] * len(found.stages)
    assert all(stage.compared for stage in found.stages), found


ONLY_LAYOUT_OR_FOLDED = {
    "image": 2,  # a change of the layout, and what a batch norm was folded into
    "recurrent": 4,  # states that nobody reads, and constants
    "state": 5,  # values that are parts of the state
    "cond": 1,  # what a branch gives is the value of the whole
    "loop": 1,
    "encoder": 0,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_value_that_is_computed_is_compared(name: str) -> None:
    found = compare(export(name)[0], compiled(name), inputs=samples(name))
    for stage in found.stages[-2:]:
        assert stage.compared >= stage.total - ONLY_LAYOUT_OR_FOLDED[name], found


FAULTS = {
    "wrong alpha": ("image", "aten-to-edge", r"(aten\.add\.Tensor\(%\w+, %\w+)\)", r"\1, alpha = 2)", "(add)"),
    "wrong end": ("image", "decompose-aten", r"(topk\.default\(%\w+, k = 2)\)", r"\1, largest = false)", "(topk)"),
    "wrong dim": ("image", "decompose-aten", r"(_softmax\.default\(%\w+, dim = )1", r"\g<1>0", "(softmax)"),
    "approximation": ("image", "decompose-aten", r"(gelu\.default\(%\w+)\)", r'\1, approximate = "tanh")', "(gelu)"),
    "wrong fold": (
        "trained",
        "fold-batch-norm",
        r"get_weight @conv\.weight_folded",
        "get_weight @conv.weight",
        "(batch_norm)",
    ),
    "wrong padding": (
        "image",
        "aten-to-edge",
        r"momentum = 0\.1, eps = 1\.0e-05",
        "momentum = 0.1, eps = 0.3",
        "batch",
    ),
    "wrong kernel": ("image", "to-out-variant", r'"aten::add\.out"', '"aten::sub.out"', "(add)"),
    "overlapped": ("image", "verify-plan", r"(%softmax = et\.buffer at <1, )0", r"\g<1>768", "(topk)"),
    "off by one": ("state", "functionalize", r"start = 1, end = 2", "start = 2, end = 3", "(add_)"),
    "wrong index": ("state", "decompose-aten", r"dim = 1, index = 0", "dim = 1, index = 1", "(mul_)"),
    "wrong literal": ("state", "to-out-variant", r'(mul\.Scalar_out"\(%\w+, )3', r"\g<1>4", "(mul_)"),
    "wrong range": ("state", "to-out-variant", r"(%linear, 0, )1, 2", r"\g<1>2, 3", "aten::mm.out (matmul)"),
    "wrong condition": ("cond", "decompose-aten", r"other = 0\b", "other = 100", "(gt)"),
    "wrong factor": ("cond", "canonicalize", r"(mul\.Scalar\(%getitem, other = )3", r"\g<1>4", "(mul)"),
    "wrong branch": ("cond", "aten-to-edge", r"(aten\.mul\.Scalar\(%x, other = )2", r"\g<1>3", "edge.aten.mul.Scalar"),
    "one turn less": ("loop", "decompose-aten", r"other = 5", "other = 4", "control.while"),
    "wrong operator": ("loop", "decompose-aten", r"aten\.sin\.default", "aten.cos.default", "aten.cos"),
    "wrong eps": ("encoder", "aten-to-edge", r"eps = 1\.0e-05", "eps = 1.0e-02", "layer_norm.default)"),
    "wrong scale": (
        "encoder",
        "decompose-aten",
        r"0\.35355339059327373",
        "0.3",
        "(aten.scaled_dot",
    ),
    "wrong axis": ("encoder", "decompose-aten", r"(_softmax\.default\(%\w+, dim = )3", r"\g<1>2", "(aten.scaled_dot"),
    "swapped operands": (
        "encoder",
        "cse",
        r"(%p_layer_norm1_weight), (%p_layer_norm1_bias)",
        r"\2, \1",
        "layer_norm.default)",
    ),
    "wrong activation": ("recurrent", "decompose-aten", r"aten\.sigmoid\.default", "aten.tanh.default", "(lstm)"),
}


LONG = {"wrong eps", "wrong scale", "wrong axis", "wrong activation", "wrong range", "wrong operator", "wrong dim"}


@pytest.mark.parametrize("fault", [pytest.param(f, marks=pytest.mark.nightly) if f in LONG else f for f in FAULTS])
def test_a_planted_fault_is_found_first(fault: str) -> None:
    name, pass_name, pattern, by, what = FAULTS[fault]
    program, right = export(name)[0], compiled(name).buffer
    with planted(pass_name, pattern, by):
        wrong = etir.compile(program, trace=True)
        assert wrong.buffer != right, "the fault is not there"
        found = compare(program, wrong, inputs=samples(name), runtime=())
    assert found.finding is not None, found
    first = found.table().splitlines()[0]
    assert what in first, found
    assert f" {pass_name}" in first, found
    assert "programs.py:" in first or "(lstm)" in first or "(layer_norm)" in first, found


RUNTIME_FAULTS = {
    "kernel": ("image", "to-out-variant", r'"aten::add\.out"', '"aten::sub.out"', "instruction 6 aten::add.out"),
    "off by one": ("state", "to-out-variant", r"(%linear, 0, )1, 2", r"\g<1>2, 3", "instruction 1 aten::slice_scatter"),
    "in a loop": ("loop", "to-out-variant", r"aten::sin\.out", "aten::cos.out", "aten::sin.out"),
    "memory": ("image", "verify-plan", r"(%softmax = et\.buffer at <1, )0", r"\g<1>768", "instruction 5 aten::topk"),
}


@pytest.mark.parametrize("fault", RUNTIME_FAULTS)
def test_a_wrong_runtime_is_found_without_source_and_trace(fault: str) -> None:
    name, pass_name, pattern, by, what = RUNTIME_FAULTS[fault]
    with planted(pass_name, pattern, by):
        wrong = etir.compile(export(name)[0]).buffer

    def runtime(program: bytes, method: str, inputs: list) -> object:
        return RUNTIMES["etir"](wrong, method, inputs)

    right = compiled(name)
    for source, trace in ((None, None), (export(name)[0], right.trace)):
        found = compare(source, right.buffer, inputs=samples(name), trace=trace, runtime={"board": runtime})
        assert found.finding is not None and found.finding.stage == "et/board", found
        assert what in found.table().splitlines()[0], found


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).relu()


class Other(Two):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).sin()


def test_several_methods() -> None:
    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    torch.manual_seed(0)
    one = Two().eval()
    other = Other().eval()
    programs = {"forward": torch.export.export(one, (x,)), "other": torch.export.export(other, (x,))}
    program = etir.compile(programs, trace=True)
    for method in programs:
        assert compare(programs, program, inputs=[(x,)], method=method).is_good
    with planted("aten-to-edge", r"aten\.sin\.default", "aten.cos.default"):
        wrong = etir.compile(programs, trace=True)
        assert compare(programs, wrong, inputs=[(x,)]).is_good
        found = compare(programs, wrong, inputs=[(x,)], method="other")
    assert "aten.cos" in str(found.finding) and "pass 7/" in str(found.finding), found


class Window(nn.Module):
    """Keeps the last rows: reads parts of its state, which it then writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.linspace(-1, 1, 12).reshape(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.rows.view(2, 6)
        self.rows.copy_(torch.cat([self.rows[1:], x]))
        return flat.sin() + self.rows.view(2, 6)


@pytest.mark.parametrize("setting", [{}, {"target": "etir"}, {"delegates": "xnnpack"}], ids=str)
def test_parts_of_a_state_are_compared_as_they_were_read(setting: dict[str, str]) -> None:
    x = torch.tensor([[0.5, -2.0, 3.0]])
    program = torch.export.export(Window(), (x,))
    found = compare(program, etir.compile(program, trace=True, **setting), inputs=[(x,)])
    assert found.is_good, found
    (level,) = (stage for stage in found.stages if stage.name == "et")
    assert any("slice" in row.what for row in level.rows), level.rows


def test_short_floats_and_random_operators_raise_no_alarm() -> None:
    class Short(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.softmax(-1) @ x.t()).exp().sum(-1) + torch.zeros(3).bfloat16()

    x = torch.randn(3, 5).bfloat16()
    found = compare(torch.export.export(Short().eval(), (x,)), inputs=[(x,)])
    assert found.is_good, found


def test_errors() -> None:
    program, x = export("cond")
    good = compiled("cond")
    for ids, call in (
        ("E1413", lambda: compare(program, good, inputs=[])),
        ("E1411", lambda: compare(None, None, inputs=[x])),
        ("E1411", lambda: compare(None, good.buffer, inputs=[x], runtime=())),
        ("E1411", lambda: compare(program, good, inputs=[x], runtime="other")),
        ("E1412", lambda: compare(program, good.buffer, inputs=[x], trace=compiled("loop").trace)),
        ("E1412", lambda: compare(export("loop")[0], good, inputs=[x])),
        ("E1412", lambda: compare(program, good, inputs=[x], method="other")),
    ):
        with pytest.raises(EtirError) as caught:
            call()
        assert caught.value.ids == (ids,), caught.value


def test_the_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, x = export("cond")
    good = compiled("cond")
    torch.export.save(program, tmp_path / "m.pt2")
    good.save(tmp_path / "m.pte")
    good.trace.save(tmp_path / "m.trace")
    np.savez(tmp_path / "x.npz", x[0].numpy())
    words = [str(tmp_path / n) for n in ("m.pt2", "m.pte")]
    words += ["--inputs", str(tmp_path / "x.npz"), "--trace", str(tmp_path / "m.trace")]
    assert et_compare.main(words) == 0
    assert capsys.readouterr().out.startswith("nothing is wrong in 'forward': 6 stages, 1 sample\n")
    assert et_compare.main([*words, "-o", str(tmp_path / "c.json"), "--json"]) == 0
    assert (tmp_path / "c.json").read_text() == (printed := capsys.readouterr().out)
    assert json.loads(printed)["finding"] is None
    options = ["--method", "forward", "--tolerance", "1e-3", "--no-search", "--tap", "--runtime", "none"]
    assert et_compare.main([*words, *options, "--output", str(tmp_path / "five.json")]) == 0
    assert "5 stages" in capsys.readouterr().out
    assert (tmp_path / "five.json").read_text() != printed
    assert et_compare.main([*words, "--data", str(tmp_path / "nowhere.ptd")]) == 1
    capsys.readouterr()
    assert et_compare.main([words[1], "--inputs", str(tmp_path / "x.npz")]) == 0
    assert "the interpreter, on the instructions of the file" in capsys.readouterr().out
    (tmp_path / "cut.pt2").write_bytes((tmp_path / "m.pt2").read_bytes()[:200])
    capsys.readouterr()
    assert et_compare.main([str(tmp_path / "cut.pt2"), *words[1:]]) == 1
    assert "error[E" in (printed := capsys.readouterr().err) and "cut.pt2" in printed, printed
    for wrong in ([words[1]], [*words, words[1]]):
        assert et_compare.main(wrong if len(wrong) == 1 else [words[0], *words]) != 0


def test_the_result_is_data() -> None:
    found = compare(export("cond")[0], compiled("cond"), inputs=samples("cond"))
    assert isinstance(found, Comparison) and found.samples == 2
    assert [s.name for s in found.stages] == ["aten", "core", "edge", "backend", "et", "et/etir"]
