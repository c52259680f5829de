"""What a backend declares, and what the passes of delegation call.

A backend is one instance of a subclass of :class:`Backend`. From the user's program to the file it is asked, in order:

1. :meth:`Backend.preserved_ops`: which operators `decompose-aten` preserves;
2. :meth:`Backend.rows`: which operators it claims (`partition`), and :meth:`Backend.decline`: which partitions it would
   rather not have;
3. :meth:`Backend.legalize`: an outlined function, in edge operators, becomes one in the backend's own dialect
   (`legalize-delegates`);
4. :meth:`Backend.preprocess`: the legalized function becomes bytes (`lower-delegates`);
5. :meth:`Backend.disassemble`: bytes become text again, for whoever has only the file.

An outlined function is an ordinary private ``func.func`` of the module::

    func.func private @forward_xnnpack_0(%x: tensor<1x8xf32>) -> tensor<1x4xf32>
        attributes {backend.delegate = "xnnpack{fp16=true}"} {
      %w = et.get_weight @fc.weight : tensor<4x8xf32>
      %0 = edge.aten.linear.default(%x, %w) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
      func.return %0 : tensor<1x4xf32>
    }

Its arguments are the inputs of the delegate in the order of the file's delegate call, its results the outputs after
them. Weights are read inside with ``et.get_weight`` (their bytes with :meth:`Outlined.weight`), constants stand as
``et.constant``, mutable buffers that the delegate owns are ``et.read_state`` and ``et.write_state``.

The half of a backend that runs on the device is C++ (``runtime/executor/backend.h``) under the name ``runtime_id``.
docs/tutorial/delegate.md writes both halves of one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Dialect, Operation, SSAValue

from etir.backends.api.patterns import Row
from etir.backends.api.quantization import QuantizedRow
from etir.backends.errors import E1106, E1111
from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.et.program import (
    ConstantOp,
    GetWeightOp,
    NoneOp,
    ReadStateOp,
    StateOp,
    WeightOp,
    WriteStateOp,
)
from etir.dialects.et.weights import Blob, payload_of
from etir.dialects.et.workspace import DIGEST_BYTES
from etir.dialects.sym.ops import ConstantOp as SymConstantOp
from etir.dialects.sym.ops import DimOp
from etir.dialects.text import source_location
from etir.passes.infra.rewriting import Pattern, apply_patterns_greedily

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from etir.interpret.evaluator import Evaluator
    from etir.lowering.build.builder import Builder


@dataclass(frozen=True)
class NoOptions:
    """The options of a backend that has none."""


@dataclass(frozen=True)
class NamedBlob:
    """Data that the delegate looks up by name at run time. Equal keys must mean equal bytes.

    ``alignment`` in bytes is a power of two: what the start of the data is a multiple of, in the file. ``external``
    names a ``.ptd`` file beside the program that is to hold the data, empty for the program's own.
    """

    data: bytes | memoryview
    alignment: int = 16
    external: str = ""


@dataclass(frozen=True)
class LinkedSizes:
    """What code takes that a client's build links: bytes of flash for ``code`` (None: no compiler was there to say) and
    ``weights``, which other functions may share, and bytes of the ``arena``; ``compiler`` is whose code was counted.
    """

    processor: str
    code: int | None
    weights: int
    arena: int
    compiler: str = ""


@dataclass(frozen=True)
class Artifact:
    """What :meth:`Backend.preprocess` makes of an outlined function.

    ``blob`` is what the delegate's runtime half is given, ``named_data`` what it may look up by name (delegates that
    use the same name share the bytes), ``specs`` are the compile specs of the file, ``inline`` keeps the blob inside
    the program's FlatBuffer instead of in a segment of its own, ``external`` names weights and states with the
    attribute ``external`` that the runtime half finds by name in the files beside the program. ``method_memory`` (on
    64-bit machines, ``method_memory_32`` on 32-bit ones) and ``temp_memory`` are the most bytes of each kind that the
    delegate takes on etir's runtime, for the memory report. ``files`` are what a client's build compiles, by name
    (functions that use the same name share the file), ``linked`` what their code takes there, for the report.
    Compile specs that say where arguments may be (:mod:`etir.dialects.et.workspace`) are refused unless
    :meth:`Backend.arguments` knows them again.
    """

    blob: bytes
    named_data: Mapping[str, NamedBlob] = field(default_factory=dict[str, NamedBlob])
    specs: tuple[tuple[str, bytes], ...] = ()
    inline: bool = False
    external: tuple[str, ...] = ()
    method_memory: int = 0
    method_memory_32: int = 0
    temp_memory: int = 0
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    linked: LinkedSizes | None = None


@dataclass(frozen=True)
class PayloadArguments:
    """What the calls of a delegate are given: so many ``inputs``, so many ``outputs`` after them, and the workspace, if
    there is one. ``memory`` is the digest of the compile specs that say where they may be, for which the payload was
    made (:func:`~etir.dialects.et.workspace.memory_digest`); by default that of none.
    """

    inputs: int
    outputs: int
    memory: bytes = bytes(DIGEST_BYTES)


@dataclass(frozen=True)
class InsideLowering:
    """How :meth:`Backend.preprocess` lowers a function, step by step, for tools that look for a wrong one.

    ``module`` has the function as its method ``forward``, which the interpreter runs, and ``passes`` are the pipeline
    that it goes through. ``shown`` says that the interpreter runs the blob by what these give: where it is right, they
    are.
    """

    module: ModuleOp
    passes: str
    shown: bool = True


@dataclass(frozen=True)
class PreservedOp:
    """An operator that `decompose-aten` preserves for the backend.

    Where ``rows`` is empty, the rows of the backend's table with this operator as their root decide, with their
    conditions; else these rows do (for an operator that only a larger pattern claims, which cannot be seen yet). What
    is preserved and not claimed after all is decomposed after `partition` (pass `decompose-preserved`).
    """

    operator: str
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class PartitionSummary:
    """What a cost model sees of a partition: its operations in order, and the bytes of the tensors that go in and out
    (upper bounds of dynamic dims, 0 for unbounded ones); constants do not count.
    """

    ops: tuple[Operation, ...]
    input_bytes: int
    output_bytes: int
    constant_bytes: int


@dataclass(frozen=True)
class Proposal:
    """What a backend with code of its own for partitioning wants of a block.

    ``partitions`` are the operations of each, ``options`` the options under which they are lowered, ``reasons`` why it
    leaves others. ``own_options`` are the options of each partition, for a backend that does not lower all of them in
    one way; left empty, it is ``options`` for all.
    """

    partitions: tuple[tuple[Operation, ...], ...]
    options: Any
    reasons: Mapping[Operation, str] = field(default_factory=dict[Operation, str])
    own_options: tuple[Any, ...] = ()

    def by_options(self) -> list[Proposal]:
        """A proposal for each of the options, in the order of their first partitions; the reasons are the first's."""
        found: dict[Any, list[tuple[Operation, ...]]] = {}
        for partition, options in zip(
            self.partitions, self.own_options or (self.options,) * len(self.partitions), strict=True
        ):
            found.setdefault(options, []).append(partition)
        parts = [Proposal(tuple(partitions), options) for options, partitions in found.items()]
        first = parts[0] if parts else Proposal((), self.options)
        return [replace(first, reasons=self.reasons), *parts[1:]]


@dataclass(frozen=True)
class Outlined:
    """An outlined function and what it refers to: symbols of its module, ranges of its dims."""

    ctx: EtContext
    module: ModuleOp
    func: FuncOp
    symbols: Mapping[str, Operation]
    """Weights, states and functions of the module by name."""

    @property
    def name(self) -> str:
        """The function's name, unique in the module: ``forward_xnnpack_0``."""
        return self.func.sym_name.data

    @property
    def ranges(self) -> dict[str, tuple[int, int | None]]:
        """Least and greatest value of every symbolic dim (None: unbounded)."""
        return {op.sym_name.data: op.range for op in self.module.body.block.ops if isinstance(op, DimOp)}

    @property
    def result(self) -> ReturnOp:
        """The function's return operation."""
        last = self.func.body.block.last_op
        assert isinstance(last, ReturnOp)
        return last

    def weight(self, symbol: str) -> Blob:
        """The bytes of a weight, row-major in its type's dim order. Raises E0201 when they are not loaded, E1111 for a
        symbol that is no weight.
        """
        op = self.symbols.get(symbol)
        if not isinstance(op, WeightOp) or not isinstance(op.type, TensorType):
            raise E1111.error(f"there is no weight @{symbol} for @{self.name}")
        return payload_of(op.value, op.type)

    def initial_state(self, symbol: str) -> Blob | None:
        """The initial bytes of a mutable buffer, None for one that starts undefined."""
        op = self.symbols.get(symbol)
        if not isinstance(op, StateOp) or not isinstance(op.type, TensorType):
            raise E1111.error(f"there is no state @{symbol} for @{self.name}")
        return None if op.value is None else payload_of(op.value, op.type)


ALLOWED_AFTER_LEGALIZATION: tuple[type[Operation], ...] = (
    GetWeightOp,
    ConstantOp,
    SymConstantOp,
    NoneOp,
    ReadStateOp,
    WriteStateOp,
    ReturnOp,
)
"""What may stand in a legalized function beside the backend's own dialect."""


class Backend(ABC):
    """A backend. Class attributes say what it is; methods with a body have a default that many backends keep.

    ``Options`` is a frozen dataclass whose fields (``int``, ``float``, ``bool``, ``str``, ``tuple[...]``,
    ``Literal[...]``, ``X | None``, all with defaults) are the compile options; every method is given an instance.
    """

    name: ClassVar[str]
    """What users call it: ``xnnpack``."""
    runtime_id: ClassVar[str]
    """What the file and the runtime call it: ``XnnpackBackend``."""
    version: ClassVar[str]
    """The version of its blobs."""
    Options: ClassVar[type[Any]] = NoOptions
    dialect_name: ClassVar[str] = ""
    """The name of its dialect, empty when it has none."""
    owns_state: ClassVar[bool] = False
    """Whether a delegate can hold mutable buffers (used when `partition{own-state}` asks for it)."""
    computes_on_int8: ClassVar[bool] = False
    """Whether it computes on activations of int8 from -128 to 127 between quantize and dequantize operators: those in
    other forms of 8 bits are brought to this one before it is asked (`normalize-quantization`).
    """
    leaves_integers: ClassVar[bool] = False
    """Whether it has no form of what is computed on integers: in a program whose delegates are all of this kind, the
    target's kernels for integers take what they can before any of them is asked (`fuse-quantized`).
    """
    contiguous_boundary: ClassVar[bool] = False
    """Whether tensors cross the boundary in the default dim order only: outlining then puts copies around the call, and
    the inverse copies into the function."""
    more_memory: ClassVar[str] = ""
    bounded_memory: ClassVar[str] = ""
    """What a user writes so that :meth:`keeps_memory` says ``no``, and ``always``."""
    sizes_inside: ClassVar[bool] = False
    """Whether runtime scalars that are sizes of an operator's own tensors are computed in the function, so that the
    delegate is given tensors alone."""

    def repeats(self, op: Operation) -> bool:
        """Whether an operation that reads nothing of its partition is rather done again in each partition that reads
        it than handed from one delegate to another (:mod:`etir.passes.delegation.repeated`).
        """
        return False

    def prepare(self, program: ExportedProgram, options: Any) -> ExportedProgram:
        """What the user's program is before anything else happens to it, for a backend that rewrites it; called for
        each method, in the order of preference. By default the program itself.
        """
        return program

    # --- what it can claim ------------------------------------------------------------------------------------------

    def runtime_id_of(self, options: Any) -> str:
        """:attr:`runtime_id`, for a backend whose options decide."""
        return self.runtime_id

    @abstractmethod
    def rows(self, options: Any) -> Sequence[Row]:
        """What the backend claims, larger patterns or smaller ones in any order. Asked once per options."""

    def quantization_rows(self, options: Any) -> Sequence[QuantizedRow]:
        """What the backend computes on int8: the only source of what is quantized for it."""
        return ()

    def preserved_ops(self, options: Any) -> Sequence[PreservedOp]:
        """Operators that decomposition preserves where the backend would claim them."""
        return ()

    def preserves(self, op: Operation, options: Any) -> bool | None:
        """Whether decomposition preserves one operation; None (default) lets :meth:`preserved_ops` decide."""
        return None

    def propose(self, module: ModuleOp, block: Block, options: Any) -> Proposal | None:
        """The partitions of a block, for a backend that has its own way to find them; None (default) lets the rows
        decide. Operations that backends of a higher preference have are removed from what is proposed, and what cannot
        be run in one piece then is cut.
        """
        return None

    def decline(self, partition: PartitionSummary, options: Any) -> str | None:
        """The cost model: why the backend would rather not have a partition that it can run, or None.

        The operations of a declined partition go to the next backend, then to the target's kernels.
        """
        return None

    def keeps_memory(self, options: Any) -> Literal["no", "mostly", "always"]:
        """Whether a program may need no more planned and temporary memory with the backend's delegates than without:
        operators are left to the kernels until that is so. ``mostly`` asks for that where most of the work stays with
        the delegates, and lets those be that were left to the kernels as a whole, since no code could be made of them.
        :attr:`more_memory` and :attr:`bounded_memory` name the options that say otherwise.
        """
        return "no"

    # --- what it makes of it ----------------------------------------------------------------------------------------

    def dialect(self) -> Dialect | None:
        """The backend's dialect, named :attr:`dialect_name`; registered in every context that reads or makes it."""
        return None

    def dialects(self) -> tuple[Dialect, ...]:
        """:meth:`dialect`, and those of levels after it, for a backend that has more."""
        dialect = self.dialect()
        return () if dialect is None else (dialect,)

    def patterns(self, outlined: Outlined, options: Any) -> Sequence[Pattern]:
        """The rewrites from edge operators into the dialect, for the default :meth:`legalize`."""
        return ()

    def legalize(self, outlined: Outlined, options: Any) -> None:
        """Rewrite ``outlined.func`` in place into the backend's dialect.

        By default with :meth:`patterns`, after which nothing but the dialect and
        :data:`ALLOWED_AFTER_LEGALIZATION` may be left: raises E1106 for every operation that is. A backend without a
        dialect keeps the edge operators as they are. The function's arguments and results keep their types.
        """
        if not self.dialect_name:
            return
        apply_patterns_greedily(outlined.ctx, outlined.func, self.patterns(outlined, options))
        self.check_legal(outlined)

    def check_legal(self, outlined: Outlined) -> None:
        """Raise E1106 for what is left in a function that should be in the backend's dialect."""
        problems: list[Diagnostic] = []
        for op in outlined.func.body.block.ops:
            if not op.name.startswith(f"{self.dialect_name}.") and not isinstance(op, ALLOWED_AFTER_LEGALIZATION):
                message = f"'{op.name}' in @{outlined.name} was given to '{self.name}', which has no form of it"
                problems.append(E1106.diagnostic(message, source_location(op.location)))
        raise_if_errors(problems)

    @abstractmethod
    def preprocess(self, outlined: Outlined, options: Any) -> Artifact:
        """The bytes of a legalized function. The same function, weights and options give the same bytes."""

    def preprocess_all(self, functions: Sequence[tuple[str, Outlined, Any]]) -> list[Artifact]:
        """The bytes of all functions that the backend has in a program, in order, for one that lets them share: each
        with the name of the method that calls it and its options. By default every one on its own.
        """
        return [self.preprocess(outlined, options) for _, outlined, options in functions]

    def inside(self, outlined: Outlined, options: Any) -> Sequence[InsideLowering]:
        """The passes in :meth:`preprocess`; by default none, for a backend that writes a function as it stands."""
        return ()

    def event_nodes(self, func: FuncOp, options: Any) -> list[list[Operation]]:
        """The operations of a legalized function that each event of its runtime half is of, in the order of execution.

        By default everything that takes operands; events of the runtime that have a number name one by its place.
        """
        ops = func.body.block.ops
        return [[op] for op in ops if op.operands and not isinstance(op, (ReturnOp, WriteStateOp))]

    def arguments(self, blob: bytes | memoryview) -> PayloadArguments | None:
        """What calls with the blob are given, so that text which lets an output overwrite an input is refused (E1113).

        By default None, for a backend that does not say: then no compile spec may let arguments share memory. Raises
        what :meth:`disassemble` does.
        """
        return None

    def disassemble(self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview]) -> str:
        """The blob as text for a reader, constants by digest and size. Raises E1103 for a blob of another version and
        E1108 for one that is damaged; the default says how many bytes there are.
        """
        return f"{len(blob)} bytes of '{self.runtime_id}', which has no disassembler\n"

    def as_function(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], name: str
    ) -> tuple[FuncOp, tuple[str, ...]] | None:
        """The blob as a function called ``name`` in the backend's dialect, and the keys of the named data whose bytes
        are in it now; :meth:`preprocess` makes a blob of it that does the same. None (default) where there is no such
        form. Raises what :meth:`disassemble` does.
        """
        return None

    def lift(
        self,
        blob: bytes | memoryview,
        named_data: Mapping[str, bytes | memoryview],
        builder: Builder,
        inputs: Sequence[SSAValue],
    ) -> list[SSAValue] | None:
        """What the blob computes from ``inputs`` as edge operators that ``builder`` makes: its outputs. None (default)
        where the backend does not know. Raises what :meth:`disassemble` does, and E1108 for a part without operators.
        """
        return None

    def kernels(self, blob: bytes | memoryview) -> tuple[str, ...]:
        """The operators of etir's runtime that a blob calls: a selective build needs them besides the program's."""
        return ()

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        """A function that runs a blob in the interpreter, or None when there is no such way.

        It takes the arguments of the call (inputs, then what the outputs hold before), as ``evaluator``'s tensors and
        as numbers, and returns the outputs. It keeps the mutable buffers that the delegate owns between calls.
        """
        return None

    def watched(
        self,
        blob: bytes | memoryview,
        named_data: Mapping[str, bytes | memoryview],
        evaluator: Evaluator,
        watch: Callable[[int, Any], Any],
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        """As :meth:`executable`, but ``watch`` is told what every node of the blob gives first when it has been
        computed: its number in :meth:`event_nodes` and a tensor, of integers the numbers that they stand for. What it
        returns, unless None, takes the value's place. For tools that look for what is wrong inside of a delegate;
        None (default) where there is no such way.
        """
        return None

    def lowered_function(
        self, func: FuncOp, weight: Callable[[str], Any], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        """A function that runs an outlined ``func`` at a level of the backend's own in the interpreter, else None.

        It takes and returns ``evaluator``'s tensors; ``weight`` gives the one of a symbol of the module.
        """
        return None
