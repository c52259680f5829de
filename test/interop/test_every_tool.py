"""Every developer tool on every kind of program, of both compilers, on both runtimes.

A cell is a program of one kind that one compiler made. What must hold of each: no internal error, no traceback, nothing
empty in silence, no false alarm. The gate runs one cell; all of them take an hour.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from etir.devtools import Trace
from etir.devtools.lsp.document import Document
from etir.devtools.lsp.hover import hover
from etir.devtools.lsp.outline import outline
from etir.devtools.profile.sums import GROUPINGS
from etir.tools.context import ToolContext

from etir_testing.devtools.every_tool import Cell, of_etir, of_stock, outputs_of, printed, rows_of, tool
from etir_testing.devtools.kinds import KINDS

IN_THE_GATE = {"etir-methods"}
"""Two methods, one with branches; eight seconds."""


def _cells() -> list[Any]:
    names = [f"etir-{name}" for name in KINDS]
    names += [
        f"etir-{name}-on-etir" for name, kind in KINDS.items() if kind.target == "executorch" and not kind.settings
    ]
    names += [f"stock-{name}" for name, kind in KINDS.items() if kind.stock]
    return [name if name in IN_THE_GATE else pytest.param(name, marks=pytest.mark.nightly) for name in names]


@pytest.fixture(scope="module", params=_cells())
def cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cell:
    """The files of a cell, with a profile and the outputs of every method on every runtime."""
    compiler, _, rest = request.param.partition("-")
    name = rest.removesuffix("-on-etir")
    folder = tmp_path_factory.mktemp(request.param)
    on_etir = "etir" if rest != name else ""
    found = of_stock(name, folder) if compiler == "stock" else of_etir(name, folder, on_etir)
    if request.param in IN_THE_GATE:  # ExecuTorch's runtime takes seconds to start, and each of those asks for it
        found = Cell(**{**vars(found), "runtimes": ("etir",)})
    for method in found.methods:
        for runtime in found.runtimes:
            words = ("et-run", "m.pte", "--method", method, "--inputs", f"{method}.npz", *found.on(runtime))
            files = [w for kind in ("etdump", "values", "outputs") for w in (f"--{kind}", f"{method}-{runtime}.{kind}")]
            tool(folder, *words, *files[:-1], f"{method}-{runtime}.npz")
    return found


def runs(cell: Cell) -> list[tuple[str, str]]:
    """Method and runtime of each profile."""
    return [(method, runtime) for method in cell.methods for runtime in cell.runtimes]


def test_runtimes_agree(cell: Cell) -> None:
    for method in cell.methods:
        found = [outputs_of(cell.folder, f"{method}-{runtime}.npz") for runtime in cell.runtimes]
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 if "int8" not in str(cell.folder) else 0.1)


@pytest.mark.parametrize("by", [*GROUPINGS, "level:et"])
def test_profiles(cell: Cell, by: str) -> None:
    """All of the time is in every grouping."""
    for method, runtime in runs(cell):
        etdump = f"{method}-{runtime}.etdump"
        said = json.loads(printed(cell.folder, "et-inspect", etdump, "--trace", *cell.known, "--by", by, "--json"))
        assert said["rows"] and sum(row["avg"] for row in said["rows"]) == pytest.approx(sum(said["total"]), rel=1e-3)


def test_profiles_by_themselves_and_two_of_them(cell: Cell) -> None:
    for method, runtime in runs(cell):
        etdump = f"{method}-{runtime}.etdump"
        assert rows_of(printed(cell.folder, "et-inspect", etdump, "--by", "instruction", "--json"))
        assert "m.pte" not in printed(cell.folder, "et-inspect", etdump, "--trace", "m.pte")
        printed(cell.folder, "et-inspect", etdump, etdump, "--trace", *cell.known)
        tool(cell.folder, "et-inspect", etdump, "--trace", *cell.known, "--chrome", "timeline.json")
        assert json.loads((cell.folder / "timeline.json").read_text())["traceEvents"]


def test_memory(cell: Cell) -> None:
    for method in cell.methods:
        tool(cell.folder, "et-inspect", *cell.known, "--memory", "plan.svg", "--method", method)
        assert "<rect" in (cell.folder / "plan.svg").read_text()
        for by in ("line", "op", "module"):
            assert "bytes" in printed(cell.folder, "et-inspect", *cell.known, "--size", "--by", by, "--method", method)


def test_everything_is_explained(cell: Cell) -> None:
    if not cell.is_etir:
        pytest.skip("a record has nothing to explain")
    trace = Trace.load(cell.folder / "m.trace")
    asked = {word for o in trace.origins for word in (o.op, o.where, o.node, o.path) if word}
    for what in sorted(asked)[:60]:
        assert len(printed(cell.folder, "et-inspect", "m.trace", "--explain", what).splitlines()) > 1, what


def test_nothing_is_wrong(cell: Cell) -> None:
    """With all that is known of the program, and of the file alone; inside of delegates, too."""
    for method in cell.methods:
        words = ("--inputs", f"{method}.npz", "--method", method, "--runtime", ",".join(cell.runtimes), *cell.data)
        sources = cell.source if cell.is_etir or method == "forward" else ()
        trace = ("--trace", "m.trace") if cell.is_etir else ()
        result = f"{method}.compared.json"
        tool(cell.folder, "et-compare", *sources, "m.pte", *trace, *words, "-o", result)
        for stage in json.loads((cell.folder / result).read_text())["stages"]:
            # Of a stock file, the instructions have names on runtimes only; interpreted it is compared by its outputs.
            by_name = cell.is_etir or stage["name"] != "et"
            assert not stage["failure"] and (stage["compared"] if by_name else len(stage["outputs"])) > 0, stage
        assert "nothing is wrong" in printed(cell.folder, "et-compare", "m.pte", *words)
        if cell.delegates[2:]:
            said = printed(cell.folder, "et-compare", *sources, "m.pte", *trace, *words, "--tap")
            assert "taps/" in said and "nothing is wrong" in said


def test_pages(cell: Cell) -> None:
    for runtime in cell.runtimes:
        profiles = [word for method in cell.methods for word in ("--profile", f"{method}-{runtime}.etdump")]
        values = ("--values", f"{cell.methods[0]}-{runtime}.values")
        tool(cell.folder, "et-explore", *cell.known, *profiles, *values, "-o", "m.html")
        tool(cell.folder, "et-explore", "m.pte", *profiles, *cell.data, "-o", "plain.html")
        assert (cell.folder / "m.html").stat().st_size > 50_000
        for form in ("perfetto", "model-explorer", "svg"):
            tool(cell.folder, "et-explore", *cell.known, *profiles, "--format", form, "-o", f"m.{form}")
            assert (cell.folder / f"m.{form}").stat().st_size > 200, form


def test_bundled_programs(cell: Cell) -> None:
    for method in cell.methods:
        arrays = ("--inputs", f"{method}.npz", "--expected", f"{method}-etir.npz")
        tool(cell.folder, "et-translate", "--bundle", "m.pte", *arrays, "--method", method, *cell.data, "-o", "m.bpte")
        for runtime in (*cell.runtimes, "interpreter"):
            if runtime == "interpreter" and cell.native:
                continue  # machine code is for runtimes
            assert "as expected" in printed(cell.folder, "et-run", "m.bpte", "--check", *cell.on(runtime))


def test_every_dump_runs(cell: Cell) -> None:
    """Texts of the levels, after every pass, and of the file itself give what the runtime gives."""
    if cell.native:
        texts = sorted(cell.folder.glob("dump/*.mlir"))[:-1]  # the last one calls machine code
    else:
        tool(cell.folder, "et-translate", "--pte-to-mlir", "m.pte", *cell.data, "-o", "file.mlir")
        texts = [cell.folder / "file.mlir"]
        texts += sorted(cell.folder.glob("dump/*.mlir"))
    if cell.is_etir:
        words = ("--compile-to=et", *cell.delegates, "--print-ir-dir", "ir", "-o", "opt.mlir")
        tool(cell.folder, "et-opt", cell.first, *words)
        after = sorted((cell.folder / "ir").rglob("*.mlir"))
        assert len(after) > 10
        texts += after
    for method in cell.methods:
        wanted = outputs_of(cell.folder, f"{method}-etir.npz")
        for text in texts:
            tool(cell.folder, "et-run", text, "--method", method, "--inputs", f"{method}.npz", "--outputs", "o.npz")
            for a, b in zip(outputs_of(cell.folder, "o.npz"), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3, err_msg=str(text))


def test_searches(cell: Cell) -> None:
    """No pass changes the numbers; a program is reduced to the operation that is asked for, and that runs."""
    text, words = (cell.first, ("--compile-to=et", *cell.delegates)) if cell.is_etir else ("file.mlir", ())
    if not cell.is_etir:
        tool(cell.folder, "et-translate", "--pte-to-mlir", "m.pte", *cell.data, "-o", text)
    for method in cell.methods:
        inputs = ("--inputs", f"{method}.npz", "--method", method)
        if cell.is_etir:
            tool(cell.folder, "et-opt", text, *words, "--check-numerics", *inputs, "-o", "opt.mlir")
            assert "leave the results as they are" in printed(cell.folder, "et-bisect", text, *words, *inputs)
        calls = re.findall(r"= ((?:edge\.)?aten\.[\w.]+|et\.call \"[\w:.]+\")", (cell.folder / text).read_text())
        if not calls:
            continue
        wanted = calls[-1].replace('"', "").split()[-1]
        said = printed(cell.folder, "et-reduce", text, *inputs, "--check", f"grep -q {wanted} {{}}", "-o", "small.mlir")
        assert " became " in said and wanted in (cell.folder / "small.mlir").read_text()
        sample = cell.folder / "small.0.npz"
        tool(cell.folder, "et-run", "small.mlir", "--method", method, "--inputs", sample)


def test_editors(cell: Cell) -> None:
    """Every text is read without a complaint, has an outline, and something to say of an operation."""
    texts = sorted(cell.folder.glob("dump/*.mlir"))
    if not cell.is_etir:
        tool(cell.folder, "et-translate", "--pte-to-mlir", "m.pte", *cell.data, "-o", "file.mlir")
        texts = [cell.folder / "file.mlir"]
    for path in texts:
        text = path.read_text()
        document = Document(text, ToolContext)
        assert not document.problems, (path, document.problems)
        assert outline(document)
        results = [
            number for number, line in enumerate(text.splitlines()) if line.startswith("    %") and " = " in line
        ]
        assert results and all(hover(document, number, 5, None) for number in results[:10]), path
