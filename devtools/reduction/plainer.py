"""What takes nothing away from a program but what one has to read: outputs, the values of weights, names of places."""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, TensorType, UnknownLoc
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument

from etir.devtools.reduction.candidate import Candidate, function_of
from etir.dialects.et.program import WeightOp
from etir.dialects.et.weights import SyntheticAttr


def without_outputs(candidate: Candidate, method: str) -> list[Candidate]:
    """One output instead of several, the last one first."""
    func = function_of(candidate.module, method)
    assert func is not None
    count = len(func.function_type.outputs)
    made: list[Candidate] = []
    for index in reversed(range(count if count > 1 else 0)):
        module = candidate.module.clone()
        copy = function_of(module, method)
        assert copy is not None
        last = copy.body.block.last_op
        assert last is not None
        value = last.operands[index]
        last.detach()
        last.erase()
        copy.body.block.add_op(ReturnOp(value))
        inputs = [argument.type for argument in copy.body.block.args]
        copy.properties["function_type"] = FunctionType.from_lists(inputs, [value.type])
        copy.properties.pop("res_attrs", None)
        made.append(Candidate(module, candidate.samples))
    return made


def with_synthetic_weights(candidate: Candidate, method: str) -> list[Candidate]:
    """All weights made from seeds."""
    module = candidate.module.clone()
    for seed, op in enumerate(op for op in module.body.block.ops if isinstance(op, WeightOp)):
        if isinstance(op.type, TensorType):
            op.properties["value"] = SyntheticAttr(seed + 1)
    return [Candidate(module, candidate.samples)]


def without_places(candidate: Candidate, method: str) -> list[Candidate]:
    """No names of files and modules."""
    module = candidate.module.clone()
    for op in module.walk():
        op.location = UnknownLoc()
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    assert isinstance(argument, BlockArgument)
                    argument.location = UnknownLoc()
    return [Candidate(module, candidate.samples)]
