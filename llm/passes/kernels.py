"""Whether a target has a kernel of `etir.dialects.llama` for an element type, and why not."""

from __future__ import annotations

from xdsl.ir import Attribute

from etir.dialects.dtypes import dtype_of, f32
from etir.dialects.llama import out_name
from etir.targets.manifest import load


def missing_kernel(
    operator: str, type: Attribute, target: str, libraries: tuple[str, ...], cache: Attribute | None = None
) -> str | None:
    """Why ``target`` cannot run an operator on tensors of ``type``; None where it can. Raises E0601 for an unknown one.

    int8 says that the result is float32 all the same. ``cache`` is the type of keys and values where it is another one.
    """
    manifest, kernel = load(target), out_name(operator)
    entry = manifest.lookup(kernel)
    if entry is None:
        return f"target '{target}' has no kernel '{kernel}'"
    if not manifest.libraries.get(entry.library, False) and entry.library not in libraries:
        return f"library '{entry.library}' of target '{target}', which has '{kernel}', is not linked"
    row = dtype_of(type)
    floating = row.is_float
    given = {a.name: row.number for a in entry.tensor_arguments if a.name in ("query", "key", "value")}
    if cache is not None:
        given |= dict.fromkeys(("key", "value"), dtype_of(cache).number)
    given["out"] = row.number if floating else dtype_of(f32).number
    if not floating:
        for who in "qkv":
            given |= {f"{who}_zero_points": row.number, f"{who}_scales": dtype_of(f32).number}
    problem = entry.check(given)
    return None if problem is None else f"'{kernel}' of target '{target}': {problem}"
