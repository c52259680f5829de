"""The operators of generated programs, as source for a given tensor.

Every function takes the choice of numbers, the tensor that it is about (its source and a meta tensor), and a way to
get an operand that broadcasts to it. Nothing is promised of a text: what does not run on meta tensors is drawn again.
Values stay small, so that sums, powers and exponentials do not leave the range in which two correct runs agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

Other = Callable[[], str]
"""The source of a tensor of the same kind that broadcasts to the one at hand."""

FLOATS = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)
KINDS = {
    torch.bool: 0,
    **dict.fromkeys(INTEGERS, 1),
    **dict.fromkeys(HALVES, 2),
    **dict.fromkeys(FLOATS, 3),
    torch.complex64: 4,
}
"""The dtypes of programs. One of a lower kind can be an operand where the result has a higher one."""
_NAMES = ("bool", "int", "half", "float", "complex")


def kind_of(tensor: torch.Tensor) -> str:
    """``float``, ``half``, ``int``, ``bool`` or ``complex``."""
    return _NAMES[KINDS[tensor.dtype]]


def _dim(r: random.Random, t: torch.Tensor) -> int:
    return r.randrange(-t.dim(), t.dim()) if t.dim() else 0


def _index(r: random.Random, size: int, count: int, *, wraps: bool = True) -> str:
    """Indices within ``size``, negative ones too if the operator ``wraps`` them."""
    low = -size if wraps else 0
    return f"torch.tensor({[r.randrange(low, size) if size else 0 for _ in range(count)]})"


def _permuted(r: random.Random, count: int) -> list[int]:
    order = list(range(count))
    r.shuffle(order)
    return order


# --- views ----------------------------------------------------------------------------------------------------------


def subscript(r: random.Random, t: torch.Tensor) -> str:
    """A basic index: numbers, slices, ``None`` and ``...``."""
    parts: list[str] = []
    for size in t.shape:
        draw = r.random()
        if draw < 0.35 and size:
            parts.append(str(r.randrange(-size, size)))
        elif draw < 0.75:
            start = r.choice(["", str(r.randrange(0, size + 1)), "-2"])
            parts.append(f"{start}:{r.choice(['', '', str(size), '-1', '9'])}{r.choice(['', '', ':2'])}")
        elif draw < 0.9:
            parts.append(":")
        else:
            parts.append("None, :")
    while parts and r.random() < 0.3:
        parts.pop()
    if r.random() < 0.2:
        parts.insert(0, "...")
        parts = parts[:2] if t.dim() > 1 else parts[:1]
    return ", ".join(parts) or "..."


def view(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    """A view of ``a``, or what may be one."""
    rank, dim = t.dim(), _dim(r, t)
    size = t.shape[dim] if rank else 1
    choices = [
        f"{a}[{subscript(r, t)}]",
        f"{a}[{subscript(r, t)}]",
        f"{a}[{subscript(r, t)}]",
        f"{a}.detach()",
        f"{a}.contiguous()",
        f"{a}.to({t.dtype})",
        f"{a}.reshape(-1)",
        f"{a}.flatten()",
        f"{a}.unsqueeze({r.randint(0, rank)})",
        f"{a}.squeeze()",
        f"{a}.view({list(_view_sizes(r, t))})",
        f"{a}.reshape({list(_view_sizes(r, t))})",
        f"{a}.view_as({a})",
        f"{a}.expand({r.randint(1, 3)}, *{a}.shape)",
        f"torch.atleast_2d({a})",
        f"torch.nn.functional.dropout({a}, 0.5, False)",
    ]
    if rank:
        choices += [
            f"{a}.transpose({dim}, {_dim(r, t)})",
            f"{a}.permute({_permuted(r, rank)})",
            f"{a}.narrow({dim}, {r.randrange(max(size, 1))}, 1)",
            f"{a}.select({dim}, {r.randrange(-size, size) if size else 0})",
            f"{a}.split(2, {dim})[{r.randrange((size + 1) // 2 or 1)}]",
            f"{a}.chunk(2, {dim})[{r.randrange(2)}]",
            f"{a}.unbind({dim})[{r.randrange(size or 1)}]",
            f"{a}.tensor_split(2, {dim})[{r.randrange(2)}]",
            f"{a}.movedim({dim}, {_dim(r, t)})",
            f"{a}.squeeze({dim})",
            f"{a}.unfold({dim}, 2, {r.randint(1, 2)})",
            f"{a}.unflatten({dim}, (-1, 1))",
            f"{a}.swapaxes({dim}, {_dim(r, t)})",
        ]
    if rank >= 2:
        choices += [f"{a}.mT", f"{a}.diagonal({r.randint(-1, 1)}, 0, 1)", f"{a}.flatten(0, 1)"]
        choices += [f"{a}.view({a}.shape[0], -1)", f"{a}.reshape({a}.shape[-1], -1)", f"{a}.flatten(-2)"]
    if rank <= 2:
        choices.append(f"{a}.t()")
    if t.is_complex():
        choices += [f"torch.view_as_real({a})", f"{a}.real", f"{a}.imag"] * 2
    return r.choice(choices)


def _view_sizes(r: random.Random, t: torch.Tensor) -> list[int]:
    count = t.numel()
    sizes = [d for d in (1, 2, 3, 4, 6) if count and count % d == 0]
    first = r.choice(sizes) if sizes else 1
    return r.choice([[first, -1], [-1, first], [count], [1, count]])


# --- new tensors ----------------------------------------------------------------------------------------------------


def pure(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    """A new tensor computed from ``a``."""
    kinds = {"float": _floats, "half": _halves, "int": _integers, "bool": _bools, "complex": _complexes}
    own = kinds[kind_of(t)]
    return r.choice([own, own, own, _any])(r, a, t, other)


def _any(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    rank, dim = t.dim(), _dim(r, t)
    size = t.shape[dim] if rank else 1
    choices = [
        f"{a}.clone()",
        f"torch.zeros_like({a})",
        f"torch.ones_like({a})",
        f"torch.where({other()} == {a}, {a}, {other()})",
        f"torch.stack([{a}, {a}], 0)",
        f"{a}.repeat(2)",
        f"{a}.clone().contiguous()",
        f"{a} == {other()}",
        f"{a} != {other()}",
        f"{a}.new_full({a}.shape, 1)",
        f"torch.cat([{a}.reshape(-1), {other()}.reshape(-1)])",
        f"{a}.expand(2, *{a}.shape).clone()",
    ]
    if not t.is_complex():
        choices.append(f"{a}.to(torch.float32) * 0.5")
    choices += [
        f"{a} * {a}.shape[{dim}]" if rank else f"{a} * {a}.numel()",
    ]
    if rank and t.numel():
        choices += [
            f"torch.cat([{a}, {a}], {dim})",
            f"{a}.flip({dim})",
            f"{a}.roll(1, {dim})",
            f"{a}.index_select({dim}, {_index(r, size, 2, wraps=False)})",
            f"{a}[{_index(r, t.shape[0], 2)}]",
            f"{a}[..., {_index(r, t.shape[-1], 3)}]",
            f"{a}.gather({dim}, torch.zeros({[1] * rank}, dtype=torch.int64))",
        ]
    if rank == 1:
        choices.append(f"torch.diag({a})")
    if rank >= 2 and t.numel():
        choices += [f"{a}.tril()", f"{a}.triu(1)", f"{a}[{_index(r, t.shape[0], 2)}, {_index(r, t.shape[1], 2)}]"]
    return r.choice(choices)


def _floats(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    dim = _dim(r, t)
    choices = [
        f"({a} + {other()}) * 0.5",
        f"{a} - {other()} * 0.25",
        f"({a} * {other()}).clamp(-2, 2)",
        f"torch.tanh({a})",
        f"{a}.sigmoid()",
        f"{a}.abs() - 0.3",
        f"-{a}",
        f"torch.relu({a})",
        f"{a}.sin()",
        f"torch.maximum({a}, {other()})",
        f"torch.where({a} > 0.137, {a}, {other()})",
        f"({a} > 0.137).to({r.choice([torch.int64, torch.int32, torch.uint8, torch.float32])})",
        f"{a} < 0.137",
        f"{a} / 3 + 0.1",
        f"torch.nn.functional.gelu({a})",
        f"{a}.mean()",
        f"{a}.sum() * 0.125",
        f"{a}.to({r.choice([*FLOATS, *HALVES])})",
        f"{a}.masked_fill({a} > 0.137, 0.25)",
        f"({a}.exp().clamp(0, 3) + 1).log()",
        f"torch.lerp({a}, {other()}, 0.25)",
        f"torch.addcmul({a}, {other()}, {other()}, value=0.25).clamp(-2, 2)",
    ]
    if t.dim():
        choices += [
            f"{a}.softmax({dim})",
            f"{a}.mean({dim})",
            f"{a}.sum({dim}, keepdim=True).tanh()",
            f"{a}.amax({dim})",
            f"{a}.cumsum({dim}).tanh()",
            f"torch.nn.functional.layer_norm({a}, [{t.shape[-1]}], eps=0.1)",
            f"{a}.max({dim}).values",
        ]
    if t.dim() >= 2:
        choices += [
            f"torch.tanh({a} @ {a}.mT)",
            f"torch.tanh({a}.mT @ {a})",
            f"torch.einsum('...ij->...ji', {a}) * 0.5",
        ]
    return r.choice(choices)


def _halves(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    return r.choice(
        [
            f"({a} + {other()}) * 0.5",
            f"{a} - {other()}",
            f"-{a}",
            f"{a}.abs()",
            f"torch.relu({a})",
            f"{a}.to(torch.float32)",
            f"{a}.clamp(-1, 1)",
            f"torch.maximum({a}, {other()})",
            f"{a} * {other()} * 0.25",
            f"torch.tanh({a})",
            f"{a}.mean()",
            f"{a}.to({r.choice(HALVES)})",
            f"{a} > {other()}",
            f"({a} > 0.137).to(torch.int16)",
        ]
    )


def _complexes(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    return r.choice(
        [
            f"({a} + {other()}) * 0.5",
            f"{a} - {other()}",
            f"{a} * {other()}",
            f"{a} * (0.5 - 0.25j)",
            f"{a}.abs()",
            f"{a}.conj()",
            f"-{a}",
            f"torch.view_as_real({a}).clone()",
            f"torch.complex({a}.real, {a}.imag)",
            f"{a}.sum()",
        ]
    )


def _integers(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    dim = _dim(r, t)
    choices = [
        f"{a} + {other()}",
        f"{a} - {other()}",
        f"{a} * {r.randint(2, 3)}",
        f"{a} // {r.randint(2, 3)}",
        f"{a} % {r.randint(2, 5)}",
        f"{a} & 7",
        f"{a} | {other()}",
        f"{a} ^ {other()}",
        f"torch.minimum({a}, {other()})",
        f"{a}.clamp(0, 5)",
        f"({a} % 5).to({r.choice([*INTEGERS, *FLOATS])})",
        f"{a} > {other()}",
        f"{a}.sum()",
        f"{a} / 4",
        f"torch.where({a} > 2, {a}, {other()})",
        f"({a} % 7).to(torch.float32).tanh()",
        f"{a} << 1",
    ]
    if t.dim():
        choices += [f"{a}.sum({dim})", f"{a}.amax({dim})", f"{a}.cumsum({dim})"]
    return r.choice(choices)


def _bools(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    choices = [
        f"~{a}",
        f"{a} & {other()}",
        f"{a} | {other()}",
        f"{a} ^ {other()}",
        f"{a}.to({r.choice([*INTEGERS, *FLOATS])})",
        f"{a}.any()",
        f"{a}.all()",
        f"torch.where({a}, 1.5, -0.5)",
        f"{a}.sum()",
    ]
    if t.dim():
        choices += [f"{a}.any({_dim(r, t)})", f"{a}.sum({_dim(r, t)})"]
    return r.choice(choices)


# --- changes --------------------------------------------------------------------------------------------------------


def mutation(r: random.Random, a: str, t: torch.Tensor, other: Other) -> str:
    """A statement that changes ``a``."""
    kind = kind_of(t)
    rank, dim = t.dim(), _dim(r, t)
    size = t.shape[dim] if rank else 1
    literal = {"float": "0.3", "half": "0.5", "int": "3", "bool": "True", "complex": "0.5j"}[kind]
    choices = [
        f"{a}.copy_({other()})",
        f"{a}.copy_({other()})",
        f"{a}.zero_()",
        f"{a}.fill_({literal})",
        f"{a}[{subscript(r, t)}] = {literal}",
        f"{a}[{subscript(r, t)}] = {other()}",
        f"{a}.masked_fill_({a} == {other()}, {literal})",
        f"{a}.eq_({other()})",
    ]
    if rank and t.numel():
        one = f"torch.zeros({[1] * rank}, dtype=torch.int64)"
        choices += [
            f"{a}[{_index(r, t.shape[0], 2)}] = {literal}",
            f"{a}.index_fill_({dim}, {_index(r, size, 2, wraps=False)}, {literal})",
            f"{a}.scatter_({dim}, {one}, {literal})",
            f"{a}.index_copy_({dim}, torch.tensor([{size - 1}]), {a}.clone().narrow({dim}, 0, 1))",
        ]
    if kind in ("float", "half"):
        choices += [
            f"{a}.add_({other()})",
            f"{a}.add_({other()}, alpha=0.5)",
            f"{a} += 1",
            f"{a}.mul_(0.5)",
            f"{a}.neg_()",
            f"{a}.sub_({other()})",
            f"{a}.clamp_(-1, 1)",
            f"{a}.relu_()",
            f"{a}.abs_()",
        ]
    if kind == "float":
        choices += [
            f"{a}.tanh_()",
            f"{a}.sigmoid_()",
            f"{a}.addcmul_({other()}, {other()}, value=0.1)",
            f"{a}.lerp_({other()}, 0.5)",
            f"{a}.div_(2)",
            f"torch.nn.functional.relu({a}, inplace=True)",
            f"{a}.sin_()",
        ]
        if rank and t.numel():
            choices += [
                f"{a}.index_add_({dim}, torch.tensor([{size - 1}]), {a}.clone().narrow({dim}, 0, 1))",
                f"{a}.index_put_(({_index(r, t.shape[0], 1)},), {a}.clone()[:1], accumulate=True)",
                f"{a}.cumsum_({dim}).tanh_()",
            ]
    if kind == "int":
        choices += [
            f"{a}.add_({r.randint(1, 3)})",
            f"{a} += 1",
            f"{a}.add_({other()})",
            f"{a}.bitwise_and_(7)",
            f"{a}.mul_(2)",
            f"{a}.remainder_(5)",
            f"{a}.clamp_(0, 9)",
            f"{a} //= 2",
        ]
    if kind == "complex":
        choices += [f"{a}.add_({other()})", f"{a}.mul_(0.5)", f"{a}.mul_({other()})", f"torch.view_as_real({a}).abs_()"]
    if kind == "bool":
        choices += [f"{a}.logical_not_()", f"{a}.logical_and_({other()})", f"{a} |= {other()}", f"{a} ^= {other()}"]
    return r.choice(choices)


def resizing(r: random.Random, a: str, t: torch.Tensor) -> str:
    """A statement that gives a local tensor other sizes in place."""
    rank = t.dim()
    choices = [f"{a}.unsqueeze_({r.randint(0, rank)})", f"{a}.squeeze_()"]
    if rank:
        choices.append(f"{a}.transpose_({_dim(r, t)}, {_dim(r, t)})")
    if rank <= 2:
        choices.append(f"{a}.t_()")
    return r.choice(choices)


def many(r: random.Random, a: str, t: torch.Tensor, other: Other, *, special: bool = False) -> str:
    """Two tensors from ``a``; for ``special`` values no mean: the order of additions decides it."""
    dim = _dim(r, t)
    choices = [
        f"torch.broadcast_tensors({a}, {other()})",
        f"torch._foreach_add([{a}, {other()}], 1)" if kind_of(t) != "bool" else f"({a}.any(), {a}.all())",
        f"[{a}.clone(), {a}]",
    ]
    if t.dim():
        choices += [
            f"{a}.chunk(2, {dim})",
            f"{a}.tensor_split(2, {dim})",
            f"{a}.split([1, {t.shape[dim] - 1}], {dim})",
            f"{a}.unbind({dim})[:2]",
        ]
        if not t.is_complex():
            choices.append(f"torch.sort({a}, {dim}, stable=True)")
        if kind_of(t) == "float":
            choices.append(f"{a}.max({dim})")
            choices.append(f"{a}.min({dim})" if special else f"torch.var_mean({a}, {dim}, correction=0)")
    return r.choice(choices)


def number(r: random.Random, a: str, t: torch.Tensor) -> tuple[str, str]:
    """A number from ``a`` and its kind, ``int`` or ``float``."""
    kind = kind_of(t)
    choices = [(f"{a}.numel()", "int"), (f"{a}.stride({_dim(r, t)})" if t.dim() else f"{a}.dim()", "int")]
    if kind == "float" and t.numel():
        choices += [(f"{a}.mean().item()", "float"), (f"{a}.sum().item()", "float"), (f"{a}.amax().item()", "float")]
    elif kind == "bool":
        choices += [(f"{a}.sum().item()", "int")]
    elif kind == "int":
        choices += [(f"{a}.sum().item()", "int"), (f"({a}.sum() % 5).item()", "int")]
    return r.choice(choices)


def predicate(r: random.Random, a: str, t: torch.Tensor, *, special: bool = False) -> str:
    """A bool of one element from ``a``, different from call to call; for ``special`` values no sum decides."""
    kind = kind_of(t)
    if kind == "complex":
        return f"torch.view_as_real({a}).sum() > 0.137"
    if kind == "bool":
        return r.choice([f"{a}.any()", f"{a}.all()"])
    if kind == "int":
        return r.choice([f"{a}.sum() % 2 == 0", f"{a}.sum() > 3", f"({a}.sum() % 3).item() > 0"])
    limit = r.choice([-0.41, 0.137, 0.77])
    return f"({a} > {limit}).any()" if special else f"{a}.to(torch.float32).sum() > {limit}"
