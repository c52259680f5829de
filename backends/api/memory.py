"""What a backend is told where only the memory that its delegates take is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlansOnly:
    """An attachment of a compilation's context: nobody runs what comes out, so that code need not be made. The memory
    of methods has to be what it would be with code.
    """
