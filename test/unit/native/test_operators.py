"""Every operator that the delegate takes, with arguments drawn at random, against eager.

Programs of one operator or two; a draw that the delegate leaves to the kernels, with its reason, counts as such: most
have to be taken.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402

Draw = random.Random
Case = tuple[nn.Module, tuple[Any, ...]]


class Function(nn.Module):
    """A function as a module, before a linear layer that makes a partition of it worth while."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs: Any) -> Any:
        for layer in self.layers:
            inputs = (layer(*inputs),)
        return self.function(*inputs)


def convolution(draw: Draw) -> Case:
    """Of images and signals: steps, borders, dilated windows, groups, an activation after it."""
    signal = draw.random() < 0.4
    groups = draw.choice([1, 1, 1, 2, 3])
    per_group = draw.choice([1, 3, 8, 17])
    channels, out = groups * per_group, groups * draw.choice([8, 9, 33])
    size, stride, dilation = (draw.randint(1, 5) for _ in range(3))
    stride, dilation = min(stride, 3), min(dilation, 2)
    padding = draw.randint(0, size)
    kind = nn.Conv1d if signal else nn.Conv2d
    layer: Any = kind(channels, out, size, stride, padding, dilation, groups, bias=draw.random() < 0.5)
    reach = dilation * (size - 1) + 1
    sides = [draw.randint(reach, reach + 9) for _ in range(1 if signal else 2)]
    act = draw.choice([torch.relu, F.gelu, F.silu, lambda x: x * 0.5, lambda x: (x + 1.0) * torch.tanh(x) - x])
    return Function(act, layer), (torch.randn(draw.randint(1, 2), channels, *sides),)


def images_of_one_pixel(draw: Draw) -> Case:
    """Borders around what is only a border's inside: a residual block on its last image."""
    channels, groups = draw.choice([16, 40]), draw.choice([1, 2])
    first, second = nn.Conv2d(12, channels, 3, 2, 1), nn.Conv2d(channels, channels, 3, padding=1)
    norms = [nn.GroupNorm(groups, channels) for _ in range(2)]
    side = draw.randint(1, 2)

    def block(x: Any) -> Any:
        y = first(x)
        return torch.relu(norms[1](second(torch.relu(norms[0](y)))) + F.adaptive_avg_pool2d(y, (1, 1)))

    return Function(block), (torch.randn(2, 12, side, side),)


def transposed(draw: Draw) -> Case:
    """Transposed convolutions."""
    signal = draw.random() < 0.3
    stride = draw.randint(1, 3)
    size = draw.randint(stride, stride + 3)
    channels, out = draw.choice([3, 16, 20]), draw.choice([1, 5, 40])
    kind = nn.ConvTranspose1d if signal else nn.ConvTranspose2d
    layer: Any = kind(
        channels, out, size, stride, draw.randint(0, size - 1), draw.randint(0, stride - 1), bias=draw.random() < 0.5
    )
    sides = [draw.randint(3, 9) for _ in range(1 if signal else 2)]
    return Function(torch.relu, layer), (torch.randn(draw.randint(1, 2), channels, *sides),)


def depthwise(draw: Draw) -> Case:
    """A window for each channel."""
    channels, size = draw.choice([5, 16, 35]), draw.randint(1, 5)
    dilation = draw.randint(1, 2)
    layer = nn.Conv2d(channels, channels, size, draw.randint(1, 2), size // 2, dilation, groups=channels)
    reach = dilation * (size - 1) + 1
    return Function(F.hardswish, layer), (torch.randn(2, channels, reach + 5, reach + 3),)


def pool(draw: Draw) -> Case:
    """Windows without weights."""
    size, stride = draw.randint(1, 4), draw.randint(1, 3)
    x = torch.randn(2, draw.choice([3, 16, 21]), draw.randint(8, 13), draw.randint(8, 13))
    conv = nn.Conv2d(x.shape[1], 19, 1)
    which = draw.randrange(5)
    if which == 4:
        # Windows that fill the image: rounding their number up cuts none.
        whole = x[..., : 2 * size, : 3 * size]
        return Function(lambda y: F.avg_pool2d(y, size, size, ceil_mode=True), conv), (whole,)
    if which == 0:
        padding, ceil = draw.randint(0, size // 2), draw.random() < 0.5
        return Function(lambda y: F.max_pool2d(y, size, stride, padding, ceil_mode=ceil), conv), (x,)
    if which == 1:
        padding, all_count = draw.randint(0, size // 2), draw.random() < 0.5
        # Rounding the number of windows up cuts the last ones, and a mean is of what is left of them.
        ceil = not (all_count and padding) and draw.random() < 0.5
        return Function(lambda y: F.avg_pool2d(y, size, stride, padding, ceil, all_count), conv), (x,)
    if which == 2:
        return Function(lambda y: F.adaptive_avg_pool2d(y[..., :8, :8], draw_even), conv), (x,)
    return Function(lambda y: F.max_pool1d(y[:, :, 0], size, stride), conv), (x,)


draw_even = (4, 2)


def reduction(draw: Draw) -> Case:
    """Sums, means and extremes along some dims, of what a product or a convolution made."""
    image = draw.random() < 0.5
    x = torch.randn(2, 5, 7, 9) if image else torch.randn(3, 6, 20)
    layer: nn.Module = nn.Conv2d(5, 18, 1) if image else nn.Linear(20, 33)
    rank = x.dim()
    dims = draw.sample(range(rank), draw.randint(1, rank))
    keep = draw.random() < 0.5
    function = draw.choice([torch.mean, torch.sum, torch.amax, torch.amin])
    return Function(lambda y: function(y, dims, keep) * 2.0, layer), (x,)


def normalized(draw: Draw) -> Case:
    """Roots of sums of squares along some dims, and what is divided by them; norms of rows with a scale alone."""
    image = draw.random() < 0.5
    x = torch.randn(2, 5, 7, 9) if image else torch.randn(3, 6, 20)
    layer: nn.Module = nn.Conv2d(5, 18, 1) if image else nn.Linear(20, 33)
    dims = draw.sample(range(x.dim()), draw.randint(1, x.dim()))
    keep = draw.random() < 0.5
    scaled = nn.LayerNorm(x.shape[-1] if image else 33, bias=False)
    nn.init.normal_(scaled.weight)

    def function(y: Any) -> Any:
        return torch.linalg.vector_norm(y, 2, dims, keep) + 1.0, F.normalize(scaled(y), dim=dims[0])

    made = Function(function, layer)
    made.scaled = scaled
    return made, (x,)


def softmax(draw: Draw) -> Case:
    """Along every dim, and its logarithm."""
    x = torch.randn(2, 6, draw.choice([5, 16, 37])) * 4
    dim = draw.randrange(3)
    function = draw.choice([F.softmax, F.log_softmax])
    return Function(lambda y: function(y, dim), nn.Linear(x.shape[-1], draw.choice([11, 32]))), (x,)


def norm(draw: Draw) -> Case:
    """Norms of rows, of groups of channels, of the batch."""
    which = draw.randrange(4)
    if which == 0:
        return nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24, elementwise_affine=draw.random() < 0.7)), (
            torch.randn(3, 5, 12) + 1,
        )
    if which == 1:
        layer: nn.Module = nn.LayerNorm((6, 24))
        nn.init.normal_(layer.weight)
        return nn.Sequential(nn.Linear(12, 24), layer), (torch.randn(3, 6, 12),)
    channels = draw.choice([8, 32])
    if which == 2:
        layer = nn.GroupNorm(draw.choice([1, 4, 8]), channels, affine=draw.random() < 0.7)
    else:
        layer = nn.BatchNorm2d(channels, affine=draw.random() < 0.7, track_running_stats=False)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), layer, nn.ReLU()), (torch.randn(2, 3, 7, 6),)


def joins(draw: Draw) -> Case:
    """Parts of a larger tensor: what is computed there and what is copied."""
    dim = draw.randrange(3)
    count = draw.randint(1, 3)
    layer = nn.Linear(10, 18)
    conv = nn.Conv2d(4, 12, 3, padding=1)
    which = draw.randrange(5)
    pads = [draw.randint(-1, 3) for _ in range(4)]
    wider = [abs(pad) for pad in pads]

    def rows(x: Any) -> Any:
        y = layer(x)
        parts = [torch.relu(y), y * 2.0, layer(x + 1.0)][:count]
        around = torch.cat([F.pad(y[:, 1:], [0, 0, 0, 1]), y, F.pad(y[:, :-1], [0, 0, 1, 0])], 2)
        return around, torch.cat([*parts, y], dim) if which == 0 else torch.stack([*parts, y], dim)

    def images(x: Any) -> Any:
        y = conv(x)
        parts = torch.cat([torch.relu(y), conv(x * 0.5), y], 1)
        first, *rest = parts.split([10, 16, 10], 1)
        return torch.cat([first, F.pixel_shuffle(rest[0], 2)[:, :, ::2, ::2], F.pad(rest[1], wider)[..., :5, :5]], 1)

    def moved(x: Any) -> Any:
        y = conv(x)
        y = F.pad(F.glu(y, 1), pads, value=0.25)
        return conv(torch.cat([y, y], 1)[:, :4]), torch.unbind(F.interpolate(y, scale_factor=2), 1)[2]

    if which < 2:
        return Function(rows), (torch.randn(3, 2, 10),)
    return Function(images if which < 4 else moved), (torch.randn(2, 4, 5, 5),)


def scatters(draw: Draw) -> Case:
    """Slices that another tensor takes the place of: at any place, with a step, of images."""
    layer, conv = nn.Linear(10, 18), nn.Conv2d(4, 8, 3, padding=1)
    dim, step = draw.randrange(3), draw.choice([1, 1, 2, 3])
    start = draw.choice([0, 1, -2, 2])

    def rows(x: Any) -> Any:
        y = layer(x)
        part = torch.tanh(y).narrow(dim, 0, 2)
        first, end = (start, None) if step == 1 else (draw_first, draw_first + step + 1)
        if step == 1:
            part = part.narrow(dim, 0, len(range(y.shape[dim])[start:][:2]))
            end = (start + y.shape[dim] if start < 0 else start) + part.shape[dim]
        return torch.slice_scatter(y, part, dim, first, end, step) + y

    def images(x: Any) -> Any:
        y = conv(x)
        return conv(torch.slice_scatter(y, torch.relu(y[:, :3]), 1, 2, 5)[:, 1:5])

    draw_first = draw.choice([0, 1])
    if draw.random() < 0.3:
        return Function(images), (torch.randn(2, 4, 5, 6),)
    return Function(rows), (torch.randn(6, 7, 10),)


def rolls(draw: Draw) -> Case:
    """Parts that change places: along any dims, one of them twice, or of a tensor as a whole."""
    which = draw.randrange(3)
    shift = [draw.choice([-9, -3, -1, 0, 1, 2, 5, 11]) for _ in range(3)]
    layer = nn.Linear(10, 18)
    conv = nn.Conv2d(4, 12, 3, padding=1)

    def rows(x: Any) -> Any:
        y = layer(x)
        return torch.roll(y, shift, (0, 2, draw_dim)), torch.roll(torch.relu(y).transpose(0, 1), shift[0])

    def images(x: Any) -> Any:
        y = torch.roll(conv(x), (shift[0], shift[1]), (2, 3))
        return conv(y[:, 4:8]) + y, torch.roll(y.permute(0, 2, 3, 1), (shift[1], shift[2]), (1, 2))

    def windows(x: Any) -> Any:
        y = torch.roll(layer(x), shift[0], 1).reshape(3, 2, 3, 9).transpose(1, 2)
        return torch.roll(y.reshape(3, -1), shift[2], -1), torch.cat([y, torch.roll(y, shift[1], 2)], 1)

    draw_dim = draw.choice([1, 2, -1])
    if which == 1:
        return Function(images), (torch.randn(2, 4, 5, 6),)
    return Function(rows if which == 0 else windows), (torch.randn(3, 3, 10),)


def curves(draw: Draw) -> Case:
    """Functions of one number that are several operators for others, far to both sides as well."""
    beta, threshold = draw.choice([1.0, 0.5, 3.0, -2.0]), draw.choice([20.0, 1.0, -3.0])
    layer = nn.Linear(9, 21)
    scale = draw.choice([1.0, 40.0])
    return Function(lambda x: F.softplus(x * scale, beta, threshold), layer), (torch.randn(4, 9),)


def waves(draw: Draw) -> Case:
    """Sines and cosines, in the tile of a product and before one, of numbers small and large, and e^x - 1."""
    layer, scale = nn.Linear(9, 21), draw.choice([1.0, 1e3, 1e5, 1e30])

    def waved(x: Any) -> Any:
        y = layer(torch.cos(x)) + layer(torch.sin(x)) * x.new_ones(21)
        return torch.sin(y * 3.0).pow(2) + torch.cos(y), torch.expm1(y)

    return Function(waved), (torch.randn(4, 9) * scale,)


def differences(draw: Draw) -> Case:
    """A number, or a multiple of it, from which something is taken, in the tile of a product and without one."""
    alpha, layer = draw.choice([1, 0.5]), nn.Linear(9, 21)
    return Function(lambda x: torch.rsub(torch.rsub(x, 0.25, alpha=alpha).exp(), 1.5), layer), (torch.randn(4, 9),)


def constant_choices(draw: Draw) -> Case:
    """By truth values that are weights, or a constant of few numbers, of as many dims or fewer."""
    layer, dims = nn.Linear(9, 21), draw.choice([(4, 21), (1, 4, 21), (4, 1)])
    layer.register_buffer("chosen", torch.rand(dims) > 0.5)
    other = draw.choice([0.0, float("-inf")])

    def chosen(x: Any) -> Any:
        few = torch.arange(4).view(4, 1) > 1
        return torch.exp(torch.where(layer.chosen, x, other)), torch.where(few, torch.relu(x), x * 2.0)

    return Function(chosen, layer), (torch.randn(4, 9),)


def runs(draw: Draw) -> Case:
    """Slices that are spelled as their indices, before a product and after one."""
    start, step, dim = draw.randint(0, 2), draw.randint(1, 3), draw.randrange(3)
    layer, end = nn.Linear(9, 21), draw.randint(start + 1, 5)

    def sliced(x: Any) -> Any:
        return torch.relu(x.index_select(dim, torch.arange(start, end, step))), x

    return Function(sliced, layer), (torch.randn(6, 5, 9),)


def products(draw: Draw) -> Case:
    """Matrices of every kind, with views between them."""
    b, m, k, n = (draw.choice([1, 2, 7, 16, 33]) for _ in range(4))
    which = draw.randrange(4)
    weight = torch.randn(k, n)
    if which == 0:
        return Function(lambda x: torch.tanh(x @ weight) / 3.0), (torch.randn(b, m, k),)
    if which == 1:
        return Function(lambda x, y: torch.bmm(x.transpose(1, 2), y).exp()), (
            torch.randn(b, k, m),
            torch.randn(b, k, n),
        )
    if which == 2:
        return Function(lambda x, y: torch.log1p((x @ y).pow(2)) - y.sum()), (torch.randn(m, k), torch.randn(k, n))
    return Function(lambda x: (x.permute(0, 2, 1) @ weight).permute(0, 2, 1).reshape(b * n, -1)), (
        torch.randn(b, k, m),
    )


CASES = [
    convolution,
    images_of_one_pixel,
    transposed,
    depthwise,
    pool,
    reduction,
    normalized,
    softmax,
    norm,
    joins,
    rolls,
    scatters,
    curves,
    waves,
    differences,
    constant_choices,
    runs,
    products,
]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_operators_agree_with_eager(make: Callable[[Draw], Case]) -> None:
    taken = 0
    count = COUNTS.get(make.__name__, 6)
    for seed in range(count):
        torch.manual_seed(seed)
        module, inputs = make(random.Random(f"{make.__name__} {seed}"))
        module = module.eval()
        with torch.no_grad():
            found = module(*inputs)
        wanted = [found] if isinstance(found, torch.Tensor) else list(found)
        exported = torch.export.export(module, inputs)
        program = etir.compile(exported, target="etir", delegates=["native{cpus=" + CPU + "}"])
        assert program.delegation is not None
        taken += bool(program.delegation.backends[0].partitions)
        for policy in ("trusted", "refuse"):
            results = etir.runtime.load(program, native=policy).forward(*inputs)
            for got, want in zip(results, wanted, strict=True):
                assert got.shape == want.shape
                assert (got - want).abs().max() <= 1e-5 * want.abs().max(), (seed, policy)
    assert taken >= 0.7 * count


COUNTS = {"convolution": 12, "transposed": 8, "joins": 10}
CPU = "x86-64-v3"
