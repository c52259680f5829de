"""`drop-unused-indices`: a maximum whose place nobody asks for is computed without it.

Before::

    %y, %i = edge.aten.max_pool2d_with_indices.default(%x, kernel_size = [2, 2]) : (tensor<1x8x6x6xf32>) -> (...)

After::

    %y = edge.etir.max_pool2d.default(%x, kernel_size = [2, 2]) : (tensor<1x8x6x6xf32>) -> tensor<1x8x3x3xf32>

Torch's core operators know pooling with the indices of the maxima only, int64 numbers that take twice the memory of
float32 results; in networks for images that is what fills the memory most. Which kernels compute the values alone is
what the target's manifest says; a target without them is left alone. The operator changes this late because passes,
delegates and other programs know the operator with indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.context import EtContext
from etir.dialects.declarations import declare_schemas, functional_form
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import edge_class
from etir.dialects.schema import parse_schema
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily
from etir.targets.manifest import Manifest, load

WithIndices: TypeAlias = edge.aten.max_pool2d_with_indices.default | edge.aten.max_pool3d_with_indices.default

VALUES_ONLY = {
    "aten.max_pool2d_with_indices.default": "etir::max_pool2d.out",
    "aten.max_pool3d_with_indices.default": "etir::max_pool3d.out",
}
"""The kernel that computes the first result of an operator, and takes the same arguments."""


@register_pass
@dataclass(frozen=True)
class DropUnusedIndicesPass(Pass):
    """Compute maxima without the indices that nobody reads.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "drop-unused-indices"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        schemas = _schemas(load(self.target), self.libraries)
        if not schemas:
            return
        pattern = ValuesOnly(schemas)
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [pattern])
        for text in pattern.made:
            ctx.declare_schema(text)
        declare_schemas(module, pattern.made)


def _schemas(manifest: Manifest, libraries: tuple[str, ...]) -> dict[str, str]:
    """By operator, the schema of the target's kernel."""
    found: dict[str, str] = {}
    for operator, kernel in VALUES_ONLY.items():
        entry = manifest.lookup(kernel)
        if entry is not None and (manifest.libraries.get(entry.library) or entry.library in libraries):
            found[operator] = entry.schema_text
    return found


class ValuesOnly(Pattern):
    """The values of a pool with indices."""

    name = "drop-unused-indices"

    def __init__(self, schemas: dict[str, str]) -> None:
        self.schemas = schemas
        self.made: dict[str, None] = {}

    def rewrite(self, op: WithIndices, rewriter: PatternRewriter) -> None:
        schema = self.schemas.get(op.op_name)
        if schema is None:
            return rewriter.notify_match_failure("the target has no kernel for the values alone")
        if op.results[1].first_use is not None:
            return rewriter.notify_match_failure("the indices are read")
        functional = functional_form(schema)
        made = edge_class(parse_schema(functional)).make(op.given_args(), [op.results[0].type])
        self.made |= {functional: None, schema: None}
        made.results[0].name_hint = op.results[0].name_hint
        rewriter.insert_op(made)
        rewriter.replace_all_uses_with(op.results[0], made.results[0])
        rewriter.erase_op(op)
        return None
