"""Sweeps on a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import etir
from etir import EtirError
from etir.sweeps import Results, read_plan
from etir.sweeps.jobs import Chains
from etir.sweeps.plan import Limits
from etir.sweeps.store import Store

from etir_testing import ROOT
from etir_testing.sweeps import cells, models

pytest.importorskip("ray", reason="ray is not installed")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    # Ray gives way to all other processes else, for ever on a machine that has many.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    running = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield running
    finally:
        running.shutdown()


def _ancestors(process: int) -> Iterator[int]:
    """The processes from which one comes, by Linux's table of them."""
    while process > 1:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        process = int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))
        yield process


def _end(cluster: Any, node: Any) -> None:
    """Kill a node with all that runs there: a worker outlives it for a second, and would bring what it has begun."""
    raylet = node.all_processes["raylet"][0].process.pid
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, StopIteration):  # It has ended by now.
                if raylet in _ancestors(int(folder.name)):
                    os.kill(int(folder.name), signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)


def _is_at_work(process: int, log: Path) -> bool:
    """Whether a process begins a cell within a second, by what cells note."""
    for _ in range(50):
        words = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
        if [word[0] for word in words if word[2] == str(process)][-1] == "begin":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there(tmp_path: Path, address: str) -> None:
    plan = {"function": cells.figures, "programs": [{"name": "x"}]}
    with pytest.raises(EtirError, match="E1907.*nobody answers"):
        etir.sweep(plan, tmp_path / "r.sqlite", ray=address)


@pytest.mark.nightly
def test_a_node_that_is_killed_costs_no_row(tmp_path: Path, cluster: Any) -> None:
    """The second node goes when it has done a cell, and is at the next one."""
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ends = {"crash": "crash", "raise": "error", "orphaned": "lost"}
    log = tmp_path / "log"
    programs = [{"name": f"p{i}", "arguments": {"seconds": 0.4, "log": str(log)}} for i in range(30)]
    programs += [{"name": kind, "arguments": {"kind": kind, "log": str(log)}} for kind in ends]
    plan = {"function": cells.noted, "programs": programs, "limits": {"seconds": 60}}
    raylet = node.all_processes["raylet"][0].process.pid
    killed: list[int] = []

    def kill(name: str, row: Any) -> None:
        if killed or row.status != "ok":
            return
        process = row.figures["process"]
        if raylet in _ancestors(process) and _is_at_work(process, log):
            killed.append(process)
            _end(cluster, node)

    found = etir.sweep(plan, tmp_path / "r.sqlite", ray=cluster.address, watch=kill)
    assert killed and found.ran == len(programs)
    rows = {row.program: row for row in found.rows()}
    assert {name: row.status for name, row in rows.items()} == {
        p["name"]: ends.get(str(p["name"]), "ok") for p in programs
    }
    assert any(row.attempts > 1 for row in rows.values() if row.status == "ok")
    assert (rows["orphaned"].attempts, rows["orphaned"].error) == (3, "E1911")
    assert "3 attempts" in rows["orphaned"].message
    assert etir.sweep(plan, tmp_path / "r.sqlite", ray="127.0.0.1:1").ran == 0


_FILES = {
    "nets.py": """
import torch
from etir.sweeps import Model
from helpers import scale

def net(width):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(width, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).eval()
    with torch.no_grad():
        module[0].weight.mul_(scale())
    return Model(module, (torch.randn(2, width),), metric=total)

def total(outputs):
    return float(outputs[0][0].sum()) * scale()
""",
    "helpers.py": """
from pathlib import Path

def scale():
    return float(Path(__file__).with_name("data.txt").read_text())
""",
    "data.txt": "0.5",
    "plan.toml": """
targets = ["etir", "mine.json"]
recipes = ["float32", {name = "given", recipe = "static-int8", ranges = "ranges.json"}]
measure = ["bytes", "arena", "difference", "accuracy"]
depends = ["data.txt"]

[[programs]]
factory = "nets:net"
arguments = {width = 32}
calibration = "calls.npz"

[[programs]]
file = "pair.pt2"
samples = "calls.npz"

[[exclude]]
program = "pair"
recipe = "given"
""",
}


def _plan_with_files(folder: Path) -> Path:
    """A plan that names a file of each kind: modules, data beside them, a program, samples, a manifest, ranges."""
    import numpy as np
    import torch

    folder.mkdir()
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    shutil.copy(ROOT / "targets" / "etir.json", folder / "mine.json")
    manifest = json.loads((folder / "mine.json").read_text())
    (folder / "mine.json").write_text(json.dumps(manifest | {"kernels": "kernels"}))
    shutil.copytree(ROOT / "runtime" / "kernels", folder / "kernels", ignore=shutil.ignore_patterns("*.cc", "*.h"))
    net = models.net()
    quantized = etir.quantize(
        torch.export.export(net.module, net.inputs), "static-int8", calibration=net.calibration, target="etir"
    )
    quantized.save_encodings(folder / "ranges.json")
    np.savez(folder / "calls.npz", np.ones((3, 2, 32), np.float32))
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2, 32),)), folder / "pair.pt2")
    return folder / "plan.toml"


@pytest.mark.nightly
@pytest.mark.parametrize("shared", [False, True])
def test_a_node_that_has_none_of_the_plan_s_files(tmp_path: Path, cluster: Any, shared: bool) -> None:
    """A node that sees another folder where the plan's is, in which a module of the plan says something else."""
    plan = _plan_with_files(tmp_path / "plan")
    here = etir.sweep(plan, tmp_path / "here.sqlite", jobs=0)
    assert here.statuses == {"ok": 6}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "helpers.py").write_text("def scale():\n    return 7.0\n")
    address = f"--address={cluster.address}"
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", address, "--num-cpus=1"]
    script = f'mount --bind {tmp_path}/other {tmp_path}/plan && exec "$@"'
    space = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    try:
        subprocess.run([*space, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no folder can be mounted here")
    node = subprocess.Popen([*space, *start, '--resources={"other": 1}'], stdout=subprocess.DEVNULL)
    try:
        limits = {"seconds": 300, "resources": {"other": 0.1}}
        chosen = replace(read_plan(plan), limits=Limits(**limits))
        found = etir.sweep(chosen, tmp_path / "there.sqlite", ray=cluster.address, shared=shared)
        assert found.ran == 6
        assert _same(tmp_path / "there.sqlite") == _same(tmp_path / "here.sqlite")
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait()


@pytest.mark.nightly
def test_what_no_node_has(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etir.sweeps.ray_cluster.PATIENCE", 3.0)
    limits = {"seconds": 60, "resources": {"accelerator": 1}}
    plan = {"function": cells.figures, "programs": [{"name": "p"}], "limits": limits}
    with pytest.raises(EtirError, match="E1907.*no node with CPU 1, accelerator 1"):
        etir.sweep(plan, tmp_path / "r.sqlite", ray=cluster.address)


@pytest.mark.nightly
def test_the_small_zoo_is_the_same_everywhere(tmp_path: Path, cluster: Any) -> None:
    """In this process, on two processes, and on two nodes of a cluster, of which one is killed on the way and replaced.

    The plan is the repository's but for `native`, whose cells take longer than all others. Exports are made once: they
    are found by what they were made from.
    """
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    whole = read_plan(ROOT / "benchmarks" / "plans" / "zoo.toml")
    plan = replace(whole, delegates=tuple(delegates for delegates in whole.delegates if delegates[0] != "native"))
    chains = Chains(plan)
    exports = {chains.chain(program, cell).jobs[0].key for program, cell in plan.cells()}
    count = len(list(plan.cells()))

    def rows(name: str, **how: Any) -> dict[str, Any]:
        path, store = tmp_path / f"{name}.sqlite", Store(tmp_path / f"{name}.sqlite.d")
        for key in exports if name != "serial" else ():
            store.write(key, Store(tmp_path / "serial.sqlite.d").read(key))
        assert etir.sweep(plan, path, **how).ran == count
        before = path.read_bytes(), sorted(store.folder.rglob("*"))
        assert str(etir.sweep(plan, path, **how)) == f"{count} cells: {count} read, 0 run"
        assert (path.read_bytes(), sorted(store.folder.rglob("*"))) == before
        return _same(path)

    ended: list[str] = []

    def kill(name: str, _: Any) -> None:
        ended.append(name)
        if len(ended) == count // 8:
            _end(cluster, node)
            cluster.add_node(num_cpus=1)

    serial = rows("serial", jobs=0)
    assert {status for _, status, _ in serial.values()} == {"ok"}
    assert rows("two", jobs=2) == serial
    assert rows("cluster", ray=cluster.address, watch=kill) == serial
    # Without a way through the object store: all nodes see one folder.
    few = {"only": "llama2_decode/*", "shared": True, "store": tmp_path / "serial.sqlite.d"}
    etir.sweep(plan, tmp_path / "shared.sqlite", ray=cluster.address, **few)
    assert _same(tmp_path / "shared.sqlite").items() <= serial.items()


def _same(path: Path) -> dict[str, Any]:
    """What has to be the same wherever a sweep runs: all but the time that it took."""
    with Results(path) as results:
        return {
            row.name: (row.id, row.status, {k: v for k, v in row.figures.items() if k != "compile_seconds"})
            for row in results.rows()
        }
