"""The ATen operators by name: ``aten.add.Tensor`` is the class of ``aten.add.Tensor``.

::

    from etir.dialects.aten import ops as aten

    isinstance(op, aten.bmm.default) and op.mat2.type
    aten.relu.default.make({"self": x}, [type])

A class is made when its name is first read; a name that does not exist raises ``AttributeError`` with similar ones.
Type checkers read ``ops.pyi`` instead, which has every overload of the schema table.
"""

from __future__ import annotations

from etir.dialects.aten.base import aten_op
from etir.dialects.operators import Level, Namespace, Overloads

_aten = Namespace(Level("", aten_op), "aten")


def __getattr__(name: str) -> Overloads:
    overloads = globals()[name] = getattr(_aten, name)
    return overloads


def __dir__() -> list[str]:
    return dir(_aten)
