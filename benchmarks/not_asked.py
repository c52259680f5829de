"""What the developer tools cost where nobody asks for them: compiling without a trace, running without a profile.

    python benchmarks/not_asked.py                     both, a table
    python benchmarks/not_asked.py --models lstm

Both figures are ratios that hold on a machine that others use, too:

* *Compiling*: the functions that hand origins on (``dialects/et/origin.py``) are called whether a trace is recorded or
  not. One compilation notes every call of them, with its arguments. Then a compilation and all of these calls again run
  in turns, and the least processor time of each counts: the share is what a compiler without them would save at most.
  Without a trace no location has an origin, so to call them again changes nothing. ``--whole`` compiles besides with
  functions in their place that do nothing, in turns with the compiler as it is: the whole difference, by processor time
  and by the number of Python and C functions that are called, which no other process changes.
* *Running*: the runtime's core is built with and without ``ETIR_TRACE``, and valgrind counts the machine instructions
  of ``Method::execute`` (``benchmarks/executor_benchmark.cc``) on a program whose kernels do nothing: no program can
  have a larger share. The least time of an instruction is taken of both in turns. ``benchmarks/model_benchmark.cc`` is
  for models with their kernels: built by hand against the libraries of both, counted in the same way.
"""

from __future__ import annotations

import argparse
import gc
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import torch
from xdsl.dialects.builtin import UnknownLoc

import etir
from etir.dialects.et import origin

from etir_testing.models.registry import MODELS

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = ("give_marks", "handed_on", "of_result", "origins_only", "plain", "standing_for", "united", "with_origins")
"""What passes call of ``dialects/et/origin.py``."""
TURNS = 5
WHOLE_TURNS = 8
LINKS = 500
"""Instructions of the program whose kernels do nothing."""

Call = tuple[Callable[..., Any], tuple[Any, ...]]


NOTHING: dict[str, Callable[..., Any]] = {
    "give_marks": lambda old, new: None,
    "handed_on": lambda location: location,
    "of_result": lambda location, index: location,
    "origins_only": lambda value: UnknownLoc(),
    "plain": lambda location: location,
    "standing_for": lambda location, *_: location,
    "united": lambda locations: None,
    "with_origins": lambda location, found: location,
}
"""What stands for the entries in a compiler without origins: what they give where there are none."""


@contextmanager
def calling(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Let other modules call these in the place of the entries."""
    replaced: list[tuple[Any, str, Any]] = []
    for module in [m for name, m in sys.modules.items() if name.startswith("etir.") and m is not origin]:
        for name in ENTRIES:
            known = getattr(origin, name)
            if vars(module).get(name) is known:
                replaced.append((module, name, known))
                setattr(module, name, functions[name])
    try:
        yield
    finally:
        for module, name, known in replaced:
            setattr(module, name, known)


def as_a_whole(model: str, target: str, delegates: str) -> tuple[list[int], list[float]]:
    """Functions called and processor seconds of a compilation, as it is and without what hands origins on.

    Raises SystemExit when the files are not the same.
    """
    program = MODELS[model].export()
    made: list[bytes] = []

    def compile() -> None:
        made.append(etir.compile(program, target=target, delegates=delegates or ()).buffer)

    def counted() -> int:
        count = 0

        def called(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(called)
        compile()
        sys.setprofile(None)
        return count

    compile()
    ways = ({name: getattr(origin, name) for name in ENTRIES}, NOTHING)  # both are put in place: that, too, takes time
    counts, least = [0, 0], [float("inf")] * 2
    for turn in range(WHOLE_TURNS):
        for way in (0, 1) if turn % 2 else (1, 0):
            with calling(ways[way]):
                counts[way] = counts[way] or counted()
                least[way] = min(least[way], _processor_time(compile))
    if len(set(made)) != 1:
        raise SystemExit(f"{model}: the files differ")
    return counts, least


def _noting(function: Callable[..., Any], calls: list[Call]) -> Callable[..., Any]:
    """The function, with every call of it noted."""

    def note(*args: Any) -> Any:
        args = tuple(list(a) if isinstance(a, Iterator) else a for a in args)
        calls.append((function, args))
        return function(*args)

    return note


def compiling(model: str, target: str, delegates: str) -> tuple[int, float, float]:
    """Calls of a compilation, their seconds, and the seconds of the compilation."""
    program = MODELS[model].export()

    def compile() -> None:
        etir.compile(program, target=target, delegates=delegates or ())

    compile()  # imports what the pipeline needs
    calls: list[Call] = []
    with calling({name: _noting(getattr(origin, name), calls) for name in ENTRIES}):
        compile()

    def again() -> None:
        for function, args in calls:
            function(*args)

    least = [_processor_time(again), _processor_time(compile)]
    for _ in range(TURNS - 1):
        least = [min(a, b) for a, b in zip(least, (_processor_time(again), _processor_time(compile)), strict=True)]
    return len(calls), least[0], least[1]


def _processor_time(function: Callable[[], None]) -> float:
    gc.collect()
    start = time.process_time()
    function()
    return time.process_time() - start


class Chain(torch.nn.Module):
    """Sums, one after the other."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(LINKS):
            x = x + y
        return x


def running(folder: Path) -> list[tuple[str, float, float]]:
    """With and without ``ETIR_TRACE``: machine instructions and nanoseconds of an instruction of the program."""
    inputs = (torch.ones(1), torch.ones(1))
    (folder / "chain.pte").write_bytes(etir.compile(torch.export.export(Chain(), inputs)).buffer)
    programs = {mode: _built(folder, mode) for mode in ("ON", "OFF")}
    found: list[tuple[str, float, float]] = []
    times = {mode: float("inf") for mode in programs}
    for _ in range(TURNS):
        for mode, program in programs.items():
            text = _output([str(program), str(folder / "chain.pte")])
            times[mode] = min(times[mode], _number(r"load method [\d.]+ us, ([\d.]+) ns each", text))
    for mode, program in programs.items():
        counts = [_counted(folder, program, rounds) for rounds in (1, 2)]
        found.append((mode, (counts[1] - counts[0]) / LINKS, times[mode]))
    return found


def _counted(folder: Path, program: Path, rounds: int) -> float:
    """Machine instructions in ``Method::execute``, of so many runs that nobody watches."""
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=etir::Method::execute()"]
    command += [f"--callgrind-out-file={folder}/counts", str(program), str(folder / "chain.pte"), str(rounds)]
    return _number(r"Collected : (\d+)", _output(command))


def _built(folder: Path, trace: str) -> Path:
    build = folder / f"trace-{trace}"
    options = [f"-DETIR_{name}=OFF" for name in ("TESTS", "TOOLS", "INSTALL")]
    _output(
        ["cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", f"-DETIR_TRACE={trace}", *options]
    )
    _output(["cmake", "--build", str(build), "--target", "etir_core"])
    program = build / "executor_benchmark"
    defines = ["-DRECORDED=0", *([] if trace == "ON" else ["-DETIR_TRACE=0"])]
    sources = [str(ROOT / "benchmarks" / "executor_benchmark.cc"), str(next(build.rglob("libetir_core.a")))]
    _output(["c++", "-std=c++17", "-O2", *defines, "-I", str(ROOT / "runtime"), *sources, "-o", str(program)])
    return program


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"no '{pattern}' in:\n{text}")
    return float(found[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", nargs="*", default=["mobilenet_v2", "llama_block", "lstm"], choices=list(MODELS))
    parser.add_argument("--target", default="etir")
    parser.add_argument("--delegates", default="", help="none by default")
    parser.add_argument("--whole", action="store_true", help="compilations as a whole, and nothing else")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for model in arguments.models if arguments.whole else ():
        counts, seconds = as_a_whole(model, arguments.target, arguments.delegates)
        parts = [f"{a:,} against {b:,} {what}: {100 * (a / b - 1):+.2f} %" for a, b, what in (
            (counts[0], counts[1], "functions called"),
            (round(1e3 * seconds[0]), round(1e3 * seconds[1]), "ms"),
        )]  # fmt: skip
        print(f"{model}: {', '.join(parts)}", flush=True)
    if arguments.whole:
        return
    for model in arguments.models:
        count, own, whole = compiling(model, arguments.target, arguments.delegates)
        print(
            f"{model}: {count} calls, {1e3 * own:.2f} ms of {1e3 * whole:.0f} ms: {100 * own / whole:.2f} %", flush=True
        )
    with tempfile.TemporaryDirectory() as folder:
        for trace, count, nanoseconds in running(Path(folder)):
            print(f"ETIR_TRACE={trace}: {count:.1f} machine instructions and {nanoseconds:.2f} ns for an instruction")


if __name__ == "__main__":
    main()
