"""The package as a user of the interactive prompt meets it: names, a program at a glance, errors, copies."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

import etir
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import print_module
from etir.driver import compile_program
from etir.passes.infra.manager import run_pipeline


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


class _Lgamma(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.lgamma(x)


@cache
def exported(cls: type[nn.Module] = _Model) -> torch.export.ExportedProgram:
    return torch.export.export(cls().eval(), (torch.ones(2, 8),))


OPTIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "delegates": {
        "target": "etir",
        "delegates": ["reference{leave=aten.tanh.default}", "xnnpack"],
        "link_backends": "XnnpackBackend",
    },
    "external": {"external_weights": {"w": "first.*"}},
    "debug_info": {"debug_info": True},
}


def test_dir_is_the_interface() -> None:
    assert dir(etir) == sorted([*etir.__all__, "__version__"])
    for name in dir(etir):
        assert getattr(etir, name) is getattr(etir, name)
    with pytest.raises(AttributeError, match="module 'etir' has no attribute 'compiler'"):
        _ = etir.compiler


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, etir; dir(etir); print([m for m in ('torch', 'numpy', 'xdsl', 'etir.driver') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_program_is_three_lines() -> None:
    assert repr(etir.compile(exported())).splitlines() == [
        "Program for executorch: 1 method, 3 kernel calls, 0 delegate calls",
        "  forward (1 input, 1 output)",
        # 8 * 8 + 8 + 4 * 8 + 4 = 108 floats; in memory x and the first layer's result, or the result and tanh of it:
        # 2 * 64 bytes at any time.
        "  128 bytes of planned memory, 4 constants of 432 bytes",
    ]
    methods = {f"m{i}": exported() for i in range(6)}
    several = repr(etir.compile(methods, target="etir", delegates=["reference{leave=aten.tanh.default}"]))
    first, names, _ = several.splitlines()
    assert first == "Program for etir: 6 methods, 6 kernel calls, 12 delegate calls"
    assert names == "  m0 (1 input, 1 output), m1 (1 input, 1 output), m2 (1 input, 1 output), and 3 more"


@pytest.mark.parametrize("name", OPTIONS)
def test_programs_survive_pickling_and_copying(name: str) -> None:
    program = etir.compile(exported(), **OPTIONS[name])  # type: ignore[arg-type]
    for again in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program), copy.copy(program)):
        assert print_module(again.module, locations=True) == print_module(program.module, locations=True)
        assert (again.buffer, again.external) == (program.buffer, program.external)
        assert (again.options, again.pipeline, again.passes) == (program.options, program.pipeline, program.passes)
        assert (again.delegation, again.warnings) == (program.delegation, program.warnings)
        assert str(again.report()) == str(program.report())
        assert again.debug_file() == program.debug_file()


def test_a_pickle_does_not_depend_on_the_process(tmp_path: Path) -> None:
    """Not on classes of operators that were made in it, nor on its memory."""
    program = etir.compile(exported(), **OPTIONS["delegates"])  # type: ignore[arg-type]
    (tmp_path / "program.pickle").write_bytes(pickle.dumps(program))
    code = "import pickle, sys; sys.stdout.buffer.write(pickle.load(open(sys.argv[1], 'rb')).buffer)"
    command = [sys.executable, "-c", code, str(tmp_path / "program.pickle")]
    assert subprocess.run(command, capture_output=True, check=True).stdout == program.buffer


def test_a_deep_copy_changes_on_its_own() -> None:
    program = etir.compile(exported())
    text, again = print_module(program.module), copy.deepcopy(program)
    run_pipeline(EtContext(), again.module, "externalize-weights")
    assert print_module(again.module) != text
    assert print_module(program.module) == text


# --- errors -----------------------------------------------------------------------------------------------------------


def refused() -> EtirError:
    with pytest.raises(EtirError) as caught:
        etir.compile(exported(_Lgamma))
    return caught.value


def test_an_error_is_the_users_frame_and_its_message_once() -> None:
    error = refused()
    assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    frames = [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames == ["test_front.py", "diagnostics.py"]
    shown = "".join(traceback.format_exception(error))
    assert shown.count("error[E0410]") == 1
    assert shown.count("Traceback") == 1


def test_everything_is_shown_for_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETIR_DEBUG", "1")
    frames = [Path(frame.filename).name for frame in traceback.extract_tb(refused().__traceback__)]
    assert "driver.py" in frames and "manager.py" in frames


def test_a_bug_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pass did wrong is for who wrote it."""
    from etir.passes.generic.dce import DcePass

    def fail(*_: object) -> None:
        raise RuntimeError("some bug")

    monkeypatch.setattr(DcePass, "run", fail)
    with pytest.raises(EtirError) as caught:
        etir.compile(exported())
    assert caught.value.ids == ("E0505",)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_errors_survive_pickling() -> None:
    """As those of a process pool have to."""
    error = refused()
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.diagnostics) == (str(error), error.diagnostics)


def test_tools_see_causes() -> None:
    """The driver itself keeps what ``--debug`` prints."""
    with pytest.raises(EtirError) as caught:
        compile_program(exported(_Lgamma))
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 2
