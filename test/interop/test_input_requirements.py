"""What a program requires of its inputs is checked when it is called, on every executor.

Every row is a function, the dims that vary, shapes that the program takes, and shapes that it does not, each with words
of the message. Shapes that it takes give eager's results; torch's own exported program refuses the others, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch.export import Dim  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.emit.pte.reader import read_pte  # noqa: E402
from etir.interpret.interpreter import Interpreter  # noqa: E402

from etir_testing.interop.program_runs import Function, assert_same, eager, f32, stock, trace  # noqa: E402

Shapes = tuple[tuple[int, ...], ...]
Row = tuple[Callable[..., Any], Any, list[Shapes], list[tuple[Shapes, str]]]

ROWS, MANY, BATCH = Dim("rows", max=8), Dim("many", min=4, max=16), Dim("batch", max=8)
K = Dim("k", min=1, max=6)

REQUIREMENTS: dict[str, Row] = {
    "a fixed dim beside a dynamic one": (
        lambda x: x * 2,
        ({0: ROWS},),
        [((3, 4),), ((8, 4),), ((2, 4),)],
        [(((4, 3),), "dim 1 of input 'args_0' is 4"), (((2, 8),), "dim 1 of input 'args_0' is 4")],
    ),
    "a dim that inputs share": (
        lambda x, y: torch.cat([x, y], 1),
        ({0: BATCH}, {0: BATCH}),
        [((3, 4), (3, 2)), ((8, 4), (8, 2))],
        [(((3, 4), (4, 2)), "'batch'")],
    ),
    "a least and a largest size": (
        lambda x, y: (x.sum(), y.sum()),
        ({0: MANY, 1: ROWS}, {0: MANY}),
        [((4, 3), (4,)), ((16, 8), (16,))],
        [(((3, 3), (3,)), "'many', at least 4"), (((17, 2), (17,)), "at most 16")],
    ),
    "sizes of the form 2 k + 1": (
        lambda x: x[1:].reshape(2, -1).sum(1),
        ({0: 2 * K + 1},),
        [((7,),), ((5,),), ((13,),)],
        [(((8,),), "dim 0 of input 'args_0'"), (((15,),), ""), (((3,),), "(-1 + args_0.size(0)) // 2 != 1")],
    ),
    "a size computed from another input's": (
        lambda x, y: x[1:] + y,
        ({0: K + 1}, {0: K}),
        [((5, 3), (4, 3)), ((3, 3), (2, 3))],
        [(((5, 3), (5, 3)), "dim 0 of input"), (((2, 3), (1, 3)), "-1 + args_0.size(0) != 1")],
    ),
    "divisibility that was found while tracing": (
        lambda x: x.reshape(-1, 4).sum(1),
        ({0: Dim.AUTO(max=40)},),
        [((8,),), ((12,),), ((40,),)],
        [(((9,),), "4"), (((14,),), "4")],
    ),
}


def inputs_of(shapes: Shapes) -> tuple[Any, ...]:
    return tuple(f32(*shape, seed=i) for i, shape in enumerate(shapes))


@pytest.mark.parametrize("name", list(REQUIREMENTS))
def test_requirements(name: str) -> None:
    function, dynamic, taken, refused = REQUIREMENTS[name]
    module = Function(function)
    program = torch.export.export(module, inputs_of(taken[0]), dynamic_shapes=(dynamic,))
    calls = [inputs_of(shapes) for shapes in taken]
    expected = eager(module, calls)
    interpreter = Interpreter(etir.import_program(program), "torch")
    assert_same(trace(interpreter.run, calls), expected, "interpreter", 1e-5)
    methods: dict[str, tuple[bytes, Any]] = {}
    for target in ("etir", "executorch"):
        data = etir.compile(program, target=target).buffer
        method = etir.runtime.load(data)["forward"]
        methods[target] = data, method
        assert_same(trace(lambda flat: method(*flat), calls), expected, f"etir's runtime, {target}", 1e-5)  # noqa: B023
    assert_same(stock(methods["executorch"][0], calls), expected, "stock runtime", 1e-5)
    for shapes, words in refused:
        inputs = inputs_of(shapes)
        with pytest.raises((AssertionError, RuntimeError)):
            program.module()(*inputs)
        with pytest.raises(EtirError) as found:
            interpreter.run(inputs)
        assert found.value.diagnostics[0].id.id == "E1002"
        with pytest.raises(EtirError) as found:
            methods["etir"][1](*inputs)
        assert found.value.diagnostics[0].id.id == "E1208"
        if found.value.check != "InputTooLarge":
            assert words in str(found.value)
        with pytest.raises(EtirError):
            methods["executorch"][1](*inputs)
        with pytest.raises(RuntimeError):
            stock(methods["executorch"][0], [inputs])
    # Calls that were refused have changed nothing.
    assert_same(trace(lambda flat: methods["etir"][1](*flat), calls), expected, "etir's runtime, again", 1e-5)


def test_numbers_from_data() -> None:
    """``torch._check`` on an item is checked, too."""

    def function(x: Any, n: Any) -> Any:
        count = n.item()
        torch._check(count >= 1)
        torch._check(count <= 4)
        return x[:count]

    module = Function(function)
    inputs = (f32(8, 3), torch.tensor(2))
    program = torch.export.export(module, inputs)
    for target in ("etir", "executorch"):
        data = etir.compile(program, target=target).buffer
        method = etir.runtime.load(data)["forward"]
        assert torch.as_tensor(method(*inputs)[0]).equal(inputs[0][:2])
        for count in (0, 5):
            with pytest.raises(EtirError):
                method(inputs[0], torch.tensor(count))
            if target == "executorch":
                with pytest.raises(RuntimeError):
                    stock(data, [(inputs[0], torch.tensor(count))])
    with pytest.raises(EtirError, match="E1002"):
        Interpreter(etir.import_program(program), "torch").run([inputs[0], torch.tensor(7)])


@pytest.mark.parametrize("target", ["etir", "executorch"])
def test_nothing_to_check_costs_nothing(target: str) -> None:
    """Programs of fixed shapes, and of one dynamic dim that runtimes compare anyway, have no further instruction."""
    for shape, dynamic in (((3, 4), None), ((3,), ({0: ROWS},))):
        program = torch.export.export(
            Function(lambda x: x * 2), inputs_of((shape,)), dynamic_shapes=None if dynamic is None else (dynamic,)
        )
        (plan,) = read_pte(etir.compile(program, target=target).buffer).execution_plan
        assert [len(chain.instructions) for chain in plan.chains] == [1]
