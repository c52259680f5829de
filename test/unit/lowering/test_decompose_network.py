"""Convolutions, normalization and pooling against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir.diagnostics import EtirError
from etir.dialects.et.layout import dims_of

from etir_testing.lowering.one_op import Dynamic, check, decompose, one_op_module

torch.manual_seed(0)
R = torch.randn
IMAGE = R(2, 6, 8, 9)
VOLUME = R(2, 4, 6, 7, 8)
SIGNAL = R(2, 6, 11)
C6 = R(6)
POSITIVE = torch.rand(6) + 0.5

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten.conv1d.default", (SIGNAL, R(4, 6, 3), R(4), [2], [1]), {}),
    ("aten.conv1d.default", (SIGNAL[0], R(4, 6, 3)), {}),
    ("aten.conv1d.padding", (SIGNAL, R(4, 6, 4), None, [1], "same"), {}),
    ("aten.conv2d.default", (IMAGE, R(4, 6, 3, 3), R(4), [2, 1], [1, 0], [1, 2]), {}),
    ("aten.conv2d.default", (IMAGE, R(6, 1, 3, 3), None, [1], [1], [1], 6), {}),
    ("aten.conv2d.padding", (IMAGE, R(4, 6, 3, 2), None, [1, 1], "same", [1, 3]), {}),
    ("aten.conv2d.padding", (IMAGE[0], R(4, 6, 3, 2), None, [1, 1], "valid"), {}),
    ("aten.conv3d.default", (VOLUME, R(3, 4, 2, 3, 3), R(3)), {}),
    ("aten.conv_transpose1d.default", (SIGNAL, R(6, 4, 3), R(4), [2], [1], [1]), {}),
    ("aten.conv_transpose2d.input", (IMAGE, R(6, 2, 3, 3), None, [2, 2], [1, 1], [1, 0], 2), {}),
    ("aten.conv_transpose3d.input", (VOLUME, R(4, 2, 2, 2, 2)), {}),
    (
        "aten._convolution.default",
        (IMAGE, R(4, 6, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True, True),
        {},
    ),
    ("aten.conv3d.default", (VOLUME, R(6, 2, 3, 2, 3), R(6), [2, 1, 2], [2, 1, 0], [2, 1, 2], 2), {}),
    ("aten.conv3d.default", (VOLUME, R(3, 4, 1, 1, 1), None, [3, 1, 1]), {}),
    (
        "aten.conv_transpose3d.input",
        (VOLUME, R(4, 3, 3, 2, 2), R(6), [2, 2, 1], [1, 0, 1], [1, 0, 0], 2, [2, 1, 1]),
        {},
    ),
    ("aten.conv_transpose3d.input", (VOLUME, R(4, 3, 2, 2, 2), None, [3, 1, 1], [2, 0, 0]), {}),
    ("aten.col2im.default", (R(2, 12, 12), [6, 8], [2, 2], [1, 1], [0, 0], [2, 2]), {}),
    ("aten.col2im.default", (R(12, 15), [6, 7], [3, 2], [1, 2], [1, 0], [2, 1]), {}),
    ("aten.col2im.default", (R(2, 12, 15), [7, 6], [3, 2], [1, 1], [1, 0], [3, 1]), {}),
    ("aten.conv3d.padding", (VOLUME, R(3, 4, 2, 3, 3), None, [1, 1, 1], "same"), {}),
    ("aten._convolution_mode.default", (IMAGE, R(4, 6, 3, 3), None, [1, 1], "same", [1, 1], 1), {}),
    (
        "aten._convolution.deprecated",
        (IMAGE, R(4, 6, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True),
        {},
    ),
    ("aten.thnn_conv2d.default", (IMAGE, R(4, 6, 3, 3), [3, 3], R(4), [2, 2], [1, 1]), {}),
    ("aten.slow_conv3d.default", (VOLUME, R(3, 4, 2, 2, 2), [2, 2, 2]), {}),
    ("aten.native_batch_norm.default", (IMAGE, C6, C6, C6, POSITIVE, False, 0.1, 1e-5), {}),
    ("aten._native_batch_norm_legit.default", (IMAGE, C6, C6, C6, POSITIVE, False, 0.1, 1e-5), {}),
    ("aten.conv_tbc.default", (R(7, 2, 3), R(3, 3, 5), R(5), 1), {}),
    ("aten.layer_norm.default", (IMAGE, [9], R(9), R(9)), {}),
    ("aten.layer_norm.default", (IMAGE, [8, 9]), {}),
    ("aten.group_norm.default", (IMAGE, 3, C6, POSITIVE), {}),
    ("aten.group_norm.default", (R(4, 6), 2), {}),
    ("aten.instance_norm.default", (IMAGE, C6, POSITIVE, None, None, True, 0.1, 1e-5, False), {}),
    ("aten.instance_norm.default", (IMAGE, None, None, C6, POSITIVE, False, 0.1, 1e-5, False), {}),
    ("aten.batch_norm.default", (IMAGE, C6, C6, C6, POSITIVE, False, 0.1, 1e-5, False), {}),
    ("aten.batch_norm.default", (IMAGE, C6, C6, None, None, True, 0.1, 1e-5, False), {}),
    ("aten.rms_norm.default", (IMAGE, [9], R(9), 1e-5), {}),
    ("aten.rms_norm.default", (IMAGE, [8, 9]), {}),
    ("aten._fused_rms_norm.default", (IMAGE, [9], R(9), 1e-5), {}),
    ("aten._weight_norm.default", (R(3, 4, 5), R(3, 1, 1)), {}),
    ("aten._weight_norm_interface.default", (R(3, 4), R(1, 4), 1), {}),
    ("aten._native_batch_norm_legit_functional.default", (IMAGE, C6, C6, C6, POSITIVE, True, 0.1, 1e-5), {}),
    ("aten.max_pool2d.default", (IMAGE, [3, 2], [2, 1], [1, 1]), {}),
    ("aten.max_pool2d.default", (IMAGE, [3, 3], [2, 2], [0, 1], [1, 2], True), {}),
    ("aten.max_pool1d.default", (SIGNAL, [3], [2], [1]), {}),
    ("aten.max_pool1d.default", (SIGNAL[0], [2]), {}),
    ("aten.max_pool1d_with_indices.default", (SIGNAL, [3]), {}),
    ("aten.max_pool3d.default", (VOLUME, [2, 3, 2], [2, 2, 1], [1, 1, 0]), {}),
    ("aten.max_pool3d.default", (VOLUME[0], [3]), {}),
    ("aten.avg_pool1d.default", (SIGNAL, [3], [2], [1]), {}),
    ("aten.avg_pool1d.default", (SIGNAL, [3], [2], [1], True, False), {}),
    ("aten.avg_pool3d.default", (VOLUME, [2], [2], [1]), {}),
    ("aten.max_pool3d_with_indices.default", (VOLUME, [2], [], [1], [1], True), {}),
    ("aten.max_pool3d_with_indices.default", (VOLUME.round(), [3, 2, 2], [2, 1, 2], [1, 0, 1], [1, 2, 1]), {}),
    *[
        ("aten.avg_pool3d.default", (VOLUME, [3, 2, 3], [2, 2, 1], [1, 0, 1], ceil, counted, divisor), {})
        for ceil in (False, True)
        for counted in (False, True)
        for divisor in (None, 5)
    ],
    ("aten.adaptive_avg_pool1d.default", (SIGNAL, [1]), {}),
    ("aten.adaptive_avg_pool1d.default", (SIGNAL, [4]), {}),
    ("aten.adaptive_avg_pool2d.default", (IMAGE, [1, 1]), {}),
    ("aten.adaptive_avg_pool2d.default", (IMAGE[0], [3, 4]), {}),
    ("aten.adaptive_avg_pool2d.default", (IMAGE, [8, 9]), {}),
    ("aten.adaptive_avg_pool3d.default", (VOLUME, [1, 1, 1]), {}),
    ("aten.adaptive_avg_pool3d.default", (VOLUME, [3, 7, 2]), {}),
    ("aten.adaptive_max_pool2d.default", (IMAGE, [4, 3]), {}),
    ("aten.adaptive_max_pool1d.default", (IMAGE[0], [3]), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_static(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


DYNAMIC: list[tuple[str, tuple[Any, ...], Dynamic]] = [
    ("aten.conv1d.default", (SIGNAL, R(4, 6, 3), R(4), [2], [1]), {0: [0, 2]}),
    ("aten.conv2d.default", (IMAGE, R(4, 6, 3, 3), R(4), [2, 1], [1, 0], [1, 2]), {0: [0, 2, 3]}),
    ("aten.conv2d.padding", (IMAGE, R(4, 6, 3, 2), None, [1, 1], "same"), {0: [0, 2, 3]}),
    ("aten.conv_transpose2d.input", (IMAGE, R(6, 2, 3, 3), None, [2, 2], [1, 1], [1, 0], 2), {0: [0, 2, 3]}),
    ("aten.col2im.default", (R(2, 12, 12), [6, 8], [2, 2], [1, 1], [0, 0], [2, 2]), {0: [0]}),
    ("aten.conv3d.default", (VOLUME, R(3, 4, 2, 3, 3), R(3), [2, 1, 1], [1, 1, 1]), {0: [0, 2, 3, 4]}),
    ("aten.conv_transpose3d.input", (VOLUME, R(4, 3, 3, 2, 2), None, [2, 1, 1], [1, 0, 0]), {0: [0, 2, 4]}),
    ("aten.layer_norm.default", (IMAGE, [9], R(9), R(9)), {0: [0, 2]}),
    ("aten.group_norm.default", (IMAGE, 3, C6, POSITIVE), {0: [0, 2, 3]}),
    ("aten.instance_norm.default", (IMAGE, C6, C6, None, None, True, 0.1, 1e-5, False), {0: [0, 3]}),
    ("aten.batch_norm.default", (IMAGE, C6, C6, C6, POSITIVE, False, 0.1, 1e-5, False), {0: [0, 2, 3]}),
    ("aten.rms_norm.default", (IMAGE, [9], R(9), 1e-5), {0: [0, 2]}),
    ("aten.max_pool2d.default", (IMAGE, [3, 2], [2, 1], [1, 1]), {0: [0, 2, 3]}),
    ("aten.max_pool1d.default", (SIGNAL, [3], [2], [1]), {0: [0, 2]}),
    ("aten.max_pool3d.default", (VOLUME, [2, 3, 2], [2, 2, 1], [1, 1, 0]), {0: [0, 2, 3]}),
    ("aten.adaptive_avg_pool2d.default", (IMAGE, [1, 1]), {0: [0, 2, 3]}),
    ("aten.adaptive_avg_pool2d.default", (IMAGE, [3, 3]), {0: [0, 2, 3]}),
    ("aten.adaptive_avg_pool3d.default", (VOLUME, [2, 3, 5]), {0: [0, 2, 3, 4]}),
    ("aten.avg_pool3d.default", (VOLUME, [3, 2, 3], [2, 2, 1], [1, 0, 1], True, False, None), {0: [0, 2, 3]}),
    ("aten.max_pool3d_with_indices.default", (VOLUME.round(), [3, 2, 2], [2, 1, 2], [1, 0, 1]), {0: [0, 2, 3, 4]}),
    ("aten.adaptive_max_pool1d.default", (SIGNAL, [4]), {0: [0, 2]}),
    ("aten.adaptive_max_pool2d.default", (IMAGE, [5, 4]), {0: [0, 2, 3]}),
    ("aten.adaptive_max_pool2d.default", (IMAGE, [1, 3]), {0: [3]}),
    ("aten.adaptive_max_pool3d.default", (VOLUME, [4, 5, 3]), {0: [2, 4]}),
]


@pytest.mark.parametrize(("name", "args", "dynamic"), DYNAMIC, ids=lambda v: v if isinstance(v, str) else "")
def test_dynamic(name: str, args: tuple[Any, ...], dynamic: Dynamic) -> None:
    check(name, *args, dynamic=dynamic)


@pytest.mark.parametrize(
    ("target", "dtype", "ranks"),
    [("etir", torch.float32, [5]), ("executorch", torch.float32, [4, 4]), ("executorch", torch.bfloat16, [4])],
)
def test_convolutions_of_volumes_become_images_where_the_kernel_takes_no_more(
    target: str, dtype: torch.dtype, ranks: list[int]
) -> None:
    """One for each depth tap; where their sum would be rounded each time, one of all."""
    module, _ = one_op_module("aten.conv3d.default", (VOLUME.to(dtype), R(3, 4, 2, 3, 3).to(dtype)), {})
    decompose(module, target=target)
    found = [op for op in module.walk() if op.name == "aten.convolution.default"]
    assert [len(dims_of(op.results[0].type)) for op in found] == ranks  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("args", "name"), [((IMAGE, [5, 4]), "2d"), ((SIGNAL, [4]), "1d"), ((VOLUME, [4, 5, 3]), "3d")]
)
def test_uneven_maxima(args: tuple[Any, ...], name: str) -> None:
    check(f"aten.adaptive_max_pool{name}.default", *args, results=1)
    check(f"aten.adaptive_max_pool{name}.default", *args)


def test_of_equal_maxima_the_first_one_in_memory_is_found() -> None:
    x = torch.zeros(1, 1, 7, 7)
    x[..., 2, 3] = x[..., 3, 1] = 1.0
    check("aten.adaptive_max_pool2d.default", x, [2, 2])
    check("aten.adaptive_max_pool2d.default", x, [2, 2], dynamic={0: [2, 3]})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("eps", [None, 1e-5])
def test_rms_norm_of_narrow_types(dtype: torch.dtype, eps: float | None) -> None:
    x = (IMAGE * 1e-3).to(dtype)
    check("aten.rms_norm.default", x, [9], R(9).to(dtype), eps, tolerance=1e-2)


def test_channels_last_stays() -> None:
    x = IMAGE.to(memory_format=torch.channels_last)
    check("aten.conv2d.default", x, R(4, 6, 3, 3))


def test_training_is_an_error() -> None:
    args = (IMAGE, C6, C6, C6, POSITIVE, True, 0.1, 1e-5, False)
    module, _ = one_op_module("aten.batch_norm.default", args, {})
    with pytest.raises(EtirError) as caught:
        decompose(module)
    assert caught.value.ids == ("E0421",)
