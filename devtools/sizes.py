"""What the bytes of planned memory are for: those that are alive at the peak, by source line, module or operation."""

from __future__ import annotations

from etir.devtools.trace.read import Trace, checked


def size_table(trace: Trace, method: str, what: str, top: int | None) -> str:
    """Bytes at the peak of memory 1 by ``line``, ``module`` or ``op``; a buffer with several origins is divided.

    Raises error E1403 for a damaged trace.
    """
    with checked(trace.name, "memory.json"):
        return _table(trace, method, what, top)
    raise AssertionError


def _table(trace: Trace, method: str, what: str, top: int | None) -> str:
    plan = trace.memory[method]
    bounds = plan["bounds"].get("1", {})
    sums: dict[str, float] = {}
    for index in bounds.get("alive", ()):
        buffer = plan["buffers"][index]
        keys = [key for n in buffer["origins"] if (key := _key(trace, n, what))] or [f"(%{buffer['name']})"]
        for key in keys:
            sums[key] = sums.get(key, 0.0) + buffer["bytes"] / len(keys)
    rows = sorted(sums.items(), key=lambda row: (-row[1], row[0]))
    total = sum(sums.values())
    pools = ", ".join(f"{size:,} bytes in pool {pool}" for pool, size in enumerate(plan["pools"]) if pool)
    lines = [f"{method}: {pools}; the peak is at instruction {bounds.get('peak')}"]
    lines += [f"{int(size):>14,}  {100 * size / max(total, 1):5.1f} %  {key}" for key, size in rows[:top]]
    if top is not None and len(rows) > top:
        lines.append(f"and {len(rows) - top} more")
    return "\n".join(lines) + "\n"


def _key(trace: Trace, number: int, what: str) -> str:
    origin = trace.origin(number)
    if origin is None:
        return ""
    return {"module": origin.path, "op": origin.op}.get(what, origin.where)
