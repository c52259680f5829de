"""Small checks that the validators of both file formats share: text, names, numbers, alignments."""

from __future__ import annotations

MAX_ALIGNMENT = 1 << 20
MAX_FILE_NAME = 200
"""Bytes; file systems take 255, and what is written first has a longer name."""
_SHOWN = 120


def quoted(text: str) -> str:
    """``text`` in quotes, cut where a message would become unreadable."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def text_error(text: str) -> str | None:
    """Why ``text`` cannot be stored as UTF-8, ``None`` when it can."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"{quoted(text)} has the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}"
    return None


def name_error(name: str, limit: int | None = None) -> str | None:
    """Why ``name`` cannot be looked up, ``None`` when it can; ``limit`` is its greatest length in bytes.

    The runtime takes names as C strings, so an embedded NUL would cut them. Lone surrogates are :func:`text_error`'s.
    """
    if not name:
        return "is empty"
    if "\0" in name:
        return f"{quoted(name)} has a NUL character"
    if limit is not None and (size := len(name.encode(errors="surrogatepass"))) > limit:
        return f"{quoted(name)} has {size} bytes, more than {limit}"
    return None


def file_name_error(name: str) -> str | None:
    """Why ``name`` may not be the name of a file beside another one, ``None`` when it may.

    It names that file and no folder: what a program says must not decide where something is written.
    """
    if (problem := name_error(name, MAX_FILE_NAME) or text_error(name)) is not None:
        return problem
    if "/" in name or "\\" in name or name in (".", ".."):
        return f"{quoted(name)} is a path"
    return None


def is_alignment(value: int) -> bool:
    """Whether ``value`` is a power of two up to :data:`MAX_ALIGNMENT`."""
    return 0 < value <= MAX_ALIGNMENT and value & (value - 1) == 0


def align_up(offset: int, alignment: int) -> int:
    """The first multiple of ``alignment`` that is not below ``offset``."""
    return -(-offset // alignment) * alignment
