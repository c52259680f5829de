"""What kind of file the bytes of an input are, so that a file of the wrong kind is refused with what to do with it."""

from __future__ import annotations

from etir.diagnostics import SourceLocation
from etir.tools.errors import E0902, E0921

HEAD = 4096
"""Bytes from the start of a file that tell its kind."""

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"ML\xefR", "MLIR bytecode"),
    (4, b"ET12", "a .pte file"),
    (4, b"BP08", "a bundled program"),
    (8, b"ED00", "a profile"),
    (0, b"PK\x03\x04", "a zip archive"),
    (8, b'{"', "a safetensors file"),
    (0, b"\x93NUMPY", "an .npy file"),
)
"""Offset and magic bytes of a kind."""

_ADVICE: dict[tuple[str, str], str] = {
    ("text", "MLIR bytecode"): "print it as text first",
    ("text", "a .pte file"): "turn it into text with et-translate --pte-to-mlir",
    ("a .pte file", "a bundled program"): "et-run FILE.bpte --check runs its test cases",
    ("a bundled program", "a .pte file"): "et-translate --bundle adds test cases to it",
    ("text", "a zip archive"): "import a .pt2 file with et-translate --import-pt2",
    ("text", "a safetensors file"): "weights are named with --weights",
    ("a .pte file", "text"): "compile it with et-compile",
    ("a .pte file", "a zip archive"): "compile a .pt2 file with et-compile",
    ("a .pte file", "a safetensors file"): "weights are named with --weights",
    ("a .pt2 file", "text"): "et-opt and et-compile read it",
    ("a .pt2 file", "a .pte file"): "turn it into text with et-translate --pte-to-mlir",
    ("a .pt2 file", "a safetensors file"): "export the program with torch.export.save",
    ("an .npz file", "an .npy file"): "several arrays with their names are written by numpy.savez",
}
"""What to do with a file of one kind where another is wanted."""


def kind_of(data: bytes) -> str:
    """``a .pte file``, ``text`` and so on; empty for bytes that none of this is known of."""
    if not data:
        return "empty"
    for offset, magic, kind in _MAGIC:
        if data[offset : offset + len(magic)] == magic:
            return kind
    return "text" if _is_text(data[:HEAD]) else ""


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3  # a character that the cut went through
    return True


def refuse_others(name: str, data: bytes, wanted: str, help: str | None = None) -> None:
    """Raise error E0902 for bytes that are certainly another kind of file than ``wanted``.

    What starts like no other kind passes: whoever reads it says more precisely what is wrong. ``help`` is what to do.
    """
    kind = kind_of(data)
    if kind == "empty":
        lost = f"pass {wanted}; it may have been lost while writing or copying"
        raise E0902.error(f"'{name}' is empty", help=help or lost)
    advice = _ADVICE.get((wanted, kind))
    if advice is not None or (kind == "text" and wanted != "text"):
        raise E0902.error(f"'{name}' is not {wanted}: it is {kind}" + (f"; {advice}" if advice else ""), help=help)


def refuse_bombs(path: str) -> None:
    """Raise error E0921 for a zip archive that unpacks to more than there is memory.

    A damaged one passes: whoever reads it says what is wrong.
    """
    import zipfile

    from etir.devtools.values.room import available_bytes

    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError):
        return
    size, free = sum(info.file_size for info in infos), available_bytes()
    if size > free:
        largest = max(infos, key=lambda info: info.file_size)
        message = f"it unpacks to {size:,} bytes, most of them in '{largest.filename}', and {free:,} are free"
        raise E0921.error(message, SourceLocation(path))
