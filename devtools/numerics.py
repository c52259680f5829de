"""``et-opt --check-numerics``: the first pass and rewrite after which the interpreter gives another result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from etir.devtools.bisect import bisect
from etir.devtools.checks import SameNumbers
from etir.devtools.errors import E1410
from etir.dialects.context import EtContext


def check_numerics(
    ctx: EtContext,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    samples: Sequence[Sequence[Any]],
    method: str,
    tolerance: float,
) -> str:
    """Judge the module after every pass against what it gives before the first one; returns what to say of it.

    Raises error E1410 with the pass and the rewrite where the result changes by more than ``tolerance``, and what the
    interpreter and the passes do. The module stays as it is.
    """
    check = SameNumbers.of(module, samples, method, tolerance)
    found = bisect(ctx, module, passes, check, scan=True)
    if found is None:
        count = f"{len(samples)} sample{'s' if len(samples) > 1 else ''}"
        return f"check-numerics: {len(passes)} passes, {count}: the results are the same within {tolerance:g}"
    check(found.after)
    change = "other shapes, or numbers that are not finite" if check.worst == float("inf") else f"{check.worst:.2g}"
    raise E1410.error(f"after {found}: the result of '{method}' differs by {change}, the tolerance is {tolerance:g}")
