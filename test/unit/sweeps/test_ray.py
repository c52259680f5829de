"""Sweeps on a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etir
from etir import EtirError
from etir.sweeps import Results

from etir_testing.sweeps import cells

pytest.importorskip("ray", reason="ray is not installed")


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

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
        processes = [process, *_ancestors(process)]
        if raylet in processes and _is_at_work(process, log):
            killed.append(process)
            # A worker outlives its node for a second, and would bring what it has begun.
            for one in processes[: processes.index(raylet)]:
                os.kill(one, signal.SIGKILL)
            cluster.remove_node(node, allow_graceful=False)

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


@pytest.mark.nightly
def test_what_no_node_has(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etir.sweeps.ray_cluster.PATIENCE", 3.0)
    limits = {"seconds": 60, "resources": {"accelerator": 1}}
    plan = {"function": cells.figures, "programs": [{"name": "p"}], "limits": limits}
    with pytest.raises(EtirError, match="E1907.*no node with CPU 1, accelerator 1"):
        etir.sweep(plan, tmp_path / "r.sqlite", ray=cluster.address)


@pytest.mark.nightly
def test_the_small_zoo_is_the_same_everywhere(tmp_path: Path, cluster: Any) -> None:
    """Some small entries x 2 targets x 2 delegates: serial, on two processes, and on two nodes of a cluster."""
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    plan: dict[str, Any] = {
        "programs": [
            {
                "each": ["llama2_decode", "squeezenet1_1", "shufflenet_v2_x1_0"],
                "factory": "etir_testing.sweeps.plans:zoo",
            }
        ],
        "targets": ["etir", "executorch"],
        "delegates": ["none", "xnnpack", "reference"],
        "measure": ["bytes", "arena", "method_memory", "difference"],
        "exclude": [{"target": "etir", "delegates": "xnnpack"}, {"target": "executorch", "delegates": "reference"}],
    }

    def rows(name: str, **how: Any) -> dict[str, Any]:
        etir.sweep(plan, tmp_path / name, **how)
        with Results(tmp_path / name) as results:
            return {row.name: (row.id, row.status, row.figures) for row in results.rows()}

    serial = rows("serial.sqlite", jobs=0)
    assert len(serial) == 12 and {status for _, status, _ in serial.values()} == {"ok"}
    assert rows("two.sqlite", jobs=2) == serial
    assert rows("ray.sqlite", ray=cluster.address) == serial
    assert rows("shared.sqlite", ray=cluster.address, shared=True, store=tmp_path / "store") == serial
