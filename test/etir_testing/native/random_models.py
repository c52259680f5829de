"""Models made at random: a few steps over images, signals, rows and matrices, with operands in every layout.

A model is a list of steps. Each takes a value that is there and makes another one; what was made before is a second
operand, a part of a concatenation, the same tensor twice, or a result. Sizes lie around multiples of vectors, panels
and register tiles.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Step = Callable[[list[Any]], Any]
MOST_ELEMENTS = 12_000
ACTIVATIONS: Sequence[Callable[[Any], Any]] = (
    torch.relu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, torch.sigmoid, torch.tanh, F.hardswish,
    F.hardsigmoid, F.elu, lambda x: F.leaky_relu(x, 0.2), F.relu6, torch.abs, torch.neg, torch.erf,
    lambda x: torch.exp(x.clamp(-4.0, 4.0)), lambda x: torch.sqrt(x.abs() + 0.5), lambda x: torch.rsqrt(x * x + 1.0),
    lambda x: torch.log1p(x.abs()), lambda x: torch.log(x.abs() + 0.1), lambda x: x.clamp(min=-0.5),
    lambda x: x.clamp(max=0.5), lambda x: torch.reciprocal(x * x + 2.0), lambda x: x.pow(2), lambda x: x.pow(3) * 0.1,
    lambda x: 1.5 - x, lambda x: 2.0 / (x.abs() + 1.0), lambda x: F.softplus(x), lambda x: F.mish(x),
)  # fmt: skip


class Model(nn.Module):
    """The steps that a seed stands for; ``inputs`` are what it takes."""

    def __init__(self, seed: int, steps: int = 6) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.parts = nn.ModuleList()
        self.constants = nn.ParameterList()
        self.steps: list[Step] = []
        self.said: list[str] = []
        shapes = [self._shape() for _ in range(self.chance.choice([1, 1, 2]))]
        if len(shapes) == 2 and self.chance.random() < 0.5:
            shapes[1] = shapes[0]
        self.inputs = tuple(self.numbers(shape) for shape in shapes)
        values: list[Any] = list(self.inputs)
        while len(self.steps) < steps:
            source = self.chance.randrange(max(0, len(values) - 3), len(values))
            rules = RULES.get(values[source].dim(), ANY)
            rule = self.chance.choice(rules)
            kept = len(self.parts), len(self.constants)
            step = rule(self, values, source)
            try:
                with torch.no_grad():
                    made = None if step is None else step(values)
            except (RuntimeError, IndexError, ValueError):
                made = None  # these sizes do not go together
            usable = made is not None and 0 < made.numel() <= MOST_ELEMENTS and made.dtype == torch.float32
            if not usable or not bool(made.isfinite().all()) or float(made.abs().max()) > 1e4:
                self.parts, self.constants = self.parts[: kept[0]], nn.ParameterList([*self.constants][: kept[1]])
                continue
            self.steps.append(step)
            self.said.append(f"%{len(values)} = {rule.__name__} %{source}: {list(made.shape)}")
            values.append(made)
        late = range(len(values) // 2, len(values))
        self.results = [len(values) - 1, *self.chance.choices(late, k=self.chance.choice([0, 1, 2]))]

    def forward(self, *inputs: Any) -> Any:
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        return tuple(values[number] for number in self.results)

    # --- draws ------------------------------------------------------------------------------------------------------

    def numbers(self, shape: Sequence[int]) -> Any:
        """Normal numbers."""
        return torch.randn(tuple(shape), generator=self.generator)

    def size(self, *multiples: int) -> int:
        """A size near a multiple of one of these numbers."""
        return max(1, self.chance.choice(multiples) * self.chance.randint(1, 3) + self.chance.choice([-1, 0, 0, 1]))

    def _shape(self) -> tuple[int, ...]:
        chance = self.chance
        batch = chance.choice([1, 1, 2, 3])
        return chance.choice([
            (batch, self.size(1, 3, 8, 16), self.size(1, 4, 7), self.size(1, 4, 7)),
            (batch, self.size(1, 3, 8, 16), self.size(1, 4, 7), self.size(1, 4, 7)),
            (batch, self.size(1, 5, 14), self.size(4, 16)),
            (batch, self.size(1, 5, 14), self.size(4, 16)),
            (self.size(1, 6, 14), self.size(4, 16)),
        ])  # fmt: skip

    def part(self, module: nn.Module) -> Callable[[Any], Any]:
        """A layer with parameters that are drawn."""
        for parameter in module.parameters():
            fan = math.prod(parameter.shape[1:]) if parameter.dim() > 1 else 1
            parameter.data = self.numbers(parameter.shape) / math.sqrt(max(1, fan))
        for name, buffer in module.named_buffers():
            if "running" in name:
                buffer.copy_(self.numbers(buffer.shape).abs() + 0.5)
        self.parts.append(module.eval())
        number = len(self.parts) - 1
        return lambda x: self.parts[number](x)

    def constant(self, shape: Sequence[int]) -> Callable[[], Any]:
        """A parameter."""
        self.constants.append(nn.Parameter(self.numbers(shape)))
        number = len(self.constants) - 1
        return lambda: self.constants[number]


# --- of any shape -----------------------------------------------------------------------------------------------------


def activation(m: Model, values: list[Any], i: int) -> Step:
    """One elementwise operator or two."""
    first, second = m.chance.choice(ACTIVATIONS), m.chance.choice((lambda x: x, *ACTIVATIONS))
    return lambda v: second(first(v[i]))


def binary(m: Model, values: list[Any], i: int) -> Step | None:
    """With another value that can be broadcast, or with itself."""
    others = [j for j, v in enumerate(values) if _together(v.shape, values[i].shape)]
    j = m.chance.choice(others)
    function = m.chance.choice([
        torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda x, y: x / (y.abs() + 1.0),
        lambda x, y: torch.add(x, y, alpha=0.5), lambda x, y: x + y * y, lambda x, y: x * torch.sigmoid(y),
    ])  # fmt: skip
    return lambda v: function(v[i], v[j])


def _together(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def with_constant(m: Model, values: list[Any], i: int) -> Step:
    """With a parameter that is broadcast along some dims."""
    shape = [1 if m.chance.random() < 0.4 else n for n in values[i].shape]
    shape = shape[m.chance.randint(0, len(shape)) :] if m.chance.random() < 0.5 else shape
    other = m.constant(shape)
    function = m.chance.choice([torch.add, torch.mul, torch.sub, torch.maximum, lambda x, y: y - x])
    return lambda v: function(v[i], other())


def permuted(m: Model, values: list[Any], i: int) -> Step:
    """Dims in another order, and maybe a copy."""
    order = m.chance.sample(range(values[i].dim()), values[i].dim())
    dense = m.chance.random() < 0.3
    return lambda v: v[i].permute(order).contiguous() if dense else v[i].permute(order)


def reshaped(m: Model, values: list[Any], i: int) -> Step:
    """Neighboring dims as one, or a dim as two."""
    shape = list(values[i].shape)
    d = m.chance.randrange(len(shape)) if shape else 0
    if len(shape) > 1 and m.chance.random() < 0.6:
        d = m.chance.randrange(len(shape) - 1)
        shape[d : d + 2] = [shape[d] * shape[d + 1]]
    elif shape and len(shape) < 5:
        factors = [f for f in range(1, shape[d] + 1) if shape[d] % f == 0]
        f = m.chance.choice(factors)
        shape[d : d + 1] = [f, shape[d] // f]
    return lambda v: v[i].reshape(shape)


def sliced(m: Model, values: list[Any], i: int) -> Step | None:
    """Some indices of a dim, or one."""
    shape = values[i].shape
    if not shape:
        return None
    d = m.chance.randrange(len(shape))
    if m.chance.random() < 0.3:
        index = m.chance.randrange(shape[d])
        return lambda v: v[i].select(d, index)
    start, step = m.chance.randint(0, shape[d] - 1), m.chance.choice([1, 1, 2, 3])
    stop = m.chance.randint(start + 1, shape[d])
    index = (*[slice(None)] * d, slice(start, stop, step))
    return lambda v: v[i][index]


def joined(m: Model, values: list[Any], i: int) -> Step | None:
    """Values along a dim, some of them computed for it alone."""
    shape = list(values[i].shape)
    if not shape:
        return None
    d = m.chance.randrange(len(shape))
    stacked = m.chance.random() < 0.3
    same = [j for j, v in enumerate(values) if list(v.shape) == shape]
    others = [
        j for j, v in enumerate(values)
        if v.dim() == len(shape) and all(a == b or e == d for e, (a, b) in enumerate(zip(v.shape, shape, strict=True)))
    ]  # fmt: skip
    chosen = [m.chance.choice(same if stacked else others) for _ in range(m.chance.randint(1, 3))]
    acts = [m.chance.choice((lambda x: x, *ACTIVATIONS[:6])) for _ in chosen]

    def step(v: list[Any]) -> Any:
        parts = [v[i], *(act(v[j]) for act, j in zip(acts, chosen, strict=True))]
        return torch.stack(parts, d) if stacked else torch.cat(parts, d)

    return step


def split_and_joined(m: Model, values: list[Any], i: int) -> Step | None:
    """Parts of a dim, each another way, together again."""
    shape = values[i].shape
    if not shape or max(shape) < 2:
        return None
    d = m.chance.choice([d for d, n in enumerate(shape) if n > 1])
    at = m.chance.randint(1, shape[d] - 1)
    act = m.chance.choice(ACTIVATIONS)
    return lambda v: torch.cat([act(p) if n else p for n, p in enumerate(v[i].split([at, shape[d] - at], d))][::-1], d)


def padded(m: Model, values: list[Any], i: int) -> Step | None:
    """Numbers around it, or less of it."""
    count = m.chance.randint(1, values[i].dim()) if values[i].dim() else 0
    pads = [m.chance.choice([0, 0, 1, 2, -1]) for _ in range(2 * count)]
    value = m.chance.choice([0.0, 0.0, 1.5, -2.0])
    return (lambda v: F.pad(v[i], pads, value=value)) if count else None


def reduced(m: Model, values: list[Any], i: int) -> Step | None:
    """One number for all elements of some dims."""
    rank = values[i].dim()
    dims = m.chance.sample(range(-rank, 0), m.chance.randint(1, rank)) if rank else [0]
    keep = m.chance.random() < 0.5
    function = m.chance.choice([torch.mean, torch.sum, torch.amax, torch.amin])
    if m.chance.random() < 0.15:
        return lambda v: torch.var(v[i], dims, keepdim=keep, correction=0)
    return lambda v: function(v[i], dims, keepdim=keep)


def softmax(m: Model, values: list[Any], i: int) -> Step | None:
    """Along a dim."""
    d = m.chance.randrange(max(1, values[i].dim()))
    function, shift = m.chance.choice([F.softmax, F.log_softmax]), m.chance.choice([0.0, 0.0, 100.0])
    return (lambda v: function(v[i] + shift, d)) if values[i].dim() else None


def expanded(m: Model, values: list[Any], i: int) -> Step:
    """A new dim, of one index or of several of the same."""
    d, count = m.chance.randint(0, values[i].dim()), m.chance.randint(1, 3)
    return lambda v: v[i].unsqueeze(d).expand(*v[i].shape[:d], count, *v[i].shape[d:])


def linear(m: Model, values: list[Any], i: int) -> Step | None:
    """A layer along the last dim, with the same weights twice sometimes."""
    if not values[i].dim():
        return None
    n = values[i].shape[-1]
    twice = m.chance.random() < 0.15
    layer = m.part(nn.Linear(n, n if twice else m.size(1, 8, 16, 32), bias=m.chance.random() < 0.7))
    act = m.chance.choice((lambda x: x, *ACTIVATIONS))
    return lambda v: layer(act(layer(v[i]))) if twice else act(layer(v[i]))


def norm(m: Model, values: list[Any], i: int) -> Step | None:
    """A norm along the last dims."""
    if values[i].dim() < 2:
        return None
    layer = m.part(nn.LayerNorm(values[i].shape[-m.chance.randint(1, 2) :], elementwise_affine=m.chance.random() < 0.7))
    offset = m.chance.choice([0.0, 0.0, 10.0])
    return lambda v: layer(v[i] + offset)


# --- images and signals -----------------------------------------------------------------------------------------------


def _bias(m: Model) -> bool:
    return m.chance.random() < 0.6


def convolution(m: Model, values: list[Any], i: int) -> Step:
    """With groups, steps, borders, dilated windows, and an operator on its own bias sometimes."""
    x, chance = values[i], m.chance
    rank = x.dim() - 2
    groups = chance.choice([1, 1, 1, *(g for g in (2, 3, 4) if x.shape[1] % g == 0)])
    out = groups * m.size(1, 4, 8, 16)
    size, stride, dilation, padding = (
        [chance.randint(1, most) for _ in range(rank)] for most in (4, 3, 2, 3)
    )  # fmt: skip
    padding = [p - 1 for p in padding]
    kind = nn.Conv1d if rank == 1 else nn.Conv2d
    layer = m.part(kind(x.shape[1], out, size, stride, padding, dilation, groups, _bias(m)))
    number = len(m.parts) - 1
    act = chance.choice((lambda y: y, *ACTIVATIONS))
    if m.parts[number].bias is not None and chance.random() < 0.15:
        return lambda v: act(layer(v[i])) + m.parts[number].bias
    return lambda v: act(layer(v[i]))


def depthwise(m: Model, values: list[Any], i: int) -> Step:
    """A window for each channel."""
    x, chance = values[i], m.chance
    size, stride, dilation = chance.randint(1, 5), chance.randint(1, 3), chance.randint(1, 3)
    kind = nn.Conv1d if x.dim() == 3 else nn.Conv2d
    c = x.shape[1]
    layer = m.part(kind(c, c, size, stride, chance.randint(0, size), dilation, c, _bias(m)))
    act = chance.choice((lambda y: y, *ACTIVATIONS))
    return lambda v: act(layer(v[i]))


def transposed(m: Model, values: list[Any], i: int) -> Step:
    """A transposed convolution."""
    x, chance = values[i], m.chance
    stride = chance.randint(1, 3)
    size = chance.randint(max(1, stride - 1), stride + 2)
    kind = nn.ConvTranspose1d if x.dim() == 3 else nn.ConvTranspose2d
    out, padding = m.size(1, 5, 16), chance.randint(0, size - 1)
    layer = m.part(kind(x.shape[1], out, size, stride, padding, chance.randint(0, stride - 1), bias=_bias(m)))
    act = chance.choice((lambda y: y, *ACTIVATIONS))
    return lambda v: act(layer(v[i]))


def pool(m: Model, values: list[Any], i: int) -> Step:
    """Windows without weights, of every option."""
    chance = m.chance
    size, stride = [chance.randint(1, 4) for _ in range(2)], chance.choice([None, 1, 2, 3])
    padding, ceil, count = [chance.randint(0, n // 2) for n in size], chance.random() < 0.4, chance.random() < 0.5
    which, dilation = chance.randrange(5), chance.choice([1, 1, 2])
    wanted = [chance.choice([1, 1, 2, 3]) for _ in range(2)]
    if values[i].dim() == 3:
        return lambda v: F.max_pool1d(v[i], size[0], stride, padding[0], dilation, ceil)
    if which < 2:
        return lambda v: F.max_pool2d(v[i], size, stride, padding, dilation, ceil)
    if which < 4:
        return lambda v: F.avg_pool2d(v[i], size, stride, padding, ceil, count)
    return lambda v: F.adaptive_avg_pool2d(v[i], wanted)


def upsample(m: Model, values: list[Any], i: int) -> Step:
    """Each element several times, or sums of the nearest ones."""
    scale, whole = m.chance.choice([2, 3, 2.5, 1.7]), m.chance.random() < 0.5
    size = [n * m.chance.randint(1, 3) for n in values[i].shape[2:]]
    kind: dict[str, Any] = {"size": size} if whole else {"scale_factor": scale}
    if m.chance.random() < 0.5:
        kind |= {"mode": "bilinear", "align_corners": m.chance.random() < 0.5}
    return lambda v: F.interpolate(v[i], **kind)


def shuffle(m: Model, values: list[Any], i: int) -> Step:
    """Channels become rows and columns."""
    return lambda v: F.pixel_shuffle(v[i], 2)


def norm_of_channels(m: Model, values: list[Any], i: int) -> Step:
    """Of groups of channels, or of the batch."""
    c = values[i].shape[1]
    groups = m.chance.choice([g for g in range(1, c + 1) if c % g == 0])
    affine = m.chance.random() < 0.7
    batch = (nn.BatchNorm1d if values[i].dim() == 3 else nn.BatchNorm2d)(
        c, affine=affine, track_running_stats=m.chance.random() < 0.5
    )
    layer = m.part(m.chance.choice([nn.GroupNorm(groups, c, affine=affine), batch]))
    return lambda v: layer(v[i])


def gated(m: Model, values: list[Any], i: int) -> Step:
    """Half of the channels as gates of the others."""
    d = m.chance.randrange(values[i].dim())
    return lambda v: F.glu(v[i], d)


def squeezed_and_excited(m: Model, values: list[Any], i: int) -> Step:
    """Channels scaled by what their means say."""
    c = values[i].shape[1]
    first, second = m.part(nn.Conv2d(c, max(1, c // 2), 1)), m.part(nn.Conv2d(max(1, c // 2), c, 1))
    return lambda v: v[i] * torch.sigmoid(second(torch.relu(first(v[i].mean((2, 3), keepdim=True)))))


# --- rows and matrices ------------------------------------------------------------------------------------------------


def product(m: Model, values: list[Any], i: int) -> Step | None:
    """Of two values, or of one with itself."""
    x = values[i]
    others = [j for j, v in enumerate(values) if v.dim() == x.dim() and v.shape[:-2] == x.shape[:-2]]
    ways = [
        (j, a, b) for j in others for a in (0, 1) for b in (0, 1)
        if (x.mT if a else x).shape[-1] == (values[j].mT if b else values[j]).shape[-2]
    ]  # fmt: skip
    if not ways:
        return None
    j, a, b = m.chance.choice(ways)
    scale = m.chance.choice([1.0, 0.25, 1.0 / math.sqrt(x.shape[-1])])
    after = m.chance.random() < 0.5
    act = m.chance.choice((lambda y: y, *ACTIVATIONS))

    def step(v: list[Any]) -> Any:
        left, right = v[i].mT if a else v[i], v[j].mT if b else v[j]
        return act((left @ right) * scale if after else (left * scale) @ right)

    return step


def with_bias(m: Model, values: list[Any], i: int) -> Step:
    """``addmm`` with a bias that is broadcast in some way."""
    rows, depth = values[i].shape
    n = m.size(1, 8, 16)
    weight = m.constant((depth, n))
    bias = m.constant(m.chance.choice([(n,), (rows, n), (1, n), (rows, 1), (1,)]))
    return lambda v: torch.addmm(bias(), v[i], weight())


def attention(m: Model, values: list[Any], i: int) -> Step | None:
    """Heads, with a mask or without one, from one value or from two."""
    b, t, d = values[i].shape
    heads = m.chance.choice([h for h in (1, 2, 3, 4) if d % h == 0])
    others = [j for j, v in enumerate(values) if v.dim() == 3 and v.shape[0] == b and v.shape[2] == d]
    j = m.chance.choice(others)
    q, k, w = (m.part(nn.Linear(d, d)) for _ in range(3))
    mask = m.constant(m.chance.choice([(t, values[j].shape[1]), (1, values[j].shape[1])]))
    masked, causal = m.chance.random() < 0.4, m.chance.random() < 0.2

    def split(x: Any) -> Any:
        return x.reshape(b, -1, heads, d // heads).transpose(1, 2)

    def step(v: list[Any]) -> Any:
        left, keys, others = split(q(v[i])), split(k(v[j])), split(w(v[j]))
        if causal and i == j:
            found = F.scaled_dot_product_attention(left, keys, others, is_causal=True)
        else:
            found = F.scaled_dot_product_attention(left, keys, others, attn_mask=mask() if masked else None)
        return found.transpose(1, 2).reshape(b, t, d)

    return step


ANY: list[Callable[[Model, list[Any], int], Step | None]] = [
    activation, binary, with_constant, permuted, reshaped, sliced, joined, split_and_joined, padded, reduced, softmax,
    expanded, linear, norm,
]  # fmt: skip
RULES: dict[int, list[Callable[[Model, list[Any], int], Step | None]]] = {
    4: [
        *ANY, *[convolution, pool] * 3, *[depthwise, transposed, norm_of_channels] * 2, upsample, shuffle, gated,
        squeezed_and_excited, product, binary,
    ],
    3: [
        *ANY, *[linear, norm, attention, product] * 2, convolution, depthwise, transposed, pool, norm_of_channels,
        gated,
    ],
    2: [*ANY, linear, linear, norm, product, with_bias, gated],
}  # fmt: skip
"""What is made of values of so many dims."""
