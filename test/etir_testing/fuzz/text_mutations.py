"""Text at the executable level with one mistake that a hand makes, and what has to become of it.

A mutation changes one thing of a method: a place, a size, an operand, an argument, a kernel's name, a type, the order
of two instructions. The text is still text that parses. It is refused, or the bytes that come of it compute what the
text says: the same as the interpreter, which knows no memory plan when the module has no places.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import etir
from etir.diagnostics import EtirError
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.values import BufferOp
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module
from etir.interpret import run_module
from etir.runtime import RuntimeFailure

_PLACE = re.compile(r"at <(\d+), (\d+)>")
_POOLS = re.compile(r"pools \[([\d, ]+)\]")
_CALL = re.compile(r'^ *et\.call "([^"]+)"\((.*)\)( -> .*)?$')
_VALUE = re.compile(r"%[\w.]+")
_TYPE = re.compile(r"tensor<([^<>]*?)(f32|i64|i1|f16|i32)>")
_NUMBER = re.compile(r"(?<![\w.%<])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.>])")


@dataclass(frozen=True)
class Mutation:
    """A changed text and what was done to it."""

    what: str
    text: str


def mutations(text: str, seed: int) -> Iterator[Mutation]:
    """Endless mutations of the text of a module at the executable level, the same for the same seed."""
    chance = random.Random(seed)
    lines = text.splitlines()
    while True:
        make = chance.choice(_KINDS)
        changed = make(list(lines), chance)
        if changed is not None and changed != lines:
            yield Mutation(make.__name__.strip("_"), "\n".join(changed) + "\n")


def _pick(lines: Sequence[str], chance: random.Random, pattern: re.Pattern[str]) -> tuple[int, re.Match[str]] | None:
    found = [(i, match) for i, line in enumerate(lines) for match in pattern.finditer(line)]
    return chance.choice(found) if found else None


def _replace(lines: list[str], index: int, match: re.Match[str], text: str) -> list[str]:
    line = lines[index]
    lines[index] = line[: match.start()] + text + line[match.end() :]
    return lines


def _move_buffer(lines: list[str], chance: random.Random) -> list[str] | None:
    """Another offset or another memory."""
    found = _pick(lines, chance, _PLACE)
    if found is None:
        return None
    index, match = found
    memory, offset = int(match[1]), int(match[2])
    offsets = [offset + step for step in (-64, -16, -4, -2, -1, 1, 2, 4, 16, 64, 1 << 31, 1 << 62)]
    places = [(memory, o) for o in offsets if o >= 0] + [(memory + 1, offset), (memory, 0), (9, 0)]
    return _replace(lines, index, match, "at <{}, {}>".format(*chance.choice(places)))


def _swap_places(lines: list[str], chance: random.Random) -> list[str] | None:
    """Two buffers at each other's place."""
    found = [(i, match) for i, line in enumerate(lines) for match in _PLACE.finditer(line)]
    if len(found) < 2:
        return None
    (a, first), (b, second) = chance.sample(found, 2)
    _replace(lines, a, first, second[0])
    return _replace(lines, b, second, first[0])


def _resize_memory(lines: list[str], chance: random.Random) -> list[str] | None:
    """A memory that is smaller or larger than its plan."""
    found = _pick(lines, chance, _POOLS)
    if found is None:
        return None
    index, match = found
    sizes = [int(n) for n in match[1].split(",")]
    place = chance.randrange(len(sizes))
    sizes[place] = max(0, sizes[place] + chance.choice([-64, -16, -1, 1, 64]))
    return _replace(lines, index, match, f"pools [{', '.join(map(str, sizes))}]")


def _other_value(lines: list[str], chance: random.Random) -> list[str] | None:
    """Another value in the place of an operand, a result or an output."""
    uses = [
        (i, m) for i, line in enumerate(lines) if " = " not in line and "et." in line for m in _VALUE.finditer(line)
    ]
    defined = [m[0] for line in lines if " = et." in line and (m := _VALUE.search(line)) is not None]
    if not uses or not defined:
        return None
    index, match = chance.choice(uses)
    return _replace(lines, index, match, chance.choice(defined))


def _other_result(lines: list[str], chance: random.Random) -> list[str] | None:
    """A call that writes another buffer, in its arguments and in its slot."""
    calls = [i for i, line in enumerate(lines) if (m := _CALL.match(line)) is not None and m[3]]
    defined = [m[0] for line in lines if " = et.buffer" in line and (m := _VALUE.search(line)) is not None]
    if not calls or not defined:
        return None
    index = chance.choice(calls)
    match = _CALL.match(lines[index])
    assert match is not None
    old = _VALUE.findall(match[3])[0]
    lines[index] = re.sub(rf"{re.escape(old)}(?![\w.])", chance.choice(defined), lines[index])
    return lines


def _arguments(line: str) -> tuple[str, list[str], str] | None:
    match = _CALL.match(line)
    if match is None:
        return None
    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", match[2])
    return line[: match.start(2)], [p.strip() for p in parts], line[match.end(2) :]


def _change_arguments(lines: list[str], chance: random.Random) -> list[str] | None:
    """An argument left out, given twice, or exchanged with another."""
    calls = [i for i, line in enumerate(lines) if _CALL.match(line) is not None]
    if not calls:
        return None
    index = chance.choice(calls)
    split = _arguments(lines[index])
    if split is None or len(split[1]) < 2:
        return None
    before, parts, after = split
    a, b = chance.sample(range(len(parts)), 2)
    match chance.randrange(3):
        case 0:
            del parts[a]
        case 1:
            parts.insert(b, parts[a])
        case _:
            parts[a], parts[b] = parts[b], parts[a]
    lines[index] = before + ", ".join(parts) + after
    return lines


def _rename_kernel(lines: list[str], chance: random.Random) -> list[str] | None:
    """Another kernel, or none."""
    calls = [i for i, line in enumerate(lines) if _CALL.match(line) is not None]
    if not calls:
        return None
    index = chance.choice(calls)
    match = _CALL.match(lines[index])
    assert match is not None
    name = match[1]
    others = [m[1] for i in calls if (m := _CALL.match(lines[i])) is not None and m[1] != name]
    names = [name[:-1], name.replace("aten::", "aten::x"), "aten::sub.out", "aten::mul.out", "aten::relu.out", *others]
    lines[index] = lines[index].replace(f'"{name}"', f'"{chance.choice(names)}"')
    return lines


def _change_type(lines: list[str], chance: random.Random) -> list[str] | None:
    """Another size or element type of a value."""
    found = _pick(lines, chance, _TYPE)
    if found is None:
        return None
    index, match = found
    dims, element = [d for d in match[1].split("x") if d], match[2]
    kind = chance.randrange(4)
    if kind == 0:
        element = chance.choice(["f32", "i64", "i1", "f16", "i32"])
    elif kind == 1 and dims:
        place = chance.randrange(len(dims))
        dims[place] = str(max(0, int(dims[place]) + chance.choice([-1, 1, 7])))
    elif kind == 2:
        dims.insert(0, chance.choice(["1", "2"]))
    elif len(dims) > 1:
        dims[0], dims[1] = dims[1], dims[0]
    return _replace(lines, index, match, f"tensor<{''.join(d + 'x' for d in dims)}{element}>")


def _change_number(lines: list[str], chance: random.Random) -> list[str] | None:
    """Another literal in a call."""
    calls = [(i, m) for i, line in enumerate(lines) if _CALL.match(line) for m in _NUMBER.finditer(line)]
    if not calls:
        return None
    index, match = chance.choice(calls)
    return _replace(lines, index, match, chance.choice(["0", "1", "-1", "2", "7", "0.5", "true", "none", "-9"]))


def _drop_line(lines: list[str], chance: random.Random) -> list[str] | None:
    """An instruction less."""
    calls = [i for i, line in enumerate(lines) if "et.call" in line or "et.move" in line]
    if not calls:
        return None
    del lines[chance.choice(calls)]
    return lines


def _swap_lines(lines: list[str], chance: random.Random) -> list[str] | None:
    """Two instructions in the other order."""
    calls = [i for i, line in enumerate(lines) if "et.call" in line or "et.move" in line]
    if len(calls) < 2:
        return None
    a, b = chance.sample(calls, 2)
    lines[a], lines[b] = lines[b], lines[a]
    return lines


_KINDS: tuple[Callable[[list[str], random.Random], list[str] | None], ...] = (
    _move_buffer,
    _swap_places,
    _resize_memory,
    _other_value,
    _other_result,
    _change_arguments,
    _rename_kernel,
    _change_type,
    _change_number,
    _drop_line,
    _swap_lines,
)


# --- the verdict ------------------------------------------------------------------------------------------------------

REFUSED, SAME = "refused", "same"


def verdict(text: str, weights: Callable[[Any], None], inputs: Sequence[torch.Tensor], target: str) -> str:
    """``refused``, ``same``, or what is wrong: numbers that the text does not say, or an error that is no answer.

    ``weights`` gives the module its bytes. A program that both the interpreter and the runtime stop is refused, too.
    """
    try:
        module = parse_module(text)
        verify_module(module)
        weights(module)
        program = etir.compile(module, target=target)
        data = program.buffer
    except EtirError:
        return REFUSED
    expected = _said(text, weights, inputs)
    try:
        given = [t.clone() for t in inputs]
        got = list(_flat(etir.runtime.load(data)["forward"](*given)))
    except RuntimeFailure as error:
        return REFUSED if expected is None else f"the runtime stops: {error}"
    if expected is None:
        return "the interpreter stops where the runtime does not"
    for index, (a, b) in enumerate(zip(got, expected, strict=True)):
        a, b = torch.as_tensor(a), torch.as_tensor(b)
        if a.shape != b.shape or a.dtype != b.dtype or not torch.allclose(a.double(), b.double(), 1e-3, 1e-4, True):
            return f"output {index} is {a.flatten()[:4].tolist()}, the text says {b.flatten()[:4].tolist()}"
    return SAME


def _flat(outputs: Any) -> Iterator[Any]:
    for output in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
        if isinstance(output, (tuple, list)):
            yield from _flat(output)
        else:
            yield output


def _said(text: str, weights: Callable[[Any], None], inputs: Sequence[torch.Tensor]) -> list[Any] | None:
    """What the text says: its outputs with a memory for every buffer; None where the interpreter stops."""
    module = parse_module(text)
    weights(module)
    for op in module.walk():
        if isinstance(op, BufferOp):
            op.place = None
        elif isinstance(op, MethodOp):
            op.pools = None
    try:
        return run_module(module, [t.clone() for t in inputs], evaluator="torch")
    except EtirError:
        return None


# --- programs to start from -------------------------------------------------------------------------------------------


class Mixed(torch.nn.Module):
    """Products, reductions, views, joins, several results, a number."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Of tensors [3, 6] and [3, 4]."""
        hidden = torch.relu(self.linear(x)) - y
        joined = torch.cat([hidden.t().reshape(2, 6), x[:2]], 0)
        values, places = joined.max(dim=1)
        return torch.softmax(joined, -1) * values.sum(), places, hidden.mean(0) / (y.abs() + 1)


def start(target: str) -> tuple[str, Callable[[Any], None], tuple[torch.Tensor, ...]]:
    """The text of a program, what gives a module of such text its weights, and inputs."""
    torch.manual_seed(0)
    inputs = (torch.randn(3, 6), torch.randn(3, 4))
    program = etir.compile(torch.export.export(Mixed().eval(), inputs), target=target)
    blobs = {b.digest: b for op in program.module.walk() for a in op.properties.values() for b in _blobs(a)}

    def weights(module: Any) -> None:
        for op in module.walk():
            for attribute in op.properties.values():
                for blob in _blobs(attribute):
                    if blob.digest in blobs:
                        blob.attach(blobs[blob.digest].data)

    return print_module(program.module), weights, inputs


def _blobs(attribute: Any) -> list[Any]:
    from etir.dialects.et.weights import BlobAttr

    return [attribute.data] if isinstance(attribute, BlobAttr) else []
