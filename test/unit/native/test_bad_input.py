"""What keeps code from being made: an id, a place and a way out, and a program that runs on the kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native import cc  # noqa: E402
from etir.backends.native.blob import read_blob  # noqa: E402
from etir.diagnostics import EtirError, Severity  # noqa: E402
from etir.dialects.et.payloads import DelegateOp  # noqa: E402
from etir.emit.from_pte import read_program  # noqa: E402
from etir.tools.et_compile import main as compile_main  # noqa: E402


class Net(nn.Module):
    """A window, an operator that stays with the kernels, a product."""

    def __init__(self) -> None:
        super().__init__()
        self.window = nn.Conv2d(3, 5, 3, padding=1)
        self.last = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.last(torch.logcumsumexp(torch.relu(self.window(x)), 1))


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compilers are asked again, and nothing that one has made is kept."""
    monkeypatch.setenv("ETIR_CACHE", "")
    cc.compiler.cache_clear()
    yield
    cc.compiler.cache_clear()


@pytest.fixture(scope="module")
def given() -> tuple[nn.Module, Any, Any]:
    torch.manual_seed(0)
    module, x = Net().eval(), torch.randn(1, 3, 6, 4)
    return module, x, torch.export.export(module, (x,))


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def fails(folder: Path) -> str:
    return script(folder / "cc", "#!/bin/sh\necho 'internal compiler error' >&2\nexit 1\n")


def is_too_old(folder: Path) -> str:
    """It does not know the processors that code is made for."""
    return script(
        folder / "cc",
        '#!/bin/sh\ncase "$*" in *--version*) echo "gcc 4.8";;\n'
        "*) echo \"error: bad value (x86-64-v3) for '-march=' switch\" >&2; exit 1;; esac\n",
    )


def makes_nothing(folder: Path) -> str:
    return script(folder / "cc", "#!/bin/sh\nexit 0\n")


def makes_no_code(folder: Path) -> str:
    """The linked file is none."""
    return script(
        folder / "cc", '#!/bin/sh\nfor last; do :; done\ncase "$last" in -*) ;; *) echo hello > "$last";; esac\n'
    )


def is_no_program(folder: Path) -> str:
    return script(folder / "cc", "\x7fELF nonsense")


COMPILERS = [
    (fails, "E1162", "internal compiler error"),
    (is_too_old, "E1162", "bad value (x86-64-v3)"),
    (makes_nothing, "E1162", "ends with 0"),
    (makes_no_code, "E1163", "no 64-bit"),
    (is_no_program, "E1162", "cannot be run"),
]


def check_fallback(given: tuple[nn.Module, Any, Any], delegate: str, id: str, said: str) -> etir.Program:
    """It compiles with warnings about each delegate, and computes eager's results; with ``refuse`` it is an error."""
    module, x, exported = given
    program = etir.compile(exported, target="etir", delegates=[delegate])
    found = [warning for warning in program.warnings if warning.id.id == id]
    # A convolution that reads its image in parts is several products, of which more than one may be wrong.
    assert len(dict.fromkeys(warning.notes[-1] for warning in found)) == 2
    assert all(warning.severity == Severity.WARNING for warning in found)
    for warning in found:
        assert said in warning.message and warning.help and warning.location is not None
        assert "runs on the kernels" in warning.notes[-1]
    for native in ("trusted", "refuse"):
        (result,) = etir.runtime.load(program, native=native).forward(x)
        with torch.no_grad():
            wanted = module(x)
        assert (result - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    delegates = [op for op in read_program(program.buffer).walk() if isinstance(op, DelegateOp)]
    assert [read_blob(bytes(op.value.data.data)).variants for op in delegates] == [(), ()]  # type: ignore[union-attr]
    return program


@pytest.mark.parametrize(("make", "id", "said"), COMPILERS, ids=[make.__name__ for make, *_ in COMPILERS])
def test_compilers_that_make_no_code(tmp_path: Path, given: Any, make: Any, id: str, said: str) -> None:
    path = make(tmp_path)
    check_fallback(given, f"native{{cc={path}}}", id, said)
    # What has no program for the kernels is refused earlier: here, every operator is claimed.
    exported = torch.export.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    cc.compiler.cache_clear()
    with pytest.raises(EtirError, match=id) as caught:
        etir.compile(exported, target="etir", delegates=[f"native{{cc={path}}}"], fallback="refuse")
    (diagnostic,) = caught.value.diagnostics
    assert said in diagnostic.message and diagnostic.help and diagnostic.location is not None


def test_no_compiler_at_all_names_both_ways(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cc, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = check_fallback(given, "native", "E1161", "ziglang, clang, gcc or cc is not there")
    for warning in program.warnings:
        assert "etir[native]" in warning.help and "clang or gcc" in warning.help and "native{cc=PATH}" in warning.help
    exported = torch.export.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    with pytest.raises(EtirError, match="E1161"):
        etir.compile(exported, target="etir", delegates=["native"], fallback="refuse")
    torch.export.save(exported, tmp_path / "model.pt2")
    arguments = [str(tmp_path / "model.pt2"), "-o", str(tmp_path / "model.pte"), "--delegate", "native"]
    assert compile_main([*arguments, "--target", "etir"]) == 0
    assert "warning[E1161]" in capsys.readouterr().err
    assert os.path.exists(tmp_path / "model.pte")


def test_an_unknown_processor_is_an_error_whatever_the_fallback(given: Any) -> None:
    for fallback in ("allow", "refuse"):
        with pytest.raises(EtirError, match="E1160") as caught:
            etir.compile(given[2], target="etir", delegates=["native{cpus=z80}"], fallback=fallback)
        assert "x86-64-v3" in str(caught.value)


def test_a_schedule_that_a_processor_cannot_do(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    """A model of a processor that chooses wrongly is found before any C is made."""
    from etir.backends.native.kernels.brgemm import Brgemm

    real = Brgemm.schedule
    monkeypatch.setattr(Brgemm, "schedule", lambda self, op, cpu: {**real(self, op, cpu), "rows": 100_000})
    check_fallback(given, "native", "E1164", "a block of 100000 rows")


def test_tensors_of_many_dims_stay_with_the_kernels() -> None:
    x = torch.randn(*[1] * 8, 2, 4)
    exported = torch.export.export(nn.Linear(4, 3).eval(), (x,))
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert program.delegation is not None and not program.delegation.backends[0].partitions
    assert any("a tensor of 10 dims" in row.reason for row in program.delegation.backends[0].rejected)
