"""What the payload of a delegate allows of the memory of its arguments.

A payload reads its inputs while it writes its outputs, so that an output may be in an input's memory only where the
payload was made for that. Text can say it of others: two arguments of a call may be one tensor, and compile specs
(:mod:`etir.dialects.et.workspace`) can be edited. So nothing is believed that stands beside the payload. Its backend
says how many inputs and outputs it takes and for which specs it was made (``Backend.arguments``); what else shares
memory is E1113. A backend that does not say so has no arguments in common memory. Of a payload whose backend is not
installed, or whose bytes are not there, nothing is known but that inputs and outputs of different buffers are apart:
neither can it be run here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.traits import SymbolTable

from etir.backends.api.interface import Backend, PayloadArguments
from etir.backends.api.registry import backend_of_runtime_id
from etir.backends.errors import E1113
from etir.diagnostics import Diagnostic
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import DelegateCallOp
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.values import BufferOp
from etir.dialects.et.workspace import memory_digest, over_of, workspace_of
from etir.dialects.text import source_location
from etir.passes.analysis.memory_effects import storage_of
from etir.passes.analysis.uninitialized import overlap


def safe_pairs(delegate: DelegateOp) -> tuple[tuple[int, int], ...]:
    """The inputs and outputs of a delegate, by number, that may be one memory: what its payload was made for."""
    pairs = over_of(delegate.compile_specs)
    if not pairs or spec_problem(delegate) is not None:
        return ()
    known = _payload(delegate)[1]
    return () if known is None else tuple(p for p in pairs if p[0] < known.inputs and p[1] < known.outputs)


def spec_problem(delegate: DelegateOp) -> Diagnostic | None:
    """Why the compile specs that say where arguments may be are not to be believed; None where they are."""
    specs = delegate.compile_specs
    backend, known = _payload(delegate) if _says_memory(delegate) else (None, None)
    if backend is None:
        return None
    if known is None:
        why = f"a payload of '{backend.name}' does not say where its arguments may be"
    elif known.memory != memory_digest(specs):
        why = "its payload was made for other ones"
    else:
        return None
    said = ", ".join(f"{key} = '{data.decode('utf-8', 'replace')}'" for key, data in specs)
    message = f"the compile specs of @{delegate.sym_name.data} say {said}; {why}"
    return E1113.diagnostic(message, source_location(delegate.location))


def argument_problems(method: MethodOp) -> Iterator[Diagnostic]:
    """The compile specs that are not to be believed, and what the calls of a method let a delegate overwrite (E1113).

    Arguments that lie in different buffers are left to the plan.
    """
    module = method.parent_op()
    seen: dict[str, None] = {}
    for op in method.instructions:
        delegate = SymbolTable.lookup_symbol(module, op.delegate) if isinstance(op, DelegateCallOp) and module else None
        if not isinstance(op, DelegateCallOp) or not isinstance(delegate, DelegateOp):
            continue
        if delegate.sym_name.data not in seen:
            seen[delegate.sym_name.data] = None
            found = spec_problem(delegate)
            if found is not None:
                yield found
                continue
        yield from _shared(op, delegate)


def _shared(op: DelegateCallOp, delegate: DelegateOp) -> Iterator[Diagnostic]:
    """Arguments of a call that have bytes of one buffer in common, which the delegate would overwrite too early."""
    together = [*_in_one_buffer(op.arguments)]
    if not together:
        return
    workspace = workspace_of(delegate.compile_specs)
    known = _payload(delegate)[1]
    if known is not None:
        inputs, outputs = known.inputs, known.outputs
    elif workspace is not None:
        inputs, outputs = len(workspace.inputs), len(workspace.outputs)
    else:
        return
    safe = safe_pairs(delegate)
    for one, other in together:
        if other < inputs:
            continue
        if (one, other - inputs) in safe and op.arguments[one] is op.arguments[other]:
            continue
        names = [_called(number, inputs, outputs) for number in (one, other)]
        buffer = storage_of(op.arguments[one])
        name = "a buffer" if buffer is None or buffer.result.name_hint is None else f"%{buffer.result.name_hint}"
        yield E1113.diagnostic(
            f"{names[0]} and {names[1]} of @{delegate.sym_name.data} have bytes of {name} in common, and the payload "
            "does not allow that: it may write one while it needs the other",
            source_location(op.location),
        )


def _in_one_buffer(arguments: Sequence[SSAValue]) -> Iterator[tuple[int, int]]:
    """Pairs of arguments, by number, that have bytes in common."""
    held: dict[BufferOp, list[int]] = {}
    for number, value in enumerate(arguments):
        buffer = storage_of(value) if isinstance(value.type, TensorType) else None
        if buffer is not None:
            held.setdefault(buffer, []).append(number)
    for numbers in held.values():
        for one, other in combinations(numbers, 2):
            if overlap(arguments[one], arguments[other]):
                yield one, other


def _called(number: int, inputs: int, outputs: int) -> str:
    if number < inputs:
        return f"input {number}"
    return f"output {number - inputs}" if number < inputs + outputs else "the workspace"


def _says_memory(delegate: DelegateOp) -> bool:
    specs = delegate.compile_specs
    return workspace_of(specs) is not None or bool(over_of(specs))


def _payload(delegate: DelegateOp) -> tuple[Backend | None, PayloadArguments | None]:
    """The backend of a payload and what it says of it; none where it is not installed or the bytes are not there."""
    backend = backend_of_runtime_id(delegate.backend.data)
    if backend is None or not delegate.value.data.has_data:
        return None, None
    return backend, backend.arguments(delegate.value.data.data)
