"""What a generated program starts from: inputs with their sizes and layouts, parameters, buffers, and tensors of the
module that are views of these.
"""

from __future__ import annotations

import contextlib
import random
from types import SimpleNamespace

import torch

from etir_testing.generated.program_operators import view
from etir_testing.generated.program_scope import Scope, has_overlap, storage_of
from etir_testing.generated.program_storage import storage
from etir_testing.generated.program_text import Program

SHAPES = ("(2, 3)", "(3,)", "()", "(3, 3)", "(4, 2, 3)", "(1, 3)", "(2, 3)", "(3, 3)")
IMAGES = ("(1, 2, 3, 2)", "(2, 2, 2, 3)", "(2, 4, 1, 2)", "(1, 3, 2, 2)")
EMPTY = ("(0,)", "(0, 3)", "(2, 0)", "(3, 0, 2)")
DYNAMIC = ("(n,)", "(n, 3)", "(3, n)", "(n, n)", "(2, n)", "(2*n,)", "(n + 1, 2)", "(m,)", "(m, n)", "(2, m)", "(n, m)")
"""Shapes by two dims; what derives from them is a dim of its own."""
SIZES = {"n": ((4, 2, 7), (3, 2, 5), (5, 3, 8)), "m": ((5, 4, 6), (6, 3, 4), (8, 5, 9))}
"""Sizes of the calls by dim. The first is that of the export, the second the lower bound."""
DTYPES = (
    *(torch.float32,) * 8,
    torch.float64, torch.int64, torch.int64, torch.int32, torch.bool, torch.float16, torch.bfloat16, torch.uint8,
    torch.int16, torch.int8,
)  # fmt: skip


def draw_sizes(r: random.Random, program: Program) -> None:
    """Give the program dims with sizes for each call."""
    for name, choices in SIZES.items():
        program.sizes[name] = r.choice(choices)


def worlds(program: Program) -> list[dict[str, int]]:
    """The sizes of the dims for each of the calls that differ, the smallest first."""
    if not program.sizes:
        return [{}]
    return [{name: sizes[i] for name, sizes in program.sizes.items()} for i in (1, 0, 2)]


class Sources:
    """Draws them for one program."""

    def __init__(self, r: random.Random, program: Program, *, special: bool, empty: bool, complexes: bool):
        self.r = r
        self.program = program
        self.make = "hostile" if special else "make"
        self.empty = empty
        self.dtypes = (*DTYPES, *(torch.complex64,) * 6) if complexes else DTYPES
        self.modules = [SimpleNamespace() for _ in worlds(program)]

    def scope(self) -> Scope:
        """The scope that a method starts with, before its inputs."""
        return Scope([{"torch": torch, "self": module} for module in self.modules], {})

    def _shape(self, *, constant: bool = False) -> str:
        r = self.r
        if self.program.sizes and not constant and r.random() < 0.7:
            return r.choice(DYNAMIC)
        if self.empty and r.random() < 0.4:
            return r.choice(EMPTY)
        return r.choice(IMAGES) if r.random() < 0.12 else r.choice(SHAPES)

    def _value(self, shape: str, dtype: torch.dtype, step: str = "") -> str:
        """The source of a tensor, channels last now and then."""
        text = f"{self.make}({shape}, {dtype}, {self.r.randrange(1000)}{step})"
        if shape in IMAGES and self.r.random() < 0.6:
            text += ".to(memory_format=torch.channels_last)"
        return text

    def _metas(self, text: str, shape: str, dtype: torch.dtype) -> list[torch.Tensor]:
        channels_last = "channels_last" in text
        made = [torch.empty(eval(shape, dict(world)), dtype=dtype, device="meta") for world in worlds(self.program)]
        return [t.to(memory_format=torch.channels_last) for t in made] if channels_last else made

    def _member(self, scope: Scope, name: str, values: list[torch.Tensor], *, frozen: bool = False) -> None:
        for module, value in zip(self.modules, values, strict=True):
            setattr(module, name, value)
        scope.tensors[f"self.{name}"] = values[0]
        if frozen:
            scope.frozen.add(storage_of(values[0]))

    def parameters(self, scope: Scope) -> None:
        """One or two, which nothing changes."""
        for i in range(self.r.randint(1, 2)):
            shape = self.r.choice(SHAPES[3:])
            text = self._value(shape, torch.float32)
            self.program.parameters[f"w{i}"] = text
            self._member(scope, f"w{i}", self._metas(text, shape, torch.float32), frozen=True)

    def buffers(self, scope: Scope) -> None:
        """One to three, of zeros or not."""
        r = self.r
        for i in range(r.randint(1, 3)):
            shape, dtype = self._shape(constant=True), r.choice(self.dtypes)
            text = r.choice([f"torch.zeros({shape}, dtype={dtype})", self._value(shape, dtype)])
            self.program.buffers[f"b{i}"] = text
            self._member(scope, f"b{i}", self._metas(text, shape, dtype))

    def aliases(self, scope: Scope) -> None:
        """Members that are views of others, in any layout without overlap."""
        r = self.r
        for i in range(r.randint(1, 4)):
            source = r.choice([n for n in scope.tensors if n.startswith(("self.b", "self.a"))])
            write = storage if r.random() < 0.3 else view
            for _ in range(10):
                text = write(r, source, scope.tensors[source], lambda: "1")
                with contextlib.suppress(RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
                    values = scope.value(text)
                    first = values[0]
                    if not isinstance(first, torch.Tensor) or not first.numel() or first.dim() > 4:
                        continue
                    if storage_of(first) != storage_of(scope.tensors[source]) or has_overlap(first):
                        continue
                    self._member(scope, f"a{i}", values)
                    kept = f'self.register_buffer("a{i}", {text})' if r.random() < 0.6 else f"self.a{i} = {text}"
                    self.program.aliases[f"a{i}"] = kept
                    break

    def inputs(self, scope: Scope) -> None:
        """One to three tensors, and a number at times."""
        r, program = self.r, self.program
        for i in range(r.randint(1, 3)):
            shape, dtype = self._shape(), r.choice(self.dtypes) if i else torch.float32
            if program.sizes and i == 0:
                shape = r.choice([s for s in DYNAMIC if "n" in s])
            text = self._value(shape, dtype, " + step")
            program.inputs[f"x{i}"] = text
            program.shapes[f"x{i}"] = shape
            scope.add(f"x{i}", self._metas(text, shape, dtype))
        if r.random() < 0.25:
            value = r.choice(["2", "0.5", "True", "None"])
            program.inputs["n0"] = value
            if value not in ("None", "True"):
                for world in scope.worlds:
                    world["n0"] = float(value) if "." in value else int(value)
                scope.numbers["n0"] = "float" if "." in value else "int"
                scope.constants = ("n0",)
