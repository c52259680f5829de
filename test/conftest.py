"""Makes the shared test material importable: ``models.registry`` (whole models) and ``stock`` (the stock pipeline)."""

from __future__ import annotations

import sys
from pathlib import Path

TEST_FOLDER = Path(__file__).resolve().parent

for folder in (TEST_FOLDER.parent / "benchmarks", TEST_FOLDER):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
