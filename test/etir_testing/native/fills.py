"""What random functions of ``tile`` are made of, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from etir_testing.native.random_flags import truths
from etir_testing.native.random_functions import loops, maps, products, reductions, row_loops, rows, windows
from etir_testing.native.random_gather import gathered
from etir_testing.native.random_inside import inside
from etir_testing.native.random_lines import lines
from etir_testing.native.random_planes import planes
from etir_testing.native.random_resize import resized
from etir_testing.native.random_scan import scanned
from etir_testing.native.random_take import taken
from etir_testing.native.random_winograd import winograd

FILLS: Mapping[str, Callable[..., None]] = {
    "products": products, "maps": maps, "rows": rows, "windows": windows, "lines": lines, "reductions": reductions,
    "loops": loops, "row_loops": row_loops, "winograd": winograd, "truths": truths, "inside": inside,
    "resized": resized, "gathered": gathered, "scanned": scanned, "taken": taken, "planes": planes,
}  # fmt: skip
"""Each is given a function and how many of its operations it adds."""
