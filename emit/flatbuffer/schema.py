"""Tables as data: the slots of a FlatBuffers table, and how a set of present slots is laid out.

One description serves the builder and the view, so that the two cannot disagree. Scalars are named by their ``struct``
code, ``o`` is an offset to a string, vector or table. A union is two slots: its ``B`` tag, then the ``o`` of its value.
A slot that holds its default is not written; that is 0 unless the code says another number: ``"i=-1"``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import itemgetter, ne

CODE_BYTES = {"b": 1, "B": 1, "h": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8, "o": 4}
"""Size, and alignment, of a slot by its code."""


class TableLayout:
    """Where the present slots of a table go: widest first, so that nothing inside the table needs padding.

    A table starts with its 4-byte vtable reference, and eight-byte slots follow it immediately; such a table is
    placed 4 bytes before a multiple of 8.
    """

    __slots__ = ("alignment", "offset_slots", "pack", "phase", "pick", "size", "vtable")

    def __init__(self, codes: tuple[str, ...], present: tuple[bool, ...]):
        order = sorted((i for i, p in enumerate(present) if p), key=lambda i: (-CODE_BYTES[codes[i]], i))
        positions, position = [0] * len(codes), 4
        for slot in order:
            positions[slot] = position
            position += CODE_BYTES[codes[slot]]
        while positions and not positions[-1]:
            positions.pop()  # a vtable ends at its last present slot
        packed = struct.Struct("<i" + "".join(codes[slot].replace("o", "I") for slot in order))
        self.pack: Callable[..., bytes] = packed.pack
        self.size = position
        self.alignment, self.phase = (8, 4) if any(CODE_BYTES[codes[slot]] == 8 for slot in order) else (4, 0)
        self.pick: Callable[[tuple[int, ...]], tuple[int, ...]] = _picker(order)
        self.offset_slots = tuple((k, positions[slot]) for k, slot in enumerate(order) if codes[slot] == "o")
        header = (4 + 2 * len(positions), position)
        self.vtable = struct.pack(f"<{2 + len(positions)}H", *header, *positions)


def _picker(order: list[int]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    if not order:
        return lambda values: ()
    if len(order) == 1:
        only = order[0]
        return lambda values: (values[only],)
    return itemgetter(*order)


class TableSchema:
    """The slots of one table, in vtable order: ``TableSchema("Int", int_val="q")``."""

    __slots__ = ("_layouts", "codes", "defaults", "name", "slots")

    def __init__(self, name: str, /, **slots: str):
        self.name = name
        self.slots = tuple(slots)
        parts = [text.partition("=") for text in slots.values()]
        self.codes = tuple(code for code, _, _ in parts)
        self.defaults = tuple(int(default or 0) for _, _, default in parts)
        self._layouts: dict[tuple[bool, ...], TableLayout] = {}

    def present(self, values: tuple[int, ...]) -> tuple[bool, ...]:
        """Which slots of a table with these values are written."""
        return tuple(map(ne, values, self.defaults))

    def layout(self, present: tuple[bool, ...]) -> TableLayout:
        """The layout with just the ``present`` slots."""
        found = self._layouts.get(present)
        if found is None:
            found = self._layouts[present] = TableLayout(self.codes, present)
        return found
