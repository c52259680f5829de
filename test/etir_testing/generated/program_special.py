"""The operators of programs whose values are special: infinities, NaN, zeros with a sign, the limits of dtypes.

None of them depends on an order of additions, or on the sign of a NaN: two right results may differ then.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from etir_testing.generated.program_operators import kind_of


def special(r: random.Random, a: str, t: torch.Tensor, other: Callable[[], str]) -> str:
    """A new tensor computed from ``a``."""
    rank = t.dim()
    dim = r.randrange(-rank, rank) if rank else 0
    kind = kind_of(t)
    choices = [
        f"torch.where({a} == {other()}, {a}, {other()})",
        f"{a} == {other()}",
        f"{a} != {other()}",
        f"{a}.clone()",
        f"torch.stack([{a}, {other()}.expand({a}.shape)])",
        f"torch.isnan({a})",
        f"{a}.to(torch.bool)",
    ]
    if kind != "complex":
        choices += [
            f"{a}.max()",
            f"{a}.amin()",
            f"{a} < {other()}",
            f"torch.maximum({a}, {other()})",
            f"torch.minimum({a}, {other()})",
            f"torch.sign({a})",
        ]
        if rank and kind != "bool":
            choices.append(f"{a}.argmax({dim})")
        if rank:
            choices += [
                f"{a}.amax({dim})",
                f"{a}.min({dim}).values",
                f"{a}.sort({dim}, stable=True).values",
                f"{a}.flip({dim})",
            ]
    if kind in ("float", "half"):
        choices += _floats(r, a, other)
        if rank:
            choices += [f"{a}.softmax({dim})", f"{a}.cummax({dim}).values"]
        if kind == "float":
            choices += [
                f"torch.{name}({a})"
                for name in ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "expm1", "log1p", "atan", "erf", "sinh")
            ]
            choices += [f"{a}.pow({r.choice([2, 3, -1])})", f"torch.atan2({a}, {other()})"]
    if kind == "int":
        choices += [
            f"{a} + {other()}",
            f"{a} - {other()}",
            f"{a} * {r.choice([2, 3, -1])}",
            f"{a} // {r.choice([2, 3])}",
            f"{a} % {r.choice([2, 5])}",
            f"torch.remainder({a}, 3)",
            f"{a} & {other()}",
            f"{a} ^ {other()}",
            f"{a}.clamp(-3, 5)",
            f"{a}.to({r.choice([torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8])})",
            f"{a}.to({r.choice([torch.float32, torch.float64])})",
            f"{a} >> 1",
            f"{a} << 1",
            f"{a}.sum()",
            f"torch.bitwise_not({a})",
            f"{a}.neg()",
            f"torch.div({a}, 3, rounding_mode='trunc')",
            f"{a} / 4",
        ]
        if t.dtype is not torch.uint8:
            choices.append(f"{a}.abs()")
    if kind == "bool":
        choices += [f"~{a}", f"{a} | {other()}", f"{a}.to(torch.{r.choice(['int32', 'float32'])})", f"{a}.any()"]
    return r.choice(choices)


def _floats(r: random.Random, a: str, other: Callable[[], str]) -> list[str]:
    return [
        f"{a} + {other()}",
        f"{a} - {other()}",
        f"{a} * {other()}",
        f"{a} / {other()}",
        f"1 / {a}",
        f"{a}.abs()",
        f"-{a}",
        f"torch.relu({a})",
        f"{a}.clamp(-1, 1)",
        f"torch.isfinite({a})",
        f"torch.isinf({a})",
        f"torch.signbit(torch.nan_to_num({a}))",
        f"torch.copysign({a}, torch.nan_to_num({other()}))",
        f"torch.floor({a})",
        f"torch.round({a})",
        f"torch.trunc({a})",
        f"torch.nan_to_num({a}, 1.0, 2.0, 3.0)",
        f"torch.fmod({a}, 2)",
        f"torch.remainder({a}, 2)",
        f"torch.where({a} > 0, {a}, {other()})",
        f"torch.nn.functional.hardtanh({a})",
        f"torch.nn.functional.leaky_relu({a}, 0.1)",
        f"torch.nn.functional.hardswish({a})",
        f"torch.nan_to_num({a}, 0.0, 5.0, -5.0).clamp(-9, 9).to({r.choice([torch.int64, torch.int32, torch.int8])})",
        f"{a}.to({r.choice([torch.float32, torch.float64, torch.bfloat16])})",
        f"torch.fmax({a}, {other()})",
        f"torch.heaviside({a}, {a})",
        f"torch.logaddexp({a}, {other()})",
        f"torch.nn.functional.softplus({a})",
        f"torch.nn.functional.elu({a})",
        f"torch.nn.functional.silu({a})",
        f"torch.xlogy({a}, {other()})",
    ]


def special_mutation(r: random.Random, a: str, t: torch.Tensor, other: Callable[[], str]) -> str:
    """A statement that changes ``a``."""
    kind = kind_of(t)
    literals = {
        "float": ["float('inf')", "float('nan')", "-0.0", "1e-40"],
        "half": ["float('-inf')", "float('nan')"],
        "int": ["0", "1", "127"],
        "bool": ["True", "False"],
        "complex": ["1j"],
    }
    literal = r.choice(literals[kind])
    choices = [
        f"{a}.copy_({other()})",
        f"{a}.fill_({literal})",
        f"{a}.masked_fill_({a} == {other()}, {literal})",
        f"{a}[...] = {literal}",
    ]
    if t.dim():
        dim = r.randrange(t.dim())
        choices += [
            f"{a}.select({dim}, 0).fill_({literal})",
            f"{a}.narrow({dim}, 0, 1).copy_({other()}.expand({a}.shape).narrow({dim}, 0, 1).clone())",
        ]
    if kind in ("float", "half"):
        choices += [f"{a}.{name}_()" for name in ("neg", "abs", "relu", "floor", "sign")]
        choices += [f"{a}.clamp_(-1, 1)", f"{a}.mul_({other()})", f"{a}.add_({other()})", f"{a}.div_({other()})"]
    if kind == "int":
        choices += [f"{a}.add_({other()})", f"{a}.mul_(2)", f"{a}.neg_()", f"{a}.remainder_(5)", f"{a} ^= {other()}"]
    if kind == "bool":
        choices += [f"{a}.logical_not_()", f"{a} |= {other()}"]
    return r.choice(choices)
