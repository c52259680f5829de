"""One process of the determinism check (``determinism.py``).

    python .ci/compile_models.py whole FOLDER             export and compile every model of the registry
    python .ci/compile_models.py import FOLDER [MODEL ..] import them, to NAME.mlir and NAME.safetensors
    python .ci/compile_models.py compile FOLDER TEXTS     compile each NAME.mlir of a folder

Compiling writes NAME.pte, and the text of every phase in a folder NAME; of a few models the trace and its page, too.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TRACED: dict[str, tuple[str, ...]] = {"llama_block": ("xnnpack",), "two_conds": ()}
"""Models that are traced, and with which delegates."""
sys.path.insert(0, str(ROOT / "test"))


def main(action: str, folder: str, *rest: str) -> None:
    """Do one of the three into a new folder."""
    import etir

    target = Path(folder)
    target.mkdir(parents=True)
    if action == "import":
        from etir.tools.files import write_module

        for name, program in models(rest):
            write_module(etir.import_program(program), str(target / f"{name}.mlir"), None, locations=True)
        return
    for name, program in models(fresh=True) if action == "whole" else read_texts(Path(rest[0])):
        compiled = etir.compile(program, target="executorch", dump_dir=target / name)
        compiled.save(target / f"{name}.pte")
        if name in TRACED:
            write_trace(etir.compile(program, delegates=TRACED[name], trace=True).trace, target / name)


def write_trace(trace: Any, folder: Path) -> None:
    """The files of a trace, and the page that shows it. Seconds by pass differ from run to run, and are left out."""
    from etir.devtools import explore
    from etir.devtools.trace.read import Trace

    with zipfile.ZipFile(io.BytesIO(trace.data)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist() if name != "times.json"}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    (folder / "untimed.trace").write_bytes(made.getvalue())
    explore(Trace(made.getvalue(), "untimed.trace"), folder / "page.html", sources=[])


def models(names: Sequence[str] = (), *, fresh: bool = False) -> Iterator[tuple[str, Any]]:
    """Models of the registry, all when none is named, as ``torch.export`` gives them now or gave them once."""
    from etir_testing.exports import exported
    from etir_testing.models.registry import MODELS

    for name in names or MODELS:
        yield name, MODELS[name].export() if fresh else exported(MODELS[name])


def read_texts(folder: Path) -> Iterator[tuple[str, Any]]:
    """The modules of a folder, with the weights that are beside them."""
    from etir.tools.common import Console
    from etir.tools.context import ToolContext
    from etir.tools.files import read_module

    for path in sorted(folder.glob("*.mlir")):
        yield path.stem, read_module(str(path), [], ToolContext(), Console())


if __name__ == "__main__":
    main(*sys.argv[1:])
