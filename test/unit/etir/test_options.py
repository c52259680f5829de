"""Options of the compiler: every one is in the text of the pipeline, its forms mean the same, wrong ones are named.

The law that holds the front doors together: ``et-opt -p``, with the pipeline that ``etir.compile`` says it ran, makes
of the imported module's text what ``etir.compile`` made of the program. It is tested for every field of the options.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import etir
from etir.diagnostics import EtirError
from etir.dialects.et.weights import write_weight_file
from etir.dialects.payloads import payloads
from etir.dialects.text import print_module
from etir.driver import compile_program, module_of
from etir.options import CompileKeywords, CompileOptions, ExternalFile, PartitionOptions, compile_options
from etir.passes.infra.pipeline import parse_pipeline, pipeline_text
from etir.pipeline import pipeline, stages
from etir.tools import et_compile, et_opt, et_translate


class _Stateful(nn.Module):
    """Linear layers that share a weight, a function that the delegate of these tests leaves, and two buffers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.register_buffer("cache", torch.ones(4, 8))
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.hardswish(self.layer(x))
        self.cache.copy_(y * 2)
        self.steps.add_(1)
        return torch.tanh(y).sin() + self.layer(y) + self.cache


class _Trained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.layer(x), wanted)


@cache
def stateful() -> torch.export.ExportedProgram:
    return torch.export.export(_Stateful().eval(), (torch.ones(4, 8),))


@cache
def trained() -> torch.export.ExportedProgram:
    from torch.export.experimental import _export_forward_backward

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _export_forward_backward(torch.export.export(_Trained(), (torch.ones(2, 4), torch.ones(2, 3))))


REFERENCE = "reference{leave=aten.tanh.default}"
DELEGATED = CompileOptions(target="etir", delegates=(REFERENCE,))


def delegated(**partition: object) -> CompileOptions:
    return dataclasses.replace(DELEGATED, partition=PartitionOptions(**partition))  # type: ignore[arg-type]


OPTIONS: dict[str, CompileOptions] = {
    "target": CompileOptions(target="etir"),
    "delegates": DELEGATED,
    "fallback": CompileOptions(target="etir", delegates=("reference",), fallback="refuse"),
    "partition": delegated(min_ops=3),
    "link_backends": CompileOptions(link_backends=("MyBackend", "Other")),
    "link_libraries": CompileOptions(link_libraries=("custom_ops",), delegates=("xnnpack",)),
    "plan_inputs": CompileOptions(plan_inputs=False),
    "plan_outputs": CompileOptions(plan_outputs=False),
    "unbounded": CompileOptions(target="etir", unbounded="allocate"),
    "prefer": CompileOptions(prefer="speed"),
    "share_state": CompileOptions(share_state=True),
    "external_weights": CompileOptions(external_weights=(ExternalFile("a b", ("*.weight",)), ExternalFile("rest"))),
    "external_state": CompileOptions(external_state=(ExternalFile("none", ("ca*",)),), delegates=("xnnpack",)),
    "optimizer": CompileOptions(target="etir", optimizer="sgd{lr=0.1 momentum=0.9}"),
    "state_methods": CompileOptions(state_methods=("cache", "st*")),
    "debug_info": CompileOptions(debug_info=True),
}
"""For each field options with a value that is not its default."""

PARTITION: dict[str, CompileOptions] = {
    "exclude": delegated(exclude=("aten.hardswish.default", "aten.sin.default")),
    "min_ops": delegated(min_ops=2),
    "leave": delegated(leave=("forward_reference_0",)),
    "cut": delegated(cut=("forward_reference:2",)),
    "split": delegated(split=True),
    "own_state": delegated(own_state=True),
    "share_state": delegated(own_state=True, share_state=True),
    "what_if": delegated(what_if=True),
    "shared_constants": delegated(shared_constants="pass"),
}
"""The same for each field of ``partition``."""


def run_text(program: Any, options: CompileOptions, text: str, folder: Path) -> tuple[str, bytes, dict[str, bytes]]:
    """What ``et-opt -p text`` and ``et-translate`` make of the program's text: the final text and the files' bytes."""
    module = module_of(program, options)
    (folder / "in.mlir").write_text(print_module(module, locations=True), encoding="utf-8")
    write_weight_file(folder / "in.safetensors", list(payloads(module)))
    final = folder / "out.mlir"
    assert et_opt.main(["-p", text, str(folder / "in.mlir"), "--print-debuginfo", "-o", str(final)]) == 0
    locations = ["--print-debuginfo"] if options.debug_info else []
    assert et_translate.main(["--mlir-to-pte", *locations, str(final), "-o", str(folder / "out.pte")]) == 0
    beside = {path.stem: path.read_bytes() for path in folder.glob("*.ptd")}
    return final.read_text(encoding="utf-8"), (folder / "out.pte").read_bytes(), beside


@pytest.mark.parametrize(
    ("name", "options"),
    [("defaults", CompileOptions()), *OPTIONS.items(), *((f"partition.{n}", o) for n, o in PARTITION.items())],
)
@pytest.mark.parametrize("with_defaults", [False, True])
def test_the_printed_pipeline_does_the_same(
    name: str, options: CompileOptions, with_defaults: bool, tmp_path: Path
) -> None:
    program = trained() if name == "optimizer" else stateful()
    compiled = compile_program(program, options)
    text = pipeline_text(parse_pipeline(compiled.pipeline), with_defaults=with_defaults)
    final, data, beside = run_text(program, options, text, tmp_path)
    # The module's own location, on the last line, is the text that it was read from.
    assert final.splitlines()[:-1] == print_module(compiled.module, locations=True).splitlines()[:-1]
    assert data == compiled.buffer
    assert beside == compiled.external


@pytest.mark.parametrize(
    ("cls", "cases"), [(CompileOptions, OPTIONS), (PartitionOptions, {"defaults": DELEGATED, **PARTITION})]
)
def test_every_option_has_a_case(cls: type[Any], cases: dict[str, CompileOptions]) -> None:
    """A field that is added without one, or a case that changes nothing, fails here."""
    fields = {field.name: field.default for field in dataclasses.fields(cls)}
    assert [name for name in cases if name != "defaults"] == list(fields)
    for name, options in cases.items():
        given = options if cls is CompileOptions else options.partition
        assert name == "defaults" or getattr(given, name) != fields[name]


@pytest.mark.parametrize("name", [*OPTIONS, *PARTITION])
def test_every_option_reaches_the_pipeline(name: str) -> None:
    """What the passes do with an option is their tests' business; that they get it is this one's."""
    base, options = (DELEGATED, PARTITION[name]) if name in PARTITION else (CompileOptions(), OPTIONS[name])
    if name in ("link_libraries", "external_state"):
        base = dataclasses.replace(base, delegates=("xnnpack",))
    if name == "fallback":
        base = CompileOptions(target="etir", delegates=("reference",))
    if name == "debug_info":
        assert pipeline(options) == pipeline(base), "it is an option of emission"
    else:
        assert pipeline_text(pipeline(options)) != pipeline_text(pipeline(base))


def test_the_pipeline_reads_back() -> None:
    for options in (*OPTIONS.values(), *PARTITION.values()):
        for with_defaults in (False, True):
            passes = pipeline(options)
            assert parse_pipeline(pipeline_text(passes, with_defaults=with_defaults)) == passes


def test_stages_are_the_pipeline() -> None:
    """Joined at any phase."""
    whole = pipeline(DELEGATED)
    assert tuple(step.run for stage in stages(DELEGATED) for step in stage.steps) == whole
    for phase in ("aten", "core", "edge"):
        assert pipeline(DELEGATED, stop=phase) + pipeline(DELEGATED, start=phase) == whole
    head, tail = pipeline(DELEGATED, stop="backend"), pipeline(DELEGATED, start="backend")
    # Text at the backend level may come from elsewhere: it is linked again.
    assert [p.name for p in tail][:1] == ["verify-link"]
    assert head + tail[1:] == whole


def test_optional_passes_name_their_option() -> None:
    """The documentation's last column: without the option, the pass is not in the pipeline."""
    given = dataclasses.replace(
        DELEGATED,
        optimizer="adam",
        state_methods=True,
        external_weights=(ExternalFile("w"),),
        external_state=(ExternalFile("s"),),
    )
    steps = [step for stage in stages(given) for step in stage.steps]
    plain = pipeline(CompileOptions(target=given.target))
    assert [p.name for p in plain] == [step.run.name for step in steps if not step.option]
    known = [field.name for field in dataclasses.fields(CompileOptions)]
    assert {step.option for step in steps if step.option} <= set(known)


# --- the command line -------------------------------------------------------------------------------------------------


def test_et_compile_prints_the_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.export.save(stateful(), tmp_path / "m.pt2")
    arguments = [str(tmp_path / "m.pt2"), "--target=etir", "--delegate=reference", "--delegate-option"]
    arguments += ["leave=aten.tanh.default", "--partition-option=min-ops=3", "--external-weights=w=*.weight,*.bias"]
    assert et_compile.main([*arguments, "--print-pipeline"]) == 0
    printed = capsys.readouterr().out
    options = dataclasses.replace(
        DELEGATED,
        partition=PartitionOptions(min_ops=3),
        external_weights=(ExternalFile("w", ("*.weight", "*.bias")),),
    )
    assert parse_pipeline(printed) == pipeline(options)
    assert et_compile.main(arguments) == 1
    assert "name the file to write with -o FILE" in capsys.readouterr().err
    assert et_compile.main([*arguments, "--print-pipeline", "-o", str(tmp_path / "m.pte")]) == 0
    assert capsys.readouterr().out == printed
    _, data, beside = run_text(torch.export.load(tmp_path / "m.pt2"), options, printed, tmp_path)
    assert (tmp_path / "m.pte").read_bytes() == data
    assert (tmp_path / "w.ptd").read_bytes() == beside["w"]


def test_et_opt_prints_the_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.mlir").write_text("func.func @f() {\n  func.return\n}\n", encoding="utf-8")
    for flag in ("--print-pipeline", "--dump-pass-pipeline"):
        assert et_opt.main([str(tmp_path / "empty.mlir"), "--compile-to=edge", flag, "--no-output"]) == 0
        assert parse_pipeline(capsys.readouterr().err) == pipeline(stop="edge")


# --- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("delegates", "xnnpack", ("xnnpack",)),
        ("delegates", ["xnnpack", ("reference", {"leave": "aten.tanh.default"})], ("xnnpack", REFERENCE)),
        ("link_backends", "A", ("A",)),
        ("link_libraries", ["a", "b"], ("a", "b")),
        ("partition", None, PartitionOptions()),
        (
            "partition",
            {"min-ops": "3", "exclude": "aten.add.Tensor", "own_state": True},
            PartitionOptions(exclude=("aten.add.Tensor",), min_ops=3, own_state=True),
        ),
        ("external_weights", None, ()),
        ("external_weights", "w", (ExternalFile("w"),)),
        (
            "external_state",
            {"a": "x*", "b": ["y", "z"], "c": ()},
            (ExternalFile("a", ("x*",)), ExternalFile("b", ("y", "z")), ExternalFile("c")),
        ),
        ("state_methods", "cache*", ("cache*",)),
        ("state_methods", True, True),
        ("optimizer", None, None),
    ],
)
def test_forms_of_an_option(name: str, given: object, meant: object) -> None:
    options = CompileOptions(**{name: given})  # type: ignore[arg-type]
    assert getattr(options, name) == meant
    assert hash(options) == hash(CompileOptions(**{name: meant}))  # type: ignore[arg-type]
    assert compile_options(CompileOptions(debug_info=True), {name: given}) == dataclasses.replace(
        options, debug_info=True
    )


def test_keywords_are_the_fields() -> None:
    assert list(CompileKeywords.__annotations__) == [field.name for field in dataclasses.fields(CompileOptions)]


def test_options_and_keywords_go_together() -> None:
    program = etir.compile(stateful(), CompileOptions(plan_inputs=False), plan_outputs=False)
    assert program.buffer == etir.compile(stateful(), plan_inputs=False, plan_outputs=False).buffer
    assert program.buffer != etir.compile(stateful(), plan_inputs=False).buffer


def wrong(call: Callable[[], object], *ids: str) -> str:
    with pytest.raises(EtirError) as caught:
        call()
    assert caught.value.ids == ids, caught.value
    return str(caught.value)


@pytest.mark.parametrize(
    ("keywords", "id", "message"),
    [
        ({"delegate": ["xnnpack"]}, "E0914", "there is no option 'delegate'; did you mean 'delegates'?"),
        ({"constant_method": {}}, "E0914", "there is no option 'constant_method'; did you mean 'constant_methods'?"),
        ({"zzz": 1}, "E0914", "there is no option 'zzz'; there are target, delegates, "),
        ({"options": {"target": "etir"}}, "E0914", "options is a dict, not CompileOptions"),
        ({"target": 3}, "E0914", "option 'target' takes str, not 3"),
        ({"target": "abacus"}, "E0601", "abacus"),
        ({"plan_inputs": "yes"}, "E0914", "option 'plan_inputs' takes bool, not 'yes'"),
        ({"fallback": "maybe"}, "E0914", "option 'fallback' takes allow|refuse, not 'maybe'"),
        ({"link_backends": 3}, "E0914", "option 'link_backends' takes str,..., not 3"),
        ({"state_methods": [1]}, "E0914", "option 'state_methods' takes bool|str,..., not [1]"),
        ({"delegates": [3]}, "E0914", "option 'delegates' takes names of backends"),
        ({"delegates": 3}, "E0914", "option 'delegates' takes names of backends"),
        ({"external_weights": 3}, "E0914", "option 'external_weights' takes the name of a file"),
        ({"external_state": {"a": 3}}, "E0914", "option 'external_state' takes the name of a file"),
        ({"partition": 3}, "E0914", "option 'partition' takes a mapping of options, not 3"),
        ({"partition": {"min_op": 3}}, "E0503", "pass 'partition' has no option 'min-op'; did you mean 'min-ops'?"),
        ({"partition": {"min_ops": "many"}}, "E0503", "option 'min-ops' of pass 'partition' takes int, not 'many'"),
        ({"optimizer": "sgdx"}, "E0502", "there is no pass 'sgdx-step'; did you mean sgd-step"),
        ({"optimizer": "sgd{lx=1}"}, "E0503", "pass 'sgd-step' has no option 'lx'"),
        ({"optimizer": "sgd,adam"}, "E0914", "option 'optimizer' takes one optimizer"),
    ],
)
def test_wrong_options(keywords: dict[str, Any], id: str, message: str) -> None:
    """One error that says what would be right."""
    assert message in wrong(lambda: etir.compile(stateful(), **keywords), id)


def test_what_works_on_the_first_level_only() -> None:
    for keywords, id in (({"optimizer": "sgd"}, "E0521"), ({"state_methods": True}, "E0522")):
        message = wrong(lambda k=keywords: pipeline(CompileOptions(**k), start="edge"), id)
        assert "the module is at level 'edge' already; the pass works at level 'aten'" in message
