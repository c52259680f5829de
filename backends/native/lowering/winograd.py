"""Convolutions of 3x3 windows with fewer multiplications, by Winograd's F(2x2, 3x3) (``winograd.py``).

Tiles of the image are transformed, 16 products make sums of them, the sums become the result. Where weights are small,
that is one operation, of which each thread does some tiles at a time. Else it is three operations on each block of rows
of tiles, one block after another in the same memory, and threads share rows of tiles and panels of columns. An image
needs no border, since the transform knows where it ends.

It is taken where a model says that it saves a seventh of the time at least (:func:`cycles`): not for few channels,
whose transforms cost as much as what is saved, and not for few positions, whose weights, 16 / 9 of the bytes, come from
memory and are waited for. A product that stays has the attribute ``native.reason``, which says why. Weights that
several convolutions read are in one order: all of them are taken, or none.

Windows with strides, gaps between taps, groups of channels or sizes of the call stay as they are, as do images of
which a function's ``native.direct`` says so, where memory is short (``savings.py``), and those of linked code: flash is
what it has least of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Region, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.asked import saves
from etir.backends.native.cpu import Cpu
from etir.backends.native.dialect import GroupOp
from etir.backends.native.dims import dims
from etir.backends.native.functions import DIRECT, FITTING
from etir.backends.native.loop import SLOTS
from etir.backends.native.memory import SPARE, Memory
from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import BrgemmOp, BufferOp, identity, memref
from etir.backends.native.windows import image_bytes, window_of
from etir.backends.native.winograd import OUT, POINTS, WINDOW, WinogradInputOp, WinogradOp, WinogradOutputOp, tiles_of
from etir.dialects.copying import copy_of_region
from etir.dialects.schema_op import SchemaOp

if TYPE_CHECKING:
    from etir.backends.native.lowering.function import Lowering

REASON = "native.reason"
"""Of a product that is windows of 3x3: why it is not Winograd's."""
SAVED = "tiles"
"""What a function does without whose blocks are as small as can be (``savings.py``)."""

GAIN = 0.85
"""The part of a convolution's cycles that it takes at most, where it is taken: less is not worth a larger file."""
TRANSFORM = 100
"""Cycles of a transform of a tile of vectors, 16 of which are read and 16 written outside of the first cache: 96 to 110
on Zen 3, for 28 to 784 tiles of 64 to 256 channels."""
BYTES = 4.4
"""Bytes of weights that come from memory in a cycle, which products of few rows wait for: 14 GB/s at 3.2 GHz.

With this and ``TRANSFORM``, layers of 64, 128, 256 and 512 channels at 56, 28, 14 and 7 rows are said to take 0.62,
0.55, 0.58 and 0.88 of the cycles; measured, one thread of Zen 3: 0.61, 0.55, 0.58 and 0.88."""
CACHES = 3
"""How often the second cache is as large as the transformed tiles and sums of a block may be. From a fifth of it to six
times as much is within 5 % on Zen 3; weights are read once for each block."""
ALIGNMENT = 64
"""Bytes at whose multiples buffers begin at most."""
AT_ONCE, LEAST_AT_ONCE = 28, 4
"""Tiles that one thread transforms, multiplies and writes before others: two register tiles of rows with AVX-512. 14 to
56 take as long on a core with 2 MiB of second cache; fewer where memory is short."""
WEIGHTS = 0.5
"""The part of the second cache that weights may be for that. On two threads, ResNet-18 takes 0.93 of the time and
ResNet-50 0.94 (Xeon with AVX-512): a block of rows has three operations, after each of which threads wait."""
BLOCKS = 16
"""The most blocks of an image: each is operations of its own; twice as many where memory is short."""


def cycles(positions: int, tiles: int, c: int, k: int, target: Cpu) -> tuple[float, float]:
    """Cycles of a convolution of so many positions from ``c`` to ``k`` channels as it is, and by tiles."""
    multiply_adds = max(1, target.fma) * target.vector
    direct = WINDOW * WINDOW * positions * c * k / multiply_adds
    products = POINTS * tiles * c * k / multiply_adds
    transforms = TRANSFORM * tiles * (c + k) / target.vector
    weights = 4 * c * k / BYTES
    return direct + WINDOW * WINDOW * weights, products + transforms + POINTS * weights


def reason_against(root: SchemaOp, func: FuncOp, target: Cpu) -> str | None:
    """Why a convolution stays as it is: empty where its windows are others, None where it does not."""
    if operator_of(root) != "aten.convolution.default" or target.linked or not target.l2:
        return ""
    window = window_of(root)
    image, result = dims(root.arg("input")), dims(root.results[0])
    is_plain = window.size == window.whole == (WINDOW, WINDOW) and window.stride == window.dilation == (1, 1)
    if not is_plain or window.transposed or window.groups != 1 or len(image) != 4:
        return ""
    if not is_known((*image, *result)) or max(window.padding) >= WINDOW:
        return ""
    least = func.attributes.get(DIRECT)
    if isinstance(least, IntegerAttr) and image_bytes(root) >= least.value.data:
        return f"an image of {least.value.data} bytes and more is not transformed, to save memory"
    n, k, h, w = result
    direct, tiled = cycles(n * h * w, n * tiles_of(h) * tiles_of(w), image[1], k, target)
    return None if tiled <= GAIN * direct else f"by tiles of {OUT}x{OUT} it is {tiled / direct:.2f} of the cycles"


def reason_for_all(group: GroupOp, root: SchemaOp, lowering: Lowering) -> str | None:
    """:func:`reason_against` of a group's convolution, and of the others that read its weight; or that there is no room
    for its tiles, where the function asks for that (``fitting``).
    """
    reason = _reason(group, root, lowering)
    if reason is not None:
        return reason
    weight = group.inputs[group.body.block.args.index(root.arg("weight"))]
    for use in weight.uses:
        other = use.operation
        reads = other.root if isinstance(other, GroupOp) else None
        if not isinstance(reads, SchemaOp) or _reason(cast(GroupOp, other), reads, lowering) is not None:
            return "another operator reads its weight in another order"
    return None


def _reason(group: GroupOp, root: SchemaOp, lowering: Lowering) -> str | None:
    reason = reason_against(root, lowering.func, lowering.target)
    if reason is None and saves(lowering.func, FITTING):
        n, k, h, w = dims(root.results[0])
        c, tiles = dims(root.arg("input"))[1], n * tiles_of(h) * tiles_of(w)
        at_once = SLOTS * LEAST_AT_ONCE if _is_for_few(c, k, tiles, lowering.target) else tiles
        least = 4 * POINTS * (c + k) * min(at_once, n * tiles_of(w))
        if lowering.room(group) < least + 2 * SLOTS * (4 * POINTS * SPARE + ALIGNMENT):
            return "there is no room for its tiles beside what lives then"
    return reason


def lower_winograd(
    lowering: Lowering,
    root: SchemaOp,
    source: Place,
    weight: tuple[str, int],
    target: Place,
    extras: Sequence[Place],
    body: Region,
) -> None:
    """Add the convolution ``root`` of an image [n, c, h, w] to a result [n, h, w, k]; ``weight`` is its symbol and the
    columns of a panel.
    """
    image = source.permuted([0, 2, 3, 1])
    n, h, w, k = target.shape
    symbol, panel = weight
    padding = window_of(root).padding
    c = image.shape[3]
    image = image if image.strides[3] == 1 else lowering.with_border(source, (0, 0), 0.0, root)
    filters = lowering.weight(symbol, memref((POINTS, -(-k // panel), c, panel)), panel, True, OUT)
    if at_once := _at_once(lowering, n * tiles_of(h) * tiles_of(w), c, k):
        border = (padding[0], padding[0], padding[1], padding[1])
        parts = [lowering.memref(place) for place in (target, *extras)]
        of_threads = (_tiles(lowering, at_once, c, SLOTS), _tiles(lowering, at_once, k, SLOTS))
        x = lowering.memref(image)
        lowering.add(WinogradOp(x, filters, parts[0], parts[1:], of_threads, border, copy_of_region(body)))
        return
    room, blocks = lowering.target.l2 * CACHES, BLOCKS
    if saves(lowering.func, SAVED):
        room, blocks = max(0, min(room, lowering.room() - 2 * (4 * POINTS * SPARE + ALIGNMENT))), 2 * BLOCKS
    rows = _rows((h, w), room // (4 * POINTS * (c + k) * n), blocks)
    memory: dict[int, tuple[SSAValue, SSAValue]] = {}
    for first in range(0, h, rows):
        height = min(rows, h - first)
        tiles = n * tiles_of(height) * tiles_of(w)
        if tiles not in memory:
            memory[tiles] = (_tiles(lowering, tiles, c), _tiles(lowering, tiles, k))
        v, m = memory[tiles]
        # The rows of the image that the block reads, and those of its border.
        top, bottom = first - padding[0], first + height + WINDOW - 1 - padding[0]
        start, end = max(0, top), min(image.shape[1], bottom)
        border = (start - top, bottom - end, padding[1], padding[1])
        x = lowering.memref(image.sliced(1, start, end - start))
        lowering.add(WinogradInputOp(x, v, border))
        lowering.add(BrgemmOp(v, filters, m, [], identity()))
        parts = [lowering.memref(place.sliced(1, first, height)) for place in (target, *extras)]
        lowering.add(WinogradOutputOp(m, parts[0], parts[1:], copy_of_region(body)))


def _is_for_few(c: int, k: int, tiles: int, target: Cpu) -> bool:
    """Whether a few tiles from ``c`` to ``k`` channels may be done before others: weights stay in the second cache."""
    return 4 * POINTS * c * k <= target.l2 * WEIGHTS and tiles >= SLOTS * AT_ONCE


def _at_once(lowering: Lowering, tiles: int, c: int, k: int) -> int:
    """Tiles that a thread does from beginning to end before others; 0 where it does not pay.

    Weights are read for every few tiles then. Slots have as many rounds, of hardly fewer tiles each.
    """
    if not _is_for_few(c, k, tiles, lowering.target):
        return 0
    most = AT_ONCE
    if saves(lowering.func, SAVED):
        room = lowering.room() // SLOTS - 2 * (4 * POINTS * SPARE + ALIGNMENT)
        most = min(most, room // (4 * POINTS * (c + k)))
    if most < LEAST_AT_ONCE:
        return 0
    rounds = -(-tiles // (SLOTS * most))
    return -(-tiles // (SLOTS * rounds))


def _rows(image: tuple[int, int], tiles: int, blocks: int) -> int:
    """Rows of the result of a block of so many tiles: all but the last one are equal, and that is hardly lower. There
    are at most so many ``blocks``.
    """
    high, wide = (tiles_of(extent) for extent in image)
    most = max(1, tiles // wide, -(-high // blocks))
    return OUT * -(-high // -(-high // most))


def _tiles(memory: Memory, tiles: int, channels: int, slots: int = 0) -> SSAValue:
    """Memory for transformed tiles, or for those of each slot: points do not lie a multiple of 4 KiB apart, which would
    share the sets of the first cache.
    """
    point = tiles * channels + SPARE
    of_slots = ((slots,), (POINTS * point,)) if slots else ((), ())
    type = memref((*of_slots[0], POINTS, tiles, channels), (*of_slots[1], point, channels, 1))
    return memory.add(BufferOp(type)).results[0]
