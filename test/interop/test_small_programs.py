"""A table of small modules as users write them: exported, compiled, run on the stock runtime, compared with eager.

Unlike ``test_signatures.py``, the exported graphs are not made functional by torch first: in-place operators, views and
composite operators arrive at the compiler as torch.export leaves them. Every entry is one row: a function or a module,
and the inputs of its calls; those in ``DYNAMIC`` are called with other sizes than they were exported with.
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

from etir.driver import compile_program  # noqa: E402

from etir_testing.interop.program_runs import Calls, Function, assert_same, eager, error_of, f32, fresh, i64, stock  # noqa: E402
from etir_testing.models.seeding import seed_weights  # noqa: E402


class Step(nn.Module):
    """A function of the module's state and the inputs."""

    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def channels_last(x: Any) -> Any:
    return x.to(memory_format=torch.channels_last)


def run(module: Any, calls: Calls, tolerance: float = 1e-5, **options: Any) -> None:
    """Export with the inputs of the first call, compile, run all calls on one loaded method, compare with eager."""
    module = seed_weights(module if isinstance(module, nn.Module) else Function(module), 5)
    expected = eager(module, calls)
    with torch.no_grad():
        program = torch.export.export(module, fresh(calls[0]), **options)
    data = compile_program(program).buffer
    assert_same(stock(data, calls), expected, "stock runtime", tolerance)


# --- operators --------------------------------------------------------------------------------------------------------

_ROWS = f32(3, 6)
_PICTURE = f32(1, 4, 9, 9)

OPERATORS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "activations": (lambda x: F.hardswish(x) + F.silu(x) + F.mish(x) + F.softplus(x) + F.elu(x) + F.selu(x), (_ROWS,)),
    "more_activations": (
        lambda x: F.gelu(x, approximate="tanh") + F.softmin(x, 1) + F.threshold(x, 0.1, 2.0) + F.softshrink(x),
        (_ROWS,),
    ),
    "glu": (lambda x: F.glu(x), (_ROWS,)),
    "prelu": (nn.PReLU(8), (f32(2, 8, 3),)),
    "group_norm": (nn.GroupNorm(2, 8), (f32(2, 8, 4, 4),)),
    "instance_norm": (nn.InstanceNorm2d(8, affine=True), (f32(2, 8, 4, 4),)),
    "rms_norm": (nn.RMSNorm(8), (f32(2, 8),)),
    "transposed_convolution": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (f32(1, 4, 5, 5),)),
    "convolution_1d": (nn.Conv1d(4, 6, 3, padding="same"), (f32(1, 4, 9),)),
    "grouped_convolution": (nn.Conv2d(4, 8, 3, groups=4), (_PICTURE,)),
    "max_pool": (nn.MaxPool2d(3, 2, 1), (_PICTURE,)),
    "average_pool": (nn.AvgPool2d(3, 2, 1), (_PICTURE,)),
    "adaptive_pool": (nn.AdaptiveAvgPool2d((4, 3)), (_PICTURE,)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (_PICTURE,)),
    "bilinear": (lambda x: F.interpolate(x, size=(7, 9), mode="bilinear"), (_PICTURE,)),
    "bicubic": (lambda x: F.interpolate(x, size=(7, 9), mode="bicubic"), (_PICTURE,)),
    "padding": (lambda x: (F.pad(x, (1, 2, 0, 1), value=1.5), F.pad(x, (1, 2, 1, 1), mode="reflect")), (_PICTURE,)),
    "pixel_shuffle": (nn.PixelShuffle(2), (f32(1, 8, 3, 3),)),
    "im2col": (lambda x: F.unfold(x, 3), (f32(1, 2, 5, 5),)),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        (f32(1, 2, 5, 5), f32(1, 3, 3, 2, seed=1).tanh()),
    ),
    "channels_last": (
        channels_last(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU6(inplace=True), nn.MaxPool2d(2))),
        (channels_last(f32(1, 3, 9, 9)),),
    ),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), (f32(2, 3, 4), f32(2, 5, 4, seed=1))),
    "products": (
        lambda x, y: (
            x @ y,
            x[0] @ y[0],
            x[0, 0] @ y[0, 0],
            x[0, 0] @ y[0, 0, :, 0],
            torch.outer(x[0, 0, 0], y[0, 0, 0]),
        ),
        (f32(2, 2, 3, 4), f32(2, 2, 4, 5, seed=1)),
    ),
    "distances": (lambda x, y: torch.cdist(x, y), (f32(1, 5, 8), f32(1, 4, 8, seed=1))),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (f32(1, 2, 5, 8),)),
    "multi_head_attention": (
        nn.MultiheadAttention(16, 4, batch_first=True),
        (f32(1, 5, 16), f32(1, 5, 16, seed=1), f32(1, 5, 16, seed=2)),
    ),
    "gru": (nn.GRU(8, 6, batch_first=True, bidirectional=True), (f32(1, 4, 8),)),
    "rnn": (nn.RNN(8, 6), (f32(4, 1, 8),)),
    "projected_lstm": (nn.LSTM(8, 6, proj_size=3), (f32(4, 1, 8),)),
    "embedding_bag": (nn.EmbeddingBag(10, 4, mode="mean"), (i64(10, 2, 3),)),
    "one_hot": (lambda x: F.one_hot(x, 10), (i64(10, 2, 3),)),
    "losses": (lambda x, y: (F.mse_loss(x, x * 2), F.cross_entropy(x, y)), (f32(3, 4), i64(4, 3))),
    "statistics": (lambda x: (x.var(1) + x.std(1), F.normalize(x), x.logsumexp(1), x.prod(1)), (_ROWS,)),
    "extremes": (lambda x: (x.min(), x.max(1), x.amin(1), torch.aminmax(x, dim=1), x.topk(3), x.argmax(1)), (_ROWS,)),
    "sums": (lambda x: (x.cumsum(1), x.sum(), x.mean(0), (x > 0).sum(1), torch.count_nonzero(x, 1)), (_ROWS,)),
    "gathering": (
        lambda x, i: (x.gather(1, i), x[:, i[0]], x.index_select(1, i[1]), x[i[:, 0] % 3, i[:, 1]]),
        (_ROWS, i64(6, 3, 3)),
    ),
    "scattering": (
        lambda x, i, s: (x.scatter(1, i, s), x.scatter_add(1, i, s), x.index_add(1, i[0], s[:, :2])),
        (_ROWS, torch.tensor([[0, 1], [2, 3], [4, 5]]), f32(3, 2, seed=1)),
    ),
    "selection from a tensor without dims": (
        lambda x: (torch.where(x > 0, x, torch.tensor(7)), torch.where(x > 0, torch.tensor(0.5), x)),
        (torch.arange(-3, 3, dtype=torch.int8).reshape(2, 3),),
    ),
    "masking": (lambda x: (x.masked_fill(x > 0, -1.0), torch.where(x > 0, x, 0.5), x.tril(), x.triu(1)), (f32(5, 5),)),
    "searching": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), (_ROWS,)),
    "joining": (
        lambda x: (torch.stack([x, x * 2], 1), torch.cat([c * 2 for c in x.chunk(3, 1)]), sum(x.unbind(0))),
        (_ROWS,),
    ),
    "repeating": (lambda x: (x.repeat(2, 3), x.repeat_interleave(2, 1), x.expand(2, 3, 6) + 1), (_ROWS,)),
    "moving": (
        lambda x: (x.flip(1), x.roll(2, 1), x.t().contiguous().view(-1), x.unflatten(1, (2, 3)).permute(2, 0, 1)),
        (_ROWS,),
    ),
    "windows": (lambda x: (x.unfold(1, 3, 1), x.as_strided((2, 2), (1, 2))), (_ROWS,)),
    "meshes": (lambda x: torch.meshgrid(x[0], x[:, 1], indexing="ij"), (_ROWS,)),
    "integers": (lambda x: ((x * 2 + 1) // 3 % 5, (x > 1) & (x < 5) | ~(x == 3), (x << 1) ^ 5), (i64(90, 3, 4),)),
    "casts": (lambda x: (x.int().float() + x.long(), x.double().sin(), x.bool(), x.to(torch.int8)), (_ROWS * 5,)),
    "mixed_types": (lambda x, y: (x + y, x * 2, y / 2, y**2, y.float().mean() + y), (_ROWS, i64(9, 3, 6))),
    "numbers": (lambda x, n, f: (x[:n] * f, x + n), (_ROWS, 2, 1.5)),
    "rounding": (lambda x: x.trunc() + x.frac() + x.round() + torch.fmod(x, 0.7) + torch.remainder(x, 0.3), (_ROWS,)),
    "fused": (
        lambda x: torch.addcmul(x, x, x, value=2) + torch.lerp(x, x * 2, 0.3) + torch.xlogy(x.abs(), x.abs()),
        (_ROWS,),
    ),
    "device": (lambda x: (x.to("cpu") + 1, x.to(device="cpu", dtype=torch.int64), x.cpu()), (_ROWS,)),
    "in_place_views": (
        lambda x: (y := x.clone(), y.view(-1)[::2].zero_(), y.t()[1].add_(5), y.diagonal().neg_()),
        (f32(4, 6),),
    ),
    "in_place_inputs": (lambda x, y: (x.add_(1), y[:, 1:3].mul_(2), x.sum() + y), (f32(3, 3), f32(3, 4, seed=1))),
}


@pytest.mark.parametrize("name", list(OPERATORS))
def test_operators(name: str) -> None:
    module, inputs = OPERATORS[name]
    run(module, [inputs])


# --- dynamic sizes ----------------------------------------------------------------------------

_N = Dim("n", min=1, max=9)
_M = Dim("m", min=1, max=9)


def _lengths(*lengths: int, width: int = 6) -> Calls:
    return [(f32(n, width, seed=n),) for n in lengths]


def _rotated(x: Any) -> Any:
    """Rotary position embedding (Su et al., 2021) on [batch, tokens, heads, width], angles computed at run time."""
    tokens, width = x.shape[1], x.shape[3]
    frequencies = 1.0 / (10000 ** (torch.arange(0, width, 2).float() / width))
    angles = torch.outer(torch.arange(tokens).float(), frequencies)[None, :, None]
    a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(3)


class _Attention(nn.Module):
    """Self-attention whose queries, keys and values come out of one product: [batch, tokens, 8], both dynamic."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any, mask: Any) -> Any:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


_FIRST = ({0: _N},)
DYNAMIC: dict[str, tuple[Any, Calls, Any]] = {
    "unbind": (lambda x: x.unbind(1)[1:], _lengths(3, 1, 9), _FIRST),
    "split": (lambda x: (*x.split([1, 2, 3], 1)[1:], *x.chunk(2, 1)), _lengths(3, 1, 9), _FIRST),
    "creation": (
        lambda x: (x + torch.ones(x.shape[0], 6), torch.arange(x.shape[0]), torch.ones(x.shape[0], x.shape[0]).tril()),
        _lengths(3, 1, 9),
        _FIRST,
    ),
    "reductions": (lambda x: (x.mean(0), x.amax(0), x.softmax(0), x.cumsum(0), x.argmax(0)), _lengths(3, 1, 9), _FIRST),
    "slices": (
        lambda x: (x[1:], x[:-1], x[::2], x[-1], x.flip(0), x.flatten()),
        _lengths(3, 5, 9),
        ({0: Dim("k", min=3, max=9)},),
    ),
    "concatenation": (
        lambda x, y: (z := torch.cat([x, y]), F.pad(z, (1, 0, 1, 0)), z.mean(0)),
        [(f32(m, 4), f32(n, 4, seed=1)) for m, n in ((3, 2), (1, 1), (9, 5))],
        ({0: _M}, {0: _N}),
    ),
    "rotary": (_rotated, [(f32(2, n, 2, 8),) for n in (5, 2, 9)], ({1: Dim("t", min=2, max=9)},)),
    "attention": (
        _Attention(),
        [(f32(b, t, 8), torch.ones(b, t, dtype=torch.int64)) for b, t in ((2, 5), (1, 2), (9, 9))],
        ({0: _N, 1: Dim("t", min=2, max=9)},) * 2,
    ),
    "convolution": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        [(f32(n, 3, 6, 6),) for n in (2, 1, 9)],
        _FIRST,
    ),
    "branches": (
        lambda x: torch.cond(x.shape[0] > 4, lambda x: x.sum(0), lambda x: x.amax(0), (x,)),
        _lengths(3, 6, 9),
        _FIRST,
    ),
}


@pytest.mark.parametrize("name", list(DYNAMIC))
def test_dynamic_sizes(name: str) -> None:
    module, calls, sizes = DYNAMIC[name]
    run(module, calls, dynamic_shapes=sizes if isinstance(module, nn.Module) else (sizes,))


# --- state ------------------------------------------------------------------------------------------------------------


def _append(self: Any, x: Any, position: Any) -> Any:
    self.cache.index_copy_(0, position, x)
    return self.cache.sum(0)


def _assign(self: Any, x: Any, position: Any) -> Any:
    self.cache[position] = x
    return self.cache.sum(0)


def _assign_slice(self: Any, x: Any, position: Any) -> Any:
    start = position.item()
    torch._check(start >= 0)
    torch._check(start < 4)
    self.cache[start : start + 1] = x
    return self.cache.sum(0)


def _scatter(self: Any, x: Any, position: Any) -> Any:
    self.cache.scatter_(0, position[:, None].expand(1, 3), x)
    return self.cache.sum(0)


def _select(self: Any, x: Any, position: Any) -> Any:
    self.cache.copy_(torch.where((torch.arange(4) == position)[:, None], x, self.cache))
    return self.cache.sum(0)


def _shift(self: Any, x: Any, _position: Any) -> Any:
    self.cache.copy_(self.cache.roll(-1, 0))
    self.cache[-1:] = x
    return self.cache.sum(0)


def _branch(self: Any, x: Any, position: Any) -> Any:
    self.cache.add_(1)
    big = self.cache.sum() > 20
    return torch.cond(big, lambda x, c: (x * 2, c + x), lambda x, c: (x - 1, c * x), (x, self.cache + position))


STATE: dict[str, Callable[..., Any]] = {
    "index_copy": _append,
    "index_assignment": _assign,
    "slice_assignment": _assign_slice,
    "scatter": _scatter,
    "where": _select,
    "shift": _shift,
    "branch": _branch,
}


@pytest.mark.parametrize("name", list(STATE))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_state(name: str, dtype: torch.dtype) -> None:
    """Four steps on one loaded method, with caches of several types."""
    calls = [((f32(1, 3, seed=i) * 4).to(dtype), torch.tensor([i])) for i in range(4)]
    run(Step(STATE[name], cache=torch.zeros(4, 3, dtype=dtype)), calls, 1e-2 if dtype == torch.float16 else 1e-5)


# --- what the stock runtime cannot run --------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, tuple[Any, ...], str, str]] = {
    "dtype": (lambda x: x.acos(), (_ROWS.to(torch.complex64),), "E0604", "'self' is COMPLEXFLOAT"),
    "not_core": (lambda x: torch.lgamma(x), (_ROWS,), "E0410", "aten.lgamma.default"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused(name: str) -> None:
    """The error names the operator and its line."""
    module, inputs, id, words = REFUSED[name]
    error = error_of(lambda: run(module, [inputs]))
    assert error.ids == (id,) and words in str(error)
    place = error.diagnostics[0].location
    assert place is not None and place.line
