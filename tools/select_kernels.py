"""``python -m etir.tools.select_kernels``: the kernels that some ``.pte`` files need, for a selective build.

::

    python -m etir.tools.select_kernels a.pte b.pte -o selection.txt --target-out selected.json

The selection has one operator a line, with the element types that its tensors have in these programs;
``-DETIR_ONLY_OPS=selection.txt`` builds a runtime of nothing else. The target is what such a runtime can do, in the
form that ``et-compile --target selected.json`` checks programs against: a program that needs more is refused there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from etir.backends.api.registry import backend_of_runtime_id
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model
from etir.emit.pte.reader import read_pte
from etir.targets.errors import E0603
from etir.tools.common import OK, Console, ToolParser, read_bytes, run_tool, write_output

_NAMES = {
    "COMPLEXHALF": "ComplexHalf", "COMPLEXFLOAT": "ComplexFloat", "COMPLEXDOUBLE": "ComplexDouble",
    "BFLOAT16": "BFloat16", "UINT16": "UInt16", "UINT32": "UInt32", "UINT64": "UInt64",
}  # fmt: skip

Selection = Mapping[str, Sequence[str]]
"""Operator name to the names of its tensors' element types, as ``runtime/core/scalar_type.h`` spells them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("select_kernels", "List the kernels that programs need, for a selective build of the runtime.")
    parser.add_argument("inputs", nargs="+", metavar="FILE", help=".pte files")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="the selection to write (default: -)")
    parser.add_argument("--target-out", metavar="FILE", help="write what such a build can do, for et-compile --target")
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    del console
    selection = select(read_pte(data, name) for name, data in map(read_bytes, arguments.inputs))
    if arguments.target_out is not None:
        write_output(arguments.target_out, target_text(selection))
    write_output(arguments.output, selection_text(selection))
    return OK


def select(programs: Iterable[model.Program]) -> dict[str, tuple[str, ...]]:
    """The operators of some programs, sorted by name, with the element types of the tensors that they are called on.

    What delegates call, as far as their backends say, comes with no types, which stands for all.
    """
    found: dict[str, dict[int, None]] = {}
    inside: dict[str, None] = {}
    for program in programs:
        for plan in program.execution_plan:
            for delegate in plan.delegates:
                backend = backend_of_runtime_id(delegate.id)
                if backend is not None:
                    inside.update(dict.fromkeys(backend.kernels(memoryview(delegate.data))))
            for chain in plan.chains:
                for instruction in chain.instructions:
                    if isinstance(instruction, model.KernelCall):
                        name = plan.operators[instruction.op_index].full_name
                        types = found.setdefault(name, {})
                        types |= dict.fromkeys(_dtypes(plan, instruction.args))
    found.update((name, {}) for name in inside)
    return {name: tuple(_name(ScalarType(dtype)) for dtype in sorted(types)) for name, types in sorted(found.items())}


def _dtypes(plan: model.ExecutionPlan, indices: Iterable[int]) -> Iterable[int]:
    for index in indices:
        match plan.values[index] if index >= 0 else None:
            case model.Tensor() as tensor:
                yield int(tensor.scalar_type)
            case model.TensorList(items) | model.OptionalTensorList(items):
                yield from _dtypes(plan, items)
            case _:
                pass


def _name(dtype: ScalarType) -> str:
    return _NAMES.get(dtype.name, dtype.name.capitalize())


def selection_text(selection: Selection) -> str:
    """One operator a line, as ``runtime/kernels/generate.py --only`` reads it."""
    return "".join(" ".join((name, *dtypes)) + "\n" for name, dtypes in selection.items())


def target_text(selection: Selection) -> str:
    """The target ``etir`` with the selected kernels only. Raises error E0603 for an operator without a kernel."""
    from etir.targets.manifest import FOLDER, read_target

    data = read_target(FOLDER / "etir.json")
    known: dict[str, dict[str, Any]] = data["kernels"]
    missing = [name for name in selection if name not in known]
    if missing:
        raise E0603.error(f"etir has no kernel for {', '.join(missing)}")
    data["kernels"] = {
        name: {key: value for key, value in known[name].items() if key not in ("function", "source")}
        | ({"selected": list(dtypes)} if dtypes else {})
        for name, dtypes in selection.items()
    }
    data["libraries"] = dict.fromkeys(sorted({str(known[name]["library"]) for name in selection}), True)
    return json.dumps(data, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main())
