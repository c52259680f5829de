"""Functions with conditionals and loops that several tests compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop


def cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    return torch.cond(predicate, then, otherwise, operands)


def chained(x, y):
    a = cond(x.sum() > 0, lambda x, y: x + y, lambda x, y: x * y, (x, y))
    return cond(y.sum() > 0, lambda a, y: a - y, lambda a, y: a * 2 + y, (a, y))


def nested(x, y):
    def inner(x, y):
        return cond(y.sum() > 0, lambda x, y: x + y, lambda x, y: x - y, (x, y))

    return cond(x.sum() > 0, inner, lambda x, y: x * y, (x, y))


def count_up(x):
    def condition(i, x):
        return i < 5

    def body(i, x):
        return i + 1, x * 1.5 + i

    return while_loop(condition, body, (torch.tensor(0), x))
