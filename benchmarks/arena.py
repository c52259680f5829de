"""Planned memory of the model zoo: with results in place, a better order and calls in parts, and without.

    python benchmarks/arena.py                                  every entry, both targets: a table
    python benchmarks/arena.py resnet18 hf_bert --target etir   some entries
    python benchmarks/arena.py --document docs/guide/performance.md   the table of the documentation

For each entry, in bytes of all memories of all methods:

* *apart*: every result has bytes of its own, in the program's order: what `plan-memory` gives without a target;
* *planned*: what the compiler gives;
* *bound*: the most bytes that are live at one instruction of the program in its final order, where a result needs none
  of its own if its kernel can write it over an operand that dies: no plan of this order can be smaller.

The ratio is *planned* over *apart*; the last line has the geometric means. Entries are exported here, with ``--text``
read from a folder of modules as text at level ``backend`` (``TARGET/ENTRY.mlir``). Weights whose bytes are not there,
those of text and of entries that are shapes only, are not cut into parts.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

from document import put

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

TARGETS = ("executorch", "etir")


@dataclass(frozen=True)
class Arena:
    """Bytes of one entry for one target."""

    name: str
    target: str
    apart: int
    planned: int
    bound: int

    @property
    def ratio(self) -> float:
        return self.planned / max(self.apart, 1)


def arena(name: str, target: str, module: ModuleOp) -> Arena:
    """The figures of a module at level ``backend``, which is changed."""
    from etir.dialects.context import EtContext
    from etir.dialects.et.executable import MethodOp
    from etir.dialects.et.program import SchemaDeclOp
    from etir.lowering.to_out_variant import ToOutVariantPass
    from etir.options import CompileOptions
    from etir.passes.analysis.in_place import in_place_kernels
    from etir.passes.analysis.memory_effects import memory_of
    from etir.passes.analysis.planning.lower_bound import lower_bound
    from etir.passes.et.plan_memory import PlanMemoryPass
    from etir.passes.infra.manager import run_pipeline
    from etir.pipeline import pipeline

    def methods(found: ModuleOp) -> Iterator[MethodOp]:
        return (op for op in found.body.block.ops if isinstance(op, MethodOp))

    def planned(found: ModuleOp) -> int:
        return sum(sum(method.pool_sizes or ()) for method in methods(found))

    ctx = EtContext()
    for op in module.body.block.ops:
        if isinstance(op, SchemaDeclOp):
            ctx.declare_schema(op.schema.data)
    apart = module.clone()
    passes = pipeline(CompileOptions(target=target), start="backend")
    lowering = next(p for p in passes if isinstance(p, ToOutVariantPass))
    run_pipeline(ctx, apart, [lowering, PlanMemoryPass()])
    run_pipeline(ctx, module, passes)
    kernels = in_place_kernels(target)
    bounds = [lower_bound(memory_of(ctx, m, in_place=kernels).problem) for m in methods(module)]
    bound = sum(pool.bytes for found in bounds for pool in found.values())
    return Arena(name, target, planned(apart), planned(module), bound)


def measured(names: Sequence[str], targets: Sequence[str], folder: Path | None) -> Iterator[Arena]:
    """The figures of zoo entries, each exported once."""
    if folder is not None:
        from etir.dialects.text import parse_module

        found = sorted({path.stem: None for path in folder.glob("*/*.mlir") if not names or path.stem in names})
        for name in found:
            for target in targets:
                path = folder / target / f"{name}.mlir"
                yield arena(name, target, parse_module(path.read_text(encoding="utf-8")))
        return
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    import etir
    from etir.dialects.context import EtContext
    from etir.options import CompileOptions
    from etir.passes.infra.manager import run_pipeline
    from etir.pipeline import pipeline

    from etir_testing.models.zoo_table import ENTRIES

    warnings.simplefilter("ignore")
    for name in names or ENTRIES:
        entry = ENTRIES[name]
        if entry.missing():
            print(f"{name}: needs {', '.join(entry.missing())}", file=sys.stderr)
            continue
        if entry.shape_only:
            with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True), torch.no_grad():
                built = entry.build()
                program = torch.export.export(built.module, built.inputs, dynamic_shapes=built.dynamic_shapes)
        else:
            built = entry.build()
            with torch.no_grad():
                program = torch.export.export(built.module, built.inputs, dynamic_shapes=built.dynamic_shapes)
        for target in targets:
            module = etir.import_program(program)
            run_pipeline(EtContext(), module, pipeline(CompileOptions(target=target), stop="backend"))
            yield arena(name, target, module)


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))


def table(rows: Sequence[Arena]) -> str:
    """Markdown: a row for each entry, a group of columns for each target, and the means."""
    targets = list(dict.fromkeys(row.target for row in rows))
    head = " | ".join(f"{t}: apart, KiB | planned | bound | ratio" for t in targets)
    lines = [f"| entry | {head} |", f"| --- |{' ---: |' * (4 * len(targets))}"]
    by_key = {(row.name, row.target): row for row in rows}
    for name in dict.fromkeys(row.name for row in rows):
        cells: list[str] = []
        for target in targets:
            row = by_key[name, target]
            cells += [f"{size / 1024:,.1f}" for size in (row.apart, row.planned, row.bound)] + [f"{row.ratio:.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    cells = []
    for target in targets:
        found = [row for row in rows if row.target == target and row.apart]
        bound = mean([row.bound / row.apart for row in found])
        cells += ["", "", f"{bound:.3f}", f"{mean([row.ratio for row in found]):.3f}"]
    lines.append(f"| geometric mean | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """The command; 1 when a plan is larger than without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entries", nargs="*", help="entries of the zoo (default: all)")
    parser.add_argument("--target", action="append", choices=TARGETS, help="a target (default: both)")
    parser.add_argument("--text", type=Path, help="a folder with modules at level backend as text")
    parser.add_argument("--document", type=Path, help="put the table into this page, between its markers")
    arguments = parser.parse_args()
    rows: list[Arena] = []
    for row in measured(arguments.entries, arguments.target or TARGETS, arguments.text):
        rows.append(row)
        print(f"{row.name} ({row.target}): {row.apart:,} -> {row.planned:,}, bound {row.bound:,}", file=sys.stderr)
    print(table(rows))
    if arguments.document is not None:
        put(arguments.document, "arena.py", table(rows))
    return int(any(row.planned > row.apart for row in rows))


if __name__ == "__main__":
    sys.exit(main())
