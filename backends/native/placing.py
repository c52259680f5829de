"""Places of buffers as a table in an image, so that functions that are equal but for them are compiled once.

The layers of a decoder that works with caches are delegates of their own, of equal code; where their buffers are in the
workspaces differs. So the C has a table of words that nothing else has, and the image gets the places in their stead::

    static const uint32_t etir_places[] = {0x9e3779b9u, 0x3c6ef372u, ...};

The compiler is kept from looking into the table.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from etir.backends.native.errors import E1163
from etir.backends.native.image import Image

NAME = "etir_places"
HEAD = 4
"""Words before the first place: so many bytes in a row are nowhere else."""


def table_text(places: Sequence[int], *, is_filled: bool = False) -> str:
    """The C of a table of ``places``: for :func:`with_places` to put them into, or with them."""
    table = [*words(HEAD), *places] if is_filled else words(HEAD + len(places))
    row = ", ".join(f"0x{word:08x}u" for word in table)
    return f"static const uint32_t {NAME}[] = {{{row}}};"


def entry_lines() -> list[str]:
    """What an entry begins with: ``places``, of whose contents the compiler knows nothing."""
    return [f"const uint32_t* places = {NAME} + {HEAD};", unknown("places")]


def unknown(name: str) -> str:
    """A statement after which the compiler does not know what a variable is."""
    return f'__asm__("" : "+r"({name}));'


def with_places(image: Image, places: Sequence[int]) -> Image:
    """The image with its places. Raises E1163 where the table is not in it exactly once."""
    if not places:
        return image
    marks = struct.pack(f"<{HEAD + len(places)}I", *words(HEAD + len(places)))
    if image.code.count(marks) != 1:
        raise E1163.error(f"the code has the table of places {image.code.count(marks)} times")
    table = marks[: 4 * HEAD] + struct.pack(f"<{len(places)}I", *places)
    return replace(image, code=image.code.replace(marks, table))


def words(count: int) -> list[int]:
    """The first words of a table that is to be filled."""
    return [0x9E3779B9 * (number + 1) & 0xFFFFFFFF for number in range(count)]
