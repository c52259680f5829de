"""From groups of edge operators to micro-kernels over memory: one file for what is lowered alike.

``lower_function`` walks a function; every kind of group and every operator that moves elements has one function, which
registers itself by :func:`~etir.backends.native.lowering.function.lowers` or ``moves``.
"""

from etir.backends.native.lowering import (  # noqa: F401
    gather,
    images,
    joins,
    maps,
    neighbors,
    norms,
    pools,
    products,
    reductions,
    resize,
    scan,
    shuffle,
    take,
    views,
)
from etir.backends.native.lowering.function import constant_name, lower_function, type_of

__all__ = ["constant_name", "lower_function", "type_of"]
