"""Modules and weights as files, for the tools that translate between formats.

Text has its weights beside it: ``model.mlir`` and ``model.safetensors``. Reading takes that file when it exists and
none is named; writing makes it when the module has any bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import Diagnostic, EtirError, SourceLocation
from etir.dialects.context import EtContext
from etir.dialects.et.weights import WeightFile, write_weight_file
from etir.dialects.payloads import Payload, payloads
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module
from etir.tools.common import Console, read_bytes, read_text, write_output
from etir.tools.errors import E0903
from etir.tools.kinds import refuse_others


def weights_path(path: str) -> Path:
    """The weights file that belongs to a text file."""
    return Path(path).with_suffix(".safetensors")


def read_module(
    path: str, weights: list[str], ctx: EtContext, console: Console, replacements: Sequence[str] = ()
) -> ModuleOp:
    """Read and verify a module with its weights, or with other bytes for some of them from the files ``replacements``.

    Raises the errors of parsing, weights and verification.
    """
    name, text = read_text(path, console, may_be_empty=False)
    files = weights or weights_beside(path)
    opened = [WeightFile(file) for file in files]
    module = parse_module(text, ctx, name=name, weights=opened, expected=expected_weights(path, files))
    if replacements:
        from etir.tools.replacements import replace_weights

        replace_weights(module, replacements)
    verify_module(module)
    return module


def read_pte_bytes(path: str) -> tuple[str, bytes]:
    """The name and the bytes of a ``.pte`` file. Raises error E0902, also for a file that is certainly of another kind.

    What is wrong with a file of the right kind, its readers say.
    """
    name, data = read_bytes(path)
    if data:
        refuse_others(name, data, "a .pte file")
    return name, data


def read_pte_module(path: str, external: Sequence[str] = ()) -> ModuleOp:
    """The module of a ``.pte`` file, with the file's name in errors; ``external`` are its ``.ptd`` files.

    Raises the errors of the readers (E08xx).
    """
    from etir.emit.from_pte import read_program
    from etir.emit.ptd.reader import read_ptd

    name, data = read_pte_bytes(path)
    files = {file: read_ptd(read_bytes(file)[1], file) for file in external}
    try:
        return read_program(data, files)
    except EtirError as error:
        raise EtirError([_named(diagnostic, name) for diagnostic in error.diagnostics]) from error.__cause__


def _named(diagnostic: Diagnostic, name: str) -> Diagnostic:
    return replace(diagnostic, location=replace(diagnostic.location or SourceLocation(""), file=name))


def write_module(module: ModuleOp, path: str, weights: str | None, *, locations: bool) -> None:
    """Write a module as text, and the bytes it refers to as a weights file when there are any.

    Standard output gets the text alone unless ``weights`` names a file. Raises error E0903.
    """
    target = Path(weights) if weights is not None else None if path == "-" else weights_path(path)
    if target is not None:
        write_payloads(target, list(payloads(module)))
    write_output(path, print_module(module, locations=locations))


def write_payloads(path: Path, found: list[Payload]) -> None:
    """Write a weights file, unless there is nothing to write.

    Raises error E0903, also rather than replace a file that etir did not write: it may be somebody's checkpoint.
    """
    if not found:
        return
    _refuse_foreign(path)
    try:
        write_weight_file(path, found)
    except OSError as error:
        raise E0903.error(f"cannot write '{path}': {error.strerror or error}") from None


def keep_weights(path: Path, found: list[Payload], files: list[WeightFile]) -> None:
    """Make sure that the weights file ``path`` has the bytes of ``found``.

    When one of ``files`` has them all, ``path`` becomes a second name of it where the file system can do that: weights
    files are replaced, never changed, so that neither name can see the other's future. Raises error E0903.
    """
    whole = next((file for file in files if all(blob in file for _, _, blob in found)), None)
    if whole is None or not found:
        write_payloads(path, found)
        return
    if path.exists() and path.samefile(whole.path):
        return
    _refuse_foreign(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.link(whole.path, temporary)
        os.replace(temporary, path)
    except OSError:  # another file system, or one without links: a copy does as well
        write_payloads(path, found)


def _refuse_foreign(path: Path) -> None:
    if path.is_dir():
        raise E0903.error(f"cannot write '{path}': Is a directory")
    try:
        foreign = path.exists() and WeightFile(path).is_from_elsewhere
    except EtirError:
        foreign = True
    if foreign:
        help = "name another file with --weights-out, or move this one away"
        raise E0903.error(f"'{path}' exists and was not written by etir: it is not replaced", help=help)


def expected_weights(path: str, files: Sequence[str]) -> list[str]:
    """The file that a text's weights should be in when there is none, for messages."""
    return [] if files or path == "-" else [str(weights_path(path))]


def weights_beside(path: str) -> list[str]:
    """The weights file beside a text file, if there is one."""
    return [str(weights_path(path))] if path != "-" and weights_path(path).is_file() else []
