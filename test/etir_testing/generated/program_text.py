"""Generated programs as data: statements that know what they define and use, and the torch source that they are.

A program is a module with parameters and buffers and a ``forward`` of statements. A statement is one line, or a call of
``cond``, ``while_loop``, ``map_over`` or ``scan`` with the functions that it is given, whose bodies are statements
again. Whatever holds a statement can do without it and all that depends on it: that is how failing programs get small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_NAME = re.compile(r"(?<![\w.])(?:self\.)?[a-z]+\d+\b")
"""Names of values: ``v3``, ``x0``, ``self.b1``."""


def names_in(text: str) -> tuple[str, ...]:
    """The values that a piece of source names."""
    return tuple(dict.fromkeys(_NAME.findall(text)))


@dataclass
class Body:
    """A function that control flow calls: ``def NAME(PARAMETERS): ...; return RESULTS``."""

    name: str
    parameters: tuple[str, ...]
    statements: list[Statement]
    results: str

    def uses(self) -> Iterator[str]:
        """Every name in it, its own among them."""
        for statement in self.statements:
            yield from statement.uses()
        yield from names_in(self.results)

    def lines(self, indent: str) -> Iterator[str]:
        """Its source."""
        yield f"{indent}def {self.name}({', '.join(self.parameters)}):"
        yield from block_lines(self.statements, indent + "    ")
        yield f"{indent}    return {self.results}"


@dataclass
class Statement:
    """One statement: ``text`` defines ``defines``; ``bodies`` are the functions that precede it."""

    text: str
    defines: tuple[str, ...] = ()
    bodies: tuple[Body, ...] = ()

    def uses(self) -> Iterator[str]:
        """Every name in it, its own among them."""
        yield from names_in(self.text)
        for body in self.bodies:
            yield from body.uses()

    def lines(self, indent: str) -> Iterator[str]:
        """Its source."""
        for body in self.bodies:
            yield from body.lines(indent)
        yield indent + self.text


def block_lines(statements: Sequence[Statement], indent: str) -> Iterator[str]:
    """The source of a block."""
    for statement in statements:
        yield from statement.lines(indent)


@dataclass
class Program:
    """A generated program."""

    seed: int
    parameters: dict[str, str] = field(default_factory=dict)
    """Expressions of the initial values by name."""
    buffers: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    """Statements that define members as views of others, by name."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Expressions of the values for call number ``step``."""
    shapes: dict[str, str] = field(default_factory=dict)
    """Their shapes."""
    sizes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Dynamic dims: the sizes of the calls. The first is that of the export, the second the lower bound."""
    statements: list[Statement] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    """Expressions of what is returned, at the top of the structure."""
    other: list[Statement] = field(default_factory=list)
    """Statements of a second method over the same state, with the same inputs."""
    other_outputs: list[str] = field(default_factory=list)
    strict: bool = False
    """How it is exported."""

    def source(self) -> str:
        """The program as torch source that runs on its own, up to the control flow that the reader imports."""
        lines = ["class Generated(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [f"        self.{n} = torch.nn.Parameter({e})" for n, e in self.parameters.items()]
        lines += [f'        self.register_buffer("{n}", {e})' for n, e in self.buffers.items()]
        lines += [f"        {text}" for text in self.aliases.values()]
        lines += self._method("forward", self.statements, self.outputs)
        if self.other_outputs:
            lines += self._method("other", self.other, self.other_outputs)
        lines += [""]
        for name, (first, lower, upper) in self.sizes.items():
            lines += [f'{name} = torch.export.Dim("{name}", min={lower}, max={max(first, upper)})']
        if self.sizes:
            lines += [f"dynamic_shapes = ({', '.join(self._dims(name) for name in self.inputs)},)", ""]
        values = ", ".join(self.inputs.values())
        lines += ["", "def inputs(step):"]
        lines += [f"    {name} = {sizes}[step % 3]" for name, sizes in self.sizes.items()]
        lines += [f"    return ({values},)", ""]
        return "\n".join(lines)

    def _method(self, name: str, statements: Sequence[Statement], outputs: Sequence[str]) -> Iterator[str]:
        yield ""
        yield f"    def {name}(self, {', '.join(self.inputs)}):"
        yield from block_lines(statements, "        ")
        yield f"        return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})"

    def _dims(self, name: str) -> str:
        """The dynamic dims of an input as ``torch.export`` takes them."""
        if name not in self.shapes:
            return "None"
        dims = enumerate(part.strip() for part in self.shapes[name].strip("()").split(","))
        named = [f"{i}: {part}" for i, part in dims if any(size in part for size in self.sizes)]
        return f"{{{', '.join(named)}}}"
