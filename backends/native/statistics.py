"""``var_mean`` as two operators, since a group of operators has one result.

Before::

    %v, %m = edge.aten.var_mean.correction(%x, dim = [1], correction = 1, keepdim = false)

After::

    %v = edge.aten.var.correction(%x, dim = [1], correction = 1, keepdim = false)
    %m = edge.aten.mean.dim(%x, dim = [1], keepdim = false)

What nothing reads is not made.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from etir.backends.native.folds import reduced_dims
from etir.dialects.edge import ops as edge
from etir.dialects.walking import ops_of

VAR_MEAN = "aten.var_mean.correction"


def split_statistics(func: FuncOp) -> None:
    """Rewrite every variance with a mean of an outlined function."""
    block = func.body.block
    for op in [op for op in ops_of(block) if isinstance(op, edge.aten.var_mean.correction)]:
        given = {"self": op.arg("self"), "dim": reduced_dims(op), "keepdim": op.arg("keepdim")}
        variance, mean = op.results
        correction = {"correction": op.arg("correction")}
        for old, cls, more in ((variance, edge.aten.var.correction, correction), (mean, edge.aten.mean.dim, {})):
            if old.first_use is None:
                continue
            made = cls.make({**given, **more}, [old.type])
            made.location = op.location
            made.results[0].name_hint = old.name_hint
            block.insert_op_before(made, op)
            old.replace_all_uses_with(made.results[0])
        block.erase_op(op)
