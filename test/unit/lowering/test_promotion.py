"""Type promotion against torch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from xdsl.ir import Block

from etir.dialects.et.layout import tensor_type
from etir.lowering.build.promotion import promote_types, result_type
from etir.lowering.import_fx.types import ELEMENT_TYPES

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_pairs(a: torch.dtype, b: torch.dtype) -> None:
    assert promote_types(ELEMENT_TYPES[a], ELEMENT_TYPES[b]) == ELEMENT_TYPES[torch.promote_types(a, b)]


@pytest.mark.parametrize("wide", [torch.uint16, torch.uint32, torch.uint64])
def test_wide_unsigned_types(wide: torch.dtype) -> None:
    assert promote_types(ELEMENT_TYPES[wide], ELEMENT_TYPES[torch.float32]) == ELEMENT_TYPES[torch.float32]
    with pytest.raises(TypeError, match="no common element type"):
        promote_types(ELEMENT_TYPES[wide], ELEMENT_TYPES[torch.int32])


def _operand(block: Block, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        type = tensor_type(ELEMENT_TYPES[value.dtype], list(value.shape))
        return block.insert_arg(type, len(block.args))
    return value


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", [True, 2, 2.5, 1j])
def test_numbers(dtype: torch.dtype, number: Any, rank: int) -> None:
    tensor = torch.ones([2] * rank, dtype=dtype)
    got = result_type((_operand(Block(), tensor), number))
    assert got == ELEMENT_TYPES[torch.result_type(tensor, number)]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_tensors_without_dims(a: torch.dtype, b: torch.dtype) -> None:
    tensors = torch.ones(2, dtype=a), torch.ones([], dtype=b)
    block = Block()
    assert result_type([_operand(block, t) for t in tensors]) == ELEMENT_TYPES[torch.result_type(*tensors)]
