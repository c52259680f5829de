"""The gate's list of steps: what it names exists, and the complete variant has all that the gate has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from etir_testing.forked_process import PROCESS_VARIABLE

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / ".ci"))

from gate import TOOLS, among, checks, preparing, python_tests  # noqa: E402
from parts import PARTS, files_of  # noqa: E402


@pytest.mark.parametrize("full", [False, True])
def test_files_that_steps_name_exist(full: bool) -> None:
    steps = [*preparing(ROOT / "build"), *checks(full=full)]
    names = [word for step in steps for word in step.command if word.startswith((".ci/", "test/", "examples/"))]
    assert len(names) > 8
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_steps_have_names_of_their_own_and_need_earlier_ones() -> None:
    steps = [*preparing(ROOT / "build"), *checks(full=False)]
    names = [step.name for step in steps]
    assert len(dict.fromkeys(names)) == len(names)
    assert all(set(step.needs) <= set(names[:place]) for place, step in enumerate(steps))
    # The complete variant has them all in this order, and some of its own.
    complete = [*preparing(ROOT / "build"), *checks(full=True)]
    assert [step.name for step in complete if step.name in names] == names


def test_what_does_not_need_etir_comes_first_and_all_else_waits_for_it() -> None:
    """Steps beside the installation: none that waits stands before them, where it would hold them back."""
    waits = [step.needs != TOOLS for step in checks(full=False)]
    assert waits == sorted(waits) and not waits[0]
    assert all(step.needs for step in checks(full=False))


def test_a_step_alone_does_not_wait_for_what_is_not_run() -> None:
    fuzzing = next(step for step in checks(full=False) if step.name == "fuzzing")
    assert fuzzing.needs and among([fuzzing])[0].needs == ()


def test_the_command_names_its_steps() -> None:
    listed = subprocess.run(["bash", ROOT / ".ci" / "run", "--list"], capture_output=True, text=True, check=True)
    assert {"lit", "pytest: compiler"} <= set(listed.stdout.splitlines())
    wrong = subprocess.run(["bash", ROOT / ".ci" / "full", "nothing"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "there is no step 'nothing'" in wrong.stderr


def test_the_complete_variant_forks_no_commands() -> None:
    for full in (False, True):
        assert all((PROCESS_VARIABLE in step.environment) == full for step in python_tests(full=full))


def test_every_test_file_is_in_one_part() -> None:
    """Of the folders that pytest collects, with and without a part that names them; no part is empty."""
    parts = {name: files_of(name) for name in PARTS}
    everything = [file for files in parts.values() for file in files]
    assert all(parts.values()) and len(everything) == len(set(everything)) > 300
    known = {str(path.relative_to(ROOT)) for path in (ROOT / "test").rglob("test_*.py")}
    assert {name for name in known if not name.startswith("test/site/")} == set(everything)
    # What names a file most closely counts, and the rest is the last part's.
    assert "test/interop/test_quantize.py" in parts["quantization"]
    assert "test/interop/test_models.py" in parts["stock runtime"]
    assert "test/unit/passes/test_manager.py" in parts["compiler"]


def test_what_a_part_names_is_there() -> None:
    for patterns in PARTS.values():
        for pattern in patterns:
            assert list((ROOT / "test").glob(pattern)), pattern
