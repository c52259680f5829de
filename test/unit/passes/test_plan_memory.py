"""Plans of random methods: valid, never larger than greedy's, and every seeded corruption is found."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.values import BufferOp
from etir.dialects.text import parse_module, print_module
from etir.passes.analysis.in_place import known_in_place_kernels
from etir.passes.analysis.memory_effects import memory_of, tensor_bytes
from etir.passes.infra.manager import run_pipeline


@st.composite
def methods(draw: st.DrawFn) -> str:
    """Additions over earlier values (views among them), with branches that write one buffer from both sides."""
    sizes = {"%x": 8}
    definitions = ["  %x = et.buffer : tensor<8xf32>", "  %p = et.scalar true"]
    body = ["  et.inputs %x, %p"]
    for index in range(draw(st.integers(1, 10))):
        operand = draw(st.sampled_from(list(sizes)))
        size, name = sizes[operand], f"%v{index}"
        kind = draw(st.sampled_from(["add", "grow", "view", "branch"]))
        if kind == "view":
            definitions.append(f"  {name} = et.view {operand} : tensor<{size // 4}x4xf32>")
            body.append(f'  et.call "aten::add.out"({name}, {name}, 1, {name}s) -> {name}s')
            definitions.append(f"  {name}s = et.buffer : tensor<{size // 4}x4xf32>")
            continue
        wide = size * 2 if kind == "grow" and size < 64 else size
        definitions.append(f"  {name} = et.buffer : tensor<{wide}xf32>")
        sizes[name] = wide
        if kind == "branch":
            body += [
                f"  et.jump_false %p, ^else{index}, ^then{index}",
                f"^then{index}:",
                f'  et.call "aten::neg.out"({operand}, {name}) -> {name}',
                f"  et.jump ^end{index}",
                f"^else{index}:",
                f'  et.call "aten::relu.out"({operand}, {name}) -> {name}',
                f"  et.next ^end{index}",
                f"^end{index}:",
            ]
        elif wide == size:
            other = draw(st.sampled_from([n for n, s in sizes.items() if s == size and n != name]))
            body.append(f'  et.call "aten::add.out"({operand}, {other}, 1, {name}) -> {name}')
        else:
            body.append(f'  et.call "aten::repeat.out"({operand}, ints[2], {name}) -> {name}')
    outputs = draw(st.lists(st.sampled_from(list(sizes)), min_size=1, max_size=2, unique=True))
    return "\n".join(["et.method @forward {", *definitions, *body, f"  et.return {', '.join(outputs)}", "}"])


def planned(text: str, algorithm: str) -> tuple[MethodOp, int]:
    """The method under a planner's plan, which verifies, and the size of its memory."""
    module = parse_module(text)
    run_pipeline(EtContext(), module, f"plan-memory{{algorithm={algorithm}}},verify-plan")
    method = module.body.block.first_op
    assert isinstance(method, MethodOp) and method.pool_sizes is not None
    return method, method.pool_sizes[1]


@settings(max_examples=60, deadline=None)
@given(methods())
def test_never_larger_than_greedy(text: str) -> None:
    """Every planner's plan verifies; the default takes the best of all; nothing beats the lower bound."""
    sizes = {name: planned(text, name)[1] for name in ("auto", "greedy", "best_fit", "naive")}
    assert sizes["auto"] <= sizes["greedy"] <= sizes["naive"]
    assert sizes["auto"] <= sizes["best_fit"]


@settings(max_examples=60, deadline=None)
@given(methods(), st.data())
def test_moved_buffers_are_found(text: str, data: st.DataObject) -> None:
    """A buffer that is moved onto one that is live with it is E0714, on the text as on the IR."""
    method, _ = planned(text, "auto")
    memory = memory_of(EtContext(), method, in_place=known_in_place_kernels())
    in_place = [sorted((share.operand, share.result)) for share in memory.problem.shares]
    buffers = [op for op in method.body.blocks[0].ops if isinstance(op, BufferOp)]
    live = {op: memory.problem.by_key[memory.keys[op]].live for op in buffers}
    pairs = [
        (a, b)
        for a in buffers
        for b in buffers
        if a is not b
        and sorted((memory.keys[a], memory.keys[b])) not in in_place
        and any(i[0] <= j[1] and j[0] <= i[1] for i in live[a] for j in live[b])
    ]
    assume(pairs)
    moved, target = data.draw(st.sampled_from(pairs))
    moved.place = target.place
    assert method.pool_sizes is not None and target.place is not None
    module = method.parent_op()
    fits = target.place[1] + tensor_bytes(moved.result.type) <= method.pool_sizes[1]
    again = parse_module(print_module(module))  # type: ignore[arg-type]
    try:
        run_pipeline(EtContext(), again, "verify-plan")
    except EtirError as error:
        assert ("E0714" if fits else "E0713") in error.ids
    else:
        raise AssertionError("the overlap was not found")
