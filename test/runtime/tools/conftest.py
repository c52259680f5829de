"""The C++ programs that several files here run."""

from __future__ import annotations

from pathlib import Path

import pytest

from etir_testing.runtime.builds import build, preset_of_tests, selection

OPERATORS = (
    "aten::add.out",
    "aten::copy_",
    "aten::index_select.out",
    "aten::mul.Scalar_out",
    "aten::mul.out",
    "executorch_prim::et_view.default",
)


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder of the programs."""
    return build(preset_of_tests(), defines={"ETIR_ONLY_OPS": selection(OPERATORS)}) / "runtime"
