"""The inside of delegates: the program once more, with what its delegates compute as further outputs.

A runtime logs what goes into a delegate's call and what comes out of it. So the values in between become outputs of the
method: each is copied where the imported program computes it, and the program goes through the passes of its trace
again. Backends see what is tapped as results of their partitions, so that they do not fuse it into what comes after;
that is another program, with the same numbers if everything is right.
"""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import OpResult

from etir.devtools.comparison.findings import Row, Stage
from etir.devtools.comparison.levels import context, numbered, passes_of
from etir.devtools.comparison.reference import VIEWS
from etir.devtools.comparison.stages import Subject, raise_if_no_memory
from etir.devtools.trace.read import Trace
from etir.devtools.values.interpreted import Key, marks_of
from etir.devtools.values.recorded import Runtime
from etir.diagnostics import EtirError
from etir.dialects.aten import ops as aten
from etir.emit.to_pte import emit_program
from etir.passes.infra.manager import run_pipeline


def in_delegates(trace: Trace, subject: Subject) -> list[Key]:
    """The values that operations of the imported program compute inside of delegates, in order."""
    origins: dict[int, None] = {}
    for nodes in trace.delegates.values():
        for row in range(len(nodes)):
            origins |= dict.fromkeys(nodes.several("origins", row))
    found: list[Key] = []
    for key in subject.references[0].values:
        origin = trace.origin(key[0])
        if origin is None or origin.number not in origins or origin.op.count(".") < 2:
            continue
        if origin.op.split(".")[1].removesuffix("_copy") not in VIEWS and origin.method == subject.method:
            found.append(key)
    return sorted(found)


def tapped(module: ModuleOp, method: str, keys: list[Key]) -> list[Key]:
    """Add results of the method's operations to its outputs, as copies; returns those that there are.

    ``module`` is the imported program with origins. What branches and bodies of loops compute is no output of a method.
    """
    func = next(op for op in module.body.block.ops if isinstance(op, FuncOp) and op.sym_name.data == method)
    block = func.body.block
    wanted = dict.fromkeys(keys)
    found: dict[Key, OpResult] = {}
    for op in list(block.ops):
        for result in op.results:
            for mark in marks_of(result):
                key = (mark.origin, mark.result)
                if key in wanted and isinstance(result.type, TensorType):
                    found[key] = result
    end = block.last_op
    assert isinstance(end, ReturnOp)
    outputs = list(end.operands)
    for result in found.values():
        copy = aten.clone.default.make({"self": result}, [result.type])
        copy.location = result.owner.location
        block.insert_op_after(copy, result.owner)
        outputs.append(copy.results[0])
    end.detach()
    end.erase()
    last = ReturnOp(*outputs)
    last.location = func.location
    block.add_op(last)
    inputs = [argument.type for argument in block.args]
    func.properties["function_type"] = FunctionType.from_lists(inputs, [value.type for value in outputs])
    func.properties.pop("res_attrs", None)
    return list(found)


def tap_stage(name: str, runtime: Runtime, source: ModuleOp, trace: Trace, subject: Subject) -> Stage | None:
    """What the program's delegates compute on a runtime, beside the reference; None where there are no delegates.

    The first value that is wrong is wrong by itself: all that it is computed from is right.
    """
    keys = in_delegates(trace, subject)
    if not keys:
        return None
    stage = Stage(name)
    module = numbered(source, trace)
    keys = tapped(module, subject.method, keys)
    rows: dict[Key, Row] = {}
    for key in keys:
        dtype = subject.references[0].dtypes.get(key, "float32")
        what = f"{subject.links.operator(key)} ({subject.links.name(key)})"
        limit = subject.allowed(dtype, through_steps=True)
        rows[key] = Row(what, subject.links.where(key), key[0], allowed=limit)
    try:
        run_pipeline(context(), module, passes_of(trace))
        data = emit_program(module).pte()
        for inputs, reference in zip(subject.samples, subject.references, strict=True):
            outputs = runtime(data, subject.method, inputs).outputs
            for key, got in zip(keys, outputs[len(outputs) - len(keys) :], strict=True):
                wanted = reference.values.get(key)
                if wanted and key[0] not in reference.random:
                    rows[key].add(subject.error(reference, key, wanted[-1], got), None)
    except EtirError as error:
        raise_if_no_memory(error)
        stage.failure = f"not run: {error.diagnostics[0].message}"
        return stage
    stage.rows = list(rows.values())
    first = next((r for r in stage.rows if r.accumulated is not None and not r.accumulated <= r.allowed), None)
    if first is not None:
        first.local = first.accumulated
    stage.compared, stage.total = sum(r.accumulated is not None for r in stage.rows), len(rows)
    return stage
