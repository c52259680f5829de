"""Constants that passes make: equal bytes of a type are one weight, and what only looks equal is not."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Attribute

from etir.dialects.et.layout import tensor_type
from etir.dialects.et.program import GetWeightOp, WeightOp
from etir.passes.analysis.constants import ConstantStore

TYPE = tensor_type(f32, [100])


def test_equal_bytes_are_one_weight() -> None:
    module = ModuleOp([])
    store = ConstantStore(module)
    numbers = np.arange(100, dtype=np.float32)
    other = numbers.copy()
    other[50] = 0.5  # in the middle: neither the first bytes nor the last ones

    def name(data: np.ndarray, type: TensorType[Attribute] = TYPE) -> str:
        op = store.make(memoryview(data).cast("B"), type, module, "w")
        assert isinstance(op, GetWeightOp)
        return op.symbol.root_reference.data

    split = tensor_type(f32, [4, 25])
    names = [name(numbers), name(other), name(numbers.copy()), name(other.copy()), name(numbers, split)]
    assert names == ["w", "w_1", "w", "w_1", "w_2"]
    assert [op.sym_name.data for op in module.body.block.ops if isinstance(op, WeightOp)] == ["w", "w_1", "w_2"]
