"""Modules by what their signatures hold: outputs, state, dynamic sizes."""

from __future__ import annotations

from typing import Any

import torch

from etir_testing.interop.program_runs import f32

OUTPUTS: dict[str, Any] = {
    "input": lambda x: (x, x + 1),
    "only_the_input": lambda x: (x,),
    "repeated": lambda x: (y := x + 1, y, y),
    "repeated_input": lambda x: (x, x),
    "view_of_input": lambda x: x.reshape(3, 2),
    "view_and_base": lambda x: ((y := x + 1), y.reshape(3, 2), y[0], y[1]),
    "transposed": lambda x: ((x + 1).t(), x.t()),
    "parts_of_input": lambda x: (x[0], x[1], x[1:] * 2, x[:1] + x[1:]),
    "constant": lambda x: (x + 1, torch.ones(2), torch.tensor(3)),
    "only_constants": lambda x: (torch.ones(2, 3), 4),
    "none_and_numbers": lambda x: (None, x + 1, 3, True, 2.5, None),
    "string": lambda x: ("abc", x * 2),
    "nested": lambda x: {"a": [x + 1, (x * 2, None)], "b": {"c": x}},
    "zero_dims": lambda x: (x.sum(), x.mean(), (x > 0).any()),
    "empty": lambda x: (x[:0], x[:, 3:], torch.cat([x[:0], x])),
    "several_results": lambda x: (*x.max(1), *x.topk(2, 1)),
    "one_of_several": lambda x: (x.max(1).indices, x.topk(2, 1).values),
    "list_results": lambda x: (*x.split(1, 0), *x.unbind(1), *x.chunk(2, 1)),
    "list_partly_used": lambda x: x.split([1, 2], 1)[1] + 1,
}


class Buffers(torch.nn.Module):
    """Mutable buffers; ``step`` says what a call does with them."""

    def __init__(self, step: Any, **buffers: torch.Tensor):
        super().__init__()
        self.step = step
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args: Any) -> Any:
        return self.step(self, *args)


def accumulate(m, x):
    m.a.add_(x)
    return m.a * 2


def returns_state(m, x):
    m.a.add_(x)
    return m.a.clone()


def returns_old(m, x):
    old = m.a.clone()
    m.a.add_(x)
    return old


def returns_old_and_new(m, x):
    old = m.a.clone()
    m.a.mul_(2).add_(x)
    return old, m.a.clone(), old + m.a


def swap(m, x):
    a, b = m.a.clone(), m.b.clone()
    m.a.copy_(b)
    m.b.copy_(a + x)
    return m.a - m.b


def rotate(m, x):
    a, b, c = m.a.clone(), m.b.clone(), m.c.clone()
    m.a.copy_(b)
    m.b.copy_(c)
    m.c.copy_(a)
    return m.a + x


def stores_input(m, x):
    old = m.a + 0
    m.a.copy_(x)
    return old


def stores_view(m, x):
    m.a.copy_((m.a + x).reshape(3, 2).flip(0).reshape(2, 3))
    return m.a.sum()


def counter(m, x):
    m.n.add_(1)
    return x * m.n


def unused_result(m, x):
    m.a.copy_(x * 2)
    return x + 1


def same_value_twice(m, x):
    new = x + m.a
    m.a.copy_(new)
    m.b.copy_(new)
    return new


def in_branch(m, x):
    new = torch.cond(x.sum() > 0, lambda x, a: a + x, lambda x, a: a * 2, (x, m.a.clone()))
    m.a.copy_(new)
    return new


STATE: dict[str, Any] = {
    "accumulate": (accumulate, {"a": torch.zeros(2, 3)}),
    "with_initial_data": (accumulate, {"a": f32(2, 3, seed=9)}),
    "returns_state": (returns_state, {"a": f32(2, 3, seed=9)}),
    "returns_old": (returns_old, {"a": f32(2, 3, seed=9)}),
    "returns_old_and_new": (returns_old_and_new, {"a": f32(2, 3, seed=9)}),
    "swap": (swap, {"a": f32(2, 3, seed=9), "b": f32(2, 3, seed=8)}),
    "rotate": (rotate, {name: f32(2, 3, seed=i) for i, name in enumerate("abc")}),
    "stores_input": (stores_input, {"a": f32(2, 3, seed=9)}),
    "stores_view": (stores_view, {"a": f32(2, 3, seed=9)}),
    "counter": (counter, {"n": torch.zeros((), dtype=torch.int64)}),
    "unused_result": (unused_result, {"a": torch.zeros(2, 3)}),
    "same_value_twice": (same_value_twice, {"a": f32(2, 3, seed=9), "b": torch.zeros(2, 3)}),
    "in_branch": (in_branch, {"a": f32(2, 3, seed=9)}),
}


DYNAMIC: dict[str, Any] = {
    "pointwise": lambda x: (x + 1).relu() * x,
    "reshape": lambda x: (x + 1).reshape(-1, 4),
    "reshape_one": lambda x: (x + 1).reshape(x.shape[0], -1),
    "merge_heads": lambda x: x.reshape(x.shape[0], x.shape[1], 2, 2).transpose(1, 2).reshape(x.shape[0], 2, -1),
    "split_heads": lambda x: x.view(x.shape[0], -1, 2, 2).permute(0, 2, 1, 3) * 2,
    "sizes_as_outputs": lambda x: (x + 1, x.shape[0], x.shape[1] * 2 + 1),
    "arithmetic": lambda x: x * x.shape[0] * 3 + x.shape[1] // 2,
    "slices": lambda x: (x[:, 2:], x[:, :-2], x[:1]),
    "select": lambda x: (x[0], x[:, 1], x[:, -1]),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "expand": lambda x: (x[:, :1] + 1).expand(-1, x.shape[1], -1) * 1.5,
    "unsqueeze": lambda x: (x.unsqueeze(1) + 1).squeeze(1),
    "softmax": lambda x: x.softmax(1),
    "matmul": lambda x: x @ x.transpose(1, 2),
    "sums": lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)),
    "arange": lambda x: torch.arange(x.shape[1]) + 1,
    "zeros": lambda x: torch.zeros(x.shape[0], x.shape[1]) + x[..., 0],
    "full": lambda x: torch.full((x.shape[1], 2), 1.5),
    "mask": lambda x: torch.where(torch.arange(x.shape[1])[None, :, None] < 2, x, 0.0),
    "view_output": lambda x: (x + 1).view(x.shape[0] * x.shape[1], 4),
    "flatten_output": lambda x: x.flatten(),
    "tril": lambda x: torch.ones(x.shape[1], x.shape[1]).tril() @ x,
}
