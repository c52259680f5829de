"""torch's samples and the table of operators as tests by name, so that mutants can be judged by them.

The gate runs them by commands (``test/opinfo_walk.py``, ``test/operator_table.py``); pytest does not collect this file
unless it is told to: ``python test/mutants.py --measure --suite test/etir_testing/mutants/walks.py``, or
``--suite '...::test_operator[aten.erf.default]'`` for one of them.
"""

from __future__ import annotations

import pytest
import torch

from etir_testing.operators.table import outcome, problems, rows
from etir_testing.opinfo.op_samples import entries
from etir_testing.opinfo.op_table import is_green, run_entry

TABLE = rows()


@pytest.mark.parametrize("name", entries())
def test_entry(name: str) -> None:
    """An entry's programs, as ``test/opinfo_walk.py --check program`` runs them."""
    torch.manual_seed(0)
    assert is_green(run_entry(name, 1, False))


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.call is not None])
def test_operator(name: str) -> None:
    """One row of the table of operators."""
    call = TABLE[name].call
    assert call is not None
    assert problems([outcome(name, call)], TABLE) == []
