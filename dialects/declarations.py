"""Schemas that passes declare for operators that they make, as the importer does for what it finds."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr, UnknownLoc

from etir.dialects.et.program import SchemaDeclOp
from etir.dialects.schema import parse_schema


def declare_schemas(module: ModuleOp, schemas: Iterable[str]) -> None:
    """Declare the schemas that ``module`` does not have yet, in this order, before everything else."""
    known = [parse_schema(op.schema.data).op_name for op in module.body.block.ops if isinstance(op, SchemaDeclOp)]
    first = module.body.block.first_op
    for text in (text for text in schemas if parse_schema(text).op_name not in known):
        op = SchemaDeclOp(text)
        op.location = NameLoc(StringAttr("schema"), UnknownLoc())
        if first is None:
            module.body.block.add_op(op)
        else:
            module.body.block.insert_op_before(op, first)


def functional_form(schema: str) -> str:
    """The schema of the operator that an out variant of one result computes: ``f.out(..., *, Tensor(a!) out)``."""
    name, _, rest = schema.partition("(")
    return f"{name.removesuffix('.out')}({rest.partition(', *, Tensor(a!) out)')[0]}) -> Tensor"
