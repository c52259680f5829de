"""Overloads and other names of operators that torch itself never calls: they run what the usual ones run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.elementwise_oracle import check, sample

_INTS = torch.tensor([[1, -7, 12], [100, 0, -128]], dtype=torch.int8)
_SHIFTS = torch.tensor([0, 1, 3], dtype=torch.int8)
_FLOATS = sample(torch.float32, 2, 3)
_POSITIVE = _FLOATS.abs() + 0.25

FORMS: list[tuple[str, list[Any], torch.dtype]] = [
    *((f"aten::bitwise_{name}.Scalar_out", [_INTS, 29], torch.int8) for name in ("and", "or", "xor")),
    *((f"aten::bitwise_{name}.Scalar_Tensor_out", [29, _INTS], torch.int8) for name in ("and", "or", "xor")),
    ("aten::bitwise_left_shift.Tensor_Scalar_out", [_INTS, 2], torch.int8),
    ("aten::bitwise_right_shift.Tensor_Scalar_out", [_INTS, 2], torch.int8),
    ("aten::bitwise_right_shift.Scalar_Tensor_out", [100, _SHIFTS], torch.int8),
    ("aten::clamp_max.out", [_FLOATS, 0.5], torch.float32),
    ("aten::clip.Tensor_out", [_FLOATS, torch.tensor(-1.0), torch.tensor([0.0, 1.0, 2.0])], torch.float32),
    ("aten::copysign.Scalar_out", [_FLOATS, -2.0], torch.float32),
    ("aten::div.Scalar_mode_out", [_FLOATS, -0.75, "floor"], torch.float32),
    ("aten::div.Scalar_mode_out", [_INTS, 5, "trunc"], torch.int8),
    ("aten::fill.Tensor_out", [_FLOATS, torch.tensor(7)], torch.float32),
    ("aten::floor_divide.Scalar_out", [_INTS, -5], torch.int8),
    ("aten::fmod.Scalar_out", [_FLOATS, 0.75], torch.float32),
    ("aten::gt.Scalar_out", [_FLOATS, 0.5], torch.bool),
    ("aten::remainder.Scalar_Tensor_out", [100, torch.tensor([7, -7, 3])], torch.int64),
    ("aten::special_expit.out", [_FLOATS], torch.float32),
    ("aten::special_xlog1py.other_scalar_out", [_FLOATS, 1.5], torch.float32),
    ("aten::special_xlog1py.self_scalar_out", [1.5, _POSITIVE], torch.float32),
]


@pytest.mark.parametrize(("name", "arguments", "dtype"), FORMS, ids=[form[0] for form in FORMS])
def test_form(name: str, arguments: list[Any], dtype: torch.dtype) -> None:
    check(name, arguments, dtype)
