"""The server of ``forks.py``: imports once, forks for every command, and says how each has ended.

    python fork_server.py SOCKET

It runs nothing of what it imports, so that a fork starts in the state after the imports, with one thread. What a new
process has of its own is set in the fork: standard streams, working directory, environment, arguments, ``sys.path`` and
``__main__``.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from etir_testing.forked_process import PRELOADED, TOOLS, be_process

IMPORTED: tuple[str, ...] = (
    "etir",
    "etir.lowering.import_fx",
    "etir.plugins",
    "torch",
    "torch._dynamo",
    "torch.export",
    "torch.export._trace",
    "torch.fx.experimental.symbolic_shapes",
)
"""What scripts import besides what tools do. An import that is not here costs time in every fork that needs it."""


@dataclass(frozen=True)
class Command:
    """What a client has sent: the name of the command, its folder, its arguments, its environment and streams."""

    name: str
    folder: str
    arguments: list[str]
    environment: dict[str, str]
    streams: list[int]


def receive(connection: socket.socket) -> Command:
    """Read a command; the other end sends it in one piece after the three descriptors."""
    size = struct.calcsize("<I")
    head, ancillary, _, _ = connection.recvmsg(size, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    streams = array.array("i")
    for _, _, data in ancillary:
        streams.frombytes(data)
    if len(head) < size:
        raise ConnectionError("a command has ended before it was sent")
    (length,) = struct.unpack("<I", head)
    text = b""
    while len(text) < length:
        part = connection.recv(length - len(text))
        if not part:
            raise ConnectionError("a command has ended before it was sent")
        text += part
    name, folder, count, *words = map(os.fsdecode, text.split(b"\0"))
    variables = [word.partition("=") for word in words[int(count) :] if word]
    environment = {name: value for name, _, value in variables}
    return Command(name, folder, words[: int(count)], environment, list(streams))


def serve(listening: socket.socket) -> None:
    """Fork for every command until standard input ends."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    path = [entry for entry in sys.path[1:] if entry not in os.environ["PYTHONPATH"].split(os.pathsep)]
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, woken, listening, *running.values()], [], [])
        if 0 in ready:
            break
        if woken in ready:
            os.read(woken, 4096)
            reap(running)
        if listening in ready:
            connection, _ = listening.accept()
            with contextlib.suppress(ConnectionError):
                start(receive(connection), connection, running, path)
        for pid, connection in running.items():
            if connection in ready:  # A client sends no more: it has ended.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def reap(running: dict[int, socket.socket]) -> None:
    """Say of the processes that have ended how they did."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as connection, contextlib.suppress(BrokenPipeError):
            connection.send(struct.pack("<i", os.waitstatus_to_exitcode(status)))


def start(command: Command, connection: socket.socket, running: dict[int, socket.socket], path: list[str]) -> None:
    """Fork a process for a command."""
    pid = os.fork()
    if pid:
        running[pid] = connection
        for descriptor in command.streams:
            os.close(descriptor)
        return
    # The fork does not return from here.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(command.streams):
        os.dup2(descriptor, number)
    script = str(Path(sys.executable).with_name(command.name))
    be_process([script, *command.arguments], command.environment, lambda: run(command, path))


def run(command: Command, path: list[str]) -> object:
    """Do what the command does, in its folder; returns its exit code. ``path`` is that of every Python here."""
    os.chdir(command.folder)
    first, body = body_of(command)
    given = command.environment.get("PYTHONPATH", "")
    sys.path[:] = [first, *(entry for entry in given.split(os.pathsep) if entry), *path]
    return body()


def body_of(command: Command) -> tuple[str, Callable[[], object]]:
    """The first entry of ``sys.path`` and what the process does; ``sys.argv`` is the command's before it is called."""
    if command.name in TOOLS:
        return str(Path(sys.executable).parent), importlib.import_module(TOOLS[command.name]).main
    match command.arguments:
        case ["-c", code, *_]:
            return "", lambda: _run_code(code, command.arguments)
        case ["-m", module, *_]:
            return command.folder, lambda: _run_module(module, command.arguments[1:])
        case [file, *_] if not file.startswith("-"):
            return str(Path(file).resolve().parent), lambda: _run_file(file, command.arguments)
        case _:
            raise ValueError(f"python {command.arguments[:1]}: only -c, -m and a file are known")


def _run_code(code: str, arguments: Sequence[str]) -> None:
    sys.argv[:] = ["-c", *arguments[2:]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main.__dict__)


def _run_module(module: str, arguments: Sequence[str]) -> None:
    sys.argv[:] = list(arguments)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _run_file(file: str, arguments: Sequence[str]) -> None:
    sys.argv[:] = list(arguments)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = str(Path(file).resolve())
    exec(compile(Path(file).read_bytes(), file, "exec"), main.__dict__)


if __name__ == "__main__":
    for imported in (*TOOLS.values(), *PRELOADED, *IMPORTED):
        importlib.import_module(imported)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(sys.argv[1])
        bound.listen(64)
        print("ready", flush=True)
        serve(bound)
    shutil.rmtree(Path(sys.argv[1]).parent, ignore_errors=True)
