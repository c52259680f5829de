"""How much memory values may take: an error with a next step in the place of a process that the system ends.

What is kept of a run is asked for before it is copied. The limit is what the machine has free when a run begins, so
that what earlier runs have kept counts without being counted here.
"""

from __future__ import annotations

import sys

from etir.devtools.errors import E1415

_SPARE = 0.9
"""Of what is free: copies that are on the way, and what else the process needs."""


def available_bytes() -> int:
    """Bytes that this process can still get, by what Linux says of the machine and the process; very many elsewhere."""
    found = sys.maxsize
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            rows = dict(line.split(":", 1) for line in file)
        found = int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            with open("/proc/self/statm", encoding="ascii") as file:
                taken = int(file.read().split()[0]) * resource.getpagesize()
            found = min(found, max(0, limit - taken))
    except (ImportError, OSError, ValueError):
        pass
    return found


class Room:
    """What the values of one run may take."""

    def __init__(self, limit: int | None = None):
        self.limit = int(_SPARE * available_bytes()) if limit is None else limit
        self.taken = 0

    def check(self, nbytes: int, what: str) -> None:
        """Raises error E1415 when there is no room for a value that is looked at and not kept."""
        if self.taken + nbytes > self.limit:
            raise E1415.error(
                f"with {what} the values of one run take {self.taken + nbytes:,} bytes, {self.limit:,} bytes are free"
            )

    def take(self, nbytes: int, what: str) -> None:
        """Count the bytes of a value, which is ``what`` in messages. Raises error E1415 when there is no room."""
        self.check(nbytes, what)
        self.taken += nbytes
