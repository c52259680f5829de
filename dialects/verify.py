"""The module verifier: every operation's own constraints, and what xDSL does not check.

All problems of a module are reported together. Beyond the operations' verifiers it checks: a value is defined before
it is used (E0302; xDSL does not check dominance), symbols are unique and defined (E0303, E0304), a weight or state is
read with its own type, symbolic dims are declared (E0306).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.dominance import DominatorTree
from etir.dialects.errors import E0301, E0302, E0303, E0304, E0305, E0306, E0307, E0311
from etir.dialects.et.layout import layout_errors
from etir.dialects.et.origin import carries_origin, origins_in
from etir.dialects.et.program import GetWeightOp, ReadStateOp, StateOp, WeightOp, WriteStateOp
from etir.dialects.sym.ops import DimOp
from etir.dialects.text import source_location
from etir.dialects.verified import Verified, VerifiedOperations, symbolic_dims
from etir.dialects.walking import ops_of, walk


def verify_module(
    module: ModuleOp,
    *,
    require_locations: bool = False,
    origins: bool = False,
    verified: VerifiedOperations | None = None,
) -> None:
    """Raise one error with every problem of ``module``.

    ``require_locations`` also reports operations without a source location (E0307): what the importer guarantees.
    ``origins`` reports operations that do not say which operations of the program they come from (E0311): what a trace
    relies on. ``verified`` carries over between the verifications of one run of passes.
    """
    found = list(problems(module, require_locations=require_locations, verified=verified))
    raise_if_errors([*found, *(missing_origins(module) if origins else ())])


def missing_origins(module: ModuleOp) -> Iterator[Diagnostic]:
    """A problem for each operation that has no origin."""
    for op in module.walk():
        if carries_origin(op) and origins_in(op.location) is None:
            yield E0311.diagnostic(f"'{op.name}' has no origin", source_location(op.location))


def problems(
    module: ModuleOp, *, require_locations: bool = False, verified: VerifiedOperations | None = None
) -> Iterator[Diagnostic]:
    """Every problem of ``module``, in the order of the text."""
    verified = verified or VerifiedOperations()
    symbols: dict[str, Operation] = {}
    unique = True
    top = ops_of(module.body.block)
    for op in top:
        name = op.properties.get("sym_name")
        if name is None or not isinstance(name, StringAttr):
            continue
        if name.data in symbols:
            unique = False
            yield E0304.diagnostic(f"symbol @{name.data} is defined twice", source_location(op.location))
        symbols[name.data] = op
    declared = {name: None for name, op in symbols.items() if type(op) is DimOp}
    if unique:  # ModuleOp's own verifier would say the same again, without the place
        yield from _verify_operation(module, verified)[1]
    for op in top:
        for nested in walk(op):
            known = None if require_locations else verified.unchanged(nested)
            if known is None:
                known, found = _verify_operation(nested, verified)
                yield from found
            if require_locations and isinstance(nested.location, UnknownLoc) and not isinstance(nested, DimOp):
                yield E0307.diagnostic(f"'{nested.name}' has no location")
            # Most operations name no symbol, have no symbolic dim and no block: nothing around them can be wrong.
            if known is not None and not known.symbols and not known.dims:
                continue
            yield from _verify_symbols(nested, symbols)
            for value in nested.results:
                yield from _verify_dims(nested, value.type, declared)
            for argument in _block_arguments(nested):
                yield from _verify_argument(nested, argument.type)
                yield from _verify_dims(nested, argument.type, declared)
        for region in op.regions:
            yield from _verify_dominance(region, set())


def _verify_operation(op: Operation, verified: VerifiedOperations) -> tuple[Verified | None, Sequence[Diagnostic]]:
    """What is known of an operation that is right by itself, if it is remembered, and what is wrong."""
    try:
        _verify_structure(op)
        return verified.verify(op), ()
    except VerifyException as error:
        return None, [E0301.diagnostic(f"'{op.name}' {error}", source_location(op.location))]
    except (ValueError, TypeError, KeyError) as error:
        return None, [E0301.diagnostic(f"'{op.name}' is malformed: {error}", source_location(op.location))]


def _verify_structure(op: Operation) -> None:
    """What ``Operation.verify`` checks besides ``verify_``: that one prints the whole module into its exception."""
    block = op.parent
    region = None if block is None else block.parent
    if op.successors:
        if block is None or region is None or block.last_op is not op:
            raise VerifyException("has successors and must end its block")
        if any(successor.parent is not region for successor in op.successors):
            raise VerifyException("branches into another region")
    if block is None or region is None or block.last_op is not op or op.has_trait(IsTerminator):
        return
    parent = region.parent
    if len(region.blocks) > 1 or (parent is not None and not parent.has_trait(NoTerminator)):
        raise VerifyException("ends its block and is not a terminator")


def _verify_symbols(op: Operation, symbols: dict[str, Operation]) -> Iterator[Diagnostic]:
    if type(op) in (GetWeightOp, ReadStateOp, WriteStateOp):
        assert isinstance(op, (GetWeightOp, ReadStateOp, WriteStateOp))
        name = op.symbol.root_reference.data
        target = symbols.get(name)
        expected = WeightOp if isinstance(op, GetWeightOp) else StateOp
        if not isinstance(target, expected):
            what = "weight" if expected is WeightOp else "state"
            yield E0303.diagnostic(f"there is no {what} @{name}", source_location(op.location))
        else:
            given = (op.value if type(op) is WriteStateOp else op.results[0]).type
            if given != target.type:
                yield E0301.diagnostic(
                    f"'{op.name}' @{name} has type {target.type}, not {given}", source_location(op.location)
                )
        return
    for attribute in op.properties.values():
        # By identity: ``isinstance`` of an attribute's class that it is not asks Python code, three calls each.
        if type(attribute) is SymbolRefAttr and attribute.root_reference.data not in symbols:
            yield E0303.diagnostic(
                f"'{op.name}' names @{attribute.root_reference.data}, which is not defined",
                source_location(op.location),
            )


def _block_arguments(op: Operation) -> Iterator[SSAValue]:
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def _verify_argument(op: Operation, type: Attribute) -> Iterator[Diagnostic]:
    """The layout of a block argument's type; operations check those of their own results."""
    if isinstance(type, TensorType) and (problem := layout_errors(type)) is not None:
        yield E0305.diagnostic(f"'{op.name}' has an argument of type {type}: {problem}", source_location(op.location))


def _verify_dims(op: Operation, type: Attribute, declared: Mapping[str, None]) -> Iterator[Diagnostic]:
    for name in symbolic_dims(type):
        if name not in declared:
            yield E0306.diagnostic(
                f"'{op.name}' has a dim '{name}' that no sym.dim declares",
                source_location(op.location),
                help=f"add 'sym.dim @{name} in [1, MAX]' at the top of the module",
            )


def _verify_dominance(region: Region, visible: set[int]) -> Iterator[Diagnostic]:
    """Uses after definitions. Blocks are walked down the dominator tree; each use costs one lookup.

    ``visible`` has the identities of what is defined around the region, and is the same again afterwards: values are
    alive meanwhile, and hash in Python.
    """
    defined: dict[Block, list[int]] = {}
    for block, enters in DominatorTree(region).walk():
        if not enters:
            visible.difference_update(defined.pop(block))
            continue
        inside = defined[block] = [*map(id, block.args)]
        visible.update(inside)
        for op in ops_of(block):
            for index, operand in enumerate(op._operands):  # pyright: ignore[reportPrivateUsage]
                if id(operand) not in visible:
                    yield E0302.diagnostic(
                        f"operand {index} of '{op.name}' is used where its definition does not reach",
                        source_location(op.location),
                    )
            for nested in op.regions:
                yield from _verify_dominance(nested, set() if op.has_trait(IsolatedFromAbove) else visible)
            results = [*map(id, op.results)]
            inside += results
            visible.update(results)
