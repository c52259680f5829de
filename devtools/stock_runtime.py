"""Runs of a program on ExecuTorch's own runtime, for ``et-run --runtime stock``.

The runtime is run in a process of its own: what it cannot do it ends the process for, for instance when it logs a value
of a dtype that it does not know, or when its buffer of values is full. So the size of that buffer is worked out first:
a run without values says how often each instruction runs, and the file how large what it logs can be. Values of
float16 and bfloat16, of which the runtime leaves a damaged file, are refused.

``python -m etir.devtools.stock_runtime JOB`` is that process; the job is a JSON file, arrays are in ``.npz`` files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etir.devtools.errors import E1416
from etir.devtools.profile.from_etdump import read_profile
from etir.devtools.values.room import available_bytes
from etir.diagnostics import SourceLocation
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model as pte
from etir.emit.pte.reader import read_pte
from etir.errors import E0918, E0919
from etir.interpret.numbers import VARYING_NUMBERS, is_another, number_of

if TYPE_CHECKING:
    from etir.devtools.profile.profile import Profile

_VALUE_ALIGNMENT = 64
_NO_ROOM = 86
"""What the process exits with when its buffer of values would not fit into memory."""
_NUMBERS: dict[type, str] = {pte.Int: "int_val", pte.Bool: "bool_val", pte.Double: "double_val"}
"""Values of a file that are numbers, and their field."""
_UNLOGGABLE = (ScalarType.HALF, ScalarType.BFLOAT16)


@dataclass(frozen=True)
class StockRun:
    """What came of a run: the outputs as NumPy arrays and numbers, and the seconds of each repetition."""

    outputs: list[Any]
    seconds: list[float]


def run_stock(
    path: str,
    program: pte.Program,
    method: str,
    inputs: Sequence[Any],
    *,
    repeat: int = 1,
    etdump: str | None = None,
    values: str | None = None,
    data: str | None = None,
) -> StockRun:
    """Run a method of the ``.pte`` file at ``path``, which is ``program``, ``repeat`` times.

    ``inputs`` are NumPy arrays, in order. The profile of all runs goes to the file ``etdump``, the values to
    ``values``; ``data`` is a file of external weights. Raises ``EtirError`` E0918 when the runtime fails or is not
    there, E0919 for values that it cannot log, E1416 for more values than fit into memory.
    """
    plan = next((plan for plan in program.execution_plan if plan.name == method), None)
    if plan is None:
        names = ", ".join(plan.name for plan in program.execution_plan)
        raise E0918.error(f"the program has no method '{method}'; it has {names}", SourceLocation(path))
    _check_numbers(path, plan, inputs)
    with tempfile.TemporaryDirectory() as folder:
        if values is not None:
            _check_loggable(path, plan)
        return _Job(Path(folder), path, plan, inputs, data).run(repeat, etdump, values)


class _Job:
    """One program with its inputs, in a folder."""

    def __init__(self, folder: Path, path: str, plan: pte.ExecutionPlan, inputs: Sequence[Any], data: str | None):
        import numpy as np

        self.folder = folder
        self.path = path
        self.plan = plan
        self.data = data
        arrays = {str(i): np.asarray(value) for i, value in enumerate(inputs)}
        np.savez(folder / "inputs.npz", **arrays)  # pyright: ignore[reportArgumentType]
        # What an input is: a tensor with its dim order, or a number.
        self.orders = [
            list(value.dim_order) if isinstance(value, pte.Tensor) else None
            for value in (plan.values[i] for i in plan.inputs)
        ]

    def run(self, repeat: int, etdump: str | None, values: str | None) -> StockRun:
        import numpy as np

        job = {
            "path": self.path,
            "data": self.data,
            "method": self.plan.name,
            "orders": self.orders,
            "folder": str(self.folder),
            "repeat": repeat,
            "etdump": etdump,
            "values": values,
        }
        file = self.folder / "job.json"
        file.write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-W", "ignore", "-m", "etir.devtools.stock_runtime", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode == _NO_ROOM:
            raise E1416.error(done.stderr.strip().splitlines()[-1], SourceLocation(self.path))
        if done.returncode:
            why = _reason(done.stderr) or f"its process ended with code {done.returncode}"
            raise E0918.error(f"method '{self.plan.name}' failed: {why}", SourceLocation(self.path))
        found = json.loads((self.folder / "outputs.json").read_text(encoding="utf-8"))
        with np.load(self.folder / "outputs.npz") as arrays:
            outputs = [arrays[str(i)] if value is None else value[0] for i, value in enumerate(found["outputs"])]
        return StockRun(outputs, found["seconds"])


def _reason(text: str) -> str:
    """Why the process ended: the kernel that failed and what it checks, or else the line that says so."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # The exception has a number alone; the log before it begins each line with a place in the runtime's sources.
    logged = [line.partition("] ")[2] for line in lines if line.startswith("[")]
    kernel = next((line for line in logged if line.startswith("KernelCall failed")), None)
    if kernel is not None:
        check = next((line.rstrip(": ") for line in logged if line.startswith("Check failed")), None)
        return kernel if check is None else f"{kernel}, {check[0].lower()}{check[1:]}"
    failed = [line for line in lines if "assert failed" in line or "Error" in line]
    return failed[-1] if failed else lines[-1] if lines else ""


def _logged(plan: pte.ExecutionPlan, call: pte.Instruction) -> list[pte.Tensor]:
    """The tensors that the runtime logs of an instruction: results of a kernel, all arguments of a delegate."""
    if isinstance(call, pte.KernelCall):
        return _tensors(plan, call.args[-1:])
    return _tensors(plan, call.args) if isinstance(call, pte.DelegateCall) else []


def _tensors(plan: pte.ExecutionPlan, indices: Sequence[int]) -> list[pte.Tensor]:
    found: list[pte.Tensor] = []
    for index in indices:
        value = plan.values[index]
        if isinstance(value, pte.Tensor):
            found.append(value)
        elif isinstance(value, pte.TensorList | pte.OptionalTensorList):
            found += _tensors(plan, [item for item in value.items if item >= 0])
    return found


def _check_numbers(path: str, plan: pte.ExecutionPlan, inputs: Sequence[Any]) -> None:
    """Raises error E0918 for an input that is another number than in the program: the runtime takes no other."""
    for index, (value, given) in enumerate(zip(plan.inputs, inputs, strict=False)):
        own = _NUMBERS.get(type(plan.values[value]))
        if own is not None and is_another(number := number_of(given), kept := getattr(plan.values[value], own)):
            message = f"input {index} of '{plan.name}' is {number!r}, the program was compiled for {kept!r}"
            raise E0918.error(message, SourceLocation(path), help=VARYING_NUMBERS)


def _check_loggable(path: str, plan: pte.ExecutionPlan) -> None:
    for chain in plan.chains:
        for number, call in enumerate(chain.instructions):
            for tensor in _logged(plan, call):
                if tensor.scalar_type in _UNLOGGABLE:
                    dtype = tensor.scalar_type.name.lower()
                    message = f"instruction {number} of '{plan.name}' leaves a value of {dtype}, which it cannot log"
                    raise E0919.error(message, SourceLocation(path))
    for index in plan.outputs:
        if isinstance(plan.values[index], pte.String):
            message = f"an output of '{plan.name}' is a string, which the runtime cannot log"
            raise E0919.error(message, SourceLocation(path))


def _value_bytes(plan: pte.ExecutionPlan, profile: Profile) -> int:
    """Bytes that the values of one run take at most in the runtime's buffer."""

    def size(tensors: Sequence[pte.Tensor]) -> int:
        return sum(-(-tensor.nbytes // _VALUE_ALIGNMENT) * _VALUE_ALIGNMENT for tensor in tensors)

    total = size(_tensors(plan, plan.outputs))
    for row in profile.instructions():
        total += size(_logged(plan, plan.chains[row.chain].instructions[row.instruction]))
    return total + _VALUE_ALIGNMENT


def _work(file: str) -> None:
    """What the process does: read the job, run, write the outputs and what was recorded."""
    import time

    import numpy as np
    import torch
    from executorch.extension.pybindings import portable_lib  # pyright: ignore[reportMissingImports]

    job = json.loads(Path(file).read_text(encoding="utf-8"))
    folder = Path(job["folder"])
    with np.load(folder / "inputs.npz") as arrays:
        inputs = [_input(arrays[str(i)], order) for i, order in enumerate(job["orders"])]
    recorded = job["etdump"] is not None

    def load(value_bytes: int) -> Any:
        options = {} if job["data"] is None else {"data_path": job["data"]}
        return portable_lib._load_for_executorch(
            job["path"], enable_etdump=recorded, debug_buffer_size=value_bytes, **options
        )

    value_bytes = 0
    if job["values"] is not None:
        counted = load(0)
        counted.run_method(job["method"], inputs)
        counted.write_etdump_result_to_file(str(folder / "count.etdp"), None)
        plan = next(p for p in read_pte(Path(job["path"]).read_bytes()).execution_plan if p.name == job["method"])
        value_bytes = _value_bytes(plan, read_profile((folder / "count.etdp").read_bytes())) * job["repeat"]
        if value_bytes > available_bytes():
            print(f"the values of {job['repeat']} runs take {value_bytes:,} bytes, more are not free", file=sys.stderr)
            sys.exit(_NO_ROOM)
    loaded = load(value_bytes)
    seconds: list[float] = []
    outputs: list[Any] = []
    for _ in range(job["repeat"]):
        start = time.perf_counter()
        outputs = loaded.run_method(job["method"], inputs)
        seconds.append(time.perf_counter() - start)
    if recorded:
        loaded.write_etdump_result_to_file(job["etdump"], job["values"])
    kept: dict[str, Any] = {}
    for i, output in enumerate(outputs):
        if isinstance(output, torch.Tensor):
            kept[str(i)] = (output.float() if output.dtype == torch.bfloat16 else output).numpy()
    np.savez(folder / "outputs.npz", **kept)
    plain = [None if str(i) in kept else [output] for i, output in enumerate(outputs)]
    (folder / "outputs.json").write_text(json.dumps({"outputs": plain, "seconds": seconds}), encoding="utf-8")


def _input(array: Any, order: Sequence[int] | None) -> Any:
    import numpy as np
    import torch

    if order is None:
        return array.item()
    # Dense, with the dims in memory in this order.
    there = np.array(array.transpose(order), order="C")
    return torch.from_numpy(there).permute([list(order).index(d) for d in range(array.ndim)])


if __name__ == "__main__":
    _work(sys.argv[1])
