"""A program of a kind as files of either compiler, and the command lines of the developer tools over them.

The tools run in this process. What one prints and its exit code are the result; an internal error or a traceback is
never right, whatever is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import etir

from etir_testing.devtools.kinds import KINDS, Exported, Inputs, Kind
from etir_testing.forked_process import TOOLS


@dataclass(frozen=True)
class Said:
    """What a tool said and how it ended."""

    code: int
    out: str
    err: str


def tool(folder: Path, *words: str | Path, code: int = 0) -> Said:
    """Run a command line in a folder; it has to end with ``code``."""
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main = importlib.import_module(TOOLS[str(words[0])]).main
            found = main([str(word) for word in words[1:]])
    finally:
        os.chdir(before)
    said = Said(found, out.getvalue(), err.getvalue())
    assert "E0909" not in said.err and "Traceback" not in said.err, said.err
    assert said.code == code, f"{' '.join(map(str, words))}\n{said.err}{said.out}"
    return said


def printed(folder: Path, *words: str | Path) -> str:
    """What a tool that has to succeed prints, which is not nothing."""
    out = tool(folder, *words).out
    assert out.strip(), words
    return out


@dataclass(frozen=True)
class Cell:
    """The files of one program in a folder: ``m.pte``, its trace or record, and by method ``NAME.pt2``, ``NAME.npz``.

    ``source`` is what ``et-compare`` takes as what was compiled, ``known`` the words that name the trace, or the file
    with its record, if there is one; ``dump`` the folder of the levels.
    """

    folder: Path
    kind: Kind
    methods: tuple[str, ...]
    runtimes: tuple[str, ...]
    source: tuple[str, ...]
    known: tuple[str, ...]
    data: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    dump: Path | None = None
    delegates: tuple[str, ...] = field(default=())

    @property
    def is_etir(self) -> bool:
        """Whether etir compiled it."""
        return self.dump is not None

    @property
    def first(self) -> str:
        """The text of the level that etir began with."""
        assert self.dump is not None
        return _first_of(self.dump)

    def on(self, runtime: str) -> tuple[str, ...]:
        """Options of ``et-run`` for a runtime."""
        return ("--runtime", runtime, *self.data, *(self.native if runtime == "etir" else ()))


def _first_of(dump: Path) -> str:
    return f"{dump.name}/{min(dump.glob('*.mlir')).name}"


def _array(value: Any) -> np.ndarray[Any, Any]:
    return value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _write(folder: Path, programs: Exported, inputs: Inputs) -> None:
    for method, program in programs.items():
        torch.export.save(program, folder / f"{method}.pt2")
        np.savez(folder / f"{method}.npz", *[_array(value) for value in inputs[method]])


def of_etir(name: str, folder: Path, target: str = "") -> Cell:
    """A program that etir compiled, with its trace and the texts of its levels."""
    kind = KINDS[name]
    target = target or kind.target
    programs, inputs = kind.build()
    _write(folder, programs, inputs)
    source: Any = programs if len(programs) > 1 else programs["forward"]
    if kind.recipe:
        source = etir.quantize(source, kind.recipe, target=target, **kind.settings).module
    dump = folder / "dump"
    made = etir.compile(source, target=target, trace=True, dump_dir=dump, **kind.settings)
    made.save(folder / "m.pte")
    assert made.trace is not None
    made.trace.save(folder / "m.trace")
    delegates = str(kind.settings.get("delegates", ""))
    several = tuple([f"{method}={method}.pt2" for method in programs])
    return Cell(
        folder,
        kind,
        tuple(programs),
        ("etir", "stock") if target == "executorch" else ("etir",),
        (_first_of(dump),) if kind.recipe else several if len(several) > 1 else ("forward.pt2",),
        ("m.trace",),
        tuple([word for path in sorted(folder.glob("*.ptd")) for word in ("--data", path.name)]),
        ("--native",) if delegates == "native" else (),
        dump,
        ("--target", target, *(("--delegate", delegates) if delegates else ())),
    )


def of_stock(name: str, folder: Path) -> Cell:
    """A program that the stock pipeline compiled, with its record where ExecuTorch can write one."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

    kind = KINDS[name]
    programs, inputs = kind.build()
    _write(folder, programs, inputs)
    lowered = to_edge_transform_and_lower(
        programs,
        partitioner=[XnnpackPartitioner()] if kind.settings.get("delegates") == "xnnpack" else [],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
        generate_etrecord=True,
    )
    external = "external_weights" in kind.settings
    with torch.no_grad():  # it writes into buffers
        made = lowered.to_executorch(ExecutorchBackendConfig(external_constants=external))
    (folder / "m.pte").write_bytes(made.buffer)
    if external:
        made.write_tensor_data_to_file(str(folder))
    record = ("m.etrecord",) if _saved(made.get_etrecord(), folder / "m.etrecord") else ()
    data = tuple([word for path in sorted(folder.glob("*.ptd")) for word in ("--data", path.name)])
    return Cell(
        folder,
        kind,
        tuple(programs),
        ("etir", "stock"),
        record,
        ("m.pte", *[word for file in record for word in ("--record", file)], *data),
        data,
    )


def _saved(record: Any, path: Path) -> bool:
    """Write an ETRecord; false where a branch or a loop's body has constants, which ExecuTorch cannot serialize."""
    from executorch.exir.serde.export_serialize import SerializeError

    try:
        record.save(str(path))
    except SerializeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if str(cause) != "getattr nodes containing tensors should not appear in the graph":
            raise
        path.unlink(missing_ok=True)  # it is half of one
        return False
    return True


def outputs_of(folder: Path, name: str) -> list[np.ndarray[Any, Any]]:
    """The arrays that ``et-run --outputs`` wrote."""
    with np.load(folder / name) as arrays:
        return [arrays[key] for key in arrays.files]


def rows_of(text: str) -> list[dict[str, Any]]:
    """The rows that ``et-inspect --json`` printed."""
    return json.loads(text)["rows"]
