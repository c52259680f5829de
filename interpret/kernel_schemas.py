"""The schemas of kernels that instructions call, and of the functional operators that they compute.

A program file has names of kernels, not their schemas. Torch's own are in the table of operators, those of a user's
library are declared in the program's text, and those that come with a runtime are in its target's manifest, which is
read when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from etir.dialects.aten.table import load_table, out_variant
from etir.dialects.schema import OpSchema, SchemaKind
from etir.interpret.errors import E1001
from etir.targets.manifest import available, load


class KernelSchemas:
    """Schemas by the name of the kernel. ``declared`` are those that the program brings."""

    def __init__(self, declared: Iterable[OpSchema]):
        self._declared = list(declared)
        self._found: dict[str, tuple[OpSchema, OpSchema]] = {}

    def of(self, kernel: str) -> tuple[OpSchema, OpSchema]:
        """The kernel's own schema and that of the functional operator it computes. Raises E1001 for unknown ones."""
        if kernel not in self._found:
            schema = self._own(kernel)
            self._found[kernel] = schema, self._functional(schema)
        return self._found[kernel]

    def _own(self, kernel: str) -> OpSchema:
        namespace, _, rest = kernel.partition("::")
        name, _, overload = rest.partition(".")
        op_name = f"{namespace}.{name}.{overload or 'default'}"
        found = load_table().get(op_name) or next((s for s in self._declared if s.op_name == op_name), None)
        if found is not None:
            return found
        entries = (load(target).lookup(kernel) for target in available())
        entry = next((entry for entry in entries if entry is not None), None)
        if entry is None:
            raise E1001.error(f"the schema of kernel '{kernel}' is not known")
        return entry.schema

    def _functional(self, schema: OpSchema) -> OpSchema:
        table = load_table()
        if schema.kind is SchemaKind.INPLACE:
            found = table.get(f"{schema.namespace}.{schema.name.removesuffix('_')}.{schema.overload or 'default'}")
            if found is not None:
                return found
        for name in table.overloads(f"{schema.namespace}.{schema.name}"):
            if out_variant(name) == schema:
                found = table.get(name)
                assert found is not None
                return found
        wanted = schema.signature_without_outs()
        for declared in self._declared:
            functional = declared.kind is SchemaKind.FUNCTIONAL and declared.name == schema.name
            if functional and declared.signature_without_outs() == wanted:
                return declared
        if schema.kind is SchemaKind.OUT:
            return _without_outs(schema)
        raise E1001.error(f"no functional operator computes what '{schema.qualified_name}' writes")


def _without_outs(schema: OpSchema) -> OpSchema:
    """The functional operator of an out variant that no table has: ``f`` of ``f.out``, ``f.tensor`` of
    ``f.Tensor_out``, as PyTorch names overloads.
    """
    overload = schema.overload.removesuffix("out").removesuffix("_").lower()
    arguments = tuple(a for a in schema.arguments if not (a.is_write and a.kwarg_only))
    returns = tuple(replace(r, alias=None, is_write=False, type_text="Tensor") for r in schema.returns)
    return replace(schema, overload=overload, arguments=arguments, returns=returns, text="")
