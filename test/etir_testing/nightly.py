"""Cases that show what others show, too: the gate leaves them to ``.ci/full``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def cases(names: Iterable[str], *, nightly: Iterable[str]) -> list[Any]:
    """Parameters of a test, of which ``nightly`` are left to ``.ci/full``. Raises ``ValueError`` for unknown ones."""
    known, later = [*names], [*nightly]
    if unknown := [name for name in later if name not in known]:
        raise ValueError(f"there is no case {unknown[0]!r}")
    return [pytest.param(name, marks=pytest.mark.nightly) if name in later else name for name in known]
