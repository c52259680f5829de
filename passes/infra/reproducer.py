"""Reproducers: one file with a module and, in comment lines at its top, the command that makes it fail.

::

    // 'cse' failed with E0505: ValueError: ...
    // et-opt -p 'cse,dce' --allow-unregistered-dialect
    // Rerun this file: et-opt --run-reproducer FILE
    builtin.module { ...

The module is what the failing pass was given, with its locations, and the pipeline is what was left to run. Of the
command only the options that change what a pass does are kept, and no others are accepted when a file is rerun: a file
from somebody else must not choose where output goes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import SourceLocation
from etir.dialects.et.weights import WeightFile, write_atomically, write_weight_file
from etir.dialects.payloads import loose_payloads
from etir.dialects.text import print_module
from etir.passes.errors import E0507

_COMMAND = "// et-opt "
FLAGS = ("--allow-unregistered-dialect", "--require-locations")
"""Options without a value that a reproducer may carry."""


@dataclass(frozen=True)
class Settings:
    """What besides the module and the pipeline decides what a run does."""

    flags: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproducer:
    """The command of a reproducer file."""

    pipeline: str
    settings: Settings = Settings()

    def command(self) -> str:
        """The command line, without the file."""
        weights = [f"--weights={path}" for path in self.settings.weights]
        return shlex.join(["et-opt", "-p", self.pipeline, *self.settings.flags, *weights])


def write_reproducer(path: Path, module: ModuleOp, reproducer: Reproducer, reason: Sequence[str]) -> None:
    """Write ``path``, whole or not at all. ``reason`` are lines that say what failed. Raises ``OSError``.

    Bytes that are in none of the weights files (passes made them) go into one beside ``path``.
    """
    settings = reproducer.settings
    loose = loose_payloads(module, [WeightFile(file) for file in settings.weights])
    if loose:
        weights = path.with_suffix(".safetensors")
        write_weight_file(weights, loose)
        reproducer = replace(reproducer, settings=replace(settings, weights=(*settings.weights, str(weights))))
    header = [f"// {line}" for text in reason for line in text.splitlines()]
    header += ["// " + reproducer.command(), "// Rerun this file: et-opt --run-reproducer FILE"]
    text = "\n".join(header) + "\n" + print_module(module, locations=True)
    write_atomically(path, [text.encode()])


def read_reproducer(text: str, name: str) -> Reproducer:
    """The command in the comment lines at the top of ``text``.

    Raises error E0507 when there is none, or one with options that a reproducer may not carry.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("//"):
            break
        if line.startswith(_COMMAND):
            return _parse_command(line, SourceLocation(name, number, len("// ") + 1))
    raise E0507.error(
        f"'{name}' has no line '{_COMMAND}-p ...' among the comments at its top", SourceLocation(name, 1, 1)
    )


def _parse_command(line: str, location: SourceLocation) -> Reproducer:
    try:
        words = shlex.split(line.removeprefix(_COMMAND))
    except ValueError as error:
        raise E0507.error(f"the command is malformed: {error}", location) from None
    pipeline: str | None = None
    flags: list[str] = []
    weights: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-p", "--pass-pipeline"):
            pipeline = next(rest, None)
        elif match := re.fullmatch(r"--pass-pipeline=(.*)", word, re.DOTALL):
            pipeline = match[1]
        elif match := re.fullmatch(r"--weights=(.*)", word, re.DOTALL):
            weights.append(match[1])
        elif word in FLAGS:
            flags.append(word)
        else:
            raise E0507.error(f"a reproducer may not carry '{word}'", location)
    if pipeline is None:
        raise E0507.error("the command has no pipeline (-p '...')", location)
    return Reproducer(pipeline, Settings(tuple(flags), tuple(weights)))
