"""What a package from outside adds, seen from the command lines: installed, by --import, and broken ones."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from etir_testing.forks import commands

PACKAGE = {
    "plug.py": """
from pathlib import Path
from etir.plugins import Plugin

def load():
    from plug_dialect import PLUG
    return PLUG

plugin = Plugin(
    passes={"plug-mark": "plug_passes:MarkPass"},
    dialects={"plug": load},
    decompositions=["plug_decompositions"],
    meanings=["plug_meanings"],
    kernels={"etir": [Path(__file__).parent / "plug_kernels"]},
    backends={"plugbox": "plug_backend:BACKEND"},
)
""",
    "plug_dialect.py": """
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition

@irdl_op_definition
class MarkOp(IRDLOperation):
    name = "plug.mark"
    assembly_format = "attr-dict"

PLUG = Dialect("plug", [MarkOp], [])
""",
    "plug_passes.py": """
from dataclasses import dataclass
from etir.passes.infra.base import Pass
from plug_dialect import MarkOp

@dataclass(frozen=True)
class MarkPass(Pass):
    \"\"\"Put a mark at the start of the module.\"\"\"

    name = "plug-mark"

    def run(self, ctx, module):
        module.body.block.insert_op_before(MarkOp(), module.body.block.first_op)
""",
    "plug_decompositions.py": """
from etir.plugins import decomposition

@decomposition("plug.clip.default")
def clip(b, x, limit):
    return b.mul(b.tanh(b.div(x, limit)), limit)
""",
    "plug_meanings.py": """
import numpy as np
from etir.plugins import meaning

@meaning("plug.clip.default")
def clip(x, limit):
    return (limit * np.tanh(x / limit)).astype(x.dtype)

@meaning("plug.scale.default")
def scale(x):
    return x * np.asarray(3, x.dtype)
""",
    "plug_backend.py": """
from etir.backends.api.conditions import dtypes, static_shapes
from etir.backends.api.interface import Artifact, Backend
from etir.backends.api.patterns import rows

class Box(Backend):
    name = "plugbox"
    runtime_id = "PlugBox"
    version = "1"

    def rows(self, options):
        return rows(["aten.tanh.default"], dtypes("float32"), static_shapes())

    def preprocess(self, outlined, options):
        return Artifact(b"a box")

    def disassemble(self, blob, named_data):
        return "opened: " + bytes(blob).decode() + "\\n"

BACKEND = Box()
""",
    "plug_kernels/kernels.json": json.dumps(
        {
            "plug::scale.out": {
                "schema": "plug::scale.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
                "dtypes": [{"x": "FLOAT", "out": "=x"}],
                "dim_orders": "contiguous",
                "ranks": {"x": [2, 2]},
            }
        }
    ),
}

CLIP = """
et.schema "plug::clip(Tensor x, float limit) -> Tensor"
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = plug.clip.default(%x, limit = 2.0) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
"""

SCALE = """
et.schema "plug::scale(Tensor x) -> Tensor"
et.schema "plug::scale.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = plug.scale.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
"""

RELU = """
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
"""

X = np.array([1, 100], np.float32)
CLIPPED = 2 * np.tanh(X / 2)

Tool = Callable[..., "subprocess.CompletedProcess[str]"]


def write(folder: Path, files: dict[str, str]) -> None:
    """Files by their paths inside of a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def install(folder: Path, name: str, entry_points: str) -> None:
    """What pip leaves of a package with entry points."""
    entries = f"[etir.plugins]\n{entry_points}\n"
    write(folder, {f"{name}-1.dist-info/METADATA": f"Name: {name}\n", f"{name}-1.dist-info/entry_points.txt": entries})


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the package in it, and programs to use it on; not installed."""
    folder = tmp_path / "site"
    write(folder, PACKAGE)
    write(tmp_path, {"clip.mlir": CLIP, "scale.mlir": SCALE, "relu.mlir": RELU})
    np.savez(tmp_path / "x.npz", X)
    return folder


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """Runs a tool in a process of its own, with ``site`` on Python's path when it is given."""

    def run(line: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
        name, *arguments = line.split()
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        if site is not None:
            environment["PYTHONPATH"] = str(site)
        command = [commands() / name, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def check_each_kind(
    tmp_path: Path, evaluators: tuple[str, ...], run: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    """Every kind of contribution, and every tool."""
    # A pass, a dialect.
    done = run("et-opt relu.mlir --plug-mark -o marked.mlir")
    assert done.returncode == 0, done.stderr
    assert "plug.mark\n" in (tmp_path / "marked.mlir").read_text()
    done = run("et-opt marked.mlir --cse --verify-roundtrip")
    assert "plug.mark\n" in done.stdout, done.stderr
    # A decomposition: no operator of the library is in the file.
    done = run("et-translate --mlir-to-pte clip.mlir --target etir -o clip.pte")
    assert done.returncode == 0, done.stderr
    assert b"aten::tanh" in (tmp_path / "clip.pte").read_bytes()
    assert b"plug::clip" not in (tmp_path / "clip.pte").read_bytes()
    # A meaning, for an evaluator each.
    for evaluator in evaluators:
        done = run(f"et-run clip.mlir --inputs x.npz --evaluator {evaluator} --outputs y.npz")
        assert done.returncode == 0, done.stderr
        with np.load(tmp_path / "y.npz") as found:
            np.testing.assert_allclose(found["output_0"], CLIPPED, rtol=1e-6)
    # A kernel's row: it takes two dims.
    done = run("et-compile scale.mlir -o scale.pte --target etir")
    assert done.returncode == 1
    assert "error[E0604]" in done.stderr
    assert "'x' has rank 1, must be 2" in done.stderr
    # A backend, for compiling and for reading.
    done = run("et-compile clip.mlir -o box.pte --target etir --delegate plugbox --link-backend PlugBox")
    assert done.returncode == 0, done.stderr
    done = run("et-translate --disassemble box.pte")
    assert "opened: a box" in done.stdout, done.stderr


def test_an_installed_package(tmp_path: Path, site: Path, tool: Tool) -> None:
    install(site, "plug", "plug = plug:plugin")
    check_each_kind(tmp_path, ("numpy", "torch"), lambda line: tool(line, site))
    assert "plug-mark\n    Put a mark at the start" in tool("et-opt --list-passes", site).stdout
    assert "plug           1 operations  (plug-in)" in tool("et-opt --list-dialects", site).stdout


def test_import_of_a_file(tmp_path: Path, site: Path, tool: Tool) -> None:
    """Its neighbors are importable; without it nothing is known."""
    check_each_kind(tmp_path, ("numpy",), lambda line: tool(f"{line} --import site/plug.py"))
    assert "error[E0102]" in tool("et-opt marked.mlir").stderr
    assert "error[E1001]" in tool("et-run clip.mlir --inputs x.npz --evaluator numpy").stderr
    assert "error[E1101]" in tool("et-compile clip.mlir -o box.pte --target etir --delegate plugbox").stderr
    assert tool("et-compile scale.mlir -o scale.pte --target etir").returncode == 0


def test_import_of_modules(site: Path, tool: Tool) -> None:
    """By name and several of them: what a module registers by itself needs no description."""
    done = tool("et-opt --import plug_decompositions --import=plug_meanings clip.mlir --decompose-aten", site)
    assert "aten.tanh.default" in done.stdout, done.stderr
    done = tool("et-run --import plug_meanings clip.mlir --inputs x.npz --evaluator numpy", site)
    assert "output_0" in done.stdout, done.stderr


def test_both_ways_at_once(site: Path, tool: Tool) -> None:
    install(site, "plug", "plug = plug:plugin")
    done = tool("et-opt relu.mlir --plug-mark --import plug --import site/plug.py", site)
    assert (done.returncode, done.stderr) == (0, "")


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "argument", "place", "words"),
    [
        ({}, "nowhere.py", "", "there is no file 'nowhere.py'"),
        ({}, "nowhere", "", "there is no module 'nowhere'"),
        ({"here.py": ""}, "here", "", "there is no module 'here'"),
        ({"folder/x.py": ""}, "./folder", "", "'folder' is a folder without __init__.py"),
        ({"raises.py": "x = 1\nx / 0\n"}, "raises.py", "raises.py:2: ", "raises ZeroDivisionError: division by zero"),
        ({"exits.py": "raise SystemExit\n"}, "exits.py", "exits.py:1: ", "importing 'exits.py' raises SystemExit"),
        ({"needs.py": "import no_such\n"}, "needs.py", "needs.py:1: ", "raises ModuleNotFoundError: No module named"),
        ({"notes.txt": "this is no Python\n"}, "notes.txt", "notes.txt:1:", "'notes.txt' is no Python: invalid syntax"),
    ],
)
def test_modules_that_cannot_be_imported(
    tmp_path: Path, tool: Tool, files: dict[str, str], argument: str, place: str, words: str
) -> None:
    write(tmp_path, files)
    done = tool(f"et-opt --import {argument} in.mlir")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error[") == 1
    first, *rest = done.stderr.splitlines()
    assert "error[E1301]: " in first and words in first and place in first
    assert rest[-1].startswith("  help: ")
    if argument == "here":
        assert rest[-1] == "  help: name the file: --import here.py"


@pytest.mark.parametrize("name", ["et-translate --pte-to-mlir", "et-run", "et-compile"])
def test_every_tool_says_so(tool: Tool, name: str) -> None:
    done = tool(f"{name} --import nowhere.py in.mlir")
    assert done.returncode == 1
    assert done.stderr.startswith("error[E1301]: there is no file 'nowhere.py'\n  help: ")


def test_a_file_that_is_no_text(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "binary.py").write_bytes(b"\x00\xff\x7fELF\x00")
    done = tool("et-opt --import binary.py")
    assert "E1301" in done.stderr and "Traceback" not in done.stderr


def test_debug_shows_the_traceback(tmp_path: Path, tool: Tool) -> None:
    write(tmp_path, {"raises.py": "x = 1\nx / 0\n"})
    assert "Traceback" in tool("et-opt --debug --import raises.py").stderr


def test_a_name_that_is_taken(tmp_path: Path, site: Path, tool: Tool) -> None:
    write(tmp_path, {"two.py": PACKAGE["plug_decompositions.py"]})
    done = tool("et-opt clip.mlir --import plug_decompositions --import two.py", site)
    assert done.returncode == 1
    assert (
        "error[E1303]: there are two decompositions 'clip': of plug_decompositions and of two\n"
        "  note: while importing 'two.py'\n" in done.stderr
    )
    write(tmp_path, {"own.py": "from etir.plugins import Plugin\np = Plugin(passes={'cse': 'own:Cse'})\n"})
    done = tool("et-opt clip.mlir --import own.py")
    assert "error[E1303]: there are two passes 'cse': of etir.passes.generic.cse and of own\n" in done.stderr


@pytest.mark.parametrize(
    ("module", "entry", "words"),
    [
        ("raise RuntimeError('broken')\n", "bad:plugin", "cannot be used: RuntimeError: broken"),
        ("", "bad:plugin", "cannot be used: AttributeError: "),
        ("plugin = 3\n", "bad:plugin", "cannot be used: it is no Plugin, but a value of type int"),
        (None, "bad:plugin", "cannot be used: ModuleNotFoundError: No module named 'bad'"),
    ],
)
def test_a_broken_plug_in_breaks_nothing_else(
    site: Path, tool: Tool, module: str | None, entry: str, words: str
) -> None:
    """It is a warning where plug-ins are looked for, and nothing elsewhere; the others work."""
    install(site, "plug", "plug = plug:plugin")
    install(site, "bad", f"bad = {entry}")
    write(site, {} if module is None else {"bad.py": module})
    done = tool("et-opt relu.mlir --cse", site)
    assert (done.returncode, done.stderr) == (0, "")
    done = tool("et-opt relu.mlir --plug-mark", site)
    assert done.returncode == 0
    assert "plug.mark" in done.stdout
    assert done.stderr.startswith(f"warning[E1302]: plug-in 'bad' ({entry}) {words}")
    assert done.stderr.count("E1302") == 1
    done = tool("et-compile relu.mlir -o relu.pte --target etir", site)
    assert done.returncode == 0
    assert done.stderr.count("warning[E1302]") == 1


def test_broken_parts_of_a_plug_in(tmp_path: Path, site: Path, tool: Tool) -> None:
    """What cannot be imported fails where it is asked for by name, and is left out elsewhere."""
    text = """
from etir.plugins import Plugin
plugin = Plugin(
    passes={"gone-pass": "no_such:Pass", "no-pass": "bad:plugin", "cse": "no_such:Cse"},
    decompositions=["no_such"],
    kernels={"etir": ["nowhere", {"plug::x.out": {"schema": "plug::x.out(Tensor"}}]},
    backends={"gone": "no_such:BACKEND", "xnnpack": "no_such:BACKEND"},
)
"""
    install(site, "bad", "bad = bad:plugin")
    write(site, {"bad.py": text})
    done = tool("et-opt relu.mlir --gone-pass", site)
    assert done.returncode == 1
    assert "error[E1302]: pass 'gone-pass' of plug-in 'bad' (bad:plugin) cannot be used: ModuleNotFound" in done.stderr
    assert "cse': of etir.passes.generic.cse and of plug-in 'bad' (bad:plugin)" in done.stderr
    assert "bad:plugin is no class of a pass" in tool("et-opt relu.mlir --no-pass", site).stderr
    assert "gone-pass\n    (pass 'gone-pass' of plug-in" in tool("et-opt --list-passes", site).stdout
    done = tool("et-compile relu.mlir -o relu.pte --target etir", site)
    assert done.returncode == 0, done.stderr
    assert "warning[E1302]: module 'no_such' of plug-in 'bad'" in done.stderr
    assert "warning[E0601]: the kernels of 'nowhere' cannot be read" in done.stderr
    assert "warning[E0602]: plug-in 'bad' (bad:plugin): 'plug::x.out' " in done.stderr
    done = tool("et-compile relu.mlir -o relu.pte --target etir --delegate gone", site)
    assert "error[E1110]: backend 'gone' (no_such:BACKEND) cannot be imported: No module named 'no_such'" in done.stderr
    assert "warning[E1303]: there are two backends 'xnnpack'" in done.stderr
    done = tool("et-opt relu.mlir --import bad", site)
    assert "error[E1303]" in done.stderr


# --- libraries --------------------------------------------------------------------------------------------------------


def test_tools_that_look_for_faults(site: Path, tool: Tool) -> None:
    """They run what only a plug-in knows."""
    plug = "--import site/plug.py"
    assert tool("et-compile clip.mlir -o clip.pte --target etir " + plug).returncode == 0
    done = tool(f"et-compare clip.mlir clip.pte --inputs x.npz {plug}")
    assert done.stdout.startswith("nothing is wrong"), done.stderr
    done = tool(f"et-bisect clip.mlir --compile-to=et --inputs x.npz {plug}")
    assert done.returncode == 0, done.stderr
    done = tool(f"et-reduce clip.mlir --compile-to=et --target etir --inputs x.npz -o small.mlir {plug}")
    assert "error[E14" in done.stderr and "E1001" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    "name",
    ["et-opt", "et-translate --pte-to-mlir", "et-run", "et-compile", "et-compare", "et-bisect", "et-reduce"],
)
def test_files_that_are_no_libraries(tmp_path: Path, tool: Tool, name: str) -> None:
    write(tmp_path, {"notes.so": "no library", "empty.so": ""})
    (tmp_path / "other.so").write_bytes(b"\x7fELF and nothing that etir or its partner would look for")
    for file, id, words in (
        ("nothing.so", "E1203", "there is no library 'nothing.so'"),
        ("notes.so", "E1214", "'notes.so' is no shared library"),
        ("empty.so", "E1214", "'empty.so' is no shared library"),
        ("other.so", "E1214", "'other.so' exports no kernels or backends for etir's runtime"),
    ):
        done = tool(f"{name} --load-library {file} in.mlir")
        assert done.returncode == 1
        assert done.stderr.startswith(f"error[{id}]: {words}"), done.stderr
        assert "  help: " in done.stderr and "Traceback" not in done.stderr
