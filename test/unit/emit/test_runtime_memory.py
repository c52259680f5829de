"""The memory that the runtime takes, from a plan."""

from __future__ import annotations

from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model
from etir.emit.runtime_memory import memory_header, runtime_memory

_FLOAT = ScalarType.FLOAT


def _plan(**changes: object) -> model.ExecutionPlan:
    fixed = model.Tensor(_FLOAT, (2, 3), (0, 1), model.AllocationDetails(1, 0))
    moving = model.Tensor(
        _FLOAT, (4, 3), (0, 1), model.AllocationDetails(1, 32), shape_dynamism=model.TensorShapeDynamism.DYNAMIC_BOUND
    )
    fields: dict[str, object] = {
        "name": "forward",
        "values": (fixed, model.Int(1), moving, model.Null()),
        "inputs": (0,),
        "outputs": (2,),
        "chains": (model.Chain((model.KernelCall(0, (0, 1, 2, 2)),)),),
        "operators": (model.Operator("aten::sort", "values"),),
        "non_const_buffer_sizes": (0, 128, 16),
    }
    return model.ExecutionPlan(**(fields | changes))  # type: ignore[arg-type]


def test_method_memory_follows_the_formula() -> None:
    memory = runtime_memory(_plan(), {})
    assert memory.method == 9 * 4 + 32 * 2 + 16 + 4 * 2 + 1
    assert memory.method_32 == 9 * 4 + 20 * 2 + 8 + 4 * 2 + 1
    assert memory.planned == (128, 16)
    assert memory.temp == 0


def test_temp_memory_is_the_most_that_an_instruction_asks_for() -> None:
    rules = {
        "aten::sort.values": (("self", "dim", "out"), "8 * self.size(dim) + out.itemsize * ceil_div(out.numel, 5)")
    }
    assert runtime_memory(_plan(), rules).temp == 8 * 3 + 4 * 3
    assert runtime_memory(_plan(), {"aten::other.out": (("self",), "1000")}).temp == 0


def test_header() -> None:
    text = memory_header({"forward": runtime_memory(_plan(), {}), "a.b": runtime_memory(_plan(chains=()), {})})
    assert "#define ETIR_FORWARD_METHOD_BYTES (UINTPTR_MAX > 0xffffffffu ? 125 : 93)\n" in text
    assert "#define ETIR_FORWARD_PLANNED_SIZES 128, 16, \n" in text
    assert "#define ETIR_A_B_PLANNED_BYTES 144\n" in text
