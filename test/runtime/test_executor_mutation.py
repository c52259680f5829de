"""Random mutations of files: whatever a file says, loading and running it ends with an error or a result.

The executor and the light kernel families are compiled with the address and undefined behaviour sanitizers, and each
mutant is loaded and run twice with memory that ends where the file says that it ends. Inputs are the hand-written
programs of the other tests; ``ETIR_MUTANTS`` sets their number.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from builds import build, selection
from kernels import manifest
from programs import BOUND, STATIC, UNBOUND, Builder
from test_executor_method import conditional, copies, external, floats, grower, loop, state

from etir.emit.formats.scalar_type import ScalarType
from etir.emit.ptd.model import FlatTensor, NamedTensor, TensorLayout
from etir.emit.ptd.writer import write_ptd
from etir.emit.pte import model
from etir.emit.pte.model import IntList


def mixed() -> bytes:
    """Dynamic shapes, lists, several results, a view, a scalar read from a tensor."""
    b = Builder()
    x = b.input(b.tensor(4, 6, dynamism=BOUND))
    index = b.input(b.tensor(dtype="LONG"))
    rows, first, zero, one, two = b.int(0), b.int(0), b.int(0), b.int(1), b.int(2)
    view = b.tensor(24, dynamism=BOUND, planned=False)
    b.call("aten::sym_size.int", x, zero, rows)
    b.call("aten::_local_scalar_dense", index, first)
    b.call("executorch_prim::et_view.default", x, b.value(IntList((b.int(-1),))), view)
    row = b.tensor(6)
    b.call("aten::select_copy.int_out", x, zero, first, row, row)
    twice = b.tensor(48, dynamism=BOUND)
    b.call("aten::cat.out", b.value(model.TensorList((view, view))), zero, twice, twice)
    turned = b.tensor(6, 4, dynamism=BOUND)
    b.call("aten::permute_copy.out", x, b.value(IntList((one, zero))), turned, turned)
    half = b.value(IntList((b.int(3), b.int(3))))
    left, right = b.tensor(4, 3, dynamism=BOUND), b.tensor(4, 3, dynamism=BOUND)
    parts = b.value(model.TensorList((left, right)))
    b.call("aten::split_with_sizes_copy.out", x, half, one, parts, parts)
    sliced = b.tensor(2, 6, dynamism=BOUND)
    b.call("aten::slice_copy.Tensor_out", x, zero, zero, two, one, sliced, sliced)
    padded = b.tensor(6, 10, dynamism=BOUND)
    pads = b.value(IntList((two, two, one, one)))
    b.call("aten::constant_pad_nd.out", x, pads, two, padded, padded)
    b.outputs += [rows, view, row, twice, turned, parts, sliced, padded]
    return b.pte(check=False)


def programs() -> dict[str, bytes]:
    """Inputs of runtime/executor/program_fuzz.cc, by name."""
    layout = TensorLayout(ScalarType.FLOAT, (2,), (0,))
    entries = {"w": NamedTensor(floats(8, 9), layout), "v": NamedTensor(b"abc")}
    ptd = write_ptd(FlatTensor(entries, segment_alignment=16))
    two = state(floats(1, 2), 2)
    two.name = "other"
    plain = {
        "copies": copies(),
        "unplanned": copies(planned=False),
        "loop": loop(3).pte(),
        "conditional": conditional(),
        "state": state(floats(3, 4)).pte(two),
        "unbound": grower(UNBOUND),
        "bound": grower(BOUND),
        "static": grower(STATIC),
        "mixed": mixed(),
    }
    files = {name: bytes(4) + data for name, data in plain.items()}
    for planned in (False, True):
        head = b"\1" + len(ptd).to_bytes(3, "little")
        files[f"external{planned}"] = head + ptd + external(planned).pte()
    return files


def corpus(folder: Path) -> list[Path]:
    """The inputs as files."""
    files = programs()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


@pytest.fixture(scope="module")
def mutate() -> Path:
    names = [name for name, row in manifest().items() if row["family"] in ("prim", "copy")]
    folder = build("asan", "etir_mutate", defines={"ETIR_ONLY_OPS": selection(names)})
    return folder / "runtime" / "testing" / "etir_mutate"


@pytest.mark.parametrize("seed", [1, 2])
def test_no_mutant_gets_through(mutate: Path, tmp_path: Path, seed: int) -> None:
    count = int(os.environ.get("ETIR_MUTANTS", "5000"))
    files = corpus(tmp_path / "corpus")
    done = subprocess.run(
        [mutate, str(seed), str(count), *files], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout == f"{count} mutants of {len(files)} files\n"
