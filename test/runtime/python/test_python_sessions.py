"""Sessions: what objects say of themselves, one frame and one message for an error, nothing left at the end."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import etir
from etir.runtime import Program, RuntimeFailure, is_available, load

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

X = torch.ones(4, 3)


class Counter(torch.nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x[0])
        return x + self.total


@pytest.fixture(scope="module")
def compiled() -> etir.Program:
    return etir.compile(torch.export.export(Counter(), (X,)), target="etir", state_methods=True)


@pytest.fixture(scope="module")
def path(compiled: etir.Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sessions") / "m.pte"
    compiled.save(path)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_states_of_zeros_take_memory_when_they_are_written() -> None:
    """A cache of 16 MiB that begins with zeros takes none before it is used; one other number is kept."""

    class Caches(torch.nn.Module):
        kept: torch.Tensor
        mark: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(4 << 20))
            mark = torch.zeros(1 << 19)
            mark[-1] = 5
            self.register_buffer("mark", mark)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.kept.add_(x)
            self.mark.add_(x)
            return self.kept[-1:] + self.mark[-1:]

    def anonymous() -> int:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) >> 10

    x = torch.ones(1)
    compiled = etir.compile(torch.export.export(Caches(), (x,)), target="etir")
    program = load(compiled)
    before = anonymous()
    forward = program.load_method("forward")
    assert anonymous() - before < 10
    assert [float(forward(x)[0]) for _ in range(2)] == [7, 9]
    assert anonymous() - before > 14


# --- loading and looking ----------------------------------------------------------------------------------------------


def test_a_compiled_program_is_loaded_as_it_is(compiled: etir.Program) -> None:
    assert torch.equal(load(compiled).forward(X)[0], X + 1)


def test_a_compiled_program_brings_its_external_weights() -> None:
    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

    model = Linear()
    program = etir.compile(torch.export.export(model, (X,)), target="etir", external_weights="weights")
    torch.testing.assert_close(load(program).forward(X), [X * model.weight.detach()])
    with pytest.raises(RuntimeFailure, match=r"error\[E1206\]"):
        _ = load(program, data=[]).forward


def test_what_is_no_program_says_what_would_be() -> None:
    with pytest.raises(RuntimeFailure, match="a int is neither a path nor bytes nor a compiled program"):
        load(3)  # pyright: ignore[reportArgumentType]


def test_a_program_shows_its_methods(path: Path) -> None:
    lines = repr(load(path)).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("<etir.runtime.Program on ") and lines[0].endswith("kernels, 1 thread")
    assert lines[1] == "  forward(x: float32[4, 3]) -> [float32[4, 3]]"
    assert lines[2] == "  __et_read_state, __et_state_names, __et_write_state>"


def test_many_inputs_are_cut_short() -> None:
    class Sum(torch.nn.Module):
        def forward(self, *x: torch.Tensor) -> torch.Tensor:
            return torch.stack(x).sum(0)

    rt = load(etir.compile(torch.export.export(Sum(), (X,) * 9), target="etir"))
    assert "x_4: float32[4, 3], ... 4 more) ->" in repr(rt)
    assert "x_8: float32[4, 3])" in repr(rt.forward)
    assert str(rt.signature("forward")) in repr(rt.forward)


def test_a_signature_needs_no_loading(path: Path) -> None:
    rt = load(path)
    signature = rt.signature("forward")
    assert (signature.name, [i.name for i in signature.inputs]) == ("forward", ["x"])
    assert rt.forward.signature == signature
    with pytest.raises(RuntimeFailure, match=r"error\[E1207\].*no method 'decode'"):
        rt.signature("decode")


# --- errors -----------------------------------------------------------------------------------------------------------

MISTAKES: dict[str, Callable[[Program], Any]] = {
    "an input": lambda rt: rt.forward(3),
    "a keyword": lambda rt: rt.forward(z=3),
    "a structured call": lambda rt: rt.forward.structured(3),
    "a run": lambda rt: rt.forward.run([3], torch=False),
    "a profile": lambda rt: rt.forward.profile(3),
    "a method": lambda rt: rt["decode"],
    "a method alone": lambda rt: rt.load_method("decode"),
    "a signature": lambda rt: rt.signature("decode"),
    "a state": lambda rt: rt.state.write({"sum": X}),
    "a state's value": lambda rt: rt.state.write({"total": X}),
    "a file": lambda rt: load("nothing.pte"),
    "bytes": lambda rt: load(b"nothing"),
    "an option": lambda rt: load(b"", threads=0),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_an_error_has_one_frame_below_the_user_s_and_its_message_once(path: Path, mistake: str) -> None:
    rt = load(path)
    with pytest.raises(RuntimeFailure) as caught:
        MISTAKES[mistake](rt)
    frames = traceback.extract_tb(caught.value.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == Path(etir.runtime.__file__).parent]
    assert len(own) == 1 and frames[-1] is own[0]
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("error[E") == 1
    assert "During handling" not in text and "direct cause" not in text


# --- the end ----------------------------------------------------------------------------------------------------------

SESSIONS: dict[str, str] = {
    "a global": "rt = load(PATH); m = rt.forward; y = m(x)",
    "torch": "import torch; rt = load(PATH); y = rt.forward(torch.ones(4, 3)); y[0].rt = rt",
    "an attribute of a module": "sys.keep = load(PATH).forward; np.keep = load(PATH).forward(x)",
    "a module of this package": "import etir.runtime.errors as e; e.keep = load(PATH); e.keep.forward",
    "state": "rt = load(PATH); s = rt.state; s['total']; s.write({'total': np.ones(3, np.float32)})",
    "a cycle": "class C: pass\nc = C(); c.me = c; c.rt = load(PATH); c.m = c.rt.forward",
    "a cache": "import functools\n@functools.cache\ndef get(): return load(PATH)\nget().forward",
    "an uncaught error": "rt = load(PATH); rt.forward(3)",
    "an error kept with its frames": (
        "def f():\n    rt = load(PATH)\n    try: rt.forward(3)\n    except Exception as e: sys.keep = error = e\nf()"
    ),
    "no garbage collection": (
        "import gc; gc.disable()\ndef f():\n    rt = load(PATH)\n"
        "    try: rt.forward(3)\n    except Exception as e: rt.e = e\nf()"
    ),
    "an exit in the middle": "def f():\n    rt = load(PATH); m = rt.forward; sys.exit(0)\nf()",
    "a generator": "def g():\n    rt = load(PATH); yield rt.forward\nit = g(); next(it)",
    "a thread that has ended": (
        "import threading; rt = load(PATH)\nt = threading.Thread(target=lambda: rt.forward(x)); t.start(); t.join()"
    ),
    "an exit handler": "import atexit; rt = load(PATH); atexit.register(lambda: print(rt.forward(x)[0].sum()))",
    "a file that is refused": "try: load(b'nothing')\nexcept Exception as e: sys.keep = e",
}
START = (
    "import sys, numpy as np, etir.runtime\nfrom etir.runtime import load, _native\nx = np.ones((4, 3), np.float32)\n"
)


def session(code: str, path: Path, *options: str, stdin: str | None = None) -> str:
    """What a session writes to standard error."""
    command = [sys.executable, *options, *(["-c", code] if stdin is None else [])]
    run = subprocess.run(command, cwd=path.parent, input=stdin, capture_output=True, text=True, check=False)
    return run.stderr


@pytest.mark.parametrize("name", list(SESSIONS))
def test_nothing_leaks_at_exit(path: Path, name: str) -> None:
    code = f"{START}_native.report_leaks(True)\nPATH = {str(path)!r}\n{SESSIONS[name]}\n"
    error = session(code, path)
    assert "leaked" not in error
    assert ("Traceback" in error) == (name == "an uncaught error"), error


def test_an_interactive_session_leaks_nothing(path: Path) -> None:
    lines = (
        f"{START}_native.report_leaks(True)\nrt = load({str(path)!r})\nrt\nrt.forward\nrt.forward(x)\nrt.forward(3)\n"
    )
    error = session("", path, "-i", "-q", stdin=lines)
    assert "error[E1208]" in error and "leaked" not in error


DAEMON = (
    "import threading, time\nthreading.Thread(target=lambda r: time.sleep(9), args=(load(PATH),), daemon=True).start()"
)


@pytest.mark.parametrize("reported", [True, False])
def test_what_others_keep_is_reported_only_on_demand(path: Path, reported: bool) -> None:
    """The thread has it at the end of the process: what the check above would say if something leaked."""
    code = f"{START}{f'_native.report_leaks({reported})' if reported else ''}\nPATH = {str(path)!r}\n{DAEMON}\n"
    assert ("leaked" in session(code, path)) == reported
