"""Runs the fenced code blocks of a markdown page, in order, in a folder of the page's own.

What a block is follows from its info string:

* ``console``: lines that start with ``$ `` are commands; what follows is their exact output, standard error included. A
  line ``...`` stands for any lines. ``$ETIR_SOURCE`` is this repository.
* ``sh``: lines that start with ``et-`` are run and have to succeed; all others are for reading.
* ``mlir``: has to parse and verify. ``pipeline=a,b`` runs passes over it; the next block ``mlir result`` is what comes
  out. ``error=E0301`` says that the text (or the pipeline) fails with exactly these ids, joined by commas.
* ``python``: is executed, with ``etir_testing``; the blocks of a page share their names. A block
  ``text output`` after it is what it prints.
* any language with ``file=NAME``: is written to that file. A ``pyproject.toml`` makes its entry points known, as
  installing the package would.

``python test/doc_examples.py --update [PAGE]...`` writes the outputs into the pages again.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from etir_testing import ROOT, TESTS
from etir_testing.forks import commands

_FENCE = re.compile(r"^( *)(`{3,})([a-z]*)([^\n`]*)$")


class ExampleError(AssertionError):
    """An example of a page does not do what the page says."""


@dataclass
class Block:
    """One fenced block: its language, the words after it, its lines without the fences' indentation."""

    language: str
    words: tuple[str, ...]
    lines: list[str]
    first_line: int
    """Number, from 1, of the line after the opening fence."""
    indent: str = ""

    @property
    def text(self) -> str:
        """The lines, each with its line end."""
        return "".join(f"{line}\n" for line in self.lines)

    def option(self, name: str) -> str | None:
        """The value of ``name=value``, None when it is not there."""
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), None)


def pages() -> list[Path]:
    """Every page."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        opening = _FENCE.match(lines[index])
        index += 1
        if opening is None:
            continue
        indent, fence = opening[1], opening[2]
        start = index
        while index < len(lines) and lines[index].strip() != fence:
            index += 1
        content = [line.removeprefix(indent) for line in lines[start:index]]
        found.append(Block(opening[3], tuple(opening[4].split()), content, start + 1, indent))
        index += 1
    return found


@dataclass
class Page:
    """A run of one page. With ``update`` outputs that differ are replaced instead of reported."""

    path: Path
    folder: Path
    update: bool = False
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    changes: dict[int, tuple[int, list[str]]] = field(default_factory=dict[int, tuple[int, list[str]]])
    """Number of a block's first line to the number of lines it had, and its new lines."""

    def run(self) -> int:
        """Run every block; returns how many did something. Raises :class:`ExampleError` at the first that fails."""
        found = blocks(self.path.read_text(encoding="utf-8"))
        count = 0
        with self._inside():
            for block, following in zip_longest(found, found[1:]):
                count += self._run(block, following)
        if self.changes:
            self._write_changes()
        return count

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """The page's folder is the working directory and importable."""
        before = Path.cwd()
        os.chdir(self.folder)
        sys.path[:0] = [str(self.folder), str(TESTS)]
        known = dict(sys.modules)
        try:
            yield
        finally:
            os.chdir(before)
            sys.path.remove(str(self.folder))
            sys.path.remove(str(TESTS))
            for name, module in list(sys.modules.items()):
                if name not in known and str(getattr(module, "__file__", None) or "").startswith(str(self.folder)):
                    del sys.modules[name]

    def _fail(self, block: Block, message: str) -> ExampleError:
        return ExampleError(f"{self.path.relative_to(ROOT)}:{block.first_line}: {message}")

    def _run(self, block: Block, following: Block | None) -> bool:
        name = block.option("file")
        if name is not None:
            self._write_file(name, block.text)
            if block.language == "mlir":
                self._check_mlir(block, following)
            return True
        match block.language:
            case "console":
                self._run_console(block)
            case "sh":
                commands = [line for line in block.lines if line.startswith("et-")]
                for command in commands:
                    code, output = self._shell(command)
                    if code:
                        raise self._fail(block, f"`{command}` failed:\n{output}")
                return bool(commands)
            case "mlir" if "result" not in block.words:
                self._check_mlir(block, following)
            case "python":
                self._run_python(block, following)
            case _:
                return False
        return True

    def _write_file(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if path.name == "pyproject.toml":
            project = tomllib.loads(text)["project"]
            info = self.folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
            info.mkdir(exist_ok=True)
            (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
            groups = project.get("entry-points", {})
            lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in e.items()) for group, e in groups.items()]
            (info / "entry_points.txt").write_text("\n".join(lines))

    def _shell(self, command: str) -> tuple[int, str]:
        """Exit code and output of a command in the page's folder, with this Python and its tools."""
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(commands()), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(self.folder),
            "ETIR_SOURCE": str(ROOT),
        }
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout

    def _run_console(self, block: Block) -> None:
        new: list[str] = []
        index = 0
        while index < len(block.lines):
            line = block.lines[index]
            if not line.startswith("$ "):
                raise self._fail(block, f"output without a command: {line}")
            end = index + 1
            while end < len(block.lines) and not block.lines[end].startswith("$ "):
                end += 1
            expected = block.lines[index + 1 : end]
            _, output = self._shell(line[2:])
            if "Traceback (most recent call last)" in output:
                raise self._fail(block, f"`{line[2:]}` ends in a traceback:\n{output}")
            got = output.rstrip("\n").split("\n") if output.strip() else []
            if not _agree(expected, got):
                if not self.update:
                    raise self._fail(block, _difference(f"`{line[2:]}` gives", expected, got))
                expected = got
            new += [line, *expected]
            index = end
        self._change(block, new)

    def _check_mlir(self, block: Block, following: Block | None) -> None:
        from etir.diagnostics import EtirError
        from etir.dialects.context import EtContext
        from etir.dialects.text import parse_module, print_module
        from etir.dialects.verify import verify_module
        from etir.passes.infra.manager import run_pipeline

        wanted = block.option("error")
        pipeline = block.option("pipeline")
        try:
            ctx = EtContext()
            module = parse_module(block.text, ctx, name=self.path.name, first_line=block.first_line)
            verify_module(module)
            if pipeline is not None:
                run_pipeline(ctx, module, pipeline)
        except EtirError as error:
            if wanted is None or set(error.ids) != set(wanted.split(",")):
                raise self._fail(block, f"{error}") from None
            return
        if wanted is not None:
            raise self._fail(block, f"no error, expected {wanted}")
        if pipeline is not None and following is not None and "result" in following.words:
            got = print_module(module).rstrip("\n").split("\n")
            if not _agree(following.lines, got):
                if not self.update:
                    raise self._fail(following, _difference(f"`{pipeline}` gives", following.lines, got))
                self._change(following, got)

    def _run_python(self, block: Block, following: Block | None) -> None:
        stream = io.StringIO()
        source = "\n" * (block.first_line - 1) + block.text
        with contextlib.redirect_stdout(stream):
            exec(compile(source, str(self.path), "exec"), self.names)
        if following is not None and "output" in following.words:
            got = stream.getvalue().rstrip("\n").split("\n")
            if not _agree(following.lines, got):
                if not self.update:
                    raise self._fail(following, _difference("the code prints", following.lines, got))
                self._change(following, got)

    def _change(self, block: Block, new: list[str]) -> None:
        if new != block.lines:
            self.changes[block.first_line] = (len(block.lines), [f"{block.indent}{line}" for line in new])

    def _write_changes(self) -> None:
        lines = self.path.read_text(encoding="utf-8").split("\n")
        for first, (count, new) in sorted(self.changes.items(), reverse=True):
            lines[first - 1 : first - 1 + count] = new
        self.path.write_text("\n".join(lines), encoding="utf-8")


def _agree(expected: list[str], got: list[str]) -> bool:
    """Whether the lines are the same, with ``...`` for any lines."""
    pattern = "".join(r"(?:[^\n]*\n)*" if line.strip() == "..." else re.escape(line) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in got)) is not None


def _difference(title: str, expected: list[str], got: list[str]) -> str:
    return "\n".join([title, *(f"    {line}" for line in got), "not", *(f"    {line}" for line in expected)])


def main(arguments: list[str]) -> int:
    """Run pages from the command line: ``[--update] [PAGE]...``; returns the exit code."""
    update = "--update" in arguments
    chosen = [Path(a).resolve() for a in arguments if a != "--update"] or pages()
    for path in chosen:
        with tempfile.TemporaryDirectory() as folder:
            page = Page(path, Path(folder), update)
            count = page.run()
            print(f"{path.relative_to(ROOT)}: {count} examples" + (", updated" if page.changes else ""))
    return 0
