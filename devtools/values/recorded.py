"""Values from runtimes: what each instruction of a ``.pte`` file left, as etir's runtime or the stock one logged it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from etir.devtools.errors import E1416
from etir.devtools.profile.from_etdump import read_profile
from etir.devtools.profile.profile import Profile
from etir.devtools.stock_runtime import run_stock
from etir.devtools.values.arrays import logged_values
from etir.devtools.values.interpreted import as_array, copied
from etir.diagnostics import EtirError
from etir.emit.pte.reader import read_pte
from etir.runtime import load

Place = tuple[int, int]
"""Index of the instruction in the method, and how often it ran before."""


@dataclass
class RecordedRun:
    """One run: the outputs, and the tensors and numbers that each execution of an instruction left.

    Those of a kernel are its results as far as the runtime logs them, of a delegate's call all of its arguments.
    """

    outputs: list[Any]
    values: dict[Place, list[Any]] = field(default_factory=dict[Place, "list[Any]"])


class Runtime(Protocol):
    """Runs a method of a program from the state that the file has, and says what every instruction left."""

    def __call__(self, program: bytes, method: str, inputs: Sequence[Any]) -> RecordedRun: ...


def of_profile(profile: Profile, buffer: bytes, chains: Sequence[int], outputs: Sequence[Any] = ()) -> RecordedRun:
    """The values of the first run in a profile; ``chains`` are the numbers of instructions of the method's chains.

    Raises error E0842 when the buffer does not have what the profile names.
    """
    starts = [sum(chains[:i]) for i in range(len(chains))]
    found = RecordedRun(list(outputs))
    for value in profile.values:
        if value.run != 0 or value.output or not 0 <= value.chain < len(starts) or value.id is not None:
            continue
        place = (starts[value.chain] + value.instruction, value.occurrence)
        found.values.setdefault(place, []).extend(logged_values(value.value, buffer, profile.name))
    return found


def _chains(data: bytes, method: str) -> list[int]:
    plans = {plan.name: plan for plan in read_pte(data).execution_plan}
    return [len(chain.instructions) for chain in plans[method].chains]


def etir_runtime(data: bytes, method: str, inputs: Sequence[Any], *, external: Sequence[bytes] = ()) -> RecordedRun:
    """On etir's runtime. Raises what it does (E12xx), and error E1416 where it had no room for values."""
    loaded = load(data, list(external), native="trusted")[method]
    profile = loaded.profile(*[copied(value) for value in inputs], values=True)
    assert profile.recorded is not None
    if profile.recorded.dropped_values:
        raise E1416.error(f"there was no room for {profile.recorded.dropped_values} values of method '{method}'")
    read = read_profile(profile.recorded.etdump, method=method)
    outputs = [as_array(v) if hasattr(v, "shape") else v for v in profile.outputs]
    return of_profile(read, profile.recorded.value_bytes, _chains(data, method), outputs)


def stock_runtime(data: bytes, method: str, inputs: Sequence[Any], *, external: Sequence[bytes] = ()) -> RecordedRun:
    """On ExecuTorch's runtime, in a process of its own. Raises error E0918."""
    with TemporaryDirectory() as folder:
        there = Path(folder)
        (there / "model.pte").write_bytes(data)
        for number, one in enumerate(external):
            (there / f"{number}.ptd").write_bytes(one)
        given = [np.asarray(as_array(v) if hasattr(v, "shape") else v) for v in inputs]
        weights = str(there / "0.ptd") if external else None
        etdump, logged = str(there / "run.etdp"), str(there / "run.bin")
        path, program = str(there / "model.pte"), read_pte(data)
        try:
            run = run_stock(path, program, method, given, data=weights, etdump=etdump, values=logged)
        except EtirError as error:
            if "E0919" not in error.ids:
                raise
            # Values of float16 and bfloat16 it cannot log: then the outputs alone are compared.
            return RecordedRun(run_stock(path, program, method, given, data=weights).outputs)
        profile = read_profile((there / "run.etdp").read_bytes(), method=method)
        values = there / "run.bin"
        return of_profile(profile, values.read_bytes() if values.exists() else b"", _chains(data, method), run.outputs)


RUNTIMES: dict[str, Any] = {"etir": etir_runtime, "stock": stock_runtime}
"""By the names that ``--runtime`` takes."""
