"""Jobs on a Ray cluster.

Ray starts, places and moves: a job is a Ray task that asks for the plan's ``cpus`` and ``resources``; an exclusive one
asks for all processors of a node. Inside of its Ray worker a job runs in a process of its own
(:class:`~etir.sweeps.slot.Slot`), so that crashes, hangs and limits of memory are rows there as on one machine,
and a Ray worker that is gone is always the cluster's loss: the scheduler starts the job again on another one.

Artefacts are kept in the driver's folder. A job gets those that it needs through the object store, once for each node,
and sends back what it has made; with a shared folder none of them goes through Ray. Modules and files of the plan are
artefacts, too (:mod:`etir.sweeps.shipping`): a node need not have them. It needs etir, and the same one: rows of
another compiler would be taken for rows of this.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from etir.diagnostics import EtirError
from etir.sweeps.errors import E1907
from etir.sweeps.identity import PACKAGES, compiler_label, node_digest
from etir.sweeps.jobs import FAILURES, Job, Outcome
from etir.sweeps.plan import Limits
from etir.sweeps.scheduler import Event
from etir.sweeps.shipping import SUFFIX, Named, Shipment, files_of, named, paths_here, with_files
from etir.sweeps.slot import Slot
from etir.sweeps.store import Store
from etir.sweeps.worker import Setup

AHEAD = 2
"""Jobs that are given to the cluster for each of its processors, so that none waits for the driver."""

KEPT = 64
"""Artefacts that the driver keeps in the object store at a time."""

PATIENCE = 60.0
"""Seconds in which no job ends and no node has what one takes, after which the cluster is given up."""

Made = list[tuple[str, str, bytes]]
"""Artefacts as key, suffix and bytes."""


class Cluster:
    """The cluster at ``address``. Raises error E1907 when it cannot be reached, or ray is not installed."""

    def __init__(
        self, address: str, setup: Setup, limits: Limits, store: Store, shipment: Shipment, *, shared: bool = False
    ):
        try:
            import ray
        except ImportError:
            raise E1907.error("ray is not installed") from None
        self._ray, self._setup, self._limits = ray, setup, limits
        self._store, self._is_shared, self._shipment = store, shared, shipment
        self._named: dict[str, Named] = {}
        self._owns = not ray.is_initialized()
        if self._owns:
            self._connect(address)
        options: dict[str, Any] = {"max_retries": 0, "num_returns": 2, "resources": dict(limits.resources) or None}
        self._run = ray.remote(**options)(_remote)
        self._tokens: dict[Any, tuple[int, Job, Any]] = {}
        self._objects: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._cpus, self._asked = 0.0, 0.0
        self._exclusive = 0

    def _connect(self, address: str) -> None:
        _probe(address)
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            message = (str(error).splitlines() or [""])[0]
            raise E1907.error(f"there is no cluster at '{address}': {message}") from None

    # --- what the scheduler asks -------------------------------------------------------------------------------------

    def has_room(self, job: Job) -> bool:
        """Whether the cluster has less to do than it could begin with; exclusive jobs come one to a node."""
        if job.exclusive:
            return len(self._tokens) == self._exclusive and self._exclusive < max(1, len(self._nodes()))
        return self._exclusive == 0 and len(self._tokens) < AHEAD * max(1.0, self._processors() / self._limits.cpus)

    def start(self, token: int, job: Job) -> None:
        """Give it to Ray."""
        limits = self._limits
        cpus = (
            limits.cpus
            if not job.exclusive
            else min((n["Resources"].get("CPU", 1.0) for n in self._nodes()), default=1)
        )
        needs = () if self._is_shared else job.needs
        known = [(key, suffix) for key in needs for suffix in self._store.suffixes(key)]
        objects = [self._object(place, partial(self._store.read, *place)) for place in known]
        files = [self._file(path) for path in files_of(job)]
        if not self._is_shared:
            known += [(file.key, file.suffix) for file in files]
            objects += [self._object((file.key, file.suffix), file.data) for file in files]
        setup = self._setup if self._is_shared else replace(self._setup, store="")
        how = How(setup, limits.seconds, self._shipment, self._modules(), files, node_digest(), socket.gethostname())
        remote: Any = self._run.options(num_cpus=max(cpus, limits.cpus))
        outcome, made = remote.remote(how, job, known, *objects)
        self._tokens[outcome] = token, job, made
        self._exclusive += job.exclusive

    def wait(self) -> Iterable[Event]:
        """Wait for some job to end. Raises error E1907 when no node is there that could run one."""
        given_up = time.monotonic() + PATIENCE
        while True:
            ready, _ = self._ray.wait(list(self._tokens), num_returns=1, timeout=1.0)
            if ready:
                more, _ = self._ray.wait(list(self._tokens), num_returns=len(self._tokens), timeout=0)
                return [self._event(one) for one in dict.fromkeys([*ready, *more])]
            self._asked = 0.0
            taken = {"CPU": self._limits.cpus, **dict(self._limits.resources)}
            if any(all(n["Resources"].get(name, 0) >= most for name, most in taken.items()) for n in self._nodes()):
                given_up = time.monotonic() + PATIENCE
            elif time.monotonic() > given_up:
                wanted = ", ".join(f"{name} {most:g}" for name, most in taken.items())
                raise E1907.error(
                    f"the cluster has had no node with {wanted} for {PATIENCE:.0f} s",
                    help="start such nodes, or ask for less in [limits]; what has ended is kept",
                )

    def _event(self, one: Any) -> Event:
        token, job, made = self._tokens.pop(one)
        self._exclusive -= job.exclusive
        errors = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(one)
            artefacts: Made = [] if self._is_shared or outcome.status in FAILURES else self._ray.get(made)
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            from etir.sweeps.stages import failure

            if isinstance(cause, errors.RayError):
                return Event(token, None, _first_line(cause))
            if isinstance(cause, EtirError) and E1907.id in cause.ids:
                raise cause from None

            return Event(token, failure(cause, job.stage))
        except errors.RayError as error:
            return Event(token, None, _first_line(error))
        try:
            for key, suffix, data in artefacts:
                self._store.write(key, data, suffix)
        except OSError as error:
            from etir.sweeps.stages import failure

            return Event(token, failure(error, job.stage))
        return Event(token, outcome)

    def close(self) -> None:
        """Stop what runs, and leave the cluster."""
        for one in self._tokens:
            self._ray.cancel(one, force=True)
        if self._owns:
            self._ray.shutdown()

    # --- the cluster -------------------------------------------------------------------------------------------------

    def _nodes(self) -> list[Any]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _processors(self) -> float:
        """Processors of the cluster, asked for now and then."""
        if time.monotonic() - self._asked > 1.0:
            self._cpus, self._asked = self._ray.cluster_resources().get("CPU", 0.0), time.monotonic()
        return self._cpus

    def _file(self, path: str) -> Named:
        """A file of the plan as an artefact; in a shared folder it is one now."""
        found = self._named.get(path)
        if found is None:
            found = self._named[path] = named(path)
            if self._is_shared and not self._store.path(found.key, found.suffix).is_file():
                self._store.write(found.key, found.data(), found.suffix)
        return found

    def _modules(self) -> list[Any]:
        """The artefact of the plan's modules in the object store: a worker asks for it once."""
        place = self._shipment.key, SUFFIX
        return [self._object(place, partial(self._store.read, *place))] if place[0] and not self._is_shared else []

    def _object(self, place: tuple[str, str], read: Callable[[], bytes]) -> Any:
        """The artefact in the object store."""
        found = self._objects.get(place)
        if found is None:
            found = self._objects[place] = self._ray.put(read())
            while len(self._objects) > KEPT:
                self._objects.popitem(last=False)
        self._objects.move_to_end(place)
        return found


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _probe(address: str) -> None:
    """Refuse an address at which nobody listens, before Ray waits for it. Raises error E1907."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise E1907.error(f"nobody answers at '{address}': {error.strerror or error}") from None


# --- in a Ray worker --------------------------------------------------------------------------------------------------

_PREFIX = "etir-sweep-of-"
"""What the folders of artefacts of Ray workers are called, before the user's number and the worker's."""


def _own_folder() -> Path:
    """The folder of this worker's artefacts; those of workers that have ended are removed, which Ray does not tell."""
    user = f"{_PREFIX}{os.getuid()}-"
    own = Path(tempfile.gettempdir()) / f"{user}{os.getpid()}"
    if not own.is_dir():
        for other in sorted(own.parent.glob(f"{user}*")):
            process = other.name.removeprefix(user)
            if process.isdigit() and not _is_alive(int(process)):
                shutil.rmtree(other, ignore_errors=True)
        own.mkdir(exist_ok=True)
    return own


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


_SLOTS: dict[tuple[Setup, float], Slot] = {}
"""The process of this Ray worker, by what was asked of it: it is used again for job after job."""


@dataclass(frozen=True)
class How:
    """What a Ray worker is told besides the job: ``modules`` is the object of the shipment's artefact, if it is to come
    through Ray; ``digest`` is that of etir on the machine ``host``, which has the files that the job names.
    """

    setup: Setup
    seconds: float
    shipment: Shipment
    modules: Sequence[Any]
    files: Sequence[Named]
    digest: str
    host: str


def _remote(how: How, job: Job, places: list[tuple[str, str]], *artefacts: bytes) -> tuple[Outcome, Made]:
    """One job, in a process of its own. Raises error E1907 where another etir is installed."""
    if node_digest() != how.digest:
        label = f"{socket.gethostname()} has {compiler_label()}"
        raise E1907.error(
            f"{label}, of other files than etir on {how.host}, or other versions of {', '.join(PACKAGES)}",
            help="install the same on all nodes",
        )
    setup = how.setup
    if not setup.store:
        setup = replace(setup, store=str(_own_folder()))
    store = Store(setup.store)
    for (key, suffix), data in zip(places, artefacts, strict=True):
        if not store.path(key, suffix).is_file():
            store.write(key, data, suffix)
    for reference in how.modules:
        if not store.path(how.shipment.key, SUFFIX).is_file():
            import ray

            store.write(how.shipment.key, ray.get(reference), SUFFIX)
    setup = replace(setup, paths=paths_here(how.shipment, store))
    # Ray adds folders of the driver's, where this node may have other modules of the same names.
    elsewhere = set(how.shipment.roots) - set(setup.paths)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) not in elsewhere]
    job = with_files(job, {file.path: file.here(store) for file in how.files}.__getitem__)
    slot = _SLOTS.get((setup, how.seconds))
    if slot is None:
        for old in _SLOTS.values():
            old.close()
        _SLOTS.clear()
        slot = _SLOTS[setup, how.seconds] = Slot(setup, how.seconds)
    outcome = slot.run(job)
    made: Made = []
    if not how.setup.store:
        made += [(job.key, suffix, store.read(job.key, suffix)) for suffix in store.suffixes(job.key)]
    return outcome, made
