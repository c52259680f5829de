"""The walk over torch's samples: what it checks, which entries a change takes, and processes that end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from etir.interpret import numpy_ops

from etir_testing.interpret import numpy_ops_oracle
from etir_testing.opinfo.op_samples import entries
from etir_testing.opinfo.select import BASE_VARIABLE, changed_files, part_of, touched, tree_digest
from etir_testing.opinfo.walk import Bounds, Entry, lost_entry, walk
from etir_testing.opinfo.workers import Lost, Running, Workers
from etir_testing.runtime.kernels import Kernels, build_kernels


class Said:
    """What a process says, kept here."""

    what = ""

    def say(self, what: str) -> None:
        self.what = what


def walked(name: str, bounds: Bounds, kernels: Kernels | None = None) -> Entry:
    """One entry in this process."""
    return walk(name, bounds, kernels, Said())  # type: ignore[reportArgumentType]


def test_a_sample_is_checked_for_everything_with_one_run_of_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = build_kernels("elementwise", "copy", "prim")
    op, runs = entries()["tanh"], list[Any]()
    real = op.op

    def counted(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_exporting():
            runs.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(op, "op", counted)
    monkeypatch.setattr(op, "dtypes", {torch.float32})
    monkeypatch.setattr(op, "supports_autograd", False)
    entry = walked("tanh", Bounds(), kernels)
    assert [outcome.stage for outcome in entry.programs] == ["ok"]
    assert entry.kernels["aten::tanh.out"].passed["float32"] == 1
    assert entry.numpy.passed["aten.tanh.default"] == 1 and not entry.numpy.failed
    assert len(runs) == 1


def test_wrong_numpy_operators_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numpy_ops.lookup("aten.tanh.default") is not None
    real = numpy_ops_oracle.lookup

    def lookup(name: str) -> Any:
        return (lambda x: np.tanh(x) + 1) if name == "aten.tanh.default" else real(name)

    monkeypatch.setattr(numpy_ops_oracle, "lookup", lookup)
    entry = walked("tanh", Bounds(("numpy",)))
    assert list(entry.numpy.failed) == ["aten.tanh.default"]
    assert not entry.kernels and not entry.programs


def test_wrong_kernels_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = build_kernels("elementwise", "copy", "prim")
    real = kernels.call

    def call(name: str, *args: Any) -> Any:
        return [r + 1 if isinstance(r, torch.Tensor) and r.is_floating_point() else r for r in real(name, *args)]

    monkeypatch.setattr(kernels, "call", call)
    entry = walked("tanh", Bounds(("kernels",)), kernels)
    assert entry.kernels["aten::tanh.out"].failed["float32"] > 0
    assert "float32" in "".join(entry.kernels["aten::tanh.out"].failures)


@pytest.mark.parametrize(("programs", "count"), [(1, 1), (3, 3)])
def test_programs_have_different_signatures(programs: int, count: int) -> None:
    entry = walked("sum", Bounds(("programs",), programs=programs))
    of_float = [outcome.sample for outcome in entry.programs if outcome.dtype == "float32"]
    assert len(dict.fromkeys(of_float)) == len(of_float) == count


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_process_that_ends_costs_its_key_only() -> None:
    def prepare() -> Any:
        def answer(key: int, running: Running) -> int:
            running.say(f"working on {key}")
            if key == 2:
                print("the last words")
                os._exit(7)
            return key * key

        return answer

    found = {key: answer for key, answer, _ in Workers(2, prepare).run(range(5))}
    assert found == {0: 0, 1: 1, 2: Lost(7, "working on 2"), 3: 9, 4: 16}
    assert found[2].printed.endswith("the last words\n")


def test_a_lost_entry_fails_every_check() -> None:
    entry = lost_entry("add", Lost(-11, "aten::add.out", "the last words"), Bounds())
    assert entry.kernels["aten::add.out"].failed["all"] == 1
    assert "code -11 at aten::add.out\nthe last words" in entry.numpy.failed["add"]
    assert [outcome.stage for outcome in entry.programs] == ["run"]


# --- which entries ----------------------------------------------------------------------------------------------------


def test_parts_are_disjoint_and_whole() -> None:
    names = list(entries())
    parts = [part_of(names, f"{digest:x}", 3) for digest in range(3)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert min(map(len, parts)) > len(names) / 4
    assert part_of(names, "5", 3) == parts[2]


def test_entries_of_changed_implementations(tmp_path: Path) -> None:
    folder = tmp_path / "runtime" / "kernels" / "linalg"
    folder.mkdir(parents=True)
    (folder / "products.cc").write_text('KERNEL("aten::bmm.out") linalg_cross(); softmax')
    names = ["bmm", "linalg.cross", "cross", "nn.functional.softmax.with_dtype", "mm", "bmm#2"]
    files = ["runtime/kernels/linalg/products.cc", "docs/mm.md", "runtime/kernels/gone.cc"]
    assert touched(tmp_path, names, files) == ["bmm", "linalg.cross", "nn.functional.softmax.with_dtype", "bmm#2"]
    assert touched(tmp_path, names, ["docs/mm.md"]) == []


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody."""
    somebody = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *somebody, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_what_changed_is_seen_from_the_main_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BASE_VARIABLE, raising=False)
    assert changed_files(tmp_path) == []
    git(tmp_path, "init", "-q")
    digests: list[str] = []
    for name in "abc":
        (tmp_path / name).write_text(name)
        git(tmp_path, "add", name)
        git(tmp_path, "commit", "-qm", name)
        digests.append(tree_digest(tmp_path))
    assert changed_files(tmp_path) == ["c"]
    git(tmp_path, "branch", "-q", "-f", "work")
    git(tmp_path, "reset", "-q", "--hard", "HEAD^^")
    git(tmp_path, "checkout", "-q", "work")
    assert changed_files(tmp_path) == ["b", "c"]
    monkeypatch.setenv(BASE_VARIABLE, "HEAD^")
    assert changed_files(tmp_path) == ["c"]
    assert tree_digest(tmp_path) == digests[-1] and len(dict.fromkeys(digests)) == 3
    (tmp_path / "c").write_text("d")
    assert tree_digest(tmp_path) != digests[-1]
