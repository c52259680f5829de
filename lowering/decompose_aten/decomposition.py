"""A decomposition is a function from the arguments of one operator to the values that replace its results.

::

    @decomposition(aten.silu.default, in_float=True)
    def silu(b: Builder, x: SSAValue) -> SSAValue:
        '''``x * sigmoid(x)``'''
        return b.mul(x, b.sigmoid(x))

The decorator makes a :class:`Pattern` of it, named after the function in kebab case, and registers it. The function
gets every argument of the schema in order, defaults filled in. It returns one value, one for each result (None where
the result must be unused), or None after ``b.notify_match_failure(reason)``: then what it emitted is taken back, the
next pattern for the operator is tried, and tracing after the last one.

A *runtime scalar* (a SymInt, SymFloat or SymBool, for a size or a number) is only handed to a function that says so in
``symint_args``: most decompositions compute with their scalars while compiling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from etir.diagnostics import Diagnostic, EtirError
from etir.dialects.aten import ops as aten
from etir.dialects.aten.table import load_table
from etir.dialects.dtypes import bf16, f16, f32
from etir.dialects.et.layout import dims_of, is_contiguous
from etir.dialects.operators import operator_name
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.ops import DimOp
from etir.dialects.text import source_location
from etir.extensions import is_own, registry_changed, taken
from etir.lowering.build.builder import Builder, Operator, is_tensor
from etir.lowering.decompose_aten import families
from etir.lowering.decompose_aten.errors import E0420
from etir.lowering.decompose_aten.preserved import PreservedOps
from etir.lowering.decompose_aten.static_sizes import Problems, has_dynamic_sizes, needs_static_size
from etir.passes.infra.rewriting import Pattern, PatternRewriter

Outcome: TypeAlias = "SSAValue | Sequence[SSAValue | None] | None"
Function: TypeAlias = "Callable[..., Outcome]"
_FunctionT = TypeVar("_FunctionT", bound="Callable[..., Outcome]")

_PatternT = TypeVar("_PatternT", bound="OperatorPattern")

ALL = ("*",)
"""For ``symint_args``: every argument may be a runtime scalar."""


class OperatorPattern(Pattern):
    """A pattern that runs on ``roots`` (default: all operators that it is registered for) unless they are preserved.

    ``problems`` collects, by operation, what is wrong with those that a decomposition refuses.
    """

    def __init__(
        self,
        roots: tuple[str, ...] | None = None,
        preserved: PreservedOps | None = None,
        problems: dict[Operation, Diagnostic] | None = None,
    ):
        if roots is not None:
            self.roots = roots  # type: ignore[misc]
        self.preserved = preserved
        self.problems = {} if problems is None else problems

    def is_preserved(self, op: Operation, rewriter: PatternRewriter) -> bool:
        """Whether the operator is preserved; the reason is noted."""
        if self.preserved is None or not self.preserved.preserves(op):
            return False
        rewriter.notify_match_failure("the target has a kernel for it")
        return True


class Decomposition(OperatorPattern):
    """The pattern around a decomposition function; each one is a subclass that :func:`decomposition` makes."""

    function: ClassVar[Function]
    in_float: ClassVar[bool] = False
    symint_args: ClassVar[tuple[str, ...]] = ()

    def rewrite(self, op: SchemaOp, rewriter: PatternRewriter) -> None:
        """Replace ``op`` by what the function makes of its arguments."""
        if self.is_preserved(op, rewriter):
            return
        arguments = op.args()
        blocked = _runtime_scalars(op, arguments, self.symint_args)
        if blocked:
            rewriter.notify_match_failure(f"'{blocked[0]}' is a runtime scalar")
            return
        b = Builder(rewriter)
        values: list[Any] = list(arguments.values())
        narrow = _narrow_type(op) if self.in_float else None
        if narrow is not None:
            values = [b.cast(v, f32) if is_tensor(v) and _element_of(v) == narrow else v for v in values]
        try:
            outcome = type(self).function(b, *values)
        except EtirError as error:
            self.problems[op] = error.diagnostics[0].at(source_location(op.location))
            outcome = None
        except (AssertionError, AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:
            # Most patterns compute with sizes while compiling, and some cannot with those that are not known then:
            # the next pattern, or tracing, may.
            if not isinstance(self.problems, Problems) or not has_dynamic_sizes(op):
                raise
            self.problems.sizes[op] = needs_static_size(op, self.name, error)
            rewriter.notify_match_failure("it computes with a size that is not known while compiling")
            outcome = None
        if outcome is None:
            take_back(rewriter)
            return
        results = [outcome] if isinstance(outcome, SSAValue) else list(outcome)
        if narrow is not None:
            results = [r if r is None or _element_of(r) != f32 else b.cast(r, narrow) for r in results]
        replace(b, op, results, self.name)


def take_back(rewriter: PatternRewriter) -> None:
    """Erase what was emitted for an operator that stays after all."""
    for made in reversed(rewriter.new_ops):
        Rewriter.erase_op(made)
    rewriter.new_ops.clear()
    rewriter.changed = False


def _runtime_scalars(op: SchemaOp, arguments: dict[str, Any], allowed: tuple[str, ...]) -> list[str]:
    if allowed == ALL:
        return []
    found: list[str] = []
    for argument in op.SCHEMA.arguments:
        if argument.name in allowed:
            continue
        value = arguments[argument.name]
        if argument.is_tensor:
            items = value if argument.is_list else (value,)
            if any(item is not None and not is_tensor(item) for item in items or ()):
                found.append(argument.name)
        elif isinstance(value, SSAValue) or (isinstance(value, tuple) and any(isinstance(v, SSAValue) for v in value)):
            found.append(argument.name)
    return found


def _element_of(value: SSAValue) -> Attribute | None:
    return value.type.element_type if isinstance(value.type, TensorType) else None


def _narrow_type(op: Operation) -> Attribute | None:
    """f16 or bf16 when the first result has that type: torch computes these pointwise functions in f32."""
    element = _element_of(op.results[0])
    return element if element in (f16, bf16) else None


def replace(b: Builder, op: Operation, results: Sequence[SSAValue | None], pattern: str) -> None:
    """Replace ``op``; its results may be None where they are not used.

    A result takes the declared type when it only spells a symbolic dim or the dim order differently. Raises E0420 when
    the types really differ, or when a missing result is used: that is a bug of the decomposition.
    """
    declared = [result.type for result in op.results]
    if len(results) != len(declared):
        raise _broken(pattern, op, f"gave {len(results)} results for {len(declared)}")
    values: list[SSAValue] = []
    for i, (value, type) in enumerate(zip(results, declared, strict=True)):
        if value is None:
            if op.results[i].first_use is not None:
                raise _broken(pattern, op, f"gave nothing for result {i}, which is used")
            values.append(op.results[i])
        else:
            values.append(_conform(b, op, value, type, pattern))
    if any(value is result for value, result in zip(values, op.results, strict=True)):
        for old, new in zip(op.results, values, strict=True):
            if old is not new:
                b.rewriter.replace_all_uses_with(old, new)
        b.rewriter.erase_op(op)
    else:
        b.rewriter.replace_op(op, values)


def _conform(b: Builder, op: Operation, value: SSAValue, type: Attribute, pattern: str) -> SSAValue:
    if value.type == type:
        return value
    if not _same_but_for_spelling(value.type, type):
        raise _broken(pattern, op, f"gave {value.type} for {type}")
    assert isinstance(type, TensorType)
    _fix_sizes(op, value.type, type)
    if isinstance(value, OpResult) and value.op in b.rewriter.new_ops and value.first_use is None:
        return Rewriter.replace_value_with_new_type(value, type)
    memory_format = "contiguous" if is_contiguous(type) else "channels_last"
    if isinstance(value.type, TensorType) and is_contiguous(value.type) == is_contiguous(type):
        return b(aten.alias.default, value, types=[type])
    return b(aten.clone.default, value, memory_format=memory_format, types=[type])


def _fix_sizes(op: Operation, made: Attribute, declared: TensorType[Attribute]) -> None:
    """Where a size that the program declares as data turns out to be a constant, its range is that."""
    assert isinstance(made, TensorType)
    known = {str(d): m for m, d in zip(dims_of(made), dims_of(declared), strict=True) if isinstance(m, int) and m != d}
    root: Operation | None = op
    while known and root is not None:
        if isinstance(root, ModuleOp):
            for dim in root.body.block.ops:
                if isinstance(dim, DimOp) and dim.unbacked is not None and dim.sym_name.data in known:
                    dim.minimum = dim.maximum = IntegerAttr(known[dim.sym_name.data], dim.minimum.type)
        root = root.parent_op()


def _same_but_for_spelling(made: Attribute, declared: Attribute) -> bool:
    if not isinstance(made, TensorType) or not isinstance(declared, TensorType):
        return False
    if made.element_type != declared.element_type or made.get_num_dims() != declared.get_num_dims():
        return False
    pairs = zip(dims_of(made), dims_of(declared), strict=True)
    return all(not (isinstance(a, int) and isinstance(d, int)) or a == d for a, d in pairs)


def _broken(pattern: str, op: Operation, what: str) -> Exception:
    return E0420.error(f"pattern '{pattern}' on '{op.name}' {what}", source_location(op.location))


DECOMPOSITIONS: list[type[Decomposition]] = []
"""Every registered decomposition, in the order in which the patterns of one operator are tried."""


def decomposition(
    *operators: Operator | str,
    in_float: bool = False,
    symint_args: Collection[str] = (),
    name: str | None = None,
    replace: bool = False,
) -> Callable[[_FunctionT], _FunctionT]:
    """Register the decorated function as a decomposition of the overloads ``operators``, which share a signature.

    An overload of a custom library is given by name. Raises ``AttributeError`` for one that the schema table should
    have and has not. Raises E1303 when another module has a decomposition of one of the operators, or one of the same
    name, unless this one is to ``replace`` it; within a module the decompositions of an operator are tried in order.
    What is registered from outside of etir is tried before etir's own.

    ``in_float``: for f16 and bf16 the function runs on f32 casts of its tensors, and its result is cast back, as torch
    does inside such kernels. ``symint_args``: the arguments that may be runtime scalars. ``name``: instead of the
    function's.
    """

    def register(function: _FunctionT) -> _FunctionT:
        kebab = name or function.__name__.strip("_").replace("_", "-")
        pattern = type(
            "".join(word.capitalize() for word in kebab.split("-")),
            (Decomposition,),
            {
                "name": kebab,
                "roots": tuple(operator_name(operator) for operator in operators),
                "function": staticmethod(function),
                "in_float": in_float,
                "symint_args": tuple(symint_args),
                "__doc__": function.__doc__,
                "__module__": function.__module__,
            },
        )
        if is_own(function.__module__):
            DECOMPOSITIONS.append(pattern)
        else:
            _add(pattern, replace=replace)
        return function

    return register


ADDED: list[type[Decomposition]] = []
"""Those that are registered from outside of etir; they are tried before :data:`DECOMPOSITIONS`."""


def _add(pattern: type[Decomposition], *, replace: bool) -> None:
    """Register a decomposition that is not etir's own. Defining the same one again, as notebooks do, is no conflict."""
    again = [p for p in ADDED if (p.name, p.roots, p.__module__) == (pattern.name, pattern.roots, pattern.__module__)]
    if any(root in load_table() for root in pattern.roots):
        load_families()
    others = [p for p in (*ADDED, *DECOMPOSITIONS, *RENAMES) if p not in again]
    for other in others:
        shared = next((root for root in pattern.roots if root in other.roots), None)
        if other.name == pattern.name and not replace:
            raise taken("decompositions", pattern.name, other.__module__, pattern.__module__)
        if shared is not None and other.__module__ != pattern.__module__ and not replace:
            raise taken("decompositions of", shared, other.__module__, pattern.__module__)
    if replace:
        ADDED[:] = _without(ADDED, pattern)
        DECOMPOSITIONS[:] = _without(DECOMPOSITIONS, pattern)
        RENAMES[:] = _without(RENAMES, pattern)
    if again and not replace:
        ADDED[ADDED.index(again[0])] = pattern
    else:
        ADDED.append(pattern)
    registry_changed()


def _without(patterns: Iterable[type[_PatternT]], other: type[Decomposition]) -> list[type[_PatternT]]:
    """The patterns for the operators that ``other`` does not have, and without an earlier definition of it."""
    found: list[type[_PatternT]] = []
    for pattern in patterns:
        roots = tuple(root for root in pattern.roots if root not in other.roots)
        if roots and (pattern.name, pattern.__module__) != (other.name, other.__module__):
            members = {"roots": roots, "__module__": pattern.__module__}
            rest = cast("type[_PatternT]", type(pattern.__name__, (pattern,), members))
            found.append(pattern if roots == pattern.roots else rest)
    return found


def load_families() -> None:
    """Import all of etir's own decompositions."""
    for module in sorted(info.name for info in iter_modules(families.__path__)):
        import_module(f"{families.__name__}.{module}")


class Rename(OperatorPattern):
    """One overload in place of another with the same arguments; each pair is a subclass that :func:`rename` makes."""

    target: ClassVar[Operator]

    def rewrite(self, op: SchemaOp, rewriter: PatternRewriter) -> None:
        """Give the arguments to the other overload."""
        if self.is_preserved(op, rewriter):
            return
        cls = type(self).target
        given = list(op.given_args().items())
        names = [op.SCHEMA.index[name] for name, _ in given]
        arguments = {cls.SCHEMA.arguments[i].name: value for i, (_, value) in zip(names, given, strict=True)}
        rewriter.replace_op(op, cls.make(arguments, [r.type for r in op.results]))


RENAMES: list[type[Rename]] = []
"""Every registered renaming."""


def rename(pairs: Iterable[tuple[Operator, Operator]]) -> None:
    """Register overloads that are other names of overloads with the same arguments in the same order."""
    for alias, target in pairs:
        words = re.findall(r"[a-z0-9]+", alias.name.removeprefix("aten.").removesuffix(".default").lower())
        name = f"rename-{'-'.join(words)}"
        RENAMES.append(type(name, (Rename,), {"name": name, "roots": (alias.name,), "target": target}))
