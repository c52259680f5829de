"""What a plan brings along to nodes that do not have its modules and files; test_ray.py has it on a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etir import EtirError
from etir.sweeps import read_plan, shipping
from etir.sweeps.jobs import Chains, Job
from etir.sweeps.shipping import files_of, named, paths_here, shipped, with_files
from etir.sweeps.store import Store

from etir_testing import ROOT


def _module(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _plan(folder: Path) -> Path:
    """A module beside the plan that imports another one and a package, neither of which may be missing there."""
    _module(
        folder / "etir_test_nets.py", "import json\nfrom etir_test_help.inner import x\nimport etir_test_more as m\n"
    )
    _module(folder / "etir_test_help" / "__init__.py")
    _module(folder / "etir_test_help" / "inner.py", "x = 1\n")
    _module(folder / "etir_test_help" / "table.json", "{}")
    _module(folder / "etir_test_more.py", "import torch\n")
    _module(folder / "not_asked_for.py")
    _module(folder / "data" / "labels.txt", "a\n")
    return folder


FUNCTIONS = ["etir_test_nets:net", "etir_testing.sweeps.models:net", "json:loads"]


def _packed(key: str, store: Store) -> set[str]:
    import io
    import zipfile

    return set(zipfile.ZipFile(io.BytesIO(store.read(key, "zip"))).namelist())


def test_what_goes_with_a_plan(tmp_path: Path) -> None:
    folder, store = _plan(tmp_path / "plan"), Store(tmp_path / "store")
    found = shipped(FUNCTIONS, [str(folder / "data" / "labels.txt")], str(folder), store)
    inside = {Path("/", name) for name in _packed(found.key, store)}
    own = {str(path.relative_to(folder)) for path in inside if folder in path.parents}
    assert own == {
        "etir_test_nets.py",
        "etir_test_more.py",
        "etir_test_help/__init__.py",
        "etir_test_help/inner.py",
        "etir_test_help/table.json",
        "data/labels.txt",
    }
    others = {path for path in inside if folder not in path.parents}
    assert others and all("etir_testing" in path.parts for path in others)
    assert str(folder) in found.roots and found.paths[-1] == str(folder)
    assert shipped(["json:loads"], [], str(folder), store).key == ""
    labels = (folder / "data" / "labels.txt").rename(folder / "data" / "words.txt")
    assert shipped(FUNCTIONS, [str(labels)], str(folder), store).key != found.key  # The same bytes by another name.


def test_a_node_with_the_same_files_uses_them(tmp_path: Path) -> None:
    folder, store = _plan(tmp_path / "plan"), Store(tmp_path / "store")
    found = shipped(FUNCTIONS[:1], [str(folder / "data" / "labels.txt")], str(folder), store)
    assert paths_here(found, store) == found.paths
    # Another node: as long, with other contents. Its own path stays as it is but for the plan's folder.
    (folder / "etir_test_more.py").write_text("import xorch\n")
    elsewhere = Store(tmp_path / "elsewhere")
    elsewhere.write(found.key, store.read(found.key, "zip"), "zip")
    paths = paths_here(found, elsewhere)
    assert paths[:-1] == found.paths[:-1] and paths[-1] != str(folder)
    assert Path(paths[-1], "etir_test_more.py").read_text() == "import torch\n"
    assert Path(paths[-1], "data", "labels.txt").read_text() == "a\n"
    # A second worker of a shared folder finds what the first has unpacked.
    shipping._unpacked.cache_clear()
    assert paths_here(found, elsewhere) == paths
    assert len(list((elsewhere.folder / "modules").iterdir())) == 1


def test_modules_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "LARGEST", 10)
    with pytest.raises(EtirError, match="(?s)E1907.*install larger packages"):
        shipped(FUNCTIONS[:1], [], str(_plan(tmp_path / "plan")), Store(tmp_path / "store"))


def test_files_that_jobs_name(tmp_path: Path) -> None:
    """Each job is told where those are that it reads: at their own place while they are the same there."""
    for name in ("net.pt2", "calls.npz"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "ranges.json").write_text('{"activation_encodings": []}')
    manifest = json.loads((ROOT / "targets" / "etir.json").read_text())
    (tmp_path / "mine.json").write_text(json.dumps({**manifest, "kernels": "kernels"}))
    (tmp_path / "kernels" / "one").mkdir(parents=True)
    kernels = tmp_path / "kernels" / "one" / "kernels.json"
    kernels.write_text("{}")
    plan = read_plan(
        {
            "programs": [{"file": str(tmp_path / "net.pt2"), "samples": str(tmp_path / "calls.npz")}],
            "targets": [str(tmp_path / "mine.json")],
            "recipes": [{"name": "r", "recipe": "static-int8", "ranges": str(tmp_path / "ranges.json")}],
        }
    )

    def chain() -> tuple[Job, ...]:
        ((program, cell),) = plan.cells()
        return Chains(plan).chain(program, cell).jobs

    jobs = chain()
    read = [{Path(path).name for path in files_of(job)} for job in jobs]
    assert read == [{"net.pt2", "calls.npz"}, {"mine.json", "ranges.json"}, {"mine.json"}]
    store = Store(tmp_path / "store")
    files = {path: named(path) for job in jobs for path in files_of(job)}
    assert all(file.here(store) == path for path, file in files.items())
    assert [with_files(job, lambda path: path) for job in jobs] == list(jobs)
    # Kernels of a manifest in files of their own decide, and go with it.
    kernels.write_text('{"aten::x.out": {"schema": "s"}}')
    assert [one.key == other.key for one, other in zip(chain(), jobs, strict=True)] == [True, False, False]
    for name in ("net.pt2", "calls.npz", "ranges.json"):
        (tmp_path / name).unlink()
    places: dict[str, Any] = {path: file.here(store) for path, file in files.items()}
    assert all(Path(place).is_relative_to(store.folder) for place in places.values())
    moved = [with_files(job, places.__getitem__) for job in jobs]
    assert {place for job in moved for place in files_of(job)} == set(places.values())
    assert moved[0].given["program"].samples.endswith(".npz") and moved[1].given["target"].endswith(".json")


def test_a_node_with_another_etir(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    from etir.sweeps.ray_cluster import How, _remote
    from etir.sweeps.worker import Setup

    shipment = shipped(["json:loads"], [], str(tmp_path), Store(tmp_path))
    how = How(Setup(""), 1.0, shipment, (), (), "another", "driver")
    with pytest.raises(EtirError, match="E1907.*of other files than etir on driver"):
        _remote(how, Job("0", "call", {}), [])
