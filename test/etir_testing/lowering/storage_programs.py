"""Random modules whose tensors share storage: chains of views, ``as_strided`` of them, writes; buffers that alias.

A program is built by running it: each step picks an operator that fits a live tensor, calls torch, and is kept for the
module's ``forward``, which runs the same steps.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor, nn

Step = tuple[str, int, tuple[Any, ...]]


def places(tensor: Tensor) -> Tensor:
    """Which element of its storage each element of a tensor is."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return torch.arange(count).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def overlaps(tensor: Tensor) -> bool:
    """Whether two elements of a tensor are one in memory."""
    return places(tensor).unique().numel() != tensor.numel()


def views(r: random.Random, t: Tensor) -> list[tuple[str, tuple[Any, ...]]]:
    """Views that fit ``t``, with arguments."""
    rank = t.dim()
    found: list[tuple[str, tuple[Any, ...]]] = [("unsqueeze", (r.randint(0, rank),)), ("squeeze", ())]
    if t.is_complex():
        found += [("real", ()), ("imag", ())]
        if not t.is_conj():
            found.append(("view_as_real", ()))
    if not rank:
        return found
    dim = r.randrange(rank)
    size = t.shape[dim]
    order = r.sample(range(rank), rank)
    found += [("permute", (order,)), ("reshape", ([-1],)), ("unbind_last", (dim,))]
    found.append(("select", (dim, r.randrange(-size, size))))
    if size > 1:
        start = r.randrange(size - 1)
        found.append(("narrow", (dim, start, r.randint(1, size - start))))
        found.append(("slice", (dim, r.randrange(-size, size - 1), size, r.randint(1, 2))))
        found.append(("chunk_last", (dim, 2)))
        window = r.randint(1, size)
        found.append(("unfold", (dim, window, r.randint(1, 3))))
    if rank > 1:
        first, second = r.sample(range(rank), 2)
        found += [("transpose", (first, second)), ("diagonal", (r.randint(-1, 1), first, second))]
    found.append(("expand", ([2, *t.shape],)))
    if size % 2 == 0:
        found.append(("unflatten", (dim, (2, size // 2))))
    return found


def call(name: str, t: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    """One step on one tensor."""
    match name:
        case "real":
            return torch.real(t)
        case "imag":
            return torch.imag(t)
        case "view_as_real":
            return torch.view_as_real(t)
        case "unbind_last":
            return t.unbind(*arguments)[-1]
        case "chunk_last":
            return t.chunk(arguments[1], arguments[0])[-1]
        case "slice":
            return torch.ops.aten.slice.Tensor(t, *arguments)
        case "affine":
            return t * 2 + 1
        case "channels_last":
            return t.clone(memory_format=torch.channels_last)
        case "bits":
            return t.view(torch.int32)
        case _:
            return getattr(t, name)(*arguments)


def strided(r: random.Random, t: Tensor) -> tuple[Any, ...]:
    """Sizes, strides and an offset that lie in the storage of ``t``; the offset may be left out."""
    count = t.untyped_storage().nbytes() // t.element_size()
    with_offset = r.random() < 0.7
    offset = r.randrange(count) if with_offset else t.storage_offset()
    left = count - 1 - offset
    size: list[int] = []
    stride: list[int] = []
    for _ in range(r.randint(0, 3)):
        step = r.randint(0 if r.random() < 0.2 else 1, 8)
        most = 4 if step == 0 else left // step + 1
        n = r.randint(1, max(1, min(4, most)))
        left -= (n - 1) * step
        size.append(n)
        stride.append(step)
    order = r.sample(range(len(size)), len(size))
    size, stride = [size[i] for i in order], [stride[i] for i in order]
    return (size, stride, offset) if with_offset else (size, stride)


class StorageProgram(nn.Module):
    """Views of inputs, buffers and results, ``as_strided`` of them and, with ``writes``, changes through them."""

    def __init__(self, seed: int, *, writes: bool, steps: int = 10):
        super().__init__()
        r = random.Random(seed)
        self.register_buffer("cache", torch.arange(24.0).reshape(2, 3, 4) * 0.5)
        self.register_buffer("turned", torch.arange(12.0).reshape(3, 4).t())
        self.register_buffer("part", torch.arange(20.0)[3:15].reshape(4, 3))
        self.steps: list[Step] = []
        image = torch.arange(48.0).reshape(2, 3, 2, 4)
        pairs = torch.arange(24.0).reshape(2, 6, 2)
        formats = [
            image,
            image.to(memory_format=torch.channels_last),
            image.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
        ]
        self.example = (r.choice(formats), torch.view_as_complex(pairs))
        with torch.no_grad():
            live = self._sources(*(t.clone() for t in self.example))
            state = {name: value.clone() for name, value in self.named_buffers()}
            for _ in range(steps):
                self._step(r, live, writes)
            for name, value in state.items():
                self.get_buffer(name).copy_(value)
        self.returned = sorted(
            {*r.sample(range(len(live)), min(6, len(live))), *range(max(0, len(live) - 6), len(live))}
        )

    def _sources(self, x: Tensor, c: Tensor) -> list[Tensor]:
        return [x, c, self.cache, self.turned, self.part, x * 1.5]

    def _step(self, r: random.Random, live: list[Tensor], writes: bool) -> None:
        index = r.choice([r.randrange(len(live)), len(live) - 1])
        t = live[index]
        kind = r.random()
        if kind < 0.3:
            name, arguments = "as_strided", strided(r, t)
        elif kind < 0.4:
            choices = ["affine", "clone", "contiguous"]
            if t.dim() == 4:
                choices.append("channels_last")
            if t.dtype is torch.float32:
                choices.append("bits")
            name, arguments = r.choice(choices), ()
        elif writes and kind < 0.6:
            if t.untyped_storage().data_ptr() == live[0].untyped_storage().data_ptr() and not live[0].is_contiguous():
                return  # inputs that are channels last and changed are the matter of other tests
            name, arguments = (
                ("fill_", (r.randint(-9, 9),))
                if overlaps(t)
                else r.choice([("add_", (1,)), ("mul_", (3,)), ("zero_", ())])
            )
        else:
            name, arguments = r.choice(views(r, t))
        made = call(name, t, arguments)
        if made.numel() == 0:
            return
        self.steps.append((name, index, arguments))
        live.append(made)

    def forward(self, x: Tensor, c: Tensor) -> list[Tensor]:
        live = self._sources(x, c)
        for name, index, arguments in self.steps:
            live.append(call(name, live[index], arguments))
        return [_plain(live[i]) for i in self.returned]


def _plain(t: Tensor) -> Tensor:
    """A copy without complex numbers."""
    return torch.view_as_real(t.resolve_conj()).clone() if t.is_complex() else t * 1


class AliasedState(nn.Module):
    """Buffers and attributes that are views of one another, and writes through them."""

    def __init__(self, seed: int, *, steps: int = 6):
        super().__init__()
        r = random.Random(seed)
        base = (
            torch.arange(24.0).reshape(4, 6)
            if r.random() < 0.7
            else torch.view_as_complex(torch.arange(48.0).reshape(4, 6, 2))
        )
        tensors = [base]
        for _ in range(r.randint(2, 5)):
            t = r.choice(tensors)
            if r.random() < 0.25:
                made = t.as_strided(*strided(r, t))
            else:
                name, arguments = r.choice(views(r, t))
                made = call(name, t, arguments)
            if made.numel() and not made.is_conj() and not made.is_neg():
                tensors.append(made)
        if r.random() < 0.3:
            tensors = tensors[1:] or tensors
        r.shuffle(tensors)
        self.names = [f"part{i}" for i in range(len(tensors))]
        for name, t in zip(self.names, tensors, strict=True):
            if r.random() < 0.7:
                self.register_buffer(name, t, persistent=r.random() < 0.8)
            else:
                setattr(self, name, t)
        self.steps = []
        for _ in range(steps):
            i = r.randrange(len(tensors))
            if overlaps(tensors[i]):
                self.steps.append(("read", i))
            else:
                self.steps.append((r.choice(["add_", "mul_", "copy_", "read"]), i))

    def parts(self) -> list[Tensor]:
        return [getattr(self, name) for name in self.names]

    def forward(self, x: Tensor) -> list[Tensor]:
        seen = []
        for name, index in self.steps:
            t = getattr(self, self.names[index])
            if name == "read":
                seen.append(_plain(t))
            elif name == "copy_":
                t.copy_((t * 2 - x).to(t.dtype))
            else:
                getattr(t, name)(x)
        return [*seen, *(_plain(t) for t in self.parts())]


class AliasedReader(nn.Module):
    """Another method over an :class:`AliasedState`: it reads some of the parts and writes one."""

    def __init__(self, state: AliasedState, seed: int):
        super().__init__()
        r = random.Random(seed)
        self.state = state
        self.read = r.sample(range(len(state.names)), min(2, len(state.names)))
        written = [i for i in range(len(state.names)) if not overlaps(state.parts()[i])]
        self.written = r.choice(written) if written else None

    def forward(self, x: Tensor) -> list[Tensor]:
        parts = self.state.parts()
        if self.written is not None:
            parts[self.written].sub_(x)
        return [_plain(parts[i]) for i in self.read]
