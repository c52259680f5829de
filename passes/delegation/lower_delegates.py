"""`lower-delegates`: outlined functions become the blobs that their backends run.

Before::

    func.func private @forward_xnnpack_0(%x: ...) -> ... attributes {backend.delegate = "xnnpack"} { ... }

After::

    et.named_data "8f43..." = #et.blob<"sha256:8f43...", 128> align 16
    et.delegate @forward_xnnpack_0 "XnnpackBackend" = #et.blob<"sha256:51ab...", 712>

Calls keep the symbol that they name; `to-out-variant` turns them into delegate calls. At the executable level, where
`disassemble-delegates` makes functions of blobs, it is the same. Named data with equal keys is in
the module once, whichever delegate asks for it, and has to be equal; so are files that a client's build compiles
(``et.build_file``). What a delegate takes of the memory of etir's
runtime is an attribute of its ``et.delegate``, for the memory report. Functions of equal content give equal blobs,
which share a segment of the file.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.interface import Artifact, Backend, Outlined
from etir.backends.api.named_data import EXTERNAL, add_named_data
from etir.backends.api.registry import Delegate
from etir.backends.errors import E1111
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import DelegateCallOp
from etir.dialects.et.origin import standing_for
from etir.dialects.et.payloads import BESIDE, BuildFileOp, DelegateOp, NamedDataOp
from etir.dialects.et.program import ReadStateOp, StateOp, WeightOp, WriteStateOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.literals import int_attr
from etir.dialects.walking import ops_of
from etir.passes.delegation.attributes import INLINE
from etir.passes.delegation.legalize_delegates import outlined_functions
from etir.passes.delegation.owned import SHARED
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import RewriteLimit

MEMORY = "memory"
"""Attribute of ``et.delegate``: bytes of method memory on 64-bit and on 32-bit machines, and of temporary memory."""
LINKED = "linked"
"""Attribute of ``et.delegate``: what code takes that a client's build links (:class:`LinkedSizes`)."""


@register_pass
@dataclass(frozen=True)
class LowerDelegatesPass(Pass):
    """Let every backend write the blobs of its outlined functions.

    ``inline`` keeps blobs in the program's FlatBuffer instead of in segments of their own.
    """

    name = "lower-delegates"
    inline: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1111 for named data that differs under one key, and what backends raise themselves."""
        named: dict[str, NamedDataOp] = {op.key.data: op for op in module.body.block.ops if isinstance(op, NamedDataOp)}
        files = {op.key.data: op for op in module.body.block.ops if isinstance(op, BuildFileOp)}
        called: dict[str, Operation] = {}
        for op in module.walk():
            if isinstance(op, CallDelegateOp):
                called[op.callee.root_reference.data] = op
            elif isinstance(op, DelegateCallOp):
                called[op.delegate.root_reference.data] = op
        _name_apart(module)
        holders: dict[str, tuple[str, Artifact]] = {}
        found: list[tuple[Delegate, Outlined]] = []
        for delegate, outlined in outlined_functions(ctx, module):
            if outlined.name in called:
                found.append((delegate, outlined))
            else:
                Rewriter.erase_op(outlined.func)
        limit = ctx.attachments.get(RewriteLimit)
        if limit is not None:
            found = found[: max(limit.left, 0)]
        for (delegate, outlined), artifact in zip(found, _artifacts(found, called), strict=True):
            for state in _shared_states(outlined):
                first, made = holders.setdefault(state, (outlined.name, artifact))
                if (made.blob, made.specs) != (artifact.blob, artifact.specs):
                    raise E1111.error(
                        f"@{first} and @{outlined.name} hold the state @{state} of several methods and are not equal",
                        help="leave the state outside of delegates (without partition{own-state}), or compile the "
                        "methods without share_state",
                    )
            point = InsertPoint.before(outlined.func)
            place = standing_for(UnknownLoc(), outlined.func.walk())
            for key, item in artifact.named_data.items():
                made = add_named_data(named, key, item, outlined.name)
                if made is not None:
                    made.location = place
                    Rewriter.insert_op(made, point)
            for key, data in artifact.files.items():
                blob = Blob.of(memoryview(data))
                if key not in files:
                    files[key] = BuildFileOp(key, BlobAttr(blob))
                    files[key].location = place
                    Rewriter.insert_op(files[key], point)
                elif files[key].value.data != blob:
                    raise E1111.error(
                        f"@{outlined.name} gives a file '{key}', which other delegates gave other bytes for"
                    )
            made_op = self._delegate(outlined.name, delegate.runtime_id, artifact)
            if INLINE in outlined.func.attributes:
                made_op.inline = UnitAttr()
            made_op.location = place
            Rewriter.insert_op(made_op, point)
            Rewriter.erase_op(outlined.func)
            if limit is not None:
                limit.count_function(outlined.name, place)
        if called:
            _drop_unused(module)

    def _delegate(self, name: str, runtime_id: str, artifact: Artifact) -> DelegateOp:
        op = DelegateOp(
            name,
            runtime_id,
            BlobAttr(Blob.of(memoryview(artifact.blob))),
            artifact.specs,
            inline=self.inline or artifact.inline,
        )
        if artifact.external:
            op.attributes[BESIDE] = ArrayAttr([SymbolRefAttr(symbol) for symbol in artifact.external])
        if artifact.method_memory or artifact.temp_memory:
            op.attributes[MEMORY] = ArrayAttr(
                [int_attr(n) for n in (artifact.method_memory, artifact.method_memory_32, artifact.temp_memory)]
            )
        if artifact.linked is not None:
            sizes = {key: value for key, value in asdict(artifact.linked).items() if value is not None}
            op.attributes[LINKED] = DictionaryAttr(
                {key: int_attr(value) if isinstance(value, int) else StringAttr(value) for key, value in sizes.items()}
            )
        return op


def _name_apart(module: ModuleOp) -> None:
    """Let what is kept outside have names of its own: a second weight or state of a name is found by its symbol."""
    names: dict[Attribute, None] = {}
    for op in module.body.block.ops:
        if isinstance(op, (WeightOp, StateOp)) and EXTERNAL in op.attributes:
            name = op.attributes.get("fqn", op.sym_name)
            if name in names:
                op.attributes.pop("fqn", None)
            names[name] = None


def _artifacts(found: list[tuple[Delegate, Outlined]], called: dict[str, Operation]) -> list[Artifact]:
    """What the backends make of the functions, in order; each backend is given all of its own at once."""
    groups: dict[Backend, list[int]] = {}
    for index, (delegate, _) in enumerate(found):
        groups.setdefault(delegate.backend, []).append(index)
    made: dict[int, Artifact] = {}
    for backend, indices in groups.items():
        functions = [(_method_of(called[o.name]), o, d.options) for d, o in (found[i] for i in indices)]
        made.update(zip(indices, backend.preprocess_all(functions), strict=True))
    return [made[index] for index in range(len(found))]


def _method_of(call: Operation) -> str:
    op: Operation | None = call
    while op is not None and not isinstance(op, FuncOp | MethodOp):
        op = op.parent_op()
    return "" if op is None else op.sym_name.data


def _shared_states(outlined: Outlined) -> list[str]:
    """The states in a function that it holds for several methods."""
    names: dict[str, None] = {}
    for op in outlined.func.walk():
        if isinstance(op, (ReadStateOp, WriteStateOp)):
            name = op.symbol.root_reference.data
            if SHARED in outlined.symbols[name].attributes:
                names[name] = None
    return list(names)


def _drop_unused(module: ModuleOp) -> None:
    """Erase the weights and states that only the delegates read: they are in the blobs now."""
    used = {}
    for op in module.walk():
        beside = op.attributes.get(BESIDE) if isinstance(op, DelegateOp) else None
        named = op.properties.get("symbol"), op.properties.get("state")
        for symbol in (*named, *(beside.data if isinstance(beside, ArrayAttr) else ())):
            if isinstance(symbol, SymbolRefAttr):
                used[symbol.root_reference.data] = None
    for op in ops_of(module.body.block):
        if isinstance(op, (WeightOp, StateOp)) and op.sym_name.data not in used:
            Rewriter.erase_op(op)
