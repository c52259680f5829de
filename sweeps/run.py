"""``etir.sweep``: a plan, its results, and where its cells run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from etir.sweeps.errors import E1903, E1906
from etir.sweeps.identity import compiler_label
from etir.sweeps.jobs import Chain, Chains, Job, Outcome
from etir.sweeps.plan import Plan
from etir.sweeps.processes import Processes, Serial
from etir.sweeps.reader import read_plan
from etir.sweeps.results import Results, Row
from etir.sweeps.scheduler import Scheduler
from etir.sweeps.store import Store
from etir.sweeps.worker import Setup
from etir.sweeps.writer import Writer

Watcher = Callable[[str, Outcome], None]
"""Is told the name of each cell that has ended, and what became of it."""


@dataclass
class Summary:
    """What a sweep did: cells that ran, by status, and those whose rows were there already."""

    path: Path
    plan: Plan
    chains: Chains = field(repr=False)
    cells: int = 0
    read: int = 0
    statuses: Counter[str] = field(default_factory=Counter[str])

    @property
    def ran(self) -> int:
        """Cells that ran."""
        return self.statuses.total()

    def rows(self) -> list[Row]:
        """The rows of the plan's cells, as this compiler makes them; the file may have those of other plans as well."""
        with Results(self.path, read_only=True) as results:
            return list(results.rows(ids=ids_of(self.plan, self.chains)))

    def __str__(self) -> str:
        said = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        return f"{self.cells} cells: {self.read} read, {self.ran} run{f' ({said})' if said else ''}"


def ids_of(plan: Plan, chains: Chains | None = None) -> frozenset[str]:
    """The ids of the rows of all cells of a plan."""
    known = chains or Chains(plan)
    return frozenset(known.id_of(program, cell) for program, cell in plan.cells())


def sweep(
    plan: str | Path | Mapping[str, Any] | Plan,
    results: str | Path = "results.sqlite",
    *,
    jobs: int | None = None,
    ray: str | None = None,
    store: str | Path | None = None,
    shared: bool = False,
    retry: bool = False,
    only: str | None = None,
    watch: Watcher | None = None,
) -> Summary:
    """Run every cell of a plan that has no row in ``results`` yet.

    ``plan`` is a TOML file, or a mapping of the same form. ``jobs`` is the number of worker processes, by default one
    for each core; 0 runs everything in this process, where a debugger sees it. ``ray`` is the address of a Ray cluster
    to run on instead (``auto``, ``HOST:PORT``). ``store`` is the folder of artefacts, by default the name of the
    results with ``.d``; with ``shared`` it is one that all nodes of the cluster see. ``retry`` runs cells again that
    ended in anything but ``ok``. ``only`` is a shell pattern of the names of cells.

    Raises E1901 to E1903 for the plan, E1905 and E1906 for files, E1907 for the cluster. What goes wrong in a cell is
    its row.
    """
    chosen = read_plan(plan, only=only)
    if jobs is not None and jobs < 0:
        raise E1903.error(f"{jobs} jobs: 0 is this process, more are workers")
    path = Path(results)
    folder = Path(store) if store is not None else path.with_name(f"{path.name}.d")
    chains = Chains(chosen)
    found = Summary(path, chosen, chains)
    with Results(path) as rows, ExitStack() as stack:
        known = rows.ids(good=retry)
        there = Store(folder)
        waiting = _Waiting(chains, chosen, known, found)
        if next(iter(waiting), None) is None:
            return found
        try:
            there.check()
        except OSError as error:
            raise E1906.error(f"cannot write to '{folder}': {error.strerror or error}") from None
        # Left after the workers, which give back the room that they have taken.
        writer = stack.enter_context(Writer(rows, chosen.name, compiler_label()))
        limits = chosen.limits
        setup = Setup(str(folder.resolve()), (chosen.folder,), limits.memory, limits.cpus, chains.code())
        if ray is not None:
            from etir.sweeps.ray_cluster import Cluster
            from etir.sweeps.shipping import shipped

            try:
                shipment = shipped(chains.functions(), chosen.depends, chosen.folder, there)
            except OSError as error:
                raise E1906.error(f"cannot write to '{folder}': {error.strerror or error}") from None
            executor: Any = Cluster(ray, setup, limits, there, shipment, shared=shared)
            stack.callback(executor.close)
        elif jobs == 0:
            executor = Serial(setup)
        else:
            executor = Processes(setup, jobs or os.cpu_count() or 1, limits.seconds)
            stack.callback(executor.close)

        def finish(chain: Chain, outcome: Outcome) -> None:
            whole = replace(outcome, seconds=sum(one.seconds for one in chain.done))
            attempts = max(1, chain.lost + (outcome.status != "lost"))
            writer.add(chain.id, chain.cell, whole, attempts)
            found.statuses[outcome.status] += 1
            if watch is not None:
                watch(chain.cell.name, outcome)

        Scheduler(executor, finish, lambda job: _done_before(job, there), limits.retries).run(waiting)
    return found


def _done_before(job: Job, store: Store) -> Outcome | None:
    from etir.sweeps.stages import done_before

    try:
        return done_before(job, store)
    except (OSError, ValueError, TypeError):  # An artefact that cannot be read is made again.
        return None


class _Waiting:
    """The cells of a plan that have no row; ``found`` counts them as they are asked for."""

    def __init__(self, chains: Chains, plan: Plan, known: frozenset[str], found: Summary):
        self._chains, self._plan, self._known, self._found = chains, plan, known, found

    def __iter__(self) -> Iterator[Chain]:
        self._found.cells = self._found.read = 0
        for program, cell in self._plan.cells():
            self._found.cells += 1
            if self._chains.id_of(program, cell) in self._known:
                self._found.read += 1
            else:
                yield self._chains.chain(program, cell)
