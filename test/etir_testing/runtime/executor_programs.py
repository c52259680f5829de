"""Programs that no exporter writes, value by value: loops, jumps, state, external weights."""

from __future__ import annotations

import struct
from typing import Any

from etir.emit.pte import model
from etir.emit.pte.model import JumpFalseCall, MoveCall

from etir_testing.runtime.programs import BOUND, Builder


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def copies(**options: Any) -> bytes:
    """y = clone(x), both of shape [2, 3]."""
    b = Builder()
    x, y = b.input(b.tensor(2, 3, **options)), b.tensor(2, 3, **options)
    b.clone(x, y)
    b.outputs.append(y)
    return b.pte()


def loop(count: int) -> Builder:
    """i counts to ``count`` and back to 0; the result of the method is how often the body ran."""
    b = Builder()
    i, one, n, runs, done, zero = b.int(0), b.int(1), b.int(count), b.int(0), b.false(), b.int(0)
    b.call("executorch_prim::mul.Scalar", runs, zero, runs)
    b.call("executorch_prim::add.Scalar", runs, one, runs)
    b.call("executorch_prim::add.Scalar", i, one, i)
    b.call("executorch_prim::eq.Scalar", i, n, done)
    b.instructions.append(JumpFalseCall(done, 1))
    b.call("executorch_prim::sub.Scalar", i, n, i)
    b.outputs += [runs, i]
    return b


def conditional() -> bytes:
    """y = a if flag else b, moved by handle, for constants a and b; and a copy of it."""
    b = Builder()
    flag = b.input(b.tensor(2, dtype="BOOL"))
    x1, x2 = b.tensor(2, constant=floats(1, 2)), b.tensor(2, constant=floats(3, 4))
    y, copy = b.tensor(2, planned=False), b.tensor(2)
    b.instructions += [
        JumpFalseCall(flag, 3), MoveCall(x1, y), JumpFalseCall(b.false(), 4), MoveCall(x2, y),
    ]  # fmt: skip
    b.clone(y, copy)
    b.outputs += [y, copy]
    return b.pte()


def grower(dynamism: Any) -> bytes:
    """Rows of y are x, three times; y has room for one unless it has no bound."""
    b = Builder()
    x, y = b.input(b.tensor(2)), b.tensor(1, 2, dynamism=dynamism, planned=dynamism is BOUND)
    for index in range(3):
        b.call("executorch_prim::et_copy_index.tensor", y, x, b.int(index))
    b.outputs.append(y)
    return b.pte(check=False)


def state(initial: bytes | None, memory: int = 1) -> Builder:
    """Returns what the state was, and puts x there."""
    b = Builder()
    x, s, y = b.input(b.tensor(2)), b.tensor(2, initial=initial, memory=memory), b.tensor(2)
    b.clone(s, y)
    b.clone(x, s)
    b.outputs.append(y)
    return b


def external(planned: bool) -> Builder:
    b = Builder()
    info = model.ExtraTensorInfo(fully_qualified_name="w", location=model.TensorDataLocation.EXTERNAL)
    w, y = b.tensor(2, planned=planned, extra_tensor_info=info), b.tensor(2)
    b.clone(w, y)
    b.outputs.append(y)
    return b
