"""What the reference delegate declares, and how an outlined function becomes its blob."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from etir.backends.api.interface import Artifact, Backend, InsideLowering, Outlined, PayloadArguments
from etir.backends.api.patterns import ANY, Condition, Match, Row, operator_of
from etir.backends.api.patterns import op as node
from etir.backends.reference.blob import VERSION, read_blob
from etir.dialects.edge.base import EdgeOp
from etir.dialects.sym.ops import ConstantOp as SymConstantOp

if TYPE_CHECKING:
    from etir.interpret.evaluator import Evaluator

TARGET = "etir"


@dataclass(frozen=True)
class ReferenceOptions:
    """``only`` names the operators to claim (default: all with a kernel), ``leave`` operators to reject."""

    only: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()


def _has_kernel(match: Match) -> str | None:
    from etir.dialects.aten.table import load_table, out_variant
    from etir.lowering.to_out_variant.calls import PRIMITIVES
    from etir.passes.backend.verify_link import call_failure
    from etir.targets.manifest import load

    op = match.op
    name = op.SCHEMA.op_name
    if name in PRIMITIVES:
        return "it returns a scalar, which stays in the method"
    if not isinstance(op, EdgeOp):
        return "it is not at the edge level"
    if any(not isinstance(v.type, TensorType) and not isinstance(v.owner, SymConstantOp) for v in op.operands):
        return "it takes a runtime scalar, which stays in the method"
    manifest = load(TARGET)
    schema = out_variant(name) if name in load_table() else manifest.out_variant(op.SCHEMA)
    if schema is None:
        return "it has no out variant"
    if manifest.lookup(schema.qualified_name) is None:
        return f"the runtime has no kernel '{schema.qualified_name}'"
    # A kernel that takes contiguous tensors only gets copies, as it does outside of a delegate.
    failure = call_failure(manifest, op, schema)
    return None if failure is None else call_failure(manifest, op, schema, contiguous=True)


class ReferenceBackend(Backend):
    """Runs outlined functions by etir's own kernels."""

    name = "reference"
    runtime_id = "EtirReferenceBackend"
    version = str(VERSION)
    Options = ReferenceOptions
    owns_state = True

    def rows(self, options: ReferenceOptions) -> Sequence[Row]:
        """Every operator that the runtime has a kernel for."""

        def chosen(match: Match) -> str | None:
            name = operator_of(match.op)
            if options.only and name not in options.only:
                return "rejected by option 'only'"
            return "rejected by option 'leave'" if name in options.leave else None

        conditions = (
            Condition("named by the options", chosen),
            Condition("etir's runtime has a kernel that takes the call", _has_kernel),
        )
        return [Row(node(ANY), conditions, "any operator")]

    def preserves(self, op: Operation, options: ReferenceOptions) -> bool | None:
        """What has one kernel on the target has one in the delegate, which then gives the same bits."""
        from etir.lowering.decompose_aten.preserved import PreservedOps

        return PreservedOps(TARGET, ()).preserves(op)

    def preprocess(self, outlined: Outlined, options: ReferenceOptions) -> Artifact:
        """Compile the function as a program of its own."""
        from etir.backends.reference.lowered import LoweredFunction

        lowered = LoweredFunction(outlined)
        lowered.plan()
        return lowered.artifact()

    def inside(self, outlined: Outlined, options: ReferenceOptions) -> Sequence[InsideLowering]:
        """The pipeline after the edge level."""
        from etir.backends.reference.lowered import ORDER, PASSES, PLAN, program_of

        return [InsideLowering(program_of(outlined), f"{PASSES},{ORDER},{PLAN}")]

    def kernels(self, blob: bytes | memoryview) -> tuple[str, ...]:
        """The operators of the program inside."""
        from etir.emit.pte.reader import read_pte

        plan = read_pte(read_blob(blob).program).execution_plan[0]
        return tuple(operator.full_name for operator in plan.operators)

    def arguments(self, blob: bytes | memoryview) -> PayloadArguments:
        """Those of the program inside."""
        from etir.emit.pte.reader import read_pte

        plan = read_pte(read_blob(blob).program).execution_plan[0]
        return PayloadArguments(len(plan.inputs), len(plan.outputs))

    def disassemble(self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview]) -> str:
        """The program inside, at the executable level."""
        from etir.dialects.text import print_module

        inside = read_blob(blob)
        return f"// version {VERSION}, {inside.temp_bytes} bytes of temporary memory\n" + print_module(
            _module(blob, named_data)
        )

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Interpret the program inside."""
        from etir.dialects.et.instructions import InputsOp
        from etir.interpret.interpreter import Interpreter

        module = _module(blob, named_data)
        count = next(len(op.arguments) for op in module.walk() if isinstance(op, InputsOp))
        interpreter = Interpreter(module, evaluator)
        return lambda arguments: interpreter.run(arguments[:count])


def _module(blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview]) -> ModuleOp:
    """The program inside. A delegate around this one gives the weights that it keeps for it as named data."""
    from etir.emit.from_pte import read_program
    from etir.emit.ptd.model import FlatTensor, NamedTensor

    outside = FlatTensor({key: NamedTensor(data) for key, data in named_data.items()})
    return read_program(read_blob(blob).program, {"named": outside})


BACKEND = ReferenceBackend()
