"""Many programs, targets and recipes at once: a plan's grid, its cells, and where they run.

``plan.py`` and ``reader.py`` read a plan, ``jobs.py`` makes chains of jobs of its cells, ``scheduler.py`` says which
runs next, ``processes.py`` and ``ray_cluster.py`` where, ``stages.py`` does one, ``results.py`` keeps the rows, and
``report.py`` shows them. Nothing else in etir imports this package.
"""

from __future__ import annotations

from etir.sweeps.model import Cell, Model
from etir.sweeps.plan import Plan
from etir.sweeps.reader import read_plan
from etir.sweeps.results import Results, Row
from etir.sweeps.run import Summary, sweep

__all__ = ["Cell", "Model", "Plan", "Results", "Row", "Summary", "read_plan", "sweep"]
