"""The tools start without what they do not need: torch and sympy never, numpy and xDSL's parser only when used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
sym.dim @s0 in [1, 64]
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
func.func @forward(%x: tensor<?x4xf32, #et.layout<dims = [s0, 4]>>) -> tensor<?x4xf32, #et.layout<dims = [s0, 4]>> {
  %w = et.get_weight @w : tensor<4xf32>
  %0 = aten.relu.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %x : tensor<?x4xf32, #et.layout<dims = [s0, 4]>>
}
"""


def imported(tool: str, arguments: list[str]) -> list[str]:
    """The modules that are loaded after a tool has run in a process of its own."""
    script = (
        "import sys\n"
        f"from etir.tools.{tool} import main\n"
        "try:\n"
        "    code = main(sys.argv[1:])\n"
        "except SystemExit as end:\n"
        "    code = end.code\n"
        "sys.stdout.flush()\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.split("\n")


@pytest.mark.parametrize("options", [[], ["-p", "cse,dce"], ["--verify-roundtrip", "--print-debuginfo"]])
def test_et_opt_imports_neither_torch_nor_sympy(tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "in.mlir"
    path.write_text(MODULE)
    modules = imported("et_opt", [str(path), "-o", str(tmp_path / "out.mlir"), *options])
    assert "xdsl.parser" in modules
    for name in ("torch", "sympy", "numpy", "flatbuffers", "safetensors", "importlib.metadata"):
        assert name not in modules


@pytest.mark.parametrize("tool", ["et_opt", "et_translate", "et_run", "et_compile"])
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_next_to_nothing(tool: str, option: str) -> None:
    modules = imported(tool, [option])
    for name in ("torch", "sympy", "numpy", "xdsl.parser", "xdsl.ir"):
        assert name not in modules


def test_listing_passes_imports_neither_torch_nor_sympy() -> None:
    modules = imported("et_opt", ["--list-passes"])
    assert "torch" not in modules
    assert "sympy" not in modules


_CLASSES = """
import dataclasses, sys
from pathlib import Path
from etir.tools.startup import keep_dataclass_code

keep_dataclass_code(Path(sys.argv[1]))

@dataclasses.dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int = 2

point = Point(1)
try:
    point.x = 3
except dataclasses.FrozenInstanceError:
    print(point, point == Point(1, 2), point < Point(2), hash(point) == hash(Point(1)))
"""


def test_dataclass_code_is_kept(tmp_path: Path) -> None:
    """The classes are the same with a file that is not there, is there, is damaged, or cannot be written."""
    kept = tmp_path / "new" / "code.bin"

    def run(path: Path) -> str:
        done = subprocess.run([sys.executable, "-c", _CLASSES, str(path)], capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.stdout

    expected = "Point(x=1, y=2) True True True\n"
    assert run(kept) == expected
    first = kept.read_bytes()
    assert run(kept) == expected
    assert kept.read_bytes() == first
    for damaged in (b"", first[:90], first[:-1] + b"?", b"\0" * 64):
        kept.write_bytes(damaged)
        assert run(kept) == expected
        assert len(kept.read_bytes()) > 100
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run(blocked / "code.bin") == expected
