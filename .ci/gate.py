"""The gate: everything that has to hold before a change is done, from a fresh virtual environment.

    bash .ci/run                     what every change has to pass
    bash .ci/full                    all there is: every sample, every model under every seed, a longer fuzzing
    bash .ci/run --list              the steps
    bash .ci/run --here lit words    only these steps, in the environment that is active

All steps run, two at a time, as each keeps one core busy; the exit code says whether all passed. The seconds of each
are printed at the end and written to ``build/gate.json``. ``ETIR_CI_VENV`` keeps the virtual environment at that place
and uses it again. Compilers run through ccache, whose entries do not depend on the folder of the checkout.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from parts import PARTS, files_of
from scheduler import Scheduler, Step, write

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "build" / "gate.json"
CACHE_LOG = ROOT / "build" / "ccache.log"

CACHING_COMPILERS = "/usr/lib/ccache"
"""Debian's folder of links to ccache by the names of compilers: first on the path, it serves whoever calls one."""

VENV = ROOT / "build" / "gate-venv"
"""The virtual environment of one run. In the checkout: ccache takes paths in there as relative."""


ALONE = {"OMP_NUM_THREADS": "1"}
"""For a step of one core: more threads are in the way of the step beside it."""

PARTS_OF_CASES = 6
"""Of tests with many cases, and of torch's samples, a change runs one part of so many; the complete variant all."""

PARTS_OF_ZOO = 3
"""The same for the entries of the model zoo."""

TOOLS = ("install tools",)
"""What steps need that do without etir and without what it depends on."""


def preparing(venv: Path) -> list[Step]:
    """What makes the environment: first the few packages that build and look at sources, then all the others.

    The others are half of a gigabyte and more, which pip unpacks on one core. What needs the first ones alone runs on
    the other core meanwhile.
    """
    return [
        Step("system packages", ("bash", ".ci/packages"), cores=2),
        Step("install tools", ("bash", ".ci/install", "--tools", str(venv)), needs=("system packages",)),
        Step("install", ("bash", ".ci/install", str(venv)), needs=TOOLS),
    ]


def checks(*, full: bool) -> list[Step]:
    """What is checked, in the order in which the steps start.

    Those that do without most of the environment come first and run while it is made; a step that names no need needs
    all of it. Each keeps one core busy, and the longest ones come first: what is left for the end is short, so that no
    core waits for long.
    """
    python = ("python",)
    # One part of the entries for each change; see etir_testing/selection.py.
    samples = ["--every-sample", "--programs", "3"] if full else ["--part", str(PARTS_OF_CASES)]
    zoo = [] if full else ["--part", str(PARTS_OF_ZOO)]
    dynamic = ["--samples", "3"] if full else ["--part", "16"]
    sanitized = ["--all"] if full else []
    steps = [
        Step("ruff check", ("ruff", "check", "."), needs=TOOLS),
        Step("ruff format", ("ruff", "format", "--check", "."), needs=TOOLS),
        Step("words", (*python, ".ci/words.py"), needs=TOOLS),
        Step(
            "clang-format",
            ("bash", "-c", "git ls-files 'runtime/*.h' 'runtime/*.cc' | xargs clang-format --dry-run -Werror"),
            needs=TOOLS,
        ),
        Step("install without a compiler", ("bash", ".ci/install_plain"), needs=TOOLS),
        Step("native builds", (*python, ".ci/native_builds.py"), environment={"ETIR_JOBS": "1"}, needs=TOOLS),
        Step("native runtime", (*python, "-c", "import sys, etir.runtime; sys.exit(not etir.runtime.is_available())")),
        *python_tests(full=full),
        Step("torch's samples", (*python, "test/opinfo_walk.py", "--jobs", "1", *samples), environment=ALONE),
        Step(
            "torch's samples, dynamic sizes",
            (*python, "test/opinfo_dynamic.py", "--jobs", "1", *dynamic),
            environment=ALONE,
        ),
        Step("model zoo", (*python, "test/zoo.py", "--small", "--no-stock", "--check", *zoo), environment=ALONE),
        Step("lit", ("lit", "-j1", "-q", "--time-tests", *(["--param", "process=1"] if full else []), "test/lit")),
        Step("types", (*python, ".ci/check_types.py")),
        Step("sanitizers", ("bash", ".ci/sanitizers"), environment=ALONE),
        Step(
            "same bytes under three hash seeds",
            (*python, ".ci/determinism.py", *(["--whole"] if full else [])),
            environment=ALONE,
        ),
        Step("documentation site", ("bash", "-c", "python -m mkdocs build --quiet --strict && pytest -q test/site")),
        Step("fuzzing", (*python, "test/fuzz.py", "--seconds", "60" if full else "30"), needs=("sanitizers",)),
        Step("generated code under sanitizers", ("bash", ".ci/native_sanitizers", *sanitized), environment=ALONE),
        Step("generated attacks", (*python, "test/fuzz_adversary.py", "--seconds", "300" if full else "25")),
        Step("example", (*python, "examples/mobilenet_v2.py", "--size", "96"), environment=ALONE),
        # Machine code of other processors is run by an emulator, which takes its time.
        *([Step("model zoo as machine code", (*python, "test/native_zoo.py"), environment=ALONE)] if full else []),
    ]
    return [step if step.needs else replace(step, needs=("install",)) for step in steps]


def python_tests(*, full: bool) -> list[Step]:
    """The tests in Python: of those with many cases a part for each change, as of torch's samples.

    In the complete variant all of them, and no command is a fork (``etir_testing.forks``).
    """
    options = () if full else ("-m", "not nightly", "--part", str(PARTS_OF_CASES))
    command = ("pytest", "-q", "--require-everything", "--durations=10", *options)
    environment = ALONE | ({"ETIR_TEST_PROCESS": "1"} if full else {})
    return [Step(f"pytest: {part}", (*command, *files_of(part)), environment=environment) for part in PARTS]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps that are asked for; 0 when all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the complete variant")
    parser.add_argument("--here", action="store_true", help="install nothing: use the environment that is active")
    parser.add_argument("--list", action="store_true", help="print the names of the steps, and do nothing else")
    parser.add_argument("--cores", type=int, default=2, help="how many steps of one core run at a time (default: 2)")
    parser.add_argument("steps", nargs="*", metavar="STEP", help="names of steps (default: all)")
    arguments = parser.parse_args(argv)
    steps = checks(full=arguments.full)
    known = [step.name for step in steps]
    if arguments.list:
        print("\n".join(known))
        return 0
    unknown = [name for name in arguments.steps if name not in known]
    if unknown:
        parser.error(f"there is no step '{unknown[0]}'; --list prints them")
    chosen = [step for step in steps if not arguments.steps or step.name in arguments.steps]
    os.chdir(ROOT)
    scheduler = Scheduler(arguments.cores, REPORT)
    with tempfile.TemporaryDirectory() as temporary:
        environment = gate_environment(Path(temporary))
        if arguments.here:
            scheduler.run(among(chosen), environment)
        else:
            install_and_run(scheduler, chosen, environment)
    print(f"\n{scheduler.table()}\n")
    write(cache_line())
    if scheduler.failed:
        write(f"=== failed: {', '.join(scheduler.failed)}")
        return 1
    write("=== all steps passed")
    return 0


def install_and_run(scheduler: Scheduler, steps: Sequence[Step], environment: dict[str, str]) -> None:
    """Make the environment, and run the steps, each as soon as what it needs of the environment is there."""
    given = os.environ.get("ETIR_CI_VENV")
    venv = Path(given or VENV)
    if given is None:
        shutil.rmtree(VENV, ignore_errors=True)
    try:
        environment["PATH"] = f"{venv / 'bin'}:{CACHING_COMPILERS}:{environment['PATH']}"
        scheduler.run(among([*preparing(venv), *steps]), environment)
    finally:
        if given is None:
            shutil.rmtree(VENV, ignore_errors=True)


def gate_environment(temporary: Path) -> dict[str, str]:
    """The variables that all steps run with, in a folder that is deleted at the end."""
    CACHE_LOG.parent.mkdir(exist_ok=True)
    CACHE_LOG.unlink(missing_ok=True)
    return {
        **os.environ,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # An advertisement of the theme.
        "NO_MKDOCS_2_WARNING": "1",
        # Not beside the sources, where the next run would find it; and written: some machines forbid it, where every
        # command compiles torch from its sources again, for three seconds of the processor.
        "PYTHONPYCACHEPREFIX": str(temporary / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
        # The oracle computes with the same instructions on every machine; see test/conftest.py.
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        # A clone in another folder finds what this one has compiled.
        "CCACHE_BASEDIR": str(ROOT),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_MAXSIZE": "5G",
        "CCACHE_STATSLOG": str(CACHE_LOG),
    }


def among(steps: Sequence[Step]) -> list[Step]:
    """The steps, each with those of its needs that are run, too."""
    names = {step.name for step in steps}
    return [replace(step, needs=tuple(name for name in step.needs if name in names)) for step in steps]


def cache_line() -> str:
    """What ccache found and did not find."""
    lines = CACHE_LOG.read_text().splitlines() if CACHE_LOG.exists() else []
    hits = sum(line in ("direct_cache_hit", "preprocessed_cache_hit") for line in lines)
    return f"compiler cache: {hits} hits, {lines.count('cache_miss')} misses"


if __name__ == "__main__":
    sys.exit(main())
