"""Which part of many cases a change has to pass."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from etir_testing.selection import BASE_VARIABLE, cases_of, changed_files, part_of, touched, tree_digest


def test_parts_are_disjoint_and_whole() -> None:
    names = [f"entry_{n}" for n in range(600)]
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


def test_every_function_has_a_part_of_its_cases() -> None:
    many = [f"test/test_a.py::test_many[{n}]" for n in range(30)]
    few = ["test/test_a.py::test_few[x]", "test/test_a.py::test_few[y]", "test/test_a.py::test_one"]
    runs = [cases_of([*many, *few], f"{digest:x}", 3, ()) for digest in range(3)]
    assert all(set(few) < set(run) for run in runs)
    assert sorted(name for run in runs for name in run if name in many) == sorted(many)
    assert cases_of([*many, *few], "5", 3, ()) == runs[2]
    # One of less cases than there are parts, each at some time.
    some = [f"test_b.py::test[{k}]" for k in "abcd"]
    alone = [cases_of(some, f"{digest:x}", 6, ()) for digest in range(12)]
    assert all(len(run) == 1 for run in alone) and {run[0] for run in alone} == set(some)
    # No function is without a case, whatever the names of its cases are.
    assert all(cases_of([f"test_b.py::test[{n}{k}]" for k in "abc"], "0", 3, ()) for n in range(50))


@pytest.mark.parametrize("changed", ["test/unit/test_a.py", "passes/edge/a.py"])
def test_tests_of_what_changed_are_whole(changed: str) -> None:
    ids = [f"test/unit/{file}::test_many[{n}]" for file in ("test_a.py", "test_b.py") for n in range(30)]
    chosen = cases_of(ids, "1", 3, [changed])
    assert chosen[:30] == ids[:30] and 0 < len(chosen[30:]) < 30
