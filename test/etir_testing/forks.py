"""Commands that start in an instant: the tools and ``python`` as forks of a process that has imported everything.

:func:`commands` is a folder that a test uses in place of the environment's ``bin``, as a path or in ``PATH``. Each of
its commands gives its arguments, environment, folder and standard streams to a server (``fork_server.py``), which forks
a process for it, and ends as that process ends: pipes, shells, timeouts, exit codes and signals are as ever. Only the
start of Python and the imports are left out: three seconds of the processor with torch. A command that is killed takes
its process with it.

A server belongs to the process that asked for it first and ends with it. With :data:`PROCESS_VARIABLE` in the
environment, as ``.ci/full`` has it, and on systems without ``fork``, the folder is the environment's own.

``test_startup.py``, ``test_forked_tools.py`` and the tests of installations start real processes in any case.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from etir_testing import TESTS
from etir_testing.forked_process import PROCESS_VARIABLE, TOOLS

SERVER = Path(__file__).with_name("fork_server.py")

_CLIENT = """#!{python} -ISE
import array, os, signal, socket, struct, sys
line = b"\\0".join(os.fsencode(word) for word in ["{name}", os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:]])
line += b"\\0" + b"\\0".join(name + b"=" + value for name, value in os.environb.items())
server = socket.socket(socket.AF_UNIX)
server.connect("{socket}")
server.sendmsg([struct.pack("<I", len(line))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (0, 1, 2)))])
server.sendall(line)
answer = server.recv(4)
if len(answer) != 4:
    sys.exit("the server of forks has ended")
(code,) = struct.unpack("<i", answer)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""A command: Python without ``site``, which starts in a hundredth of a second."""


_kept: list[subprocess.Popen[bytes]] = []
"""The server, whose pipe is open as long as it is here."""


@cache
def commands() -> Path:
    """The folder with ``python`` and the tools of :data:`~etir_testing.forked_process.TOOLS`."""
    own = Path(sys.executable).parent
    if PROCESS_VARIABLE in os.environ or not hasattr(os, "fork"):
        return own
    folder = Path(tempfile.mkdtemp(prefix="etir-forks-"))
    socket = folder / "socket"
    for name in ("python", *TOOLS):
        command = folder / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(_CLIENT.format(python=sys.executable, name=name, socket=socket))
        command.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    # It ends, and deletes the folder, when the pipe that is its standard input is closed: however this process ends.
    server = subprocess.Popen(
        [sys.executable, SERVER, socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    _kept.append(server)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", "the server of forks has not started"
    return folder / "bin"
