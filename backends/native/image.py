"""A shared object as a flat image: the bytes that are mapped, and where the entry is.

No device has a linker, and none is needed: generated code has no data of its own and calls nothing. What a shared
object may have beside code and constants (relocations, undefined symbols, writable data) is an error here (E1163), so
that the image runs wherever it is copied, at any address that is a multiple of 64.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from etir.backends.native.errors import E1163

PT_LOAD, PT_DYNAMIC = 1, 2
DT_RELA, DT_REL, DT_RELR, DT_JMPREL, DT_SYMTAB, DT_STRTAB, DT_HASH, DT_GNU_HASH = 7, 17, 36, 23, 6, 5, 4, 0x6FFFFEF5
RELOCATIONS = ((DT_RELA, 8, "RELA"), (DT_REL, 18, "REL"), (DT_RELR, 35, "RELR"), (DT_JMPREL, 2, "JMPREL"))
"""Tables of relocations: their tag, that of their size, and their name. GNU ld names empty ones."""
GOT_HEADER = 8
"""Bytes of a .got that has nothing of the code: GNU ld for aarch64 always puts the dynamic section's address there."""
WRITABLE = 2


@dataclass(frozen=True)
class Image:
    """Position independent code: ``code`` starts at a multiple of 64, ``entry`` is the function's offset."""

    code: bytes
    entry: int


def flat_image(elf: bytes, entry: str) -> Image:
    """The image of a 64-bit little-endian shared object. Raises E1163 for one that needs a loader."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise E1163.error("the compiler made no 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    loaded: list[tuple[int, int, int, int, int]] = []
    dynamic: tuple[int, int] | None = None
    for i in range(count):
        kind, flags, at, address, _, in_file, in_memory, _ = struct.unpack_from("<IIQQQQQQ", elf, offset + i * size)
        if kind == PT_LOAD:
            loaded.append((flags, at, address, in_file, in_memory))
        elif kind == PT_DYNAMIC:
            dynamic = (at, in_file)
    if dynamic is None:
        raise E1163.error("the shared object has no dynamic section")
    tags = _tags(elf, *dynamic)
    for tag, size_tag, name in RELOCATIONS:
        if tag in tags and tags.get(size_tag, 1):
            raise E1163.error(f"the code has relocations ({name}): it refers to data by address, or calls a function")
    code = bytearray()
    for flags, at, address, in_file, in_memory in loaded:
        if flags & WRITABLE:
            continue  # the dynamic section, which nothing reads at run time; others are found by what refers to them
        if in_memory != in_file:
            raise E1163.error("the code has data that starts as zeros")
        code.extend(bytes(address + in_file - len(code)) if address + in_file > len(code) else b"")
        code[address : address + in_file] = elf[at : at + in_file]
    _refuse_data(elf)
    return Image(bytes(code), _symbol(elf, tags, entry))


def _tags(elf: bytes, at: int, size: int) -> dict[int, int]:
    tags: dict[int, int] = {}
    for i in range(size // 16):
        tag, value = struct.unpack_from("<qQ", elf, at + 16 * i)
        if tag == 0:
            break
        tags[tag] = value
    return tags


def _refuse_data(elf: bytes) -> None:
    """Sections for variables are not there, or empty."""
    (offset,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    if not offset or not count:
        return
    rows = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size) for i in range(count)]
    strings = rows[names][4]
    for row in rows:
        start = strings + row[0]
        name = elf[start : elf.index(b"\0", start)].decode()
        is_variable = name in (".data", ".bss", ".tdata", ".tbss", ".got", ".data.rel.ro", ".init_array")
        if is_variable and row[5] > (GOT_HEADER if name == ".got" else 0):
            raise E1163.error(f"the code has variables of its own (section {name})")


def _symbol(elf: bytes, tags: dict[int, int], entry: str) -> int:
    """The address of a defined dynamic symbol; every other one that is undefined is an error."""
    symbols, strings = tags[DT_SYMTAB], tags[DT_STRTAB]
    found: int | None = None
    at = symbols + 24
    # Symbols have 24 bytes; the next table in the file ends theirs.
    end = min(v for tag, v in tags.items() if tag in (DT_STRTAB, DT_HASH, DT_GNU_HASH) and v > symbols)
    while at + 24 <= end:
        name_at, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
        start = strings + name_at
        name = elf[start : elf.index(b"\0", start)].decode()
        if section == 0 and name:
            raise E1163.error(f"the code calls '{name}', which nothing provides")
        if name == entry:
            found = value
        at += 24
    if found is None:
        raise E1163.error(f"the code does not have the function '{entry}'")
    return found


SECTION_WRITABLE, ALLOCATED, WITHOUT_BYTES = 1, 2, 8


def object_bytes(elf: bytes) -> int:
    """Bytes of code and constants of an object file, 32 or 64 bits. Raises E1163 for one with variables."""
    if elf[:4] != b"\x7fELF" or elf[5] != 1:
        raise E1163.error("the compiler made no little-endian ELF file")
    is_wide = elf[4] == 2
    (offset,) = struct.unpack_from("<Q" if is_wide else "<I", elf, 40 if is_wide else 32)
    size, count, _ = struct.unpack_from("<HHH", elf, 58 if is_wide else 46)
    total = 0
    for i in range(count):
        _, kind, flags, *rest = struct.unpack_from("<IIQQQQIIQQ" if is_wide else "<10I", elf, offset + i * size)
        section_bytes = rest[2]
        if not flags & ALLOCATED or not section_bytes:
            continue
        if flags & SECTION_WRITABLE or kind == WITHOUT_BYTES:
            raise E1163.error("the code has variables of its own")
        total += section_bytes
    return total
