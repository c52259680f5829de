"""`join-group-layers`: layers on integers that share an input are one operator.

Before, of a block's gate and the product beside it::

    %g = edge.etir.int4_group_dynamic_linear.default(%x, %w0, %s0, none, %t0, none, columns = 1536)
    %u = edge.etir.int4_group_dynamic_linear.default(%x, %w1, %s1, none, %t1, none, columns = 1536)

After::

    %g, %u = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w0, %w1], [%s0, %s1], [], [%t0, %t1], columns = ...)

The input becomes integers once, not for each of them, and for one token threads share out the panels of all and meet
once: queries, keys and values are three, the gate and what it is multiplied with two. The weights stay where they are;
the bits of the results are the same. Layers with a bias, and those whose rows have other groups, are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.declarations import declare_schemas
from etir.dialects.edge.base import EdgeOp, edge_class
from etir.dialects.et.layout import dims_of, tensor_of
from etir.dialects.et.program import GetWeightOp
from etir.dialects.schema import parse_schema
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import fuse_locations
from etir.targets.manifest import load

LAYER = "etir.int4_group_dynamic_linear.default"
KERNELS = {2: "etir::int4_group_dynamic_linear_pair.out", 3: "etir::int4_group_dynamic_linear_triple.out"}
"""The kernel of as many layers."""

_Kind: TypeAlias = tuple[Any, ...]


@register_pass
@dataclass(frozen=True)
class JoinGroupLayersPass(Pass):
    """Join layers on integers in groups that have the same input, if ``target`` has kernels for several."""

    name = "join-group-layers"
    target: str = "executorch"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        manifest = load(self.target)
        entries = {count: manifest.lookup(kernel) for count, kernel in KERNELS.items()}
        schemas = {count: entry.schema_text for count, entry in entries.items() if entry is not None}
        made: dict[str, None] = {}
        for method in methods(module):
            for layers in _sharing(method):
                while (count := min(len(layers), max(schemas, default=0))) in schemas:
                    functional = _functional(schemas[count], count)
                    _join(layers[:count], functional)
                    made |= {functional: None, schemas[count]: None}
                    layers = layers[count:]
        for text in made:
            ctx.declare_schema(text)
        declare_schemas(module, made)


def _functional(schema: str, count: int) -> str:
    name, _, rest = schema.partition("(")
    arguments = rest.partition(", *, Tensor(a!) out0")[0]
    return f"{name.removesuffix('.out')}({arguments}) -> ({', '.join(['Tensor'] * count)})"


def _sharing(method: FuncOp) -> list[list[EdgeOp]]:
    """Layers that one operator can compute, in the order of the program."""
    found: dict[tuple[Block | None, SSAValue, _Kind], list[EdgeOp]] = {}
    for op in method.walk():
        if not isinstance(op, EdgeOp) or op.op_name != LAYER or op.arg("bias") is not None:
            continue
        if not all(isinstance(value.owner, GetWeightOp) for value in op.operands[1:]):
            continue  # what is read from elsewhere may come after the first layer
        scales = dims_of(tensor_of(op.arg("scales")))
        kind = (scales[1], op.arg("minimums") is None, op.arg("sums") is None)
        found.setdefault((op.parent, op.operands[0], kind), []).append(op)
    return [layers for layers in found.values() if len(layers) > 1]


def _join(layers: list[EdgeOp], schema: str) -> None:
    """One operator at the place of the first layer; constants of the others are read before it."""
    first = layers[0]
    block = first.parent
    assert block is not None
    for layer in layers[1:]:
        for value in layer.operands[1:]:
            owner = value.owner
            assert isinstance(owner, GetWeightOp)
            if owner.parent is block and not owner.is_before_in_block(first):
                owner.detach()
                block.insert_op_before(owner, first)
    arguments: dict[str, Any] = {"input": first.operands[0], "columns": [layer.arg("columns") for layer in layers]}
    for one, many in (("weight", "weights"), ("scales", "scales"), ("minimums", "minimums"), ("sums", "sums")):
        arguments[many] = [layer.arg(one) for layer in layers if layer.arg(one) is not None]
    made = edge_class(parse_schema(schema)).make(arguments, [layer.results[0].type for layer in layers])
    made.location = fuse_locations(layers)
    block.insert_op_before(made, first)
    for layer, result in zip(layers, made.results, strict=True):
        result.name_hint = layer.results[0].name_hint
        layer.results[0].replace_all_uses_with(result)
        layer.detach()
        layer.erase()
