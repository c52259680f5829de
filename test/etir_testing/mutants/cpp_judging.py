"""What the tests of the native runtime say of its mutants.

The preset ``release`` is built once. A mutant is then compiled as CMake would compile it, from a folder that comes
first on the path of headers, and linked before the libraries, from which the linker takes what is missing: a source is
one object; a header's mutant is in every source of the core that includes it and in the header's own C++ test, or,
where it has none, in those of its folder that include it. Sources that do more with the log on are compiled that way,
too, for the C++ test that has the core with it.

First the C++ tests run, then, in forks of a process that has imported everything, the tests in Python that call the
executor's library, which is linked for what the C++ tests let through only. How long each of these takes without a
mutant is measured once (``build/mutants/native/seconds.json``, to be deleted after changes of the tests).
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from etir_testing import ROOT
from etir_testing.mutants.judging import Say, Verdict
from etir_testing.mutants.mutant import Mutant
from etir_testing.mutants.suites import ForkedTests, Lost, in_fork, pytest_in_process

SUITES = tuple(
    f"test/runtime/executor/test_{name}.py"
    for name in (
        "bad_input",
        "executor_invalid",
        "executor_method",
        "executor_prims",
        "executor_stock",
        "fuzz_corpus",
        "memory_budget",
        "reference_delegate",
        "reference_models",
    )
)
"""Those that call the library; the others of the folder build with sanitizers, or call the Python package's module."""
UNIT_TEST, LOG_TEST, LIBRARY = "etir_unit_test", "etir_log_test", "etir_executor_test"
OPTIMIZATION = "-O0"
"""Compiles in half of the time of what is shipped, and does the same."""
SECONDS = 20.0
"""For the C++ tests, which take a tenth of one."""
MOST_SECONDS = 1.0
"""Of a Python test that judges; the few that take longer run whole models, which a fault that the others do not see
seldom stops.
"""
SCRATCH = ROOT / "build" / "mutants" / "native"
OVERLAY = SCRATCH / "overlay"
"""What is included before the checkout's own headers."""
TIMES = SCRATCH / "seconds.json"


class NotCompiled(Exception):
    """The compiler does not take the mutant."""


class Native:
    """The build whose objects mutants replace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # ``: && /usr/bin/c++ ... && :`` are links; without the launcher that keeps what was compiled: it would be full.
        self._compile, self._link = self._commands(UNIT_TEST, LIBRARY)
        self._logged, link = self._commands(LOG_TEST)
        self._link |= link
        self._includes = self._headers()

    def _commands(self, *targets: str) -> tuple[dict[str, str], dict[str, str]]:
        """What compiles each source, and what links each target."""
        text = self._run("ninja", "-t", "commands", *targets).splitlines()
        compiles = {found[1]: command for command in text if (found := re.search(r" -c (\S+)$", command))}
        return compiles, {
            name: next(command for command in text if re.search(rf" -o \S*{name}(\.so)? ", command)) for name in targets
        }

    def _run(self, *command: str) -> str:
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def _headers(self) -> dict[str, list[str]]:
        """Header to the sources that include it, all as absolute paths."""
        found: dict[str, list[str]] = {}
        wanted = {re.search(r" -o (\S+) ", command)[1]: source for source, command in self._compile.items()}  # type: ignore[index]
        current = None
        for line in self._run("ninja", "-t", "deps").splitlines():
            if line and not line.startswith(" "):
                current = wanted.get(line.partition(":")[0])
            elif line and current is not None:
                header = str((self.folder / line.strip()).resolve())
                found.setdefault(header, []).append(current)
        return found

    def sources_with(self, path: str) -> list[str]:
        """What has to be compiled when the file at ``path`` (relative to the checkout) changes."""
        place = str(ROOT / path)
        if place in self._compile:
            return [place]
        own_test = str(ROOT / path.replace(".h", "_test.cc"))
        core = [str(ROOT / "runtime" / name) for name in ("core", "executor")]
        including = self._includes.get(place, [])
        tests = [
            s for s in including if f"{UNIT_TEST}.dir" in self._compile[s] and s.startswith(str(Path(place).parent))
        ]
        if own_test in tests:
            tests = [own_test]
        return [
            source
            for source in including
            if source in tests or (source.startswith(tuple(core)) and not source.endswith("_test.cc"))
        ]

    def compile(self, path: str, text: str) -> list[str]:
        """Compile what the text at ``path`` is part of: objects in the order of the sources. Raises NotCompiled."""
        relative = Path(path).relative_to("runtime")
        subprocess.run(["rm", "-rf", str(OVERLAY)], check=True)
        (OVERLAY / relative).parent.mkdir(parents=True)
        (OVERLAY / relative).write_text(text)
        sources = self.sources_with(path)
        return [self._compile_one(self._compile[s], s, OVERLAY / f"{i}.o") for i, s in enumerate(sources)]

    def _compile_one(self, command: str, source: str, made: Path) -> str:
        mutated = OVERLAY / Path(source).relative_to(ROOT / "runtime")
        if not mutated.exists():  # Beside the header, where ``#include "x.h"`` looks first.
            mutated.parent.mkdir(parents=True, exist_ok=True)
            mutated.write_text(Path(source).read_text())
        words = _compile_command(command, mutated, made, OVERLAY)
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise NotCompiled(done.stderr)
        return str(made)

    def link(self, name: str, path: str, objects: Sequence[str]) -> Path:
        """The unit test's program, or the library, with these objects before the others. Raises NotCompiled."""
        sources = self.sources_with(path)
        tests = [o for o, source in zip(objects, sources, strict=True) if source.endswith("_test.cc")]
        if name == UNIT_TEST:  # The tests are there once, in their mutated form.
            return self._link_one(name, objects, [f"{Path(s).name}.o" for s in sources if s.endswith("_test.cc")])
        return self._link_one(name, [o for o in objects if o not in tests], [])

    def programs(self, path: str, objects: Sequence[str]) -> Iterator[Path]:
        """The C++ tests with what was compiled last, each when it is asked for. Raises NotCompiled."""
        yield self.link(UNIT_TEST, path, objects)
        source = str(ROOT / path)
        if source in self._logged and "ETIR_LOG" in Path(source).read_text():
            made = self._compile_one(self._logged[source], source, OVERLAY / "log.o")
            yield self._link_one(LOG_TEST, [made], [f"{Path(source).name}.o"])

    def _link_one(self, name: str, objects: Sequence[str], replaced: Sequence[str]) -> Path:
        out = SCRATCH / name
        words = shlex.split(self._link[name].removeprefix(": && ").partition(" && ")[0])
        words = [word for word in words if Path(word).name not in replaced]
        words[words.index("-o") + 1] = str(out)
        first = next(i for i, word in enumerate(words) if word.endswith(".o"))
        done = subprocess.run(
            [*words[:first], *objects, *words[first:]], cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode:
            raise NotCompiled(done.stderr)
        return out


def _compile_command(command: str, source: Path, made: Path, overlay: Path) -> list[str]:
    words = shlex.split(command)
    words = words[next(i for i, word in enumerate(words) if re.search(r"(g|c|clang)\+\+(-\d+)?$", word)) :]
    kept = [word for word in words[1:] if word not in ("-MD", "-Werror", "-Wall", "-Wextra", "-O3")]
    for option in ("-MT", "-MF", "-o", "-c"):
        at = kept.index(option)
        del kept[at : at + 2]
    return [words[0], "-w", OPTIMIZATION, f"-I{overlay}", *kept, "-o", str(made), "-c", str(source)]


def judge(
    mutants: Iterable[Mutant], files: Mapping[str, str], count: int, known: Mapping[str, Verdict], say: Say
) -> list[Mutant]:
    """Judge the first ``count`` of the mutants that compile; those. Imports the compiler."""
    from etir_testing.runtime.builds import build

    native = Native(build("release", UNIT_TEST, LOG_TEST, LIBRARY))
    SCRATCH.mkdir(parents=True, exist_ok=True)
    judged: list[Mutant] = []

    def body(tests: ForkedTests) -> None:
        names = _by_time(tests)
        for mutant in mutants:
            if len(judged) == count:
                break
            verdict = known.get(mutant.id)
            if verdict is None:
                verdict = _verdict(native, mutant, files[mutant.path], tests, names)
                say(mutant, verdict)
            if verdict.status != "no mutant":
                judged.append(mutant)

    pytest_in_process(SUITES, ForkedTests(body, with_lit=False))
    return judged


def _by_time(tests: ForkedTests) -> list[str]:
    """The tests that pass without a mutant, the fastest first."""
    seconds: dict[str, float] = {}
    if TIMES.exists():
        seconds = json.loads(TIMES.read_text())
        return [name for name, took in seconds.items() if took < MOST_SECONDS and name in tests.names()]

    def body(report: Callable[[Any], None]) -> None:
        for name, passed, took in tests.run(tests.names()):
            report([name, passed, took])

    for found in in_fork(body, lambda _: 300.0):
        if not isinstance(found, Lost) and found[1]:
            seconds[found[0]] = found[2]
    names = sorted(seconds, key=seconds.__getitem__)
    TIMES.write_text(json.dumps({name: seconds[name] for name in names}, indent=1))
    return [name for name in names if seconds[name] < MOST_SECONDS]


def judge_by_cpp_tests(mutants: Iterable[Mutant], files: Mapping[str, str], say: Say) -> None:
    """Judge mutants by the C++ tests alone, which takes a second for each."""
    from etir_testing.runtime.builds import build

    native = Native(build("release", UNIT_TEST, LOG_TEST))
    SCRATCH.mkdir(parents=True, exist_ok=True)
    for mutant in mutants:
        try:
            objects = native.compile(mutant.path, mutant.apply(files[mutant.path]))
            say(mutant, _by_cpp_tests(native, mutant, objects) or Verdict("survived"))
        except NotCompiled:
            say(mutant, Verdict("no mutant"))


def _by_cpp_tests(native: Native, mutant: Mutant, objects: Sequence[str]) -> Verdict | None:
    verdicts = (_run_program(program) for program in native.programs(mutant.path, objects))
    return next((verdict for verdict in verdicts if verdict is not None), None)


def _run_program(program: Path) -> Verdict | None:
    """What C++ tests say; None when they pass."""
    try:
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=SECONDS, cwd=SCRATCH)
    except subprocess.TimeoutExpired:
        return Verdict("timeout", "C++ tests")
    if not done.returncode:
        return None
    failed = re.search(r"(\w+_test\.cc)[:\s]", done.stdout + done.stderr)
    return Verdict("killed", f"C++ tests{': ' + failed[1] if failed else ''}")


def _verdict(native: Native, mutant: Mutant, source: str, tests: ForkedTests, names: Sequence[str]) -> Verdict:
    try:
        objects = native.compile(mutant.path, mutant.apply(source))
        verdict = _by_cpp_tests(native, mutant, objects)
    except NotCompiled:
        return Verdict("no mutant")
    if verdict is not None:
        return verdict
    built = native.link(LIBRARY, mutant.path, objects)

    def body(report: Callable[[Any], None]) -> None:
        from etir_testing.runtime import executor, kernels

        library = executor.kernel_library

        def replaced(name: str, **how: Any) -> Path:
            return built if name == LIBRARY else library(name, **how)

        executor.kernel_library = kernels.kernel_library = replaced
        running = tests.run(names)
        for name in names:
            report([name, True])
            _, passed, _ = next(running)
            if not passed:
                report([name, False])
                return

    name = ""
    for report in in_fork(body, lambda _: 60.0):
        if isinstance(report, Lost):
            return Verdict("timeout" if report.why == "timeout" else "killed", name)
        name, passed = report
        if not passed:
            return Verdict("killed", name)
    return Verdict("survived", tests=len(names))
