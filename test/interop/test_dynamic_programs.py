"""Small programs with dynamic sizes: eager and both runtimes agree at three sizes.

Every row is a function, the inputs of three calls, and the dims of each input that vary. The program is exported with
the first call's inputs and without torch's functionalization, and loaded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import etir.runtime  # noqa: E402
from etir.driver import compile_program  # noqa: E402

from etir_testing.interop.program_runs import Calls, Function, assert_same, eager, f32, fresh, i64, stock, trace  # noqa: E402

B, H, S, T = (Dim(name, min=2, max=16) for name in ("batch", "heads", "rows", "columns"))
HEIGHT, WIDTH, N, K = (Dim(name, min=4, max=40) for name in ("height", "width", "n", "k"))

Row = tuple[Callable[..., Any], Calls, Any]


def heads(keys: int | None = None, mask: bool = False) -> Calls:
    """Query, key and value, all sizes but the last one different; ``keys``: query heads for each key head."""
    found: list[tuple[torch.Tensor, ...]] = []
    for b, h, s, t in ((2, 3, 4, 5), (3, 2, 7, 4), (4, 5, 3, 9)):
        inputs = (f32(b, h * (keys or 1), s, 8), f32(b, h, t, 8, seed=1), f32(b, h, t, 8, seed=2))
        found.append((*inputs, f32(s, t, seed=3)) if mask else inputs)
    return found


_KV = {0: B, 1: H, 2: T}
_QKV = ({0: B, 1: H, 2: S}, _KV, _KV)
_PICTURES = [(f32(b, 3, h, w),) for b, h, w in ((2, 5, 7), (3, 8, 6), (4, 11, 9))]
_PICTURE = ({0: B, 2: HEIGHT, 3: WIDTH},)
_ROWS = [(f32(n, 3, seed=n),) for n in (5, 6, 9)]
_ROW = ({0: N},)

SHAPES: dict[str, Row] = {
    "attention": (F.scaled_dot_product_attention, heads(), _QKV),
    "attention_with_mask": (F.scaled_dot_product_attention, heads(mask=True), (*_QKV, {0: S, 1: T})),
    "causal_attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), heads(), _QKV),
    "attention_with_shared_heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        heads(keys=2),
        ({0: B, 1: 2 * H, 2: S}, _KV, _KV),
    ),
    "windows_and_back": (
        lambda x: F.fold(F.unfold(x, 3, stride=2, padding=1) * 2, x.shape[2:], 3, stride=2, padding=1),
        _PICTURES,
        _PICTURE,
    ),
    "adaptive_pooling": (
        lambda x: (F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, (3, 2), return_indices=True)),
        _PICTURES,
        _PICTURE,
    ),
    "adaptive_pooling_of_volumes": (
        lambda x: (F.adaptive_avg_pool3d(x[None], (2, 3, 2)), F.adaptive_max_pool3d(x[None], (2, 3, 2))),
        _PICTURES,
        _PICTURE,
    ),
    "interpolation": (
        lambda x: (
            F.interpolate(x, scale_factor=1.5, mode="bilinear"),
            F.interpolate(x, scale_factor=2, mode="bicubic"),
            F.interpolate(x, scale_factor=1.3, mode="nearest-exact"),
        ),
        _PICTURES,
        _PICTURE,
    ),
    "interpolation_to_a_size": (
        lambda x: (
            F.interpolate(x, size=(3, 12), mode="bicubic", align_corners=True),
            F.interpolate(x, size=(3, 12), mode="bilinear", antialias=True),
            F.interpolate(x[:, :, :3, :3], size=x.shape[2:], mode="bilinear"),
        ),
        _PICTURES,
        _PICTURE,
    ),
    "recurrent_layers": (
        nn.GRU(6, 5, 2, bidirectional=True),
        [(f32(4, b, 6),) for b in (2, 3, 7)],
        ({1: B},),
    ),
    "derived_sizes": (
        lambda x, y: (x[1:] + y.repeat_interleave(2, 0), x[::2][:-1] + y, torch.cat([x[:-2], y]).reshape(-1, 3)),
        [(f32(2 * n + 1, 3), f32(n, 3)) for n in (4, 5, 9)],
        ({0: 2 * K + 1}, {0: K}),
    ),
    "blocks": (
        lambda x: x.view(x.shape[0] // 4, 4, -1).permute(0, 2, 1).reshape(x.shape[0] // 4, -1).softmax(1),
        [(f32(4 * n, 3),) for n in (4, 5, 9)],
        ({0: 4 * K},),
    ),
    "arithmetic": (
        lambda x: (
            x * x.shape[0] ** 0.5,
            abs(x.shape[0] - 6),
            x.shape[0] ** 2,
            round(x.shape[0] / 2),
            -x.shape[0] // 2,
        ),
        _ROWS,
        _ROW,
    ),
    "creation": (
        lambda x: (torch.linspace(0, x.shape[0] - 1, 5), torch.eye(x.shape[0]), torch.arange(x.shape[0] - 1, -1, -1)),
        _ROWS,
        _ROW,
    ),
    "running_totals": (
        lambda x: (x.cumsum(0), x.cumprod(0), x.cummax(0), x.logcumsumexp(0), x.median(0)),
        _ROWS,
        _ROW,
    ),
    "order": (
        lambda x: (x.relu().sort(0), torch.argsort(x > 0, dim=0, descending=True, stable=True), x.topk(3, 0)),
        _ROWS,
        _ROW,
    ),
    "unique": (
        lambda x: (torch.unique(x, return_inverse=True, return_counts=True), torch.unique(x.view(-1, 1) // 2, dim=0)),
        [(i64(6, n, seed=n),) for n in (10, 5, 7)],
        _ROW,
    ),
    "choices": (
        lambda x: (x[x[:, 0] > 0], x.masked_select(x > 0), torch.nonzero_static(x > 0, size=9), torch.where(x > 0)),
        _ROWS,
        _ROW,
    ),
}


def bounded_bins(x: Any) -> Any:
    found = torch.bincount(x, minlength=3)
    torch._check(found.shape[0] <= 10)
    return found


def from_items(x: Any, n: Any) -> Any:
    count = n.item()
    torch._check(count >= 1)
    torch._check(count <= 4)
    padded = F.pad(x, (0, 0, 0, count))
    return x[:count], x.repeat(count, 1), padded, torch.arange(count), x.topk(count, 0), x.select(0, count)


DATA: dict[str, Row] = {
    "bincount": (bounded_bins, [(i64(6, n, seed=n),) for n in (10, 5, 7)], _ROW),
    "item": (from_items, [(f32(8, 3), torch.tensor(n)) for n in (2, 4, 1)], None),
}


@pytest.mark.parametrize("name", [*SHAPES, *DATA])
def test_both_runtimes(name: str) -> None:
    """One program for each target; the stock runtime runs its own, etir's runs both."""
    function, calls, dynamic = (SHAPES | DATA)[name]
    module = function if isinstance(function, nn.Module) else Function(function)
    shapes = dynamic if isinstance(function, nn.Module) or dynamic is None else (dynamic,)
    expected = eager(module, calls)
    with torch.no_grad():
        program = torch.export.export(module.eval(), fresh(calls[0]), dynamic_shapes=shapes)
    for target in ("executorch", "etir"):
        data = compile_program(program, target=target).buffer
        loaded = etir.runtime.load(data)["forward"]
        assert_same(trace(lambda flat: loaded(*flat), calls), expected, f"etir's runtime, {target}", 1e-4)  # noqa: B023
        if target == "executorch":
            assert_same(stock(data, calls), expected, "stock runtime", 1e-4)
